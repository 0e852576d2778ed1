"""Direct cross-validation: one factorisation for every training set, which serves all alphas.

For p <= n the Gram matrix X'X (p, p) of a training set is that of all rows minus that of the
held-out rows. For p > n the kernel matrix X X' of a training set is part of that of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ling._typing import Array
from ling.design import Design, as_design
from ling.design.arrays import row_slices
from ling.linalg.cholesky import CholeskyForm, symmetric_form
from ling.linalg.rounding import EPS, sum_noise
from ling.linalg.singular_values import SingularForm, singular_form
from ling.linalg.tridiagonal import HouseholderTridiagonal
from ling.model_selection.cv_problem import (
    CVProblem,
    FoldCoefs,
    HeldOutPredictor,
)
from ling.model_selection.fold_errors import (
    ENERGY_RATIO,
    SystemScales,
    TestRows,
    dominated_from,
    energy_errors,
)
from ling.model_selection.fold_scales import (
    largest_multiplicity,
    scales_of_kernel,
    scales_of_remainder,
    scales_of_sums,
    target_scales,
    test_rows_of_split,
)
from ling.model_selection.fold_statistics import (
    fold_statistics,
    statistics_of_all,
    statistics_of_rows,
    training_weight,
)
from ling.model_selection.held_out import HeldOut
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
# Fraction of the memory budget for the test rows of one split in the coordinates of a form.
MAX_ROTATED_ROWS_FRACTION = 0.25
# Rows of a Gram matrix that are updated at a time, without a second matrix of its size.
ROWS_PER_UPDATE = 256

Form = HouseholderTridiagonal | CholeskyForm | SingularForm


@dataclass(frozen=True, eq=False)
class FoldFit:
    """The fits to one training set for all alphas.

    With A, (m, m), in the form `form`, and C, (m, t), the coefficients are W = (A + alpha I)^-1 C.
    `rotated_rhs` is Q'C. Predictions for the test rows M, (n_test, m), are M W + intercept, with
    the intercept y_shift - x_shift'W. `make_test_design` returns M, x_shift is (m,), y_shift (t,).
    In the primal formulation A = X'X, C = X'Y and m = p. In the dual one A = X X', C = Y, W are
    dual coefficients and M is a kernel matrix. `scales`, `test` and `test_weights` (n_test,) are
    what error bounds need.
    """

    form: Form
    rotated_rhs: Array
    make_test_design: Callable[[], Design]
    x_shift: Array
    y_shift: Array
    scales: SystemScales
    test: TestRows
    test_weights: Array | None = None

    @cached_property
    def test_design(self) -> Design:
        """The test rows M, (n_test, m)."""
        return self.make_test_design()

    @cached_property
    def rotated_test_rows(self) -> Array:
        """M Q as a dense array, (n_test, m)."""
        Q = self.form.Q
        return self.test_design.map_rows(lambda rows: rows @ Q)

    def rotated_coef(self, alphas: Array) -> Array:
        """Q'W for all alphas, (m, n_alphas * t); the targets of the first alpha come first."""
        return np.hstack([self.form.solve(self.rotated_rhs, float(alpha)) for alpha in alphas])

    def coefs(self, alphas: Array) -> FoldCoefs:
        """W for all alphas, (m, n_alphas * t), the intercepts, (n_alphas * t,), and bounds."""
        rotated = self.rotated_coef(alphas)
        W = self.form.unrotate(rotated)
        intercepts = np.tile(self.y_shift, len(alphas)) - self.x_shift @ W
        return FoldCoefs(W, intercepts, self.error_bounds(rotated, alphas))

    def error_bounds(self, rotated: Array, alphas: Array) -> Array:
        """Bounds (n_alphas, t) on the norms of the errors of predictions by Q'W = `rotated`."""
        W = rotated.reshape(len(rotated), len(alphas), -1)
        energy, floors = energy_errors(self.form, W, alphas, self.scales)
        coef_norms = np.linalg.norm(W, axis=0)
        if not self.scales.is_dual:
            leverages = self._leverages(alphas)
            return self.test.norm_bounds(energy, floors, coef_norms, alphas, leverages)
        # The errors rho of the dual system give X'(K + alpha I)^-1 rho, of norm at most `energy`,
        # and a kernel k'c has an error relative to ||x|| ||X|| ||c||. With w = X'c, ||w||^2 <= c'y.
        evaluation = self.scales.noise * np.sqrt(self.scales.size) * coef_norms
        feature_norms = np.sqrt(coef_norms * self.scales.targets)
        ones = np.ones(len(alphas))
        return self.test.norm_bounds(energy + evaluation, ones, feature_norms, alphas)

    def _leverages(self, alphas: Array) -> Array | None:
        """Sums over the test rows of w x'(X'X + alpha I)^-1 x, (n_alphas,), from singular values.

        None for other forms: this takes as many FLOPs as their Gram matrix.
        """
        if not isinstance(self.form, SingularForm) or self.test_weights is None:
            return None
        # The form is that of X + dX; see `leave_one_out_errors`.
        noise = self.scales.noise + sum_noise(len(self.form.left), len(self.form.Q))
        smallest = float(self.form.eigenvalues[-1]) * (len(self.form) == len(self.form.Q))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            root = noise * np.sqrt(self.scales.size / (smallest + alphas))
            relative = 2 * root + root**2
            inflation = np.where(relative < 0.5, 1 / (1 - np.minimum(relative, 0.5)), np.inf)
            Z = self.rotated_test_rows - self.x_shift @ self.form.Q
            inside = self.test_weights @ self.form.quadratic_forms(Z, alphas)
            if len(self.form) == len(self.form.Q):
                return np.asarray(inflation * inside)
            shift = self.x_shift
            squares = self.test_design.map_rows(
                lambda rows: np.einsum("ij,ij->i", rows - shift, rows - shift)[:, None]
            )[:, 0]
            outside = np.maximum(squares - np.einsum("ij,ij->i", Z, Z), 0.0) + 4 * noise * squares
            return np.asarray(inflation * inside + self.test_weights @ outside / alphas)

    def rotates_rows(self, samples: CVProblem, n_test: int, n_alphas: int) -> bool:
        """True if the rotated test rows M Q are formed, and fit in memory.

        For more columns of W than test rows, rotating M takes fewer FLOPs than unrotating W.
        """
        n_bytes = 8.0 * n_test * len(self.form)
        return self.rotated_rhs.shape[1] * n_alphas > n_test and samples.memory.allows(
            n_bytes, MAX_ROTATED_ROWS_FRACTION
        )

    def predictions(
        self, alphas: Array, samples: CVProblem, rows: RowIndices
    ) -> Iterator[tuple[Array, Array]]:
        """For each alpha: predictions of centred y for the test rows, (n_test, t), and bounds.

        `rows` are the test rows in `samples`.
        """
        t, n_test = self.rotated_rhs.shape[1], len(rows)
        rotate_rows = self.rotates_rows(samples, n_test, len(alphas))
        for batch in samples.prediction_batches(alphas, float(t * (len(self.form) + n_test))):
            W = self.rotated_coef(batch)
            bounds = self.error_bounds(W, batch)
            P = self.predict(W, samples, rows, rotate_rows)
            for index in range(len(batch)):
                yield P[:, index * t : (index + 1) * t], bounds[index]

    def predict(
        self, rotated: Array, samples: CVProblem, rows: RowIndices | slice, rotate_rows: bool
    ) -> Array:
        """Predictions of centred y for the test rows with the coefficients Q'W = `rotated`.

        `rows` are the test rows in `samples`; a slice stands for all. With `rotate_rows` M Q is
        formed.
        """
        intercepts = np.tile(self.y_shift, rotated.shape[1] // len(self.y_shift))
        if rotate_rows:
            x_shift = self.form.rotate(self.x_shift[:, None])[:, 0]
            P = as_design(self.rotated_test_rows).matmat(rotated)
            P += intercepts - x_shift @ rotated
            return P
        W = self.form.unrotate(rotated)
        is_kernel = self.scales.is_dual
        P = self.test_design.matmat(W) if is_kernel else samples.predict_rows(rows, W)
        P += intercepts - self.x_shift @ W
        return P


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
        """True if p <= n, unless memory is plentiful or a split tests a row more than once."""
        n, p = self.cv_problem.shape
        return self.cv_problem.sums_scores and p <= n and not self.splits.has_repeated_test_rows

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> tuple[tuple[Array, ...], Array]:
        """Score sums of all splits, and bounds; one pass for a batch of alphas."""

        def fold_coefs(number: int, batch: Array) -> FoldCoefs:
            return self._fold_fit(number, alphas).coefs(batch)

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

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, HeldOut]]:
        """Split number, index of alpha, and predictions for its test rows, (n_test, t)."""
        samples = self.cv_problem
        for number in range(self.n_splits):
            fold_fit, rows = self._fold_fit(number, alphas), self.test_rows(number)
            for index, (P, bounds) in enumerate(fold_fit.predictions(alphas, samples, rows)):
                yield number, index, samples.held_out(P, bounds, rows)
            del fold_fit  # its form would be in memory beside the next one

    def _fold_fit(self, number: int, alphas: Array) -> FoldFit:
        """The fit of split `number` for these alphas, taken from or added to the cache."""
        fold_fit = self._fold_fits.get(number)
        if fold_fit is None:
            fold_fit = self._compute_fold_fit(number, float(alphas.min()))
            self.cv_problem.problem.design.meter.add(4 / 3 * float(len(fold_fit.form)) ** 3)
            if self._can_cache_fits:
                self._fold_fits[number] = fold_fit
        return fold_fit

    def _compute_fold_fit(self, number: int, smallest_alpha: float) -> FoldFit:
        """The fit of split `number` for all alphas from `smallest_alpha` on."""
        samples, splits = self.cv_problem, self.splits
        n, p = samples.shape
        if self._uses_singular_values:
            return _singular_fold_fit(samples, splits, number)
        if p > n:
            return _dual_fold_fit(samples, splits, number, smallest_alpha)
        training, dominated, is_remainder = self._training_statistics(number, smallest_alpha)
        dominated = dominated if splits.tests_held_out_rows(number) else np.inf
        scales = scales_of_remainder if is_remainder else scales_of_sums
        form = symmetric_form(training.gram, smallest_alpha)
        test = test_rows_of_split(samples, splits, number, training.x_mean, training.y_mean)
        return FoldFit(
            form,
            form.rotate(training.cross),
            lambda: samples.design.subset(splits.test_rows(number)),
            training.x_mean,
            training.y_mean,
            scales(samples, training),
            replace(test, dominated_from=dominated),
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

    def _training_statistics(
        self, number: int, smallest_alpha: float
    ) -> tuple[SufficientStatistics, float, bool]:
        """Statistics of the training rows of split `number`, and from which alpha they dominate.

        They are those of all rows without the held-out ones, unless this loses too many digits for
        a fit with `smallest_alpha`, or takes longer. Then the training rows are summed. The number
        is that of `fold_errors.dominated_from`, and the last value says if rows were removed.
        """
        parts = self._remaining_statistics(number)
        if parts is not None and not has_lost_digits(parts[0], smallest_alpha):
            return parts[0], _dominated_from(*parts, smallest_alpha), True
        del parts  # their Gram matrices would be in memory beside the new one
        rows = self.splits.train_rows(number)
        return statistics_of_rows(self.cv_problem, rows, about_mean=True), np.inf, False

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
        return statistics_of_all(self.cv_problem).without(held_out, total_weight), held_out

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


def _dominated_from(
    training: SufficientStatistics, held_out: SufficientStatistics, smallest_alpha: float
) -> float:
    """From which alpha the training rows dominate the held-out ones, about the training mean.

    `held_out.gram` is overwritten.
    """
    gap = (held_out.mean - training.mean)[: training.n_features]
    test_gram = held_out.gram
    for rows in row_slices(len(gap), ROWS_PER_UPDATE):
        test_gram[rows] += np.outer(held_out.total_weight * gap[rows], gap)
    size = float(training.gram_error_scale.sum() + held_out.gram_error_scale.sum())
    gram_error = ENERGY_RATIO * max(training.noise, held_out.noise) * size
    return dominated_from(training.gram, test_gram, smallest_alpha, gram_error)


def _singular_fold_fit(samples: CVProblem, splits: Splits, number: int) -> FoldFit:
    """Fit of split `number` from the singular values of its training rows."""
    train, test = splits.train_rows(number), splits.test_rows(number)
    root = samples.sqrt_weights[train]
    X, Y = samples.problem.design.take(train), samples.problem.targets[train]
    # X is already centred on the mean of all rows, with rounding errors relative to both.
    x_mean = samples.standardization.x_mean / samples.standardization.x_scale
    norms = np.linalg.norm(X, axis=0) + np.linalg.norm(root) * np.abs(x_mean)
    x_shift, y_shift = np.zeros(X.shape[1]), np.zeros(Y.shape[1])
    if samples.fit_intercept:
        x_shift, y_shift = root @ X / (root @ root), root @ Y / (root @ root)
        X, Y = X - np.outer(root, x_shift), Y - np.outer(root, y_shift)
    form = singular_form(X)
    return FoldFit(
        form,
        form.values[:, None] * (form.left.T @ Y),
        lambda: samples.design.subset(test),
        x_shift,
        y_shift,
        SystemScales(norms, target_scales(samples.problem), sum_noise(len(train))),
        test_rows_of_split(samples, splits, number, x_shift, y_shift),
        test_weights=samples.weights[test],
    )


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
    form = symmetric_form(train_kernel, smallest_alpha)
    x_shift = np.zeros(len(train))
    return FoldFit(
        form,
        form.rotate(Y),
        lambda: as_design(test_kernel),
        x_shift,
        y_shift,
        scales_of_kernel(samples, multiplicity=largest_multiplicity(train)),
        test_rows_of_split(samples, splits, number, None, y_shift),
    )


def unweighted_kernel(samples: CVProblem) -> Array:
    """X X' of the centred rows without weights, (n, n); one pass for the first call."""
    if (samples.weights == 1).all():
        return samples.problem.row_gram()
    return samples.problem.gram_cache.unweighted_kernel(samples.design)
