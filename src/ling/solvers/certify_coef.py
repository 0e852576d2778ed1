"""Error bounds for coefficients that no engine of ling has computed.

The bound is that of `ling.solvers.certificate`: it holds for all coefficients, whoever computed
them. Only the minorant of X'X has to be found, which an engine would have found on the way. It is
chosen like the engine of a fit, by predicted cost: from a Cholesky factor of X'X, from one of a row
sample's Gram matrix, or of low rank from one pass. If X has more columns than rows and X X' is
cheap, a dual solution takes the place of the minorant.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ling._typing import Array
from ling.linalg.ritz import orthonormalize
from ling.linalg.rounding import sum_noise
from ling.solvers.certificate import (
    BestOf,
    Minorant,
    ZeroMinorant,
    cholesky_with_minorant,
    evaluate_bound,
    relative_bounds,
)
from ling.solvers.direct import solve_dual_system
from ling.solvers.engine import Candidate, as_generator
from ling.solvers.nystrom import (
    INITIAL_RANK,
    column_scales,
    nystrom_sketch,
    scaled_gram_matmat,
)
from ling.solvers.options import FitOptions
from ling.solvers.planning import Plan
from ling.solvers.problem import Problem
from ling.solvers.row_sampling import draw_row_sample, nystrom_from_sample
from ling.solvers.row_sketch import sample_factors

# Seconds up to which X'X or X X' is formed and factored even if a fit would be faster by iterating.
# The bound is then within rounding of the error; a minorant of low rank may give a much larger one.
MAX_DIRECT_SECONDS = 2.0
# Rows of the sample whose leading directions make a minorant of low rank, and their number. More
# directions make the bound tighter, and the pass over X more expensive.
SAMPLE_ROWS, MAX_RANK = 256, 128
# Directions of a sample with a smaller share of its largest eigenvalue are rounding errors.
MIN_EIGENVALUE_RATIO = 1e-12

#: Function (problem, plan, options) -> Minorant.
FindMinorant = Callable[[Problem, Plan, FitOptions], Minorant]


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # bounds may be infinite
def bound_coef(
    problem: Problem, W: Array, plan: Plan, options: FitOptions
) -> tuple[Array, Minorant]:
    """Bounds (t,) on ||X(w - w*)|| / ||y|| for coefficients W (p, t), in the units of the problem.

    The minorant that proves them is returned too. One to three passes over X. Bounds are infinite
    where alpha is 0, and for all targets if a coefficient is not finite. `plan` is that of a fit to
    the same data, with `precision="float64"`; a solver in `options` chooses the engine whose
    minorant is used.
    """
    unknown = np.full(problem.n_targets, np.inf)
    if not (problem.alphas > 0).any() or not np.isfinite(W).all():
        return unknown, ZeroMinorant()
    engine = cheapest_source(plan) if options.solver == "auto" else options.solver
    bounds = dual_bound(problem, W) if engine == "direct" and _is_wide(problem) else None
    minorant: Minorant = ZeroMinorant()
    if bounds is None:
        minorant = MINORANTS[engine](problem, plan, options)
        bounds = evaluate_bound(problem, Candidate(W, minorant))[0].bound
    assert bounds is not None  # `evaluate_bound` sets it
    return relative_bounds(problem, np.where(problem.alphas > 0, bounds, unknown)), minorant


def cheapest_source(plan: Plan) -> str:
    """The engine whose minorant is used: `direct` if it is fast, else the first of the plan."""
    direct = plan.estimate_for("direct")
    if direct.fits and direct.seconds <= MAX_DIRECT_SECONDS:
        return direct.engine
    return plan.steps[0].engine


def _is_wide(problem: Problem) -> bool:
    n, p = problem.shape
    return n < p


def dual_bound(problem: Problem, W: Array) -> Array | None:
    """Error bound (t,) of W (p, t) from a dual solution, for p > n; None if X X' is singular.

    For every c, with u = y - Xw - alpha c and v = X'c - w, the gradient is g = X'u + alpha v. With
    M = [X; sqrt(alpha) I] that is M'z for z = [u; sqrt(alpha) v], and X'X + alpha I = M'M, so that
    g'(X'X + alpha I)^-1 g <= ||u||^2 + alpha ||v||^2: M(M'M)^-1 M' is a projector. Equality holds
    for the exact dual solution c = (X X' + alpha I)^-1 y. `row_gram_passes` passes, and two more.
    """
    dual = solve_dual_system(problem)
    if dual is None or not np.isfinite(dual[0]).all():
        return None
    C, alphas = dual[0], problem.alphas
    U = problem.targets - problem.design.matmat(W) - C * alphas
    V = problem.design.rmatmat(C) - W
    squares = np.einsum("ij,ij->j", U, U) + alphas * np.einsum("ij,ij->j", V, V)
    return np.asarray(np.sqrt(squares) + _dual_rounding(problem, W, C))


def _dual_rounding(problem: Problem, W: Array, C: Array) -> Array:
    """Bound (t,) on the rounding errors of u and sqrt(alpha) v of `dual_bound`.

    Entries of Xw and X'c are sums of p and n products, off by `sum_noise` times the norms of their
    terms before centring.
    """
    root_alphas = np.sqrt(problem.alphas)
    raw_norm = float(np.linalg.norm(problem.raw_column_norms))
    fitted_norms = problem.raw_target_norms + problem.fitted_norm_bounds(W)
    dual_norms = root_alphas * (raw_norm + root_alphas) * np.linalg.norm(C, axis=0)
    coef_norms = root_alphas * np.linalg.norm(W, axis=0)
    return np.asarray(sum_noise(*problem.shape) * (fitted_norms + dual_norms + coef_norms))


def _gram_minorant(problem: Problem, plan: Plan, options: FitOptions) -> Minorant:
    """From a Cholesky factor of X'X + alpha I for each alpha; one pass."""
    if _is_wide(problem):  # `dual_bound` has found X X' + alpha I to be singular up to rounding
        return ZeroMinorant()
    G, n = problem.gram(), problem.shape[0]
    proven = [
        cholesky_with_minorant(G, float(alpha), n, problem.gram_error_scale)
        for alpha in problem.distinct_alphas
    ]
    return BestOf([ZeroMinorant(), *(part[1] for part in proven if part is not None)])


def _row_sample_minorant(problem: Problem, plan: Plan, options: FitOptions) -> Minorant:
    """From a Cholesky factor of a row sample's Gram matrix for each alpha; no pass."""
    parts = sample_factors(problem, options) or []
    return BestOf([ZeroMinorant(), *(minorant for _, minorant in parts)])


def _low_rank_minorant(problem: Problem, plan: Plan, options: FitOptions) -> Minorant:
    """Nyström minorant from the leading directions of a row sample, or from random ones; one pass.

    Random directions where rows cannot be sampled cheaply. They are fewer, because every direction
    costs as much as a pass if X is sparse.
    """
    n, p = problem.shape
    rng, scale = as_generator(options.random_state), column_scales(problem)
    max_rank = min(n, p, plan.estimate_for("two_stage").max_rank, MAX_RANK)
    if not plan.pass_costs.can_sample_rows:
        directions = orthonormalize(rng.standard_normal((p, min(max_rank, INITIAL_RANK))))
        products = scaled_gram_matmat(problem, scale, directions)
        return nystrom_sketch(problem, scale, directions, products)[0].minorant()
    sample = draw_row_sample(problem, scale, min(n, SAMPLE_ROWS), rng)
    largest = sample.eigenvalues.max(initial=0.0)
    rank = int(np.count_nonzero(sample.eigenvalues > MIN_EIGENVALUE_RATIO * largest))
    if not rank:
        return ZeroMinorant()
    return nystrom_from_sample(problem, sample, scale, min(rank, max_rank)).minorant()


MINORANTS: dict[str, FindMinorant] = {
    "direct": _gram_minorant,
    "row_sketch": _row_sample_minorant,
    "two_stage": _low_rank_minorant,
    "krylov": _low_rank_minorant,
}
