"""The engines by the name that `solver=` has for them: (problem, budget) -> Candidate."""

from collections.abc import Callable

from ling._typing import Array
from ling.solvers.direct import direct
from ling.solvers.engine import Candidate, EngineBudget
from ling.solvers.krylov import krylov
from ling.solvers.options import FitOptions
from ling.solvers.problem import Problem
from ling.solvers.row_sketch import row_sketch
from ling.solvers.two_stage import two_stage

Engine = Callable[[Problem, FitOptions, EngineBudget, Array | None], Candidate]

ENGINES: dict[str, Engine] = {
    "direct": direct,
    "two_stage": two_stage,
    "krylov": krylov,
    "row_sketch": row_sketch,
}
