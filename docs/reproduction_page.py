"""The text of docs/reproduction.md and docs/errata.md, from results; pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ling.reproduction.claims import (
    HEADLINE,
    ONE_STANDARD_ERROR,
    THRESHOLDS,
    Claim,
    ClosenessCriterion,
    Verdict,
    describe_intervals,
    judge_all,
    merge_runs,
)
from ling.reproduction.errata import Lemma2Numbers
from ling.reproduction.figures import captions
from ling.reproduction.flop_conventions import FLOP_CONVENTIONS
from ling.reproduction.outcomes import Outcome
from ling.reproduction.paper_claims import EXPERIMENT_CLAIMS, JOINT_CLAIMS
from ling.reproduction.summary import ExperimentSummary

MODELS = ("model1", "model2", "model3")
HEADLINE_READING, SECOND_READING = "headline", "one standard error"
# The threshold that a search found, as a share of the way from RR to predicting nothing.
SEARCHED = 3e-5
# Columns that Gisette has in the paper.
GISETTE_COLUMNS = 5000


@dataclass(frozen=True)
class ExperimentReport:
    """One experiment under the headline reading, under others, and RR's value by lambda factor."""

    headline: ExperimentSummary
    readings: dict[str, ExperimentSummary]
    by_lambda: dict[float, float]


def reproduction_page(
    reports: Sequence[ExperimentReport], missing: dict[str, str], made: str
) -> str:
    summaries = [report.headline for report in reports]
    together = judge_all(JOINT_CLAIMS, summaries)
    named = [r for r in reports if not r.headline.experiment.stands_for]
    parts = [
        INTRODUCTION.format(made=made),
        overview(named, together, columns_of_gisette(summaries)),
        readings_section(reports),
        *(experiment_section(report) for report in reports),
        *(f"## {title}\n\nNot run: {reason}\n" for title, reason in missing.items()),
        joint_section(together),
        CHOICES,
    ]
    return "\n".join(parts)


# The verdicts -----------------------------------------------------------------------------------


def outcomes_by_reading(report: ExperimentReport) -> dict[str, dict[str, Outcome]]:
    """The outcome of every claim of an experiment, by reading and by the name of the claim."""
    headline = report.headline
    subjects: dict[str, tuple[ExperimentSummary, ClosenessCriterion]] = {
        HEADLINE_READING: (headline, HEADLINE),
        SECOND_READING: (headline, ONE_STANDARD_ERROR),
    }
    for convention in FLOP_CONVENTIONS:
        if convention != "measured":
            subjects[f"FLOPs {convention}"] = (headline.with_flops(convention), HEADLINE)
    subjects |= {label: (summary, HEADLINE) for label, summary in report.readings.items()}
    return {
        label: {claim.name: claim.check([s], criterion).outcome for claim in claims_of(s)}
        for label, (s, criterion) in subjects.items()
    }


def claims_of(summary: ExperimentSummary) -> list[Claim]:
    return [c for c in EXPERIMENT_CLAIMS if c.experiments == (summary.experiment.claims_of,)]


def reproducing(by_reading: dict[str, dict[str, Outcome]]) -> list[str]:
    """The readings under which no claim of an experiment fails."""
    return [
        label for label, outcomes in by_reading.items() if Outcome.FAILS not in outcomes.values()
    ]


def holding_under_none(by_reading: dict[str, dict[str, Outcome]]) -> list[str]:
    """The names of the claims that fail under every reading."""
    names = by_reading[HEADLINE_READING]
    return [
        name
        for name in names
        if all(outcomes[name] is Outcome.FAILS for outcomes in by_reading.values())
    ]


# The sections -----------------------------------------------------------------------------------


def columns_of_gisette(summaries: Iterable[ExperimentSummary]) -> str:
    """Of how many columns of Gisette the verdicts are; "" if of all."""
    found = (s.shape[1] for s in summaries if s.experiment.name == "gisette")
    n_columns = next(found, GISETTE_COLUMNS)
    return "" if n_columns == GISETTE_COLUMNS else f"{n_columns:,} of {GISETTE_COLUMNS:,} columns"


def overview(reports: Sequence[ExperimentReport], together: list[Verdict], columns: str) -> str:
    """The first table; `columns` says how much of Gisette was there."""
    lines = [
        "## Verdicts\n",
        "FLOPs are as measured. The verdict is for the headline criterion, close means 1 % of the "
        "linear axis; the next column is for one standard error of RR.\n",
        *([PART_OF_GISETTE.format(columns=columns)] if columns else []),
        "| figure | the paper says | verdict | one standard error | details |",
        "| --- | --- | --- | --- | --- |",
    ]
    for report in reports:
        experiment = report.headline.experiment
        for verdict in judge_all(EXPERIMENT_CLAIMS, [report.headline]):
            figure = f"{experiment.figures.curves}{on_columns(verdict, columns)}"
            lines.append(
                f"| {figure} | {verdict.quote} | {bold(verdict.outcome)} | "
                f"{bold(verdict.second)} | [{experiment.title.split(':')[0]}](#{experiment.name}) |"
            )
    for verdict in together:
        where = f"{place(verdict)}{on_columns(verdict, columns)}"
        lines.append(
            f"| {where} | {verdict.quote} | {bold(verdict.outcome)} | "
            f"{bold(verdict.second)} | [several experiments](#several-experiments) |"
        )
    return "\n".join(lines) + "\n"


def on_columns(verdict: Verdict, columns: str) -> str:
    """What the first column of the table adds where only part of Gisette was there."""
    if not columns or "gisette" not in verdict.experiments:
        return ""
    return f", on {columns}" if len(verdict.experiments) == 1 else f", Gisette on {columns}"


def place(verdict: Verdict) -> str:
    return verdict.source.replace("Section ", "§ ").split(",")[0]


def bold(outcome: Outcome) -> str:
    return f"**{outcome}**" if outcome is Outcome.FAILS else str(outcome)


def readings_section(reports: Sequence[ExperimentReport]) -> str:
    """Which reading reproduces which figure, and what holds under none."""
    quotes = {claim.name: claim.quote for claim in EXPERIMENT_CLAIMS}
    lines = [
        "## Which reading reproduces which figure\n",
        "The paper leaves some things open. The table names the readings under which none of the "
        "sentences about a figure fails. Ties count as not failing.\n",
        "| figure | readings under which no sentence fails | sentences that fail under all |",
        "| --- | --- | --- |",
    ]
    for report in reports:
        by_reading = outcomes_by_reading(report)
        experiment = report.headline.experiment
        good = ", ".join(reproducing(by_reading)) or "none"
        bad = "; ".join(f"“{quotes[n]}”" for n in holding_under_none(by_reading)) or "none"
        columns = columns_of_gisette([report.headline])
        data = f"{experiment.name}, {columns}" if columns else experiment.name
        lines.append(f"| {experiment.figures.curves} ({data}) | {good} | {bad} |")
    return "\n".join([*lines, search_paragraph([r.headline for r in reports])]) + "\n"


def search_paragraph(summaries: Sequence[ExperimentSummary]) -> str:
    """What a search for thresholds found, relative to predicting nothing; "" if it is not so."""
    found = {s.experiment.name: s for s in summaries if s.experiment.name in MODELS}
    criterion = ClosenessCriterion(null_fraction=SEARCHED)
    holds = len(found) == len(MODELS) and all(
        claim.check([summary], criterion).outcome is Outcome.HOLDS
        for summary in found.values()
        for claim in claims_of(summary)
    )
    if not holds:
        return ""
    ranges = describe_intervals(common_intervals(found["model1"]))
    return (
        "\n**Found by search**, and so no evidence: if close means at most "
        f"{100 * SEARCHED:g} % of the way from RR to predicting nothing, every sentence about "
        f"Models 1 to 3 holds. The sentences about Model 1 hold together for {ranges} of that way."
    )


def common_intervals(summary: ExperimentSummary) -> tuple[tuple[float, float], ...]:
    """The shares of the way to predicting nothing for which all claims of an experiment hold."""
    holds = [
        all(
            claim.check([summary], ClosenessCriterion(null_fraction=t)).outcome is Outcome.HOLDS
            for claim in claims_of(summary)
        )
        for t in THRESHOLDS
    ]
    return merge_runs(holds)


def experiment_section(report: ExperimentReport) -> str:
    summary, name = report.headline, report.headline.experiment.name
    n, p = summary.shape
    close = summary.rr.best + summary.close_excess(HEADLINE)
    lines = [
        f"({name})=",
        f"## {summary.experiment.title}\n",
        f"Data: **{summary.data}**; X is {n} x {p}, lambda = {summary.lam:.3g}, "
        f"{summary.n_repeats} repeats. The linear axis ends at {summary.axis_top:.3g}, RR is at "
        f"{summary.rr.best:.3g}, so that close is {close:.3g}.{first_points(summary)}\n",
    ]
    for stem, caption in captions(summary).items():
        lines.append(f"![{caption}](figures/{name}-{stem}.svg)\n\n*{caption}*\n")
    lines += verdict_table(judge_all(EXPERIMENT_CLAIMS, [summary]))
    lines += readings_table(report)
    if report.by_lambda:
        lines += lambda_table(report)
    return "\n".join([*lines, *points_table(summary)]) + "\n"


def first_points(summary: ExperimentSummary) -> str:
    """A sentence on the curves that are close from their first point on; "" if there are none."""
    excess = summary.close_excess(HEADLINE)
    names = [
        curve.algorithm
        for curve in summary.curves.values()
        if len(curve.parameters) > 1 and curve.value[0] - summary.rr.best <= excess
    ]
    if not names:
        return ""
    return (
        f" The first point on the grid of {', '.join(names)} is close already: the cost to come "
        "close is then that of the first point, and says nothing about convergence."
    )


def verdict_table(verdicts: Iterable[Verdict]) -> list[str]:
    lines = [
        "| the paper says | what was judged | measured | verdict | one standard error | holds for "
        "thresholds |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for v in verdicts:
        measured = v.measured.replace("|", "/")
        lines.append(
            f"| “{v.quote}” ({v.source}) | {v.meaning} | {measured} | {bold(v.outcome)} | "
            f"{bold(v.second)} | {v.thresholds} |"
        )
    return lines


def readings_table(report: ExperimentReport) -> list[str]:
    by_reading = outcomes_by_reading(report)
    quotes = {claim.name: claim.quote for claim in EXPERIMENT_CLAIMS}
    lines = [
        "\nUnder other readings:\n",
        f"| the paper says | {' | '.join(by_reading)} |",
        "| --- |" + " --- |" * len(by_reading),
    ]
    for name in by_reading[HEADLINE_READING]:
        marks = " | ".join(bold(outcomes[name]) for outcomes in by_reading.values())
        lines.append(f"| {quotes[name]} | {marks} |")
    few = {summary.n_repeats for summary in report.readings.values()}
    if few:
        lines.append(
            f"\nReadings that change lambda or the data were run with {max(few)} repeats. The "
            "others judge the points of the headline run."
        )
    return lines


def lambda_table(report: ExperimentReport) -> list[str]:
    head = " | ".join(f"lambda x {factor:g}" for factor in report.by_lambda)
    row = " | ".join(f"{value:.4g}" for value in report.by_lambda.values())
    rule = " --- |" * (len(report.by_lambda) + 1)
    measure = report.headline.experiment.measure
    return [
        "\nRR on one more draw, for multiples of the default lambda:\n", f"| | {head} |",
        f"|{rule}",
        f"| RR's {measure} | {row} |",
    ]  # fmt: skip


def points_table(summary: ExperimentSummary) -> list[str]:
    """All points, folded away; the file has those of every repeat."""
    name, measure = summary.experiment.name, summary.experiment.measure
    lines = [
        f"\n{{download}}`Points of every repeat (CSV) <figures/{name}-points.csv>`\n",
        "<details><summary>Means of all points</summary>\n",
        "The parameter is k1 for PCR, n1 for GD, n2 for LING, and the number of passes of SVRG "
        "before its full gradients. Values are means with one standard error.\n",
        f"| algorithm | parameter | GFLOPs | passes | seconds | {measure} |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for curve in summary.curves.values():
        for parameter, flops, passes, seconds, value, deviation in curve.rows():
            lines.append(
                f"| {curve.algorithm} | {'' if curve is summary.rr else parameter} | "
                f"{flops / 1e9:.2f} | {passes:.0f} | {seconds:.2f} | "
                f"{value:.4g} ± {deviation / np.sqrt(summary.n_repeats):.2g} |"
            )
    return [*lines, "\n</details>"]


def joint_section(verdicts: list[Verdict]) -> str:
    lines = [
        "(several-experiments)=",
        "## Several experiments together\n",
        "The figures of LING+SVRG in the sections above belong to the conjecture.\n",
        *verdict_table(verdicts),
        "\n**What compiled code changes.** The paper's sentence about MATLAB is judged with an SVRG"
        " that an interpreter runs row by row. `ling.paper.svrg` is compiled. Its rate is given too"
        " and shows how much of LING's advantage is left without the interpreter.",
    ]
    return "\n".join(lines) + "\n"


def errata_page(numbers: Sequence[Lemma2Numbers]) -> str:
    lines = [
        LEMMA_2,
        "| model | measured | with n^2 (as proved) | with n (as printed) |",
        "| --- | --- | --- | --- |",
    ]
    for row in numbers:
        lines.append(
            f"| {row.model} | {row.measured:.4g} ± {row.error:.1g} | {row.proved:.4g} | "
            f"{row.printed:.4g} |"
        )
    return "\n".join([*lines, OTHER_ERRATA])


INTRODUCTION = """# The paper, reproduced

The five experiments of section 4 of Lu & Foster's paper with its sizes and grids, run on {made}.
Of Gisette, 1000 of 5000 columns were available, and a surrogate has all 5000. `make reproduction`
writes this page anew. `ling reproduce all` runs the headline reading alone and leaves an
`index.html`. [Errata](errata.md) lists what is misprinted in the paper.

Figures 1 and 4 are in [Model 1](#model1), 2 and 5 in [Model 2](#model2), 3 and 6 in
[Model 3](#model3), 7 and 9 in [Gisette](#gisette), 8 and 10 in [Buzz](#buzz).

**How sentences are judged.** Each sentence of the paper is quoted with its place, and judged for
what it says and no more. A difference within its standard error, paired over the repeats, is a
*tie*. A sentence that the data cannot answer is *not judged*, with the reason. Vague words mean the
same everywhere:

- fast: for less than half of RR's cost; slightly: at most twice the cost; much: a factor of two;
- reasonable, small: within ten times the distance that counts as close;
- huge, off target: more than ten times RR's value.

**Costs** are multiples of RR's, at the first point of a curve that is close. "0.032 to 0.043" are
the costs if its mean is lowered or raised by one standard error, and "never" means at no point of
the grid. Of two LING curves the more expensive one counts.

**What "close to RR" means.** A reader of a printed figure cannot see differences below about 1 % of
its axis. Close is therefore an excess over RR of at most 1 % of the linear axis of the redrawn
figure. That axis runs from 0 to the largest mean among the points of PCR, GD, SVRG and LING; points
worse than predicting nothing have diverged and do not count. The second criterion is one standard
error of RR's mean. For each sentence the tables also give the thresholds for which it holds and is
not a tie, in per cent of the axis, out of ten per decade from 0.0001 % to 100 %.

**How FLOPs are counted.** *Measured* is what our code does, 2 FLOPs per multiply-add. *Printed*
evaluates the paper's algorithms literally: an iteration of GD takes 4 products with X, and LING
forms X_r. *Order* is section 2.2's O(np(k + n)): a component costs as much as an iteration. The
headline reading is *measured*; `ling reproduce --flops` takes any of them.
"""

PART_OF_GISETTE = """**Gisette is here with {columns}**, as the first column of the table says. Its
rows can say whether the algorithms compare on these data as they do in Figure 7. They cannot say
whether Figure 7 itself is right: its error rates and costs, RR's 0.019, and the singular values of
Figure 9 are those of all 5,000 columns. Nor can the [surrogate](#gisette-surrogate), which has
5,000 columns of other data.
"""

CHOICES = """## What the paper leaves open

The headline choices were made on ridge's own results, never on how a sentence comes out:

- The noise has standard deviation 1, and lambda makes ridge the posterior mean. The other reading
  scales the noise to a tenth of the root mean square of each model's signal.
- Model 1's singular values below the 30th are 0.1, so weak that PCR with 30 components is as good
  as ridge. The reading "tail 1" sets them to 1.
- Model 3's "top 15 sampled values" are the largest. The other reading takes the first 15 drawn.
- Buzz is taken by logarithms of its counts, standardised before and after the products. Of a file
  with 20000 random rows, one subset of 8000 is used: 6000 for training and 2000 for testing, split
  anew in each repeat. The other reading takes the raw counts in the same way.
- Gisette is divided by 999 and not centred. The full data (6000 x 5000) are used where they can be
  had. Otherwise the page shows its first 1000 columns, and a surrogate with 5000 columns that was
  made from MNIST's 4s and 9s in the way Gisette was.
- SVRG's step is chosen by 3-fold cross-validation, for as many passes as its curve runs, with a
  full gradient every two passes.
- LING is the simplified version of section 2.1, as in the paper.
"""

LEMMA_2 = """# Errata of the paper

## Lemma 2: n in place of n^2

Lemma 2 prints the squared bias of stage 2 with n lambda^2 where its proof, and Theorem 2, have
n^2 lambda^2. The table compares both with the mean of ||X_r (gamma2 - estimate)||^2 over 2000 draws
of the noise, on models of 200 x 150 with 15 exact components removed. There lambda is 100 times its
default, so that the bias is large enough to be seen. `ling.paper.theory.lemma2` follows the proof,
and `ling.paper.theory.lemma2_as_printed` has the misprint.
"""

OTHER_ERRATA = """
## Captions of Figures 7 and 8: n2 in place of k2

They speak of "two LING lines with different n2". The lines differ in k2, 5 and 15; n2 runs along
each line.

## Equation (5): a better constant

The sentence after equation (5) says that removing the top principal components makes C
significantly smaller than 1. As printed, the constant does not show that: it stays above 0.99 on
all three models. The equation leaves out the smallest singular value, because it is 0 in the
directions that stage 1 removed. Started at zero, gradient descent never enters those directions.
For p <= n the smallest singular value of X may then be used as in equation (4). The constant
becomes

    C = ((d_(k2+1)^2 - d_p^2) / (d_(k2+1)^2 + d_p^2 + 2 n lambda))^2

`ling.paper.theory.ling_rate_from_zero` computes it.
"""
