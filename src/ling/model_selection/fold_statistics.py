"""Sufficient statistics of rows of a cross-validation problem: of all, of some, of every fold.

The samples are z = (x, y) of `CVProblem.design` and `CVProblem.Y`, about the means of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.arrays import row_slices
from ling.design.rows import RowReduction, per_row
from ling.linalg.gram import form_gram
from ling.model_selection.cv_problem import CVProblem
from ling.model_selection.splits import ROWS_PER_SLICE, RowIndices, Splits
from ling.solvers.sufficient_statistics import SufficientStatistics


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldSums(RowReduction):
    """Reduction of rows to the sums of w, 1, w z, w x x', w x y' and w y^2 of several folds.

    Fold k holds the test rows of split k. The folds are the `n_folds` ones that start with number
    `first_fold`. Rows of weight 0 are not counted in the sum of 1.
    """

    test_fold: NDArray[Any] = per_row()
    weights: Array = per_row()
    Y: Array = per_row()
    first_fold: int
    n_folds: int

    def reduced_size(self, p: int) -> int:
        """Approximate number of elements of the result: a p x p Gram matrix for each fold."""
        return self.n_folds * p * p

    @property
    def min_block_rows(self) -> int:
        """Smallest useful block: adding up Gram matrices is then cheap compared to forming them."""
        return 512 * self.n_folds

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """Sums over these rows, for each fold.

        The shapes are (n_folds,), (n_folds,), (n_folds, p + t), (n_folds, p, p), (n_folds, p, t)
        and (n_folds, t).
        """
        k, p, t = self.n_folds, X.shape[1], self.Y.shape[1]
        total_weight, n_counted, sums = np.zeros(k), np.zeros(k), np.zeros((k, p + t))
        gram, cross, squares = np.zeros((k, p, p)), np.zeros((k, p, t)), np.zeros((k, t))
        for number in np.unique(self.test_fold):
            fold = int(number) - self.first_fold
            if not 0 <= fold < k:
                continue
            is_test_row = self.test_fold == number
            rows, weights, Y = X[is_test_row], self.weights[is_test_row], self.Y[is_test_row]
            weighted_Y = weights[:, None] * Y
            total_weight[fold], n_counted[fold] = weights.sum(), np.count_nonzero(weights)
            sums[fold, :p], sums[fold, p:] = weights @ rows, weights @ Y
            cross[fold], squares[fold] = rows.T @ weighted_Y, np.einsum("ij,ij->j", Y, weighted_Y)
            rows *= np.sqrt(weights)[:, None]
            form_gram(rows, out=gram[fold])
        return total_weight, n_counted, sums, gram, cross, squares


def fold_statistics(
    samples: CVProblem, splits: Splits, numbers: range
) -> dict[int, SufficientStatistics]:
    """Statistics of the test rows of each split in `numbers`, by split number; one pass.

    Every row has to be tested by at most one split: `splits.test_fold` is not None.
    """
    assert splits.test_fold is not None
    reduction = FoldSums(
        test_fold=splits.test_fold,
        weights=samples.weights,
        Y=samples.Y,
        first_fold=numbers.start,
        n_folds=len(numbers),
    )
    total_weight, n_counted, sums, gram, cross, squares = samples.design.reduce_rows(reduction)
    return {
        number: SufficientStatistics.from_sums(
            float(total_weight[fold]),
            int(n_counted[fold]),
            samples.fit_intercept,
            shift=np.zeros(sums.shape[1]),
            sums=sums[fold] if samples.fit_intercept else None,
            gram=gram[fold],
            cross=cross[fold],
            squares=squares[fold],
        )
        for fold, number in enumerate(numbers)
    }


def statistics_of_all(samples: CVProblem) -> SufficientStatistics:
    """Statistics of all rows; a pass only if the Gram matrix is not there yet.

    X and Y are centred, so their mean is taken to be 0. The rounding error of the mean that was
    subtracted is relative to that mean, and not part of the error scales.
    """
    problem, p = samples.problem, samples.shape[1]
    return SufficientStatistics.from_sums(
        float(samples.weights.sum()),
        samples.standardization.n_counted,
        samples.fit_intercept,
        shift=np.zeros(p + samples.n_targets),
        sums=None,
        gram=problem.gram(),
        cross=problem.moments,
        squares=problem.target_norms**2,
    )


def statistics_of_rows(
    samples: CVProblem, rows: RowIndices, *, about_mean: bool = False
) -> SufficientStatistics:
    """Statistics of `rows`, in which a row may occur several times; two passes over them.

    With `about_mean=True` the rows are centred on their own mean before products are formed, for a
    third pass. That avoids cancellation if their mean is far from the mean of all rows.
    """
    p, t = samples.shape[1], samples.n_targets
    centred, weights = samples.fit_intercept, samples.weights[rows]
    shift = _mean_of_rows(samples, rows) if about_mean and centred else np.zeros(p + t)
    gram, products = np.zeros((p, p)), np.zeros((p, 1 + t))
    y_sums, squares = np.zeros(t), np.zeros(t)
    for batch in samples.row_batches(rows):
        block, sqrt_weights = samples.problem.design.subset(batch), samples.sqrt_weights[batch]
        if shift[:p].any():
            block = block.low_rank_corrected(sqrt_weights[:, None], shift[:p, None])
        gram += block.gram(np.float64)
        Y = samples.Y[batch] - shift[p:]
        Y *= sqrt_weights[:, None]
        products += block.rmatmat(np.column_stack([sqrt_weights, Y]))
        y_sums += sqrt_weights @ Y
        squares += np.einsum("ij,ij->j", Y, Y)
    return SufficientStatistics.from_sums(
        float(weights.sum()),
        int(np.count_nonzero(weights)),
        centred,
        shift=shift,
        sums=np.concatenate([products[:, 0], y_sums]) if centred else None,
        gram=gram,
        cross=products[:, 1:],
        squares=squares,
    )


def _mean_of_rows(samples: CVProblem, rows: RowIndices) -> Array:
    """Weighted mean (p + t,) of x and y over `rows`; one pass over them."""
    weights = samples.weights[rows]
    x_sums, y_sums = np.zeros(samples.shape[1]), np.zeros(samples.n_targets)
    for batch in samples.row_batches(rows):
        x_sums += samples.problem.design.subset(batch).rmatmat(samples.sqrt_weights[batch])
        y_sums += samples.weights[batch] @ samples.Y[batch]
    return np.concatenate([x_sums, y_sums]) / float(weights.sum())


def training_weight(samples: CVProblem, splits: Splits, number: int) -> float:
    """Total weight of the training rows of split `number`.

    It is summed over these rows, because the difference of two total weights may cancel.
    """
    if splits.test_fold is None:
        return float(samples.weights[splits.train_rows(number)].sum())
    is_training = splits.test_fold != number
    return float(
        sum(
            samples.weights[row_slice][is_training[row_slice]].sum()
            for row_slice in row_slices(len(is_training), ROWS_PER_SLICE)
        )
    )
