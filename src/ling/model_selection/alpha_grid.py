"""Alpha grids for cross-validation: checks of the user's alphas, and a default grid from X."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from ling._typing import Array
from ling.errors import Change, InputTypeError, NonFiniteError, OptionError
from ling.linalg.rounding import sum_noise
from ling.solvers.problem import Problem

# The default grid: number of alphas, and its ends relative to trace(X'X). At alpha = trace(X'X) the
# fit has less than one effective degree of freedom. Nine decades below, all but the weakest
# directions are fitted.
DEFAULT_N_ALPHAS = 30
LARGEST_ALPHA_OVER_TRACE = 1.0
SMALLEST_ALPHA_OVER_TRACE = 1e-9
# Smallest and largest alpha of an extended grid, relative to trace(X'X). Beyond these limits only
# rounding errors change.
EXTENSION_LIMITS_OVER_TRACE = 1e-15, 1e6
# The default grid reaches down to this fraction of the smallest squared column norm, among columns
# that are not constant up to rounding, but never below the second number times trace(X'X). It also
# reaches down to this fraction of the smallest eigenvalue of X'X above rounding.
ALPHA_OVER_SMALLEST, MIN_COLUMN_OVER_TRACE = 1e-3, 1e-20
# Smallest alpha that can be certified, relative to the rounding error of X'X. With alpha = c times
# that error, scores are off by up to about 4 / c; 1e4 leaves them certified at the default tol.
CERTIFIABLE_NOISE_FACTOR = 1e4
# Number of alphas that one extension adds at each end.
EXTENSION_STEPS = 8
# What to do about alpha = 0 without folds.
USE_FOLDS = Change("cv", 5, "because leave-one-out has no solution for alpha = 0")


def check_alphas(
    alphas: Any,
    allow_zero: bool,
    remedy_for_zero: Change | str = USE_FOLDS,
) -> Array:
    """Check the user's alphas and return them as a float64 array of shape (n_alphas,).

    `allow_zero` says if 0 is allowed; if not, the error says `remedy_for_zero`.
    """
    # dtype=object keeps the numbers as the user wrote them, for the messages.
    given = np.atleast_1d(np.asarray(alphas, dtype=object))
    if given.ndim != 1 or not given.size:
        raise OptionError(
            "alphas",
            f"has shape {given.shape}",
            "pass a list of positive numbers",
            Change("alphas", None, "for a grid that is chosen from the data"),
        )
    for index, alpha in enumerate(given):
        at = f"[{index}]" if np.ndim(alphas) else ""
        if not isinstance(alpha, Real):
            raise InputTypeError(
                "alphas",
                f"`alphas`{at} must be an instance of float, not {type(alpha).__name__}",
                "pass positive numbers",
                Change("alphas", None, "for a grid that is chosen from the data"),
            )
        if not math.isfinite(alpha):
            raise NonFiniteError("alphas", f"`alphas`{at} is {alpha}", "pass finite numbers")
        if alpha == 0 and not allow_zero:
            raise OptionError("alphas", f"`alphas`{at} == {alpha}, must be > 0.0", remedy_for_zero)
        if alpha < 0:
            least = ">= 0.0" if allow_zero else "> 0.0"
            raise OptionError("alphas", f"`alphas`{at} == {alpha}, must be {least}")
    return given.astype(np.float64)


def default_alpha_grid(problem: Problem, smallest_direction: float | None = None) -> Array:
    """Default grid: 30 alphas, evenly spaced in log(alpha) over 9 decades up to trace(X'X).

    The grid scales with X'X. If some columns or directions are so weak that they need smaller
    alphas, more alphas are added below, at the same ratio. `smallest_direction` is the smallest
    eigenvalue of X'X above rounding, if it is known.
    """
    trace = gram_trace(problem)
    ratio = (LARGEST_ALPHA_OVER_TRACE / SMALLEST_ALPHA_OVER_TRACE) ** (1 / (DEFAULT_N_ALPHAS - 1))
    column_squares = problem.column_norms[problem.varying_columns] ** 2
    smallest_column = float(column_squares.min(initial=trace))
    lowest = max(ALPHA_OVER_SMALLEST * smallest_column, MIN_COLUMN_OVER_TRACE * trace)
    if smallest_direction is not None:
        direction_alpha = max(
            ALPHA_OVER_SMALLEST * smallest_direction, certifiable_alpha(problem, False)
        )
        lowest = min(lowest, direction_alpha)
    n_extra_exact = np.log(SMALLEST_ALPHA_OVER_TRACE * trace / lowest) / np.log(ratio)
    n_extra = max(0, int(np.ceil(n_extra_exact)))
    exponents = np.arange(1.0 - DEFAULT_N_ALPHAS - n_extra, 1.0)
    return np.asarray(trace * LARGEST_ALPHA_OVER_TRACE * ratio**exponents)


def certifiable_alpha(problem: Problem, from_singular_values: bool) -> float:
    """About the smallest alpha for which fits can be certified despite rounding.

    It is relative to the norm of the rounding error of X'X or, for fits from singular values, to
    the square of that of X.
    """
    noise = CERTIFIABLE_NOISE_FACTOR * sum_noise(problem.shape[0])
    size = float(problem.gram_error_scale.sum())
    return size * (noise**2 if from_singular_values else noise)


def gram_trace(problem: Problem) -> float:
    """Trace of X'X, the sum of the squared column norms; 1 if it is 0 because X is constant."""
    return float((problem.column_norms**2).sum()) or 1.0


def extension_limits(
    grid: Array, problem: Problem, smallest_direction: float | None, from_singular_values: bool
) -> tuple[float, float]:
    """Smallest and largest alpha to which the default grid `grid` may be extended.

    Below the smallest direction fits hardly change. Alphas that cannot be certified are left
    out. Which these are depends on whether fits come from X'X or from singular values of X.
    """
    smallest, largest = gram_trace(problem) * np.array(EXTENSION_LIMITS_OVER_TRACE)
    if smallest_direction is not None:
        smallest = max(
            ALPHA_OVER_SMALLEST * smallest_direction,
            certifiable_alpha(problem, from_singular_values),
        )
        return min(float(smallest), float(grid[0])), float(largest)
    # A grid that was extended for a tiny column may start below the usual limit.
    return min(float(smallest), 1e-3 * float(grid[0])), float(largest)


def extend_grid(alphas: Array, limits: tuple[float, float]) -> Array:
    """The grid with up to EXTENSION_STEPS more alphas at both ends, at the same ratio.

    No alpha outside `limits` = (smallest, largest) is added. Both ends are extended, because with
    flat scores the best alpha does not show on which side better ones lie.
    """
    ratio = (alphas[-1] / alphas[0]) ** (1 / (len(alphas) - 1))
    factors = ratio ** np.arange(1, EXTENSION_STEPS + 1)
    below, above = alphas[0] / factors[::-1], alphas[-1] * factors
    smallest, largest = limits
    return np.concatenate([below[below >= smallest], alphas, above[above <= largest]])
