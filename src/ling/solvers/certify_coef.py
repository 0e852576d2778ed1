"""Error bounds for coefficients that no engine of ling has computed.

The bound is that of `ling.solvers.certificate`: it holds for all coefficients, whoever computed
them. Only the minorant of X'X has to be found, which an engine would have found on the way. It is
chosen by predicted cost: X'X itself, the Gram matrix of a sample of its rows, or a matrix of low
rank from one pass. If X has more columns than rows and X X' is cheap, a dual solution takes the
place of the minorant.
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
from ling.solvers.cost_model import (
    pass_seconds,
    row_sample_gram_bytes,
    row_sample_gram_seconds,
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

# Seconds up to which X'X or X X' is formed and factored even if a fit would be faster by iterating.
# The bound is then within rounding of the error; a minorant of low rank may give a much larger one.
MAX_DIRECT_SECONDS = 2.0
# Rows of the sample whose leading directions make a minorant of low rank, and their number. More
# directions make the bound tighter, and the pass over X more expensive.
SAMPLE_ROWS, MAX_RANK = 256, 128
# Sampled rows per feature, and further ones, whose Gram matrix makes a minorant. The bound is about
# sqrt(n / sampled rows) times that from X'X.
SAMPLE_ROWS_PER_FEATURE, MIN_SAMPLE_ROWS = 4, 50
# Directions of a sample with a smaller share of its largest eigenvalue are rounding errors.
MIN_EIGENVALUE_RATIO = 1e-12

#: Function (problem, plan, options) -> Minorant.
FindMinorant = Callable[[Problem, Plan, FitOptions], Minorant]


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # bounds may be infinite
def bound_coef(
    problem: Problem, W: Array, plan: Plan, options: FitOptions, source: str | None = None
) -> tuple[Array, Minorant]:
    """Bounds (t,) on ||X(w - w*)|| / ||y|| for coefficients W (p, t), in the units of the problem.

    The minorant that proves them is returned too. One to three passes over X. Bounds are infinite
    where alpha is 0, and for all targets if a coefficient is not finite. `plan` is that of a fit to
    the same data, with `precision="float64"`. `source` is a key of MINORANTS; None for the
    `cheapest_source`.
    """
    unknown = np.full(problem.n_targets, np.inf)
    if not (problem.alphas > 0).any() or not np.isfinite(W).all():
        return unknown, ZeroMinorant()
    source = source or cheapest_source(plan)
    bounds = dual_bound(problem, W) if source == "gram" and _is_wide(problem) else None
    minorant: Minorant = ZeroMinorant()
    if bounds is None:
        minorant = MINORANTS[source](problem, plan, options)
        bounds = evaluate_bound(problem, Candidate(W, minorant))[0].bound
    assert bounds is not None  # `evaluate_bound` sets it
    return relative_bounds(problem, np.where(problem.alphas > 0, bounds, unknown)), minorant


def cheapest_source(plan: Plan) -> str:
    """The key of the minorant to use.

    "gram" if `direct` is the first choice of the plan or takes at most MAX_DIRECT_SECONDS.
    Otherwise "row_sample" if that is faster than a pass with the columns of "low_rank", and if it
    fits the memory budget. Its bound is tighter where alpha is far below the eigenvalues of X'X.
    """
    direct = plan.estimate_for("direct")
    is_fast = direct.fits and direct.seconds <= MAX_DIRECT_SECONDS
    if is_fast or plan.steps[0].engine == "direct":
        return "gram"
    dimensions, machine = plan.dimensions, plan.machine
    n_sampled = _row_sample_size(dimensions.n, dimensions.p)
    n_columns = MAX_RANK if plan.pass_costs.can_sample_rows else INITIAL_RANK
    sample_seconds = row_sample_gram_seconds(dimensions, machine, n_sampled)
    is_faster = sample_seconds <= pass_seconds(dimensions, machine, n_columns)
    fits = plan.memory.allows(row_sample_gram_bytes(dimensions, n_sampled))
    return "row_sample" if is_faster and fits else "low_rank"


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
    return _cholesky_minorant(problem, problem.gram(), problem.shape[0])


def _row_sample_minorant(problem: Problem, plan: Plan, options: FitOptions) -> Minorant:
    """From a Cholesky factor of the Gram matrix of a row sample, which is at most X'X.

    At most one pass.
    """
    n, p = problem.shape
    n_sampled = _row_sample_size(n, p)
    rows = np.sort(as_generator(options.random_state).choice(n, n_sampled, replace=False))
    return _cholesky_minorant(problem, problem.design.subset(rows).gram(np.float64), n_sampled)


def _row_sample_size(n: int, p: int) -> int:
    return min(n, SAMPLE_ROWS_PER_FEATURE * p + MIN_SAMPLE_ROWS)


def _cholesky_minorant(problem: Problem, G: Array, n_rows: int) -> Minorant:
    """From a Cholesky factor of G + alpha I for each alpha; G is X'X of all rows or of `n_rows`.

    The error scale of X'X is an upper bound on that of fewer rows.
    """
    proven = [
        cholesky_with_minorant(G, float(alpha), n_rows, problem.gram_error_scale)
        for alpha in problem.distinct_alphas
    ]
    return BestOf([ZeroMinorant(), *(part[1] for part in proven if part is not None)])


def _low_rank_minorant(problem: Problem, plan: Plan, options: FitOptions) -> Minorant:
    """Nyström minorant from the leading directions of a row sample, or from random ones; one pass.

    Random directions where rows cannot be sampled cheaply. They are fewer, because every direction
    costs as much as a pass if X is sparse.
    """
    n, p = problem.shape
    rng, scale = as_generator(options.random_state), column_scales(problem)
    estimate = plan.estimate_for("two_stage")
    max_rank = min(n, p, estimate.max_rank, MAX_RANK)
    if not plan.pass_costs.can_sample_rows:
        directions = orthonormalize(rng.standard_normal((p, min(max_rank, INITIAL_RANK))))
        products = scaled_gram_matmat(problem, scale, directions)
        return nystrom_sketch(problem, scale, directions, products)[0].minorant()
    n_sampled = min(n, SAMPLE_ROWS, estimate.max_sample_rows)
    sample = draw_row_sample(problem, scale, n_sampled, rng)
    largest = sample.eigenvalues.max(initial=0.0)
    rank = int(np.count_nonzero(sample.eigenvalues > MIN_EIGENVALUE_RATIO * largest))
    if not rank:
        return ZeroMinorant()
    return nystrom_from_sample(problem, sample, scale, min(rank, max_rank)).minorant()


MINORANTS: dict[str, FindMinorant] = {
    "gram": _gram_minorant,
    "row_sample": _row_sample_minorant,
    "low_rank": _low_rank_minorant,
}
