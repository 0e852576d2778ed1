"""What every engine is told, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ling.design import Array
from ling.errors import ClusterLost
from ling.minorant import Minorant, Nothing
from ling.problem import Problem
from ling.rounding import rounding


def generator(state: Any) -> np.random.Generator:
    """From what scikit-learn calls a random_state: None, an integer, or a RandomState."""
    if isinstance(state, np.random.RandomState):
        state = int(state.randint(2**31 - 1))
    return np.random.default_rng(state)


@contextmanager
def keeping(iterate: Callable[[], Array]) -> Iterator[None]:
    """If the rows of X are lost on the way, how far the iteration has come is not."""
    try:
        yield
    except ClusterLost as error:
        error.iterate = iterate()
        raise


@dataclass(frozen=True, eq=False)
class Effort:
    """How far to go: to `tol`, and in at most `max_iter` iterations (None: as many as it takes).

    `worth` is the number of passes after which another engine would have been cheaper: an engine
    that sees itself going beyond gives up. `column_cost` is what one more column costs in a pass
    over X, in passes, and `blas` the FLOPs that BLAS does during one, on one thread. `single`
    allows float32, or less, where it pays: making a copy takes `copying` passes, a sweep over it
    `copy_cost`. `samples` is whether single rows can be had for next to nothing. `start` is where
    to start from, `most` the largest rank that memory is for, `budget` the bytes that may be used;
    `spent` are the iterations done already.
    """

    tol: float
    random_state: Any = None
    max_iter: int | None = None
    worth: float = float("inf")
    column_cost: float = 0.03
    blas: float = 1e9
    single: bool = False
    copying: float = 4.0
    copy_cost: float = 0.4
    samples: bool = True
    start: Array | None = None
    most: int = 512
    budget: float = float("inf")
    spent: int = 0

    @cached_property
    def rng(self) -> np.random.Generator:
        """Drawn from `random_state`."""
        return generator(self.random_state)

    def iteration_cost(self, n_targets: int) -> float:
        """A pass with a column for each target, in passes."""
        return 1 + self.column_cost * (n_targets - 1)

    def after(self, iterations: int, n_targets: int) -> Effort:
        """What is left of it after so many iterations on a copy."""
        left = None if self.max_iter is None else max(0, self.max_iter - iterations)
        worth = self.worth - iterations * self.copy_cost * n_targets
        return replace(self, max_iter=left, worth=worth, spent=self.spent + iterations)

    def iterating(self, iterations: float, n_targets: int) -> float:
        """So many iterations, the cheaper way, in passes."""
        plain = iterations * self.iteration_cost(n_targets)
        return min(plain, self._on_copy(iterations, n_targets))

    def copy_pays(self, iterations: float, n_targets: int) -> bool:
        """Whether a copy of X makes so many iterations cheaper."""
        return self._on_copy(iterations, n_targets) < iterations * self.iteration_cost(n_targets)

    def _on_copy(self, iterations: float, n_targets: int) -> float:
        # Starting again from the gradient of X takes more of them, many more where many are needed.
        sweeps = (iterations * (1 + iterations / 60) + 5) * n_targets
        return self.copying + self.copy_cost * sweeps if self.single else float("inf")


@dataclass(frozen=True, eq=False)
class Candidate:
    """Coefficients (p, t), and what is known about X'X that bounds their error.

    `bound` is a bound that the engine has proved already, without another pass; None if it has not.
    An iteration gives its `residual` instead, which should be the gradient but for drift, and the
    square of what it `proved` for that. `n_iter` is None for engines that do not iterate.
    """

    coef: Array
    minorant: Minorant = field(default_factory=Nothing)
    bound: Array | None = None
    n_iter: int | None = None
    rank: int | None = None
    gave_up: bool = False
    note: str = ""
    residual: Array | None = None
    proved: Array | None = None


def with_bound(problem: Problem, candidate: Candidate) -> tuple[Candidate, Array]:
    """The candidate with its bound, and its gradient; one pass."""
    gradient, residual = problem.gradient(candidate.coef)
    bound = bound_by(problem, candidate, gradient) + rounding(
        problem, candidate.minorant, candidate.coef, residual
    )
    return replace(candidate, bound=bound), gradient


def bound_by(problem: Problem, candidate: Candidate, gradient: Array) -> Array:
    """What a gradient proves of a candidate's error, but for rounding."""
    minorant, alphas = candidate.minorant, problem.alphas
    bound: Array = np.sqrt(minorant.quadratic(gradient, alphas))
    if candidate.residual is None or candidate.proved is None:
        return bound
    drift = minorant.quadratic(gradient - candidate.residual, alphas)
    return np.asarray(np.minimum(bound, np.sqrt(candidate.proved) + np.sqrt(drift)))
