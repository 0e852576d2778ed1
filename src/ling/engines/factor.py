"""The Cholesky factor of a Gram matrix, and a proof of how far it can be trusted."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import linalg

from ling.design import Array
from ling.minorant import EPS, Factored
from ling.problem import Problem


def factored(problem: Problem, G: Array, alpha: float) -> tuple[Array, Factored] | None:
    """The Cholesky factor of G + alpha I in units of its diagonal, and how far to trust it."""
    p = len(G)
    diagonal = np.diag(G) + alpha
    if not (diagonal > 0).all():
        return None
    scale = np.sqrt(diagonal)
    H = G / scale[:, None] / scale
    H[np.diag_indices(p)] = 1.0
    factor, info = linalg.lapack.dpotrf(H, lower=True, clean=True, overwrite_a=False)
    if info:
        return None
    half = partial(linalg.solve_triangular, factor, lower=True, check_finite=False)
    noise = (
        EPS
        * (2 + np.sqrt(problem.shape[0]) / 2)
        * float((problem.gram_squares / diagonal).sum() + p)
    )
    least = alpha / float(diagonal.max())
    if noise >= least / 3:
        # alpha alone does not carry G above its rounding; G itself may. A factorisation of
        # G - shift I that succeeds proves that its least eigenvalue is above the shift.
        least = 10 * noise
        H[np.diag_indices(p)] -= least
        if linalg.lapack.dpotrf(H, lower=True, overwrite_a=True)[1]:
            return factor, Factored(half, scale, alpha, np.inf, 0.0)
        least *= 0.8  # the rounding of that factorisation
    return factor, Factored(half, scale, alpha, 1 / (1 - noise / least), least)
