"""Sums over rows that training sets are made of: all of them, less those that are left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ling.design import AffineDesign, Array, Metered
from ling.design.between import RowSums
from ling.design.gram import form_gram
from ling.selection.samples import Samples
from ling.selection.splits import Rows, Splits, runs


@dataclass(frozen=True, eq=False)
class Sums:
    """Weighted sums over some rows: of 1, x, y, x y' and x x'; means of x and y once centred."""

    mass: float
    x: Array
    y: Array
    xy: Array
    gram: Array

    def __sub__(self, other: Sums) -> Sums:
        return Sums(
            self.mass - other.mass, self.x - other.x, self.y - other.y, self.xy - other.xy,
            self.gram - other.gram,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SplitSums(RowSums):
    """The sums over the rows that each of `count` splits tests, from number `first` on."""

    tested_by: NDArray[Any]
    weights: Array
    Y: Array
    first: int
    count: int

    def per_row(self) -> dict[str, Any]:
        """Who tests a row, its weight and its targets."""
        return {"tested_by": self.tested_by, "weights": self.weights, "Y": self.Y}

    def with_rows(self, arrays: dict[str, Any]) -> Self:
        """For some of the rows."""
        return replace(self, **arrays)

    def n_summed(self, p: int) -> int:
        """A square for each split."""
        return self.count * p * p

    @property
    def least_rows(self) -> int:
        """So many that adding squares up is little work beside making them."""
        return 512 * self.count

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """What these rows add to mass, x, y, x y' and x x'."""
        k, p, t = self.count, X.shape[1], self.Y.shape[1]
        mass, x, y = np.zeros(k), np.zeros((k, p)), np.zeros((k, t))
        xy, gram = np.zeros((k, p, t)), np.zeros((k, p, p))
        for number in np.unique(self.tested_by):
            at = int(number) - self.first
            if not 0 <= at < k:
                continue
            mine = self.tested_by == number
            rows, weights, Y = X[mine], self.weights[mine], self.Y[mine]
            mass[at], y[at] = weights.sum(), weights @ Y
            x[at], xy[at] = weights @ rows, rows.T @ (weights[:, None] * Y)
            rows *= np.sqrt(weights)[:, None]
            form_gram(rows, out=gram[at])
        return mass, x, y, xy, gram


def by_split(samples: Samples, splits: Splits, numbers: range) -> dict[int, Sums]:
    """The sums over the rows that these splits test; one pass."""
    assert splits.tested_by is not None
    wanted = SplitSums(splits.tested_by, samples.weights, samples.Y, numbers.start, len(numbers))
    found = samples.design.sum_rows(wanted)
    return {number: Sums(*(each[at] for each in found)) for at, number in enumerate(numbers)}


def total(samples: Samples) -> Sums:
    """Sums of x and y are 0 if they are centred, and not needed if they are not."""
    none = np.zeros(samples.shape[1]), np.zeros(samples.n_targets)
    problem = samples.problem
    return Sums(float(samples.weights.sum()), *none, problem.moments, problem.gram())


def over(
    samples: Samples, rows: Rows, x_shift: Array | None = None, y_shift: Array | None = None
) -> Sums:
    """Over `rows`, of x and y less their shifts: means far off would otherwise take the digits."""
    p, weights, Y = samples.shape[1], samples.weights[rows], samples.Y[rows]
    Y = Y if y_shift is None else Y - y_shift
    roots = np.sqrt(weights)[:, None]
    right = np.hstack([roots, roots * Y])
    gram, products = np.zeros((p, p)), np.zeros((p, right.shape[1]))
    at = 0
    for some in samples.chunks(rows):
        block = samples.problem.design.subset(some)
        here = slice(at, at + len(some))
        if x_shift is not None:
            moved = AffineDesign.corrected(block.design, roots[here], x_shift[:, None])
            block = Metered(moved, block.meter, block.share)
        gram += block.gram(np.float64)
        products += block.rmatmat(right[here])
        at += len(some)
    return Sums(float(weights.sum()), products[:, 0], weights @ Y, products[:, 1:], gram)


def means(samples: Samples, rows: Rows) -> tuple[Array, Array]:
    """Weighted means of x and y over `rows`; zeros without an intercept."""
    x, y = np.zeros(samples.shape[1]), np.zeros(samples.n_targets)
    if samples.fit_intercept:
        weights = samples.weights[rows]
        for some in samples.chunks(rows):
            x += samples.problem.design.subset(some).rmatmat(samples.roots[some])
        return x / weights.sum(), weights @ samples.Y[rows] / weights.sum()
    return x, y


def training_mass(samples: Samples, splits: Splits, number: int) -> float:
    """Weights of the rows that a split trains on; a difference would have lost digits."""
    if splits.tested_by is None:
        return float(samples.weights[splits.train(number)].sum())
    kept = splits.tested_by != number
    return float(sum(samples.weights[run][kept[run]].sum() for run in runs(len(kept))))


def centred(samples: Samples, sums: Sums) -> Sums:
    """Products of what is left of x and y when their means, which are x and y now, are taken."""
    if not samples.fit_intercept:
        return replace(sums, x=np.zeros_like(sums.x), y=np.zeros_like(sums.y))
    x, y = sums.x / sums.mass, sums.y / sums.mass
    xy = sums.xy - np.outer(sums.mass * x, y)
    return replace(sums, x=x, y=y, xy=xy, gram=sums.gram - np.outer(sums.mass * x, x))
