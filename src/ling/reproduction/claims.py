"""The paper's sentences, each quoted once, and how they are judged on measured points."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ling.reproduction.outcomes import Finding, Outcome, all_of, any_of, negate
from ling.reproduction.summary import ClosenessCriterion, ExperimentSummary

#: What a reader of the printed figure cannot tell apart.
HEADLINE = ClosenessCriterion(axis_fraction=0.01)
#: What the repeats cannot tell apart.
ONE_STANDARD_ERROR = ClosenessCriterion(rr_standard_errors=1.0)
# Thresholds tried for the intervals: ten a decade, so that their ends are good to a quarter.
THRESHOLDS = np.logspace(-6, 0, 61)

Check = Callable[[ExperimentSummary, ClosenessCriterion], Finding]
JointCheck = Callable[[Sequence[ExperimentSummary], ClosenessCriterion], Finding]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, or a clause of one.

    `name` is short and unique, for links. `experiments` are those it speaks of, and it is judged on
    all of them together. `meaning` is what `check` demands. `by_closeness` says whether that
    depends on what counts as close to RR.
    """

    name: str
    quote: str
    source: str
    experiments: tuple[str, ...]
    check: JointCheck
    meaning: str
    by_closeness: bool = True

    def judge(
        self,
        summaries: Sequence[ExperimentSummary],
        criterion: ClosenessCriterion = HEADLINE,
    ) -> Verdict:
        """The verdict, that under the second criterion, and the thresholds for which it holds."""
        found = self.check(summaries, criterion)
        second = self.check(summaries, ONE_STANDARD_ERROR).outcome
        return Verdict(
            self.name,
            self.quote,
            self.source,
            tuple(summary.experiment.name for summary in summaries),
            self.meaning,
            found.measured,
            found.outcome,
            second if self.by_closeness else found.outcome,
            holding_intervals(self, summaries) if self.by_closeness else (),
            self.by_closeness,
        )


@dataclass(frozen=True)
class Verdict:
    """A claim judged.

    `intervals` are the shares of the linear axis for which it holds, where closeness matters.
    """

    name: str
    quote: str
    source: str
    experiments: tuple[str, ...]
    meaning: str
    measured: str
    outcome: Outcome
    second: Outcome
    intervals: tuple[tuple[float, float], ...] = field(default=())
    by_closeness: bool = True

    @property
    def thresholds(self) -> str:
        """The intervals in words, in per cent of the axis."""
        if not self.by_closeness:
            return ""
        return describe_intervals(self.intervals)


def describe_intervals(intervals: Sequence[tuple[float, float]]) -> str:
    """Intervals of thresholds in words."""
    if not intervals:
        return "none"
    return " and ".join(_describe_interval(low, high) for low, high in intervals)


def _describe_interval(low: float, high: float) -> str:
    at_bottom, at_top = low <= THRESHOLDS[0], high >= THRESHOLDS[-1]
    if at_bottom and at_top:
        return "all"
    if at_bottom:
        return f"below {100 * high:.2g} %"
    if at_top:
        return f"above {100 * low:.2g} %"
    if low == high:
        return f"only {100 * low:.2g} %"
    return f"{100 * low:.2g} % to {100 * high:.2g} %"


def holding_intervals(
    claim: Claim,
    summaries: Sequence[ExperimentSummary],
    family: Callable[[float], ClosenessCriterion] = ClosenessCriterion,
) -> tuple[tuple[float, float], ...]:
    """The intervals of thresholds for which a claim holds; `family` makes a criterion of one."""
    holds = [claim.check(summaries, family(t)).outcome is Outcome.HOLDS for t in THRESHOLDS]
    return merge_runs(holds)


def merge_runs(holds: Sequence[bool]) -> tuple[tuple[float, float], ...]:
    """The runs of true entries, one for each of `THRESHOLDS`, as intervals."""
    edges = np.diff(np.concatenate([[0], np.asarray(holds, dtype=int), [0]]))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    return tuple(
        (float(THRESHOLDS[a]), float(THRESHOLDS[b])) for a, b in zip(starts, ends, strict=True)
    )


def judge_all(
    claims: Iterable[Claim],
    summaries: Iterable[ExperimentSummary],
    criterion: ClosenessCriterion = HEADLINE,
) -> list[Verdict]:
    """Every claim all of whose experiments are there.

    An experiment that stands in for another, such as the surrogate of Gisette, is judged only if
    the other is not among the summaries.
    """
    found = list(summaries)
    by_claims = {s.experiment.claims_of: s for s in found if s.experiment.stands_for}
    by_claims |= {s.experiment.name: s for s in found if not s.experiment.stands_for}
    return [
        claim.judge([by_claims[name] for name in claim.experiments], criterion)
        for claim in claims
        if set(claim.experiments) <= set(by_claims)
    ]


# Checks of several experiments, made of checks of one -------------------------------------------


def everywhere(check: Check) -> JointCheck:
    """A check that holds if it holds in every experiment."""
    return partial(_combined, check, all_of)


def somewhere(check: Check) -> JointCheck:
    """A check that holds if it holds in some experiment."""
    return partial(_combined, check, any_of)


def wherever_judged(check: Check) -> JointCheck:
    """A check that holds if it holds in every experiment that can tell."""
    return partial(_combined, check, _all_that_tell)


def _all_that_tell(*outcomes: Outcome) -> Outcome:
    telling = [outcome for outcome in outcomes if outcome is not Outcome.NOT_JUDGED]
    return all_of(*telling) if telling else Outcome.NOT_JUDGED


def each_fails_somewhere(*checks: Check) -> JointCheck:
    """A check that holds if each of several checks fails in some experiment."""
    opposites = [somewhere(partial(_opposite, check)) for check in checks]

    def joint(summaries: Sequence[ExperimentSummary], criterion: ClosenessCriterion) -> Finding:
        found = [check(summaries, criterion) for check in opposites]
        outcome = all_of(*(each.outcome for each in found))
        return Finding(outcome, " | ".join(each.measured for each in found))

    return joint


def _opposite(check: Check, summary: ExperimentSummary, criterion: ClosenessCriterion) -> Finding:
    found = check(summary, criterion)
    return Finding(negate(found.outcome), found.measured)


def _combined(
    check: Check,
    combine: Callable[..., Outcome],
    summaries: Sequence[ExperimentSummary],
    criterion: ClosenessCriterion,
) -> Finding:
    findings = [check(summary, criterion) for summary in summaries]
    if len(findings) == 1:
        return findings[0]
    said = "; ".join(
        f"{summary.experiment.title.split(':')[0]}: {found.outcome} ({found.measured})"
        for summary, found in zip(summaries, findings, strict=True)
    )
    return Finding(combine(*(found.outcome for found in findings)), said)
