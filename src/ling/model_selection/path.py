"""Regularisation path: solutions for all alphas with error bounds and degrees of freedom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ling._typing import Array
from ling.linalg.tridiagonal import HouseholderTridiagonal, tridiagonalize
from ling.model_selection.cv_problem import CVProblem
from ling.model_selection.iterated_folds import IteratedFolds
from ling.model_selection.splits import Splits
from ling.model_selection.stochastic_gcv import StochasticGCV
from ling.model_selection.strategy import (
    TYPICAL_PASSES_PER_TARGET,
    direct_and_pass_seconds,
    is_iteration_worthwhile,
)
from ling.progress import RemainingWork
from ling.solvers.certificate import ZeroMinorant, dual_rounding, gradient_rounding
from ling.solvers.direct import gram_error_bound, solve_with_refinement
from ling.solvers.planning import Plan
from ling.solvers.problem import CANCELLATION_THRESHOLD, Problem

# Number of random probes that estimate the effective degrees of freedom of an iterated path.
N_DOF_PROBES = 12
# The iteration is abandoned after this fraction of the predicted time of a factorisation. By then
# it is clear if it converges fast enough.
MAX_FRACTION_OF_DIRECT = 0.4
# Number of alphas, evenly chosen from a long grid, for which the subspace is built first.
N_GUIDE_ALPHAS = 15
# Maximum number of elements of the coefficients that are solved for at once.
SOLUTION_BATCH_ELEMENTS = 2**24


@dataclass(frozen=True, eq=False)
class PathSolution:
    """Solutions for all alphas, in the units of the problem.

    `coef` has shape (n_alphas, p, t), `bounds` and `residual_squares` = ||y - X w||^2 have shape
    (n_alphas, t). `bounds` are relative to the spread of y. `effective_dof()` returns the effective
    degrees of freedom and their standard errors, each (n_alphas,); it may need further passes.
    `method` describes how the path was computed.
    """

    coef: Array
    bounds: Array
    residual_squares: Array
    effective_dof: Callable[[], tuple[Array, Array]]
    method: str


def solution_path(
    samples: CVProblem, alphas: Array, plan: Plan, tol: float, rng: np.random.Generator
) -> PathSolution:
    """Solutions for all alphas, from one subspace or from one factorisation.

    The subspace is used if it is predicted to be clearly faster. If it converges too slowly, the
    factorisation follows: of X'X for p <= n, otherwise of X X'.
    """
    direct_seconds, seconds_per_pass = direct_and_pass_seconds(1, len(alphas), plan)
    if is_iteration_worthwhile(direct_seconds, seconds_per_pass, samples.n_targets):
        path = _iterated_path(
            samples, alphas, tol, rng, MAX_FRACTION_OF_DIRECT * direct_seconds / seconds_per_pass
        )
        if path is not None:
            return path
    return _direct_path(samples, alphas)


def expected_path_cost(plan: Plan, n_alphas: int) -> RemainingWork:
    """Predicted passes and seconds of a path, including the pass that builds the problem."""
    direct_seconds, seconds_per_pass = direct_and_pass_seconds(1, n_alphas, plan)
    t = plan.dimensions.n_targets
    if is_iteration_worthwhile(direct_seconds, seconds_per_pass, t):
        return 1.0 + TYPICAL_PASSES_PER_TARGET * t, (
            1.0 + TYPICAL_PASSES_PER_TARGET * t
        ) * seconds_per_pass
    return 3.0 if plan.dimensions.p > plan.dimensions.n else 2.0, direct_seconds


def _direct_path(samples: CVProblem, alphas: Array) -> PathSolution:
    """The path from one tridiagonal form: of X'X if p <= n, otherwise of X X'."""
    problem, t = samples.problem, samples.n_targets
    n, p = samples.shape
    solve_batch = _solve_primal_batch if p <= n else _solve_dual_batch
    form = tridiagonalize(problem.gram() if p <= n else problem.row_gram())
    coef, bounds, squares = [], [], []
    for batch in _alpha_batches(alphas, t * p):
        W, bound, residual_squares = solve_batch(problem, form, batch)
        coef.append(np.stack(np.split(W, len(batch), axis=1)))
        bounds.append(bound.reshape(len(batch), t))
        squares.append(residual_squares.reshape(len(batch), t))
    theta = form.eigenvalues[:, None]
    effective_dof = (theta / (theta + alphas)).sum(axis=0), np.zeros(len(alphas))
    relative = _relative_bounds(samples, alphas, np.concatenate(bounds))
    all_coef, residuals = np.concatenate(coef), np.concatenate(squares)
    if p <= n:  # in the dual, residuals are known row by row
        residuals = _resolve_cancelled_residuals(problem, all_coef, residuals)
    return PathSolution(all_coef, relative, residuals, lambda: effective_dof, "one factorisation")


def _solve_primal_batch(
    problem: Problem, form: HouseholderTridiagonal, alphas: Array
) -> tuple[Array, Array, Array]:
    """W (p, k), error bounds (k,) and ||y - X w||^2 (k,) for all targets and alphas, k = a t.

    `form` is that of X'X. The targets of the first alpha come first.
    """
    C, column_alphas = np.tile(problem.moments, len(alphas)), np.repeat(alphas, problem.n_targets)
    W, gradient = solve_with_refinement(form, problem.gram(), C, column_alphas)
    spread = np.tile(problem.raw_target_norms, len(alphas))
    bound = gram_error_bound(problem, W, gradient, column_alphas, spread)
    moments_plus_residual = C + gradient + column_alphas * W  # 2 C - X'X W
    fitted = np.einsum("ij,ij->j", W, moments_plus_residual)
    squares = np.tile(problem.target_norms**2, len(alphas)) - fitted
    return W, bound, np.maximum(squares, 0.0)


def _solve_dual_batch(
    problem: Problem, form: HouseholderTridiagonal, alphas: Array
) -> tuple[Array, Array, Array]:
    """As `_solve_primal_batch`, with the form of X X'; one pass."""
    Y, column_alphas = np.tile(problem.targets, len(alphas)), np.repeat(alphas, problem.n_targets)
    c, rho = solve_with_refinement(form, problem.row_gram(), Y, column_alphas)
    expanded = replace(
        problem,
        alphas=column_alphas,
        raw_target_norms=np.tile(problem.raw_target_norms, len(alphas)),
    )
    bound = np.linalg.norm(rho, axis=0) + dual_rounding(expanded, c, from_kernel_matrix=True)
    residual = rho + column_alphas * c  # y - K c
    return problem.design.rmatmat(c), np.asarray(bound), (residual**2).sum(axis=0)


def _resolve_cancelled_residuals(problem: Problem, coef: Array, squares: Array) -> Array:
    """||y - X w||^2, (n_alphas, t), recomputed from X where `squares` has lost digits.

    `squares` is changed in place; one pass for each affected alpha.
    """
    for index in np.flatnonzero(
        (squares < CANCELLATION_THRESHOLD * problem.target_norms**2).any(axis=1)
    ):
        squares[index] = problem.gradient(coef[index])[1] ** 2
    return squares


def _iterated_path(
    samples: CVProblem, alphas: Array, tol: float, rng: np.random.Generator, max_passes: float
) -> PathSolution | None:
    """Solutions for all alphas from one subspace; None if `max_passes` are not enough."""
    problem, t = samples.problem, samples.n_targets
    all_rows = Splits.all_training(samples.shape[0])
    search = IteratedFolds(samples, all_rows, tol / 2, rng=rng, max_passes=max_passes)
    # Solutions of neighbouring alphas are similar, so a few alphas are enough to build most of the
    # subspace.
    order = np.argsort(alphas)
    search.refine(alphas[order[:: max(1, len(alphas) // N_GUIDE_ALPHAS)]])
    search.refine(alphas)
    if search.gave_up:
        return None
    space = search.spaces[0]
    bounds = space.bounds(alphas)
    coef = np.empty((len(alphas), *problem.moments.shape))
    squares = np.empty((len(alphas), t))
    for index, alpha in enumerate(alphas):
        Y = space.solution_coordinates(alphas[index : index + 1])[:, 0]
        W = coef[index] = space.basis @ Y
        # ||y||^2 - 2 w'X'y + w'X'X w
        difference = np.einsum("ij,ij->j", W, space.gram_basis @ Y - 2 * problem.moments)
        squares[index] = np.maximum(problem.target_norms**2 + difference, 0.0)
        alpha_problem = replace(problem, alphas=np.full(t, alpha))
        bounds[index] += gradient_rounding(
            alpha_problem, ZeroMinorant(), W, np.sqrt(squares[index])
        )

    def effective_dof() -> tuple[Array, Array]:
        probing = StochasticGCV(samples, 1.0, N_DOF_PROBES, rng)
        probing.refine(alphas)
        return probing.effective_dof(alphas)

    relative = _relative_bounds(samples, alphas, bounds)
    residual_squares = _resolve_cancelled_residuals(problem, coef, squares)
    return PathSolution(coef, relative, residual_squares, effective_dof, "one subspace, iterated")


def _relative_bounds(samples: CVProblem, alphas: Array, bounds: Array) -> Array:
    """Error bounds of the predictions relative to the spread of y, (n_alphas, t).

    They are 0 for a constant y, which is fitted exactly by coefficients of 0.
    """
    unit = samples.problem.error_scale_for(np.repeat(alphas[:, None], samples.n_targets, axis=1))
    return np.divide(bounds, unit, out=np.zeros_like(bounds), where=unit > 0)


def _alpha_batches(alphas: Array, numbers: int) -> Iterator[Array]:
    """Batches of alphas whose solutions have at most SOLUTION_BATCH_ELEMENTS elements.

    The solutions for one alpha have `numbers` elements.
    """
    step = max(1, SOLUTION_BATCH_ELEMENTS // max(1, numbers))
    return (alphas[start : start + step] for start in range(0, len(alphas), step))
