"""Storages whose rows are stored in blocks, on disk or on other machines."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ling._typing import Array
from ling.design.affine import AffineMap
from ling.design.arrays import FLOAT64_MAX, n_columns
from ling.design.dense import MAX_COMPILED_COLUMNS, DenseStorage
from ling.design.rows import (
    AffineRowTransform,
    GeneratedColumns,
    RowReduction,
    RowTransform,
    per_row,
)
from ling.design.storage import IDENTITY, Storage
from ling.linalg.gram import form_gram

# Bytes of the float64 rows that `row_gram` multiplies with all rows in one pass: so many blocks of
# X, within these limits. While they are gathered, two copies of them are in memory. Storages that
# form X X' from columns hold as many bytes.
ROW_GRAM_BLOCKS, MIN_ROW_GRAM_BYTES, MAX_ROW_GRAM_BYTES = 2, 2**21, 2**27


@dataclass(frozen=True, eq=False)
class BlockResult:
    """The result of a call on blocks of rows.

    `reduced` arrays are added up over blocks; `per_row` arrays have one row per row of X.
    """

    reduced: tuple[Array, ...] = ()
    per_row: tuple[Array, ...] = ()

    def add_reduced(self, other: BlockResult) -> None:
        """Add the reduced arrays of another block to those of this one, in place."""
        for total, addend in zip(self.reduced, other.reduced, strict=True):
            total += addend


def merge_results(results: Iterable[BlockResult]) -> BlockResult:
    """Merge the results of consecutive blocks: add the reduced arrays, concatenate the others.

    The reduced arrays of the first result are modified in place.
    """
    first: BlockResult | None = None
    per_row: list[tuple[Array, ...]] = []
    for result in results:
        if first is None:
            first = result
        else:
            first.add_reduced(result)
        per_row.append(result.per_row)
    if first is None:
        return BlockResult()
    parts_by_array = zip(*per_row, strict=True)
    return BlockResult(first.reduced, tuple(np.concatenate(parts) for parts in parts_by_array))


@dataclass(frozen=True, eq=False)
class BlockCall:
    """A call of a method of `DenseStorage`, which is repeated on every block of rows.

    It can be sliced by `take_rows`, and sent to where a block is stored.

    Attributes
    ----------
    method : str
        Name of the method.
    row_arguments : tuple of arrays
        The first arguments, which have one row per sample; None for arguments that are None.
    arguments : tuple
        The other arguments. Their own per-sample arrays are sliced as well.
    n_per_row : int
        The last `n_per_row` arrays that the method returns have one row per row of the block, and
        are concatenated. The others are added up.
    reduced_size : int
        Approximate number of entries of the arrays that are added up.
    blas_flops_per_row : float
        Multiply-adds per row in the largest call of BLAS: blocks that have few use one thread.
    """

    method: str
    row_arguments: tuple[Array | None, ...] = per_row(())
    arguments: tuple[Any, ...] = ()
    n_per_row: int = 0
    reduced_size: int = 0
    blas_flops_per_row: float = math.inf

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Return the result for a block of rows, in newly allocated arrays."""
        returned = getattr(block, self.method)(*self.row_arguments, *self.arguments)
        arrays = returned if isinstance(returned, tuple) else (returned,)
        n_reduced = len(arrays) - self.n_per_row
        return BlockResult(arrays[:n_reduced], arrays[n_reduced:])


@dataclass(frozen=True)
class KeepRows:
    """The function of rows that returns them unchanged."""

    def __call__(self, rows: Array) -> Array:
        """Return the rows."""
        return rows


@dataclass(frozen=True, eq=False)
class MultiplyRows:
    """A function of rows that returns rows @ factor' in `dtype`."""

    factor: Array
    dtype: np.dtype[Any]

    def __call__(self, rows: Array) -> Array:
        """Return rows @ factor'."""
        return rows.astype(self.dtype, copy=False) @ self.factor.T


@dataclass(frozen=True)
class FindBadColumns:
    """A function of rows that finds the first entry of each that is NaN or exceeds `limit`."""

    limit: float

    def __call__(self, rows: Array) -> Array:
        """Return the column of that entry for each row, -1 if there is none."""
        if not rows.shape[1]:
            return np.full(len(rows), -1)
        is_bad = ~(np.abs(rows) <= self.limit)
        return np.where(is_bad.any(axis=1), is_bad.argmax(axis=1), -1)


class BlockedStorage(Storage):
    """A storage that computes each product by repeating a call on every block of rows.

    The call runs where the block is stored. It takes one pass.
    """

    @property
    def fingerprint(self) -> str:
        """A fingerprint that changes if the data changes, as far as that can be detected."""
        return ""

    @abstractmethod
    def run(self, call: BlockCall) -> BlockResult:
        """Run the call on all blocks and return the merged result; one pass."""

    @abstractmethod
    def subset(self, rows: NDArray[np.intp]) -> BlockedStorage:
        """Return the storage of the given rows, which are in ascending order."""

    @property
    def is_out_of_core(self) -> bool:
        """True: X is stored in blocks."""
        return True

    @property
    def max_compiled_columns(self) -> int:
        """As for large dense arrays, because blocks are processed by compiled loops."""
        return MAX_COMPILED_COLUMNS

    def matmat(self, V: Array) -> Array:
        """Return X V; one pass."""
        call = BlockCall("matmat", (), (V,), n_per_row=1, blas_flops_per_row=V.size)
        return self._run(call).per_row[0]

    def rmatmat(self, U: Array) -> Array:
        """Return X'U; one pass."""
        size = self.shape[1] * n_columns(U)
        call = BlockCall("rmatmat", (U,), reduced_size=size, blas_flops_per_row=size)
        return self._run(call).reduced[0]

    def gram_matmat(
        self, affine: AffineMap, V: Array, transform: RowTransform | None = None
    ) -> Array:
        """Return A' transform(A V); one pass. Map and transform are sent to the blocks."""
        call = BlockCall(
            "gram_matmat", (), (affine, V, transform),
            reduced_size=V.size, blas_flops_per_row=V.size,
        )  # fmt: skip
        return self._run(call).reduced[0]

    def gram_matmat_with_rows(
        self, affine: AffineMap, V: Array, transform: AffineRowTransform
    ) -> tuple[Array, Array]:
        """Return A' transform(A V), and scale A V - shift; one pass."""
        call = BlockCall(
            "gram_matmat_with_rows", (), (affine, V, transform),
            n_per_row=1, reduced_size=V.size, blas_flops_per_row=V.size,
        )  # fmt: skip
        result = self._run(call)
        return result.reduced[0], result.per_row[0]

    def gram_matmat_with_squares(
        self, affine: AffineMap, V: Array, transform: AffineRowTransform
    ) -> tuple[Array, Array]:
        """Return A' transform(A V), and the column sums of squares of scale A V - shift."""
        call = BlockCall(
            "gram_matmat_with_squares", (), (affine, V, transform),
            reduced_size=V.size, blas_flops_per_row=V.size,
        )  # fmt: skip
        out, squares = self._run(call).reduced
        return out, squares

    def rmatmat_generated(self, affine: AffineMap, columns: GeneratedColumns) -> Array:
        """Return A'C for columns C that are computed where the blocks are; one pass."""
        size = self.shape[1] * columns.n_columns
        call = BlockCall("rmatmat_generated", (), (affine, columns), reduced_size=size)
        return self._run(call).reduced[0]

    def map_rows(self, affine: AffineMap, function: Callable[[Array], Array]) -> Array:
        """Apply `function` to blocks of rows of A C and concatenate the results; one pass."""
        return self._run(BlockCall("map_rows", (), (affine, function), n_per_row=1)).per_row[0]

    def reduce_rows(self, affine: AffineMap, reduction: RowReduction) -> tuple[Array, ...]:
        """Return the arrays of `reduction`, which is sent to the blocks; one pass."""
        size = reduction.reduced_size(self.shape[1])
        return self._run(
            BlockCall("reduce_rows", (), (affine, reduction), reduced_size=size)
        ).reduced

    def gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return A'A, (p, p); one pass."""
        out_dtype = self.dtype if dtype is None else np.dtype(dtype)
        size = self.shape[1] ** 2
        call = BlockCall(
            "gram", (), (affine, out_dtype), reduced_size=size, blas_flops_per_row=size
        )
        return self._run(call).reduced[0]

    @property
    def row_gram_passes(self) -> float:
        """One if all rows are multiplied in one pass, else one plus one per group of rows."""
        n, p = self.shape
        n_groups = float(np.ceil(8.0 * n * p / row_gram_bytes(self.block_bytes)))
        return 1.0 if n_groups <= 1 else 1.0 + n_groups

    def row_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return A C^2 A', (n, n): groups of rows are multiplied with all rows, a pass each."""
        n, p = self.shape
        out_dtype = self.dtype if dtype is None else np.dtype(dtype)
        step = max(1, int(row_gram_bytes(self.block_bytes)) // (8 * max(1, p)))
        K = np.empty((n, n), out_dtype)
        for first in range(0, n, step):
            indices = np.arange(first, min(first + step, n))
            rows = np.require(self.take(indices), requirements="W")
            rows = affine.apply(rows, indices, out=rows).astype(out_dtype, copy=False)
            if len(indices) == n:
                return form_gram(rows.T)
            K[:, indices] = self.map_rows(affine, MultiplyRows(rows, out_dtype))
        return (K + K.T) / 2

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return the given rows in float64; they may repeat and be in any order."""
        if not len(rows):
            return np.zeros((0, self.shape[1]))
        distinct, inverse = np.unique(rows, return_inverse=True)
        values = self.subset(distinct).map_rows(IDENTITY, KeepRows())
        return (
            values if len(distinct) == len(rows) and (rows == distinct).all() else values[inverse]
        )

    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Return column sums of weights x, X'U, and column sums of weights x^2; one pass."""
        size = self.shape[1] * (2 + n_columns(U))
        call = BlockCall("moments", (weights, U), reduced_size=size, blas_flops_per_row=size)
        sums, products, squares = self._run(call).reduced
        return sums, products, squares

    def find_nonfinite(self, limit: float = FLOAT64_MAX) -> tuple[int, int] | None:
        """Return (row, column) of the first entry that is NaN or exceeds `limit` in magnitude."""
        columns = self.map_rows(IDENTITY, FindBadColumns(limit))
        bad_rows = np.flatnonzero(columns >= 0)
        return (int(bad_rows[0]), int(columns[bad_rows[0]])) if len(bad_rows) else None

    def _run(self, call: BlockCall) -> BlockResult:
        """Run the call; without rows, run it on an empty block."""
        if self.shape[0]:
            return self.run(call)
        return call(DenseStorage(np.zeros(self.shape, self.dtype), compiled=True))


def row_gram_bytes(block_bytes: float) -> float:
    """Bytes of the float64 rows that `row_gram` multiplies with all rows in one pass."""
    return min(max(ROW_GRAM_BLOCKS * block_bytes, MIN_ROW_GRAM_BYTES), MAX_ROW_GRAM_BYTES)
