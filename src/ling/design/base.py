"""The Design protocol, the affine map that can be laid over it, and `as_design`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from ling.errors import NotFinite, WrongShape, WrongType

if TYPE_CHECKING:
    from ling.design.short import ShortCopy

Array: TypeAlias = NDArray[np.floating[Any]]
#: What happens to U = X V between the two halves of X'(X V): called with a block of U and its rows.
Between: TypeAlias = Callable[[Array, slice], Array]
LARGEST = float(np.finfo(np.float64).max)
# Bytes of rows that are looked at together.
BLOCK = 2**25


class RowWise(ABC):
    """A `between` that says which of its arrays have a row for each of X's.

    So these can be cut and, where rows of X lie elsewhere, sent there.
    """

    @abstractmethod
    def per_row(self) -> dict[str, Array]:
        """Those arrays by name."""

    @abstractmethod
    def with_rows(self, arrays: dict[str, Array]) -> RowWise:
        """The same for some of the rows, whose arrays these are."""

    @abstractmethod
    def __call__(self, U: Array, rows: slice) -> Array:
        """What becomes of U = X V, on these rows."""


@dataclass(eq=False)
class RowMap(RowWise):
    """The `between` that storages know by heart: u -> post (scale u - shift), row by row.

    Weights, centring and residuals are of this kind, and need no call from inside the sweep.
    `shift` has the shape of U: (n,) for one column, (n, k) for k. On the way `seen` is filled with
    scale u - shift, so that sums over it fit what was summed. A storage whose rows lie elsewhere
    fills in only the sums of its `squares`, unless it is wanted `whole`.
    """

    scale: Array
    shift: Array
    post: Array
    whole: bool = True
    _seen: Array | None = None
    _squares: Array | None = None

    @classmethod
    def of(
        cls, scale: Array | float, shift: Array, post: Array | float, whole: bool = True
    ) -> RowMap:
        """In float64; a number stands for one that all rows share."""
        n = len(shift)
        return cls(_rows(scale, n), np.asarray(shift, np.float64), _rows(post, n), whole)

    @classmethod
    def identity(cls, shape: tuple[int, ...]) -> RowMap:
        """u -> u, for U of that shape."""
        return cls.of(1.0, np.broadcast_to(np.float64(0.0), shape), 1.0)

    @property
    def seen(self) -> Array:
        """scale u - shift, for all rows."""
        if self._seen is None and self._squares is not None:
            raise AssertionError("rows lie elsewhere, and only sums of squares were asked for")
        if self._seen is None:
            self._seen = np.empty(self.shift.shape)
        return self._seen

    @property
    def squares(self) -> Array:
        """The sums of squares of what was seen, column by column."""
        if self._squares is None:
            self._squares = np.einsum("i...,i...->...", self.seen, self.seen)
        return self._squares

    def learn(self, squares: Array, seen: Array | None) -> None:
        """What was seen elsewhere."""
        self._squares, self._seen = squares, seen

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """As the kernels take them."""
        self._squares = None
        found = (np.ascontiguousarray(a) for a in (self.scale, self.shift, self.post))
        return *found, self.seen  # type: ignore[return-value]

    def per_row(self) -> dict[str, Array]:
        """Scale, shift and post."""
        return {"scale": self.scale, "shift": self.shift, "post": self.post}

    def with_rows(self, arrays: dict[str, Array]) -> RowMap:
        """Some of the rows."""
        return RowMap(**arrays, whole=self.whole)

    def __call__(self, U: Array, rows: slice) -> Array:
        """The same, as any other `between`."""
        self._squares = None
        self.seen[rows] = scaled(U, self.scale[rows]).reshape(self.shift[rows].shape)
        self.seen[rows] -= self.shift[rows]
        return scaled(self.seen[rows], self.post[rows]).astype(U.dtype, copy=False).reshape(U.shape)


@dataclass(frozen=True, eq=False)
class Masked(RowWise):
    """u -> mask (u - shift), where each column of U has one of the columns of `masks`."""

    masks: Array
    owner: NDArray[np.intp]
    shifts: Array

    def per_row(self) -> dict[str, Array]:
        """The masks."""
        return {"masks": self.masks}

    def with_rows(self, arrays: dict[str, Array]) -> Masked:
        """Some of the rows."""
        return replace(self, masks=arrays["masks"])

    def __call__(self, U: Array, rows: slice) -> Array:
        """On these rows."""
        U = U - self.shifts
        U *= self.masks[rows][:, self.owner]
        return U


def constant(n: int, value: float = 1.0) -> Array:
    """The same number n times, in the room of one."""
    return np.broadcast_to(np.float64(value), (n,))


def _rows(values: Array | float, n: int) -> Array:
    if isinstance(values, float):
        return constant(n, values)
    return np.asarray(values, np.float64)


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
    def gram_matmat(self, V: Array, between: Between | None = None) -> Array:
        """X' between(X V), one pass.

        Centring, weights and fold masks are `between`. It is called once for each block of rows,
        possibly from several threads at once, and may return its argument, changed in place. A
        `RowMap` is the fastest.
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

    def each_row(self, function: Callable[[Array], Array]) -> Array:
        """function(rows) for all rows, one pass: it takes a dense block and gives as many rows."""
        n, p = self.shape
        height = max(256, BLOCK // (8 * max(1, p)))
        parts = [np.arange(a, min(a + height, n)) for a in range(0, max(n, 1), height)]
        return np.concatenate([function(self.take(rows)) for rows in parts])

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

    def _right(self, V: Array) -> tuple[Array, np.dtype[Any]]:
        """V checked for X V, and the dtype to compute in."""
        return self._operand(V, "V", 1, "n_features")

    def _left(self, U: Array) -> tuple[Array, np.dtype[Any]]:
        """U checked for X'U, and the dtype to compute in."""
        return self._operand(U, "U", 0, "n_samples")

    def _row_map(self, V: Array, between: Between | None) -> RowMap | None:
        """`between` if it is a RowMap: the compiled loops do not look at its length themselves."""
        if not isinstance(between, RowMap):
            return None
        n, columns = self.shape[0], 1 if V.ndim == 1 else V.shape[1]
        shift = between.shift
        fits = between.scale.shape == between.post.shape == (n,) == shift.shape[:1]
        if not fits or shift.size != n * columns:
            shapes = [array.shape for array in between.per_row().values()]
            raise WrongShape(
                f"the RowMap has arrays of shape {shapes} and V has shape {V.shape}; pass ({n},) "
                f"for scale and post, and ({n}, n_columns) for shift."
            )
        return between

    def _operand(self, A: Array, name: str, axis: int, rows: str) -> tuple[Array, np.dtype[Any]]:
        A = as_numbers(A, name)
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
    def centres_rows(self) -> bool:
        """Whether Gram matrices are made from centred rows, so that large means do not cancel."""
        return True

    @property
    def compiled_columns(self) -> int:
        """Up to how many columns X'(X V) is done by a compiled loop, for which a RowMap pays."""
        return 1

    #: Those of its columns, if they have any.
    names: tuple[str, ...] | None = None
    #: How columns of a table became its columns, if they did.
    encoding: Any = None
    #: Bytes of it that are in memory and count as the fit's own.
    taken: float = 0.0
    #: Bytes a second at which it is read, if it does not lie in memory.
    rate: float | None = None
    #: What there is to say about how it was opened.
    notes: tuple[str, ...] = ()

    @property
    def by_blocks(self) -> bool:
        """Whether rows lie apart, so that everything is done block by block where they are."""
        return False

    def affine_gram_matmat(self, affine: Affine, V: Array, between: Between | None) -> Array:
        """X~' between(X~ V) of X~ = affine(X), where `by_blocks`."""
        raise NotImplementedError

    def affine_each_row(self, affine: Affine, function: Callable[[Array], Array]) -> Array:
        """function(rows of X~), where `by_blocks`."""
        raise NotImplementedError

    @property
    def picks(self) -> bool:
        """Whether single rows can be had cheaply."""
        return self.is_dense

    @abstractmethod
    def affine_gram(self, affine: Affine, dtype: DTypeLike | None = None) -> Array:
        """X~'X~ of X~ = affine(X), one pass and no copy of X."""

    @abstractmethod
    def affine_row_gram(self, affine: Affine, dtype: DTypeLike | None = None) -> Array:
        """X~X~' of X~ = affine(X), one pass."""

    @abstractmethod
    def affine_gram_flops(self, affine: Affine) -> float:
        """FLOPs of X~'X~."""

    @abstractmethod
    def affine_row_gram_flops(self, affine: Affine) -> float:
        """FLOPs of X~X~'."""

    @abstractmethod
    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Column sums of weights x, X'U, and column sums of weights x^2, in float64; one pass.

        No weights are weights of 1.
        """

    def shortens(self, affine: Affine) -> bool:
        """Whether affine(X) can be copied in 16-bit integers, for faster sweeps."""
        return False

    def shortened(self, affine: Affine, units: Array) -> ShortCopy:
        """That copy; `units` are about the sizes of the numbers in each column, and above 0."""
        raise NotImplementedError

    @abstractmethod
    def first_not_finite(self, limit: float = LARGEST) -> tuple[int, int] | None:
        """Row and column of the first number that is NaN or, in size, above `limit`."""

    def refuse_not_finite(self, limit: float = LARGEST, first: int = 0) -> None:
        """An error that names the first number that is NaN or above `limit`, if there is one.

        The first row is called `first`.
        """
        found = self.first_not_finite(limit)
        if found is None:
            return
        i, j = found[0] + first, found[1]
        name = "" if self.names is None else f" ({self.names[j]})"
        raise NotFinite(
            f"Input X contains NaN, infinity or a value too large for dtype('float64'): row {i}, "
            f"column {j}{name}. Drop or fill such rows (SimpleImputer), or divide X by a constant."
        )

    def gram(self, dtype: DTypeLike | None = None) -> Array:
        """X'X, one pass."""
        return self.affine_gram(Affine(), dtype)

    def row_gram(self, dtype: DTypeLike | None = None) -> Array:
        """X X', one pass."""
        return self.affine_row_gram(Affine(), dtype)

    @property
    def gram_flops(self) -> float:
        """FLOPs of X'X, one triangle."""
        return self.affine_gram_flops(Affine())

    @property
    def row_gram_flops(self) -> float:
        """FLOPs of X X', one triangle."""
        return self.affine_row_gram_flops(Affine())


class Full(Storage):
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

    def affine_gram_flops(self, affine: Affine) -> float:
        """n p (p + 1), and n p for each scale, 2 n p for each rank: rows are mapped one by one."""
        n, p = self.shape
        return float(n) * p * (p + 1 + affine.n_scales + 2 * affine.rank)

    def affine_row_gram_flops(self, affine: Affine) -> float:
        """p n (n + 1), and the map likewise."""
        n, p = self.shape
        return float(n) * p * (n + 1 + affine.n_scales + 2 * affine.rank)


@dataclass(frozen=True, eq=False)
class Affine:
    """The map X -> diag(row_scale) X diag(col_scale) - left right'; None stands for no change.

    This form, with the low-rank part outside the scales, is closed under composition and never
    divides, so weights and scales of zero need no care.
    """

    row_scale: Array | None = None
    col_scale: Array | None = None
    left: Array | None = None
    right: Array | None = None

    @property
    def is_identity(self) -> bool:
        """Whether nothing is changed at all."""
        return self.row_scale is None and self.col_scale is None and self.left is None

    @property
    def n_scales(self) -> int:
        """How many of the two scales there are."""
        return (self.row_scale is not None) + (self.col_scale is not None)

    @property
    def rank(self) -> int:
        """Number of columns of `left`."""
        return 0 if self.left is None else self.left.shape[1]

    def then(self, after: Affine) -> Affine:
        """The one map that does this and then `after`."""
        left, right = after.left, after.right
        if self.left is not None and self.right is not None:
            mine = scaled(self.left, after.row_scale), scaled(self.right, after.col_scale)
            left = mine[0] if left is None else np.hstack([mine[0], left])
            right = mine[1] if right is None else np.hstack([mine[1], right])
        return Affine(
            _product(self.row_scale, after.row_scale),
            _product(self.col_scale, after.col_scale),
            left,
            right,
        )

    def per_row(self) -> dict[str, Array]:
        """The arrays with a row for each of X's."""
        mine = {"row_scale": self.row_scale, "left": self.left}
        return {name: array for name, array in mine.items() if array is not None}

    def with_rows(self, arrays: dict[str, Array]) -> Affine:
        """The same map of some rows of X, whose arrays these are."""
        return replace(self, **arrays)

    def subset(self, rows: slice | NDArray[np.intp]) -> Affine:
        """The same map of some rows of X."""
        return self.with_rows({name: array[rows] for name, array in self.per_row().items()})

    def apply(
        self,
        block: np.ndarray[Any, Any],
        rows: slice | NDArray[np.intp],
        cols: slice = slice(None),
        out: Array | None = None,
    ) -> Array:
        """A dense block of X, mapped, in float64 or in `out`, which may be the block itself."""
        if out is None:
            out = np.empty(block.shape)
        if self.left is not None and self.right is not None and self.n_scales == 0:
            np.subtract(block, self._low(rows, cols), out=out, casting="same_kind")
            return out
        out[...] = block
        if self.col_scale is not None:
            out *= self.col_scale[cols]
        if self.row_scale is not None:
            out *= self.row_scale[rows, None]
        if self.left is not None and self.right is not None:
            out -= self._low(rows, cols)
        return out

    def _low(self, rows: slice | NDArray[np.intp], cols: slice) -> Array:
        """left right' there; one row, if all are the same."""
        assert self.left is not None
        assert self.right is not None
        left, right = self.left[rows], self.right[cols]
        if left.shape[1] == 1 and (left == left[:1]).all():
            left = left[:1]
        return left @ right.T


def consecutive(rows: NDArray[np.intp]) -> slice | None:
    """The slice that `rows` are, if they are one."""
    first, count = (int(rows[0]), len(rows)) if len(rows) else (0, 0)
    if np.array_equal(rows, np.arange(first, first + count)):
        return slice(first, first + count)
    return None


def scaled(A: Array, scale: Array | None) -> Array:
    """diag(scale) A, for A of one or two dimensions."""
    if scale is None:
        return A
    scale = scale.astype(A.dtype, copy=False)
    return A * (scale if A.ndim == 1 else scale[:, None])


def mirrored(G: Array) -> Array:
    """G with its upper triangle copied onto the lower one, in place and block by block."""
    size, step = len(G), 512
    for a in range(0, size, step):
        b = min(a + step, size)
        corner = G[a:b, a:b]
        np.copyto(corner, corner.T.copy(), where=np.tri(b - a, k=-1, dtype=bool))
        G[b:, a:b] = G[a:b, b:].T
    return G


def _product(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return a * b


def as_design(X: Any) -> Design:
    """The Design for an array, a SciPy sparse array or matrix, or a Design (returned as it is).

    Nothing is copied, except that sparse formats other than CSR are converted to it once.

    >>> import numpy as np
    >>> as_design(np.ones((3, 2)))
    DenseDesign(3 x 2, float64)
    """
    # Imported here because each storage is itself a Design.
    from ling.design.dense import DenseDesign
    from ling.design.sparse import SparseDesign

    if isinstance(X, Design):
        return X
    if sparse.issparse(X):
        return SparseDesign(X)
    return DenseDesign(as_numbers(X, "X"))


def as_numbers(values: Any, name: str) -> np.ndarray[Any, Any]:
    """An array of real numbers, not copied if it is one; `name` is what a message calls it."""
    if isinstance(values, np.ma.MaskedArray):
        raise WrongType(
            f"{name} is a masked array; fill or drop the masked entries, and pass {name}.data."
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise WrongType(
            f"{name} cannot be read as an array ({error}); pass rows of equal length."
        ) from error
    float_dtype(array.dtype, name)
    return array


def float_dtype(dtype: np.dtype[Any], name: str = "X") -> np.dtype[Any]:
    """float32 for float32, float64 for every other real type; an error for the rest."""
    if dtype.kind == "c":
        raise WrongType(f"{name} is complex; pass its real part, or real and imaginary columns.")
    if dtype.kind not in "fiub":
        raise WrongType(
            f"{name} has dtype {dtype}; pass numbers: encode text and categories first, "
            f"or convert with {name}.astype(float)."
        )
    return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)
