"""Gram matrices in float32, which take half the time, with refinement and proof in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg

from ling._typing import Array
from ling.linalg.cholesky import potrf, proven_min_eigenvalue
from ling.linalg.gram import diagonal_view, form_gram
from ling.linalg.rounding import EPS, EPS32, sum_noise
from ling.solvers.certificate import ZeroMinorant, dual_rounding, evaluate_bound
from ling.solvers.conjugate_gradients import Preconditioner, conjugate_gradients
from ling.solvers.engine import Candidate
from ling.solvers.inverse_factor import InverseFactor
from ling.solvers.problem import Problem

# The float32 path is used only if column norms and sqrt(alpha) lie between 1 / this and this, so
# that their squares, and products of a square with a norm, stay within the range of float32 (3e38).
FLOAT32_SAFE_MAX = 1e12
# Iterations on X that correct a solution from the float32 Gram matrix. Each reduces the error by a
# constant factor; if so many do not reach tol, float32 is too coarse, and float64 is used.
MAX_REFINEMENT_STEPS = 30
# A step of the dual refinement has to reduce the error bound by this factor. A matrix of condition
# k in float32 reduces it by about 1 / (k EPS32); below 4, further steps cost more than float64.
MIN_DUAL_REDUCTION = 4.0
# Rows whose kernel matrix shows that X X' is too ill-conditioned for float32, before it is formed.
PROBE_ROWS = 96
FLOAT32_NOTE = "Gram matrix in float32, proved and refined in float64"


def solve_primal_float32(problem: Problem, tol: float) -> Candidate | None:
    """Factor X'X + alpha I in float32, then refine by conjugate gradients in float64 on X.

    All targets have the same alpha. None if numbers are out of float32's range, if the float32
    matrix is not positive definite, or if the refinement does not reach tol.
    """
    if not _is_in_float32_range(problem):
        return None
    alpha = float(problem.distinct_alphas[0])
    H, scale = _scale_to_unit_diagonal(problem.design.gram(np.float32), alpha)
    n, p = problem.shape
    # Rounding errors of the factorisation and of the scaled G, as in `cholesky_with_minorant`.
    factor_noise = sum_noise(p, eps=EPS32) * p
    noise = factor_noise + sum_noise(n, eps=EPS32) * float(
        ((problem.safe_column_norms / scale) ** 2).sum()
    )
    min_eigenvalue = alpha / float((scale**2).max())
    if noise >= min_eigenvalue / 2:
        proven = proven_min_eigenvalue(H, 1.2 * noise, factor_noise)
        min_eigenvalue = max(min_eigenvalue, proven)
    inverse = InverseFactor.from_scaled(H, scale, problem.uses_compiled_loops)
    if inverse is None:
        return None
    minorant = inverse.minorant(alpha, noise, min_eigenvalue)
    W = inverse.apply(problem.moments)
    candidate, gradient = evaluate_bound(problem, Candidate(W, minorant, note=FLOAT32_NOTE))
    if candidate.bound is not None and problem.is_within_tol(candidate.bound, tol):
        return candidate
    lower_ratios = np.full(problem.n_targets, minorant.lower_ratio)
    candidate = conjugate_gradients(
        problem,
        Preconditioner(lambda R, _: inverse.apply(R), lower_ratios),
        minorant,
        tol=tol,
        max_iter=MAX_REFINEMENT_STEPS,
        start=W,
        residual=gradient,
    )
    has_converged = candidate.squared_bound is not None and problem.is_within_tol(
        np.sqrt(candidate.squared_bound), tol
    )
    if not has_converged or not np.isfinite(candidate.coef).all():
        return None
    return replace(candidate, n_iter=None, note=FLOAT32_NOTE)


def solve_dual_float32(problem: Problem, tol: float) -> Candidate | None:
    """Factor X X' + alpha I in float32, then refine the dual coefficients in float64 on X.

    The error of w = X'c is at most ||rho||, rho = y - X w - alpha c, whatever c is. Each step takes
    two passes. The matrix is that of the smallest alpha. None if numbers are out of float32's
    range, or if the steps reduce the error too slowly, because X X' + alpha I is ill-conditioned or
    alphas differ.
    """
    if not _is_in_float32_range(problem) or _is_too_ill_conditioned(problem):
        return None
    alpha = float(problem.distinct_alphas[0])
    H, scale = _scale_to_unit_diagonal(problem.design.row_gram(np.float32), alpha)
    factor, info = potrf(H if H.flags.f_contiguous else H.T, lower=True, overwrite=True)
    if info:
        return None
    potrs: Any = linalg.get_lapack_funcs("potrs", (factor,))

    def solve(R: Array) -> Array:
        # Scaled to unit columns: residuals may be too small for float32.
        norms = np.linalg.norm(R, axis=0)
        norms[norms == 0] = 1.0
        inner = potrs(factor, R / norms / scale[:, None], lower=True)[0]
        return np.asarray(inner.astype(np.float64) * norms / scale[:, None])

    Y = problem.targets
    C, smallest = solve(Y), np.inf
    for _ in range(MAX_REFINEMENT_STEPS):
        W = problem.design.rmatmat(C)
        rho = Y - problem.design.matmat(W) - problem.alphas * C
        bound = np.linalg.norm(rho, axis=0) + dual_rounding(problem, C)
        if problem.is_within_tol(bound, tol):
            return Candidate(W, ZeroMinorant(), bound, note=FLOAT32_NOTE)
        largest = float(bound.max())
        if not largest < smallest / MIN_DUAL_REDUCTION:
            return None
        smallest = largest
        C += solve(rho)
    return None


def _is_in_float32_range(problem: Problem) -> bool:
    """Whether column norms and sqrt(alpha) are far from the limits of float32."""
    norms = np.append(problem.raw_column_norms, np.sqrt(problem.distinct_alphas[0]))
    return bool(norms.max() <= FLOAT32_SAFE_MAX and norms[norms > 0].min() >= 1 / FLOAT32_SAFE_MAX)


def _scale_to_unit_diagonal(G: Array, alpha: float) -> tuple[Array, Array]:
    """H = D^-1/2 (G + alpha I) D^-1/2 in float32, which overwrites G, and the diagonal of D^1/2."""
    scale = np.sqrt(np.diag(G).astype(np.float64) + alpha)
    inverse_scale = (1 / scale).astype(np.float32)
    G *= inverse_scale[:, None]
    G *= inverse_scale
    diagonal_view(G)[:] = 1.0
    return G, scale


def _is_too_ill_conditioned(problem: Problem) -> bool:
    """Whether a few rows show that X X' + alpha I is too ill-conditioned for float32.

    The condition of a principal submatrix is at most that of the whole matrix (Cauchy's interlacing
    theorem). The smallest eigenvalue is extrapolated to all rows by the power law that the
    smaller three quarters of the eigenvalues follow. Rows are taken only if alpha alone does not
    bound the condition; a fraction of a pass.
    """
    n = problem.shape[0]
    alpha = float(problem.distinct_alphas[0])
    limit = 1 / (MIN_DUAL_REDUCTION * EPS32)
    if float((problem.safe_column_norms**2).sum()) / alpha < limit:
        return False
    rows = np.unique(np.linspace(0, n - 1, min(n, PROBE_ROWS)).astype(np.intp))
    kernel = form_gram(problem.design.take(rows).T)
    scale = np.sqrt(np.diag(kernel) + alpha)
    kernel /= scale
    kernel /= scale[:, None]
    values = np.maximum(linalg.eigvalsh(kernel, check_finite=False), EPS)
    exponent = np.log(values[-len(values) // 4] / values[0]) / np.log(4)
    smallest = values[0] * (len(rows) / n) ** exponent + alpha / float((scale**2).max())
    return bool(values[-1] > limit * smallest)
