"""The interface of the engines: their budget, and the candidate solution they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ling._typing import Array
from ling.errors import ClusterLost
from ling.solvers.certificate import Minorant, ZeroMinorant


def as_generator(state: Any) -> np.random.Generator:
    """NumPy Generator from a scikit-learn random_state: None, an integer or a RandomState."""
    if isinstance(state, np.random.RandomState):
        state = int(state.randint(2**31 - 1))
    return np.random.default_rng(state)


@contextmanager
def attach_partial_solution(iterate: Callable[[], Array]) -> Iterator[None]:
    """Raise a ClusterLost error of the block again with `iterate()`, the current coefficients."""
    try:
        yield
    except ClusterLost as error:
        raise ClusterLost(str(error), iterate()) from error


@dataclass(frozen=True, eq=False)
class EngineBudget:
    """Accuracy goal, limits and cost factors for one engine run. Costs are in passes over X.

    Attributes
    ----------
    tol : float
        Relative error bound to reach.
    random_state : None, int or RandomState
    max_iter : int or None
        Largest number of iterations; None means no limit.
    max_passes : float
        Passes after which another engine would have been cheaper. An engine that expects to need
        more gives up.
    column_cost : float
        Cost of one more column in a pass over X.
    blas_flops_per_pass : float
        FLOPs that BLAS does on one thread in the time of a pass.
    low_precision : bool
        Whether float32, or a quantized copy of X, may be used where it is cheaper.
    quantization_passes, quantized_pass_cost : float
        Cost of making the quantized copy, and of one sweep over it.
    can_sample_rows : bool
        Whether single rows can be read at almost no cost.
    start : (p, t) array or None
        Initial coefficients.
    max_rank : int
        Largest rank that memory was planned for.
    max_bytes : float
        Bytes that may be used.
    n_iter_done : int
        Iterations that were done before.
    """

    tol: float
    random_state: Any = None
    max_iter: int | None = None
    max_passes: float = float("inf")
    column_cost: float = 0.03
    blas_flops_per_pass: float = 1e9
    low_precision: bool = False
    quantization_passes: float = 4.0
    quantized_pass_cost: float = 0.4
    can_sample_rows: bool = True
    start: Array | None = None
    max_rank: int = 512
    max_bytes: float = float("inf")
    n_iter_done: int = 0

    @cached_property
    def rng(self) -> np.random.Generator:
        """Random generator made from `random_state`."""
        return as_generator(self.random_state)

    def iteration_cost(self, n_targets: int) -> float:
        """Cost of one iteration in passes: a pass over X with one column for each target."""
        return 1 + self.column_cost * (n_targets - 1)

    def remaining_after(self, iterations: int, n_targets: int) -> EngineBudget:
        """The budget that remains after `iterations` on the quantized copy."""
        max_iter = None if self.max_iter is None else max(0, self.max_iter - iterations)
        max_passes = self.max_passes - iterations * self.quantized_pass_cost * n_targets
        return replace(
            self,
            max_iter=max_iter,
            max_passes=max_passes,
            n_iter_done=self.n_iter_done + iterations,
        )

    def total_iteration_cost(self, iterations: float, n_targets: int) -> float:
        """Cost of `iterations` in passes, on X or on a quantized copy, whichever is cheaper."""
        exact_cost = iterations * self.iteration_cost(n_targets)
        return min(exact_cost, self._quantized_iteration_cost(iterations, n_targets))

    def is_quantizing_cheaper(self, iterations: float, n_targets: int) -> bool:
        """True if `iterations` are cheaper on a quantized copy of X, copying included."""
        return self._quantized_iteration_cost(
            iterations, n_targets
        ) < iterations * self.iteration_cost(n_targets)

    def _quantized_iteration_cost(self, iterations: float, n_targets: int) -> float:
        # Restarts from the exact gradient of X add iterations: 5, plus a share that grows with
        # their number.
        sweeps = (iterations * (1 + iterations / 60) + 5) * n_targets
        return (
            self.quantization_passes + self.quantized_pass_cost * sweeps
            if self.low_precision
            else float("inf")
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
