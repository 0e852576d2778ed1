"""What rounding may hide in a computed gradient: part of every bound, so that none is too low."""

from __future__ import annotations

import numpy as np

from ling._typing import Array
from ling.linalg.rounding import sum_noise
from ling.solvers.minorant import Minorant
from ling.solvers.problem import Problem


def gradient_rounding(problem: Problem, minorant: Minorant, W: Array, residual: Array) -> Array:
    """What rounding in the computed gradient may hide, in the units of the bound.

    The gradient X'r - alpha w is off in two places. An error d in r = y - Xw enters the bound as
    ||d|| at most, since X(X'X + alpha I)^-1 X' <= I; |d| is a few eps (|y| + |X||w|). The sums X'r
    are off by a few eps ||x_j|| ||r|| in their j-th entry; X'X + alpha I >= diag(floor) divides it.
    "A few" grows like the square root of the number of terms (Higham & Mary 2019).
    """
    n, p = problem.shape
    few_p, few_n = sum_noise(p), sum_noise(n)
    found = few_p * (problem.raw_target_norms + problem.raw_column_norms @ np.abs(W))
    for t, alpha in enumerate(problem.alphas):
        if residual[t] or W[:, t].any():
            with np.errstate(divide="ignore"):
                columns = np.sqrt(
                    (problem.raw_column_norms**2 / minorant.diagonal_floor(float(alpha))).sum()
                )
            own = few_p * np.sqrt(alpha) * np.linalg.norm(W[:, t])
            found[t] += few_n * columns * residual[t] + own
    return np.asarray(found)


def dual_rounding(problem: Problem, C: Array, from_kernel_matrix: bool = False) -> Array:
    """What rounding may hide in rho = y - X X'c - alpha c, target by target.

    X'c and X(X'c) are off by a few eps times the sizes of X before centring and of X.
    `from_kernel_matrix` says that X X' was, which is off by as much if it was from centred rows,
    and by more if it was not.
    """
    raw = float(np.linalg.norm(problem.raw_column_norms))
    centred = float(np.linalg.norm(problem.safe_column_norms))
    if from_kernel_matrix and not problem.centers_rows:
        centred = raw
    lengths = np.linalg.norm(C, axis=0)
    sizes = (raw * (2 * centred + np.sqrt(problem.alphas)) + problem.alphas) * lengths
    return np.asarray(sum_noise(*problem.shape) * (problem.raw_target_norms + sizes))
