"""Direct cross-validation: one factorisation for every training set, which serves all alphas.

For p <= n the Gram matrix X'X (p, p) of a training set is that of all rows minus that of the
held-out rows. For p > n the kernel matrix X X' of a training set is part of that of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from ling._typing import Array
from ling.linalg.cholesky import symmetric_form
from ling.linalg.rounding import EPS
from ling.linalg.tridiagonal import HouseholderTridiagonal
from ling.model_selection.cv_problem import (
    CVProblem,
    FoldCoefs,
    HeldOutPredictor,
)
from ling.model_selection.fold_fit import FoldFit
from ling.model_selection.fold_statistics import (
    fold_statistics,
    statistics_of_all,
    statistics_of_rows,
    training_weight,
)
from ling.model_selection.held_out import HeldOut
from ling.model_selection.make_fold_fit import dual_fold_fit, gram_fold_fit, singular_fold_fit
from ling.model_selection.score_accumulators import SampleLoss
from ling.model_selection.splits import RowIndices, Splits
from ling.solvers.cost_model import is_svd_affordable, lacks_memory_for_svd
from ling.solvers.cv_cost import fold_factors_bytes, fold_statistics_bytes, rotated_rows_bytes
from ling.solvers.direct import ILL_CONDITIONED_NOTE, solve_by_singular_values
from ling.solvers.engine import Candidate
from ling.solvers.problem import Problem
from ling.solvers.sufficient_statistics import SufficientStatistics

# A column of a training set has lost digits if its sum of squares is below this fraction of its
# `gram_error_scale`: 4 of 16 digits. With a larger fraction, ordinary folds would be summed again.
MIN_REMAINING_FRACTION = 1e-4
# Largest rounding error of the Gram matrix of a training set, in columns that have lost digits,
# relative to the smallest alpha. Above it, the training rows are summed, which takes as long as the
# Gram matrix of all rows. Levels of one-hot columns that one fold holds alone have lost all digits:
# with 1e-10, 2 of 90 such folds were summed again (2 rows per level, smallest alpha 1e-4).
MAX_GRAM_ERROR_TO_ALPHA = 1e-10
# Fractions of the memory budget: factors that are kept for further batches of alphas while scores
# are summed, factors and rotated rows that are kept for further alphas, statistics of folds.
MAX_SCORING_FACTORS_FRACTION, MAX_KEPT_FACTORS_FRACTION, MAX_STATISTICS_FRACTION = 0.25, 0.5, 0.25


class DirectFolds(HeldOutPredictor):
    """Predictions for the test rows of every split, exact up to rounding.

    `keep_factors=True` says that more alphas may follow. The factorisations are then kept, if all
    of them fit in memory.
    """

    def __init__(self, samples: CVProblem, splits: Splits, keep_factors: bool = False) -> None:
        self.cv_problem = samples
        self.keep_factors = keep_factors
        self.splits = splits
        self.n_splits = len(splits)
        self._fold_fits: dict[int, FoldFit] = {}
        self._fold_statistics: dict[int, SufficientStatistics] = {}
        self._uses_singular_values = False

    def test_rows(self, number: int) -> RowIndices:
        """Indices of the test rows of split `number`."""
        return self.splits.test_rows(number)

    @property
    def has_additive_scores(self) -> bool:
        """True if X is out of core or memory is short, p <= n, and no split repeats a test row."""
        n, p = self.cv_problem.shape
        return self.cv_problem.sums_scores and p <= n and not self.splits.has_repeated_test_rows

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> tuple[tuple[Array, ...], Array]:
        """Score sums of all splits, and bounds; one pass for a batch of alphas."""

        def fold_coefs(number: int, batch: slice) -> FoldCoefs:
            return self._fold_fit(number, alphas).coefs(alphas, batch)

        return self.cv_problem.accumulate_fold_scores(self.splits, fold_coefs, alphas, sample_loss)

    @property
    def can_refine(self) -> bool:
        """True if singular values of X are not used yet, and affordable."""
        samples = self.cv_problem
        return not self._uses_singular_values and is_svd_affordable(
            *samples.shape, samples.memory, self.n_splits
        )

    @property
    def lacks_memory(self) -> bool:
        """True if nothing but memory prevents the use of singular values of X."""
        samples = self.cv_problem
        return lacks_memory_for_svd(*samples.shape, samples.memory, self.n_splits)

    def refine(self, alphas: Array) -> bool:
        """Use singular values of X from now on, if that is possible and pays; True if it is new."""
        if not self.can_refine:
            return False
        self._uses_singular_values = True
        self._fold_fits.clear()
        return True

    def final_fit(self, problem: Problem) -> Candidate | None:
        """The fit to all samples from singular values, if the folds needed them."""
        if not self._uses_singular_values:
            return None
        return solve_by_singular_values(problem, self.cv_problem.memory, ILL_CONDITIONED_NOTE)

    def smallest_direction(self, alphas: Array) -> float | None:
        """The smallest eigenvalue above rounding in the first training set, if it is known."""
        if not self._can_cache_fits:
            return None
        form = self._fold_fit(0, alphas).form
        return form.smallest_significant() if isinstance(form, HouseholderTridiagonal) else None

    def effective_dof(self, alphas: Array) -> tuple[Array, Array]:
        """Effective degrees of freedom of a fit to all samples, and their errors, which are 0."""
        problem = self.cv_problem.problem
        is_wide = self.cv_problem.shape[1] > self.cv_problem.shape[0]
        A = problem.row_gram() if is_wide else problem.gram()
        form = symmetric_form(A, float(alphas.min()))
        return form.effective_dof(alphas), np.zeros(len(alphas))

    def prediction_batches(self, alphas: Array) -> Iterator[tuple[int, slice, HeldOut]]:
        """Split number, batch of alphas, and predictions for the test rows."""
        samples = self.cv_problem
        for number in range(self.n_splits):
            fold_fit, rows = self._fold_fit(number, alphas), self.test_rows(number)
            for batch, P, bounds in fold_fit.prediction_batches(alphas, samples, rows):
                yield number, batch, samples.held_out(P, bounds, rows)
            del fold_fit  # its form would be in memory beside the next one

    def _fold_fit(self, number: int, alphas: Array) -> FoldFit:
        """The fit of split `number` for these alphas, taken from or added to the cache."""
        fold_fit = self._fold_fits.get(number)
        if fold_fit is None:
            fold_fit = self._compute_fold_fit(number, alphas)
            self.cv_problem.problem.design.meter.add(4 / 3 * float(len(fold_fit.form)) ** 3)
            if self._can_cache_fits:
                self._fold_fits[number] = fold_fit
        return fold_fit

    def _compute_fold_fit(self, number: int, alphas: Array) -> FoldFit:
        """The fit of split `number` for all alphas from the smallest of `alphas` on."""
        samples, splits, smallest_alpha = self.cv_problem, self.splits, float(alphas.min())
        n, p = samples.shape
        if self._uses_singular_values:
            return singular_fold_fit(samples, splits, number)
        if p > n:
            return dual_fold_fit(samples, splits, number, smallest_alpha)
        training, held_out = self._training_statistics(number, smallest_alpha)
        return gram_fold_fit(samples, splits, number, training, held_out, alphas)

    @property
    def _can_cache_fits(self) -> bool:
        """True if more alphas may follow and the factorisations of all splits fit in memory.

        Additive scores are computed in batches of alphas, so that more alphas always follow.
        """
        n, p = self.cv_problem.shape
        memory, n_bytes = self.cv_problem.memory, fold_factors_bytes(n, p, self.n_splits)
        if self.has_additive_scores:
            return memory.allows(n_bytes, MAX_SCORING_FACTORS_FRACTION)
        return self.keep_factors and memory.allows(
            n_bytes + rotated_rows_bytes(n, p), MAX_KEPT_FACTORS_FRACTION
        )

    def _training_statistics(
        self, number: int, smallest_alpha: float
    ) -> tuple[SufficientStatistics, SufficientStatistics | None]:
        """Statistics of the training rows of split `number`, and of the rows that were removed.

        They are those of all rows without the held-out ones, unless this loses too many digits for
        a fit with `smallest_alpha`, or takes longer. Then the training rows are summed, and None is
        returned for the others.
        """
        parts = self._remaining_statistics(number)
        if parts is not None and not has_lost_digits(parts[0], smallest_alpha):
            return parts
        del parts  # their Gram matrices would be in memory beside the new one
        rows = self.splits.train_rows(number)
        return statistics_of_rows(self.cv_problem, rows, about_mean=True), None

    def _remaining_statistics(
        self, number: int
    ) -> tuple[SufficientStatistics, SufficientStatistics] | None:
        """Statistics of all rows without those that split `number` holds out, and of the latter.

        None if the training set is not the remainder, or not larger than what is held out.
        """
        held_out = self._held_out_statistics(number)
        if held_out is None:
            return None
        total_weight = training_weight(self.cv_problem, self.splits, number)
        return self._statistics_of_all.without(held_out, total_weight), held_out

    @cached_property
    def _statistics_of_all(self) -> SufficientStatistics:
        return statistics_of_all(self.cv_problem)

    def _held_out_statistics(self, number: int) -> SufficientStatistics | None:
        """Statistics of the rows that split `number` holds out.

        None if these are half of all rows or more, or if a training row is repeated, as in a
        bootstrap. If X is out of core, one pass serves as many splits as fit in memory.
        """
        samples, splits = self.cv_problem, self.splits
        n, p = samples.shape
        if not (samples.is_out_of_core and splits.test_fold is not None):
            rows = splits.held_out_rows(number)
            if rows is None or 2 * len(rows) >= n:
                return None
            return statistics_of_rows(samples, rows)
        if 2 * np.count_nonzero(splits.test_fold == number) >= n:
            return None
        if number not in self._fold_statistics:
            n_bytes = fold_statistics_bytes(p, samples.n_targets)
            n_folds = samples.memory.count(n_bytes, self.n_splits, MAX_STATISTICS_FRACTION)
            numbers = range(number, min(number + n_folds, self.n_splits))
            self._fold_statistics = fold_statistics(samples, splits, numbers)
        return self._fold_statistics.pop(number)


def has_lost_digits(statistics: SufficientStatistics, smallest_alpha: float) -> bool:
    """True if removing rows has cost digits of `statistics.gram` that a fit needs.

    With s = gram_error_scale, the error of an entry of gram is proportional to sqrt(s_j s_k), so
    that of the matrix, in the Frobenius norm, to sum_j s_j. The sum is over the columns that have
    lost digits. The unit is EPS instead of `statistics.noise`: noise grows with the number of rows,
    but just as much for a sum of the training rows. With noise, 30 of the 90 folds with levels of
    their own (see MAX_GRAM_ERROR_TO_ALPHA) would be summed again, most of them without a gain.
    """
    error_scale = statistics.gram_error_scale[: statistics.n_features]
    is_lost = np.diag(statistics.gram) < MIN_REMAINING_FRACTION * error_scale
    error = EPS * float(error_scale[is_lost].sum())
    return not error <= MAX_GRAM_ERROR_TO_ALPHA * smallest_alpha  # True for NaN
