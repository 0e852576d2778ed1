"""Sums over rows that training sets are made of: all of them, less those that are left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design import AffineDesign, Metered
from ling.design.row_transform import RowReduction
from ling.linalg.gram import form_gram
from ling.model_selection.cv_problem import CVProblem
from ling.model_selection.splits import RowIndices, Splits, row_slices


@dataclass(frozen=True, eq=False)
class WeightedSums:
    """Weighted sums over some rows: of 1, x, y, x y' and x x'; means of x and y once centred."""

    total_weight: float
    x: Array
    y: Array
    xy: Array
    gram: Array

    def __sub__(self, other: WeightedSums) -> WeightedSums:
        return WeightedSums(
            self.total_weight - other.total_weight,
            self.x - other.x,
            self.y - other.y,
            self.xy - other.xy,
            self.gram - other.gram,
        )


@dataclass(frozen=True, eq=False)
class FoldSums(RowReduction):
    """The sums over the rows that each of `count` splits tests, from number `first` on."""

    test_fold: NDArray[Any]
    weights: Array
    Y: Array
    first_fold: int
    n_folds: int

    def row_arrays(self) -> dict[str, Any]:
        """Who tests a row, its weight and its targets."""
        return {"test_fold": self.test_fold, "weights": self.weights, "Y": self.Y}

    def with_row_arrays(self, arrays: dict[str, Any]) -> Self:
        """For some of the rows."""
        return replace(self, **arrays)

    def reduced_size(self, p: int) -> int:
        """A square for each split."""
        return self.n_folds * p * p

    @property
    def min_block_rows(self) -> int:
        """So many that adding squares up is little work beside making them."""
        return 512 * self.n_folds

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """What these rows add to mass, x, y, x y' and x x'."""
        k, p, t = self.n_folds, X.shape[1], self.Y.shape[1]
        total_weight, x, y = np.zeros(k), np.zeros((k, p)), np.zeros((k, t))
        xy, gram = np.zeros((k, p, t)), np.zeros((k, p, p))
        for number in np.unique(self.test_fold):
            at = int(number) - self.first_fold
            if not 0 <= at < k:
                continue
            mine = self.test_fold == number
            rows, weights, Y = X[mine], self.weights[mine], self.Y[mine]
            total_weight[at], y[at] = weights.sum(), weights @ Y
            x[at], xy[at] = weights @ rows, rows.T @ (weights[:, None] * Y)
            rows *= np.sqrt(weights)[:, None]
            form_gram(rows, out=gram[at])
        return total_weight, x, y, xy, gram


def accumulate_folds(samples: CVProblem, splits: Splits, numbers: range) -> dict[int, WeightedSums]:
    """The sums over the rows that these splits test; one pass."""
    assert splits.test_fold is not None
    wanted = FoldSums(splits.test_fold, samples.weights, samples.Y, numbers.start, len(numbers))
    found = samples.design.reduce_rows(wanted)
    return {
        number: WeightedSums(*(each[at] for each in found)) for at, number in enumerate(numbers)
    }


def accumulate_all(samples: CVProblem) -> WeightedSums:
    """Sums of x and y are 0 if they are centred, and not needed if they are not."""
    none = np.zeros(samples.shape[1]), np.zeros(samples.n_targets)
    problem = samples.problem
    return WeightedSums(float(samples.weights.sum()), *none, problem.moments, problem.gram())


def accumulate_rows(
    samples: CVProblem, rows: RowIndices, x_shift: Array | None = None, y_shift: Array | None = None
) -> WeightedSums:
    """Over `rows`, of x and y less their shifts: means far off would otherwise take the digits."""
    p, weights, Y = samples.shape[1], samples.weights[rows], samples.Y[rows]
    Y = Y if y_shift is None else Y - y_shift
    roots = np.sqrt(weights)[:, None]
    right = np.hstack([roots, roots * Y])
    gram, products = np.zeros((p, p)), np.zeros((p, right.shape[1]))
    at = 0
    for some in samples.row_batches(rows):
        block = samples.problem.design.subset(some)
        here = slice(at, at + len(some))
        if x_shift is not None:
            moved = AffineDesign.low_rank_corrected(block.design, roots[here], x_shift[:, None])
            block = Metered(moved, block.meter, block.pass_fraction)
        gram += block.gram(np.float64)
        products += block.rmatmat(right[here])
        at += len(some)
    return WeightedSums(float(weights.sum()), products[:, 0], weights @ Y, products[:, 1:], gram)


def weighted_means(samples: CVProblem, rows: RowIndices) -> tuple[Array, Array]:
    """Weighted means of x and y over `rows`; zeros without an intercept."""
    x, y = np.zeros(samples.shape[1]), np.zeros(samples.n_targets)
    if samples.fit_intercept:
        weights = samples.weights[rows]
        for some in samples.row_batches(rows):
            x += samples.problem.design.subset(some).rmatmat(samples.sqrt_weights[some])
        return x / weights.sum(), weights @ samples.Y[rows] / weights.sum()
    return x, y


def training_weight(samples: CVProblem, splits: Splits, number: int) -> float:
    """Weights of the rows that a split trains on; a difference would have lost digits."""
    if splits.test_fold is None:
        return float(samples.weights[splits.train_rows(number)].sum())
    kept = splits.test_fold != number
    return float(sum(samples.weights[run][kept[run]].sum() for run in row_slices(len(kept))))


def about_mean(samples: CVProblem, sums: WeightedSums) -> WeightedSums:
    """Products of what is left of x and y when their means, which are x and y now, are taken."""
    if not samples.fit_intercept:
        return replace(sums, x=np.zeros_like(sums.x), y=np.zeros_like(sums.y))
    x, y = sums.x / sums.total_weight, sums.y / sums.total_weight
    xy = sums.xy - np.outer(sums.total_weight * x, y)
    return replace(sums, x=x, y=y, xy=xy, gram=sums.gram - np.outer(sums.total_weight * x, x))
