"""LING's two stages on the original problem: a sketch of X'X, then conjugate gradients.

Stage 1 finds the leading directions of X, from a sample of its rows or from products with random
directions. They are used twice: in the preconditioner of stage 2, and as a minorant of X'X in the
error bound.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design import AffineRowTransform, DenseStorage, Design, QuantizedMatrix
from ling.design.dense import MAX_COMPILED_COLUMNS
from ling.linalg.decompositions import eigh
from ling.linalg.gram import form_gram
from ling.linalg.ritz import thin_svd
from ling.linalg.rounding import EPS, EPS32
from ling.linalg.threads import single_threaded_blas
from ling.solvers.certificate import Minorant, ZeroMinorant, evaluate_bound
from ling.solvers.conjugate_gradients import (
    Preconditioner,
    conjugate_gradients,
    diagonal_conjugate_gradients,
    diagonal_preconditioner,
    dual_conjugate_gradients,
)
from ling.solvers.engine import Candidate, EngineBudget
from ling.solvers.nystrom import (
    INITIAL_RANK,
    Sketch,
    forecast_without_sketch,
    randomized_nystrom_sketch,
)
from ling.solvers.options import FitOptions
from ling.solvers.problem import Problem
from ling.solvers.row_sampling import row_sample_sketch

# Cap on squared singular values s in the preconditioner. Above it 1 - s / (1 + s) would be lost to
# rounding.
MAX_SQUARED_SINGULAR_VALUE = 1e10
# Iterate only if the forecast cost is below this fraction of the fallback's predicted cost.
MAX_FORECAST_FRACTION = 0.75
# Iterations without a sketch that may be expected before one is made: for small sparse X, where
# compiled loops iterate without a sketch, making one and using it takes as long as hundreds.
MAX_ITER_WITHOUT_SKETCH = 300
# Iterations without a sketch that may be expected before one is made for other sparse X, in units
# of the cost of the smallest sketch.
MAX_COST_WITHOUT_SKETCH = 2.0
# Bytes of a sketch up to which two products with it are as fast as one fused sweep.
MAX_CACHED_BYTES = 2**20
# On a quantized copy of X: the largest number of restarts from the exact gradient of X, and the
# factor by which each of them aims to reduce the error bound.
MAX_QUANTIZED_RESTARTS = 5
BOUND_REDUCTION_PER_RESTART = 100


@np.errstate(over="ignore")  # where alpha is 1e-308 times squares of X, bounds are infinite
def two_stage(
    problem: Problem, options: FitOptions, budget: EngineBudget, start: Array | None = None
) -> Candidate:
    """Sketch X'X to the cheapest rank, then run preconditioned conjugate gradients.

    One pass per iteration, and a few for the sketch. Where many iterations are expected and memory
    allows, they run on a quantized copy of X in 16-bit integers, a quarter of the size of float64.
    Restarts from the gradient of X itself recover the accuracy. Without a `start`, the
    engine gives up before it iterates if the forecast cost is too close to `budget.max_passes`.
    """
    if start is not None:
        return _iterate_with_sketch(problem, options, budget, start, False)
    candidate, remaining = _iterate_without_sketch(problem, options.tol, budget)
    if not candidate.gave_up or remaining.max_iter == 0:
        return candidate
    start = candidate.coef if candidate.n_iter else None
    sketched = _iterate_with_sketch(problem, options, remaining, start, True)
    return replace(sketched, n_iter=(candidate.n_iter or 0) + (sketched.n_iter or 0))


def _iterate_with_sketch(
    problem: Problem,
    options: FitOptions,
    budget: EngineBudget,
    start: Array | None,
    may_give_up: bool,
) -> Candidate:
    """Sketch X'X and iterate from `start`; gives up before it iterates only if it may."""
    n, p = problem.shape
    budget = replace(budget, low_precision=budget.low_precision and problem.can_quantize)
    # If compiled loops do the passes, BLAS does small operations only; one thread is enough for it.
    storage = problem.design.storage
    max_columns = storage.max_compiled_columns if storage.is_dense else MAX_COMPILED_COLUMNS
    blas_is_minor = problem.n_targets <= max_columns
    stage_one = row_sample_sketch if budget.costs.can_sample_rows else randomized_nystrom_sketch
    with single_threaded_blas() if blas_is_minor else nullcontext():
        sketch, expected = stage_one(problem, options, budget)
    if expected.cost > MAX_FORECAST_FRACTION * budget.max_passes and may_give_up:
        return _give_up(problem, sketch.rank)
    with single_threaded_blas() if blas_is_minor else nullcontext():
        if n < p and sketch.dual_factor is not None:
            candidate = dual_conjugate_gradients(
                problem,
                dual_sketch_preconditioner(problem, sketch, sketch.dual_factor),
                tol=options.tol,
                max_iter=budget.max_iter,
                iter_budget=budget.iterations_affordable(problem.n_targets),
            )
        elif budget.is_quantizing_cheaper(expected.iterations, problem.n_targets):
            candidate = _iterate_quantized(problem, sketch, options.tol, budget, start)
        else:
            candidate = _iterate_exact(
                problem,
                sketch_preconditioner(problem, sketch),
                sketch.minorant(),
                options.tol,
                budget,
                start,
            )
    return replace(candidate, rank=sketch.rank)


def _iterate_without_sketch(
    problem: Problem, tol: float, budget: EngineBudget
) -> tuple[Candidate, EngineBudget]:
    """Conjugate gradients on sparse X with a diagonal preconditioner, and the remaining budget.

    The candidate gives up where a sketch may be faster, and without an iteration if X is dense or
    if many are expected. A sketch of dense X costs next to nothing, as its rows can be sampled.
    """
    costs, n_targets = budget.costs, problem.n_targets
    if problem.design.can_iterate:
        cost = costs.compiled_step_cost * n_targets
        iter_budget = min(MAX_ITER_WITHOUT_SKETCH, budget.max_passes / cost)
        candidate = diagonal_conjugate_gradients(
            problem, tol=tol, max_iter=budget.max_iter, iter_budget=iter_budget
        )
        return replace(candidate, rank=0), budget.remaining_after(candidate.n_iter or 0, cost)
    cost = costs.iteration_cost(n_targets)
    sketch_cost = costs.iteration_cost(INITIAL_RANK)
    iter_budget = min(MAX_COST_WITHOUT_SKETCH * sketch_cost, budget.max_passes) / cost
    if costs.can_sample_rows or forecast_without_sketch(problem, tol) > iter_budget:
        return _give_up(problem, 0), budget
    candidate = conjugate_gradients(
        problem, diagonal_preconditioner(problem), ZeroMinorant(), tol=tol,
        max_iter=budget.max_iter, iter_budget=iter_budget,
    )  # fmt: skip
    return replace(candidate, rank=0), budget.remaining_after(candidate.n_iter or 0, cost)


def _give_up(problem: Problem, rank: int) -> Candidate:
    """The candidate of an engine that has not iterated."""
    zero_coef = np.zeros((problem.shape[1], problem.n_targets))
    return Candidate(zero_coef, bound=problem.target_norms, n_iter=0, rank=rank, gave_up=True)


def _iterate_exact(
    problem: Problem, near: Preconditioner, minorant: Minorant, tol: float, budget: EngineBudget,
    start: Array | None, residual: Array | None = None,
) -> Candidate:  # fmt: skip
    return conjugate_gradients(
        problem, near, minorant, tol=tol, max_iter=budget.max_iter,
        iter_budget=budget.iterations_affordable(problem.n_targets), start=start, residual=residual,
    )  # fmt: skip


def _iterate_quantized(
    problem: Problem, sketch: Sketch, tol: float, budget: EngineBudget, start: Array | None
) -> Candidate:
    """Conjugate gradients on a quantized copy of X, restarted from the exact gradient of X.

    The last iterations are done on X itself if the copy does not reach tol.
    """
    exact, minorant = sketch_preconditioner(problem, sketch), sketch.minorant()
    copy = problem.quantize()
    lower_ratio = _quantized_lower_ratio(problem, copy)
    if lower_ratio < 0.3:
        return _iterate_exact(problem, exact, minorant, tol, budget, start)
    # Products with the copy Z are in float32. Their error is a few eps ||Z||, while X'X + alpha I
    # is at least alpha.
    noise = 4 * EPS32 * float(np.sqrt((problem.safe_column_norms**2).sum() / problem.alphas.min()))
    preconditioner = Preconditioner(exact.apply, lower_ratio * exact.lower_ratio, noise)
    candidate = Candidate(
        np.zeros_like(problem.moments), minorant, bound=problem.target_norms, n_iter=0
    )
    gradient = problem.moments
    sweep_cost = budget.costs.quantized_pass_cost * problem.n_targets
    if start is not None:
        candidate, gradient = evaluate_bound(problem, replace(candidate, coef=start))
    excess, previous_excess, budget_left = _max_relative_bound(problem, candidate), np.inf, budget
    for _ in range(MAX_QUANTIZED_RESTARTS):
        # A bound that falls by less than a factor of 3 shows that the copy is too coarse.
        if (
            excess <= tol
            or candidate.gave_up
            or budget_left.max_iter == 0
            or excess > previous_excess / 3
        ):
            break
        iterated = _restart(
            problem,
            preconditioner,
            minorant,
            copy,
            tol,
            budget_left,
            candidate.coef,
            gradient,
            excess,
        )
        assert iterated.squared_bound is not None
        assert iterated.n_iter is not None
        budget_left = budget_left.remaining_after(iterated.n_iter, sweep_cost)
        candidate, gradient = evaluate_bound(
            problem, replace(iterated, squared_bound=iterated.squared_bound / lower_ratio)
        )
        previous_excess, excess = excess, _max_relative_bound(problem, candidate)
    if excess > tol and not candidate.gave_up and budget_left.max_iter != 0:
        candidate = _iterate_exact(
            problem, exact, minorant, tol, budget_left, candidate.coef, gradient
        )
        budget_left = budget_left.remaining_after(candidate.n_iter or 0, sweep_cost)
    return replace(candidate, n_iter=budget_left.n_iter_done - budget.n_iter_done)


def _restart(
    problem: Problem,
    near: Preconditioner,
    minorant: Minorant,
    copy: QuantizedMatrix,
    tol: float,
    budget: EngineBudget,
    W: Array,
    gradient: Array,
    excess: float,
) -> Candidate:
    """Iterate on the copy until the bound has fallen by BOUND_REDUCTION_PER_RESTART or to tol.

    `excess` is the largest relative bound at the start W (p, t), and `gradient` its gradient.
    """
    target_tol = max(tol, excess / BOUND_REDUCTION_PER_RESTART)
    progress_fraction = np.log(excess / target_tol) / np.log(excess / max(tol, EPS))
    affordable = budget.max_passes / budget.costs.quantized_pass_cost / problem.n_targets
    return conjugate_gradients(
        problem, near, minorant, tol=target_tol, max_iter=budget.max_iter,
        iter_budget=progress_fraction * affordable, start=W, residual=gradient,
        gram=problem.metered_gram_matmat(copy),
    )  # fmt: skip


def _quantized_lower_ratio(problem: Problem, copy: QuantizedMatrix) -> float:
    """c with X'X + alpha I >= c (Z'Z + alpha I) and vice versa, for the quantized Z = X + E.

    For every u in (0, 1) X'X >= (1 - u) Z'Z - (1/u - 1) E'E; u = ||E|| / sqrt(alpha) gives 1 - u.
    """
    error = np.sqrt(copy.squared_error_bound) + 4 * EPS * np.linalg.norm(problem.raw_column_norms)
    return float(1 - error / np.sqrt(problem.alphas.min()))


def _max_relative_bound(problem: Problem, candidate: Candidate) -> float:
    """The largest of a candidate's error bounds relative to `problem.error_scale`."""
    assert candidate.bound is not None
    nonzero = problem.error_scale > 0
    return float((candidate.bound[nonzero] / problem.error_scale[nonzero]).max(initial=0.0))


def sketch_preconditioner(problem: Problem, sketch: Sketch) -> Preconditioner:
    """Preconditioner P^-1 for P = F F' + diag(rest + alpha), with F the (p, rank) sketch factor.

    If the sketch captures everything above alpha, `rest` is nearly 0. If it captures little, P is
    the diagonal, which is equivalent to scaling the columns to equal norms. With p > n, `rest` has
    to be constant: this keeps the iteration in the range of X', outside of which X'X + alpha I is
    as small as alpha.
    """
    F, rest = sketch.factor, sketch.residual_diagonal
    if problem.shape[0] < problem.shape[1]:
        rest = np.full_like(rest, rest.mean())
    parts = {}
    for alpha in problem.distinct_alphas:
        root = np.sqrt(rest + alpha)
        U, S = thin_svd(F / root[:, None])
        # For large S, 1 - weight would be lost to rounding. A smaller P there is as safe.
        squares = np.minimum(S**2, MAX_SQUARED_SINGULAR_VALUE)
        parts[float(alpha)] = root[:, None], _projection(problem, U, squares / (1 + squares))

    def apply(R: Array, targets: NDArray[np.intp]) -> Array:
        if len(parts) == 1:
            ((root, project),) = parts.values()
            S = R / root
            return np.asarray((S - project(S)) / root)
        Z = np.empty_like(R)
        for alpha, (root, project) in parts.items():
            same_alpha = problem.alphas[targets] == alpha
            S = R[:, same_alpha] / root
            Z[:, same_alpha] = (S - project(S)) / root
        return Z

    # Lower ratio: X'X + alpha I >= F F' / max_weight + (alpha - slack) I, and
    # P <= F F' + (max_rest + alpha) I. With a large slack only the trace bound is left.
    max_rest = rest.max(initial=0.0)
    max_weight = max(1.0, float(sketch.weights.max(initial=1.0)))
    slack = sketch.slack if sketch.rank else 0.0
    lower_ratio = np.minimum(1 / max_weight, (problem.alphas - slack) / (max_rest + problem.alphas))
    trace_ratio = problem.alphas / (float(np.einsum("ij,ij->", F, F)) + max_rest + problem.alphas)
    return Preconditioner(apply, np.where(slack < problem.alphas / 2, lower_ratio, trace_ratio))


def _projection(problem: Problem, U: Array, weights: Array) -> Callable[[Array], Array]:
    """Function S -> U diag(weights) U'S, for U (p, rank).

    If U does not stay in cache, U' is a design, which does this in one fused sweep.
    """
    if U.nbytes <= MAX_CACHED_BYTES:
        return lambda S: np.asarray(U @ (weights[:, None] * (U.T @ S)))
    rows = DenseStorage(np.ascontiguousarray(U.T), compiled=problem.uses_compiled_loops)
    leading = Design(rows)

    def project(S: Array) -> Array:
        shape = (len(weights), S.shape[1])
        return leading.gram_matmat(S, AffineRowTransform.from_values(1.0, np.zeros(shape), weights))

    return project


def dual_sketch_preconditioner(
    problem: Problem, sketch: Sketch, lifted: Array
) -> Callable[[Array, NDArray[np.intp]], Array]:
    """P^-1 for P = F F' + (rest + alpha) I on stacked vectors (p + n, t), by Woodbury's identity.

    `lifted` is L with F = X[rows]'L, so that P^-1 X'c = X'(c - L k) / (rest + alpha),
    k = (F'F + (rest + alpha) I)^-1 F'X'c.
    """
    F, p = sketch.factor, problem.shape[1]
    theta, V = eigh(form_gram(F))
    theta = np.maximum(theta, 0.0)
    alphas = problem.alphas + float(sketch.residual_diagonal.mean())

    def apply(R: Array, targets: NDArray[np.intp]) -> Array:
        Z = R.copy()
        k = V @ ((V.T @ (F.T @ R[:p])) / (theta[:, None] + alphas[targets]))
        Z[:p] -= F @ k
        Z[p:][sketch.rows] -= lifted @ k
        return np.asarray(Z / alphas[targets])

    return apply
