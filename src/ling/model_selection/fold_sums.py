"""Sufficient statistics of training sets: sums over all rows, minus sums over held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.rows import RowReduction, per_row
from ling.linalg.gram import form_gram
from ling.model_selection.cv_problem import CVProblem
from ling.model_selection.splits import RowIndices, Splits, row_slices


@dataclass(frozen=True, eq=False)
class WeightedSums:
    """Weighted sums of 1, x, y, x y' and x x' over a set of rows.

    The shapes are (p,), (t,), (p, t) and (p, p). After `about_mean`, `x` and `y` are means instead
    of sums.
    """

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


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldSums(RowReduction):
    """Reduction over rows to the `WeightedSums` of the test rows of several splits.

    The splits are the `n_folds` splits that start with number `first_fold`.
    """

    test_fold: NDArray[Any] = per_row()
    weights: Array = per_row()
    Y: Array = per_row()
    first_fold: int
    n_folds: int

    def reduced_size(self, p: int) -> int:
        """Approximate number of elements of the result: a p x p Gram matrix for each split."""
        return self.n_folds * p * p

    @property
    def min_block_rows(self) -> int:
        """Smallest useful block: adding up Gram matrices is then cheap compared to forming them."""
        return 512 * self.n_folds

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """Contribution of these rows to the sums of w, w x, w y, w x y' and w x x', for each split.

        The shapes are (n_folds,), (n_folds, p), (n_folds, t), (n_folds, p, t), (n_folds, p, p).
        """
        k, p, t = self.n_folds, X.shape[1], self.Y.shape[1]
        total_weight, x, y = np.zeros(k), np.zeros((k, p)), np.zeros((k, t))
        xy, gram = np.zeros((k, p, t)), np.zeros((k, p, p))
        for number in np.unique(self.test_fold):
            fold_index = int(number) - self.first_fold
            if not 0 <= fold_index < k:
                continue
            is_test_row = self.test_fold == number
            rows, weights, Y = X[is_test_row], self.weights[is_test_row], self.Y[is_test_row]
            total_weight[fold_index], y[fold_index] = weights.sum(), weights @ Y
            x[fold_index], xy[fold_index] = weights @ rows, rows.T @ (weights[:, None] * Y)
            rows *= np.sqrt(weights)[:, None]
            form_gram(rows, out=gram[fold_index])
        return total_weight, x, y, xy, gram


def accumulate_folds(samples: CVProblem, splits: Splits, numbers: range) -> dict[int, WeightedSums]:
    """Weighted sums over the test rows of each split in `numbers`, by split number; one pass."""
    assert splits.test_fold is not None
    reduction = FoldSums(
        test_fold=splits.test_fold,
        weights=samples.weights,
        Y=samples.Y,
        first_fold=numbers.start,
        n_folds=len(numbers),
    )
    fold_sums = samples.design.reduce_rows(reduction)
    return {
        number: WeightedSums(*(sums[fold_index] for sums in fold_sums))
        for fold_index, number in enumerate(numbers)
    }


def accumulate_all(samples: CVProblem) -> WeightedSums:
    """Weighted sums over all rows.

    The sums of x and y are set to 0. That is exact for centred data. Without an intercept the data
    is not centred, but then these sums are not needed.
    """
    zero_sums = np.zeros(samples.shape[1]), np.zeros(samples.n_targets)
    problem = samples.problem
    return WeightedSums(float(samples.weights.sum()), *zero_sums, problem.moments, problem.gram())


def accumulate_rows(
    samples: CVProblem, rows: RowIndices, x_shift: Array | None = None, y_shift: Array | None = None
) -> WeightedSums:
    """Weighted sums over `rows` of x - `x_shift` and y - `y_shift`.

    Shifts near the means of the rows avoid cancellation when the means are large.
    """
    p, weights, Y = samples.shape[1], samples.weights[rows], samples.Y[rows]
    Y = Y if y_shift is None else Y - y_shift
    sqrt_weights = np.sqrt(weights)[:, None]
    right_hand_sides = np.hstack([sqrt_weights, sqrt_weights * Y])
    gram, products = np.zeros((p, p)), np.zeros((p, right_hand_sides.shape[1]))
    start = 0
    for batch in samples.row_batches(rows):
        block = samples.problem.design.subset(batch)
        batch_slice = slice(start, start + len(batch))
        if x_shift is not None:
            block = block.low_rank_corrected(sqrt_weights[batch_slice], x_shift[:, None])
        gram += block.gram(np.float64)
        products += block.rmatmat(right_hand_sides[batch_slice])
        start += len(batch)
    return WeightedSums(float(weights.sum()), products[:, 0], weights @ Y, products[:, 1:], gram)


def weighted_means(samples: CVProblem, rows: RowIndices) -> tuple[Array, Array]:
    """Weighted means of x, (p,), and y, (t,), over `rows`; zeros without an intercept."""
    x, y = np.zeros(samples.shape[1]), np.zeros(samples.n_targets)
    if samples.fit_intercept:
        weights = samples.weights[rows]
        for batch in samples.row_batches(rows):
            x += samples.problem.design.subset(batch).rmatmat(samples.sqrt_weights[batch])
        return x / weights.sum(), weights @ samples.Y[rows] / weights.sum()
    return x, y


def training_weight(samples: CVProblem, splits: Splits, number: int) -> float:
    """Total weight of the training rows of a split.

    It is summed over these rows, because a difference of two totals would cancel.
    """
    if splits.test_fold is None:
        return float(samples.weights[splits.train_rows(number)].sum())
    is_training = splits.test_fold != number
    return float(
        sum(
            samples.weights[row_slice][is_training[row_slice]].sum()
            for row_slice in row_slices(len(is_training))
        )
    )


def about_mean(samples: CVProblem, sums: WeightedSums) -> WeightedSums:
    """Sums of products of centred x and y, with the means in place of the sums of x and y.

    Without an intercept nothing is centred, and `x` and `y` are 0.
    """
    if not samples.fit_intercept:
        return replace(sums, x=np.zeros_like(sums.x), y=np.zeros_like(sums.y))
    x, y = sums.x / sums.total_weight, sums.y / sums.total_weight
    xy = sums.xy - np.outer(sums.total_weight * x, y)
    return replace(sums, x=x, y=y, xy=xy, gram=sums.gram - np.outer(sums.total_weight * x, x))
