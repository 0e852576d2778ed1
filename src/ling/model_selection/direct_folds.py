"""Direct cross-validation: a tridiagonal form for every training set, and all alphas from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ling._typing import Array
from ling.design import Design, as_design
from ling.linalg.cholesky import CholeskyForm, symmetric_form
from ling.linalg.rounding import EPS
from ling.linalg.tridiagonal import HouseholderTridiagonal
from ling.model_selection.cv_problem import CVProblem, HeldOutPredictor
from ling.model_selection.fold_sums import (
    WeightedSums,
    about_mean,
    accumulate_all,
    accumulate_folds,
    accumulate_rows,
    training_weight,
    weighted_means,
)
from ling.model_selection.score_accumulators import SampleLoss
from ling.model_selection.splits import RowIndices, Splits
from ling.solvers.cost_model import (
    fold_factors_bytes,
    fold_statistics_bytes,
    rotated_rows_bytes,
)

# A training set's Gram matrix is what is left of the total; less than this has lost digits.
MIN_REMAINING_FRACTION = 1e-4
# Relative errors, by rounding, up to which fits count as exact.
MAX_ROUNDING_ERROR = 1e-3
# Numbers that the coefficients of several alphas may take at once.
PREDICTION_BATCH_ELEMENTS = 2**23


@dataclass(frozen=True, eq=False)
class FoldFit:
    """All coefficients of one training set: M (A + alpha I)^-1 C + constant are predictions.

    `form` is A's, `C` the right-hand side, `make_test_design` gives M as a design, `constant` what
    the intercept takes: y_shift - x_shift'w.
    """

    form: HouseholderTridiagonal | CholeskyForm
    rhs: Array
    make_test_design: Callable[[], Design]
    x_shift: Array
    y_shift: Array

    @cached_property
    def rows(self) -> Design:
        """M."""
        return self.make_test_design()

    @cached_property
    def rotated_rhs(self) -> Array:
        """Q'C."""
        return self.form.rotate(self.rhs)

    @cached_property
    def rotated_test_rows(self) -> Array:
        """M Q, dense: worth it if there are more columns to predict than rows."""
        Q = self.form.Q
        return self.rows.map_rows(lambda rows: rows @ Q)

    def rotated_coef(self, alphas: Array) -> Array:
        """Q'(A + alpha I)^-1 C for all alphas, side by side."""
        return np.hstack([self.form.solve(self.rotated_rhs, float(alpha)) for alpha in alphas])

    def coef_and_intercepts(self, alphas: Array) -> tuple[Array, Array]:
        """(p, n_alphas * t), and the constants that go with them."""
        W = self.form.unrotate(self.rotated_coef(alphas))
        return W, np.tile(self.y_shift, len(alphas)) - self.x_shift @ W

    def predictions(self, alphas: Array) -> Iterator[Array]:
        """(n_rows, t) for each alpha in turn."""
        targets = self.rhs.shape[1]
        many = targets * len(alphas) > self.rows.shape[0]
        rows = as_design(self.rotated_test_rows) if many else self.rows
        shift = self.form.rotate(self.x_shift[:, None])[:, 0] if many else self.x_shift
        step = max(
            1, PREDICTION_BATCH_ELEMENTS // max(1, targets * (len(self.form) + self.rows.shape[0]))
        )
        for start in range(0, len(alphas), step):
            some = alphas[start : start + step]
            W = self.rotated_coef(some)
            W = W if many else self.form.unrotate(W)
            P = rows.matmat(W) + (np.tile(self.y_shift, len(some)) - shift @ W)
            for at in range(len(some)):
                yield P[:, at * targets : (at + 1) * targets]


class DirectFolds(HeldOutPredictor):
    """Exact predictions for the test rows of every split.

    `keep_factors` says whether more alphas may follow, for which factorisations are kept if they
    fit.
    """

    def __init__(self, samples: CVProblem, splits: Splits, keep_factors: bool = False) -> None:
        self.cv_problem = samples
        self.keep_factors = keep_factors
        self.splits = splits
        self.n_splits = len(splits)
        self._fold_fits: dict[int, FoldFit] = {}
        self._fold_sums: dict[int, WeightedSums] = {}
        self._rounding_errors: dict[int, Array] = {}

    def test_rows(self, number: int) -> RowIndices:
        """The rows that a split tests."""
        return self.splits.test_rows(number)

    @property
    def has_additive_scores(self) -> bool:
        """Where rows lie apart, and Gram matrices are what there is of them."""
        n, p = self.cv_problem.shape
        return self.cv_problem.is_out_of_core and p <= n and not self.splits.has_repeated_test_rows

    def score_sums(self, alphas: Array, sample_loss: SampleLoss) -> Array:
        """(n_splits, n_alphas, s, 3), one pass for all splits."""

        def coef_and_intercepts(number: int, some: Array) -> tuple[Array, Array]:
            return self._fold_fit(number, alphas).coef_and_intercepts(some)

        return self.cv_problem.accumulate_fold_scores(
            self.splits, coef_and_intercepts, alphas, sample_loss
        )

    def certified(self, alphas: Array) -> Array:
        """For which of the alphas predicted last rounding leaves enough digits in every fit."""
        return np.asarray(
            np.max(list(self._rounding_errors.values()), axis=0) <= MAX_ROUNDING_ERROR
        )

    def effective_dof(self, alphas: Array) -> tuple[Array, Array]:
        """Effective degrees of freedom of a fit to all samples; their errors, which are 0."""
        problem = self.cv_problem.problem
        wide = self.cv_problem.shape[1] > self.cv_problem.shape[0]
        form = symmetric_form(problem.row_gram() if wide else problem.gram(), float(alphas.min()))
        return form.effective_dof(alphas), np.zeros(len(alphas))

    def predictions(self, alphas: Array) -> Iterator[tuple[int, int, Array]]:
        """The number of the split and of the alpha, and predictions for its test rows."""
        for number in range(self.n_splits):
            fitted = self._fold_fit(number, alphas)
            for at, P in enumerate(fitted.predictions(alphas)):
                yield number, at, self.cv_problem.to_data_units(P)

    def _fold_fit(self, number: int, alphas: Array) -> FoldFit:
        """Kept for the next alphas, if all of them fit."""
        found = self._fold_fits.get(number)
        if found is None:
            found = self._compute_fold_fit(number, float(alphas.min()))
            self.cv_problem.problem.design.meter.add(4 / 3 * float(len(found.form)) ** 3)
            if self._can_cache_fits:
                self._fold_fits[number] = found
        self._rounding_errors[number] = found.form.relative_error(alphas)
        return found

    def _compute_fold_fit(self, number: int, least: float) -> FoldFit:
        n, p = self.cv_problem.shape
        if p > n:
            return _dual_fold_fit(self.cv_problem, self.splits, number, least)
        return _primal_fold_fit(
            self.cv_problem, self.splits, number, least, self._held_out_sums(number)
        )

    @property
    def _can_cache_fits(self) -> bool:
        """Whether more alphas may follow, as they do in turns where scores add up, and fit."""
        n, p = self.cv_problem.shape
        memory, n_bytes = self.cv_problem.memory, fold_factors_bytes(n, p, self.n_splits)
        if self.has_additive_scores:
            return memory.allows(n_bytes, 0.25)
        return self.keep_factors and memory.allows(n_bytes + rotated_rows_bytes(n, p), 0.5)

    def _held_out_sums(self, number: int) -> WeightedSums | None:
        """Over the rows that a split leaves out; None if the others are not what is left.

        Where rows lie apart, sums of as many splits as there is room for come from one pass.
        """
        samples, splits = self.cv_problem, self.splits
        if not (samples.is_out_of_core and splits.test_fold is not None):
            rows = splits.held_out_rows(number)
            # Rows that are there twice, as in a bootstrap, are not what the others leave.
            few = rows is not None and 2 * len(rows) < samples.shape[0]
            return accumulate_rows(samples, rows) if rows is not None and few else None
        if 2 * np.count_nonzero(splits.test_fold == number) >= samples.shape[0]:
            return None
        if number not in self._fold_sums:
            n_bytes = fold_statistics_bytes(samples.shape[1], samples.n_targets)
            several = samples.memory.count(n_bytes, self.n_splits, 0.25)
            some = range(number, min(number + several, self.n_splits))
            self._fold_sums = accumulate_folds(samples, splits, some)
        return self._fold_sums.pop(number)


def _primal_fold_fit(
    samples: CVProblem, splits: Splits, number: int, least: float, left_out: WeightedSums | None
) -> FoldFit:
    """From X'X of all rows, less that of the rows left out, or from the rows trained on."""
    sums = None
    if left_out is not None:
        everything = accumulate_all(samples)
        total_weight = training_weight(samples, splits, number)
        sums = about_mean(samples, replace(everything - left_out, total_weight=total_weight))
        before, after = np.diag(everything.gram), np.diag(sums.gram)
        if (
            EPS * before[after < MIN_REMAINING_FRACTION * before].sum() > 1e-10 * least
        ):  # rounding that would show
            sums = None
    if sums is None:
        train = splits.train_rows(number)
        x, y = weighted_means(samples, train)
        sums = replace(accumulate_rows(samples, train, x, y), x=x, y=y)

    def make_test_design() -> Design:
        return samples.design.subset(splits.test_rows(number))

    return FoldFit(symmetric_form(sums.gram, least), sums.xy, make_test_design, sums.x, sums.y)


def _dual_fold_fit(samples: CVProblem, splits: Splits, number: int, least: float) -> FoldFit:
    """From X X' of all rows: that of the training rows, centred on their own mean."""
    K = unweighted_kernel(samples)
    train, test = splits.train_rows(number), splits.test_rows(number)
    roots, Y = samples.sqrt_weights[train], samples.problem.targets[train]
    inner = K[np.ix_(train, train)]
    across = K[np.ix_(test, train)]
    y_shift = np.zeros(samples.n_targets)
    if samples.fit_intercept:
        # Weighted rows lose their part along u, the direction of the roots of the weights.
        total_weight = float(roots @ roots)
        across -= (roots**2 @ inner) / total_weight
        y_shift = roots @ Y / total_weight
        Y = Y - np.outer(roots, y_shift)
    inner *= roots[:, None]
    inner *= roots
    across *= roots
    if samples.fit_intercept:
        u = roots / np.linalg.norm(roots)
        Ku = inner @ u
        inner -= np.outer(u, Ku - 0.5 * (u @ Ku) * u)
        inner -= np.outer(Ku - 0.5 * (u @ Ku) * u, u)
        across -= np.outer(across @ u, u)  # or rounding of c along u would be divided by alpha
    none = np.zeros(len(train))
    return FoldFit(symmetric_form(inner, least), Y, lambda: as_design(across), none, y_shift)


def unweighted_kernel(samples: CVProblem) -> Array:
    """X X' of centred rows without weights, made once; one pass."""
    if (samples.weights == 1).all():
        return samples.problem.row_gram()
    cache = samples.problem.gram_cache
    if cache.unweighted_kernel is None:
        cache.unweighted_kernel = samples.design.row_gram(np.float64)
    return cache.unweighted_kernel
