"""The whole regularisation path: solutions for all alphas, their bounds and degrees of freedom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ling._typing import Array
from ling.linalg.tridiagonal import tridiagonalize
from ling.model_selection.cv_problem import CVProblem
from ling.model_selection.iterated_folds import IteratedFolds, StochasticGCV
from ling.model_selection.splits import Splits
from ling.model_selection.strategy import (
    TYPICAL_PASSES_PER_TARGET,
    direct_and_pass_seconds,
    is_iteration_worthwhile,
)
from ling.progress import RemainingWork
from ling.solvers.direct import gram_error_bound, solve_with_refinement
from ling.solvers.gradient_rounding import dual_rounding, gradient_rounding
from ling.solvers.minorant import ZeroMinorant
from ling.solvers.planning import Plan
from ling.solvers.problem import Problem

# Random vectors that estimate the degrees of freedom where nothing is factored.
N_DOF_PROBES = 12
# Iterations are given up after this share of what a factorisation takes: by then it shows.
MAX_FRACTION_OF_DIRECT = 0.4
# Of many alphas, so many are looked at while the space grows.
N_GUIDE_ALPHAS = 15
# Below this share of ||y||^2 a residual is not told from sums of squares.
CANCELLATION_THRESHOLD = 1e-6
# Numbers that are solved for at once.
SOLUTION_BATCH_ELEMENTS = 2**24


@dataclass(frozen=True, eq=False)
class PathSolution:
    """For each alpha, (n_alphas, ...): coefficients (p, t), bounds (t,), ||y - Xw||^2 (t,).

    Everything is in the units of the problem; `bounds` are relative to the spread of y.
    `effective_dof` gives the effective degrees of freedom and their standard errors, which may take
    a while.
    """

    coef: Array
    bounds: Array
    residual_squares: Array
    effective_dof: Callable[[], tuple[Array, Array]]
    method: str


def solution_path(
    samples: CVProblem, alphas: Array, plan: Plan, tol: float, rng: np.random.Generator
) -> PathSolution:
    """By one factorisation, or from one subspace, whichever is expected to be faster."""
    direct, a_pass = direct_and_pass_seconds(1, len(alphas), plan)
    if is_iteration_worthwhile(direct, a_pass, samples.n_targets):
        found = _iterated_path(samples, alphas, tol, rng, MAX_FRACTION_OF_DIRECT * direct / a_pass)
        if found is not None:
            return found
    n, p = samples.shape
    return _primal_path(samples, alphas) if p <= n else _dual_path(samples, alphas)


def expected_path_cost(plan: Plan, n_alphas: int) -> RemainingWork:
    """Passes and seconds that a path takes, the pass that makes its problem included."""
    direct, a_pass = direct_and_pass_seconds(1, n_alphas, plan)
    t = plan.shape.n_targets
    if is_iteration_worthwhile(direct, a_pass, t):
        return 1.0 + TYPICAL_PASSES_PER_TARGET * t, (1.0 + TYPICAL_PASSES_PER_TARGET * t) * a_pass
    return 3.0 if plan.shape.p > plan.shape.n else 2.0, direct


def _primal_path(samples: CVProblem, alphas: Array) -> PathSolution:
    problem, t = samples.problem, samples.n_targets
    G = problem.gram()
    form = tridiagonalize(G)
    coef, bounds, squares = [], [], []
    for some in _alpha_batches(alphas, t * samples.shape[1]):
        C = np.tile(problem.moments, len(some))
        each = np.repeat(some, t)
        W, gradient = solve_with_refinement(form, G, C, each)
        spread = np.tile(problem.raw_target_norms, len(some))
        bound = gram_error_bound(problem, W, gradient, each, spread)
        twice = C + gradient + each * W  # 2 C - G W
        left = np.tile(problem.target_norms**2, len(some)) - np.einsum("ij,ij->j", W, twice)
        coef.append(np.stack(np.split(W, len(some), axis=1)))
        bounds.append(bound.reshape(len(some), t))
        squares.append(np.maximum(left, 0.0).reshape(len(some), t))
    return _assemble_path(samples, alphas, coef, bounds, squares, form.eigenvalues)


def _dual_path(samples: CVProblem, alphas: Array) -> PathSolution:
    problem, t = samples.problem, samples.n_targets
    K = problem.row_gram()
    form = tridiagonalize(K)
    coef, bounds, squares = [], [], []
    for some in _alpha_batches(alphas, t * samples.shape[1]):
        Y = np.tile(problem.targets, len(some))
        each = np.repeat(some, t)
        c, rho = solve_with_refinement(form, K, Y, each)
        expanded = replace(
            problem, alphas=each, raw_target_norms=np.tile(problem.raw_target_norms, len(some))
        )
        bound = np.linalg.norm(rho, axis=0) + dual_rounding(expanded, c, from_kernel_matrix=True)
        residual = rho + each * c  # y - K c
        coef.append(np.stack(np.split(problem.design.rmatmat(c), len(some), axis=1)))
        bounds.append(bound.reshape(len(some), t))
        squares.append((residual**2).sum(axis=0).reshape(len(some), t))
    return _assemble_path(samples, alphas, coef, bounds, squares, form.eigenvalues)


def _assemble_path(
    samples: CVProblem, alphas: Array, coef: list[Array], bounds: list[Array], squares: list[Array],
    theta: Array,
) -> PathSolution:  # fmt: skip
    effective_dof = (theta[:, None] / (theta[:, None] + alphas)).sum(axis=0), np.zeros(len(alphas))
    relative = _relative_bounds(samples, alphas, np.concatenate(bounds))
    W = np.concatenate(coef)
    left = _resolve_cancelled_residuals(samples.problem, W, np.concatenate(squares))
    return PathSolution(W, relative, left, lambda: effective_dof, "one factorisation")


def _resolve_cancelled_residuals(problem: Problem, coef: Array, squares: Array) -> Array:
    """||y - X w||^2, from X itself where sums of squares have cancelled: a pass for each alpha."""
    for at in np.flatnonzero(
        (squares < CANCELLATION_THRESHOLD * problem.target_norms**2).any(axis=1)
    ):
        squares[at] = problem.gradient(coef[at])[1] ** 2
    return squares


def _iterated_path(
    samples: CVProblem, alphas: Array, tol: float, rng: np.random.Generator, max_passes: float
) -> PathSolution | None:
    """One subspace for all alphas; None if a factorisation would have been there before."""
    problem, t = samples.problem, samples.n_targets
    everything = Splits.all_training(samples.shape[0])
    search = IteratedFolds(samples, everything, tol / 2, rng=rng, max_passes=max_passes)
    # Neighbours are alike: some alphas tell where to go.
    order = np.argsort(alphas)
    search.refine(alphas[order[:: max(1, len(alphas) // N_GUIDE_ALPHAS)]])
    search.refine(alphas)
    if search.gave_up:
        return None
    space = search.spaces[0]
    bounds = space.bounds(alphas)
    coef = np.empty((len(alphas), *problem.moments.shape))
    squares = np.empty((len(alphas), t))
    for at, alpha in enumerate(alphas):
        Y = space.solution_coordinates(alphas[at : at + 1])[:, 0]
        W = coef[at] = space.basis @ Y
        # ||y||^2 - 2 w'X'y + w'X'X w
        inner = np.einsum("ij,ij->j", W, space.gram_basis @ Y - 2 * problem.moments)
        squares[at] = np.maximum(problem.target_norms**2 + inner, 0.0)
        here = replace(problem, alphas=np.full(t, alpha))
        bounds[at] += gradient_rounding(here, ZeroMinorant(), W, np.sqrt(squares[at]))

    def effective_dof() -> tuple[Array, Array]:
        probing = StochasticGCV(samples, 1.0, N_DOF_PROBES, rng)
        probing.refine(alphas)
        return probing.effective_dof(alphas)

    relative = _relative_bounds(samples, alphas, bounds)
    left = _resolve_cancelled_residuals(problem, coef, squares)
    return PathSolution(coef, relative, left, effective_dof, "one subspace, iterated")


def _relative_bounds(samples: CVProblem, alphas: Array, bounds: Array) -> Array:
    """Of predictions, in units of the spread of y; a y without any is fitted exactly by 0."""
    unit = np.stack([replace(samples.problem, alphas=np.full(samples.n_targets, alpha)).error_scale
                     for alpha in alphas])  # fmt: skip
    return np.divide(bounds, unit, out=np.zeros_like(bounds), where=unit > 0)


def _alpha_batches(alphas: Array, numbers: int) -> Iterator[Array]:
    """Alphas whose solutions fit at once, if those of one are so many numbers."""
    step = max(1, SOLUTION_BATCH_ELEMENTS // max(1, numbers))
    return (alphas[start : start + step] for start in range(0, len(alphas), step))
