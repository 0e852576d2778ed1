"""Storages hold the numbers of X. Each implements the products that a `Design` is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ling._typing import Array
from ling.design.affine import AffineMap, inner, outer
from ling.design.arrays import FLOAT64_MAX, n_columns, row_slices, scale_rows
from ling.design.cg_state import DiagonalCGState
from ling.design.rows import (
    AffineRowTransform,
    GeneratedColumns,
    RowReduction,
    RowTransform,
    take_rows,
)
from ling.design.tuning import MAX_WORKSPACE_BYTES
from ling.errors import NonFiniteError, Where

if TYPE_CHECKING:
    from ling.design.quantized import QuantizedMatrix

# Smallest number of rows of a block that `map_rows` or `rmatmat_generated` handles in one call, and
# that for which calls of Python functions take no time. The former holds where memory is short.
MIN_BLOCK_ROWS, GOOD_BLOCK_ROWS = 16, 256
# Bytes of the block of rows in one call of a RowReduction, including its workspace.
REDUCE_ROWS_BLOCK_BYTES = 2**23
# Bytes of the block of columns that `rmatmat_generated` generates at a time.
GENERATED_BLOCK_BYTES = 2**20
# Number of columns of V up to which a compiled loop is as fast as reading X once; above, BLAS is.
MAX_THIN_COLUMNS = 4
# Arrays of all rows in a compiled loop take at most so many temporary blocks, if memory is short.
MAX_ROWS_IN_WORKSPACES = 4
#: Called with a block of U = X V and the slice of its rows; returns the transformed block.
BlockFunction: TypeAlias = Callable[[Array, slice], Array]
IDENTITY = AffineMap()


class Storage(ABC):
    """The numbers of a real (n, p) matrix X, in memory or elsewhere.

    Products are those of A = diag(row_scale) X - left right', where `affine` holds the three
    arrays. `Design` applies the column scale C of the map, except in `row_gram`, `map_rows` and
    `reduce_rows`, which return results for A C. Operands have been checked by `Design`.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    #: Names of the columns of X; None if they have no names.
    feature_names: tuple[str, ...] | None = None
    #: How the columns of a table were encoded as the columns of X; None if there was no table.
    encoding: Any = None
    #: Bytes of one block of rows; infinite if X is not stored in blocks.
    block_bytes: float = np.inf
    #: Bytes of a temporary block of rows in float64.
    workspace_bytes: float = MAX_WORKSPACE_BYTES
    #: Bytes per second at which X is read; None if X is in memory.
    read_bandwidth: float | None = None
    #: Remarks for the report of the fit about how X was opened.
    notes: tuple[str, ...] = ()

    @property
    def n_stored(self) -> int:
        """Number of entries that are stored, and read in one pass."""
        return self.shape[0] * self.shape[1]

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

    @property
    def has_compiled_gram(self) -> bool:
        """Whether a compiled loop forms the smaller Gram matrix of X, because BLAS is slower."""
        return False

    @property
    def is_out_of_core(self) -> bool:
        """Whether X is stored in blocks of rows, on disk or on other machines.

        Every operation is then run block by block, where the block is stored.
        """
        return False

    @property
    def has_row_access(self) -> bool:
        """Whether single rows can be read cheaply."""
        return self.is_dense

    @abstractmethod
    def matmat(self, V: Array) -> Array:
        """Return X V; one pass."""

    @abstractmethod
    def rmatmat(self, U: Array) -> Array:
        """Return X'U; one pass."""

    @abstractmethod
    def gram_matmat(
        self, affine: AffineMap, V: Array, transform: RowTransform | None = None
    ) -> Array:
        """Return A' transform(A V); one pass."""

    @abstractmethod
    def gram_matmat_with_rows(
        self, affine: AffineMap, V: Array, transform: AffineRowTransform
    ) -> tuple[Array, Array]:
        """Return A' transform(A V), and the rows scale A V - shift of the transform; one pass."""

    @abstractmethod
    def gram_matmat_with_squares(
        self, affine: AffineMap, V: Array, transform: AffineRowTransform
    ) -> tuple[Array, Array]:
        """Return A' transform(A V), and the column sums of squares of scale A V - shift."""

    @abstractmethod
    def gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return A'A, (p, p), accumulated in `dtype` (default: that of X); one pass."""

    @abstractmethod
    def row_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return A C^2 A', (n, n), with C = diag(column_scale); `row_gram_passes` passes."""

    @property
    def row_gram_passes(self) -> float:
        """Number of passes over X that `row_gram` makes."""
        return 1.0

    @abstractmethod
    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return the given rows of X as a dense float64 array of shape (len(rows), p)."""

    @abstractmethod
    def subset(self, rows: NDArray[np.intp]) -> Storage:
        """Return the storage of the given rows of X; rows that are not contiguous are copied."""

    @abstractmethod
    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Return the column sums of weights x, X'U, and the column sums of weights x^2; one pass.

        The shapes are (p,), (p, k) and (p,), in float64. `weights` of None means weights of 1.
        """

    def has_costly_products(self, columns: int) -> bool:
        """Whether X'U, with so many columns, takes `moments` much longer than reading X."""
        return False

    @abstractmethod
    def find_nonfinite(self, limit: float = FLOAT64_MAX) -> tuple[int, int] | None:
        """Return (row, column) of the first entry that is NaN or exceeds `limit` in magnitude."""

    @property
    def matvec_flops(self) -> float:
        """FLOPs of X v, counting 2 per multiply-add."""
        return 2.0 * self.n_stored

    def gram_flops(self, affine: AffineMap) -> float:
        """FLOPs of one triangle of A'A: n p (p + 1), and n p (2 rank + 1) for the map."""
        n, p = self.shape
        return float(n) * p * (p + 1 + (affine.row_scale is not None) + 2 * affine.rank)

    def row_gram_flops(self, affine: AffineMap) -> float:
        """FLOPs of one triangle of A C^2 A': p n (n + 1), and n p (2 rank + 2) for the map."""
        n, p = self.shape
        n_scales = (affine.row_scale is not None) + (affine.column_scale is not None)
        return float(n) * p * (n + 1 + n_scales + 2 * affine.rank)

    def map_rows(self, affine: AffineMap, function: Callable[[Array], Array]) -> Array:
        """Apply `function` to dense float64 blocks of rows of A C and concatenate; one pass.

        `function` returns an array with as many rows as the block it is given.
        """
        n, p = self.shape
        height = self._block_height(8.0 * max(1, p), self.workspace_bytes)
        return np.concatenate(
            [function(self._mapped_rows(affine, rows)) for rows in row_slices(n, height)]
        )

    def reduce_rows(self, affine: AffineMap, reduction: RowReduction) -> tuple[Array, ...]:
        """Return the arrays of `reduction`, added up over all rows of A C; one pass."""
        n, p = self.shape
        height = self._block_height(
            8.0 * (p + reduction.workspace_per_row),
            min(REDUCE_ROWS_BLOCK_BYTES, self.workspace_bytes),
            reduction.min_block_rows,
        )
        total: tuple[Array, ...] = ()
        for rows in row_slices(n, height):
            block_sums = take_rows(reduction, rows)(self._mapped_rows(affine, rows))
            for running, addend in zip(total, block_sums, strict=bool(total)):
                running += addend
            total = total or block_sums
        return total

    def rmatmat_generated(self, affine: AffineMap, columns: GeneratedColumns) -> Array:
        """Return A'C for generated columns C; one pass."""
        n, p = self.shape
        total = np.zeros((p, columns.n_columns))
        height = max(256, GENERATED_BLOCK_BYTES // (8 * max(1, columns.n_columns)))
        for rows in row_slices(n, height):
            C, part = take_rows(columns, rows)(), take_rows(affine, rows)
            products = self.subset(np.arange(rows.start, rows.stop)).rmatmat(
                scale_rows(C, part.row_scale)
            )
            total += part.finish_columns(products, None if part.left is None else part.left.T @ C)
        return total

    def _block_height(
        self, row_bytes: float, block_bytes: float, good: int = GOOD_BLOCK_ROWS
    ) -> int:
        """Rows of a block of `block_bytes`; at least `good` ones if memory is plentiful."""
        least = good if self.workspace_bytes >= MAX_WORKSPACE_BYTES else MIN_BLOCK_ROWS
        return max(least, int(block_bytes / row_bytes))

    def _mapped_rows(self, affine: AffineMap, rows: slice) -> Array:
        block = self.take(np.arange(rows.start, rows.stop))
        return affine.apply(block, rows, out=block)

    @property
    def can_iterate(self) -> bool:
        """Whether `cg_steps` is available, and faster than one pass after the other."""
        return False

    def cg_steps(
        self, affine: AffineMap, state: DiagonalCGState, max_steps: int
    ) -> tuple[DiagonalCGState, Array]:
        """Return the state after up to `max_steps` steps, and the squared error bound after each.

        For maps of rank 1 at most. One pass per step.
        """
        raise NotImplementedError

    def can_quantize(self, affine: AffineMap) -> bool:
        """Whether A can be quantised to 16-bit integers, which makes passes faster."""
        return False

    def quantize(self, affine: AffineMap, column_scales: Array) -> QuantizedMatrix:
        """Return A quantised to 16-bit integers.

        `column_scales`, (p,), are positive and about the magnitude of the entries of each column.
        """
        raise NotImplementedError

    def check_finite(self, limit: float = FLOAT64_MAX, first: int = 0) -> None:
        """Raise NonFiniteError, naming the first entry that is NaN or exceeds `limit` in magnitude.

        The message numbers rows from `first` on. Nothing is raised if all entries are finite.
        """
        position = self.find_nonfinite(limit)
        if position is None:
            return
        row, column = position[0] + first, position[1]
        name = column if self.feature_names is None else self.feature_names[column]
        values, scale = "NaN or infinity", []
        if limit < FLOAT64_MAX:
            values = f"NaN, infinity or a number of magnitude above {limit:g}"
            scale = ["divide `X` by a constant if it has such large numbers"]
        raise NonFiniteError(
            "X",
            f"contains {values}",
            "drop such rows, or fill them in",
            *scale,
            where=Where(row, name),
        )

    def __repr__(self) -> str:
        n, p = self.shape
        return f"{type(self).__name__}({n} x {p}, {self.dtype})"


class MemoryStorage(Storage):
    """A storage in memory: how products with A are made from products with X."""

    def has_costly_products(self, columns: int) -> bool:
        """Whether X'U, with so many columns, takes `moments` much longer than reading X."""
        return columns > MAX_THIN_COLUMNS

    @abstractmethod
    def _gram_by_kernel(
        self, V: Array, transform: AffineRowTransform | None, row_output: Array | None
    ) -> Array:
        """Return X' transform(X V) by a compiled loop, for `max_compiled_columns` columns at most.

        With a transform, scale X V - shift is written to `row_output`.
        """

    @abstractmethod
    def _gram_in_blocks(self, V: Array, function: BlockFunction | None) -> Array:
        """Return X' function(X V), with `function` called for one block of rows at a time."""

    def gram_matmat(
        self, affine: AffineMap, V: Array, transform: RowTransform | None = None
    ) -> Array:
        """Return A' transform(A V); one pass, which applies the map to blocks of X V."""
        if affine.is_identity and transform is None:
            return self._affine_gram_matmat(V, None, None)
        if (transform is None or isinstance(transform, AffineRowTransform)) and (
            V.ndim == 1 or self._has_kernel_for(V)
        ):
            return self._gram_and_rows(affine, V, transform)[0]
        low, left = affine.right_product(V), affine.left
        # Blocks may arrive from several threads in any order. Adding them up in the order of their
        # rows makes the result reproducible.
        partial: dict[int, Array] = {}

        def map_block(U: Array, rows: slice) -> Array:
            U = affine.finish_rows(U, low, rows).astype(V.dtype, copy=False)
            if isinstance(transform, _SquaresOfRows):
                U = transform.record(U, rows)
            elif transform is not None:
                U = take_rows(transform, rows)(U)
            if left is not None:
                partial[rows.start] = left[rows].T @ U
            return scale_rows(U, None if affine.row_scale is None else affine.row_scale[rows])

        out = self._gram_in_blocks(V, map_block)
        sums = sum((partial[start] for start in sorted(partial)), np.zeros_like(low))
        return affine.finish_columns(out, sums).astype(V.dtype, copy=False)

    def gram_matmat_with_rows(
        self, affine: AffineMap, V: Array, transform: AffineRowTransform
    ) -> tuple[Array, Array]:
        """Return A' transform(A V), and scale A V - shift; the map is merged into the transform."""
        return self._gram_and_rows(affine, V, transform)

    def _gram_and_rows(
        self, affine: AffineMap, V: Array, transform: AffineRowTransform | None
    ) -> tuple[Array, Array]:
        """`gram_matmat_with_rows`, also without a transform."""
        low, s, left = affine.right_product(V), affine.row_scale, affine.left
        given = transform or AffineRowTransform.identity((self.shape[0], *V.shape[1:]))
        shift, post_left = given.shift, left
        if left is not None and transform is None:
            shift = outer(left, low).reshape(shift.shape)
        elif left is not None:
            shift = shift + outer(scale_rows(left, given.scale), low).reshape(shift.shape)
            post_left = scale_rows(left, given.post)
        merged = AffineRowTransform(scale_rows(given.scale, s), shift, scale_rows(given.post, s))
        rows = np.empty(shift.shape)
        out = self._affine_gram_matmat(V, merged, rows)
        sums = None if post_left is None else inner(post_left, rows).reshape(low.shape)
        return affine.finish_columns(out, sums).astype(V.dtype, copy=False), rows

    def gram_matmat_with_squares(
        self, affine: AffineMap, V: Array, transform: AffineRowTransform
    ) -> tuple[Array, Array]:
        """Return A' transform(A V), and the column sums of squares of scale A V - shift.

        With many columns, the rows of A V are never in memory all at once.
        """
        if V.ndim == 1 or self._has_kernel_for(V):
            out, rows = self.gram_matmat_with_rows(affine, V, transform)
            return out, np.asarray(np.einsum("i...,i...->...", rows, rows))
        recorded = _SquaresOfRows(transform)
        out = self.gram_matmat(affine, V, recorded)
        return out, recorded.total(V.shape[1])

    def _affine_gram_matmat(
        self, V: Array, transform: AffineRowTransform | None, row_output: Array | None
    ) -> Array:
        """Return X' transform(X V) by a compiled loop if there is one, or in blocks."""
        if self._has_kernel_for(V):
            return self._gram_by_kernel(V, transform, row_output)
        if transform is None or row_output is None:
            return self._gram_in_blocks(V, None)

        def record_block(U: Array, rows: slice) -> Array:
            part = take_rows(transform, rows)
            row_output[rows] = part.before_post(U)
            transformed = scale_rows(row_output[rows], part.post)
            return transformed.astype(U.dtype, copy=False).reshape(U.shape)

        return self._gram_in_blocks(V, record_block)

    def _has_kernel_for(self, V: Array) -> bool:
        """Whether a compiled loop is used: it is fast, but needs two arrays of the size of X V."""
        columns = n_columns(V)
        if not 1 <= columns <= self.max_compiled_columns:
            return False
        return columns == 1 or may_hold_rows(self.shape[0], columns, self.workspace_bytes)


class _SquaresOfRows(RowTransform):
    """An affine row transform that sums the squares of its rows before `post` is applied.

    Blocks may arrive in any order; adding up in the order of rows makes the sum reproducible.
    """

    def __init__(self, transform: AffineRowTransform) -> None:
        self.transform = transform
        self.squares: dict[int, Array] = {}

    def __call__(self, U: Array) -> Array:
        return self.record(U, slice(0, len(U)))

    def record(self, U: Array, rows: slice) -> Array:
        """Return the transformed rows, and note their squares."""
        part = take_rows(self.transform, rows)
        values = part.before_post(U)
        self.squares[rows.start] = np.einsum("ij,ij->j", values, values)
        return scale_rows(values, part.post).astype(U.dtype, copy=False)

    def total(self, n_columns: int) -> Array:
        """The sums of squares (n_columns,) of all blocks."""
        return sum((self.squares[row] for row in sorted(self.squares)), np.zeros(n_columns))


def may_hold_rows(n: int, columns: int, workspace_bytes: float) -> bool:
    """Whether compiled loops may hold two arrays (n, columns), by the size of temporary blocks."""
    is_plentiful = workspace_bytes >= MAX_WORKSPACE_BYTES
    return is_plentiful or 16.0 * n * columns <= MAX_ROWS_IN_WORKSPACES * workspace_bytes


def kernel_arguments(
    transform: AffineRowTransform | None, row_output: Array | None
) -> list[Array | None]:
    """Return (scale, shift, post, row_output) as the compiled kernels expect them: contiguous."""
    if transform is None:
        return [None] * 4
    inputs = (transform.scale, transform.shift, transform.post)
    return [*(np.ascontiguousarray(a) for a in inputs), row_output]
