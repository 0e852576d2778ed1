"""The Design protocol, its Storage extension for designs that hold numbers, and `as_design`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from ling._typing import Array
from ling.design.affine_map import AffineMap
from ling.design.arrays import FLOAT64_MAX, as_numeric_array
from ling.design.row_transform import AffineRowTransform, RowReduction, RowTransform
from ling.errors import NotFinite, WrongShape

if TYPE_CHECKING:
    from ling.design.quantized import QuantizedMatrix

# Bytes of the float64 block of rows that `map_rows` passes to its function in one call.
MAP_ROWS_BLOCK_BYTES = 2**25
# Bytes of the block of rows in one call of a RowReduction, including its workspace.
REDUCE_ROWS_BLOCK_BYTES = 2**23


class Design(ABC):
    """A real (n, p) matrix X that is accessed through products and blocks of rows only.

    Right-hand sides have shape (p,) or (p, k), and the result has as many dimensions. The dtype of
    the result is `numpy.result_type` of X and the right-hand side: float32 X times float32 V gives
    float32. float32 X times float64 V is accumulated in float64, without a converted copy of X.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @abstractmethod
    def matmat(self, V: Array) -> Array:
        """Return X V, of shape (n,) or (n, k); one pass."""

    @abstractmethod
    def rmatmat(self, U: Array) -> Array:
        """Return X' U, of shape (p,) or (p, k); one pass."""

    @abstractmethod
    def gram_matmat(self, V: Array, transform: RowTransform | None = None) -> Array:
        """Return X' transform(X V), of the shape of V; one pass.

        `transform` applies centring, weights or fold masks to U = X V; None leaves U unchanged. It
        is called once per block of rows, possibly from several threads at once, and may modify its
        argument in place and return it. An `AffineRowTransform` is the fastest.
        """

    @abstractmethod
    def gram(self, dtype: DTypeLike | None = None) -> Array:
        """Return X'X, (p, p), accumulated in `dtype` (default: the dtype of X); one pass."""

    @abstractmethod
    def row_gram(self, dtype: DTypeLike | None = None) -> Array:
        """Return X X', (n, n), the Gram matrix of the dual problem; one pass."""

    @property
    def row_gram_passes(self) -> float:
        """Number of passes over X that `row_gram` makes."""
        return 1.0

    @abstractmethod
    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return the given rows of X as a dense float64 array of shape (len(rows), p)."""

    @abstractmethod
    def subset(self, rows: NDArray[np.intp]) -> Design:
        """Return the design of the given rows of X; rows that are not contiguous are copied."""

    def map_rows(self, function: Callable[[Array], Array]) -> Array:
        """Apply `function` to dense float64 blocks of rows and concatenate the results; one pass.

        `function` returns an array with as many rows as the block it is given.
        """
        n, p = self.shape
        height = max(256, MAP_ROWS_BLOCK_BYTES // (8 * max(1, p)))
        parts = [np.arange(a, min(a + height, n)) for a in range(0, max(n, 1), height)]
        return np.concatenate([function(self.take(rows)) for rows in parts])

    def reduce_rows(self, sums: RowReduction) -> tuple[Array, ...]:
        """Return the arrays of `sums`, added up over all rows of X; one pass."""
        n, p = self.shape
        height = max(
            sums.min_block_rows, REDUCE_ROWS_BLOCK_BYTES // (8 * (p + sums.workspace_per_row))
        )
        total: tuple[Array, ...] = ()
        for first in range(0, max(n, 1), height):
            rows = np.arange(first, min(first + height, n))
            block_sums = sums.take_rows(slice(first, first + height))(self.take(rows))
            for running, addend in zip(total, block_sums, strict=bool(total)):
                running += addend
            total = total or block_sums
        return total

    @property
    @abstractmethod
    def matvec_flops(self) -> float:
        """FLOPs of X v, counting 2 per multiply-add."""

    @property
    @abstractmethod
    def gram_flops(self) -> float:
        """FLOPs of one triangle of X'X."""

    @property
    @abstractmethod
    def row_gram_flops(self) -> float:
        """FLOPs of one triangle of X X'."""

    def predictions(
        self, V: Array, constant: Any, finish: Callable[[Array], Any] | None = None
    ) -> Any:
        """Return finish(X V + constant), computed in the dtype of X; one pass.

        `finish` is the identity if it is None.
        """
        predicted = (self.matmat(V) + constant).astype(self.dtype, copy=False)
        return predicted if finish is None else finish(predicted)

    # `scipy.sparse.linalg.aslinearoperator`, and therefore lsmr, requires these two names.
    def matvec(self, v: Array) -> Array:
        """Return X v, (n,); one pass."""
        return self.matmat(v)

    def rmatvec(self, u: Array) -> Array:
        """Return X' u, (p,); one pass."""
        return self.rmatmat(u)

    def __repr__(self) -> str:
        n, p = self.shape
        return f"{type(self).__name__}({n} x {p}, {self.dtype})"

    def _check_right_operand(self, V: Array) -> tuple[Array, np.dtype[Any]]:
        """Check the shape of V for X V; return V and the dtype to compute in."""
        return self._check_operand(V, "V", 1, "n_features")

    def _check_left_operand(self, U: Array) -> tuple[Array, np.dtype[Any]]:
        """Check the shape of U for X'U; return U and the dtype to compute in."""
        return self._check_operand(U, "U", 0, "n_samples")

    def _check_affine_transform(
        self, V: Array, transform: RowTransform | None
    ) -> AffineRowTransform | None:
        """Return `transform` if it is an AffineRowTransform, else None.

        Compiled loops can apply only that type. Raises WrongShape if its arrays do not
        match X and V.
        """
        if not isinstance(transform, AffineRowTransform):
            return None
        n, columns = self.shape[0], 1 if V.ndim == 1 else V.shape[1]
        shift = transform.shift
        fits = transform.scale.shape == transform.post.shape == (n,) == shift.shape[:1]
        if not fits or shift.size != n * columns:
            shapes = [array.shape for array in transform.row_arrays().values()]
            raise WrongShape(
                f"the AffineRowTransform has arrays of shape {shapes} and V has shape {V.shape}; "
                f"pass ({n},) for scale and post, and ({n}, n_columns) for shift."
            )
        return transform

    def _check_operand(
        self, A: Array, name: str, axis: int, rows: str
    ) -> tuple[Array, np.dtype[Any]]:
        A = as_numeric_array(A, name)
        if A.ndim not in (1, 2) or A.shape[0] != self.shape[axis]:
            raise WrongShape(
                f"{name} has shape {A.shape}; this design has shape {self.shape}, so pass "
                f"({rows},) = ({self.shape[axis]},) or ({rows}, k) = ({self.shape[axis]}, k)."
            )
        dtype = np.result_type(self.dtype, A.dtype)
        return A.astype(dtype, copy=False), dtype


class Storage(Design):
    """A design that holds the numbers of X itself, rather than wrapping another design."""

    @property
    @abstractmethod
    def n_stored(self) -> int:
        """Number of entries that are stored, and read in one pass."""

    @property
    def is_dense(self) -> bool:
        """Whether all n p entries are stored, including zeros."""
        return True

    @property
    def centers_rows(self) -> bool:
        """Whether Gram matrices are formed from centred rows, which avoids cancellation.

        Otherwise column means that are large compared with the spread lose digits.
        """
        return True

    @property
    def max_compiled_columns(self) -> int:
        """Largest number of columns of V for which a compiled loop forms X'(X V)."""
        return 1

    #: Names of the columns of X; None if they have no names.
    feature_names: tuple[str, ...] | None = None
    #: How the columns of a table were encoded as the columns of X; None if there was no table.
    encoding: Any = None
    #: Bytes of X in memory that count towards the memory use of the fit.
    resident_bytes: float = 0.0
    #: Bytes of one block of rows; infinite if X is not stored in blocks.
    block_bytes: float = np.inf
    #: Bytes per second at which X is read; None if X is in memory.
    read_bandwidth: float | None = None
    #: Remarks for the report of the fit about how X was opened.
    notes: tuple[str, ...] = ()

    @property
    def is_out_of_core(self) -> bool:
        """Whether X is stored in blocks of rows, on disk or on other machines.

        Every operation is then run block by block, where the block is stored.
        """
        return False

    def affine_gram_matmat(
        self, affine: AffineMap, V: Array, transform: RowTransform | None
    ) -> Array:
        """Return X~' transform(X~ V) for X~ = affine(X); only if `is_out_of_core`."""
        raise NotImplementedError

    def affine_map_rows(self, affine: AffineMap, function: Callable[[Array], Array]) -> Array:
        """Apply `function` to blocks of rows of X~ and concatenate; only if `is_out_of_core`."""
        raise NotImplementedError

    def affine_reduce_rows(self, affine: AffineMap, sums: RowReduction) -> tuple[Array, ...]:
        """Return the arrays of `sums`, added up over all rows of X~; only if `is_out_of_core`."""
        raise NotImplementedError

    @property
    def has_row_access(self) -> bool:
        """Whether single rows can be read cheaply."""
        return self.is_dense

    @abstractmethod
    def affine_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return X~'X~, (p, p), for X~ = affine(X); one pass, without a copy of X."""

    @abstractmethod
    def affine_row_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return X~X~', (n, n), for X~ = affine(X); one pass."""

    @abstractmethod
    def affine_gram_flops(self, affine: AffineMap) -> float:
        """FLOPs of X~'X~."""

    @abstractmethod
    def affine_row_gram_flops(self, affine: AffineMap) -> float:
        """FLOPs of X~X~'."""

    @abstractmethod
    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Return the column sums of weights x, X'U, and the column sums of weights x^2; one pass.

        The shapes are (p,), (p, k) and (p,), in float64. `weights` of None means weights of 1.
        """

    def can_quantize(self, affine: AffineMap) -> bool:
        """Whether affine(X) can be quantised to 16-bit integers, which makes passes faster."""
        return False

    def quantize(self, affine: AffineMap, column_scales: Array) -> QuantizedMatrix:
        """Return affine(X) quantised to 16-bit integers.

        `column_scales`, (p,), are positive and about the magnitude of the entries of each column.
        """
        raise NotImplementedError

    @abstractmethod
    def find_nonfinite(self, limit: float = FLOAT64_MAX) -> tuple[int, int] | None:
        """Return (row, column) of the first entry that is NaN or exceeds `limit` in magnitude."""

    def check_finite(self, limit: float = FLOAT64_MAX, first: int = 0) -> None:
        """Raise NotFinite, naming the first entry that is NaN or exceeds `limit` in magnitude.

        The message numbers rows from `first` on. Nothing is raised if all entries are finite.
        """
        position = self.find_nonfinite(limit)
        if position is None:
            return
        i, j = position[0] + first, position[1]
        name = "" if self.feature_names is None else f" ({self.feature_names[j]})"
        raise NotFinite(
            f"Input X contains NaN, infinity or a value too large for dtype('float64'): row {i}, "
            f"column {j}{name}. Drop or fill such rows (SimpleImputer), or divide X by a constant."
        )

    def gram(self, dtype: DTypeLike | None = None) -> Array:
        """Return X'X, (p, p); one pass."""
        return self.affine_gram(AffineMap(), dtype)

    def row_gram(self, dtype: DTypeLike | None = None) -> Array:
        """Return X X', (n, n); one pass."""
        return self.affine_row_gram(AffineMap(), dtype)

    @property
    def gram_flops(self) -> float:
        """FLOPs of one triangle of X'X."""
        return self.affine_gram_flops(AffineMap())

    @property
    def row_gram_flops(self) -> float:
        """FLOPs of one triangle of X X'."""
        return self.affine_row_gram_flops(AffineMap())


class DenseDefaults(Storage):
    """Default counts of entries and FLOPs for storages that hold all n p entries."""

    @property
    def n_stored(self) -> int:
        """Number of stored entries: n p."""
        return self.shape[0] * self.shape[1]

    @property
    def matvec_flops(self) -> float:
        """FLOPs of X v: 2 n p."""
        n, p = self.shape
        return 2.0 * n * p

    def affine_gram_flops(self, affine: AffineMap) -> float:
        """FLOPs of X~'X~: n p (p + 1), plus n p per scale and 2 n p per rank for the map."""
        n, p = self.shape
        return float(n) * p * (p + 1 + affine.n_scales + 2 * affine.rank)

    def affine_row_gram_flops(self, affine: AffineMap) -> float:
        """FLOPs of X~X~': p n (n + 1), plus n p per scale and 2 n p per rank for the map."""
        n, p = self.shape
        return float(n) * p * (n + 1 + affine.n_scales + 2 * affine.rank)


def as_design(X: Any) -> Design:
    """Return the Design of an array or a SciPy sparse matrix; a Design is returned unchanged.

    Nothing is copied, except that sparse formats other than CSR are converted to CSR once.

    Parameters
    ----------
    X : array, sparse matrix or Design of shape (n, p)

    Returns
    -------
    Design

    Examples
    --------
    >>> import numpy as np
    >>> as_design(np.ones((3, 2)))
    DenseStorage(3 x 2, float64)
    """
    # Imported here to avoid a circular import: each storage module imports this one.
    from ling.design.dense import DenseStorage
    from ling.design.sparse import SparseStorage

    if isinstance(X, Design):
        return X
    if sparse.issparse(X):
        return SparseStorage(X)
    return DenseStorage(as_numeric_array(X, "X"))
