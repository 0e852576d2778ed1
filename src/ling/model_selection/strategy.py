"""Which way to cross-validate: by factorisations, or by passes that all training sets share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ling._typing import Array
from ling.model_selection.alpha_grid import DEFAULT_N_ALPHAS
from ling.model_selection.cv_problem import CVProblem, HeldOutPredictor
from ling.model_selection.direct_folds import DirectFolds
from ling.model_selection.iterated_folds import DIRECTIONS_PER_PASS, IteratedFolds, StochasticGCV
from ling.model_selection.leave_one_out import ExactLeaveOneOut
from ling.model_selection.splits import Splits
from ling.progress import RemainingWork
from ling.solvers.planning import Plan, pass_seconds

# Scores need less than coefficients do: so many times tol.
CV_TOL_FACTOR = 10.0
# Seconds that exact leave-one-out may be expected to take, unless it is asked for.
MAX_EXACT_LOO_SECONDS = 180.0
# Random vectors that estimate degrees of freedom.
N_GCV_PROBES = 24
# Passes that spaces usually take to be near for all alphas that matter, for each target.
TYPICAL_PASSES_PER_TARGET = 20
# A factorisation is sure of its cost; what iterates has to promise a clear gain.
DIRECT_PREFERENCE = 3.0
# Seconds that one space takes in each pass for what it does with its residuals.
SECONDS_PER_SPACE, SECONDS_PER_FEATURE = 4e-3, 8e-7
# FLOPs of BLAS in the time that a tridiagonal form takes for one, small and large.
TRIDIAGONAL_SLOWDOWN_SMALL, TRIDIAGONAL_LARGE_ORDER, TRIDIAGONAL_SLOWDOWN_LARGE = 2.0, 4000, 3.5


@dataclass(frozen=True, eq=False)
class CVStrategy:
    """How samples are left out, in words, and whether by factorisations."""

    predictor: HeldOutPredictor
    method: str
    is_direct: bool


def leave_one_out_strategy(
    samples: CVProblem, plan: Plan, tol: float, rng: np.random.Generator, stochastic: bool | None
) -> CVStrategy:
    """Exactly where that is in reach of memory and patience, and generalised otherwise."""
    if stochastic is None:
        stochastic = is_exact_loo_infeasible(plan)
    if not stochastic:
        return CVStrategy(ExactLeaveOneOut(samples), "exact leave-one-out", True)
    method = (
        f"generalised cross-validation, its degrees of freedom estimated with {N_GCV_PROBES} "
        f"random "
        "vectors"
    )
    return CVStrategy(StochasticGCV(samples, CV_TOL_FACTOR * tol, N_GCV_PROBES, rng), method, False)


def is_exact_loo_infeasible(plan: Plan) -> bool:
    """Whether exact leave-one-out would take more memory or time than there is."""
    n, p = plan.shape.n, plan.shape.p
    direct, _ = direct_and_pass_seconds(1, DEFAULT_N_ALPHAS, plan)
    direct += 4.0 * max(n, p) * float(min(n, p)) ** 2 / plan.machine.gemm_rate  # leverages
    return direct > MAX_EXACT_LOO_SECONDS


def k_fold_strategies(
    samples: CVProblem, splits: Splits, alphas: Array | None, plan: Plan,
    tol: float, rng: np.random.Generator,
) -> list[CVStrategy]:  # fmt: skip
    """The way that is expected to be faster and, if its cost is not certain, another after it."""
    method = f"cross-validation on {len(splits)} splits"
    n_alphas = DEFAULT_N_ALPHAS if alphas is None else len(alphas)
    direct, a_pass = direct_and_pass_seconds(len(splits), n_alphas, plan)
    ways = []
    if direct < np.inf:
        ways = [CVStrategy(DirectFolds(samples, splits, keep_factors=alphas is None), method, True)]
    if not is_iteration_worthwhile(direct, a_pass, samples.n_targets):
        return ways
    # Iterations may take longer than usual; what they have cost by then is lost.
    max_passes = max(direct / a_pass, TYPICAL_PASSES_PER_TARGET)
    iterated = IteratedFolds(samples, splits, CV_TOL_FACTOR * tol, rng=rng, max_passes=max_passes)
    return [CVStrategy(iterated, f"{method}, iterated", False), *ways]


def expected_cv_cost(
    plan: Plan, n_splits: int | None, n_alphas: int, stochastic: bool | None = None
) -> RemainingWork:
    """Passes and seconds that it takes to choose alpha and to fit with it."""
    s = plan.shape
    direct, a_pass = direct_and_pass_seconds(n_splits or 1, n_alphas, plan)
    if n_splits is None:
        iterates = is_exact_loo_infeasible(plan) if stochastic is None else stochastic
    else:
        iterates = is_iteration_worthwhile(direct, a_pass, s.n_targets)
    if iterates:
        usual, fit = TYPICAL_PASSES_PER_TARGET * s.n_targets, plan.steps[0]
        return usual + fit.passes, usual * a_pass + fit.seconds
    return 1.0 + direct_passes(plan, n_splits), direct if direct < np.inf else None


def direct_passes(plan: Plan, n_splits: int | None) -> float:
    """X'X, that of the rows left out and its sums, predictions; or X X' and coefficients."""
    if plan.shape.p > plan.shape.n:
        return 2.0
    return 3.0 if n_splits is None else 4.0


def is_iteration_worthwhile(direct: float, a_pass: float, n_targets: int) -> bool:
    """Whether passes are expected to take much less than `direct` seconds."""
    return direct > DIRECT_PREFERENCE * TYPICAL_PASSES_PER_TARGET * n_targets * a_pass


def direct_and_pass_seconds(n_splits: int, n_alphas: int, plan: Plan) -> tuple[float, float]:
    """Of factorisations, infinite if they do not fit, and of a pass that all spaces share."""
    s, machine = plan.shape, plan.machine
    a_pass = pass_seconds(s, machine, n_splits * DIRECTIONS_PER_PASS) + n_splits * (
        SECONDS_PER_SPACE + SECONDS_PER_FEATURE * s.p
    )
    t, m, longest = s.n_targets, min(s.n, s.p), max(s.n, s.p)
    if _factorization_bytes(m) > plan.memory_budget:
        return np.inf, a_pass
    forming = 1.0 if n_splits == 1 else 2.0
    forming_passes = 2 + forming
    if s.dense:
        forming *= float(longest) * m * m / machine.gemm_rate
    else:
        forming *= float(s.nnz) ** 2 / longest / machine.sparse
    slower = (
        TRIDIAGONAL_SLOWDOWN_SMALL if m < TRIDIAGONAL_LARGE_ORDER else TRIDIAGONAL_SLOWDOWN_LARGE
    )
    # X is read for means, products and predictions.
    forming = max(forming, forming_passes * pass_seconds(s, machine))
    direct = forming + n_splits * 4 / 3 * float(m) ** 3 * slower / machine.gemm_rate
    return direct + 2.0 * s.n * m * t * n_alphas / machine.gemm_rate, a_pass


def _factorization_bytes(m: int) -> float:
    """X'X or X X', that of the rows left out, the tridiagonal form and its reflections."""
    return 8.0 * 4 * float(m) ** 2
