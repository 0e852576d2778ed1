"""Gram matrix and factorisation: primal (X'X) or dual (X X'), whichever is smaller."""

from __future__ import annotations

from contextlib import AbstractContextManager

import numpy as np

from ling._typing import Array
from ling.linalg.cholesky import scaled_cholesky
from ling.linalg.decompositions import eigh
from ling.linalg.rounding import EPS, sum_noise
from ling.linalg.singular_values import thin_svd_with_fallback
from ling.linalg.threads import blas_threads_for
from ling.linalg.tridiagonal import HouseholderTridiagonal, tridiagonalize
from ling.solvers.certificate import (
    BestOf,
    CholeskyMinorant,
    Minorant,
    ZeroMinorant,
    cholesky_with_minorant,
    dual_rounding,
    evaluate_bound,
    singular_minorant,
)
from ling.solvers.cost_model import is_svd_affordable, svd_bytes
from ling.solvers.engine import Candidate, EngineBudget
from ling.solvers.float32_gram import solve_dual_float32, solve_primal_float32
from ling.solvers.gram_problem import RowsUnavailableError
from ling.solvers.memory_budget import MemoryBudget
from ling.solvers.options import FitOptions
from ling.solvers.problem import Problem

# From this many alphas on, one tridiagonal form is cheaper than a Cholesky factor for each.
MIN_ALPHAS_FOR_TRIDIAGONAL = 8
ILL_CONDITIONED_NOTE = "by singular values, as X'X is too ill-conditioned"


@np.errstate(over="ignore")  # where alpha is 1e-308 times squares of X, bounds are infinite
def direct(
    problem: Problem, options: FitOptions, budget: EngineBudget, start: Array | None = None
) -> Candidate:
    """Solve (X'X + alpha I) w = X'y, or w = X'(X X' + alpha I)^-1 y, to full precision.

    One pass, n p min(n, p) FLOPs, min(n, p)^2 numbers of memory. Iterative refinement follows where
    rounding has left an error above tol. For alpha = 0 the result is the minimum-norm solution.
    """
    n, p = problem.shape
    if (problem.alphas == 0).any():
        return solve_by_singular_values(problem, budget.memory, "the solution of least norm")
    if p > n:
        return _solve_dual(problem, options, budget)
    candidate = _solve_primal(problem, options, budget)
    if candidate.bound is None or problem.is_within_tol(candidate.bound, options.tol):
        return candidate
    # The gradient on X itself may prove what X'X does not. If not, the singular values of X may.
    candidate, _ = evaluate_bound(problem, candidate)
    assert candidate.bound is not None
    is_proved = problem.is_within_tol(candidate.bound, options.tol)
    if is_proved or not is_svd_affordable(n, p, budget.memory):
        return candidate
    try:
        return solve_by_singular_values(problem, budget.memory, ILL_CONDITIONED_NOTE)
    except RowsUnavailableError:  # nothing but X'X is known
        return candidate


def _solve_primal(problem: Problem, options: FitOptions, budget: EngineBudget) -> Candidate:
    """Solve (X'X + alpha I) w = X'y, for p <= n.

    In float32 if the budget allows it, otherwise by one tridiagonal form for many alphas, or by a
    Cholesky factor for each alpha. By singular values if X'X + alpha I is not positive definite.
    """
    if budget.low_precision:
        candidate = solve_primal_float32(problem, options.tol, budget.max_refinement_passes)
        if candidate is not None:
            return candidate
    G = problem.gram()
    if len(problem.distinct_alphas) >= MIN_ALPHAS_FOR_TRIDIAGONAL:
        return solve_with_form(problem, tridiagonalize(G))
    with _factor_threads(problem):
        candidate = _solve_by_cholesky(problem, G)
    if candidate is None:
        return solve_by_singular_values(problem, budget.memory, ILL_CONDITIONED_NOTE)
    return candidate


def _factor_threads(problem: Problem) -> AbstractContextManager[None]:
    """Context manager with the BLAS threads that factors of a Gram matrix, and solves, need."""
    m = min(problem.shape)
    return blas_threads_for(max(m**3 / 3, m * m * problem.n_targets))


def _solve_by_cholesky(problem: Problem, G: Array) -> Candidate | None:
    """The candidate from a Cholesky factor of G + alpha I for each alpha, for G = X'X.

    None if a matrix is not positive definite, up to rounding. A step of refinement follows if
    for some target the gradient adds more to the bound than the rounding of G does.
    """
    W = np.empty_like(problem.moments)
    bound = np.empty(problem.n_targets)
    minorants: list[CholeskyMinorant] = []
    for alpha, same_alpha in problem.alpha_groups:
        proven = cholesky_with_minorant(G, alpha, problem.shape[0], problem.gram_error_scale)
        if proven is None:
            return None
        factor, minorant = proven
        minorants.append(minorant)
        C = problem.moments[:, same_alpha]
        floor = minorant.diagonal_floor(alpha)
        coef = factor.solve(C)
        gradient = C - G @ coef - alpha * coef
        rounding = gram_rounding(problem, floor, coef, problem.raw_target_norms[same_alpha])
        gradient_bound = _floor_bound(gradient, floor)
        if (gradient_bound > rounding).any():
            coef += factor.solve(gradient)
            gradient = C - G @ coef - alpha * coef
            forms = minorant.quadratic_form(gradient, problem.alphas[same_alpha])
            gradient_bound = np.minimum(_floor_bound(gradient, floor), np.sqrt(forms))
            rounding = gram_rounding(problem, floor, coef, problem.raw_target_norms[same_alpha])
        W[:, same_alpha] = coef
        bound[same_alpha] = gradient_bound + rounding
    return Candidate(W, minorants[0] if len(minorants) == 1 else BestOf(minorants), bound)


def _floor_bound(gradient: Array, floor: Array | float) -> Array:
    """Error bound (t,) from `gradient` (p, t) and X'X + alpha I >= diag(floor); 2 p t FLOPs."""
    return np.asarray(np.linalg.norm(gradient / np.sqrt(np.atleast_1d(floor))[:, None], axis=0))


def gram_rounding(problem: Problem, floor: Array | float, W: Array, spread: Array) -> Array:
    """Bound (t,) on what rounding in X'X and X'y adds to the error bound of W (p, t).

    It holds for a gradient X'y - (X'X + alpha I) w computed from both. Entry j has an error of at
    most a few eps ||x_j|| (||y|| + sum_k ||x_k|| |w_k|). In the bound it is divided by
    sqrt(floor_j), because X'X + alpha I >= diag(floor); `floor` is (p,) or a scalar. `spread` (t,)
    holds the norms ||y|| before centring.
    """
    gradient_factor = np.sqrt((problem.raw_column_norms**2 / floor).sum())
    return _gram_rounding(problem, gradient_factor, W, spread)


def _gram_rounding(
    problem: Problem, gradient_factor: Array | float, W: Array, spread: Array
) -> Array:
    """`gram_rounding` for ||raw column norms / sqrt(floor)||, a number or (t,)."""
    sizes = spread + problem.fitted_norm_bounds(W)
    return np.asarray(sum_noise(problem.shape[0]) * gradient_factor * sizes)


def solve_with_form(problem: Problem, form: HouseholderTridiagonal) -> Candidate:
    """Solve for all alphas with the tridiagonal form of X'X, or of X X' if p > n."""
    n, p = problem.shape
    if p > n:
        C, rho = solve_with_refinement(form, problem.row_gram(), problem.targets, problem.alphas)
        return _dual_candidate(problem, C, rho)
    W, gradient = solve_with_refinement(form, problem.gram(), problem.moments, problem.alphas)
    bound = gram_error_bound(problem, W, gradient, problem.alphas, problem.raw_target_norms)
    return Candidate(W, bound=bound)


def gram_error_bound(
    problem: Problem, W: Array, gradient: Array, alphas: Array, spread: Array
) -> Array:
    """Error bound (t,) for W (p, t) from its gradient (p, t), computed with an explicit X'X.

    `alphas` (t,) has one alpha for each column of W, and `spread` (t,) the norm ||y|| of its target
    before centring.
    """
    bound: Array = np.sqrt(ZeroMinorant().quadratic_form(gradient, alphas))
    gradient_factor = np.linalg.norm(problem.raw_column_norms) / np.sqrt(alphas)
    return bound + _gram_rounding(problem, gradient_factor, W, spread)


def solve_with_refinement(
    form: HouseholderTridiagonal, A: Array, C: Array, alphas: Array
) -> tuple[Array, Array]:
    """W = (A + alpha I)^-1 C with one step of refinement, and the residual C - (A + alpha I) W.

    `form` is that of A (m, m); `alphas` (k,) has one alpha for each column of C (m, k).
    """
    W = form.solve_columns(C, alphas)
    W += form.solve_columns(C - A @ W - alphas * W, alphas)
    return W, C - A @ W - alphas * W


def _solve_dual(problem: Problem, options: FitOptions, budget: EngineBudget) -> Candidate:
    """Solve w = X'c, (X X' + alpha I) c = y, for p > n; in float32 if the budget allows it.

    The error of w is at most ||rho||, rho = y - (X X' + alpha I) c.
    """
    if budget.low_precision:
        candidate = solve_dual_float32(problem, options.tol, budget.max_refinement_passes)
        if candidate is not None:
            return candidate
    dual = solve_dual_system(problem)
    if dual is None:
        return solve_by_singular_values(problem, budget.memory, ILL_CONDITIONED_NOTE)
    return _dual_candidate(problem, *dual)


def solve_dual_system(problem: Problem) -> tuple[Array, Array] | None:
    """Dual coefficients C (n, t), (X X' + alpha I) c = y, and y - (X X' + alpha I) c (n, t).

    None if X X' + alpha I is not positive definite, up to rounding.
    """
    K = problem.row_gram()
    if len(problem.distinct_alphas) >= MIN_ALPHAS_FOR_TRIDIAGONAL:
        return solve_with_refinement(tridiagonalize(K), K, problem.targets, problem.alphas)
    C = np.empty_like(problem.targets)
    rho = np.empty_like(problem.targets)
    with _factor_threads(problem):
        for alpha, same_alpha in problem.alpha_groups:
            Y = problem.targets[:, same_alpha]
            factor = scaled_cholesky(K, alpha)
            if factor is None:
                return None
            c = factor.solve(Y)
            residual = Y - K @ c - alpha * c
            rounding = dual_rounding(problem, c, same_alpha, from_kernel_matrix=True)
            if (np.linalg.norm(residual, axis=0) > rounding).any():  # refinement reduces the bound
                c += factor.solve(residual)
                residual = Y - K @ c - alpha * c
            C[:, same_alpha], rho[:, same_alpha] = c, residual
    return C, rho


def _dual_candidate(problem: Problem, C: Array, rho: Array) -> Candidate:
    """The candidate W = X'C for dual coefficients C (n, t) with the residual rho (n, t)."""
    W = problem.design.rmatmat(C)
    bound = np.linalg.norm(rho, axis=0) + dual_rounding(problem, C, from_kernel_matrix=True)
    return Candidate(W, ZeroMinorant(), bound)


def solve_by_singular_values(problem: Problem, memory: MemoryBudget, note: str) -> Candidate:
    """W = V diag(d / (d^2 + alpha)) U'Y from the singular value decomposition X = U diag(d) V'.

    For X'X that is numerically singular: its condition is the square of X's. Also for alpha = 0,
    where singular values below rounding are left out, which gives the minimum-norm solution. The
    SVD needs X as a dense array. If that does not fit into memory, eigenvectors of the Gram matrix
    are used instead. They are less accurate, and the certificate shows by how much.
    """
    n, p = problem.shape
    minorant: Minorant = ZeroMinorant()
    if memory.allows(svd_bytes(n, p)):
        U, d, Vt = thin_svd_with_fallback(problem.design.take(np.arange(n)))
        W: Array = Vt.T @ (
            d[:, None]
            * _apply_ridge_filter(U.T @ problem.targets, d, problem.alphas, max(n, p) * EPS)
        )
        x_error = sum_noise(n, p) * float(np.linalg.norm(problem.raw_column_norms))
        minorant = singular_minorant(d, Vt.T, x_error)
    elif p <= n:
        theta, Z = eigh(problem.design.gram(np.float64))
        d = np.sqrt(np.maximum(theta, 0.0))
        W = Z @ _apply_ridge_filter(Z.T @ problem.moments, d, problem.alphas, np.sqrt(p * EPS))
    else:
        theta, Z = eigh(problem.design.row_gram(np.float64))
        d = np.sqrt(np.maximum(theta, 0.0))
        c = Z @ _apply_ridge_filter(Z.T @ problem.targets, d, problem.alphas, np.sqrt(n * EPS))
        W = problem.design.rmatmat(c)
    return Candidate(np.asarray(W), minorant, note=note)


def _apply_ridge_filter(C: Array, d: Array, alphas: Array, rounding: float) -> Array:
    """C / (d^2 + alpha), for C (k, t), singular values d (k,) and alphas (t,).

    Where alpha is 0, the result is 0 for singular values below `rounding` times the largest.
    """
    shifted = d[:, None] ** 2 + alphas
    is_significant = (d > rounding * d.max(initial=0.0))[:, None] | (alphas > 0)
    return np.divide(C, shifted, out=np.zeros_like(C), where=is_significant & (shifted > 0))
