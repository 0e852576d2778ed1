"""Direct cross-validation: one factorisation for every training set, which serves all alphas.

For p <= n the Gram matrix X'X (p, p) of a training set is that of all rows minus that of the
held-out rows. For p > n the kernel matrix X X' of a training set is part of that of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design import Design, as_design
from ling.linalg.cholesky import CholeskyForm, symmetric_form
from ling.linalg.rounding import EPS
from ling.linalg.tridiagonal import HouseholderTridiagonal
from ling.model_selection.cv_problem import (
    PREDICTION_BATCH_ELEMENTS,
    CVProblem,
    HeldOutPredictor,
)
from ling.model_selection.fold_statistics import (
    fold_statistics,
    statistics_of_all,
    statistics_of_rows,
    training_weight,
)
from ling.model_selection.score_accumulators import SampleLoss
from ling.model_selection.splits import RowIndices, Splits
from ling.solvers.cost_model import (
    fold_factors_bytes,
    fold_statistics_bytes,
    rotated_rows_bytes,
)
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
# Largest relative error from rounding with which fits count as exact.
MAX_ROUNDING_ERROR = 1e-3


@dataclass(frozen=True, eq=False)
class FoldFit:
    """The fits to one training set for all alphas.

    With A, (m, m), in the form `form`, and `rhs` C, (m, t), the coefficients are
    W = (A + alpha I)^-1 C. Predictions for the test rows M, (n_test, m), are M W + intercept, with
    the intercept y_shift - x_shift'W. `make_test_design` returns M, x_shift is (m,), y_shift (t,).
    In the primal formulation A = X'X, C = X'Y and m = p. In the dual one A = X X', C = Y, W are
    dual coefficients and M is a kernel matrix.
    """

    form: HouseholderTridiagonal | CholeskyForm
    rhs: Array
    make_test_design: Callable[[], Design]
    x_shift: Array
    y_shift: Array

    @cached_property
    def test_design(self) -> Design:
        """The test rows M, (n_test, m)."""
        return self.make_test_design()

    @cached_property
    def rotated_rhs(self) -> Array:
        """Q'C, (m, t)."""
        return self.form.rotate(self.rhs)

    @cached_property
    def rotated_test_rows(self) -> Array:
        """M Q as a dense array, (n_test, m)."""
        Q = self.form.Q
        return self.test_design.map_rows(lambda rows: rows @ Q)

    def rotated_coef(self, alphas: Array) -> Array:
        """Q'W for all alphas, (m, n_alphas * t); the targets of the first alpha come first."""
        return np.hstack([self.form.solve(self.rotated_rhs, float(alpha)) for alpha in alphas])

    def coef_and_intercepts(self, alphas: Array) -> tuple[Array, Array]:
        """W for all alphas, (m, n_alphas * t), and the intercepts, (n_alphas * t,)."""
        W = self.form.unrotate(self.rotated_coef(alphas))
        return W, np.tile(self.y_shift, len(alphas)) - self.x_shift @ W

    def predictions(self, alphas: Array) -> Iterator[Array]:
        """Predictions for the test rows, (n_test, t), for each alpha in turn."""
        t, n_test = self.rhs.shape[1], self.test_design.shape[0]
        # For more columns of W than test rows, rotating M takes fewer FLOPs than unrotating W.
        rotate_rows = t * len(alphas) > n_test
        rows = as_design(self.rotated_test_rows) if rotate_rows else self.test_design
        x_shift = self.form.rotate(self.x_shift[:, None])[:, 0] if rotate_rows else self.x_shift
        step = max(1, PREDICTION_BATCH_ELEMENTS // max(1, t * (len(self.form) + n_test)))
        for start in range(0, len(alphas), step):
            batch = alphas[start : start + step]
            W = self.rotated_coef(batch)
            W = W if rotate_rows else self.form.unrotate(W)
            P = rows.matmat(W) + (np.tile(self.y_shift, len(batch)) - x_shift @ W)
            for index in range(len(batch)):
                yield P[:, index * t : (index + 1) * t]


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
        self._rounding_errors: dict[int, Array] = {}

    def test_rows(self, number: int) -> RowIndices:
        """Indices of the test rows of split `number`."""
        return self.splits.test_rows(number)

    @property
    def has_additive_scores(self) -> bool:
        """True if X is out of core and p <= n: scores are then summed in the pass that predicts."""
        n, p = self.cv_problem.shape
        return self.cv_problem.is_out_of_core and p <= n and not self.splits.has_repeated_test_rows

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        """Score sums of all splits, (n_splits, n_alphas, s, 3); one pass for a batch of alphas."""

        def coef_and_intercepts(number: int, batch: Array) -> tuple[Array, Array]:
            return self._fold_fit(number, alphas).coef_and_intercepts(batch)

        return self.cv_problem.accumulate_fold_scores(
            self.splits, coef_and_intercepts, alphas, sample_loss
        )

    def certified(self, alphas: Array) -> NDArray[np.bool_]:
        """(n_alphas,): True where rounding leaves enough digits in the fits of all splits.

        `alphas` have to be those of the last call of `predictions` or `score_sums`.
        """
        return np.asarray(
            np.max(list(self._rounding_errors.values()), axis=0) <= MAX_ROUNDING_ERROR
        )

    def effective_dof(self, alphas: Array) -> tuple[Array, Array]:
        """Effective degrees of freedom of a fit to all samples, and their errors, which are 0."""
        problem = self.cv_problem.problem
        is_wide = self.cv_problem.shape[1] > self.cv_problem.shape[0]
        A = problem.row_gram() if is_wide else problem.gram()
        form = symmetric_form(A, float(alphas.min()))
        return form.effective_dof(alphas), np.zeros(len(alphas))

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """Split number, index of alpha, and predictions for its test rows, (n_test, t)."""
        for number in range(self.n_splits):
            fold_fit = self._fold_fit(number, alphas)
            for index, P in enumerate(fold_fit.predictions(alphas)):
                yield number, index, self.cv_problem.to_data_units(P)

    def _fold_fit(self, number: int, alphas: Array) -> FoldFit:
        """The fit of split `number` for these alphas, taken from or added to the cache."""
        fold_fit = self._fold_fits.get(number)
        if fold_fit is None:
            fold_fit = self._compute_fold_fit(number, float(alphas.min()))
            self.cv_problem.problem.design.meter.add(4 / 3 * float(len(fold_fit.form)) ** 3)
            if self._can_cache_fits:
                self._fold_fits[number] = fold_fit
        self._rounding_errors[number] = fold_fit.form.relative_error(alphas)
        return fold_fit

    def _compute_fold_fit(self, number: int, smallest_alpha: float) -> FoldFit:
        """The fit of split `number` for all alphas from `smallest_alpha` on."""
        samples, splits = self.cv_problem, self.splits
        n, p = samples.shape
        if p > n:
            return _dual_fold_fit(samples, splits, number, smallest_alpha)
        training = self._training_statistics(number, smallest_alpha)
        return FoldFit(
            symmetric_form(training.gram, smallest_alpha),
            training.cross,
            lambda: samples.design.subset(splits.test_rows(number)),
            training.x_mean,
            training.y_mean,
        )

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

    def _training_statistics(self, number: int, smallest_alpha: float) -> SufficientStatistics:
        """Statistics of the training rows of split `number`.

        They are those of all rows without the held-out ones, unless this loses too many digits for
        a fit with `smallest_alpha`, or takes longer. Then the training rows are summed.
        """
        remaining = self._remaining_statistics(number)
        if remaining is None or has_lost_digits(remaining, smallest_alpha):
            del remaining  # its Gram matrix would be in memory beside the new one
            rows = self.splits.train_rows(number)
            return statistics_of_rows(self.cv_problem, rows, about_mean=True)
        return remaining

    def _remaining_statistics(self, number: int) -> SufficientStatistics | None:
        """Statistics of all rows without the rows that split `number` holds out.

        None if the training set is not the remainder, or not larger than what is held out.
        """
        held_out = self._held_out_statistics(number)
        if held_out is None:
            return None
        total_weight = training_weight(self.cv_problem, self.splits, number)
        return statistics_of_all(self.cv_problem).without(held_out, total_weight)

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


def _dual_fold_fit(
    samples: CVProblem, splits: Splits, number: int, smallest_alpha: float
) -> FoldFit:
    """Dual fit of split `number`, from the rows and columns of its training rows in X X'."""
    K = unweighted_kernel(samples)
    train, test = splits.train_rows(number), splits.test_rows(number)
    sqrt_weights, Y = samples.sqrt_weights[train], samples.problem.targets[train]
    train_kernel = K[np.ix_(train, train)]
    test_kernel = K[np.ix_(test, train)]
    y_shift = np.zeros(samples.n_targets)
    if samples.fit_intercept:
        # Centre the test rows on the mean of the training rows, and Y on its own mean.
        total_weight = float(sqrt_weights @ sqrt_weights)
        test_kernel -= (sqrt_weights**2 @ train_kernel) / total_weight
        y_shift = sqrt_weights @ Y / total_weight
        Y = Y - np.outer(sqrt_weights, y_shift)
    train_kernel *= sqrt_weights[:, None]
    train_kernel *= sqrt_weights
    test_kernel *= sqrt_weights
    if samples.fit_intercept:
        # Centring weighted training rows projects out u: K becomes (I - uu') K (I - uu').
        u = sqrt_weights / np.linalg.norm(sqrt_weights)
        Ku = train_kernel @ u
        train_kernel -= np.outer(u, Ku - 0.5 * (u @ Ku) * u)
        train_kernel -= np.outer(Ku - 0.5 * (u @ Ku) * u, u)
        # Dual coefficients have a rounding error along u, divided by alpha; it is projected out.
        test_kernel -= np.outer(test_kernel @ u, u)
    return FoldFit(
        symmetric_form(train_kernel, smallest_alpha),
        Y,
        lambda: as_design(test_kernel),
        np.zeros(len(train)),
        y_shift,
    )


def unweighted_kernel(samples: CVProblem) -> Array:
    """X X' of the centred rows without weights, (n, n); one pass for the first call."""
    if (samples.weights == 1).all():
        return samples.problem.row_gram()
    return samples.problem.gram_cache.unweighted_kernel(samples.design)
