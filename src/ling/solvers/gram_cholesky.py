"""Cholesky factors of Gram matrices, and proofs of how far they can be trusted."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from ling._typing import Array
from ling.design import DenseStorage, Design
from ling.linalg.potrf import potrf
from ling.linalg.rounding import sum_noise
from ling.solvers.minorant import CholeskyMinorant
from ling.solvers.problem import Problem


def scaled_cholesky(
    problem: Problem, G: Array, alpha: float
) -> tuple[Array, CholeskyMinorant] | None:
    """The Cholesky factor of G + alpha I in units of its diagonal, and how far to trust it."""
    p = len(G)
    diagonal = np.diag(G) + alpha
    if not (diagonal > 0).all():
        return None
    scale = np.sqrt(diagonal)
    H = G / scale[:, None] / scale
    H[np.diag_indices(p)] = 1.0
    factor, info = potrf(H, lower=True, clean=True)
    if info:
        return None
    half = partial(_forward_substitute, factor)
    noise = sum_noise(problem.shape[0]) * float((problem.gram_error_scale / diagonal).sum() + p)
    least = alpha / float(diagonal.max())
    if noise >= least / 3:
        # alpha alone does not carry G above its rounding; G itself may.
        least = proven_min_eigenvalue(H, 8 * noise, 2 * noise, overwrite=True)
        if not least:
            return factor, CholeskyMinorant(half, scale, alpha, np.inf, 0.0)
    return factor, CholeskyMinorant(half, scale, alpha, 1 / (1 - noise / least), least)


def _forward_substitute(factor: Array, V: Array) -> Array:
    """L^-1 V, by LAPACK itself: SciPy's checks take longer than a small solve."""
    found: Array = linalg.lapack.dtrtrs(factor, V, lower=True)[0]
    return found


def inverse_cholesky(H: Array, compiled: bool) -> Design | None:
    """M with M'M = H^-1, so that H^-1 v is one fused sweep over M; None if H is not positive.

    H is overwritten. Solving with the factor itself would be as fast, but by BLAS.
    """
    trtri: Any = linalg.get_lapack_funcs("trtri", (H,))
    upper, info = potrf(_as_fortran_order(H), lower=False, clean=True, overwrite=True)
    if info:
        return None
    inverse, info = trtri(upper, lower=False, overwrite_c=True)
    # The upper triangle in Fortran order is its transpose in C order.
    if info:
        return None
    return Design(DenseStorage(np.ascontiguousarray(inverse.T), compiled=compiled))


def cholesky_minorant(
    inverse: Design,
    scale: Array,
    alpha: float,
    noise: float,
    least: float,
    upper_ratio: float = 1.0,
) -> CholeskyMinorant:
    """What D^1/2 H D^1/2 proves, H^-1 = inverse'inverse being off by `noise`, and H >= least I.

    D^1/2 H D^1/2 is at most inflation (X'X + alpha I). Where noise is not small beside `least`, the
    bound cannot lean on it.
    """
    inflation = upper_ratio / (1 - noise / least) if 1.1 * noise < least else np.inf
    return CholeskyMinorant(inverse.matmat, scale, alpha, float(inflation), 0.0)


def proven_min_eigenvalue(H: Array, wanted: float, noise: float, overwrite: bool = False) -> float:
    """`wanted` if H >= wanted I, 0 if that is not proved; H is symmetric.

    A factorisation of H - (wanted + noise) I, which is off by `noise`, proves it by succeeding.
    """
    shifted = H if overwrite else H.copy(order="F")
    shifted[np.diag_indices_from(H)] -= wanted + noise
    return 0.0 if potrf(_as_fortran_order(shifted), lower=False, overwrite=True)[1] else wanted


def _as_fortran_order(H: Array) -> Array:
    """H, symmetric, in Fortran order: LAPACK overwrites that, and would copy anything else."""
    return H if H.flags.f_contiguous else H.T


def apply_inverse(inverse: Design, scale: Array, R: Array) -> Array:
    """(D^1/2 H D^1/2)^-1 R, one fused sweep over the inverse factor."""
    return np.asarray(inverse.gram_matmat(R / scale[:, None]) / scale[:, None])
