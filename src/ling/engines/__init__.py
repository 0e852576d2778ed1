"""One file per way to solve; each a pure function (problem, effort) -> Candidate."""

from collections.abc import Callable

from ling.engines.base import Candidate, Effort, bound_by
from ling.engines.direct import direct
from ling.engines.krylov import krylov
from ling.engines.row_sketch import row_sketch
from ling.engines.two_stage import two_stage
from ling.problem import Problem

Engine = Callable[[Problem, Effort], Candidate]

ENGINES: dict[str, Engine] = {
    "direct": direct,
    "two_stage": two_stage,
    "krylov": krylov,
    "row_sketch": row_sketch,
}

__all__ = ["ENGINES", "Candidate", "Effort", "Engine", "bound_by"]
