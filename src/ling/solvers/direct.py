"""Gram matrix and factorisation: primal (X'X) or dual (X X'), whichever is smaller."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from scipy import linalg

from ling._typing import Array
from ling.linalg.potrf import potrf
from ling.linalg.rounding import EPS, EPS32, sum_noise
from ling.linalg.tridiagonal import HouseholderTridiagonal, tridiagonalize
from ling.solvers.conjugate_gradients import Preconditioner, conjugate_gradients
from ling.solvers.engine import Candidate, EngineBudget, evaluate_bound
from ling.solvers.gradient_rounding import dual_rounding
from ling.solvers.gram_cholesky import (
    apply_inverse,
    cholesky_minorant,
    inverse_cholesky,
    proven_min_eigenvalue,
    scaled_cholesky,
)
from ling.solvers.minorant import BestOf, CholeskyMinorant, ZeroMinorant
from ling.solvers.problem import Problem

# From this many alphas on, one tridiagonal form is cheaper than a Cholesky factor for each.
MIN_ALPHAS_FOR_TRIDIAGONAL = 8
# Squares, and products with a square root, of numbers up to this are in the range of float32.
FLOAT32_SAFE_MAX = 1e12
MAX_REFINEMENT_STEPS = 30
FLOAT32_NOTE = "Gram matrix in float32, proved and refined in float64"
ILL_CONDITIONED_NOTE = "by singular values, as X'X is too ill-conditioned"


def direct(problem: Problem, budget: EngineBudget) -> Candidate:
    """Solve (X'X + alpha I) w = X'y, or w = X'(X X' + alpha I)^-1 y, to full precision.

    One pass, n p min(n, p) FLOPs, min(n, p)^2 numbers. Steps of refinement follow where rounding
    has left more than tol. alpha = 0 gives the solution of least norm.
    """
    n, p = problem.shape
    if (problem.alphas == 0).any():
        return _solve_by_svd(problem, budget, "the solution of least norm")
    if p <= n:
        return _solve_primal(problem, budget)
    return _solve_dual(problem, budget)


def _solve_primal(problem: Problem, budget: EngineBudget) -> Candidate:
    if budget.low_precision:
        found = _solve_primal_float32(problem, budget)
        if found is not None:
            return found
    G = problem.gram()
    many = len(problem.distinct_alphas) >= MIN_ALPHAS_FOR_TRIDIAGONAL
    if many or problem.gram_cache.form is not None:
        found = _solve_primal_tridiagonal(problem, G)
        if many or problem.is_within_tol(np.asarray(found.bound), budget.tol):
            return found
    W = np.empty_like(problem.moments)
    bound = np.empty(problem.n_targets)
    parts: list[CholeskyMinorant] = []
    for alpha in problem.distinct_alphas:
        mine = problem.alphas == alpha
        with_proof = scaled_cholesky(problem, G, float(alpha))
        if with_proof is None:
            return _solve_by_svd(problem, budget, ILL_CONDITIONED_NOTE)
        factor, part = with_proof
        parts.append(part)
        solve = partial(_cholesky_solve, factor, part.scale)
        C = problem.moments[:, mine]
        W[:, mine] = solve(C)
        gradient = C - G @ W[:, mine] - alpha * W[:, mine]
        W[:, mine] += solve(gradient)  # one step of refinement: p^2, next to nothing
        gradient = C - G @ W[:, mine] - alpha * W[:, mine]
        bound[mine] = np.sqrt(part.quadratic_form(gradient, problem.alphas[mine]))
        floor = part.diagonal_floor(float(alpha))
        bound[mine] += gram_rounding(problem, floor, W[:, mine], problem.raw_target_norms[mine])
    return Candidate(W, BestOf(parts), bound)


def _cholesky_solve(factor: Array, scale: Array, C: Array) -> Array:
    """(D^1/2 L L' D^1/2)^-1 C."""
    inner, _ = linalg.lapack.dpotrs(factor, C / scale[:, None], lower=True)
    return np.asarray(inner / scale[:, None])


def gram_rounding(problem: Problem, floor: Array | float, W: Array, spread: Array) -> Array:
    """What rounding in X'X and X'y can add to the error of a gradient made from them.

    The j-th entry is off by at most a few eps ||x_j|| (||y|| + sum_k ||x_k|| |w_k|), which a floor
    under X'X + alpha I divides.
    """
    noise = sum_noise(problem.shape[0])
    columns = np.sqrt((problem.raw_column_norms**2 / floor).sum())
    fitted = problem.raw_column_norms @ np.abs(W)
    return np.asarray(noise * columns * (spread + fitted))


def _solve_primal_float32(problem: Problem, budget: EngineBudget) -> Candidate | None:
    """The Gram matrix in float32, and conjugate gradients in float64 on X itself.

    None where float32 leaves no positive matrix.
    """
    alpha = float(problem.distinct_alphas[0])
    sizes = np.append(problem.raw_column_norms, np.sqrt(alpha))
    if sizes.max() > FLOAT32_SAFE_MAX or sizes[sizes > 0].min() < 1 / FLOAT32_SAFE_MAX:
        return None
    G = problem.design.gram(np.float32)
    scale = np.sqrt(np.diag(G).astype(np.float64) + alpha)
    narrow = (1 / scale).astype(np.float32)
    G *= narrow[:, None]
    G *= narrow
    G[np.diag_indices_from(G)] = 1.0
    n, p = problem.shape
    factoring = sum_noise(p, eps=EPS32) * p
    noise = factoring + sum_noise(n, eps=EPS32) * float(
        ((problem.safe_column_norms / scale) ** 2).sum()
    )
    least = alpha / float((scale**2).max())
    if noise >= least / 2:
        least = max(least, proven_min_eigenvalue(G, 1.2 * noise, factoring))
    inverse = inverse_cholesky(G, problem.uses_compiled_loops)
    if inverse is None:
        return None
    part = cholesky_minorant(inverse, scale, alpha, noise, least)
    W = apply_inverse(inverse, scale, problem.moments)
    found, gradient = evaluate_bound(problem, Candidate(W, part, note=FLOAT32_NOTE))
    if found.bound is not None and problem.is_within_tol(found.bound, budget.tol):
        return found
    shares = np.full(problem.n_targets, part.lower_ratio)
    found = conjugate_gradients(
        problem,
        Preconditioner(lambda R, _: apply_inverse(inverse, scale, R), shares),
        part,
        tol=budget.tol,
        max_iter=MAX_REFINEMENT_STEPS,
        start=W,
        residual=gradient,
    )
    reached = found.squared_bound is not None and problem.is_within_tol(
        np.sqrt(found.squared_bound), budget.tol
    )
    if not reached or not np.isfinite(found.coef).all():
        return None
    return replace(found, n_iter=None, note=FLOAT32_NOTE)


def _solve_primal_tridiagonal(problem: Problem, G: Array) -> Candidate:
    """One tridiagonal form for all alphas; G tells the gradient."""
    form = problem.gram_cache.form or tridiagonalize(G)
    W, gradient = solve_with_refinement(form, G, problem.moments, problem.alphas)
    bound = gram_error_bound(problem, W, gradient, problem.alphas, problem.raw_target_norms)
    return Candidate(W, bound=bound)


def gram_error_bound(
    problem: Problem, W: Array, gradient: Array, alphas: Array, spread: Array
) -> Array:
    """What a gradient made from X'X proves of W, column by column; `spread` is that of raw y."""
    bound: Array = np.sqrt(ZeroMinorant().quadratic_form(gradient, alphas))
    for alpha in np.unique(alphas):
        mine = alphas == alpha
        bound[mine] += gram_rounding(problem, float(alpha), W[:, mine], spread[mine])
    return bound


def solve_with_refinement(
    form: HouseholderTridiagonal, A: Array, C: Array, alphas: Array
) -> tuple[Array, Array]:
    """W = (A + alpha I)^-1 C with a step of refinement, and what is left of C."""
    W = form.solve_columns(C, alphas)
    W += form.solve_columns(C - A @ W - alphas * W, alphas)
    return W, C - A @ W - alphas * W


def _solve_dual(problem: Problem, budget: EngineBudget) -> Candidate:
    """w = X'c, (X X' + alpha I) c = y; the error is below ||y - (X X' + alpha I) c||."""
    K = problem.row_gram()
    n = len(K)
    C = np.empty_like(problem.targets)
    rho = np.empty_like(problem.targets)
    form = problem.gram_cache.form
    if form is None and len(problem.distinct_alphas) >= MIN_ALPHAS_FOR_TRIDIAGONAL:
        form = tridiagonalize(K)
    for alpha in problem.distinct_alphas:
        mine = problem.alphas == alpha
        Y = problem.targets[:, mine]
        if form is not None:
            C[:, mine], rho[:, mine] = solve_with_refinement(form, K, Y, problem.alphas[mine])
            continue
        # K is symmetric: its transpose is K in Fortran order, which potrf overwrites.
        H = np.array(K.T if K.flags.c_contiguous else K, order="F")
        H[np.diag_indices(n)] += alpha
        factor, info = potrf(H, lower=True, overwrite=True)
        if info:
            return _solve_by_svd(problem, budget, ILL_CONDITIONED_NOTE)
        solve = partial(linalg.cho_solve, (factor, True), check_finite=False)
        c = solve(Y)
        c += solve(Y - K @ c - alpha * c)
        C[:, mine] = c
        rho[:, mine] = Y - K @ c - alpha * c
    W = problem.design.rmatmat(C)
    bound = np.linalg.norm(rho, axis=0) + dual_rounding(problem, C, from_kernel_matrix=True)
    return Candidate(W, ZeroMinorant(), bound)


def _solve_by_svd(problem: Problem, budget: EngineBudget, note: str) -> Candidate:
    """W = V diag(d / (d^2 + alpha)) U'Y, for conditions that X'X, with their square, cannot bear.

    And for alpha = 0, where singular values that are rounding are left out: the solution of least
    norm. X is made dense for it, if that fits; otherwise the eigenvalues of its Gram matrix have to
    do, and the certificate tells how well they did.
    """
    n, p = problem.shape
    if 24.0 * n * p <= budget.max_bytes:
        U, d, Vt = _svd_with_fallback(problem.design.take(np.arange(n)))
        W: Array = Vt.T @ (
            d[:, None]
            * _apply_ridge_filter(U.T @ problem.targets, d, problem.alphas, max(n, p) * EPS)
        )
    elif p <= n:
        theta, Z = linalg.eigh(problem.design.gram(np.float64), check_finite=False)
        d = np.sqrt(np.maximum(theta, 0.0))
        W = Z @ _apply_ridge_filter(Z.T @ problem.moments, d, problem.alphas, np.sqrt(p * EPS))
    else:
        theta, Z = linalg.eigh(problem.design.row_gram(np.float64), check_finite=False)
        d = np.sqrt(np.maximum(theta, 0.0))
        c = Z @ _apply_ridge_filter(Z.T @ problem.targets, d, problem.alphas, np.sqrt(n * EPS))
        W = problem.design.rmatmat(c)
    return Candidate(np.asarray(W), note=note)


def _apply_ridge_filter(C: Array, d: Array, alphas: Array, rounding: float) -> Array:
    """C / (d^2 + alpha), and 0 for singular values d that are rounding where alpha is 0."""
    below = d[:, None] ** 2 + alphas
    kept = (d > rounding * d.max(initial=0.0))[:, None] | (alphas > 0)
    return np.divide(C, below, out=np.zeros_like(C), where=kept & (below > 0))


def _svd_with_fallback(X: Array) -> tuple[Array, Array, Array]:
    try:
        return linalg.svd(X, full_matrices=False, check_finite=False)
    except linalg.LinAlgError:  # the fast algorithm does not always converge; the old one does
        return linalg.svd(X, full_matrices=False, check_finite=False, lapack_driver="gesvd")
