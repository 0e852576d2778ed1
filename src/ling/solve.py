"""The whole story on one page: plan, solve, certify, and go on if it is not enough."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ling.certificate import certify
from ling.design import Array
from ling.engines import ENGINES, Candidate, Effort
from ling.planning import Plan, Prediction, column_cost, pass_seconds
from ling.problem import Problem
from ling.report import Certificate, Status

# An iteration whose recurrence has drifted is started again from where it is.
ROUNDS = 3


@dataclass(frozen=True)
class Options:
    """What the user asked for; `solver` "auto" leaves the choice to the plan."""

    tol: float = 1e-4
    max_iter: int | None = None
    solver: str = "auto"
    random_state: Any = None


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients, what is proved of them, and how they came about."""

    candidate: Candidate
    certificate: Certificate
    status: Status
    step: Prediction
    seconds: dict[str, float]
    earlier: tuple[str, ...] = ()

    @property
    def coef(self) -> Array:
        """(p, t)."""
        return self.candidate.coef


def solve(problem: Problem, plan: Plan, options: Options) -> Solution:
    """Coefficients within `tol` of the exact ones, or a status that says why not."""
    best: Solution | None = None
    for step, effort in _steps(problem, plan, options):
        for _ in range(ROUNDS):
            found = _attempt(problem, step, effort)
            best = found if best is None else _better(best, found)
            if found.status.is_final:
                return best
            if found.candidate.gave_up or found.candidate.n_iter in (None, options.max_iter):
                break
            effort = replace(effort, start=best.coef)
    assert best is not None  # a plan has at least one step
    return best


def _steps(problem: Problem, plan: Plan, options: Options) -> Iterator[tuple[Prediction, Effort]]:
    """Engines in the order of the plan."""
    steps = plan.steps if options.solver == "auto" else [plan.of(options.solver)]
    for number, step in enumerate(steps):
        worth = _worth(plan, steps[number + 1 :])
        columns = column_cost(plan.shape, plan.machine)
        yield (
            step,
            Effort(
                options.tol, options.random_state, options.max_iter, worth, columns, step.single
            ),
        )


def _worth(plan: Plan, others: list[Prediction]) -> float:
    """Passes after which a direct solution would have been there."""
    direct = [other.seconds for other in others if other.engine == "direct"]
    if not direct:
        return float("inf")
    return min(direct) / pass_seconds(plan.shape, plan.machine)


def _attempt(problem: Problem, step: Prediction, effort: Effort) -> Solution:
    started = time.perf_counter()
    candidate = ENGINES[step.engine](problem, effort)
    solved = time.perf_counter()
    certificate, status = certify(problem, candidate, effort.tol)
    seconds = {"solve": solved - started, "certify": time.perf_counter() - solved}
    return Solution(candidate, certificate, status, step, seconds)


def _better(a: Solution, b: Solution) -> Solution:
    """The one with the smaller bound, having spent the time of both."""
    chosen = b if b.certificate.bound <= a.certificate.bound else a
    seconds = {name: a.seconds[name] + b.seconds[name] for name in a.seconds}
    earlier = a.earlier if a.step == b.step else (*a.earlier, a.step.engine)
    return replace(chosen, seconds=seconds, earlier=earlier)
