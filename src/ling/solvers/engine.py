"""What every engine is told, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ling._typing import Array
from ling.errors import ClusterLost
from ling.solvers.gradient_rounding import gradient_rounding
from ling.solvers.minorant import Minorant, ZeroMinorant
from ling.solvers.problem import Problem


def as_generator(state: Any) -> np.random.Generator:
    """From what scikit-learn calls a random_state: None, an integer, or a RandomState."""
    if isinstance(state, np.random.RandomState):
        state = int(state.randint(2**31 - 1))
    return np.random.default_rng(state)


@contextmanager
def attach_partial_solution(iterate: Callable[[], Array]) -> Iterator[None]:
    """If the rows of X are lost on the way, how far the iteration has come is not."""
    try:
        yield
    except ClusterLost as error:
        error.iterate = iterate()
        raise


@dataclass(frozen=True, eq=False)
class EngineBudget:
    """How far to go: to `tol`, and in at most `max_iter` iterations (None: as many as it takes).

    `worth` is the number of passes after which another engine would have been cheaper: an engine
    that sees itself going beyond gives up. `column_cost` is what one more column costs in a pass
    over X, in passes, and `blas` the FLOPs that BLAS does during one, on one thread. `single`
    allows float32, or less, where it pays: making a copy takes `copying` passes, a sweep over it
    `quantized_pass_cost`. `samples` is whether single rows can be had for next to nothing. `start`
    is where to start from, `most` the largest rank that memory is for, `budget` the bytes that may
    be used; `spent` are the iterations done already.
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
        """Drawn from `random_state`."""
        return as_generator(self.random_state)

    def iteration_cost(self, n_targets: int) -> float:
        """A pass with a column for each target, in passes."""
        return 1 + self.column_cost * (n_targets - 1)

    def remaining_after(self, iterations: int, n_targets: int) -> EngineBudget:
        """What is left of it after so many iterations on a copy."""
        left = None if self.max_iter is None else max(0, self.max_iter - iterations)
        worth = self.max_passes - iterations * self.quantized_pass_cost * n_targets
        return replace(
            self, max_iter=left, max_passes=worth, n_iter_done=self.n_iter_done + iterations
        )

    def total_iteration_cost(self, iterations: float, n_targets: int) -> float:
        """So many iterations, the cheaper way, in passes."""
        plain = iterations * self.iteration_cost(n_targets)
        return min(plain, self._quantized_iteration_cost(iterations, n_targets))

    def is_quantizing_cheaper(self, iterations: float, n_targets: int) -> bool:
        """Whether a copy of X makes so many iterations cheaper."""
        return self._quantized_iteration_cost(
            iterations, n_targets
        ) < iterations * self.iteration_cost(n_targets)

    def _quantized_iteration_cost(self, iterations: float, n_targets: int) -> float:
        # Starting again from the gradient of X takes more of them, many more where many are needed.
        sweeps = (iterations * (1 + iterations / 60) + 5) * n_targets
        return (
            self.quantization_passes + self.quantized_pass_cost * sweeps
            if self.low_precision
            else float("inf")
        )


@dataclass(frozen=True, eq=False)
class Candidate:
    """Coefficients (p, t), and what is known about X'X that bounds their error.

    `bound` is a bound that the engine has proved already, without another pass; None if it has not.
    An iteration gives its `residual` instead, which should be the gradient but for drift, and the
    square of what it `squared_bound` for that. `n_iter` is None for engines that do not iterate.
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


def evaluate_bound(problem: Problem, candidate: Candidate) -> tuple[Candidate, Array]:
    """The candidate with its bound, and its gradient; one pass."""
    gradient, residual = problem.gradient(candidate.coef)
    bound = error_bound(problem, candidate, gradient) + gradient_rounding(
        problem, candidate.minorant, candidate.coef, residual
    )
    return replace(candidate, bound=bound), gradient


def error_bound(problem: Problem, candidate: Candidate, gradient: Array) -> Array:
    """What a gradient proves of a candidate's error, but for rounding."""
    minorant, alphas = candidate.minorant, problem.alphas
    bound: Array = np.sqrt(minorant.quadratic_form(gradient, alphas))
    if candidate.residual is None or candidate.squared_bound is None:
        return bound
    drift = minorant.quadratic_form(gradient - candidate.residual, alphas)
    return np.asarray(np.minimum(bound, np.sqrt(candidate.squared_bound) + np.sqrt(drift)))
