"""Bounds on the rounding error of a computed gradient, which are added to every error bound."""

from __future__ import annotations

import numpy as np

from ling._typing import Array
from ling.linalg.rounding import sum_noise
from ling.solvers.minorant import Minorant
from ling.solvers.problem import Problem


def gradient_rounding(problem: Problem, minorant: Minorant, W: Array, residual: Array) -> Array:
    """Bound (t,) on what gradient rounding adds to the error bound of W (p, t).

    `residual` (t,) holds the norms ||y - Xw||. The computed gradient X'r - alpha w has two sources
    of error:

    - An error d in r = y - Xw adds at most ||d|| to the bound, since X(X'X + alpha I)^-1 X' <= I.
      |d| is a few eps (|y| + |X||w|).
    - The sums X'r have an error of a few eps ||x_j|| ||r|| in entry j. In the bound it is divided
      by sqrt(floor_j), because X'X + alpha I >= diag(floor).

    "A few" grows like the square root of the number of terms (Higham & Mary 2019).
    """
    n, p = problem.shape
    noise_p, noise_n = sum_noise(p), sum_noise(n)
    bounds = noise_p * (problem.raw_target_norms + problem.raw_column_norms @ np.abs(W))
    for t, alpha in enumerate(problem.alphas):
        if residual[t] or W[:, t].any():
            with np.errstate(divide="ignore"):
                gradient_factor = np.sqrt(
                    (problem.raw_column_norms**2 / minorant.diagonal_floor(float(alpha))).sum()
                )
            penalty_error = noise_p * np.sqrt(alpha) * np.linalg.norm(W[:, t])
            bounds[t] += noise_n * gradient_factor * residual[t] + penalty_error
    return np.asarray(bounds)


def dual_rounding(problem: Problem, C: Array, from_kernel_matrix: bool = False) -> Array:
    """Bound (t,) on the rounding error of rho = y - X X'c - alpha c, for C (n, t).

    The errors of X'c and X(X'c) are a few eps times the norms of X before and after centring.
    `from_kernel_matrix` says that rho was computed with an explicit X X'. Its error is as large if
    X X' was formed from centred rows, and larger if it was not.
    """
    raw_norm = float(np.linalg.norm(problem.raw_column_norms))
    centered_norm = float(np.linalg.norm(problem.safe_column_norms))
    if from_kernel_matrix and not problem.centers_rows:
        centered_norm = raw_norm
    coef_norms = np.linalg.norm(C, axis=0)
    product_norms = (
        raw_norm * (2 * centered_norm + np.sqrt(problem.alphas)) + problem.alphas
    ) * coef_norms
    return np.asarray(sum_noise(*problem.shape) * (problem.raw_target_norms + product_norms))
