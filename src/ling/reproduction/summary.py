"""Results of the repeats of an experiment, summarised: curves of value and cost by parameter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np

from ling._typing import Array
from ling.errors import ShapeError
from ling.reproduction.experiments import LING_SVRG, RR, Experiment
from ling.reproduction.flop_conventions import FlopConvention, count_flops
from ling.reproduction.outcomes import Range, largest, standard_error
from ling.reproduction.repeats import Repeat, SubspaceDraw, TheoryCheck


@dataclass(frozen=True)
class ClosenessCriterion:
    """How far above RR still counts as close; the parts add up.

    `axis_fraction` is a share of the linear axis of the redrawn figure, `rr_standard_errors` counts
    standard errors of RR's mean over the repeats, `null_fraction` is a share of the way from RR to
    predicting nothing.
    """

    axis_fraction: float = 0.0
    rr_standard_errors: float = 0.0
    null_fraction: float = 0.0

    def widened(self, factor: float) -> ClosenessCriterion:
        """The same criterion, `factor` times as wide."""
        return ClosenessCriterion(
            factor * self.axis_fraction,
            factor * self.rr_standard_errors,
            factor * self.null_fraction,
        )


@dataclass(frozen=True, eq=False)
class Curve:
    """One algorithm: mean cost by parameter, and `values` by parameter and repeat."""

    algorithm: str
    parameters: tuple[int, ...]
    flops: Array
    passes: Array
    seconds: Array
    values: Array

    @cached_property
    def value(self) -> Array:
        """Mean over the repeats, by parameter."""
        return np.asarray(self.values.mean(axis=1))

    @cached_property
    def deviation(self) -> Array:
        """Standard deviation over the repeats, by parameter."""
        return np.asarray(self.values.std(axis=1))

    def rows(self) -> Iterator[tuple[int, float, float, float, float, float]]:
        """Parameter, FLOPs, passes, seconds, mean value and its deviation, point by point."""
        columns = self.flops, self.passes, self.seconds, self.value, self.deviation
        return zip(self.parameters, *columns, strict=True)

    @property
    def best(self) -> float:
        """The smallest mean value."""
        return float(self.value.min())

    @property
    def best_values(self) -> Array:
        """The values of all repeats at the parameter with the smallest mean."""
        return np.asarray(self.values[int(self.value.argmin())])


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
    draws: list[SubspaceDraw] = field(default_factory=list)
    loop_seconds: tuple[float, ...] = ()

    @property
    def rr(self) -> Curve:
        """The benchmark."""
        return self.curves[RR]

    @cached_property
    def axis_top(self) -> float:
        """Where the linear axis of the redrawn figure ends; it starts at 0.

        At the largest mean among the points of the paper's figure: PCR, GD, SVRG and LING. Points
        worse than predicting nothing have diverged and do not count.
        """
        means = np.concatenate(
            [curve.value for name, curve in self.curves.items() if not name.startswith(LING_SVRG)]
        )
        drawn = means[means <= self.null]
        return float(drawn.max()) if drawn.size else self.null

    def close_excess(self, criterion: ClosenessCriterion) -> float:
        """The largest excess over RR's value that counts as close."""
        excess = criterion.axis_fraction * self.axis_top
        excess += criterion.null_fraction * (self.null - self.rr.best)
        # With a single repeat the standard error is infinite.
        if criterion.rr_standard_errors:
            excess += criterion.rr_standard_errors * float(standard_error(self.rr.values[-1]))
        return excess

    def curves_starting_with(self, prefix: str) -> list[Curve]:
        """The curves of one family, such as "LING k="."""
        return [curve for name, curve in self.curves.items() if name.startswith(prefix)]

    def excess(self, curve: Curve) -> Array:
        """How far each point is above RR's value on the same repeat, by parameter and repeat."""
        return np.asarray(curve.values - self.rr.values[-1])

    def cost_to_reach(self, prefix: str, excess: float) -> Range:
        """Cost to come within `excess` of RR, as a multiple of RR's; the dearest of a family."""
        curves = self.curves_starting_with(prefix)
        reached = (self._first_within(curve, excess, curve.flops) for curve in curves)
        return largest(reached) / float(self.rr.flops[0])

    def cost_to_come_close(self, prefix: str, criterion: ClosenessCriterion) -> Range:
        """Cost to come close to RR, as a multiple of RR's."""
        return self.cost_to_reach(prefix, self.close_excess(criterion))

    def steps_to_come_close(self, prefix: str, criterion: ClosenessCriterion) -> Range:
        """The parameter (iterations, passes or components) at which a family comes close."""
        curves, close = self.curves_starting_with(prefix), self.close_excess(criterion)
        return largest(self._first_within(c, close, np.array(c.parameters, float)) for c in curves)

    def lowest_common_excess(self, *prefixes: str) -> float:
        """The smallest excess over RR that every curve of these families reaches for sure."""
        curves = [curve for prefix in prefixes for curve in self.curves_starting_with(prefix)]
        statistics = (self._excess_statistics[curve.algorithm] for curve in curves)
        return max(float((mean + error).min()) for mean, error in statistics)

    def with_flops(self, convention: FlopConvention) -> ExperimentSummary:
        """The same points, their cost counted by another convention."""
        if convention == "measured":
            return self
        curves = {
            name: replace(
                curve,
                flops=np.array(
                    [count_flops(convention, name, q, self.shape) for q in curve.parameters]
                ),
            )
            for name, curve in self.curves.items()
        }
        return replace(self, curves=curves)

    def _first_within(self, curve: Curve, excess: float, costs: Array) -> Range:
        """The smallest of `costs` whose point is within `excess` of RR, and within its error."""
        means, errors = self._excess_statistics[curve.algorithm]
        low, central, high = (
            float(costs[values <= excess].min(initial=np.inf))
            for values in (means - errors, means, means + errors)
        )
        return Range(low, central, high)

    @cached_property
    def _excess_statistics(self) -> dict[str, tuple[Array, Array]]:
        """Mean excess over RR and its standard error, paired over the repeats, of every curve."""
        return {
            name: (np.asarray(e.mean(axis=1)), standard_error(e))
            for name, e in ((name, self.excess(curve)) for name, curve in self.curves.items())
        }


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
        len(repeats), curves, theory, first.spectrum, first.draws,
        tuple(repeat.loop_seconds for repeat in repeats),
    )  # fmt: skip


def _means(groups: Iterable[list[Any]], name: str) -> Array:
    return np.array([np.mean([getattr(point, name) for point in group]) for group in groups])
