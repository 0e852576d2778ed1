"""Results of the repeats of an experiment, summarised: curves of value and cost by parameter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from ling._typing import Array
from ling.errors import ShapeError
from ling.reproduction.experiments import RR, Experiment, Repeat, TheoryCheck


@dataclass(frozen=True)
class ClosenessCriterion:
    """How close is close: a share of RR's value, or of the way from RR to predicting nothing."""

    rr_fraction: float = 0.0
    null_fraction: float = 0.0


@dataclass(frozen=True, eq=False)
class Curve:
    """One algorithm: mean cost by parameter, and `values` by parameter and repeat."""

    algorithm: str
    parameters: tuple[int, ...]
    flops: Array
    passes: Array
    seconds: Array
    values: Array

    @property
    def value(self) -> Array:
        """Mean over the repeats, by parameter."""
        return np.asarray(self.values.mean(axis=1))

    @property
    def deviation(self) -> Array:
        """Standard deviation over the repeats, by parameter."""
        return np.asarray(self.values.std(axis=1))

    def rows(self) -> Iterator[tuple[int, float, float, float, float, float]]:
        """Parameter, FLOPs, passes, seconds, mean value and its deviation, point by point."""
        columns = self.flops, self.passes, self.seconds, self.value, self.deviation
        return zip(self.parameters, *columns, strict=True)

    def flops_to_reach(self, level: float) -> float:
        """FLOPs of the cheapest point at or below `level`; infinite if there is none."""
        reached = self.flops[self.value <= level]
        return float(reached.min()) if reached.size else float("inf")

    @property
    def best(self) -> float:
        """The smallest value."""
        return float(self.value.min())


@dataclass(frozen=True, eq=False)
class ExperimentSummary:
    """All repeats of one experiment, by algorithm."""

    experiment: Experiment
    data: str
    shape: tuple[int, int]
    lam: float
    null: float
    n_repeats: int
    curves: dict[str, Curve]
    theory: list[TheoryCheck]
    spectrum: list[float]

    @property
    def rr(self) -> Curve:
        """The benchmark."""
        return self.curves[RR]

    def close_threshold(self, level: ClosenessCriterion) -> float:
        """The largest value that counts as close to RR's."""
        best = self.rr.best
        return best + level.rr_fraction * best + level.null_fraction * (self.null - best)

    def curves_starting_with(self, prefix: str) -> list[Curve]:
        """The curves of one family, such as "LING k="."""
        return [curve for name, curve in self.curves.items() if name.startswith(prefix)]

    def relative_cost(self, algorithm: str, level: ClosenessCriterion) -> float:
        """Cost to come close, as a multiple of RR's; the dearest curve of a family."""
        goal = self.close_threshold(level)
        return max(c.flops_to_reach(goal) for c in self.curves_starting_with(algorithm)) / float(
            self.rr.flops[0]
        )


def summarize_repeats(experiment: Experiment, repeats: list[Repeat]) -> ExperimentSummary:
    """Means and deviations over the repeats."""
    points = [point for repeat in repeats for point in repeat.points]
    curves = {}
    for name in dict.fromkeys(point.algorithm for point in points):
        ordered = sorted((p for p in points if p.algorithm == name), key=lambda p: p.parameter)
        groups = [list(g) for _, g in groupby(ordered, key=lambda p: p.parameter)]
        curves[name] = Curve(
            name,
            tuple(group[0].parameter for group in groups),
            _means(groups, "flops"),
            _means(groups, "passes"),
            _means(groups, "seconds"),
            np.array([[p.value for p in sorted(g, key=lambda p: p.repeat)] for g in groups]),
        )
    first = repeats[0]
    if {repeat.data for repeat in repeats} != {first.data}:
        raise ShapeError("repeats", "are of different data", "pass those of one data set")
    null = float(np.mean([repeat.null for repeat in repeats]))
    theory = [repeat.theory for repeat in repeats if repeat.theory is not None]
    return ExperimentSummary(
        experiment, first.data, first.shape, float(np.mean([r.lam for r in repeats])), null,
        len(repeats), curves, theory, first.spectrum,
    )  # fmt: skip


def _means(groups: Iterable[list[Any]], name: str) -> Array:
    return np.array([np.mean([getattr(point, name) for point in group]) for group in groups])
