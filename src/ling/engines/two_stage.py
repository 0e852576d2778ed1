"""LING's two stages on the original problem: a sketch of X'X, then conjugate gradients.

Stage 1 finds the strong directions of X, from a sample of its rows or from products with random
directions. They serve twice: in the preconditioner of stage 2, and, because what is known of them
lies below X'X, in the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ling.design import Array, DenseDesign, RowMap
from ling.design.threads import quiet_blas
from ling.engines.base import Candidate, Effort, proved
from ling.engines.conjugate import (
    Preconditioner,
    conjugate_gradients,
    dual_conjugate_gradients,
)
from ling.engines.from_products import sketch_from_products
from ling.engines.from_sample import sketch_from_sample
from ling.engines.sketch import Sketch
from ling.engines.thin import thin_svd
from ling.minorant import EPS
from ling.problem import Problem

STRONGEST = 1e10
# What is only expected has to be so much better than what is known.
BETTER = 0.75
# On a short copy: how often to look at X itself, and what to aim for in between.
STARTS = 5
GAIN = 100


def two_stage(problem: Problem, effort: Effort) -> Candidate:
    """Sketch to a rank that pays, then iterate; one pass an iteration, a few for the sketch.

    Many iterations are done on a copy of X in 16-bit integers, where memory allows, which is read
    several times as fast. What that costs in accuracy is made up for by a second start from the
    gradient of X itself.
    """
    n, p = problem.shape
    if effort.samples:
        with quiet_blas():
            sketch, expected = sketch_from_sample(problem, effort)
    else:
        sketch, expected = sketch_from_products(problem, effort)
    if expected.cost > BETTER * effort.worth and effort.start is None:
        return Candidate(np.zeros_like(problem.moments), rank=sketch.rank, gave_up=True)
    worth = effort.worth / effort.iteration_cost(problem.n_targets)
    with quiet_blas():
        if n < p and sketch.lifted is not None:
            found = dual_conjugate_gradients(
                problem, dual_preconditioner(problem, sketch, sketch.lifted), tol=effort.tol,
                max_iter=effort.max_iter, worth=worth,
            )  # fmt: skip
        elif effort.copy_pays(expected.iterations, problem.n_targets):
            found = _on_copy(problem, sketch, effort, worth)
        else:
            found = conjugate_gradients(
                problem, preconditioner(problem, sketch), sketch.minorant(), tol=effort.tol,
                max_iter=effort.max_iter, worth=worth, start=effort.start,
            )  # fmt: skip
    return replace(found, rank=sketch.rank)


def _on_copy(problem: Problem, sketch: Sketch, effort: Effort, worth: float) -> Candidate:
    """Conjugate gradients with Z = X + E in the place of X, started again from X's own gradient.

    For every u in (0, 1) X'X >= (1 - u) Z'Z - (1/u - 1) E'E; with u = ||E|| / sqrt(alpha) that
    makes X'X + alpha I >= (1 - u) (Z'Z + alpha I), and the same holds the other way round.
    """
    exact, minorant = preconditioner(problem, sketch), sketch.minorant()
    plain = partial(conjugate_gradients, problem, exact, minorant, tol=effort.tol)
    copy = problem.short_copy()
    share = 0.0
    if copy is not None:
        error = copy.error + (4 * EPS) ** 2 * float((problem.raw_norms**2).sum())
        share = 1 - np.sqrt(error / float(problem.alphas.min()))
    if copy is None or share < 0.3:
        return plain(max_iter=effort.max_iter, worth=worth, start=effort.start)
    nearby = Preconditioner(exact.apply, share * exact.least)
    found = Candidate(np.zeros_like(problem.moments), minorant, bound=problem.spread, n_iter=0)
    gradient = problem.moments
    if effort.start is not None:
        found, gradient = proved(problem, replace(found, coef=effort.start))
    before = np.inf
    for _ in range(STARTS):
        excess, spent = _excess(problem, found), found.n_iter or 0
        left = None if effort.max_iter is None else effort.max_iter - spent
        if excess <= effort.tol or found.gave_up or left == 0:
            return found
        if excess > before / 3:
            break
        aim = max(effort.tol, excess / GAIN)
        # What is left to spend, and this start's share of the way.
        way = np.log(excess / aim) / np.log(excess / max(effort.tol, EPS))
        found = conjugate_gradients(
            problem, nearby, minorant, tol=aim, max_iter=left,
            worth=way * (worth / effort.copy_cost - spent), start=found.coef, residual=gradient,
            gram=problem.gram_of(copy),
        )  # fmt: skip
        assert found.proved is not None
        assert found.n_iter is not None
        found = replace(found, n_iter=spent + found.n_iter, proved=found.proved / share)
        before, (found, gradient) = excess, proved(problem, found)
    # The copy is not good enough for what is left.
    rest = plain(max_iter=left, worth=worth, start=found.coef, residual=gradient)
    return replace(rest, n_iter=spent + (rest.n_iter or 0))


def _excess(problem: Problem, candidate: Candidate) -> float:
    """The largest of a candidate's bounds, in units of what moves predictions by ||y||."""
    real = problem.unit > 0
    assert candidate.bound is not None
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
            rows = RowMap.of(np.ones(len(weights)), np.zeros(shape), weights)
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
    theta, V = linalg.eigh(F.T @ F, check_finite=False)
    theta = np.maximum(theta, 0.0)
    alphas = problem.alphas + float(sketch.rest.mean())

    def apply(R: Array, targets: NDArray[np.intp]) -> Array:
        Z = R.copy()
        k = V @ ((V.T @ (F.T @ R[:p])) / (theta[:, None] + alphas[targets]))
        Z[:p] -= F @ k
        Z[p:][sketch.rows] -= lifted @ k
        return np.asarray(Z / alphas[targets])

    return apply
