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

from ling.design import Array, DenseDesign, RowMap, ShortCopy
from ling.design.gram import form_gram
from ling.design.threads import quiet_blas
from ling.engines.base import Candidate, Effort, with_bound
from ling.engines.conjugate import (
    Preconditioner,
    conjugate_gradients,
    dual_conjugate_gradients,
)
from ling.engines.from_products import sketch_from_products
from ling.engines.from_sample import sketch_from_sample
from ling.engines.sketch import FEW, Sketch
from ling.engines.thin import thin_svd
from ling.minorant import EPS, EPS32, Minorant
from ling.problem import Problem

STRONGEST = 1e10
# What is only expected has to be so much better than what is known.
BETTER = 0.75
# On a short copy: how often to look at X itself, and what to aim for in between.
STARTS = 5
GAIN = 100


def two_stage(problem: Problem, effort: Effort) -> Candidate:
    """Sketch to a rank that pays, then iterate; one pass an iteration, a few for the sketch.

    Many iterations are done on a copy of X in 16-bit integers, where memory allows, which is a
    quarter of the size of float64. What that costs in accuracy is made up for by starting again
    from the gradient of X itself.
    """
    n, p = problem.shape
    effort = replace(effort, single=effort.single and problem.can_shorten)
    # Where loops do the passes, BLAS is left with small things.
    small = problem.compiled and problem.n_targets <= FEW
    stage_one = sketch_from_sample if effort.samples else sketch_from_products
    with quiet_blas() if small else nullcontext():
        sketch, expected = stage_one(problem, effort)
    if expected.cost > BETTER * effort.worth and effort.start is None:
        nothing = np.zeros_like(problem.moments)
        return Candidate(nothing, bound=problem.spread, rank=sketch.rank, gave_up=True)
    with quiet_blas() if small else nullcontext():
        if n < p and sketch.lifted is not None:
            found = dual_conjugate_gradients(
                problem, dual_preconditioner(problem, sketch, sketch.lifted), tol=effort.tol,
                max_iter=effort.max_iter, worth=_iterations_worth(problem, effort),
            )  # fmt: skip
        elif effort.copy_pays(expected.iterations, problem.n_targets):
            found = _on_copy(problem, sketch, effort)
        else:
            found = _on_x(problem, preconditioner(problem, sketch), sketch.minorant(), effort)
    return replace(found, rank=sketch.rank)


def _iterations_worth(problem: Problem, effort: Effort) -> float:
    return effort.worth / effort.iteration_cost(problem.n_targets)


def _on_x(
    problem: Problem, near: Preconditioner, minorant: Minorant, effort: Effort,
    residual: Array | None = None,
) -> Candidate:  # fmt: skip
    return conjugate_gradients(
        problem, near, minorant, tol=effort.tol, max_iter=effort.max_iter,
        worth=_iterations_worth(problem, effort), start=effort.start, residual=residual,
    )  # fmt: skip


def _on_copy(problem: Problem, sketch: Sketch, effort: Effort) -> Candidate:
    """Conjugate gradients with a copy in the place of X, started again from X's own gradient."""
    exact, minorant = preconditioner(problem, sketch), sketch.minorant()
    copy = problem.short_copy()
    share = _share(problem, copy)
    if share < 0.3:
        return _on_x(problem, exact, minorant, effort)
    # Products with the copy are in float32: off by a few eps ||Z|| where X'X + alpha I is >= alpha.
    noise = 4 * EPS32 * float(np.sqrt((problem.safe_norms**2).sum() / problem.alphas.min()))
    near = Preconditioner(exact.apply, share * exact.least, noise)
    found = Candidate(np.zeros_like(problem.moments), minorant, bound=problem.spread, n_iter=0)
    gradient = problem.moments
    if effort.start is not None:
        found, gradient = with_bound(problem, replace(found, coef=effort.start))
    excess, before, left = _excess(problem, found), np.inf, effort
    for _ in range(STARTS):
        # The copy may not be good enough for what is left.
        if excess <= effort.tol or found.gave_up or left.max_iter == 0 or excess > before / 3:
            break
        more = _start(problem, near, minorant, copy, left, found.coef, gradient, excess)
        assert more.proved is not None
        assert more.n_iter is not None
        left = left.after(more.n_iter, problem.n_targets)
        found, gradient = with_bound(problem, replace(more, proved=more.proved / share))
        before, excess = excess, _excess(problem, found)
    if excess > effort.tol and not found.gave_up and left.max_iter != 0:
        found = _on_x(problem, exact, minorant, replace(left, start=found.coef), gradient)
        left = left.after(found.n_iter or 0, problem.n_targets)
    return replace(found, n_iter=left.spent - effort.spent)


def _start(
    problem: Problem, near: Preconditioner, minorant: Minorant, copy: ShortCopy, effort: Effort,
    W: Array, gradient: Array, excess: float,
) -> Candidate:  # fmt: skip
    """Iterate on the copy until the bound, `excess` so far, has fallen by GAIN."""
    aim = max(effort.tol, excess / GAIN)
    way = np.log(excess / aim) / np.log(excess / max(effort.tol, EPS))
    affordable = effort.worth / effort.copy_cost / problem.n_targets
    return conjugate_gradients(
        problem, near, minorant, tol=aim, max_iter=effort.max_iter, worth=way * affordable,
        start=W, residual=gradient, gram=problem.gram_of(copy),
    )  # fmt: skip


def _share(problem: Problem, copy: ShortCopy) -> float:
    """Some c with X'X + alpha I >= c (Z'Z + alpha I) and the other way round, for Z = X + E.

    For every u in (0, 1) X'X >= (1 - u) Z'Z - (1/u - 1) E'E; u = ||E|| / sqrt(alpha) gives 1 - u.
    """
    error = np.sqrt(copy.error) + 4 * EPS * np.linalg.norm(problem.raw_norms)
    return float(1 - error / np.sqrt(problem.alphas.min()))


def _excess(problem: Problem, candidate: Candidate) -> float:
    """The largest of a candidate's bounds, in units of what moves predictions by ||y||."""
    assert candidate.bound is not None
    real = problem.unit > 0
    return float((candidate.bound[real] / problem.unit[real]).max(initial=0.0))


def preconditioner(problem: Problem, sketch: Sketch) -> Preconditioner:
    """P^-1 for P = F F' + diag(rest + alpha).

    Where the sketch holds everything above alpha, `rest` is next to nothing; where it holds little,
    P is the diagonal, and conjugate gradients are those of columns of equal length. With more
    features than samples only a constant `rest` keeps the iteration in the range of X', outside of
    which X'X + alpha I is as small as alpha.
    """
    F, rest = sketch.B, sketch.rest
    if problem.shape[0] < problem.shape[1]:
        rest = np.full_like(rest, rest.mean())
    parts = {}
    for alpha in problem.distinct_alphas:
        root = np.sqrt(rest + alpha)
        U, S = thin_svd(F / root[:, None])
        # I - U diag(weights) U' is one fused sweep over U'.
        strong = DenseDesign(np.ascontiguousarray(U.T), compiled=problem.compiled)
        # Where S is large 1 - weight is lost to rounding; a P that is smaller there is as safe.
        squares = np.minimum(S**2, STRONGEST)
        parts[float(alpha)] = root[:, None], strong, squares / (1 + squares)

    def apply(R: Array, targets: NDArray[np.intp]) -> Array:
        Z = np.empty_like(R)
        for alpha, (root, strong, weights) in parts.items():
            mine = problem.alphas[targets] == alpha
            S = R[:, mine] / root
            shape = (len(weights), S.shape[1])
            rows = RowMap.of(1.0, np.zeros(shape), weights)
            Z[:, mine] = (S - strong.gram_matmat(S, rows)) / root
        return Z

    # X'X + alpha I >= F F' / heaviest + (alpha - slack) I; P <= F F' + (largest rest + alpha) I.
    largest = rest.max(initial=0.0)
    heaviest = max(1.0, float(sketch.weights.max(initial=1.0)))
    slack = sketch.slack if sketch.rank else 0.0
    least = np.minimum(1 / heaviest, (problem.alphas - slack) / (largest + problem.alphas))
    tiny = problem.alphas / (float(np.einsum("ij,ij->", F, F)) + largest + problem.alphas)
    return Preconditioner(apply, np.where(slack < problem.alphas / 2, least, tiny))


def dual_preconditioner(
    problem: Problem, sketch: Sketch, lifted: Array
) -> Callable[[Array, NDArray[np.intp]], Array]:
    """P^-1 for P = F F' + (rest + alpha) I, by Woodbury's identity, and the same below.

    F = X'L, so that P^-1 X'c = X'(c - L k) / (rest + alpha), k = (F'F + (rest + alpha) I)^-1 F'X'c.
    """
    F, p = sketch.B, problem.shape[1]
    theta, V = linalg.eigh(form_gram(F), check_finite=False)
    theta = np.maximum(theta, 0.0)
    alphas = problem.alphas + float(sketch.rest.mean())

    def apply(R: Array, targets: NDArray[np.intp]) -> Array:
        Z = R.copy()
        k = V @ ((V.T @ (F.T @ R[:p])) / (theta[:, None] + alphas[targets]))
        Z[:p] -= F @ k
        Z[p:][sketch.rows] -= lifted @ k
        return np.asarray(Z / alphas[targets])

    return apply
