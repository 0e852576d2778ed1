"""Corrects speeds in the cache that were measured while the machine was busy.

A fit cannot be faster than the machine. What it does in its stages therefore bounds the speeds of
the machine from below, and speeds in the cache that are lower are wrong. Plans of this process are
not changed; the next process reads the corrected speeds.
"""

from __future__ import annotations

from collections.abc import Mapping

from ling.solvers.cost_model import EngineEstimate
from ling.solvers.machine import DEFAULT_MACHINE, raise_cached_speeds
from ling.solvers.planning import Plan

# Least seconds of a stage from which its speed is computed.
MIN_OBSERVED_SECONDS = 0.01


def correct_speeds(plan: Plan, estimate: EngineEstimate, seconds: Mapping[str, float]) -> None:
    """Raise the speeds in the cache to those that a fit by the engine of `estimate` has shown.

    `seconds` are those of its stages: it has read X once to "prepare", before it was solved.
    """
    if plan.machine == DEFAULT_MACHINE:  # not from the cache
        return
    observed = observed_speeds(plan, estimate, seconds)
    if any(speed > getattr(plan.machine, name) for name, speed in observed.items()):
        raise_cached_speeds(observed)


def observed_speeds(
    plan: Plan, estimate: EngineEstimate, seconds: Mapping[str, float]
) -> dict[str, float]:
    """Lower bounds of speeds of the machine, by their names in `Machine`; for X in memory only."""
    dimensions, speeds = plan.dimensions, {}
    n, p = dimensions.n, dimensions.p
    if dimensions.is_out_of_core:
        return {}
    if seconds["prepare"] >= MIN_OBSERVED_SECONDS:
        name, size = ("stream_bandwidth", dimensions.n_bytes) if dimensions.dense else (
            "sparse", dimensions.nnz,
        )  # fmt: skip
        speeds[name] = size / seconds["prepare"]
    is_factored = estimate.engine == "direct" and dimensions.dense
    if is_factored and seconds["solve"] >= MIN_OBSERVED_SECONDS:
        name = "gemm32" if estimate.low_precision else "gemm_rate"
        speeds[name] = float(n) * p * min(n, p) / seconds["solve"]
    return speeds
