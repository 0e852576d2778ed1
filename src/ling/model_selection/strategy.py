"""Choice of the cross-validation strategy: direct factorisations, or iteration on shared passes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ling._typing import Array
from ling.model_selection.alpha_grid import DEFAULT_N_ALPHAS
from ling.model_selection.cv_problem import CVProblem, HeldOutPredictor
from ling.model_selection.direct_folds import DirectFolds
from ling.model_selection.iterated_folds import DIRECTIONS_PER_PASS, IteratedFolds
from ling.model_selection.leave_one_out import ExactLeaveOneOut
from ling.model_selection.splits import Splits
from ling.model_selection.stochastic_gcv import StochasticGCV
from ling.progress import RemainingWork
from ling.solvers.cv_cost import (
    direct_cv_passes,
    direct_cv_seconds,
    fold_factorization_bytes,
    subspace_pass_seconds,
)
from ling.solvers.planning import Plan

# Tolerance of iterated training fits, as a multiple of the user's tol. Scores need less accuracy
# than coefficients do.
CV_TOL_FACTOR = 10.0
# Predicted seconds up to which exact leave-one-out is the default. Above this, stochastic GCV is
# used, unless the user asks for the exact method.
MAX_EXACT_LOO_SECONDS = 180.0
# Number of random probe vectors that estimate the effective degrees of freedom.
N_GCV_PROBES = 24
# Typical number of passes, per target, until the subspaces contain accurate solutions for all
# alphas that matter.
TYPICAL_PASSES_PER_TARGET = 20
# Iterate only if the direct method is predicted to take more than this many times as long. The
# cost of a factorisation is known in advance, that of an iteration is only a forecast.
MIN_DIRECT_TO_ITERATED_RATIO = 3.0


@dataclass(frozen=True, eq=False)
class CVStrategy:
    """A predictor of held-out samples, with a description of its method for the report.

    `is_direct` is True if the predictor uses factorisations, False if it iterates.
    """

    predictor: HeldOutPredictor
    method: str
    is_direct: bool


def leave_one_out_strategy(
    samples: CVProblem, plan: Plan, tol: float, rng: np.random.Generator, stochastic: bool | None
) -> CVStrategy:
    """The leave-one-out strategy: exact, or generalised cross-validation (GCV).

    With `stochastic=None` the exact method is used if its factorisation fits in the memory budget
    and is predicted to take at most MAX_EXACT_LOO_SECONDS. GCV estimates the effective degrees of
    freedom with random probes.
    """
    obstacle = exact_loo_obstacle(plan) if stochastic is None else ""
    if not (stochastic or obstacle):
        return CVStrategy(ExactLeaveOneOut(samples), "exact leave-one-out", True)
    method = (
        f"generalised cross-validation, its degrees of freedom estimated with {N_GCV_PROBES} "
        "random vectors"
    )
    if obstacle:
        method += f" (exact leave-one-out {obstacle})"
    return CVStrategy(StochasticGCV(samples, CV_TOL_FACTOR * tol, N_GCV_PROBES, rng), method, False)


def exact_loo_obstacle(plan: Plan) -> str:
    """Why exact leave-one-out is not the default: memory, or MAX_EXACT_LOO_SECONDS; "" if it is."""
    n, p = plan.dimensions.n, plan.dimensions.p
    direct_seconds, _ = direct_and_pass_seconds(1, DEFAULT_N_ALPHAS, plan)
    if direct_seconds == np.inf:
        return "does not fit into memory_budget"
    direct_seconds += 4.0 * max(n, p) * float(min(n, p)) ** 2 / plan.machine.gemm_rate  # leverages
    if direct_seconds > MAX_EXACT_LOO_SECONDS:
        return f"is predicted to take {direct_seconds:.0f} s; gcv_mode='eigen' asks for it"
    return ""


def k_fold_strategies(
    samples: CVProblem, splits: Splits, alphas: Array | None, plan: Plan,
    tol: float, rng: np.random.Generator,
) -> list[CVStrategy]:  # fmt: skip
    """Strategies for k-fold cross-validation, in the order in which they are to be tried.

    The direct strategy is left out if its factorisations do not fit in memory. An iterated
    strategy comes first if it is predicted to be clearly faster. As its cost is uncertain, the
    direct one follows as its fallback.
    """
    method = f"cross-validation on {len(splits)} splits"
    n_alphas = DEFAULT_N_ALPHAS if alphas is None else len(alphas)
    direct_seconds, seconds_per_pass = direct_and_pass_seconds(len(splits), n_alphas, plan)
    strategies = []
    if direct_seconds < np.inf:
        strategies = [
            CVStrategy(DirectFolds(samples, splits, keep_factors=alphas is None), method, True)
        ]
    if not is_iteration_worthwhile(direct_seconds, seconds_per_pass, samples.n_targets):
        return strategies
    # The iteration gives up once it has cost as much as the direct method would in total, because
    # its cost so far is lost if the fallback has to run.
    max_passes = max(direct_seconds / seconds_per_pass, TYPICAL_PASSES_PER_TARGET)
    iterated = IteratedFolds(samples, splits, CV_TOL_FACTOR * tol, rng=rng, max_passes=max_passes)
    return [CVStrategy(iterated, f"{method}, iterated", False), *strategies]


def expected_cv_cost(
    plan: Plan, n_splits: int | None, n_alphas: int, stochastic: bool | None = None
) -> RemainingWork:
    """Predicted passes and seconds to choose alpha by cross-validation and to fit with it.

    `n_splits=None` stands for leave-one-out. The seconds are None if they are not known.
    """
    dims = plan.dimensions
    direct_seconds, seconds_per_pass = direct_and_pass_seconds(n_splits or 1, n_alphas, plan)
    if n_splits is None:
        is_iterated = bool(exact_loo_obstacle(plan)) if stochastic is None else stochastic
    else:
        is_iterated = is_iteration_worthwhile(direct_seconds, seconds_per_pass, dims.n_targets)
    if is_iterated:
        cv_passes, fit_step = TYPICAL_PASSES_PER_TARGET * dims.n_targets, plan.steps[0]
        return cv_passes + fit_step.passes, cv_passes * seconds_per_pass + fit_step.seconds
    return 1.0 + direct_cv_passes(
        dims, n_splits
    ), direct_seconds if direct_seconds < np.inf else None


def is_iteration_worthwhile(direct_seconds: float, seconds_per_pass: float, n_targets: int) -> bool:
    """True if the typical number of passes takes far less time than the direct method.

    Both times are predictions.
    """
    typical_seconds = TYPICAL_PASSES_PER_TARGET * n_targets * seconds_per_pass
    return direct_seconds > MIN_DIRECT_TO_ITERATED_RATIO * typical_seconds


def direct_and_pass_seconds(n_splits: int, n_alphas: int, plan: Plan) -> tuple[float, float]:
    """Predicted seconds of all factorisations, and of one pass that all subspaces share.

    The first number is infinite if the factorisations do not fit in the memory budget.
    """
    dimensions, machine = plan.dimensions, plan.machine
    seconds_per_pass = subspace_pass_seconds(dimensions, machine, n_splits, DIRECTIONS_PER_PASS)
    if not plan.memory.allows(fold_factorization_bytes(dimensions.n, dimensions.p)):
        return np.inf, seconds_per_pass
    return direct_cv_seconds(dimensions, machine, n_splits, n_alphas), seconds_per_pass
