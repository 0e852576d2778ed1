"""The fits to a training set, made from sufficient statistics, a kernel matrix or the rows of X."""

from __future__ import annotations

import numpy as np

from ling._typing import Array
from ling.design import as_design
from ling.design.arrays import row_slices
from ling.linalg.cholesky import symmetric_form
from ling.linalg.rounding import sum_noise
from ling.linalg.singular_values import singular_form
from ling.linalg.tridiagonal import HouseholderTridiagonal
from ling.model_selection.cv_problem import CVProblem
from ling.model_selection.fold_errors import (
    ENERGY_RATIO,
    NEGLIGIBLE_ERROR,
    FormErrors,
    GramComparison,
    SystemScales,
    TestRows,
    form_errors,
    singular_row_error,
)
from ling.model_selection.fold_fit import FoldFit, FormFit
from ling.model_selection.fold_scales import (
    largest_multiplicity,
    scales_of_kernel,
    scales_of_problem,
    scales_of_remainder,
    scales_of_rows,
    scales_of_sums,
    target_scales,
    test_rows_of_split,
)
from ling.model_selection.leverage_bounds import leverage_bound
from ling.model_selection.splits import Splits
from ling.solvers.certificate import singular_minorant
from ling.solvers.sufficient_statistics import SufficientStatistics

# Rows of a Gram matrix that are updated at a time, without a second matrix of its size.
ROWS_PER_UPDATE = 256


def gram_fold_fit(
    samples: CVProblem, splits: Splits, number: int, training: SufficientStatistics,
    held_out: SufficientStatistics | None, alphas: Array,
) -> FoldFit:  # fmt: skip
    """Fit of split `number` for `alphas`, from the statistics of its training rows.

    `held_out` are the statistics that were removed from those of all rows, or None if the training
    rows were summed. The Gram matrices of both are overwritten.
    """
    scales = (scales_of_sums if held_out is None else scales_of_remainder)(samples, training)
    test = test_rows_of_split(samples, splits, number, training.x_mean, training.y_mean)
    comparison, ratios, smallest_alpha = None, None, float(alphas.min())
    if held_out is not None and splits.tests_held_out_rows(number):
        comparison = _compare(training, held_out)
    # Without a held-out weight, the statistics are those of all rows.
    overwrite = training.gram is not samples.problem.gram_cache.formed_gram
    form = symmetric_form(training.gram, smallest_alpha, overwrite)
    errors = form_errors(form, alphas, scales)
    if comparison and not _has_negligible_errors(errors, test, training.squares):
        # The form has overwritten the Gram matrix, unless it is a CholeskyForm.
        is_free = overwrite and isinstance(form, HouseholderTridiagonal)
        ratios = comparison.ratios(smallest_alpha, training.gram.T if is_free else None)
    return FoldFit(
        form,
        form.rotate(training.cross),
        lambda: samples.design.subset(splits.test_rows(number)),
        training.x_mean,
        training.y_mean,
        scales,
        test,
        ratios,
        known_errors={alphas.tobytes(): errors},
    )


def _has_negligible_errors(errors: FormErrors, test: TestRows, target_squares: Array) -> bool:
    """True if errors of predictions are negligible for every y with these squared norms (t,).

    The smallest alpha has the largest errors. ||w|| <= ||y|| / sqrt(floor), as w is the product of
    X'(X X' + alpha I)^-1 and y.
    """
    if (
        errors.column_scales is not None
    ):  # of a CholeskyForm, whose errors depend on more than ||w||
        return False
    target_norms = np.sqrt(np.maximum(target_squares, 0.0))
    smallest = int(np.argmin(errors.floors))
    errors = errors.take(slice(smallest, smallest + 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        coef_norms = target_norms / np.sqrt(errors.floors)[:, None]
        energy = errors.constants + errors.slopes[:, None] * coef_norms
    bounds = test.norm_bounds(energy, errors.floors, coef_norms)
    return bool((bounds <= NEGLIGIBLE_ERROR * test.spread).all())


def _compare(training: SufficientStatistics, held_out: SufficientStatistics) -> GramComparison:
    """The held-out rows compared with the training rows, about the mean of the latter.

    `held_out.gram` is overwritten.
    """
    gap = (held_out.mean - training.mean)[: training.n_features]
    test_gram = held_out.gram
    for rows in row_slices(len(gap), ROWS_PER_UPDATE):
        test_gram[rows] += np.outer(held_out.total_weight * gap[rows], gap)
    size = float(training.gram_error_scale.sum() + held_out.gram_error_scale.sum())
    gram_error = ENERGY_RATIO * max(training.noise, held_out.noise) * size
    return GramComparison.from_grams(training.gram, test_gram, gram_error)


def singular_fold_fit(samples: CVProblem, splits: Splits, number: int) -> FoldFit:
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
    form, rotated_rhs = singular_form(X, Y)
    scales = SystemScales(norms, target_scales(samples.problem), sum_noise(len(train)))
    minorant = singular_minorant(form.values, form.Q, singular_row_error(form, scales))
    leverages = leverage_bound(samples, test, minorant, x_shift)
    return FoldFit(
        form,
        rotated_rhs,
        lambda: samples.design.subset(test),
        x_shift,
        y_shift,
        scales,
        test_rows_of_split(samples, splits, number, x_shift, y_shift),
        leverages,
    )


def dual_fold_fit(
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
    form = symmetric_form(train_kernel, smallest_alpha, overwrite=True)
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


def gram_fit_of_all(samples: CVProblem, smallest_alpha: float) -> FormFit:
    """Fit to all rows, which are also the rows to predict, from X'X."""
    problem = samples.problem
    form = symmetric_form(problem.gram(), smallest_alpha)
    rotated_rhs, scales = form.rotate(problem.moments), scales_of_problem(problem)
    return FormFit(form, rotated_rhs, lambda: samples.design, *_no_shifts(samples), scales)


def singular_fit_of_all(samples: CVProblem) -> FormFit:
    """Fit to all rows, which are also the rows to predict, from the singular values of X."""
    problem = samples.problem
    X = problem.design.take(np.arange(samples.shape[0]))
    form, rotated_rhs = singular_form(X, problem.targets)
    scales = scales_of_rows(problem)
    return FormFit(form, rotated_rhs, lambda: samples.design, *_no_shifts(samples), scales)


def _no_shifts(samples: CVProblem) -> tuple[Array, Array]:
    return np.zeros(samples.shape[1]), np.zeros(samples.n_targets)
