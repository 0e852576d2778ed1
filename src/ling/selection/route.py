"""Which way to cross-validate: by factorisations, or by passes that all training sets share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ling.design import Array
from ling.planning import Plan, pass_seconds
from ling.progress import Expectation
from ling.selection.folds import DirectFolds
from ling.selection.grid import N_ALPHAS
from ling.selection.iterated import WIDTH, IteratedFolds, StochasticLeaveOneOut
from ling.selection.loo import ExactLeaveOneOut
from ling.selection.samples import Samples, Validation
from ling.selection.splits import Splits

# Scores need less than coefficients do: so many times tol.
FOLDS = 10.0
# Seconds that exact leave-one-out may be expected to take, unless it is asked for.
OUT_OF_REACH = 180.0
# Random vectors that estimate degrees of freedom.
PROBES = 24
# Passes that spaces usually take to be near for all alphas that matter, for each target.
USUAL_PASSES = 20
# A factorisation is sure of its cost; what iterates has to promise a clear gain.
SURE = 3.0
# Seconds that one space takes in each pass for what it does with its residuals.
PER_SPACE, PER_FEATURE = 4e-3, 8e-7
# FLOPs of BLAS in the time that a tridiagonal form takes for one, small and large.
SLOWER, LARGE, SLOWEST = 2.0, 4000, 3.5


@dataclass(frozen=True, eq=False)
class Route:
    """How samples are left out, in words, and whether by factorisations."""

    validation: Validation
    method: str
    direct: bool


def leave_one_out(
    samples: Samples, plan: Plan, tol: float, rng: np.random.Generator, stochastic: bool | None
) -> Route:
    """Exactly where that is in reach of memory and patience, and generalised otherwise."""
    if stochastic is None:
        stochastic = out_of_reach(plan)
    if not stochastic:
        return Route(ExactLeaveOneOut(samples), "exact leave-one-out", True)
    method = (
        f"generalised cross-validation, its degrees of freedom estimated with {PROBES} random "
        "vectors"
    )
    return Route(StochasticLeaveOneOut(samples, FOLDS * tol, PROBES, rng), method, False)


def out_of_reach(plan: Plan) -> bool:
    """Whether exact leave-one-out would take more memory or time than there is."""
    n, p = plan.shape.n, plan.shape.p
    direct, _ = seconds(1, N_ALPHAS, plan)
    direct += 4.0 * max(n, p) * float(min(n, p)) ** 2 / plan.machine.gemm  # leverages
    return direct > OUT_OF_REACH


def k_fold(
    samples: Samples, splits: Splits, alphas: Array | None, plan: Plan,
    tol: float, rng: np.random.Generator,
) -> list[Route]:  # fmt: skip
    """The way that is expected to be faster and, if its cost is not certain, another after it."""
    method = f"cross-validation on {len(splits)} splits"
    n_alphas = N_ALPHAS if alphas is None else len(alphas)
    direct, a_pass = seconds(len(splits), n_alphas, plan)
    ways = []
    if direct < np.inf:
        ways = [Route(DirectFolds(samples, splits, keep=alphas is None), method, True)]
    if not iterations_promise_more(direct, a_pass, samples.n_targets):
        return ways
    # Iterations may take longer than usual; what they have cost by then is lost.
    worth = max(direct / a_pass, USUAL_PASSES)
    iterated = IteratedFolds(samples, splits, FOLDS * tol, rng=rng, worth=worth)
    return [Route(iterated, f"{method}, iterated", False), *ways]


def expectation(
    plan: Plan, n_splits: int | None, n_alphas: int, stochastic: bool | None = None
) -> Expectation:
    """Passes and seconds that it takes to choose alpha and to fit with it."""
    s = plan.shape
    direct, a_pass = seconds(n_splits or 1, n_alphas, plan)
    if n_splits is None:
        iterates = out_of_reach(plan) if stochastic is None else stochastic
    else:
        iterates = iterations_promise_more(direct, a_pass, s.n_targets)
    if iterates:
        usual, fit = USUAL_PASSES * s.n_targets, plan.steps[0]
        return usual + fit.passes, usual * a_pass + fit.seconds
    return 1.0 + direct_passes(plan, n_splits), direct if direct < np.inf else None


def direct_passes(plan: Plan, n_splits: int | None) -> float:
    """X'X, that of the rows left out and its sums, predictions; or X X' and coefficients."""
    if plan.shape.p > plan.shape.n:
        return 2.0
    return 3.0 if n_splits is None else 4.0


def iterations_promise_more(direct: float, a_pass: float, n_targets: int) -> bool:
    """Whether passes are expected to take much less than `direct` seconds."""
    return direct > SURE * USUAL_PASSES * n_targets * a_pass


def seconds(n_splits: int, n_alphas: int, plan: Plan) -> tuple[float, float]:
    """Of factorisations, infinite if they do not fit, and of a pass that all spaces share."""
    s, machine = plan.shape, plan.machine
    a_pass = pass_seconds(s, machine, n_splits * WIDTH) + n_splits * (PER_SPACE + PER_FEATURE * s.p)
    t, m, longest = s.n_targets, min(s.n, s.p), max(s.n, s.p)
    if _direct_bytes(m) > plan.memory_budget:
        return np.inf, a_pass
    forming = 1.0 if n_splits == 1 else 2.0
    forming_passes = 2 + forming
    if s.dense:
        forming *= float(longest) * m * m / machine.gemm
    else:
        forming *= float(s.nnz) ** 2 / longest / machine.sparse
    slower = SLOWER if m < LARGE else SLOWEST
    # X is read for means, products and predictions.
    forming = max(forming, forming_passes * pass_seconds(s, machine))
    direct = forming + n_splits * 4 / 3 * float(m) ** 3 * slower / machine.gemm
    return direct + 2.0 * s.n * m * t * n_alphas / machine.gemm, a_pass


def _direct_bytes(m: int) -> float:
    """X'X or X X', that of the rows left out, the tridiagonal form and its reflections."""
    return 8.0 * 4 * float(m) ** 2
