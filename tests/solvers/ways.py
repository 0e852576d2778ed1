"""Every way that an engine can go, whatever a plan would choose."""

from dataclasses import dataclass, field

from ling.design import DenseStorage
from ling.solvers.engines import ENGINES
from tests.training import make_problem, run_engine


@dataclass(frozen=True)
class Way:
    """An engine, what it is told, and whether X is treated like a large one."""

    engine: str
    told: dict = field(default_factory=dict)
    compiled: bool = False

    def build(self, X, *rest):
        return make_problem(DenseStorage(X, compiled=True) if self.compiled else X, *rest)

    def solve(self, problem, tol, seed=0, **told):
        return run_engine(ENGINES[self.engine], problem, tol, seed, **self.told, **told)


COPY = {"low_precision": True, "quantization_passes": 0.0, "quantized_pass_cost": 1e-9}
WAYS = {
    **{name: Way(name) for name in ENGINES},
    "direct, float32": Way("direct", {"low_precision": True}),
    "two_stage, compiled": Way("two_stage", compiled=True),
    "two_stage, from products": Way("two_stage", {"can_sample_rows": False}),
    "two_stage, on a copy": Way("two_stage", COPY, compiled=True),
}
