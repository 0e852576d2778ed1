"""The whole regularisation path: solutions for all alphas, their bounds and degrees of freedom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ling.design import Array
from ling.engines.direct import gram_bound, refined
from ling.engines.tridiagonal import tridiagonal
from ling.minorant import Nothing
from ling.planning import Plan
from ling.problem import Problem
from ling.progress import Expectation
from ling.rounding import dual_rounding, rounding
from ling.selection.iterated import IteratedFolds, StochasticLeaveOneOut
from ling.selection.route import USUAL_PASSES, iterations_promise_more, seconds
from ling.selection.samples import Samples
from ling.selection.splits import Splits

# Random vectors that estimate the degrees of freedom where nothing is factored.
PROBES = 12
# Iterations are given up after this share of what a factorisation takes: by then it shows.
WORTH = 0.4
# Of many alphas, so many are looked at while the space grows.
SOME = 15
# Below this share of ||y||^2 a residual is not told from sums of squares.
CANCELS = 1e-6
# Numbers that are solved for at once.
ROOM = 2**24


@dataclass(frozen=True, eq=False)
class Path:
    """For each alpha, (n_alphas, ...): coefficients (p, t), bounds (t,), ||y - Xw||^2 (t,).

    Everything is in the units of the problem; `bounds` are relative to the spread of y. `degrees`
    gives the effective degrees of freedom and their standard errors, which may take a while.
    """

    coef: Array
    bounds: Array
    squares: Array
    degrees: Callable[[], tuple[Array, Array]]
    method: str


def solution_path(
    samples: Samples, alphas: Array, plan: Plan, tol: float, rng: np.random.Generator
) -> Path:
    """By one factorisation, or from one subspace, whichever is expected to be faster."""
    direct, a_pass = seconds(1, len(alphas), plan)
    if iterations_promise_more(direct, a_pass, samples.n_targets):
        found = _iterated(samples, alphas, tol, rng, WORTH * direct / a_pass)
        if found is not None:
            return found
    n, p = samples.shape
    return _primal(samples, alphas) if p <= n else _dual(samples, alphas)


def path_expectation(plan: Plan, n_alphas: int) -> Expectation:
    """Passes and seconds that a path takes, the pass that makes its problem included."""
    direct, a_pass = seconds(1, n_alphas, plan)
    t = plan.shape.n_targets
    if iterations_promise_more(direct, a_pass, t):
        return 1.0 + USUAL_PASSES * t, (1.0 + USUAL_PASSES * t) * a_pass
    return 3.0 if plan.shape.p > plan.shape.n else 2.0, direct


def _primal(samples: Samples, alphas: Array) -> Path:
    problem, t = samples.problem, samples.n_targets
    G = problem.gram()
    form = tridiagonal(G)
    coef, bounds, squares = [], [], []
    for some in _chunks(alphas, t * samples.shape[1]):
        C = np.tile(problem.moments, len(some))
        each = np.repeat(some, t)
        W, gradient = refined(form, G, C, each)
        spread = np.tile(problem.raw_spread, len(some))
        bound = gram_bound(problem, W, gradient, each, spread)
        twice = C + gradient + each * W  # 2 C - G W
        left = np.tile(problem.spread**2, len(some)) - np.einsum("ij,ij->j", W, twice)
        coef.append(np.stack(np.split(W, len(some), axis=1)))
        bounds.append(bound.reshape(len(some), t))
        squares.append(np.maximum(left, 0.0).reshape(len(some), t))
    return _path(samples, alphas, coef, bounds, squares, form.eigenvalues)


def _dual(samples: Samples, alphas: Array) -> Path:
    problem, t = samples.problem, samples.n_targets
    K = problem.row_gram()
    form = tridiagonal(K)
    coef, bounds, squares = [], [], []
    for some in _chunks(alphas, t * samples.shape[1]):
        Y = np.tile(problem.targets, len(some))
        each = np.repeat(some, t)
        c, rho = refined(form, K, Y, each)
        expanded = replace(problem, alphas=each, raw_spread=np.tile(problem.raw_spread, len(some)))
        bound = np.linalg.norm(rho, axis=0) + dual_rounding(expanded, c, formed=True)
        residual = rho + each * c  # y - K c
        coef.append(np.stack(np.split(problem.design.rmatmat(c), len(some), axis=1)))
        bounds.append(bound.reshape(len(some), t))
        squares.append((residual**2).sum(axis=0).reshape(len(some), t))
    return _path(samples, alphas, coef, bounds, squares, form.eigenvalues)


def _path(
    samples: Samples, alphas: Array, coef: list[Array], bounds: list[Array], squares: list[Array],
    theta: Array,
) -> Path:  # fmt: skip
    degrees = (theta[:, None] / (theta[:, None] + alphas)).sum(axis=0), np.zeros(len(alphas))
    relative = _relative(samples, alphas, np.concatenate(bounds))
    W = np.concatenate(coef)
    left = _resolved(samples.problem, W, np.concatenate(squares))
    return Path(W, relative, left, lambda: degrees, "one factorisation")


def _resolved(problem: Problem, coef: Array, squares: Array) -> Array:
    """||y - X w||^2, from X itself where sums of squares have cancelled: a pass for each alpha."""
    for at in np.flatnonzero((squares < CANCELS * problem.spread**2).any(axis=1)):
        squares[at] = problem.gradient(coef[at])[1] ** 2
    return squares


def _iterated(
    samples: Samples, alphas: Array, tol: float, rng: np.random.Generator, worth: float
) -> Path | None:
    """One subspace for all alphas; None if a factorisation would have been there before."""
    problem, t = samples.problem, samples.n_targets
    everything = Splits.everything(samples.shape[0])
    search = IteratedFolds(samples, everything, tol / 2, rng=rng, worth=worth)
    # Neighbours are alike: some alphas tell where to go.
    order = np.argsort(alphas)
    search.work(alphas[order[:: max(1, len(alphas) // SOME)]])
    search.work(alphas)
    if search.gave_up:
        return None
    space = search.spaces[0]
    bounds = space.bounds(alphas)
    coef = np.empty((len(alphas), *problem.moments.shape))
    squares = np.empty((len(alphas), t))
    for at, alpha in enumerate(alphas):
        Y = space.solutions(alphas[at : at + 1])[:, 0]
        W = coef[at] = space.basis @ Y
        # ||y||^2 - 2 w'X'y + w'X'X w
        inner = np.einsum("ij,ij->j", W, space.images @ Y - 2 * problem.moments)
        squares[at] = np.maximum(problem.spread**2 + inner, 0.0)
        here = replace(problem, alphas=np.full(t, alpha))
        bounds[at] += rounding(here, Nothing(), W, np.sqrt(squares[at]))

    def degrees() -> tuple[Array, Array]:
        probing = StochasticLeaveOneOut(samples, 1.0, PROBES, rng)
        probing.work(alphas)
        return probing.degrees(alphas)

    relative = _relative(samples, alphas, bounds)
    left = _resolved(problem, coef, squares)
    return Path(coef, relative, left, degrees, "one subspace, iterated")


def _relative(samples: Samples, alphas: Array, bounds: Array) -> Array:
    """Of predictions, in units of the spread of y; a y without any is fitted exactly by 0."""
    unit = np.stack([replace(samples.problem, alphas=np.full(samples.n_targets, alpha)).unit
                     for alpha in alphas])  # fmt: skip
    return np.divide(bounds, unit, out=np.zeros_like(bounds), where=unit > 0)


def _chunks(alphas: Array, numbers: int) -> Iterator[Array]:
    """Alphas whose solutions fit at once, if those of one are so many numbers."""
    step = max(1, ROOM // max(1, numbers))
    return (alphas[start : start + step] for start in range(0, len(alphas), step))
