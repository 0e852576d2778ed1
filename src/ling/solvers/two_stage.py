"""LING's two stages on the original problem: a sketch of X'X, then conjugate gradients.

Stage 1 finds the strong directions of X, from a sample of its rows or from products with random
directions. They serve twice: in the preconditioner of stage 2, and, because what is known of them
lies below X'X, in the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ling._typing import Array
from ling.design import AffineRowTransform, DenseStorage, QuantizedMatrix
from ling.linalg.gram import form_gram
from ling.linalg.orthogonalize import thin_svd
from ling.linalg.rounding import EPS, EPS32
from ling.linalg.threads import single_threaded_blas
from ling.solvers.conjugate_gradients import (
    Preconditioner,
    conjugate_gradients,
    dual_conjugate_gradients,
)
from ling.solvers.engine import Candidate, EngineBudget, evaluate_bound
from ling.solvers.minorant import Minorant
from ling.solvers.nystrom import randomized_nystrom_sketch
from ling.solvers.problem import Problem
from ling.solvers.row_sampling import row_sample_sketch
from ling.solvers.sketch import MAX_COMPILED_COLUMNS, Sketch

MAX_SQUARED_SINGULAR_VALUE = 1e10
# What is only expected has to be so much better than what is known.
MAX_FORECAST_FRACTION = 0.75
# On a short copy: how often to look at X itself, and what to aim for in between.
MAX_QUANTIZED_RESTARTS = 5
BOUND_REDUCTION_PER_RESTART = 100


def two_stage(problem: Problem, budget: EngineBudget) -> Candidate:
    """Sketch to a rank that pays, then iterate; one pass an iteration, a few for the sketch.

    Many iterations are done on a copy of X in 16-bit integers, where memory allows, which is a
    quarter of the size of float64. What that costs in accuracy is made up for by starting again
    from the gradient of X itself.
    """
    n, p = problem.shape
    budget = replace(budget, low_precision=budget.low_precision and problem.can_quantize)
    # Where loops do the passes, BLAS is left with small things.
    small = problem.uses_compiled_loops and problem.n_targets <= MAX_COMPILED_COLUMNS
    stage_one = row_sample_sketch if budget.can_sample_rows else randomized_nystrom_sketch
    with single_threaded_blas() if small else nullcontext():
        sketch, expected = stage_one(problem, budget)
    if expected.cost > MAX_FORECAST_FRACTION * budget.max_passes and budget.start is None:
        nothing = np.zeros_like(problem.moments)
        return Candidate(nothing, bound=problem.target_norms, rank=sketch.rank, gave_up=True)
    with single_threaded_blas() if small else nullcontext():
        if n < p and sketch.dual_factor is not None:
            found = dual_conjugate_gradients(
                problem,
                dual_sketch_preconditioner(problem, sketch, sketch.dual_factor),
                tol=budget.tol,
                max_iter=budget.max_iter,
                iter_budget=_iter_budget(problem, budget),
            )
        elif budget.is_quantizing_cheaper(expected.iterations, problem.n_targets):
            found = _iterate_quantized(problem, sketch, budget)
        else:
            found = _iterate_exact(
                problem, sketch_preconditioner(problem, sketch), sketch.minorant(), budget
            )
    return replace(found, rank=sketch.rank)


def _iter_budget(problem: Problem, budget: EngineBudget) -> float:
    return budget.max_passes / budget.iteration_cost(problem.n_targets)


def _iterate_exact(
    problem: Problem, near: Preconditioner, minorant: Minorant, budget: EngineBudget,
    residual: Array | None = None,
) -> Candidate:  # fmt: skip
    return conjugate_gradients(
        problem, near, minorant, tol=budget.tol, max_iter=budget.max_iter,
        iter_budget=_iter_budget(problem, budget), start=budget.start, residual=residual,
    )  # fmt: skip


def _iterate_quantized(problem: Problem, sketch: Sketch, budget: EngineBudget) -> Candidate:
    """Conjugate gradients with a copy in the place of X, started again from X's own gradient."""
    exact, minorant = sketch_preconditioner(problem, sketch), sketch.minorant()
    copy = problem.quantize()
    share = _quantized_lower_ratio(problem, copy)
    if share < 0.3:
        return _iterate_exact(problem, exact, minorant, budget)
    # Products with the copy are in float32: off by a few eps ||Z|| where X'X + alpha I is >= alpha.
    noise = 4 * EPS32 * float(np.sqrt((problem.safe_column_norms**2).sum() / problem.alphas.min()))
    near = Preconditioner(exact.apply, share * exact.lower_ratio, noise)
    found = Candidate(
        np.zeros_like(problem.moments), minorant, bound=problem.target_norms, n_iter=0
    )
    gradient = problem.moments
    if budget.start is not None:
        found, gradient = evaluate_bound(problem, replace(found, coef=budget.start))
    excess, before, left = _max_relative_bound(problem, found), np.inf, budget
    for _ in range(MAX_QUANTIZED_RESTARTS):
        # The copy may not be good enough for what is left.
        if excess <= budget.tol or found.gave_up or left.max_iter == 0 or excess > before / 3:
            break
        more = _restart(problem, near, minorant, copy, left, found.coef, gradient, excess)
        assert more.squared_bound is not None
        assert more.n_iter is not None
        left = left.remaining_after(more.n_iter, problem.n_targets)
        found, gradient = evaluate_bound(
            problem, replace(more, squared_bound=more.squared_bound / share)
        )
        before, excess = excess, _max_relative_bound(problem, found)
    if excess > budget.tol and not found.gave_up and left.max_iter != 0:
        found = _iterate_exact(problem, exact, minorant, replace(left, start=found.coef), gradient)
        left = left.remaining_after(found.n_iter or 0, problem.n_targets)
    return replace(found, n_iter=left.n_iter_done - budget.n_iter_done)


def _restart(
    problem: Problem,
    near: Preconditioner,
    minorant: Minorant,
    copy: QuantizedMatrix,
    budget: EngineBudget,
    W: Array,
    gradient: Array,
    excess: float,
) -> Candidate:
    """Iterate on the copy until the bound, `excess` so far, has fallen by GAIN."""
    aim = max(budget.tol, excess / BOUND_REDUCTION_PER_RESTART)
    way = np.log(excess / aim) / np.log(excess / max(budget.tol, EPS))
    affordable = budget.max_passes / budget.quantized_pass_cost / problem.n_targets
    return conjugate_gradients(
        problem, near, minorant, tol=aim, max_iter=budget.max_iter, iter_budget=way * affordable,
        start=W, residual=gradient, gram=problem.metered_gram_matmat(copy),
    )  # fmt: skip


def _quantized_lower_ratio(problem: Problem, copy: QuantizedMatrix) -> float:
    """Some c with X'X + alpha I >= c (Z'Z + alpha I) and the other way round, for Z = X + E.

    For every u in (0, 1) X'X >= (1 - u) Z'Z - (1/u - 1) E'E; u = ||E|| / sqrt(alpha) gives 1 - u.
    """
    error = np.sqrt(copy.squared_error_bound) + 4 * EPS * np.linalg.norm(problem.raw_column_norms)
    return float(1 - error / np.sqrt(problem.alphas.min()))


def _max_relative_bound(problem: Problem, candidate: Candidate) -> float:
    """The largest of a candidate's bounds, in units of what moves predictions by ||y||."""
    assert candidate.bound is not None
    real = problem.error_scale > 0
    return float((candidate.bound[real] / problem.error_scale[real]).max(initial=0.0))


def sketch_preconditioner(problem: Problem, sketch: Sketch) -> Preconditioner:
    """P^-1 for P = F F' + diag(rest + alpha).

    Where the sketch holds everything above alpha, `rest` is next to nothing; where it holds little,
    P is the diagonal, and conjugate gradients are those of columns of equal length. With more
    features than samples only a constant `rest` keeps the iteration in the range of X', outside of
    which X'X + alpha I is as small as alpha.
    """
    F, rest = sketch.B, sketch.residual_diagonal
    if problem.shape[0] < problem.shape[1]:
        rest = np.full_like(rest, rest.mean())
    parts = {}
    for alpha in problem.distinct_alphas:
        root = np.sqrt(rest + alpha)
        U, S = thin_svd(F / root[:, None])
        # I - U diag(weights) U' is one fused sweep over U'.
        strong = DenseStorage(np.ascontiguousarray(U.T), compiled=problem.uses_compiled_loops)
        # Where S is large 1 - weight is lost to rounding; a P that is smaller there is as safe.
        squares = np.minimum(S**2, MAX_SQUARED_SINGULAR_VALUE)
        parts[float(alpha)] = root[:, None], strong, squares / (1 + squares)

    def apply(R: Array, targets: NDArray[np.intp]) -> Array:
        Z = np.empty_like(R)
        for alpha, (root, strong, weights) in parts.items():
            mine = problem.alphas[targets] == alpha
            S = R[:, mine] / root
            shape = (len(weights), S.shape[1])
            rows = AffineRowTransform.from_values(1.0, np.zeros(shape), weights)
            Z[:, mine] = (S - strong.gram_matmat(S, rows)) / root
        return Z

    # X'X + alpha I >= F F' / heaviest + (alpha - slack) I; P <= F F' + (largest rest + alpha) I.
    largest = rest.max(initial=0.0)
    heaviest = max(1.0, float(sketch.weights.max(initial=1.0)))
    slack = sketch.slack if sketch.rank else 0.0
    least = np.minimum(1 / heaviest, (problem.alphas - slack) / (largest + problem.alphas))
    tiny = problem.alphas / (float(np.einsum("ij,ij->", F, F)) + largest + problem.alphas)
    return Preconditioner(apply, np.where(slack < problem.alphas / 2, least, tiny))


def dual_sketch_preconditioner(
    problem: Problem, sketch: Sketch, lifted: Array
) -> Callable[[Array, NDArray[np.intp]], Array]:
    """P^-1 for P = F F' + (rest + alpha) I, by Woodbury's identity, and the same below.

    F = X'L, so that P^-1 X'c = X'(c - L k) / (rest + alpha), k = (F'F + (rest + alpha) I)^-1 F'X'c.
    """
    F, p = sketch.B, problem.shape[1]
    theta, V = linalg.eigh(form_gram(F), check_finite=False)
    theta = np.maximum(theta, 0.0)
    alphas = problem.alphas + float(sketch.residual_diagonal.mean())

    def apply(R: Array, targets: NDArray[np.intp]) -> Array:
        Z = R.copy()
        k = V @ ((V.T @ (F.T @ R[:p])) / (theta[:, None] + alphas[targets]))
        Z[:p] -= F @ k
        Z[p:][sketch.rows] -= lifted @ k
        return np.asarray(Z / alphas[targets])

    return apply
