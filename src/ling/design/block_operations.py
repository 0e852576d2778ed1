"""Operations on blocks of rows of X, run where a block is stored, and how results are merged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ling._typing import Array
from ling.design.affine import AffineDesign
from ling.design.affine_map import AffineMap
from ling.design.dense import MAX_THIN_COLUMNS, DenseStorage
from ling.design.row_transform import (
    AffineRowTransform,
    RowReduction,
    RowTransform,
    SliceableRowTransform,
    nested_row_arrays,
    split_nested_row_arrays,
)


@dataclass(frozen=True, eq=False)
class BlockResult:
    """The result of an operation on blocks of rows.

    `reduced` arrays are added up over blocks; `per_row` arrays have one row per row of X.
    """

    reduced: tuple[Array, ...] = ()
    per_row: tuple[Array, ...] = ()

    def add_reduced(self, other: BlockResult) -> None:
        """Add the reduced arrays of another block to those of this one, in place."""
        for total, addend in zip(self.reduced, other.reduced, strict=True):
            total += addend


def merge_results(outcomes: Iterable[BlockResult]) -> BlockResult:
    """Merge the results of consecutive blocks: add the reduced arrays, concatenate the others.

    The reduced arrays of the first result are modified in place.
    """
    first: BlockResult | None = None
    per_row: list[tuple[Array, ...]] = []
    for outcome in outcomes:
        if first is None:
            first = outcome
        else:
            first.add_reduced(outcome)
        per_row.append(outcome.per_row)
    if first is None:
        return BlockResult()
    parts_by_array = zip(*per_row, strict=True)
    return BlockResult(first.reduced, tuple(np.concatenate(parts) for parts in parts_by_array))


class BlockOperation(ABC):
    """A function of a block of rows, which can be sent to where the block is stored."""

    def row_arrays(self) -> dict[str, Array]:
        """Return the arrays of the operation with one row per row of X, by name."""
        return {}

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """Return the operation for the rows from `start` on, with `arrays` as their row arrays."""
        return self

    def reduced_size(self, p: int) -> int:
        """Approximate number of entries of the reduced arrays, for p features."""
        return 0

    @property
    def is_memory_bound(self) -> bool:
        """Whether it takes about as long as reading the rows, so that BLAS threads do not help."""
        return False

    @abstractmethod
    def __call__(self, block: DenseStorage) -> BlockResult:
        """Return the result for a block of rows, in newly allocated arrays."""


def _is_thin(A: Array) -> bool:
    return A.ndim == 1 or A.shape[1] <= MAX_THIN_COLUMNS


def slice_rows(operation: BlockOperation, rows: slice) -> BlockOperation:
    """Return the operation for the given consecutive rows, with its row arrays sliced."""
    arrays = {name: array[rows] for name, array in operation.row_arrays().items()}
    return operation.for_rows(rows.start, arrays)


@dataclass(frozen=True, eq=False)
class Matmat(BlockOperation):
    """The product X V, row by row."""

    V: Array

    @property
    def is_memory_bound(self) -> bool:
        """Whether V has few columns."""
        return _is_thin(self.V)

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Return the rows of X V for this block."""
        return BlockResult(per_row=(block.matmat(self.V),))


@dataclass(frozen=True, eq=False)
class Rmatmat(BlockOperation):
    """The product X'U, a sum over rows."""

    U: Array

    @property
    def is_memory_bound(self) -> bool:
        """Whether U has few columns."""
        return _is_thin(self.U)

    def row_arrays(self) -> dict[str, Array]:
        """Return U."""
        return {"U": self.U}

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """Return the operation with the rows of U in `arrays`."""
        return Rmatmat(**arrays)

    def reduced_size(self, p: int) -> int:
        """Entries of X'U: p per column of U."""
        return p * _n_columns(self.U)

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Return the contribution of this block to X'U."""
        return BlockResult((block.rmatmat(self.U),))


@dataclass(frozen=True, eq=False)
class AffineOperation(BlockOperation):
    """An operation on X~ = affine(X)."""

    affine: AffineMap

    def row_arrays(self) -> dict[str, Array]:
        """Return the row arrays of the affine map."""
        return self.affine.row_arrays()

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """Return the operation with the affine map of these rows."""
        return replace(self, affine=self.affine.with_row_arrays(arrays))


@dataclass(frozen=True, eq=False)
class GramMatmat(AffineOperation):
    """The product X~' transform(X~ V), and the row output of an AffineRowTransform.

    `start` is the index in X of the first row of the block.
    """

    V: Array
    transform: RowTransform | None
    start: int = 0

    @property
    def is_memory_bound(self) -> bool:
        """Whether V has few columns."""
        return _is_thin(self.V)

    def row_arrays(self) -> dict[str, Array]:
        """Return the row arrays of the affine map and, with prefixed names, of `transform`."""
        return super().row_arrays() | nested_row_arrays(self.transform)

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """Return the operation with the affine map and the transform of these rows."""
        own, nested = split_nested_row_arrays(arrays)
        transform = self.transform
        if isinstance(transform, SliceableRowTransform):
            transform = transform.with_row_arrays(nested)
        return GramMatmat(self.affine.with_row_arrays(own), self.V, transform, start)

    def reduced_size(self, p: int) -> int:
        """Entries of V."""
        return self.V.size

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Return the contribution of this block, and squared norms and rows of the transform."""
        transform = self.transform
        if transform is not None and not isinstance(transform, SliceableRowTransform):
            transform = self._transform_at_offset
        design = block if self.affine.is_identity else AffineDesign(block, self.affine)
        out = design.gram_matmat(self.V, transform)
        if not isinstance(transform, AffineRowTransform):
            return BlockResult((out,))
        return BlockResult(
            (out, np.array(transform.squared_norms)),
            (transform.row_output,) if transform.keep_rows else (),
        )

    def _transform_at_offset(self, U: Array, rows: slice) -> Array:
        """Call a plain-function transform with the indices of the rows in X, not in the block."""
        assert self.transform is not None
        return self.transform(U, slice(rows.start + self.start, rows.stop + self.start))


@dataclass(frozen=True, eq=False)
class Gram(AffineOperation):
    """The Gram matrix X~'X~."""

    dtype: DTypeLike | None

    def reduced_size(self, p: int) -> int:
        """Entries of the Gram matrix."""
        return p * p

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Return the Gram matrix of this block."""
        return BlockResult((block.affine_gram(self.affine, self.dtype),))


@dataclass(frozen=True, eq=False)
class MapRows(AffineOperation):
    """A function of dense blocks of rows of X~, which returns one row per row."""

    function: Callable[[Array], Array]

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Apply the function to a few rows at a time."""
        design = block if self.affine.is_identity else AffineDesign(block, self.affine)
        return BlockResult(per_row=(design.map_rows(self.function),))


@dataclass(frozen=True, eq=False)
class ReduceRows(AffineOperation):
    """A RowReduction over the rows of X~."""

    sums: RowReduction

    def row_arrays(self) -> dict[str, Array]:
        """Return the row arrays of the affine map and, with prefixed names, of the reduction."""
        return super().row_arrays() | nested_row_arrays(self.sums)

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """Return the operation with the affine map and the reduction of these rows."""
        own, nested = split_nested_row_arrays(arrays)
        return ReduceRows(self.affine.with_row_arrays(own), self.sums.with_row_arrays(nested))

    def reduced_size(self, p: int) -> int:
        """Approximate number of entries of the sums."""
        return self.sums.reduced_size(p)

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Add up the sums over a few rows at a time."""
        design = block if self.affine.is_identity else AffineDesign(block, self.affine)
        return BlockResult(design.reduce_rows(self.sums))


@dataclass(frozen=True, eq=False)
class Moments(BlockOperation):
    """Column sums of weights x, X'U, and column sums of weights x^2."""

    weights: Array | None
    U: Array

    @property
    def is_memory_bound(self) -> bool:
        """Whether U has few columns."""
        return _is_thin(self.U)

    def row_arrays(self) -> dict[str, Array]:
        """Return the weights, if there are any, and U."""
        candidates = {"weights": self.weights, "U": self.U}
        return {name: array for name, array in candidates.items() if array is not None}

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """Return the operation with the weights and U of these rows."""
        return replace(self, **arrays)

    def reduced_size(self, p: int) -> int:
        """Entries of the two vectors of sums and of X'U."""
        return p * (2 + _n_columns(self.U))

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Return the moments of this block."""
        return BlockResult(block.moments(self.weights, self.U))


@dataclass(frozen=True, eq=False)
class FindNonfinite(BlockOperation):
    """The position of the first entry of each block that is NaN or exceeds `limit` in magnitude."""

    limit: float
    start: int = 0

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """Return the operation with `start` added to row indices, so that they refer to X."""
        return replace(self, start=start)

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Return (row, column) of the first such entry, (1, 2); shape (0, 2) if there is none."""
        position = block.find_nonfinite(self.limit)
        positions = [] if position is None else [(position[0] + self.start, position[1])]
        return BlockResult(per_row=(np.array(positions, dtype=np.float64).reshape(-1, 2),))


@dataclass(frozen=True, eq=False)
class CopyRows(BlockOperation):
    """A float64 copy of the rows."""

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Return a copy of this block."""
        return BlockResult(per_row=(np.array(block.array, dtype=np.float64),))


@dataclass(frozen=True, eq=False)
class KernelBlock(AffineOperation):
    """The product X~ R', where R are given rows of X~, dense."""

    rows: Array
    dtype: np.dtype[Any]

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Return the products of the rows of this block with R."""
        mapped_rows = AffineDesign(block, self.affine).take(np.arange(block.shape[0]))
        products = mapped_rows.astype(self.dtype, copy=False) @ self.rows.T
        return BlockResult(per_row=(products,))


def _n_columns(U: Array) -> int:
    return U.shape[1] if U.ndim == 2 else 1
