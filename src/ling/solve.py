"""The whole story on one page: plan, solve, certify, and go on if it is not enough."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ling.certificate import certify
from ling.design import Array
from ling.engines import ENGINES, Candidate, Effort
from ling.engines.nonnegative import COPIES, nonnegative
from ling.errors import BadOption
from ling.planning import (
    MAKING_A_COPY,
    Plan,
    Prediction,
    column_cost,
    copy_cost,
    pass_seconds,
)
from ling.problem import Problem
from ling.progress import Expectation, stage
from ling.report import Certificate, Status

log = logging.getLogger("ling")
# An iteration whose recurrence has drifted is started again from where it is.
ROUNDS = 3
# Engines whose cost does not depend on much that cannot be known beforehand.
KNOWN = "direct", "row_sketch"


@dataclass(frozen=True)
class Options:
    """What the user asked for; `solver` "auto" leaves the choice to the plan.

    `positive` asks for coefficients >= 0. `stored` is what becomes of coefficients that are kept in
    a coarser dtype, None for no change; the certificate is of what is kept. `start` is where
    iterations start from.
    """

    tol: float = 1e-4
    max_iter: int | None = None
    solver: str = "auto"
    random_state: Any = None
    positive: bool = False
    stored: Callable[[Array], Array] | None = None
    start: Array | None = None


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients, what is proved of them, and how they came about.

    `coarse` is whether they would be within tol, had they not been stored in a coarser dtype.
    """

    candidate: Candidate
    certificate: Certificate
    status: Status
    step: Prediction
    seconds: dict[str, float]
    earlier: tuple[str, ...] = ()
    coarse: bool = False

    @property
    def is_final(self) -> bool:
        """Whether nothing could be gained by going on."""
        return self.status.is_final or self.coarse

    @property
    def coef(self) -> Array:
        """(p, t)."""
        return self.candidate.coef


def solve(problem: Problem, plan: Plan, options: Options) -> Solution:
    """Coefficients within `tol` of the exact ones, or a status that says why not."""
    best: Solution | None = None
    tried: list[str] = []
    for step, effort in _steps(problem, plan, options):
        tried.append(step.engine)
        log.info(
            "%d x %d by %s, which is expected to take %.2g s, %.3g MB and %.3g passes.",
            *problem.shape, step.engine, step.seconds, step.n_bytes / 1e6, step.passes,
        )  # fmt: skip
        for _ in range(ROUNDS):
            found = _attempt(problem, step, effort, options)
            best = found if best is None else _better(problem, best, found)
            if found.is_final:
                return _after(best, tried)
            spent = found.candidate.n_iter
            if found.candidate.gave_up or spent in (None, effort.max_iter):
                break
            left = None if effort.max_iter is None else effort.max_iter - spent
            effort = replace(effort, start=best.coef, max_iter=left)
        log.info("%s did not get there, or would have taken longer than another.", step.engine)
    assert best is not None  # a plan has at least one step
    return _after(best, tried)


def _after(best: Solution, tried: list[str]) -> Solution:
    """What else was tried; a fit says so."""
    return replace(best, earlier=tuple(name for name in tried if name != best.step.engine))


def _steps(problem: Problem, plan: Plan, options: Options) -> Iterator[tuple[Prediction, Effort]]:
    """Engines in the order of the plan, where there is a choice."""
    if options.positive:
        steps = [_nonnegative_step(problem, plan)]
    elif (problem.alphas == 0).any():
        steps = [_least_norm_step(problem, plan)]
    else:
        steps = _in_turn(plan.steps) if options.solver == "auto" else [plan.of(options.solver)]
    for number, step in enumerate(steps):
        worth = _worth(plan, steps[number + 1 :])
        effort = Effort(
            options.tol,
            options.random_state,
            options.max_iter,
            worth,
            column_cost=column_cost(plan.shape, plan.machine),
            blas=plan.machine.gemm / plan.machine.threads * pass_seconds(plan.shape, plan.machine),
            single=step.single,
            copying=MAKING_A_COPY,
            copy_cost=copy_cost(plan.shape, plan.machine),
            samples=plan.shape.dense,
            start=options.start,
            most=step.most,
            budget=plan.memory_budget,
        )
        yield step, effort


def _in_turn(steps: list[Prediction]) -> list[Prediction]:
    """If the first choice fails, the problem is harder than was thought: then what is known."""
    return [steps[0], *sorted(steps[1:], key=lambda step: step.engine not in KNOWN)]


def _worth(plan: Plan, others: list[Prediction]) -> float:
    """Passes after which another engine would have been there, one whose cost is known."""
    sure = [other.seconds for other in others if other.engine in KNOWN]
    return min(sure) / pass_seconds(plan.shape, plan.machine) if sure else float("inf")


def _nonnegative_step(problem: Problem, plan: Plan) -> Prediction:
    """Coefficients >= 0: one engine can, and needs room for X'X, for alpha = 0 also for X."""
    n, p = problem.shape
    n_bytes = 8.0 * (COPIES + len(problem.distinct_alphas)) * p * p
    if (problem.alphas == 0).any():
        n_bytes += 24.0 * n * p
    if n_bytes > plan.memory_budget:
        raise BadOption(
            f"positive=True takes {n_bytes / 1e6:.3g} MB for {p} features, and memory_budget is "
            f"{plan.memory_budget / 1e6:.3g} MB; raise it, or use "
            "sklearn.linear_model.Ridge(positive=True), which iterates."
        )
    work = float(n) * p * p + 4.0 * float(p) ** 3 * problem.n_targets
    return Prediction("nonnegative", work / plan.machine.gemm, n_bytes, 2.0)


def _least_norm_step(problem: Problem, plan: Plan) -> Prediction:
    """alpha = 0: without a bound an iteration cannot tell when it is there; singular values can."""
    n, p = problem.shape
    n_bytes = 24.0 * n * p
    if plan.shape.blocked and n_bytes > plan.memory_budget:
        n_bytes = 32.0 * min(n, p) ** 2  # then eigenvalues of a Gram matrix have to do
    if n_bytes > plan.memory_budget:
        raise BadOption(
            f"alpha=0 takes {n_bytes / 1e6:.3g} MB for the singular values of X, and memory_budget "
            f"is {plan.memory_budget / 1e6:.3g} MB; raise it, or pass an alpha above 0."
        )
    return replace(plan.of("direct"), n_bytes=n_bytes)


def _attempt(problem: Problem, step: Prediction, effort: Effort, options: Options) -> Solution:
    started = time.perf_counter()
    stage(f"solve with {step.engine}", partial(_to_come, problem, step))
    engine = nonnegative if options.positive else ENGINES[step.engine]
    exact = engine(problem, effort)
    candidate = exact if options.stored is None else _stored(problem, exact, options.stored)
    solved = time.perf_counter()
    stage("certify", lambda: (problem.design.share, None))  # one pass, and often none
    certificate, status = certify(problem, candidate, effort.tol, options.positive)
    coarse = (
        candidate is not exact
        and status is Status.NOT_REACHED
        and certify(problem, exact, effort.tol, options.positive)[1] is Status.CERTIFIED
    )
    seconds = {"solve": solved - started, "certify": time.perf_counter() - solved}
    return Solution(candidate, certificate, status, step, seconds, coarse=coarse)


def _to_come(problem: Problem, step: Prediction) -> Expectation:
    """Passes and seconds from here on; the plan counts the pass that made the problem as well."""
    formed = "gram" in problem.made or "row gram" in problem.made
    passes = problem.design.share * max(0.0, step.passes - 1 - formed)
    return passes, None if formed else step.seconds


def _stored(problem: Problem, candidate: Candidate, stored: Callable[[Array], Array]) -> Candidate:
    """The candidate as it will be kept, and its engine's bound made to cover that.

    A change d of w moves the error by at most sum_j sqrt(||x_j||^2 + alpha) |d_j|; no pass.
    """
    coef = stored(candidate.coef)
    if candidate.bound is None:
        return replace(candidate, coef=coef)
    lengths = np.sqrt(problem.safe_norms[:, None] ** 2 + problem.alphas)
    moved = np.einsum("ij,ij->j", lengths, np.abs(coef - candidate.coef))
    return replace(candidate, coef=coef, bound=candidate.bound + moved)


def _better(problem: Problem, a: Solution, b: Solution) -> Solution:
    """b if it is final, or nearer to the exact solution, having spent the time of both.

    The objective tells, which is least there; bounds that are not met may not.
    """
    chosen = b if b.is_final or _objective(problem, b) <= _objective(problem, a) else a
    seconds = {name: a.seconds[name] + b.seconds[name] for name in a.seconds}
    return replace(chosen, seconds=seconds, coarse=a.coarse or b.coarse)


def _objective(problem: Problem, solution: Solution) -> float:
    """The largest of all targets' objectives, in units of ||y||^2; one pass."""
    W = solution.coef
    if not np.isfinite(W).all():
        return np.inf
    residual = problem.gradient(W)[1]
    objective = residual**2 + problem.alphas * np.einsum("ij,ij->j", W, W)
    real = problem.spread > 0
    return float((objective[real] / problem.spread[real] ** 2).max(initial=0.0))
