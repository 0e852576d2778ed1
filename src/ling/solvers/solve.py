"""Solve a ridge problem: run the planned engines in turn until a solution is certified."""

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
from ling.design.arrays import CACHED_ELEMENTS, row_slices
from ling.linalg import threads
from ling.progress import RemainingWork
from ling.results import Certificate, Status
from ling.solvers.certificate import certify
from ling.solvers.cost_model import (
    SECONDS_PER_LOOK,
    EngineEstimate,
    compiled_iteration_seconds,
    eigenvalue_bytes,
    estimate_nonnegative,
    look_seconds,
    pass_seconds,
    svd_bytes,
)
from ling.solvers.engine import Candidate, EngineBudget
from ling.solvers.engines import ENGINES
from ling.solvers.nonnegative import nonnegative
from ling.solvers.nystrom import forecast_without_sketch
from ling.solvers.options import FitOptions
from ling.solvers.planning import Plan
from ling.solvers.problem import Problem
from ling.solvers.two_stage import MAX_FORECAST_FRACTION
from ling.wording import format_bytes

log = logging.getLogger("ling")
# Runs of one engine in all. An iteration whose recursive residual has drifted from the true one is
# restarted from its current coefficients.
MAX_ATTEMPTS_PER_ENGINE = 3
# two_stage looks at a few rows first if that takes at most this fraction of the time of `direct`,
# and if so many iterations would be faster than `direct`.
MAX_LOOK_FRACTION, MIN_ITERATIONS = 0.07, 4


#: Function that rounds coefficients (p, t) to the dtype in which they will be stored.
CastCoef: TypeAlias = Callable[[Array], Array]
#: A candidate for a problem that follows from what was computed before, or None.
FindCandidate: TypeAlias = Callable[[Problem], Candidate | None]


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients with their certificate, and how they were computed.

    Attributes
    ----------
    candidate : Candidate
        The result of the engine, with coefficients rounded to the dtype in which they are stored.
    certificate : Certificate
    status : Status
    estimate : EngineEstimate
        The engine and its predicted cost.
    seconds : dict of str to float
        Time of the stages "solve" and "certify", over all engines that were tried.
    abandoned_engines : tuple of str
        Engines that were tried before without success.
    computed_bounds : array of shape (t,)
        Bounds of the coefficients as computed in float64, before they were rounded to the dtype in
        which they are stored; those of the certificate if that is within tol, or without rounding.
    limited_by_mean : bool
        Whether tol is missed because a mean is too large beside the spread of y for float64.
    """

    candidate: Candidate
    certificate: Certificate
    status: Status
    estimate: EngineEstimate
    seconds: dict[str, float]
    computed_bounds: Array
    abandoned_engines: tuple[str, ...] = ()
    limited_by_mean: bool = False

    @property
    def is_final(self) -> bool:
        """True if neither another run nor another engine could improve the solution."""
        return self.status.is_final

    def with_added_error(self, error: Array, rounding_error: Array | float = 0.0) -> Solution:
        """The solution with larger relative bounds, and the status that follows from them.

        `error` (t,) is one of computation in float64, and `rounding_error` (t,) one of rounding to
        the dtype in which results are stored.
        """
        tol = self.certificate.tol
        certificate = replace(
            self.certificate, bounds=self.certificate.bounds + error + rounding_error
        )
        computed = Certificate(self.computed_bounds + error, tol)
        return replace(
            self,
            certificate=certificate,
            computed_bounds=computed.bounds,
            status=_status_after_rounding(self.status, certificate, computed),
        )

    @property
    def coef(self) -> Array:
        """Coefficients (p, t)."""
        return self.candidate.coef


def solve(
    problem: Problem,
    plan: Plan,
    options: FitOptions,
    start: Array | None = None,
    cast_coef: CastCoef | None = None,
    find_candidate: FindCandidate | None = None,
) -> Solution:
    """Coefficients within `options.tol` of the exact ones, or a status that says why not.

    The distance is that of the training predictions, relative to ||y||; see `certify`. Iterations
    start from `start` (p, t). `cast_coef` rounds coefficients to the dtype in which they are
    stored, such as float32; the certificate is for the rounded coefficients. `find_candidate` gives
    coefficients that follow from an earlier factorisation; engines run if they are not certified.
    """
    if find_candidate is not None:
        started, estimate = time.perf_counter(), plan.estimate_for("direct")
        _begin_solve(problem, estimate)
        candidate = find_candidate(problem)
        if candidate is not None:
            solution = certify_candidate(problem, candidate, estimate, options, cast_coef, started)
            if solution.is_final:
                return solution
    best: Solution | None = None
    tried: list[str] = []
    for estimate, budget in _engines_to_try(problem, plan, options):
        if log.isEnabledFor(logging.INFO):
            log.info(
                "%d x %d by %s, which is expected to take %.2g s, %s and %.3g passes.",
                *problem.shape, estimate.engine, estimate.seconds,
                format_bytes(estimate.n_bytes), estimate.passes,
            )  # fmt: skip
        engine_start = start
        for _ in range(MAX_ATTEMPTS_PER_ENGINE):
            solution = _run_engine(problem, estimate, budget, options, engine_start, cast_coef)
            best = solution if best is None else _better_solution(problem, best, solution)
            if solution.is_final:
                return _with_abandoned_engines(best, tried)
            n_iter = solution.candidate.n_iter
            if solution.candidate.gave_up or n_iter in (None, budget.max_iter):
                break
            remaining_iter = None if budget.max_iter is None else budget.max_iter - n_iter
            budget, engine_start = replace(budget, max_iter=remaining_iter), best.coef
        if not (solution.candidate.gave_up and n_iter == 0):  # else it has declined to iterate
            tried.append(estimate.engine)
        log.info(
            "%s is abandoned: it did not reach tol, or another engine is expected to be faster.",
            estimate.engine,
        )
    assert best is not None  # a plan has at least one engine
    return _with_abandoned_engines(best, tried)


def _with_abandoned_engines(best: Solution, tried: list[str]) -> Solution:
    """The solution with the names of the engines that were abandoned before it."""
    abandoned = tuple(name for name in tried if name != best.estimate.engine)
    return replace(best, abandoned_engines=abandoned) if abandoned else best


def _engines_to_try(
    problem: Problem, plan: Plan, options: FitOptions
) -> Iterator[tuple[EngineEstimate, EngineBudget]]:
    """Yield the engines to try, in order, each with its budget."""
    estimates = planned_engines(plan, options, problem.alphas)
    estimates = _with_iterations_first(problem, plan, estimates, options.tol)
    for number, estimate in enumerate(estimates):
        yield (
            estimate,
            EngineBudget(
                options.max_iter,
                _max_passes(plan, estimates[number + 1 :]),
                estimate.max_rank,
                plan.memory,
                estimate.low_precision,
                estimate.max_refinement_passes,
                plan.pass_costs,
                max_sample_rows=estimate.max_sample_rows,
            ),
        )


def planned_engines(plan: Plan, options: FitOptions, alphas: Array) -> list[EngineEstimate]:
    """Estimates of the engines to try for these alphas, in order.

    A single engine is tried if coefficients have to be >= 0, if an alpha is 0, or if the user has
    chosen a solver.
    """
    if options.positive:
        return [_estimate_nonnegative(plan, alphas)]
    if not alphas.all():
        return [_estimate_min_norm(plan)]
    if options.solver == "auto":
        return list(plan.steps)
    return [plan.estimate_for(options.solver)]


def _with_iterations_first(
    problem: Problem, plan: Plan, estimates: list[EngineEstimate], tol: float
) -> list[EngineEstimate]:
    """The estimates with two_stage first if it may be faster than `direct` for this problem.

    A plan knows neither alpha nor the spectrum of X. An engine that takes longer than expected
    gives up.
    """
    two_stage = [estimate for estimate in estimates if estimate.engine == "two_stage"]
    if estimates[0].engine != "direct" or not two_stage:
        return estimates
    if plan.dimensions.can_iterate:
        may_be_faster = _expects_few_iterations(problem, plan, tol)
    else:
        may_be_faster = _is_look_worthwhile(plan)
    if not may_be_faster:
        return estimates
    return two_stage + [estimate for estimate in estimates if estimate not in two_stage]


def _expects_few_iterations(problem: Problem, plan: Plan, tol: float) -> bool:
    """Whether alpha shows that a small sparse X needs few iterations."""
    iterations = forecast_without_sketch(problem, tol)
    n_steps = iterations * problem.n_targets
    seconds = n_steps * compiled_iteration_seconds(plan.dimensions, plan.machine)
    return seconds <= plan.estimate_for("direct").seconds


def _is_look_worthwhile(plan: Plan) -> bool:
    """Whether a look at a few rows of dense X in memory, which two_stage begins with, is cheap.

    It shows whether few iterations are enough.
    """
    dimensions, direct = plan.dimensions, plan.estimate_for("direct")
    is_short = direct.seconds * MAX_LOOK_FRACTION < SECONDS_PER_LOOK
    if is_short or not dimensions.dense or dimensions.is_out_of_core:
        return False
    few = MIN_ITERATIONS * pass_seconds(dimensions, plan.machine, dimensions.n_targets)
    return (
        look_seconds(dimensions, plan.machine) <= MAX_LOOK_FRACTION * direct.seconds
        and few <= MAX_FORECAST_FRACTION * direct.seconds
    )


def _max_passes(plan: Plan, others: list[EngineEstimate]) -> float:
    """Passes in the predicted seconds of `direct`, if it is one of the `others`; else infinite.

    The cost of `direct` does not depend on the spectrum of X, so its prediction can be relied on.
    """
    seconds = (other.seconds for other in others if other.engine == "direct")
    return next(seconds, math.inf) / pass_seconds(plan.dimensions, plan.machine)


def _estimate_nonnegative(plan: Plan, alphas: Array) -> EngineEstimate:
    """The estimate for the only engine for W >= 0."""
    estimate = estimate_nonnegative(
        plan.dimensions,
        plan.machine,
        len(np.unique(alphas)),
        has_zero_alpha=not alphas.all(),
    )
    return replace(estimate, fits=plan.memory.allows(estimate.n_bytes))


def _estimate_min_norm(plan: Plan) -> EngineEstimate:
    """The estimate for `direct` with alpha = 0.

    There is no error bound for alpha = 0, so an iteration cannot tell when it has converged.
    `direct` uses the singular value decomposition of X or, if X is out of core and that does not
    fit in memory, the eigenvalues of a Gram matrix.
    """
    dimensions = plan.dimensions
    n_bytes = svd_bytes(dimensions.n, dimensions.p)
    if dimensions.is_out_of_core and not plan.memory.allows(n_bytes):
        n_bytes = eigenvalue_bytes(dimensions.n, dimensions.p)
    fits = plan.memory.allows(n_bytes)
    return replace(plan.estimate_for("direct"), n_bytes=n_bytes, fits=fits)


def _run_engine(
    problem: Problem,
    estimate: EngineEstimate,
    budget: EngineBudget,
    options: FitOptions,
    start: Array | None,
    cast_coef: CastCoef | None,
) -> Solution:
    """Run an engine from `start` (p, t), round its coefficients and certify them."""
    started = time.perf_counter()
    _begin_solve(problem, estimate)
    engine = nonnegative if options.positive else ENGINES[estimate.engine]
    candidate = engine(problem, options, budget, start)
    return certify_candidate(problem, candidate, estimate, options, cast_coef, started)


def _begin_solve(problem: Problem, estimate: EngineEstimate) -> None:
    """Report that an engine begins."""
    expect = partial(_remaining_cost, problem, estimate)
    problem.design.meter.begin_stage(f"solve with {estimate.engine}", expect)


def certify_candidate(
    problem: Problem,
    exact: Candidate,
    estimate: EngineEstimate,
    options: FitOptions,
    cast_coef: CastCoef | None,
    started: float,
) -> Solution:
    """Round the coefficients of a candidate, certify them and return the solution.

    `estimate` is that of the engine which gave the candidate, `started` the `time.perf_counter()`
    at its start.
    """
    candidate = exact if cast_coef is None else _cast_candidate(problem, exact, cast_coef)
    solved, meter = time.perf_counter(), problem.design.meter
    meter.begin_stage("certify", lambda: (problem.design.pass_fraction, None))  # at most one pass
    certificate, status = certify(problem, candidate, options.tol, options.positive)
    computed = certificate
    if candidate is not exact and status is Status.NOT_REACHED:
        computed = certify(problem, exact, options.tol, options.positive)[0]
        status = _status_after_rounding(status, certificate, computed)
    seconds = {"solve": solved - started, "certify": time.perf_counter() - solved}
    return Solution(candidate, certificate, status, estimate, seconds, computed.bounds)


def _status_after_rounding(
    status: Status, certificate: Certificate, computed: Certificate
) -> Status:
    """The status of rounded results, whose bounds were `computed` before they were rounded.

    `status` is an earlier one: where no bound exists, this does not change.
    """
    if status is Status.UNCERTIFIED:
        return status
    if certificate.holds:
        return Status.CERTIFIED
    return Status.ROUNDED if computed.holds else Status.NOT_REACHED


def _remaining_cost(problem: Problem, estimate: EngineEstimate) -> RemainingWork:
    """Predicted passes and seconds of an engine run from now on.

    The estimate includes the pass that built the problem, and one for a Gram matrix, which may be
    in the cache already. Its seconds are not valid in that case, and None is returned.
    """
    cache = problem.gram_cache
    has_gram = cache.formed_gram is not None or cache.formed_kernel is not None
    passes = problem.design.pass_fraction * max(0.0, estimate.passes - 1 - has_gram)
    return passes, None if has_gram else estimate.seconds


def _cast_candidate(problem: Problem, candidate: Candidate, cast_coef: CastCoef) -> Candidate:
    """The candidate with rounded coefficients, and its bound increased by the rounding error.

    By the triangle inequality, a change d of w increases the error sqrt(||X e||^2 + alpha ||e||^2)
    by at most sum_j sqrt(||x_j||^2 + alpha) |d_j|; no pass.
    """
    coef = cast_coef(candidate.coef)
    if candidate.bound is None:
        return replace(candidate, coef=coef)
    t = coef.shape[1]
    alphas = problem.alphas if len(problem.distinct_alphas) > 1 else problem.distinct_alphas
    height = max(1, CACHED_ELEMENTS // t)

    def rounding(part: slice) -> Array:
        total = np.zeros(t)
        for rows in row_slices(part.stop - part.start, height):
            rows = slice(part.start + rows.start, part.start + rows.stop)
            lengths = np.sqrt(problem.safe_column_norms[rows, None] ** 2 + alphas)
            total += np.einsum("ij,ij->j", lengths, np.abs(coef[rows] - candidate.coef[rows]))
        return total

    bound = candidate.bound + threads.parallel_sum(rounding, threads.row_parts(coef))
    return replace(candidate, coef=coef, bound=bound)


def _better_solution(problem: Problem, a: Solution, b: Solution) -> Solution:
    """The better of two solutions, with the seconds of both: b if it is final, else by objective.

    The objective is smallest at the exact solution. Bounds above tol may be too loose to show which
    solution is closer to it.
    """
    better = b if b.is_final or _objective(problem, b) <= _objective(problem, a) else a
    seconds = {name: a.seconds[name] + b.seconds[name] for name in a.seconds}
    return replace(better, seconds=seconds)


def _objective(problem: Problem, solution: Solution) -> float:
    """The largest objective of all targets, relative to ||y||^2; at most one pass.

    Infinite if a coefficient is not finite. Targets with y = 0 are left out.
    """
    W = solution.coef
    if not np.isfinite(W).all():
        return np.inf
    objectives = problem.residual_squares(W) + problem.alphas * np.einsum("ij,ij->j", W, W)
    nonzero = problem.target_norms > 0
    return float((objectives[nonzero] / problem.target_norms[nonzero] ** 2).max(initial=0.0))
