"""Every way that an engine can go, whatever a plan would choose."""

from dataclasses import dataclass, field

from ling import problem as problems
from ling.design import DenseDesign
from ling.engines import ENGINES, Effort


@dataclass(frozen=True)
class Way:
    """An engine, what it is told, and whether X is treated like a large one."""

    engine: str
    told: dict = field(default_factory=dict)
    compiled: bool = False

    def build(self, X, *rest):
        return problems.build(DenseDesign(X, compiled=True) if self.compiled else X, *rest)

    def solve(self, problem, tol, seed=0, **told):
        return ENGINES[self.engine](problem, Effort(tol, seed, **self.told, **told))


COPY = {"single": True, "copying": 0.0, "copy_cost": 1e-9}
WAYS = {
    **{name: Way(name) for name in ENGINES},
    "direct, float32": Way("direct", {"single": True}),
    "two_stage, compiled": Way("two_stage", compiled=True),
    "two_stage, from products": Way("two_stage", {"samples": False}),
    "two_stage, on a copy": Way("two_stage", COPY, compiled=True),
}
