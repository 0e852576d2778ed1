"""Which alphas to try: the user's, or a grid that follows from the data."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from ling._typing import Array
from ling.errors import BadOption, NotFinite, WrongType
from ling.solvers.problem import Problem

# The default grid. At alpha = trace(X'X) less than one degree of freedom is left; 9 decades below
# it, everything but the weakest directions is fitted.
DEFAULT_N_ALPHAS = 30
LARGEST_ALPHA_OVER_TRACE = 1.0
SMALLEST_ALPHA_OVER_TRACE = 1e-9
# How far the grid may be extended: beyond, nothing changes but rounding.
EXTENSION_LIMITS_OVER_TRACE = 1e-15, 1e6
# It reaches this far below the smallest column, of those that are not constant but for rounding.
ALPHA_OVER_SMALLEST_COLUMN, MIN_COLUMN_OVER_TRACE = 1e-3, 1e-20
# Alphas by which it is extended at a time.
EXTENSION_STEPS = 8


def check_alphas(
    alphas: Any, allow_zero: bool, hint: str = " (leave-one-out has no answer at 0; pass cv=5)"
) -> Array:
    """The user's alphas as an array; `allow_zero` says whether 0 is possible."""
    name = "alphas"
    given = np.atleast_1d(np.asarray(alphas, dtype=object))  # numbers as they were written
    if given.ndim != 1 or not given.size:
        raise BadOption(
            f"{name} has shape {given.shape}; pass at least one positive number, in one dimension, "
            "or None for a grid that follows from the data."
        )
    for at, alpha in enumerate(given):
        where = f"{name}[{at}]" if np.ndim(alphas) else name
        if not isinstance(alpha, Real):
            raise WrongType(
                f"{where} must be an instance of float, not {type(alpha).__name__}; pass positive "
                "numbers, or None."
            )
        if not math.isfinite(alpha):
            raise NotFinite(f"{where} is {alpha}; pass finite numbers.")
        if alpha < 0 or (alpha == 0 and not allow_zero):
            least = "must be >= 0.0" if allow_zero else "must be > 0.0"
            raise BadOption(f"{where} == {alpha}, {least}{hint if alpha == 0 else ''}.")
    return given.astype(np.float64)


def default_alpha_grid(problem: Problem) -> Array:
    """30 alphas, over 9 decades up to trace(X'X); X of another scale moves all of them.

    More at the same distances where columns are so small beside others that they need them.
    """
    step = (LARGEST_ALPHA_OVER_TRACE / SMALLEST_ALPHA_OVER_TRACE) ** (1 / (DEFAULT_N_ALPHAS - 1))
    squares = problem.column_norms[problem.varying_columns] ** 2
    lowest = (
        ALPHA_OVER_SMALLEST_COLUMN
        * float(squares.min(initial=gram_trace(problem)))
        / gram_trace(problem)
    )
    wanted = np.log(SMALLEST_ALPHA_OVER_TRACE / max(lowest, MIN_COLUMN_OVER_TRACE)) / np.log(step)
    more = max(0, int(np.ceil(wanted)))
    return np.asarray(
        gram_trace(problem)
        * LARGEST_ALPHA_OVER_TRACE
        * step ** np.arange(1.0 - DEFAULT_N_ALPHAS - more, 1.0)
    )


def gram_trace(problem: Problem) -> float:
    """trace(X'X), or 1 if X is constant."""
    return float((problem.column_norms**2).sum()) or 1.0


def extension_limits(grid: Array, problem: Problem) -> tuple[float, float]:
    """The smallest and largest alpha to which a default grid may be extended."""
    least, most = gram_trace(problem) * np.array(EXTENSION_LIMITS_OVER_TRACE)
    # A grid that reaches below a tiny column may start below the usual limit.
    return min(float(least), 1e-3 * float(grid[0])), float(most)


def extend_grid(alphas: Array, limits: tuple[float, float]) -> Array:
    """More alphas at both ends, at the same distances, as far as `limits` allow.

    Where scores are flat, the best one says nothing about the side on which better ones lie.
    """
    ratio = (alphas[-1] / alphas[0]) ** (1 / (len(alphas) - 1))
    steps = ratio ** np.arange(1, EXTENSION_STEPS + 1)
    below, above = alphas[0] / steps[::-1], alphas[-1] * steps
    least, most = limits
    return np.concatenate([below[below >= least], alphas, above[above <= most]])
