"""The interface of the engines: their budget, and the candidate solution they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import numpy as np

from ling._typing import Array
from ling.errors import ClusterLostError
from ling.solvers.certificate import Minorant, ZeroMinorant
from ling.solvers.cost_model import (
    MAX_SAMPLE_ROWS,
    MAX_SKETCH_RANK,
    TYPICAL_PASS_COSTS,
    PassCosts,
)
from ling.solvers.memory_budget import UNLIMITED_MEMORY, MemoryBudget

# The seed that `random_state=None` stands for, so that fits are reproducible by default.
DEFAULT_SEED = 0


def as_generator(state: Any) -> np.random.Generator:
    """NumPy Generator from a random_state: None, an integer, a RandomState or a Generator.

    None stands for DEFAULT_SEED. A RandomState advances with every call. A Generator is returned
    itself, so it advances with every draw.
    """
    if isinstance(state, np.random.RandomState):
        state = int(state.randint(2**31 - 1))
    return np.random.default_rng(DEFAULT_SEED if state is None else state)


def integer_seed(state: Any) -> int | None:
    """The seed that a random_state stands for; None if it is an object that advances."""
    if state is None:
        return DEFAULT_SEED
    return int(state) if isinstance(state, Integral) else None


@contextmanager
def attach_partial_solution(iterate: Callable[[], Array]) -> Iterator[None]:
    """Raise a ClusterLostError of the block again, with the current coefficients `iterate()`."""
    try:
        yield
    except ClusterLostError as error:
        raise ClusterLostError(str(error), iterate()) from error


@dataclass(frozen=True)
class EngineBudget:
    """Limits and cost factors for one engine run. Costs are in passes over X.

    Attributes
    ----------
    max_iter : int or None
        Largest number of iterations; None means no limit.
    max_passes : float
        Passes after which another engine would have been cheaper. An engine that expects to need
        more gives up.
    max_rank : int
        Largest rank that memory was planned for.
    memory : MemoryBudget
        Bytes that may be used.
    low_precision : bool
        Whether float32, or a quantized copy of X, may be used where it is cheaper.
    max_refinement_passes : float
        Passes that may correct a solution in lower precision before float64 would be faster.
    costs : PassCosts
        What the steps of an engine cost.
    n_iter_done : int
        Iterations that were done before.
    max_sample_rows : int
        Largest sample of rows that memory was planned for.
    """

    max_iter: int | None = None
    max_passes: float = float("inf")
    max_rank: int = MAX_SKETCH_RANK
    memory: MemoryBudget = UNLIMITED_MEMORY
    low_precision: bool = False
    max_refinement_passes: float = float("inf")
    costs: PassCosts = TYPICAL_PASS_COSTS
    n_iter_done: int = 0
    max_sample_rows: int = MAX_SAMPLE_ROWS

    def iterations_affordable(self, n_targets: int) -> float:
        """Number of iterations on X that `max_passes` allow."""
        return self.max_passes / self.costs.iteration_cost(n_targets)

    def remaining_after(self, iterations: int, iteration_cost: float) -> EngineBudget:
        """The budget that remains after `iterations` that cost so many passes each."""
        max_iter = None if self.max_iter is None else max(0, self.max_iter - iterations)
        return replace(
            self,
            max_iter=max_iter,
            max_passes=self.max_passes - iterations * iteration_cost,
            n_iter_done=self.n_iter_done + iterations,
        )

    def total_iteration_cost(self, iterations: float, n_targets: int) -> float:
        """Cost of `iterations` in passes, on X or on a quantized copy, whichever is cheaper."""
        exact_cost = iterations * self.costs.iteration_cost(n_targets)
        if not self.low_precision:
            return exact_cost
        return min(exact_cost, self.costs.quantized_iteration_cost(iterations, n_targets))

    def is_quantizing_cheaper(self, iterations: float, n_targets: int) -> bool:
        """True if `iterations` are cheaper on a quantized copy of X, copying included."""
        return self.total_iteration_cost(iterations, n_targets) < (
            iterations * self.costs.iteration_cost(n_targets)
        )


@dataclass(frozen=True, eq=False)
class Candidate:
    """Coefficients (p, t) of an engine, with the minorant of X'X that bounds their error.

    `bound` (t,) is an error bound that the engine has already proved, or None. An iterative engine
    gives its `residual` (p, t) instead, which equals the gradient except for drift, and
    `squared_bound` (t,), the square of the bound that it proved for this residual. `n_iter` is None
    for engines that do not iterate.
    """

    coef: Array
    minorant: Minorant = field(default_factory=ZeroMinorant)
    bound: Array | None = None
    n_iter: int | None = None
    rank: int | None = None
    gave_up: bool = False
    note: str = ""
    residual: Array | None = None
    squared_bound: Array | None = None
