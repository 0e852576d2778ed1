"""The plan of a solve: the engines in order of their predicted cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from ling.html_repr import html_table
from ling.linalg import threads
from ling.solvers.cost_model import EngineEstimate, PassCosts, estimate_all
from ling.solvers.dimensions import ProblemDimensions
from ling.solvers.machine import (
    DEFAULT_MACHINE,
    Machine,
    cached_machine,
    measured_machine,
    parse_memory_budget,
)
from ling.solvers.memory_budget import MemoryBudget
from ling.solvers.options import FitOptions
from ling.wording import format_bytes

# Stored entries of X up to which DEFAULT_MACHINE is used. Such a fit takes milliseconds, and
# reading the speeds from the cache would be part of them.
MAX_UNMEASURED_ENTRIES = 2**18
# Predicted seconds from which a fit measures the machine, if the cache has no speeds. Measuring
# takes up to half a second, and two more to compile loops that the fit itself may not need.
MIN_SECONDS_TO_MEASURE = 5.0
# `direct` is preferred because its cost does not depend on the spectrum: its predicted seconds are
# multiplied by DIRECT_PREFERENCE, or by LONG_DIRECT_PREFERENCE from LONG_FIT_SECONDS on. An
# iterative engine finds out from a sample whether it pays; in a long fit that check costs little.
DIRECT_PREFERENCE, LONG_FIT_SECONDS, LONG_DIRECT_PREFERENCE = 0.5, 10.0, 0.9
# Engines whose bytes differ by less than this factor need equal memory: predictions are no better,
# and arrays of n_samples x n_targets numbers, which all of them need, are most of such peaks.
EQUAL_MEMORY_FACTOR = 1.1
TOO_LARGE = "does not fit the memory budget"
SLIGHTLY_TOO_LARGE = "slightly above the memory budget"
# The columns of a printed plan; the last one holds remarks.
PLAN_COLUMNS = ("engine", "predicted", "memory", "passes", "")


@dataclass(frozen=True)
class Plan:
    """Estimates for all engines, cheapest first; `print` and notebooks show them as a table.

    Attributes
    ----------
    dimensions : ProblemDimensions
    estimates : tuple of EngineEstimate
        Engines that do not fit the memory budget come last.
    memory : MemoryBudget
        What a fit may use in addition to the data.
    machine : Machine
    """

    dimensions: ProblemDimensions
    estimates: tuple[EngineEstimate, ...]
    memory: MemoryBudget
    machine: Machine

    @property
    def memory_budget(self) -> float:
        """Bytes that a fit may use in addition to the data."""
        return self.memory.n_bytes

    @cached_property
    def steps(self) -> tuple[EngineEstimate, ...]:
        """Engines to try, in order: those that fit, or else one that needs little memory.

        That is the one with the fewest passes of those that need about the least memory.
        """
        fitting = tuple(estimate for estimate in self.estimates if estimate.fits)
        if fitting:
            return fitting
        least = min(p.n_bytes for p in self.estimates)
        smallest = [p for p in self.estimates if p.n_bytes <= EQUAL_MEMORY_FACTOR * least]
        return (min(smallest, key=lambda p: p.passes),)

    @cached_property
    def pass_costs(self) -> PassCosts:
        """What the steps of an engine cost, in passes."""
        return PassCosts.predict(self.dimensions, self.machine)

    def estimate_for(self, engine: str) -> EngineEstimate:
        """The estimate for one engine."""
        return next(p for p in self.estimates if p.engine == engine)

    @property
    def _title(self) -> str:
        s = self.dimensions
        kind = "dense" if s.dense else f"sparse, {s.nnz} stored"
        problem = f"{s.n} x {s.p} {kind}, {s.n_targets} target(s), {s.n_alphas} alpha(s); "
        budget = f"budget {format_bytes(self.memory.total_bytes)}"
        if self.memory.resident_bytes:
            left = self.memory.total_bytes - self.memory.resident_bytes
            beside = f"{format_bytes(left)} beside" if left > 0 else "all of it for"
            budget += f", {beside} X in memory"
        return problem + budget

    @property
    def _rows(self) -> list[tuple[str, str, str, str, str]]:
        return [
            (
                p.engine, f"{p.seconds:.3g} s", format_bytes(p.n_bytes), f"{p.passes:.0f}",
                self._remark(p),
            )
            for p in self.estimates
        ]  # fmt: skip

    def _remark(self, estimate: EngineEstimate) -> str:
        choice = "first choice" if estimate is self.steps[0] else ""
        if estimate.fits and not self.memory.allows(estimate.n_bytes):
            return f"{choice}, {SLIGHTLY_TOO_LARGE}" if choice else SLIGHTLY_TOO_LARGE
        if estimate.fits:
            return choice
        return f"{choice}, needs little memory, {TOO_LARGE}" if choice else TOO_LARGE

    @property
    def _notes(self) -> list[str]:
        first = self.steps[0]
        fastest = min(p.seconds for p in self.estimates if p.fits is first.fits)
        if first.engine == "direct" and first.seconds > fastest:
            return ["direct is preferred to what may be faster, as its cost is certain."]
        return []

    def __str__(self) -> str:
        lines = [
            f"{engine:<12}{seconds:>12}{memory:>14}{passes:>9}   {remark}".rstrip()
            for engine, seconds, memory, passes, remark in [PLAN_COLUMNS, *self._rows]
        ]
        return "\n".join([self._title, *lines, *self._notes])

    def __repr__(self) -> str:
        s = self.dimensions
        estimates = ", ".join(f"{engine} {seconds}" for engine, seconds, *_ in self._rows)
        return f"<Plan for {s.n} x {s.p}: {estimates}>"

    def _repr_html_(self) -> str:
        return html_table(self._title, self._rows, self._notes, PLAN_COLUMNS)


def plan_solve(
    shape: ProblemDimensions, options: FitOptions, memory: MemoryBudget | None = None
) -> Plan:
    """Plan with an estimate for every engine: cheapest first, those that do not fit last.

    `memory` is less than `options.memory_budget` if X itself takes part of it; None for all of it.
    Without `options.machine`, speeds of the machine come from the cache. If it has none, they are
    measured for long fits, and DEFAULT_MACHINE is used for others.
    """
    machine = options.machine or machine_for(shape, options)
    if memory is None:
        memory = MemoryBudget.from_option(options.memory_budget)
    return _make_plan(shape, machine, memory, options.precision, options.tol, threads.n_threads())


@lru_cache(maxsize=256)
def _make_plan(
    shape: ProblemDimensions,
    machine: Machine,
    memory: MemoryBudget,
    precision: str,
    tol: float,
    _n_threads: int,
) -> Plan:
    """The plan, cached; bytes depend on the number of threads, so that it is part of the key."""
    predictions = estimate_all(shape, machine, precision, tol)
    by_engine: dict[str, EngineEstimate] = {}
    for estimate in predictions:  # keep the first variant of an engine that fits
        if estimate.engine not in by_engine or not by_engine[estimate.engine].fits:
            fits = memory.tolerates(estimate.n_bytes)
            by_engine[estimate.engine] = estimate if fits else replace(estimate, fits=False)
    estimates = sorted(by_engine.values(), key=lambda p: (not p.fits, _discounted_seconds(p)))
    return Plan(shape, tuple(estimates), memory, machine)


def machine_for(shape: ProblemDimensions, options: FitOptions) -> Machine:
    """The speeds to plan with; the same for equal problems, all the time that a process runs."""
    if shape.nnz <= MAX_UNMEASURED_ENTRIES:
        return DEFAULT_MACHINE
    cached = cached_machine()
    if cached is not None:
        return cached
    predictions = estimate_all(shape, DEFAULT_MACHINE, options.precision, options.tol)
    is_long = min(estimate.seconds for estimate in predictions) >= MIN_SECONDS_TO_MEASURE
    return measured_machine() if is_long else DEFAULT_MACHINE


def _discounted_seconds(prediction: EngineEstimate) -> float:
    """Predicted seconds, discounted for `direct`, whose cost does not depend on the spectrum."""
    if prediction.engine != "direct":
        return prediction.seconds
    return prediction.seconds * (
        DIRECT_PREFERENCE if prediction.seconds < LONG_FIT_SECONDS else LONG_DIRECT_PREFERENCE
    )


def plan_as_dict(plan: Plan, options: FitOptions) -> dict[str, Any]:
    """The plan of a fit with these options in plain numbers and text, as in `FitReport.plan`."""
    # Small problems are planned with fixed speeds everywhere, which are not recorded.
    is_small = plan.dimensions.nnz <= MAX_UNMEASURED_ENTRIES
    has_fixed_speeds = is_small and plan.machine == DEFAULT_MACHINE
    speeds = {} if has_fixed_speeds else dict(vars(plan.machine))
    if plan.dimensions.read_bandwidth is not None:
        speeds = {**vars(plan.machine), "read_bandwidth": plan.dimensions.read_bandwidth}
    return {
        "steps": tuple(
            {
                "engine": step.engine,
                "seconds": float(step.seconds),
                "bytes": float(step.n_bytes),
                "passes": float(step.passes),
                "max_rank": int(step.max_rank),
            }
            for step in plan.steps
        ),
        "speeds": speeds or None,
        "memory_budget": parse_memory_budget(options.memory_budget),
        "threads": threads.n_threads(),
    }
