"""Verdicts with their standard errors: a difference within its standard error is a tie."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ling._typing import Array


class Outcome(StrEnum):
    """What a judged sentence comes to."""

    HOLDS = "holds"
    TIE = "tie"
    FAILS = "fails"
    NOT_JUDGED = "not judged"


# From worst to best, so that several parts together are as good as the worst of them.
_ORDER = (Outcome.FAILS, Outcome.NOT_JUDGED, Outcome.TIE, Outcome.HOLDS)


@dataclass(frozen=True)
class Finding:
    """The outcome of one check, and the numbers it rests on."""

    outcome: Outcome
    measured: str


@dataclass(frozen=True)
class Range:
    """A number with the two it could as well be: within one standard error of the repeats."""

    low: float
    central: float
    high: float

    def __truediv__(self, divisor: float) -> Range:
        return Range(self.low / divisor, self.central / divisor, self.high / divisor)

    def times(self, factor: float) -> Range:
        """The range scaled by a positive factor."""
        return self / (1.0 / factor)

    def or_never(self, number: float) -> Range:
        """`number` where this range is finite, and infinity elsewhere."""
        return Range(
            *(number if np.isfinite(r) else r for r in (self.low, self.central, self.high))
        )

    def __str__(self) -> str:
        if not np.isfinite(self.low):
            return "never"
        if self.low == self.high:
            return f"{self.central:.3g}"
        end = f"{self.high:.3g}" if np.isfinite(self.high) else "never"
        return f"{self.low:.3g} to {end}"


def exactly(number: float) -> Range:
    """A number without error."""
    return Range(number, number, number)


def standard_error(values: Array) -> Array:
    """Standard error of the mean over the last axis; infinite for a single repeat."""
    n = values.shape[-1]
    if n < 2:
        return np.full(values.shape[:-1], np.inf)
    return np.asarray(values.std(axis=-1, ddof=1) / np.sqrt(n))


def is_positive(differences: Array) -> Outcome:
    """Whether the mean of differences, one for each repeat, is above 0 by its standard error."""
    mean, error = float(differences.mean()), float(standard_error(differences))
    if abs(mean) <= error:
        return Outcome.TIE
    return Outcome.HOLDS if mean > 0 else Outcome.FAILS


def is_less(first: Range, second: Range) -> Outcome:
    """Whether one number is below another; a tie if their ranges overlap."""
    if first.high < second.low:
        return Outcome.HOLDS
    return Outcome.FAILS if first.low >= second.high else Outcome.TIE


def is_finite(number: Range) -> Outcome:
    """Whether something was reached at all."""
    return is_less(number, exactly(np.inf))


def is_true(statement: bool | np.bool_) -> Outcome:
    """The outcome of what has no error: an exact comparison."""
    return Outcome.HOLDS if statement else Outcome.FAILS


def negate(outcome: Outcome) -> Outcome:
    """The outcome of the opposite statement."""
    opposite = {Outcome.HOLDS: Outcome.FAILS, Outcome.FAILS: Outcome.HOLDS}
    return opposite.get(outcome, outcome)


def all_of(*outcomes: Outcome) -> Outcome:
    """Holds if every part holds; the worst of them otherwise."""
    return min(outcomes, key=_ORDER.index)


def any_of(*outcomes: Outcome) -> Outcome:
    """Holds if some part holds; the best of them otherwise."""
    return max(outcomes, key=_ORDER.index)


def largest(ranges: Iterable[Range]) -> Range:
    """The range of the maximum of several numbers."""
    return _each_end(max, ranges)


def smallest(ranges: Iterable[Range]) -> Range:
    """The range of the minimum of several numbers."""
    return _each_end(min, ranges)


def _each_end(choose: Callable[[Iterable[float]], float], ranges: Iterable[Range]) -> Range:
    found = list(ranges)
    return Range(
        choose(r.low for r in found),
        choose(r.central for r in found),
        choose(r.high for r in found),
    )
