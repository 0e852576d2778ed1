"""What can be done with a block of rows of X, wherever it lies, and how results come together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ling.design.affine import AffineDesign
from ling.design.arrays import Array
from ling.design.between import Between, RowMap, RowSums, RowWise, named, parted
from ling.design.dense import FEW, DenseDesign
from ling.design.maps import Affine


@dataclass(frozen=True, eq=False)
class Outcome:
    """What blocks of rows give: arrays to be added up, and arrays with a row for each of X's."""

    summed: tuple[Array, ...] = ()
    stacked: tuple[Array, ...] = ()

    def add(self, other: Outcome) -> None:
        """Another block's sums, in the place of these."""
        for mine, more in zip(self.summed, other.summed, strict=True):
            mine += more


def together(outcomes: Iterable[Outcome]) -> Outcome:
    """Those of consecutive blocks, as one."""
    first: Outcome | None = None
    stacked: list[tuple[Array, ...]] = []
    for outcome in outcomes:
        if first is None:
            first = outcome
        else:
            first.add(outcome)
        stacked.append(outcome.stacked)
    if first is None:
        return Outcome()
    columns = zip(*stacked, strict=True)
    return Outcome(first.summed, tuple(np.concatenate(parts) for parts in columns))


class Operation(ABC):
    """A function of a block of rows. It can be sent to where they lie."""

    def per_row(self) -> dict[str, Array]:
        """Its arrays that have a row for each of X's."""
        return {}

    def placed(self, start: int, arrays: dict[str, Array]) -> Operation:
        """The same for the rows from `start` on, whose arrays these are."""
        return self

    def n_summed(self, p: int) -> int:
        """About how many numbers there are to be added up, for p features."""
        return 0

    @property
    def is_sweep(self) -> bool:
        """Whether it takes about as long as reading the rows: no work for many threads of BLAS."""
        return False

    @abstractmethod
    def __call__(self, block: DenseDesign) -> Outcome:
        """What these rows give; its arrays are new."""


def _is_thin(A: Array) -> bool:
    return A.ndim == 1 or A.shape[1] <= FEW


def at(operation: Operation, rows: slice) -> Operation:
    """The operation, cut for consecutive rows that are at hand."""
    arrays = {name: array[rows] for name, array in operation.per_row().items()}
    return operation.placed(rows.start, arrays)


@dataclass(frozen=True, eq=False)
class Times(Operation):
    """X V."""

    V: Array

    @property
    def is_sweep(self) -> bool:
        """With few columns."""
        return _is_thin(self.V)

    def __call__(self, block: DenseDesign) -> Outcome:
        """Rows of it."""
        return Outcome(stacked=(block.matmat(self.V),))


@dataclass(frozen=True, eq=False)
class TransposedTimes(Operation):
    """X'U."""

    U: Array

    @property
    def is_sweep(self) -> bool:
        """With few columns."""
        return _is_thin(self.U)

    def per_row(self) -> dict[str, Array]:
        """U."""
        return {"U": self.U}

    def placed(self, start: int, arrays: dict[str, Array]) -> Operation:
        """Some rows of U."""
        return TransposedTimes(**arrays)

    def n_summed(self, p: int) -> int:
        """A column each."""
        return p * _columns(self.U)

    def __call__(self, block: DenseDesign) -> Outcome:
        """What these rows add to it."""
        return Outcome((block.rmatmat(self.U),))


@dataclass(frozen=True, eq=False)
class Mapped(Operation):
    """Something about X~ = affine(X)."""

    affine: Affine

    def per_row(self) -> dict[str, Array]:
        """Those of the map."""
        return self.affine.per_row()

    def placed(self, start: int, arrays: dict[str, Array]) -> Operation:
        """With the map of these rows."""
        return replace(self, affine=self.affine.with_rows(arrays))


@dataclass(frozen=True, eq=False)
class GramTimes(Mapped):
    """X~' between(X~ V), and what `between` has seen."""

    V: Array
    between: Between | None
    start: int = 0

    @property
    def is_sweep(self) -> bool:
        """With few columns."""
        return _is_thin(self.V)

    def per_row(self) -> dict[str, Array]:
        """Those of the map, and those of `between`."""
        return super().per_row() | named(self.between)

    def placed(self, start: int, arrays: dict[str, Array]) -> Operation:
        """With the map and the `between` of these rows."""
        mine, theirs = parted(arrays)
        between = self.between
        if isinstance(between, RowWise):
            between = between.with_rows(theirs)
        return GramTimes(self.affine.with_rows(mine), self.V, between, start)

    def n_summed(self, p: int) -> int:
        """As many as V has."""
        return self.V.size

    def __call__(self, block: DenseDesign) -> Outcome:
        """What these rows add to it."""
        between = self.between
        if between is not None and not isinstance(between, RowWise):
            between = self._moved
        design = block if self.affine.is_identity else AffineDesign(block, self.affine)
        out = design.gram_matmat(self.V, between)
        if not isinstance(between, RowMap):
            return Outcome((out,))
        return Outcome((out, np.array(between.squares)), (between.seen,) if between.whole else ())

    def _moved(self, U: Array, rows: slice) -> Array:
        """A `between` that is any function knows rows by their numbers among all."""
        assert self.between is not None
        return self.between(U, slice(rows.start + self.start, rows.stop + self.start))


@dataclass(frozen=True, eq=False)
class Gram(Mapped):
    """X~'X~."""

    dtype: DTypeLike | None

    def n_summed(self, p: int) -> int:
        """A square."""
        return p * p

    def __call__(self, block: DenseDesign) -> Outcome:
        """What these rows add to it."""
        return Outcome((block.affine_gram(self.affine, self.dtype),))


@dataclass(frozen=True, eq=False)
class EachRow(Mapped):
    """function(rows of X~)."""

    function: Callable[[Array], Array]

    def __call__(self, block: DenseDesign) -> Outcome:
        """For a few of them at a time."""
        design = block if self.affine.is_identity else AffineDesign(block, self.affine)
        return Outcome(stacked=(design.each_row(self.function),))


@dataclass(frozen=True, eq=False)
class SumRows(Mapped):
    """What rows of X~ add up to."""

    sums: RowSums

    def per_row(self) -> dict[str, Array]:
        """Those of the map, and those of the sums."""
        return super().per_row() | named(self.sums)

    def placed(self, start: int, arrays: dict[str, Array]) -> Operation:
        """With the map and the sums of these rows."""
        mine, theirs = parted(arrays)
        return SumRows(self.affine.with_rows(mine), self.sums.with_rows(theirs))

    def n_summed(self, p: int) -> int:
        """As the sums say."""
        return self.sums.n_summed(p)

    def __call__(self, block: DenseDesign) -> Outcome:
        """For a few of them at a time."""
        design = block if self.affine.is_identity else AffineDesign(block, self.affine)
        return Outcome(design.sum_rows(self.sums))


@dataclass(frozen=True, eq=False)
class Moments(Operation):
    """Column sums of weights x, X'U, and column sums of weights x^2."""

    weights: Array | None
    U: Array

    @property
    def is_sweep(self) -> bool:
        """With few columns."""
        return _is_thin(self.U)

    def per_row(self) -> dict[str, Array]:
        """Weights and U."""
        found = {"weights": self.weights, "U": self.U}
        return {name: array for name, array in found.items() if array is not None}

    def placed(self, start: int, arrays: dict[str, Array]) -> Operation:
        """Those of these rows."""
        return replace(self, **arrays)

    def n_summed(self, p: int) -> int:
        """Two vectors, and X'U."""
        return p * (2 + _columns(self.U))

    def __call__(self, block: DenseDesign) -> Outcome:
        """What these rows add to them."""
        return Outcome(block.moments(self.weights, self.U))


@dataclass(frozen=True, eq=False)
class NotFinite(Operation):
    """Row and column of numbers that are NaN or above `limit`: the first of each block."""

    limit: float
    start: int = 0

    def placed(self, start: int, arrays: dict[str, Array]) -> Operation:
        """Rows are numbered among all."""
        return replace(self, start=start)

    def __call__(self, block: DenseDesign) -> Outcome:
        """One, or none."""
        found = block.first_not_finite(self.limit)
        at = [] if found is None else [(found[0] + self.start, found[1])]
        return Outcome(stacked=(np.array(at, dtype=np.float64).reshape(-1, 2),))


@dataclass(frozen=True, eq=False)
class Rows(Operation):
    """The rows themselves, in float64."""

    def __call__(self, block: DenseDesign) -> Outcome:
        """A copy."""
        return Outcome(stacked=(np.array(block.array, dtype=np.float64),))


@dataclass(frozen=True, eq=False)
class AgainstRows(Mapped):
    """X~ R', for some rows R of X~."""

    rows: Array
    dtype: np.dtype[Any]

    def __call__(self, block: DenseDesign) -> Outcome:
        """Products of these rows with R."""
        part = AffineDesign(block, self.affine).take(np.arange(block.shape[0]))
        found = part.astype(self.dtype, copy=False) @ self.rows.T
        return Outcome(stacked=(found,))


def _columns(U: Array) -> int:
    return U.shape[1] if U.ndim == 2 else 1
