"""Bounds on the error of coefficients, from the bound on the error of training predictions.

The certificate proves ||X e||^2 + alpha ||e||^2 <= E^2 for the error e of the coefficients.
`error_region` keeps what is known of X'X from below, in a few numbers per column, so that e itself
and the error of predictions for new rows can be bounded after the fit, without X.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.affine import AffineMap
from ling.design.arrays import FLOAT64_MAX
from ling.error_region import ErrorRegion, round_up_to_float32
from ling.linalg.rounding import EPS, sum_noise
from ling.solvers.certificate import LowRankMinorant, Minorant
from ling.solvers.problem import Problem, Standardization, TermSizes

# Directions of a low-rank minorant that a fitted model keeps, in float32: four numbers of float64
# for each coefficient. Rows of data with a decaying spectrum lie mostly in the first ones.
MAX_DIRECTIONS = 8
# Eigenvalues of a kept direction are capped at this times the smallest alpha. A larger cap hardly
# changes a bound, and makes rounding U to float32, 6e-8 times the cap, matter beside alpha.
MAX_VALUE_TO_ALPHA = 1e4
# A Cholesky factor is inverted, p^3 / 3 FLOPs, to bound each coefficient by itself, only if X'X
# takes at least this times p^3 FLOPs: 60 times as many. For dense X, that is 20 rows per column.
MIN_GRAM_FLOPS_TO_INVERT = 20


@np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore")
def error_region(
    problem: Problem,
    standardization: Standardization,
    minorant: Minorant,
    W: Array,
    relative: Array,
    intercept_shifts: Array | None,
    sizes: TermSizes,
) -> ErrorRegion:
    """The region for coefficients W (p, t), in the units of the problem, and their intercepts.

    `relative` (t,) are the bounds of their certificate without the error of the intercept.
    `intercept_shifts` (t,) are |b - fl(y_mean - x_mean'w)| in the units of the data; None without
    an intercept. `sizes` are those of W. No pass.
    """
    alphas, raw_squares = problem.alphas, problem.raw_column_norms**2
    min_eigenvalues, factors = np.empty(problem.n_targets), np.empty(problem.n_targets)
    for alpha, same_alpha in problem.alpha_groups:
        floor = np.asarray(minorant.diagonal_floor(alpha))
        min_eigenvalues[same_alpha] = floor.min()
        factors[same_alpha] = np.sqrt((raw_squares / floor).sum())
    errors = _absolute_errors(problem, W, relative)
    intercept_errors: Array = np.zeros(problem.n_targets)
    center_error, x_mean = 0.0, None
    if intercept_shifts is not None:
        errors += _centering_errors(problem, factors, sizes)
        intercept_errors = _intercept_errors(problem, standardization, sizes, intercept_shifts)
        x_mean, center_error = _rounded_mean(problem, standardization)
    directions = _leading_directions(minorant, alphas)
    U, values, slack = (None, None, 0.0) if directions is None else directions
    return ErrorRegion(
        errors, alphas.copy(), min_eigenvalues,
        intercept_errors, standardization.x_scale, standardization.y_scale, x_mean, center_error,
        _inverse_diagonal(problem, minorant), U, values, slack, problem.shape[1],
    )  # fmt: skip


def _absolute_errors(problem: Problem, W: Array, relative: Array) -> Array:
    """E (t,) for W (p, t) with the relative bounds of a certificate; infinite where alpha is 0.

    A relative bound says nothing where y or X is 0. Then w* is 0 too, and e = w.
    """
    scale = problem.error_scale
    errors = relative * scale * (1 + 4 * EPS)
    is_relative = (scale > 0) & (scale < FLOAT64_MAX)
    if not is_relative.all():
        lengths = np.sqrt(problem.safe_column_norms[:, None] ** 2 + problem.alphas)
        sizes = np.einsum("ij,ij->j", lengths, np.abs(W)) * (1 + sum_noise(len(W)))
        errors = np.where(is_relative, errors, sizes)
    errors[np.isnan(errors) | ~(problem.alphas > 0)] = np.inf
    return np.asarray(errors)


def _centering_errors(problem: Problem, factors: Array, sizes: TermSizes) -> Array:
    """What rounding in the means of X and y adds to E, (t,); `factors` are ||raw / sqrt(floor)||.

    With x_mean off by d and y_mean off by c, the gradient is off by n d (c - d'w), the product of
    two rounding errors. It matters only where a column is far longer than sqrt(floor).
    """
    errors = sum_noise(problem.shape[0]) ** 2 * factors
    errors *= problem.raw_target_norms + sizes.fitted_norms
    return np.where(np.isnan(errors), np.inf, errors)


def _intercept_errors(
    problem: Problem, standardization: Standardization, sizes: TermSizes, shifts: Array
) -> Array:
    """Bounds (t,) of |b - (y_mean - x_mean'w)| for the exact means, in the units of the problem.

    The means are sums of n terms, off by `sum_noise` as in `intercept_error`. y_mean - x_mean'w is
    a sum of p + 1 terms in any order, for which the bound is (p + 2) eps / 2 (Higham 2002, 3.1).
    """
    n, p = problem.shape
    # The mean of y is y_mean + correction, rounded once more.
    rounding = (p + 4) * EPS * sizes.offsets + shifts / standardization.y_scale * (1 + 4 * EPS)
    means = sum_noise(n) * (problem.target_norms + sizes.fitted_norms)
    return np.asarray(rounding + means / math.sqrt(standardization.total_weight))


def _rounded_mean(problem: Problem, standardization: Standardization) -> tuple[Array, float]:
    """The column means (p,), in float32 if they fit, and a bound of the norm of their error."""
    exact = standardization.x_mean / standardization.x_scale
    rounded: Array = exact.astype(np.float32)
    if not np.isfinite(rounded).all():
        rounded = exact
    change, raw_norms = exact - rounded, problem.raw_column_norms
    raw_norm = math.sqrt(raw_norms @ raw_norms)
    mean_error = sum_noise(problem.shape[0]) * raw_norm / math.sqrt(standardization.total_weight)
    return rounded, (math.sqrt(change @ change) + mean_error) * (1 + len(exact) * EPS)


def is_inverse_cheap(problem: Problem) -> bool:
    """Whether inverting a Cholesky factor of X'X takes little time beside forming X'X."""
    n, p = problem.shape
    storage = problem.design.storage
    gram_flops = float(n) * p**2 if storage.is_dense else storage.gram_flops(AffineMap())
    return gram_flops >= MIN_GRAM_FLOPS_TO_INVERT * float(p) ** 3


def _inverse_diagonal(problem: Problem, minorant: Minorant) -> NDArray[np.float32] | None:
    """Upper bounds (p,) of the diagonal of (X'X + alpha I)^-1 for all alphas; None if not cheap."""
    alpha = float(problem.alphas.min())
    if alpha <= 0:
        return None
    diagonal = minorant.inverse_diagonal(alpha, is_inverse_cheap(problem))
    if diagonal is None:
        return None
    rounded = round_up_to_float32(diagonal)
    return rounded if np.isfinite(rounded).all() else None  # out of the range of float32


def _leading_directions(
    minorant: Minorant, alphas: Array
) -> tuple[NDArray[np.float32], Array, float] | None:
    """U (p, r) in float32, v (r,) and slack with U diag(v) U' <= X'X + slack I, from a minorant.

    It is U0 diag(v0) U0' <= X'X + slack0 I without its smaller terms, and with smaller v. Rounding
    U by D changes it by at most (2 ||U|| + ||D||) ||D|| max(v).
    """
    alpha = float(alphas.min())
    if not isinstance(minorant, LowRankMinorant) or alpha <= 0 or not minorant.values.size:
        return None
    order = np.argsort(minorant.values)[::-1][:MAX_DIRECTIONS]
    values = np.minimum(minorant.values[order], MAX_VALUE_TO_ALPHA * alpha)
    vectors = minorant.vectors[:, order]
    order = np.flatnonzero(values > 0)
    vectors, values = vectors[:, order], values[order]
    U = vectors.astype(np.float32)
    change = float(np.linalg.norm(U - vectors))
    # The decomposition of the minorant has a backward error of a few eps of its largest value.
    slack = minorant.slack + 16 * EPS * float(minorant.values.max())
    slack += (2.1 + change) * change * float(values.max(initial=0.0))
    return (U, values, slack) if values.size and slack < alpha / 2 else None
