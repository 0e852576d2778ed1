"""Made-up results of experiments, in which a sentence of the paper holds or fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ling.reproduction.experiments import EXPERIMENTS
from ling.reproduction.repeats import SubspaceDraw, TheoryCheck
from ling.reproduction.summary import Curve, ExperimentSummary

NULL = 1000.0
# RR costs 100 and has value 1, the axis ends at 500: close is 6, reasonable is 51.
FAIR = TheoryCheck(
    ridge_risk=1.0,
    ling_risk=1.0,
    risk_deviation=0.01,
    ling_solved=1.0,
    gd_bound=0.9,
    gd_rate=0.5,
    ling_bound=0.8,
    ling_bound_from_zero=0.7,
    ling_rate=0.4,
    prediction_gap=1e-9,
)
USUAL = {10: 500.0, 50: 1.0}
SOON = {5: 500.0, 20: 1.0}
LATE = {10: 500.0, 90: 1.0}
DEAR = {10: 500.0, 150: 1.0}
NEVER = {10: 500.0, 90: 400.0}
REASONABLE = {10: 500.0, 90: 40.0}
NAMES = ("PCR", "GD", "SVRG", "LING k=5", "LING k=15", "LING+SVRG k=5")
# Singular values; n lambda is 200.
STEEP = (*(1000.0,) * 5, *(300.0,) * 1495)
GOOD_DRAWS = [SubspaceDraw(1.0, 1.0)] * 10
BAD_DRAW = [*GOOD_DRAWS, SubspaceDraw(5.0, 1.1)]


def curve(name: str, points: dict[float, float], seconds_per_flop: float = 1e-9) -> Curve:
    """A curve through {cost: value}, in three repeats that move as those of RR do."""
    flops = np.array(list(points), dtype=float)
    values = np.array(list(points.values()))[:, None] + np.array([-1e-3, 0.0, 1e-3])
    parameters = tuple(range(10, 10 * len(points) + 1, 10))
    return Curve(name, parameters, flops, flops / 10, flops * seconds_per_flop, values)


def world(
    experiment: str = "model1",
    data: str = "made up",
    theory: dict[str, float] | None = None,
    draws: list[SubspaceDraw] = GOOD_DRAWS,
    loop_seconds: float = 1.0,
    spectrum: Sequence[float] = STEEP,
    **curves,
) -> ExperimentSummary:
    """A world in which every algorithm gets from far off (500) to RR's value at cost 50.

    Curves are given by name: LING for both curves of LING, LING_SVRG for LING+SVRG.
    """
    given = dict.fromkeys(NAMES, USUAL) | {"RR": {100: 1.0}}
    for name, points in curves.items():
        prefix = {"LING": "LING k=", "LING_SVRG": "LING+SVRG", "LING_15": "LING k=15"}.get(
            name, name
        )
        given |= {each: points for each in given if each.startswith(prefix)}
    made = {n: c if isinstance(c, Curve) else curve(n, c) for n, c in given.items()}
    checks = [replace(FAIR, **(theory or {}))] * 3
    return ExperimentSummary(
        EXPERIMENTS[experiment], data, (2000, 1500), 0.1, NULL, 3, made, checks, list(spectrum),
        draws, (loop_seconds,) * 3,
    )  # fmt: skip


def everywhere(*names: str, **options) -> list[ExperimentSummary]:
    """The same world in several experiments."""
    return [world(name, **options) for name in names]
