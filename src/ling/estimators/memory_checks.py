"""Checks of the memory budget before a fit begins, and notes about memory in its report.

What a fit takes is predicted from shapes alone, so a budget that is too small is refused before the
first pass. The error names a budget that the same check accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ling._typing import Array
from ling.errors import Change, OptionError
from ling.estimators.open_data import design_with_budget
from ling.solvers.cost_model import EngineEstimate, vector_bytes
from ling.solvers.dimensions import problem_dimensions
from ling.solvers.machine import parse_memory_budget
from ling.solvers.memory_budget import MemoryBudget, budget_text
from ling.solvers.options import FitOptions
from ling.solvers.planning import Plan, plan_solve
from ling.solvers.problem import TrainingData
from ling.solvers.solve import planned_engines
from ling.wording import format_bytes

# Factor between budgets that are tried until one is enough.
BUDGET_STEP = 1.1

#: Whether the budget of a plan is enough for what is to be done.
AcceptsPlan = Callable[[Plan], bool]


def plan_training(data: TrainingData, n_alphas: int, options: FitOptions) -> Plan:
    """Predicted cost of every engine for a fit to `data` with so many distinct alphas."""
    dimensions = problem_dimensions(
        data.design, data.n_targets, n_alphas, read_bandwidth=options.read_bandwidth,
        is_weighted=data.weights is not None,
    )  # fmt: skip
    memory = MemoryBudget.from_option(options.memory_budget, data.resident_bytes)
    return plan_solve(dimensions, options, memory)


def check_row_memory(
    data: TrainingData, plan: Plan, options: FitOptions, accepts: AcceptsPlan | None = None
) -> None:
    """Raise OptionError if arrays with a number for every sample and target exceed the budget.

    `accepts` says which budgets are enough; by default, those that have room for these arrays.
    """
    if not allows_rows(options, plan):
        accepts = accepts or partial(allows_rows, options, exactly=True)
        raise memory_error(
            f"arrays with a number for every sample and target take about "
            f"{format_bytes(vector_bytes(plan.dimensions))}",
            enough_memory(data, plan, options, accepts),
            plan,
            *(["fit fewer targets at a time"] if data.n_targets > 1 else []),
        )


def allows(options: FitOptions, plan: Plan, n_bytes: float, exactly: bool = False) -> bool:
    """Whether `n_bytes` beside X keep to the budget of a plan, up to what no prediction counts.

    Only a budget of the user's counts. Budgets that errors name have to be kept to `exactly`.
    """
    fits = plan.memory.allows if exactly else plan.memory.tolerates
    return not options.enforces_budget or fits(n_bytes)


def allows_rows(options: FitOptions, plan: Plan, exactly: bool = False) -> bool:
    """Whether arrays with a number for every sample and target keep to the budget of a plan."""
    return allows(options, plan, vector_bytes(plan.dimensions), exactly)


def check_fit_memory(data: TrainingData, plan: Plan, options: FitOptions, alphas: Array) -> None:
    """Raise OptionError unless memory suffices for a fit with `alphas`.

    Coefficients >= 0, and alpha = 0, need an engine that has to fit even a budget by default.
    """
    if allows_fit(options, alphas, plan):
        return
    accepts = partial(allows_fit, options, alphas, exactly=True)
    check_row_memory(data, plan, options, accepts)
    engine = planned_engines(plan, options, alphas)[0]
    needed, p = format_bytes(engine.n_bytes), plan.dimensions.p
    enough = enough_memory(data, plan, options, accepts)
    if options.positive:
        raise OptionError(
            "positive",
            f"`positive`=True takes {needed} for {p} features{_budget_text(plan)}",
            enough,
            "use sklearn.linear_model.Ridge(positive=True), which iterates",
        )
    if not alphas.all():
        raise OptionError(
            "alpha",
            f"is 0, which takes {needed} for the singular values of `X`{_budget_text(plan)}",
            enough,
            "pass a number > 0",
        )
    smaller = options.solver != "auto" and allows(options, plan, plan.steps[0].n_bytes)
    raise memory_error(
        f"{engine.engine} takes about {needed}",
        enough,
        plan,
        *([Change("solver", "auto", "for an engine that takes less")] if smaller else []),
    )


def allows_fit(options: FitOptions, alphas: Array, plan: Plan, exactly: bool = False) -> bool:
    """Whether the first engine for `alphas` keeps to the budget of a plan."""
    engines = planned_engines(plan, options, alphas)
    if options.positive or not alphas.all():
        return engines[0].fits and allows_rows(options, plan, exactly)
    # A faster engine may exceed the budget a little; another one that keeps to it is enough.
    n_bytes = min(engine.n_bytes for engine in engines) if exactly else engines[0].n_bytes
    return allows(options, plan, n_bytes, exactly)


def memory_error(problem: str, enough: Change, plan: Plan, *remedies: Change | str) -> OptionError:
    """The error about a budget that `problem` says to be exceeded."""
    return OptionError(
        "memory_budget",
        f"is {format_bytes(plan.memory.total_bytes)}{_beside_text(plan)}, and {problem}",
        enough,
        *remedies,
    )


def _budget_text(plan: Plan) -> str:
    return f", and `memory_budget` is {format_bytes(plan.memory.total_bytes)}{_beside_text(plan)}"


def _beside_text(plan: Plan) -> str:
    total, resident = plan.memory.total_bytes, plan.memory.resident_bytes
    if not resident:
        return ""
    taken = "all of it" if resident >= total else f"{format_bytes(resident)} of it"
    return f" ({taken} for blocks of `X`)"


def enough_memory(
    data: TrainingData, plan: Plan, options: FitOptions, accepts: AcceptsPlan
) -> Change:
    """The change to the smallest budget, of those that are tried, whose plan is accepted.

    Blocks of X and temporary arrays grow with the budget, so that no formula gives it.
    """
    budget = plan.memory.total_bytes
    while True:
        change = budget_change(BUDGET_STEP * budget)
        budget = parse_memory_budget(str(change.value))
        design, resident_bytes, is_read_once = design_with_budget(data, budget)
        dimensions = problem_dimensions(
            design, data.n_targets, plan.dimensions.n_alphas, is_read_once,
            plan.dimensions.read_bandwidth or options.read_bandwidth,
            plan.dimensions.is_weighted,
        )  # fmt: skip
        larger = plan_solve(dimensions, options, MemoryBudget(budget, resident_bytes))
        if accepts(larger):
            return change


def budget_change(n_bytes: float) -> Change:
    """The change to a budget of at least `n_bytes`, rounded up to two digits."""
    return Change("memory_budget", budget_text(n_bytes))


def memory_notes(
    plan: Plan, step: EngineEstimate, preparation_stage: str, preparation_bytes: float
) -> list[str]:
    """What a report says of a fit that takes more than its memory budget."""
    memory, beside_x = plan.memory, plan.memory.resident_bytes
    beside = f" beside {format_bytes(beside_x)} of X" if beside_x else ""
    n_bytes = vector_bytes(plan.dimensions)
    if not memory.allows(n_bytes):
        needed = format_bytes(n_bytes)
        return [
            f"Arrays with a number for every sample and target alone take about {needed}{beside}, "
            "more than memory_budget."
        ]
    if not memory.allows(preparation_bytes):
        needed = format_bytes(preparation_bytes)
        stage = preparation_stage.capitalize()
        return [f"{stage}: this takes about {needed}{beside}, more than memory_budget."]
    if not memory.tolerates(step.n_bytes):
        return [f"It takes about {format_bytes(step.n_bytes)}{beside}, more than memory_budget."]
    return []
