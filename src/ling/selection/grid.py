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
# Alphas by which it is extended at a time.
MORE = 8


def checked(alphas: Any, zero: bool) -> Array:
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
            hint = "" if zero else " (leave-one-out has no answer at 0; pass cv=5)"
            raise BadOption(f"{where} == {alpha}, {least}{hint if alpha == 0 else ''}.")
    return given.astype(np.float64)


def default_grid(problem: Problem) -> Array:
    """30 alphas, over 9 decades up to trace(X'X); X of another scale moves all of them."""
    trace = size(problem)
    return np.asarray(trace * np.geomspace(SMALLEST, LARGEST, N_ALPHAS))


def size(problem: Problem) -> float:
    """trace(X'X), or 1 if X is constant."""
    return float((problem.column_norms**2).sum()) or 1.0


def extended(alphas: Array, low: bool, high: bool, problem: Problem) -> Array:
    """More alphas at the same distances where the best is at an end; the same if it is too far."""
    ratio = (alphas[-1] / alphas[0]) ** (1 / (len(alphas) - 1))
    steps = ratio ** np.arange(1, MORE + 1)
    below = alphas[0] / steps[::-1] if low else alphas[:0]
    above = alphas[-1] * steps if high else alphas[:0]
    least, most = size(problem) * np.array(FARTHEST)
    return np.concatenate([below[below >= least], alphas, above[above <= most]])
