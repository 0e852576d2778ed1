"""Storages whose rows lie in blocks: on disk, or on other machines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ling.design.arrays import LARGEST, Array
from ling.design.base import Full
from ling.design.between import Between, RowMap, RowSums
from ling.design.gram import form_gram
from ling.design.maps import Affine
from ling.design.operations import (
    AgainstRows,
    EachRow,
    Gram,
    GramTimes,
    Moments,
    NotFinite,
    Operation,
    Outcome,
    Rows,
    SumRows,
    Times,
    TransposedTimes,
)

# Rows that are multiplied with all others at a time, in bytes.
HELD = 2**27


class Blocked(Full):
    """Every product is an operation on blocks of rows, done where they lie; one pass each."""

    @property
    def identity(self) -> str:
        """Something that is another if the data is, as far as that can be told."""
        return ""

    @abstractmethod
    def run(self, operation: Operation) -> Outcome:
        """What all blocks give together."""

    @abstractmethod
    def subset(self, rows: NDArray[np.intp]) -> Blocked:
        """Some rows, in ascending order."""

    def matmat(self, V: Array) -> Array:
        """X V, one pass."""
        V, dtype = self._right(V)
        found = self.run(Times(V)).stacked
        return found[0] if found else np.zeros((0, *V.shape[1:]), dtype)

    def predictions(
        self, V: Array, constant: Any, finish: Callable[[Array], Any] | None = None
    ) -> Any:
        """finish(X V + constant), one pass; an error where numbers are not finite."""
        found = super().predictions(V, constant)
        if not np.isfinite(found).all():
            self.refuse_not_finite()
        return found if finish is None else finish(found)

    def rmatmat(self, U: Array) -> Array:
        """X'U, one pass."""
        U, dtype = self._left(U)
        return self._sum(TransposedTimes(U), (self.shape[1], *U.shape[1:]), dtype)

    def gram_matmat(self, V: Array, between: Between | None = None) -> Array:
        """X' between(X V), one pass."""
        V, _ = self._right(V)
        self._row_map(V, between)
        return self.affine_gram_matmat(Affine(), V, between)

    def affine_gram_matmat(self, affine: Affine, V: Array, between: Between | None) -> Array:
        """X~' between(X~ V), one pass: the map and `between` go to where the rows are."""
        found = self.run(GramTimes(affine, V, between))
        if isinstance(between, RowMap) and found.summed:
            between.learn(found.summed[1], found.stacked[0] if between.whole else None)
        return found.summed[0] if found.summed else np.zeros_like(V)

    def affine_each_row(self, affine: Affine, function: Callable[[Array], Array]) -> Array:
        """function(rows of X~), one pass."""
        found = self.run(EachRow(affine, function)).stacked
        return found[0] if found else function(np.zeros((0, self.shape[1])))

    def each_row(self, function: Callable[[Array], Array]) -> Array:
        """function(rows), one pass."""
        return self.affine_each_row(Affine(), function)

    def affine_sum_rows(self, affine: Affine, sums: RowSums) -> tuple[Array, ...]:
        """What all rows of X~ add up to, one pass: `sums` goes to where they are."""
        found = self.run(SumRows(affine, sums)).summed
        return found or sums.cut(slice(0, 0))(np.zeros((0, self.shape[1])))

    def sum_rows(self, sums: RowSums) -> tuple[Array, ...]:
        """What all rows add up to, one pass."""
        return self.affine_sum_rows(Affine(), sums)

    def affine_gram(self, affine: Affine, dtype: DTypeLike | None = None) -> Array:
        """X~'X~, one pass."""
        p = self.shape[1]
        wanted = self.dtype if dtype is None else np.dtype(dtype)
        return self._sum(Gram(affine, wanted), (p, p), wanted)

    @property
    def row_gram_passes(self) -> float:
        """One to hold all rows or, if they are too many, one more for each part of them."""
        n, p = self.shape
        times = float(np.ceil(8.0 * n * p / HELD))
        return 1.0 if times <= 1 else 1.0 + times

    def affine_row_gram(self, affine: Affine, dtype: DTypeLike | None = None) -> Array:
        """X~X~', as many rows at a time as can be held, against all: a pass for each time."""
        n, p = self.shape
        wanted = self.dtype if dtype is None else np.dtype(dtype)
        step = max(1, HELD // (8 * max(1, p)))
        K = np.empty((n, n), wanted)
        for first in range(0, n, step):
            held = np.arange(first, min(first + step, n))
            rows = affine.apply(self.take(held), held).astype(wanted, copy=False)
            if len(held) == n:
                return form_gram(rows.T)
            K[:, held] = self.run(AgainstRows(affine, rows, wanted)).stacked[0]
        return (K + K.T) / 2

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows, in float64."""
        if not len(rows):
            return np.zeros((0, self.shape[1]))
        distinct, back = np.unique(rows, return_inverse=True)
        return self.subset(distinct).run(Rows()).stacked[0][back]

    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Column sums of weights x, X'U, and column sums of weights x^2; one pass."""
        found = self.run(Moments(weights, U)).summed
        if not found:
            p = self.shape[1]
            return np.zeros(p), np.zeros((p, U.shape[1])), np.zeros(p)
        sums, products, squares = found
        return sums, products, squares

    def first_not_finite(self, limit: float = LARGEST) -> tuple[int, int] | None:
        """Row and column of the first number that is NaN or, in size, above `limit`."""
        found = self.run(NotFinite(limit)).stacked
        if not found or not len(found[0]):
            return None
        return int(found[0][0, 0]), int(found[0][0, 1])

    @property
    def by_blocks(self) -> bool:
        """That is what it is."""
        return True

    @property
    def compiled_columns(self) -> int:
        """Blocks are swept by compiled loops, as large arrays are."""
        return 32

    def _sum(self, operation: Operation, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        found = self.run(operation).summed
        return found[0] if found else np.zeros(shape, dtype)
