"""Which alphas to try: the user's, or a grid that follows from the data."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from ling.design import Array
from ling.errors import BadOption, NotFinite, WrongType
from ling.problem import Problem

# The default grid. At alpha = trace(X'X) less than one degree of freedom is left; 9 decades below
# it, everything but the weakest directions is fitted.
N_ALPHAS = 30
LARGEST = 1.0
SMALLEST = 1e-9
# How far the grid may be extended: beyond, nothing changes but rounding.
FARTHEST = 1e-15, 1e6
# It reaches this far below the smallest column, of those that are not constant but for rounding.
BELOW_COLUMNS, FARTHEST_COLUMN = 1e-3, 1e-20
# Alphas by which it is extended at a time.
MORE = 8


def checked(
    alphas: Any, zero: bool, hint: str = " (leave-one-out has no answer at 0; pass cv=5)"
) -> Array:
    """The user's alphas as an array; `zero` says whether 0 is possible."""
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
        if alpha < 0 or (alpha == 0 and not zero):
            least = "must be >= 0.0" if zero else "must be > 0.0"
            raise BadOption(f"{where} == {alpha}, {least}{hint if alpha == 0 else ''}.")
    return given.astype(np.float64)


def default_grid(problem: Problem) -> Array:
    """30 alphas, over 9 decades up to trace(X'X); X of another scale moves all of them.

    More at the same distances where columns are so small beside others that they need them.
    """
    step = (LARGEST / SMALLEST) ** (1 / (N_ALPHAS - 1))
    squares = problem.column_norms[problem.varies] ** 2
    lowest = BELOW_COLUMNS * float(squares.min(initial=size(problem))) / size(problem)
    wanted = np.log(SMALLEST / max(lowest, FARTHEST_COLUMN)) / np.log(step)
    more = max(0, int(np.ceil(wanted)))
    return np.asarray(size(problem) * LARGEST * step ** np.arange(1.0 - N_ALPHAS - more, 1.0))


def size(problem: Problem) -> float:
    """trace(X'X), or 1 if X is constant."""
    return float((problem.column_norms**2).sum()) or 1.0


def extended(alphas: Array, problem: Problem) -> Array:
    """More alphas at both ends, at the same distances; the same alphas if both are too far.

    Where scores are flat, the best one says nothing about the side on which better ones lie.
    """
    ratio = (alphas[-1] / alphas[0]) ** (1 / (len(alphas) - 1))
    steps = ratio ** np.arange(1, MORE + 1)
    below, above = alphas[0] / steps[::-1], alphas[-1] * steps
    least, most = size(problem) * np.array(FARTHEST)
    least = min(least, 1e-3 * float(alphas[0])) if alphas[0] < least else least
    return np.concatenate([below[below >= least], alphas, above[above <= most]])
