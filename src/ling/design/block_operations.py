"""What can be done with a block of rows of X, wherever it lies, and how results come together."""

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
    """What blocks of rows give: arrays to be added up, and arrays with a row for each of X's."""

    reduced: tuple[Array, ...] = ()
    per_row: tuple[Array, ...] = ()

    def add_reduced(self, other: BlockResult) -> None:
        """Another block's sums, in the place of these."""
        for mine, more in zip(self.reduced, other.reduced, strict=True):
            mine += more


def merge_results(outcomes: Iterable[BlockResult]) -> BlockResult:
    """Those of consecutive blocks, as one."""
    first: BlockResult | None = None
    stacked: list[tuple[Array, ...]] = []
    for outcome in outcomes:
        if first is None:
            first = outcome
        else:
            first.add_reduced(outcome)
        stacked.append(outcome.per_row)
    if first is None:
        return BlockResult()
    columns = zip(*stacked, strict=True)
    return BlockResult(first.reduced, tuple(np.concatenate(parts) for parts in columns))


class BlockOperation(ABC):
    """A function of a block of rows. It can be sent to where they lie."""

    def row_arrays(self) -> dict[str, Array]:
        """Its arrays that have a row for each of X's."""
        return {}

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """The same for the rows from `start` on, whose arrays these are."""
        return self

    def reduced_size(self, p: int) -> int:
        """About how many numbers there are to be added up, for p features."""
        return 0

    @property
    def is_memory_bound(self) -> bool:
        """Whether it takes about as long as reading the rows: no work for many threads of BLAS."""
        return False

    @abstractmethod
    def __call__(self, block: DenseStorage) -> BlockResult:
        """What these rows give; its arrays are new."""


def _is_thin(A: Array) -> bool:
    return A.ndim == 1 or A.shape[1] <= MAX_THIN_COLUMNS


def slice_rows(operation: BlockOperation, rows: slice) -> BlockOperation:
    """The operation, cut for consecutive rows that are at hand."""
    arrays = {name: array[rows] for name, array in operation.row_arrays().items()}
    return operation.for_rows(rows.start, arrays)


@dataclass(frozen=True, eq=False)
class Matmat(BlockOperation):
    """X V."""

    V: Array

    @property
    def is_memory_bound(self) -> bool:
        """With few columns."""
        return _is_thin(self.V)

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Rows of it."""
        return BlockResult(per_row=(block.matmat(self.V),))


@dataclass(frozen=True, eq=False)
class Rmatmat(BlockOperation):
    """X'U."""

    U: Array

    @property
    def is_memory_bound(self) -> bool:
        """With few columns."""
        return _is_thin(self.U)

    def row_arrays(self) -> dict[str, Array]:
        """U."""
        return {"U": self.U}

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """Some rows of U."""
        return Rmatmat(**arrays)

    def reduced_size(self, p: int) -> int:
        """A column each."""
        return p * _n_columns(self.U)

    def __call__(self, block: DenseStorage) -> BlockResult:
        """What these rows add to it."""
        return BlockResult((block.rmatmat(self.U),))


@dataclass(frozen=True, eq=False)
class AffineOperation(BlockOperation):
    """Something about X~ = affine(X)."""

    affine: AffineMap

    def row_arrays(self) -> dict[str, Array]:
        """Those of the map."""
        return self.affine.row_arrays()

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """With the map of these rows."""
        return replace(self, affine=self.affine.with_row_arrays(arrays))


@dataclass(frozen=True, eq=False)
class GramMatmat(AffineOperation):
    """X~' between(X~ V), and what `transform` has seen."""

    V: Array
    transform: RowTransform | None
    start: int = 0

    @property
    def is_memory_bound(self) -> bool:
        """With few columns."""
        return _is_thin(self.V)

    def row_arrays(self) -> dict[str, Array]:
        """Those of the map, and those of `transform`."""
        return super().row_arrays() | nested_row_arrays(self.transform)

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """With the map and the `transform` of these rows."""
        mine, theirs = split_nested_row_arrays(arrays)
        transform = self.transform
        if isinstance(transform, SliceableRowTransform):
            transform = transform.with_row_arrays(theirs)
        return GramMatmat(self.affine.with_row_arrays(mine), self.V, transform, start)

    def reduced_size(self, p: int) -> int:
        """As many as V has."""
        return self.V.size

    def __call__(self, block: DenseStorage) -> BlockResult:
        """What these rows add to it."""
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
        """A `transform` that is any function knows rows by their numbers among all."""
        assert self.transform is not None
        return self.transform(U, slice(rows.start + self.start, rows.stop + self.start))


@dataclass(frozen=True, eq=False)
class Gram(AffineOperation):
    """X~'X~."""

    dtype: DTypeLike | None

    def reduced_size(self, p: int) -> int:
        """A square."""
        return p * p

    def __call__(self, block: DenseStorage) -> BlockResult:
        """What these rows add to it."""
        return BlockResult((block.affine_gram(self.affine, self.dtype),))


@dataclass(frozen=True, eq=False)
class MapRows(AffineOperation):
    """function(rows of X~)."""

    function: Callable[[Array], Array]

    def __call__(self, block: DenseStorage) -> BlockResult:
        """For a few of them at a time."""
        design = block if self.affine.is_identity else AffineDesign(block, self.affine)
        return BlockResult(per_row=(design.map_rows(self.function),))


@dataclass(frozen=True, eq=False)
class ReduceRows(AffineOperation):
    """What rows of X~ add up to."""

    sums: RowReduction

    def row_arrays(self) -> dict[str, Array]:
        """Those of the map, and those of the sums."""
        return super().row_arrays() | nested_row_arrays(self.sums)

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """With the map and the sums of these rows."""
        mine, theirs = split_nested_row_arrays(arrays)
        return ReduceRows(self.affine.with_row_arrays(mine), self.sums.with_row_arrays(theirs))

    def reduced_size(self, p: int) -> int:
        """As the sums say."""
        return self.sums.reduced_size(p)

    def __call__(self, block: DenseStorage) -> BlockResult:
        """For a few of them at a time."""
        design = block if self.affine.is_identity else AffineDesign(block, self.affine)
        return BlockResult(design.reduce_rows(self.sums))


@dataclass(frozen=True, eq=False)
class Moments(BlockOperation):
    """Column sums of weights x, X'U, and column sums of weights x^2."""

    weights: Array | None
    U: Array

    @property
    def is_memory_bound(self) -> bool:
        """With few columns."""
        return _is_thin(self.U)

    def row_arrays(self) -> dict[str, Array]:
        """Weights and U."""
        found = {"weights": self.weights, "U": self.U}
        return {name: array for name, array in found.items() if array is not None}

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """Those of these rows."""
        return replace(self, **arrays)

    def reduced_size(self, p: int) -> int:
        """Two vectors, and X'U."""
        return p * (2 + _n_columns(self.U))

    def __call__(self, block: DenseStorage) -> BlockResult:
        """What these rows add to them."""
        return BlockResult(block.moments(self.weights, self.U))


@dataclass(frozen=True, eq=False)
class FindNonfinite(BlockOperation):
    """Row and column of numbers that are NaN or above `limit`: the first of each block."""

    limit: float
    start: int = 0

    def for_rows(self, start: int, arrays: dict[str, Array]) -> BlockOperation:
        """Rows are numbered among all."""
        return replace(self, start=start)

    def __call__(self, block: DenseStorage) -> BlockResult:
        """One, or none."""
        found = block.find_nonfinite(self.limit)
        slice_rows = [] if found is None else [(found[0] + self.start, found[1])]
        return BlockResult(per_row=(np.array(slice_rows, dtype=np.float64).reshape(-1, 2),))


@dataclass(frozen=True, eq=False)
class CopyRows(BlockOperation):
    """The rows themselves, in float64."""

    def __call__(self, block: DenseStorage) -> BlockResult:
        """A copy."""
        return BlockResult(per_row=(np.array(block.array, dtype=np.float64),))


@dataclass(frozen=True, eq=False)
class KernelBlock(AffineOperation):
    """X~ R', for some rows R of X~."""

    rows: Array
    dtype: np.dtype[Any]

    def __call__(self, block: DenseStorage) -> BlockResult:
        """Products of these rows with R."""
        part = AffineDesign(block, self.affine).take(np.arange(block.shape[0]))
        found = part.astype(self.dtype, copy=False) @ self.rows.T
        return BlockResult(per_row=(found,))


def _n_columns(U: Array) -> int:
    return U.shape[1] if U.ndim == 2 else 1
