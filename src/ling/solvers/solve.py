"""The whole story on one page: plan, solve, certify, and go on if it is not enough."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from ling._typing import Array
from ling.errors import BadOption
from ling.progress import RemainingWork
from ling.results import Certificate, Status
from ling.solvers.certificate import certify
from ling.solvers.cost_model import (
    EngineEstimate,
    PassCosts,
    eigenvalue_bytes,
    estimate_nonnegative,
    pass_seconds,
    svd_bytes,
)
from ling.solvers.engine import Candidate, EngineBudget
from ling.solvers.engines import ENGINES
from ling.solvers.nonnegative import nonnegative
from ling.solvers.options import FitOptions
from ling.solvers.planning import Plan
from ling.solvers.problem import Problem

log = logging.getLogger("ling")
# An iteration whose recurrence has drifted is started again from where it is.
MAX_ATTEMPTS_PER_ENGINE = 3
# Engines whose cost does not depend on much that cannot be known beforehand.
PREDICTABLE_ENGINES = "direct", "row_sketch"


#: Coefficients (p, t), rounded as they will be stored.
CastCoef: TypeAlias = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients, what is proved of them, and how they came about.

    `coarse` is whether they would be within tol, had they not been stored in a coarser dtype.
    """

    candidate: Candidate
    certificate: Certificate
    status: Status
    estimate: EngineEstimate
    seconds: dict[str, float]
    abandoned_engines: tuple[str, ...] = ()
    limited_by_dtype: bool = False

    @property
    def is_final(self) -> bool:
        """Whether nothing could be gained by going on."""
        return self.status.is_final or self.limited_by_dtype

    @property
    def coef(self) -> Array:
        """(p, t)."""
        return self.candidate.coef


def solve(
    problem: Problem,
    plan: Plan,
    options: FitOptions,
    start: Array | None = None,
    cast_coef: CastCoef | None = None,
) -> Solution:
    """Coefficients within `options.tol` of the exact ones, or a status that says why not.

    Iterations start from `start` (p, t). `cast_coef` maps coefficients to what is left of them when
    they are stored in float32; the certificate is for the stored coefficients.
    """
    best: Solution | None = None
    tried: list[str] = []
    for step, budget in _engines_to_try(problem, plan, options):
        tried.append(step.engine)
        log.info(
            "%d x %d by %s, which is expected to take %.2g s, %.3g MB and %.3g passes.",
            *problem.shape, step.engine, step.seconds, step.n_bytes / 1e6, step.passes,
        )  # fmt: skip
        engine_start = start
        for _ in range(MAX_ATTEMPTS_PER_ENGINE):
            solution = _run_engine(problem, step, budget, options, engine_start, cast_coef)
            best = solution if best is None else _better_solution(problem, best, solution)
            if solution.is_final:
                return _with_abandoned_engines(best, tried)
            n_iter = solution.candidate.n_iter
            if solution.candidate.gave_up or n_iter in (None, budget.max_iter):
                break
            iter_left = None if budget.max_iter is None else budget.max_iter - n_iter
            budget, engine_start = replace(budget, max_iter=iter_left), best.coef
        log.info("%s did not get there, or would have taken longer than another.", step.engine)
    assert best is not None  # a plan has at least one step
    return _with_abandoned_engines(best, tried)


def _with_abandoned_engines(best: Solution, tried: list[str]) -> Solution:
    """The solution with the names of the engines that were abandoned before it."""
    return replace(
        best, abandoned_engines=tuple(name for name in tried if name != best.estimate.engine)
    )


def _engines_to_try(
    problem: Problem, plan: Plan, options: FitOptions
) -> Iterator[tuple[EngineEstimate, EngineBudget]]:
    """Engines in the order of the plan, where there is a choice."""
    if options.positive:
        steps = [_estimate_nonnegative(problem, plan)]
    elif (problem.alphas == 0).any():
        steps = [_estimate_min_norm(plan)]
    elif options.solver == "auto":
        steps = _fallback_order(plan.steps)
    else:
        steps = [plan.estimate_for(options.solver)]
    costs = PassCosts.predict(plan.dimensions, plan.machine)
    for number, step in enumerate(steps):
        yield (
            step,
            EngineBudget(
                options.max_iter,
                _max_passes(plan, steps[number + 1 :]),
                step.max_rank,
                plan.memory,
                step.low_precision,
                costs,
            ),
        )


def _fallback_order(steps: list[EngineEstimate]) -> list[EngineEstimate]:
    """If the first choice fails, the problem is harder than was thought: then what is known."""
    return [steps[0], *sorted(steps[1:], key=lambda step: step.engine not in PREDICTABLE_ENGINES)]


def _max_passes(plan: Plan, others: list[EngineEstimate]) -> float:
    """Passes in the predicted time of the fastest other engine whose cost is predictable."""
    seconds = [other.seconds for other in others if other.engine in PREDICTABLE_ENGINES]
    return min(seconds, default=math.inf) / pass_seconds(plan.dimensions, plan.machine)


def _estimate_nonnegative(problem: Problem, plan: Plan) -> EngineEstimate:
    """The only engine for coefficients >= 0; raises BadOption if it does not fit in memory."""
    estimate = estimate_nonnegative(
        plan.dimensions,
        plan.machine,
        len(problem.distinct_alphas),
        has_zero_alpha=bool((problem.alphas == 0).any()),
    )
    if not plan.memory.allows(estimate.n_bytes):
        raise BadOption(
            f"positive=True takes {estimate.n_bytes / 1e6:.3g} MB for {problem.shape[1]} features, "
            f"and memory_budget is {plan.memory_budget / 1e6:.3g} MB; raise it, or use "
            "sklearn.linear_model.Ridge(positive=True), which iterates."
        )
    return estimate


def _estimate_min_norm(plan: Plan) -> EngineEstimate:
    """`direct` for alpha = 0; raises BadOption if it does not fit in memory.

    Without a bound an iteration cannot tell when it has converged. Singular values can, or, if X is
    out of core and does not fit, the eigenvalues of a Gram matrix.
    """
    dimensions = plan.dimensions
    n_bytes = svd_bytes(dimensions.n, dimensions.p)
    if dimensions.is_out_of_core and not plan.memory.allows(n_bytes):
        n_bytes = eigenvalue_bytes(dimensions.n, dimensions.p)
    if not plan.memory.allows(n_bytes):
        raise BadOption(
            f"alpha=0 takes {n_bytes / 1e6:.3g} MB for the singular values of X, and memory_budget "
            f"is {plan.memory_budget / 1e6:.3g} MB; raise it, or pass an alpha above 0."
        )
    return replace(plan.estimate_for("direct"), n_bytes=n_bytes)


def _run_engine(
    problem: Problem,
    step: EngineEstimate,
    budget: EngineBudget,
    options: FitOptions,
    start: Array | None,
    cast_coef: CastCoef | None,
) -> Solution:
    started = time.perf_counter()
    meter = problem.design.meter
    meter.begin_stage(f"solve with {step.engine}", partial(_remaining_cost, problem, step))
    engine = nonnegative if options.positive else ENGINES[step.engine]
    exact = engine(problem, options, budget, start)
    candidate = exact if cast_coef is None else _cast_candidate(problem, exact, cast_coef)
    solved = time.perf_counter()
    meter.begin_stage("certify", lambda: (problem.design.pass_fraction, None))  # at most one pass
    certificate, status = certify(problem, candidate, options.tol, options.positive)
    coarse = (
        candidate is not exact
        and status is Status.NOT_REACHED
        and certify(problem, exact, options.tol, options.positive)[1] is Status.CERTIFIED
    )
    seconds = {"solve": solved - started, "certify": time.perf_counter() - solved}
    return Solution(candidate, certificate, status, step, seconds, limited_by_dtype=coarse)


def _remaining_cost(problem: Problem, step: EngineEstimate) -> RemainingWork:
    """Passes and seconds from here on; the plan counts the pass that made the problem as well."""
    cache = problem.gram_cache
    formed = cache.gram is not None or cache.kernel is not None
    passes = problem.design.pass_fraction * max(0.0, step.passes - 1 - formed)
    return passes, None if formed else step.seconds


def _cast_candidate(problem: Problem, candidate: Candidate, cast_coef: CastCoef) -> Candidate:
    """The candidate as it will be kept, and its engine's bound made to cover that.

    A change d of w moves the error by at most sum_j sqrt(||x_j||^2 + alpha) |d_j|; no pass.
    """
    coef = cast_coef(candidate.coef)
    if candidate.bound is None:
        return replace(candidate, coef=coef)
    lengths = np.sqrt(problem.safe_column_norms[:, None] ** 2 + problem.alphas)
    moved = np.einsum("ij,ij->j", lengths, np.abs(coef - candidate.coef))
    return replace(candidate, coef=coef, bound=candidate.bound + moved)


def _better_solution(problem: Problem, a: Solution, b: Solution) -> Solution:
    """b if it is final, or nearer to the exact solution, having spent the time of both.

    The objective tells, which is least there; bounds that are not met may not.
    """
    chosen = b if b.is_final or _objective(problem, b) <= _objective(problem, a) else a
    seconds = {name: a.seconds[name] + b.seconds[name] for name in a.seconds}
    return replace(
        chosen, seconds=seconds, limited_by_dtype=a.limited_by_dtype or b.limited_by_dtype
    )


def _objective(problem: Problem, solution: Solution) -> float:
    """The largest of all targets' objectives, in units of ||y||^2; one pass."""
    W = solution.coef
    if not np.isfinite(W).all():
        return np.inf
    residual = problem.gradient(W)[1]
    objective = residual**2 + problem.alphas * np.einsum("ij,ij->j", W, W)
    real = problem.target_norms > 0
    return float((objective[real] / problem.target_norms[real] ** 2).max(initial=0.0))
