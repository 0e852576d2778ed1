"""Recognises speeds in the cache that were measured while the machine was busy.

A fit cannot be faster than the machine. What it does in its stages therefore bounds the speeds of
the machine from below. If a speed in the cache is far lower, all of them are measured again by a
later process: a busy machine slows all of them, and correcting one alone would mislead plans.
Plans of this process are not changed.
"""

from __future__ import annotations

from collections.abc import Mapping

from ling.solvers.cost_model import COMPILED_GRAM_SPEEDUP, EngineEstimate
from ling.solvers.machine import DEFAULT_MACHINE, forget_cached_speeds
from ling.solvers.planning import Plan

# Least seconds of a stage from which its speed is computed. X of shorter ones may be in cache.
MIN_OBSERVED_SECONDS = 0.01
# Factor by which a fit has to exceed a speed in the cache. Speeds that are right vary by about 1.3
# from run to run; a second process that keeps a core busy halves them.
MIN_EXCESS = 2.0


def check_cached_speeds(plan: Plan, estimate: EngineEstimate, seconds: Mapping[str, float]) -> None:
    """Remove speeds from the cache that a fit by the engine of `estimate` has far exceeded.

    `seconds` are those of its stages: it has read X once to "prepare", before it was solved.
    """
    if plan.machine == DEFAULT_MACHINE:  # not from the cache
        return
    observed = observed_speeds(plan, estimate, seconds)
    if any(speed > MIN_EXCESS * getattr(plan.machine, name) for name, speed in observed.items()):
        forget_cached_speeds(plan.machine)


def observed_speeds(
    plan: Plan, estimate: EngineEstimate, seconds: Mapping[str, float]
) -> dict[str, float]:
    """Lower bounds of speeds of the machine, by their names in `Machine`.

    Empty if X is sparse, whose speed depends on its pattern, or not in memory.
    """
    dimensions, speeds = plan.dimensions, {}
    n, p = dimensions.n, dimensions.p
    if dimensions.is_out_of_core or not dimensions.dense:
        return {}
    if seconds["prepare"] >= MIN_OBSERVED_SECONDS:
        speeds["stream_bandwidth"] = dimensions.n_bytes / seconds["prepare"]
    if estimate.engine == "direct" and seconds["solve"] >= MIN_OBSERVED_SECONDS:
        name = "gemm32" if estimate.low_precision else "gemm_rate"
        speedup = COMPILED_GRAM_SPEEDUP if dimensions.has_compiled_gram else 1.0
        speeds[name] = float(n) * p * min(n, p) / seconds["solve"] / speedup
    return speeds
