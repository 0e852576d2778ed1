"""The Design protocol, what storages offer besides, and `as_design`."""

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

# Bytes of rows that are looked at together.
MAP_ROWS_BLOCK_BYTES = 2**25
# The same for rows of which only sums are kept, all that is made of them included.
REDUCE_ROWS_BLOCK_BYTES = 2**23


class Design(ABC):
    """A matrix X that is only ever multiplied with, never looked into.

    Right-hand sides have shape (p,) or (p, k), and the result has as many dimensions. The result's
    dtype is `numpy.result_type` of X and the right-hand side: float32 data times float32 stays
    float32, and times float64 is accumulated in float64 without a converted copy of X.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @abstractmethod
    def matmat(self, V: Array) -> Array:
        """X V, one pass."""

    @abstractmethod
    def rmatmat(self, U: Array) -> Array:
        """X' U, one pass."""

    @abstractmethod
    def gram_matmat(self, V: Array, transform: RowTransform | None = None) -> Array:
        """X' between(X V), one pass.

        Centring, weights and fold masks are `transform`. It is called once for each block of rows,
        possibly from several threads at once, and may return its argument, changed in place. A
        `AffineRowTransform` is the fastest.
        """

    @abstractmethod
    def gram(self, dtype: DTypeLike | None = None) -> Array:
        """X'X, one pass, accumulated in `dtype` (default: the design's own)."""

    @abstractmethod
    def row_gram(self, dtype: DTypeLike | None = None) -> Array:
        """X X', the Gram matrix of the dual problem, one pass."""

    @property
    def row_gram_passes(self) -> float:
        """Passes that X X' takes."""
        return 1.0

    @abstractmethod
    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows of X, dense and in float64."""

    @abstractmethod
    def subset(self, rows: NDArray[np.intp]) -> Design:
        """Some rows of X, as a design; copied where they do not lie together."""

    def map_rows(self, function: Callable[[Array], Array]) -> Array:
        """function(rows) for all rows, one pass: it takes a dense block and gives as many rows."""
        n, p = self.shape
        height = max(256, MAP_ROWS_BLOCK_BYTES // (8 * max(1, p)))
        parts = [np.arange(a, min(a + height, n)) for a in range(0, max(n, 1), height)]
        return np.concatenate([function(self.take(rows)) for rows in parts])

    def reduce_rows(self, sums: RowReduction) -> tuple[Array, ...]:
        """What all rows add up to, one pass."""
        n, p = self.shape
        height = max(
            sums.min_block_rows, REDUCE_ROWS_BLOCK_BYTES // (8 * (p + sums.workspace_per_row))
        )
        total: tuple[Array, ...] = ()
        for first in range(0, max(n, 1), height):
            rows = np.arange(first, min(first + height, n))
            found = sums.take_rows(slice(first, first + height))(self.take(rows))
            for sofar, more in zip(total, found, strict=bool(total)):
                sofar += more
            total = total or found
        return total

    @property
    @abstractmethod
    def matvec_flops(self) -> float:
        """FLOPs of X v: 2 per multiply-add."""

    @property
    @abstractmethod
    def gram_flops(self) -> float:
        """FLOPs of X'X, one triangle."""

    @property
    @abstractmethod
    def row_gram_flops(self) -> float:
        """FLOPs of X X', one triangle."""

    def predictions(
        self, V: Array, constant: Any, finish: Callable[[Array], Any] | None = None
    ) -> Any:
        """finish(X V + constant), in the dtype of X; one pass."""
        found = (self.matmat(V) + constant).astype(self.dtype, copy=False)
        return found if finish is None else finish(found)

    # The names that `scipy.sparse.linalg.aslinearoperator`, and so lsmr, looks for.
    def matvec(self, v: Array) -> Array:
        """X v, one pass."""
        return self.matmat(v)

    def rmatvec(self, u: Array) -> Array:
        """X' u, one pass."""
        return self.rmatmat(u)

    def __repr__(self) -> str:
        n, p = self.shape
        return f"{type(self).__name__}({n} x {p}, {self.dtype})"

    def _check_right_operand(self, V: Array) -> tuple[Array, np.dtype[Any]]:
        """V checked for X V, and the dtype to compute in."""
        return self._check_operand(V, "V", 1, "n_features")

    def _check_left_operand(self, U: Array) -> tuple[Array, np.dtype[Any]]:
        """U checked for X'U, and the dtype to compute in."""
        return self._check_operand(U, "U", 0, "n_samples")

    def _check_affine_transform(
        self, V: Array, transform: RowTransform | None
    ) -> AffineRowTransform | None:
        """`transform` if compiled loops can apply it, after a check of its arrays' lengths."""
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
    """A design that holds numbers itself, rather than wrapping another design."""

    @property
    @abstractmethod
    def n_stored(self) -> int:
        """Numbers held, and read in one pass."""

    @property
    def is_dense(self) -> bool:
        """Whether all numbers are held, zeros too."""
        return True

    @property
    def centers_rows(self) -> bool:
        """Whether Gram matrices are made from centred rows, so that large means do not cancel."""
        return True

    @property
    def max_compiled_columns(self) -> int:
        """The largest number of columns for which a compiled loop forms X'(X V)."""
        return 1

    #: Those of its columns, if they have any.
    feature_names: tuple[str, ...] | None = None
    #: How columns of a table became its columns, if they did.
    encoding: Any = None
    #: Bytes of it that are in memory and count as the fit's own.
    resident_bytes: float = 0.0
    #: Bytes of a block, where rows lie in blocks.
    block_bytes: float = np.inf
    #: Bytes a second at which it is read, if it does not lie in memory.
    read_bandwidth: float | None = None
    #: What there is to say about how it was opened.
    notes: tuple[str, ...] = ()

    @property
    def is_out_of_core(self) -> bool:
        """Whether rows lie apart, so that everything is done block by block where they are."""
        return False

    def affine_gram_matmat(
        self, affine: AffineMap, V: Array, transform: RowTransform | None
    ) -> Array:
        """X~' between(X~ V) of X~ = affine(X), where `is_out_of_core`."""
        raise NotImplementedError

    def affine_map_rows(self, affine: AffineMap, function: Callable[[Array], Array]) -> Array:
        """function(rows of X~), where `is_out_of_core`."""
        raise NotImplementedError

    def affine_reduce_rows(self, affine: AffineMap, sums: RowReduction) -> tuple[Array, ...]:
        """What all rows of X~ add up to, where `is_out_of_core`."""
        raise NotImplementedError

    @property
    def has_row_access(self) -> bool:
        """Whether single rows can be had cheaply."""
        return self.is_dense

    @abstractmethod
    def affine_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """X~'X~ of X~ = affine(X), one pass and no copy of X."""

    @abstractmethod
    def affine_row_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """X~X~' of X~ = affine(X), one pass."""

    @abstractmethod
    def affine_gram_flops(self, affine: AffineMap) -> float:
        """FLOPs of X~'X~."""

    @abstractmethod
    def affine_row_gram_flops(self, affine: AffineMap) -> float:
        """FLOPs of X~X~'."""

    @abstractmethod
    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Column sums of weights x, X'U, and column sums of weights x^2, in float64; one pass.

        No weights are weights of 1.
        """

    def can_quantize(self, affine: AffineMap) -> bool:
        """Whether affine(X) can be copied in 16-bit integers, for faster sweeps."""
        return False

    def quantize(self, affine: AffineMap, column_scales: Array) -> QuantizedMatrix:
        """X in 16-bit integers; `column_scales` > 0 are about the sizes of entries by column."""
        raise NotImplementedError

    @abstractmethod
    def find_nonfinite(self, limit: float = FLOAT64_MAX) -> tuple[int, int] | None:
        """Row and column of the first number that is NaN or, in size, above `limit`."""

    def check_finite(self, limit: float = FLOAT64_MAX, first: int = 0) -> None:
        """An error that names the first number that is NaN or above `limit`, if there is one.

        The first row is called `first`.
        """
        found = self.find_nonfinite(limit)
        if found is None:
            return
        i, j = found[0] + first, found[1]
        name = "" if self.feature_names is None else f" ({self.feature_names[j]})"
        raise NotFinite(
            f"Input X contains NaN, infinity or a value too large for dtype('float64'): row {i}, "
            f"column {j}{name}. Drop or fill such rows (SimpleImputer), or divide X by a constant."
        )

    def gram(self, dtype: DTypeLike | None = None) -> Array:
        """X'X, one pass."""
        return self.affine_gram(AffineMap(), dtype)

    def row_gram(self, dtype: DTypeLike | None = None) -> Array:
        """X X', one pass."""
        return self.affine_row_gram(AffineMap(), dtype)

    @property
    def gram_flops(self) -> float:
        """FLOPs of X'X, one triangle."""
        return self.affine_gram_flops(AffineMap())

    @property
    def row_gram_flops(self) -> float:
        """FLOPs of X X', one triangle."""
        return self.affine_row_gram_flops(AffineMap())


class DenseDefaults(Storage):
    """A storage that holds all n p numbers."""

    @property
    def n_stored(self) -> int:
        """n p."""
        return self.shape[0] * self.shape[1]

    @property
    def matvec_flops(self) -> float:
        """2 n p."""
        n, p = self.shape
        return 2.0 * n * p

    def affine_gram_flops(self, affine: AffineMap) -> float:
        """n p (p + 1), and n p for each scale, 2 n p for each rank: rows are mapped one by one."""
        n, p = self.shape
        return float(n) * p * (p + 1 + affine.n_scales + 2 * affine.rank)

    def affine_row_gram_flops(self, affine: AffineMap) -> float:
        """p n (n + 1), and the map likewise."""
        n, p = self.shape
        return float(n) * p * (n + 1 + affine.n_scales + 2 * affine.rank)


def as_design(X: Any) -> Design:
    """The Design for an array, a SciPy sparse array or matrix, or a Design (returned as it is).

    Nothing is copied, except that sparse formats other than CSR are converted to it once.

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
    # Imported here because each storage is itself a Design.
    from ling.design.dense import DenseStorage
    from ling.design.sparse import SparseStorage

    if isinstance(X, Design):
        return X
    if sparse.issparse(X):
        return SparseStorage(X)
    return DenseStorage(as_numeric_array(X, "X"))
