"""Which way to cross-validate: by factorisations, or by passes that all training sets share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ling.planning import Plan, pass_seconds
from ling.selection.choice import Validation
from ling.selection.folds import DirectFolds
from ling.selection.iterated import WIDTH, IteratedFolds, StochasticLeaveOneOut
from ling.selection.loo import ExactLeaveOneOut
from ling.selection.samples import Rows, Samples

# Scores need less than coefficients do: so many times tol.
FOLDS = 10.0
# Those that estimate degrees of freedom.
PROBES = 24
# Passes that spaces usually take to be near for all alphas that matter, for each target.
USUAL_PASSES = 20
# A factorisation is sure of its cost; what iterates has to promise a clear gain.
SURE = 2.0
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
    """Exactly where X'X or X X' fits in memory, by generalised cross-validation otherwise."""
    if stochastic is None:
        stochastic = _direct_bytes(samples) > plan.memory_budget
    if not stochastic:
        return Route(ExactLeaveOneOut(samples), "exact leave-one-out", True)
    method = (
        f"generalised cross-validation, its degrees of freedom estimated with {PROBES} random "
        "vectors"
    )
    return Route(StochasticLeaveOneOut(samples, FOLDS * tol, PROBES, rng), method, False)


def k_fold(
    samples: Samples, splits: Sequence[tuple[Rows, Rows]], n_alphas: int, plan: Plan, tol: float,
) -> Route:  # fmt: skip
    """Whichever is expected to be faster and fits."""
    method = f"cross-validation on {len(splits)} splits"
    if direct_pays(samples, len(splits), n_alphas, plan):
        return Route(DirectFolds(samples, splits), method, True)
    return Route(IteratedFolds(samples, splits, FOLDS * tol), f"{method}, iterated", False)


def direct_pays(samples: Samples, n_splits: int, n_alphas: int, plan: Plan) -> bool:
    """Whether factorisations fit, and are not much slower than passes."""
    if _direct_bytes(samples) > plan.memory_budget:
        return False
    s, machine = plan.shape, plan.machine
    t, m, longest = samples.n_targets, min(s.n, s.p), max(s.n, s.p)
    forming = 2.0 * longest * m * m / machine.gemm
    if not s.dense:
        forming = 2.0 * float(s.nnz) ** 2 / longest / machine.sparse
    slower = SLOWER if m < LARGE else SLOWEST
    direct = forming + n_splits * 4 / 3 * float(m) ** 3 * slower / machine.gemm
    direct += 2.0 * s.n * m * t * n_alphas / machine.gemm
    iterated = USUAL_PASSES * t * pass_seconds(s, machine, n_splits * WIDTH)
    return direct <= SURE * iterated


def _direct_bytes(samples: Samples) -> float:
    """X'X or X X', that of the rows left out, the tridiagonal form and its reflections."""
    return 8.0 * 4 * float(min(samples.shape)) ** 2
