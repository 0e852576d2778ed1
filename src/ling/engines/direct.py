"""Gram matrix and factorisation: primal (X'X) or dual (X X'), whichever is smaller."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from scipy import linalg

from ling.design import Array
from ling.engines.base import Candidate, Effort, with_bound
from ling.engines.cholesky import potrf
from ling.engines.conjugate import Preconditioner, conjugate_gradients
from ling.engines.factor import (
    factored,
    from_inverse,
    inverse_factor,
    least_eigenvalue,
    solved,
)
from ling.engines.tridiagonal import FORM, Tridiagonal, tridiagonal
from ling.minorant import EPS, EPS32, Factored, Nothing, Several, sum_noise
from ling.problem import Problem
from ling.rounding import dual_rounding

# From this many alphas on, one tridiagonal form is cheaper than a Cholesky factor for each.
MANY = 8
# Squares, and products with a square root, of numbers up to this are in the range of float32.
LARGEST32 = 1e12
MOST_REFINEMENTS = 30
IN_SINGLE = "Gram matrix in float32, proved and refined in float64"
ILL = "by singular values, as X'X is too ill-conditioned"


def direct(problem: Problem, effort: Effort) -> Candidate:
    """Solve (X'X + alpha I) w = X'y, or w = X'(X X' + alpha I)^-1 y, to full precision.

    One pass, n p min(n, p) FLOPs, min(n, p)^2 numbers. Steps of refinement follow where rounding
    has left more than tol. alpha = 0 gives the solution of least norm.
    """
    n, p = problem.shape
    if (problem.alphas == 0).any():
        return _by_singular_values(problem, effort, "the solution of least norm")
    if p <= n:
        return _primal(problem, effort)
    return _dual(problem, effort)


def _primal(problem: Problem, effort: Effort) -> Candidate:
    if effort.single:
        found = _primal_single(problem, effort)
        if found is not None:
            return found
    G = problem.gram()
    many = len(problem.distinct_alphas) >= MANY
    if many or FORM in problem.made:
        found = _primal_by_form(problem, G)
        if many or problem.within(np.asarray(found.bound), effort.tol):
            return found
    W = np.empty_like(problem.moments)
    bound = np.empty(problem.n_targets)
    parts: list[Factored] = []
    for alpha in problem.distinct_alphas:
        mine = problem.alphas == alpha
        with_proof = factored(problem, G, float(alpha))
        if with_proof is None:
            return _by_singular_values(problem, effort, ILL)
        factor, part = with_proof
        parts.append(part)
        solve = partial(_solve, factor, part.scale)
        C = problem.moments[:, mine]
        W[:, mine] = solve(C)
        gradient = C - G @ W[:, mine] - alpha * W[:, mine]
        W[:, mine] += solve(gradient)  # one step of refinement: p^2, next to nothing
        gradient = C - G @ W[:, mine] - alpha * W[:, mine]
        bound[mine] = np.sqrt(part.quadratic(gradient, problem.alphas[mine]))
        floor = part.floor(float(alpha))
        bound[mine] += gram_rounding(problem, floor, W[:, mine], problem.raw_spread[mine])
    return Candidate(W, Several(parts), bound)


def _solve(factor: Array, scale: Array, C: Array) -> Array:
    """(D^1/2 L L' D^1/2)^-1 C."""
    inner, _ = linalg.lapack.dpotrs(factor, C / scale[:, None], lower=True)
    return np.asarray(inner / scale[:, None])


def gram_rounding(problem: Problem, floor: Array | float, W: Array, spread: Array) -> Array:
    """What rounding in X'X and X'y can add to the error of a gradient made from them.

    The j-th entry is off by at most a few eps ||x_j|| (||y|| + sum_k ||x_k|| |w_k|), which a floor
    under X'X + alpha I divides.
    """
    noise = sum_noise(problem.shape[0])
    columns = np.sqrt((problem.raw_norms**2 / floor).sum())
    fitted = problem.raw_norms @ np.abs(W)
    return np.asarray(noise * columns * (spread + fitted))


def _primal_single(problem: Problem, effort: Effort) -> Candidate | None:
    """The Gram matrix in float32, and conjugate gradients in float64 on X itself.

    None where float32 leaves no positive matrix.
    """
    alpha = float(problem.distinct_alphas[0])
    sizes = np.append(problem.raw_norms, np.sqrt(alpha))
    if sizes.max() > LARGEST32 or sizes[sizes > 0].min() < 1 / LARGEST32:
        return None
    G = problem.design.gram(np.float32)
    scale = np.sqrt(np.diag(G).astype(np.float64) + alpha)
    narrow = (1 / scale).astype(np.float32)
    G *= narrow[:, None]
    G *= narrow
    G[np.diag_indices_from(G)] = 1.0
    n, p = problem.shape
    factoring = sum_noise(p, eps=EPS32) * p
    noise = factoring + sum_noise(n, eps=EPS32) * float(((problem.safe_norms / scale) ** 2).sum())
    least = alpha / float((scale**2).max())
    if noise >= least / 2:
        least = max(least, least_eigenvalue(G, 1.2 * noise, factoring))
    inverse = inverse_factor(G, problem.compiled)
    if inverse is None:
        return None
    part = from_inverse(inverse, scale, alpha, noise, least)
    W = solved(inverse, scale, problem.moments)
    found, gradient = with_bound(problem, Candidate(W, part, note=IN_SINGLE))
    if found.bound is not None and problem.within(found.bound, effort.tol):
        return found
    shares = np.full(problem.n_targets, part.share)
    found = conjugate_gradients(
        problem,
        Preconditioner(lambda R, _: solved(inverse, scale, R), shares),
        part,
        tol=effort.tol,
        max_iter=MOST_REFINEMENTS,
        start=W,
        residual=gradient,
    )
    reached = found.proved is not None and problem.within(np.sqrt(found.proved), effort.tol)
    if not reached or not np.isfinite(found.coef).all():
        return None
    return replace(found, n_iter=None, note=IN_SINGLE)


def _primal_by_form(problem: Problem, G: Array) -> Candidate:
    """One tridiagonal form for all alphas; G tells the gradient."""
    form = problem.made.get(FORM) or tridiagonal(G)
    W, gradient = refined(form, G, problem.moments, problem.alphas)
    bound = gram_bound(problem, W, gradient, problem.alphas, problem.raw_spread)
    return Candidate(W, bound=bound)


def gram_bound(problem: Problem, W: Array, gradient: Array, alphas: Array, spread: Array) -> Array:
    """What a gradient made from X'X proves of W, column by column; `spread` is that of raw y."""
    bound: Array = np.sqrt(Nothing().quadratic(gradient, alphas))
    for alpha in np.unique(alphas):
        mine = alphas == alpha
        bound[mine] += gram_rounding(problem, float(alpha), W[:, mine], spread[mine])
    return bound


def refined(form: Tridiagonal, A: Array, C: Array, alphas: Array) -> tuple[Array, Array]:
    """W = (A + alpha I)^-1 C with a step of refinement, and what is left of C."""
    W = form.solved(C, alphas)
    W += form.solved(C - A @ W - alphas * W, alphas)
    return W, C - A @ W - alphas * W


def _dual(problem: Problem, effort: Effort) -> Candidate:
    """w = X'c, (X X' + alpha I) c = y; the error is below ||y - (X X' + alpha I) c||."""
    K = problem.row_gram()
    n = len(K)
    C = np.empty_like(problem.targets)
    rho = np.empty_like(problem.targets)
    form = problem.made.get(FORM)
    if form is None and len(problem.distinct_alphas) >= MANY:
        form = tridiagonal(K)
    for alpha in problem.distinct_alphas:
        mine = problem.alphas == alpha
        Y = problem.targets[:, mine]
        if form is not None:
            C[:, mine], rho[:, mine] = refined(form, K, Y, problem.alphas[mine])
            continue
        # K is symmetric: its transpose is K in Fortran order, which potrf overwrites.
        H = np.array(K.T if K.flags.c_contiguous else K, order="F")
        H[np.diag_indices(n)] += alpha
        factor, info = potrf(H, lower=True, overwrite=True)
        if info:
            return _by_singular_values(problem, effort, ILL)
        solve = partial(linalg.cho_solve, (factor, True), check_finite=False)
        c = solve(Y)
        c += solve(Y - K @ c - alpha * c)
        C[:, mine] = c
        rho[:, mine] = Y - K @ c - alpha * c
    W = problem.design.rmatmat(C)
    bound = np.linalg.norm(rho, axis=0) + dual_rounding(problem, C, formed=True)
    return Candidate(W, Nothing(), bound)


def _by_singular_values(problem: Problem, effort: Effort, note: str) -> Candidate:
    """W = V diag(d / (d^2 + alpha)) U'Y, for conditions that X'X, with their square, cannot bear.

    And for alpha = 0, where singular values that are rounding are left out: the solution of least
    norm. X is made dense for it, if that fits; otherwise the eigenvalues of its Gram matrix have to
    do, and the certificate tells how well they did.
    """
    n, p = problem.shape
    if 24.0 * n * p <= effort.budget:
        U, d, Vt = _svd(problem.design.take(np.arange(n)))
        W: Array = Vt.T @ (
            d[:, None] * _shrunk(U.T @ problem.targets, d, problem.alphas, max(n, p) * EPS)
        )
    elif p <= n:
        theta, Z = linalg.eigh(problem.design.gram(np.float64), check_finite=False)
        d = np.sqrt(np.maximum(theta, 0.0))
        W = Z @ _shrunk(Z.T @ problem.moments, d, problem.alphas, np.sqrt(p * EPS))
    else:
        theta, Z = linalg.eigh(problem.design.row_gram(np.float64), check_finite=False)
        d = np.sqrt(np.maximum(theta, 0.0))
        c = Z @ _shrunk(Z.T @ problem.targets, d, problem.alphas, np.sqrt(n * EPS))
        W = problem.design.rmatmat(c)
    return Candidate(np.asarray(W), note=note)


def _shrunk(C: Array, d: Array, alphas: Array, rounding: float) -> Array:
    """C / (d^2 + alpha), and 0 for singular values d that are rounding where alpha is 0."""
    below = d[:, None] ** 2 + alphas
    kept = (d > rounding * d.max(initial=0.0))[:, None] | (alphas > 0)
    return np.divide(C, below, out=np.zeros_like(C), where=kept & (below > 0))


def _svd(X: Array) -> tuple[Array, Array, Array]:
    try:
        return linalg.svd(X, full_matrices=False, check_finite=False)
    except linalg.LinAlgError:  # the fast algorithm does not always converge; the old one does
        return linalg.svd(X, full_matrices=False, check_finite=False, lapack_driver="gesvd")
