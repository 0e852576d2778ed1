"""The engines, by the names that `solver=` accepts."""

from collections.abc import Callable

from ling._typing import Array
from ling.solvers.direct import direct
from ling.solvers.engine import Candidate, EngineBudget
from ling.solvers.options import FitOptions
from ling.solvers.problem import Problem
from ling.solvers.two_stage import two_stage

#: Function (problem, options, budget, start) -> Candidate. `start` (p, t) holds the initial
#: coefficients of an iteration, or is None.
Engine = Callable[[Problem, FitOptions, EngineBudget, Array | None], Candidate]

ENGINES: dict[str, Engine] = {
    "direct": direct,
    "two_stage": two_stage,
}
