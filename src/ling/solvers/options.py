"""The options of a fit, in one record that every solver and every strategy reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ling.solvers.machine import Machine


@dataclass(frozen=True)
class FitOptions:
    """Options that control how a problem is solved.

    Attributes
    ----------
    tol : float
        Relative error bound that predictions have to reach.
    max_iter : int or None
        Largest number of iterations; None means no limit.
    solver : str
        Name of an engine, or "auto" to let the plan choose.
    positive : bool
        Whether coefficients have to be >= 0.
    precision : {"auto", "float64", "float32"}
    random_state : None, int or RandomState
        None stands for a fixed seed; see `as_generator`.
    memory_budget : float, str or None
        Bytes, text such as "2GB", or None for a quarter of the memory that this process may use.
    is_default_budget : bool
        Whether `memory_budget` was None, although it is a number now.
    machine : Machine or None
        Machine speeds that the plan uses; None for the measured speeds of this machine.
    read_bandwidth : float or None
        Bytes per second at which the plan expects X to be read if it is out of core; None for the
        measured speed.
    """

    tol: float = 1e-4
    max_iter: int | None = None
    solver: str = "auto"
    positive: bool = False
    precision: str = "auto"
    random_state: Any = None
    memory_budget: float | str | None = None
    machine: Machine | None = None
    read_bandwidth: float | None = None
    is_default_budget: bool = False

    @property
    def enforces_budget(self) -> bool:
        """Whether a fit that takes more memory is refused: only if the user has passed a budget.

        A default budget is a guess, and a fit may well take more.
        """
        return self.memory_budget is not None and not self.is_default_budget
