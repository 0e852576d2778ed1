"""`index.html`: what a reproduction found, in one file that needs no network."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape
from pathlib import Path

from ling.reproduction.claims import Verdict, judge_all
from ling.reproduction.figures import captions
from ling.reproduction.outcomes import Outcome
from ling.reproduction.paper_claims import JOINT_CLAIMS
from ling.reproduction.runner import ExperimentResult, ReproductionSettings
from ling.reproduction.summary import Curve

VERDICT_CLASSES = {
    Outcome.HOLDS: "yes",
    Outcome.TIE: "tie",
    Outcome.FAILS: "no",
    Outcome.NOT_JUDGED: "unknown",
}


def render_page(
    outcomes: list[ExperimentResult], missing: dict[str, str], run: ReproductionSettings
) -> str:
    """The whole page."""
    together = judge_all(JOINT_CLAIMS, [outcome.summary for outcome in outcomes])
    kind = "Quick run, on smaller data and with few repeats: a sketch." if run.quick else ""
    sizes = "smaller data, the same" if run.quick else "the same sizes,"
    sections = "".join(_section(outcome, run) for outcome in outcomes)
    absent = "".join(
        f"<p class=note>{escape(n)} was not run: {escape(w)}</p>" for n, w in missing.items()
    )
    links = " ".join(
        f"<a href='#{o.summary.experiment.name}'>{escape(_heading(o))}</a>" for o in outcomes
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The LING paper, reproduced</title>
<link rel="icon" href="data:,">
<style>{PAGE_CSS}</style></head><body>
<header><h1>The LING paper, reproduced</h1>
<p>Section 4 of Lu &amp; Foster, <em>Fast Ridge Regression with Randomized Principal Component
Analysis and Gradient Descent</em>: {sizes} grids and measures, run again.</p>
<p class=quick>{kind}</p>
<nav>{links}</nav></header>
<main>{absent}{sections}{_joint_section(together)}
<section><h2>How to read this</h2>
<p>Each sentence of the paper is quoted once and judged for exactly what it says. A difference
within its standard error over the repeats is a tie. &ldquo;Close to RR&rdquo; means within 1 % of
the linear axis of the redrawn figure, which runs from 0 to the largest mean. Below a verdict stand
the verdict with one standard error of RR in place of that 1 %, where it differs, and the thresholds
(in per cent of the axis) for which the sentence holds.</p>
<p>FLOPs: {run.flops}. Where the paper is silent: {_describe_choices(run)}. Seed {run.seed}.</p>
</section></main>
</body></html>
"""


def _describe_choices(run: ReproductionSettings) -> str:
    c = run.choices
    step = "by cross-validation" if c.step is None else f"{c.step:g} / max ||x_i||^2"
    return (
        f"noise {_describe_noise(run)}; Model 1's tail {c.tail:g}; "
        f"Model 3's {'first' if c.first_drawn else 'largest'} 15 values raised; "
        f"{c.lam_factor:g} times the default lambda; "
        f"SVRG's step {step}; Gisette {'' if c.centre else 'not '}centred; "
        f"Buzz by {'logarithms' if c.log else 'raw counts'}"
    )


def _describe_noise(run: ReproductionSettings) -> str:
    ratio = run.choices.noise_ratio
    return f"{ratio:g} of the signal" if ratio else f"{run.choices.noise:g}"


def _section(outcome: ExperimentResult, run: ReproductionSettings) -> str:
    summary = outcome.summary
    folder = run.out / summary.experiment.name
    n, p = summary.shape
    tag = " <span class=quick>(quick run)</span>" if run.quick else ""
    return f"""<section id="{summary.experiment.name}">
<h2>{escape(_heading(outcome))}{tag}</h2>
<p class=note>{escape(summary.data)}: X is {n} x {p},
lambda = {summary.lam:.3g}, {summary.n_repeats} repeats.</p>
{"".join(_figure(folder / f"{s}.svg", text) for s, text in captions(summary).items())}
{_claims_table(outcome.verdicts)}
<details><summary>All points: {escape(summary.data)}</summary><div class=wide>
{_points_table(summary.curves.values(), summary.experiment.measure)}</div></details></section>"""


def _joint_section(verdicts: list[Verdict]) -> str:
    """What the paper says of several experiments at once; nothing if they are not all there."""
    if not verdicts:
        return ""
    return f"<section><h2>Several experiments together</h2>{_claims_table(verdicts)}</section>"


def _claims_table(verdicts: list[Verdict]) -> str:
    return f"""<div class=wide><table class=claims>
<thead><tr><th>The paper says</th><th>Measured</th><th>Verdict</th></tr></thead>
<tbody>{"".join(_claim_row(verdict) for verdict in verdicts)}</tbody></table></div>"""


def _heading(outcome: ExperimentResult) -> str:
    """What the data are: for real data their exact variant, never just their name."""
    summary = outcome.summary
    simulated = summary.experiment.load is None
    return summary.experiment.title if simulated else summary.data.split(", random")[0]


def _figure(path: Path, caption: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    image = f'<img alt="{escape(caption)}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def _claim_row(verdict: Verdict) -> str:
    second = (
        f'<small class="{VERDICT_CLASSES[verdict.second]}">one standard error: '
        f"{verdict.second}</small>"
        if verdict.second is not verdict.outcome
        else ""
    )
    thresholds = (
        f"<small>holds for thresholds: {escape(verdict.thresholds)}</small>"
        if verdict.by_closeness
        else ""
    )
    kind = VERDICT_CLASSES[verdict.outcome]
    return f"""<tr><td>&ldquo;{escape(verdict.quote)}&rdquo;<small>{escape(verdict.source)}</small>
<small>{escape(verdict.meaning)}</small></td><td>{escape(verdict.measured)}</td>
<td><b class="{kind}">{verdict.outcome}</b>{second}{thresholds}</td></tr>"""


def _points_table(curves: Iterable[Curve], measure: str) -> str:
    rows = "".join(
        f"<tr><td>{escape(curve.algorithm)}</td><td>{parameter or ''}</td>"
        f"<td>{flops / 1e9:.3f}</td><td>{passes:.0f}</td><td>{seconds:.3f}</td>"
        f"<td>{value:.4g}</td><td>{spread:.2g}</td></tr>"
        for curve in curves
        for parameter, flops, passes, seconds, value, spread in curve.rows()
    )
    return f"""<table class=points><thead><tr><th>algorithm</th><th>parameter</th><th>GFLOPs</th>
<th>passes</th><th>seconds</th><th>{escape(measure)}</th><th>deviation</th></tr></thead>
<tbody>{rows}</tbody></table>"""


PAGE_CSS = """
:root { color-scheme: light dark; --ink: #1c1c1e; --soft: #60606a; --paper: #fff; --line: #dcdce2;
  --yes: #0b6b3a; --no: #a8201a; --tie: #8a5a00; --unknown: #74747c; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececf0; --soft: #a8a8b2; --paper: #17171a;
  --line: #3a3a42; --yes: #5fd394; --no: #ff8a80; --tie: #f0c060; --unknown: #a0a0a8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: .5rem 0; } h2 { margin: 2.5rem 0 .25rem; font-size: 1.3rem; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; } a { color: inherit; }
.note, small { color: var(--soft); } small { display: block; font-size: .8rem; }
.quick { color: var(--no); }
figure { margin: 1rem 0; max-width: 46rem; } figcaption { color: var(--soft); font-size: .85rem; }
figure img { background: #fff; border-radius: 6px; width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; margin: .75rem 0; }
th, td { text-align: left; padding: .4rem .6rem .4rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
.points td:nth-child(n+2), .points th:nth-child(n+2) { text-align: right;
  font-variant-numeric: tabular-nums; }
.claims td:first-child { width: 40%; } .claims td:last-child { width: 12rem; }
.yes { color: var(--yes); } .no { color: var(--no); } .tie { color: var(--tie); }
.unknown { color: var(--unknown); }
summary { cursor: pointer; color: var(--soft); }
@media (max-width: 40rem) {
  .claims, .claims tbody, .claims tr, .claims td { display: block; width: auto !important; }
  .claims thead { display: none; } .claims td { border: 0; padding: .15rem 0; }
  .claims tr { border-bottom: 1px solid var(--line); padding: .5rem 0; } }
@media print { details { display: none; } section { break-inside: avoid-page; } }
"""
