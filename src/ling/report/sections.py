"""The sections of a report, each from the facts to HTML."""

from __future__ import annotations

from html import escape
from inspect import signature
from typing import Any

import numpy as np

from ling.report import coefficients
from ling.report.cv_display import CVDisplay
from ling.report.html_layout import not_shown, target_views, text_beside_figure, wrap_figure
from ling.report.html_tables import NUMERIC_CLASS, definition_list
from ling.report.path_display import PathDisplay
from ling.report.report_data import ReportData
from ling.report.spectrum_display import SpectrumDisplay
from ling.report.summary import certificate_sentence, round_up
from ling.report.svg import render_svg
from ling.solvers.machine import parse_memory_budget
from ling.wording import (
    format_bytes,
    format_count,
    format_flops,
    format_number,
    format_seconds,
    pluralize,
)

# Characters of a parameter, and names of targets or classes in a list.
MAX_PARAMETER_CHARS, MAX_LISTED_NAMES = 120, 12
# Coefficients with names in the picture of the path.
N_HIGHLIGHTED = 8
#: What a certificate is, for somebody who has never seen one.
CERTIFICATE_EXPLANATION = """\
<p>Ridge regression has one exact answer. Computers only come near it: numbers are
rounded, and large problems are solved step by step until it is near enough. After every fit ling
works out, from the data itself and with rounding counted in, an upper bound on how far the
predictions for the training rows can be from those of the exact answer: the root of the mean
squared difference, as a share of the standard deviation of what is predicted (around 0, for a model
without an intercept). <code>tol</code> is how small that bound was asked to be.</p>
<p>It is a statement about the computation: this is the ridge regression that was asked for. It is
none about the world: whether a straight line is the right model, or whether new data will be like
these, is for the held-out numbers to suggest and for you to judge.</p>"""


def model_section(facts: ReportData, version: str, when: str) -> str:
    """HTML section about the model, its data and its parameters."""
    n, p = facts.fitted_problem.cv_problem.shape
    weights = facts.fitted_problem.cv_problem.weights
    several = len(facts.target_names) > 1 and not facts.is_classification
    told = dict(facts.about)
    spread = "" if (weights == 1).all() else _format_range(weights)
    weighted = ", ".join(filter(None, [told.pop("weights", ""), spread]))
    return definition_list([
        ("model", type(facts.model).__name__),
        ("parameters", _changed_parameters(facts.model)),
        ("rows", format_count(n)),
        ("columns", format_count(p)),
        ("targets" if several else "target", _describe_targets(facts)),
        ("data", facts.source),
        ("weights", weighted or "none"),
        *((name, str(what)) for name, what in told.items()),
        ("ling", version),
        ("this report", when),
    ])  # fmt: skip


def certificate_section(facts: ReportData) -> str:
    """The certificate, and what it means."""
    found = facts.report.certificate
    numbers = (
        f"Bound {format_number(round_up(found.bound))}, asked for (tol) {format_number(found.tol)}."
    )
    if not found.bound <= 1:
        numbers = f"Asked for (tol): {format_number(found.tol)}."
    return (
        f'<p class="lead">{escape(certificate_sentence(facts))}</p><p '
        f'class="note">{escape(numbers)}</p>'
        f"<details><summary>What does this mean?</summary>{CERTIFICATE_EXPLANATION}</details>"
    )


def alpha_section(facts: ReportData) -> str:
    """Scores against alpha; nothing for models that did not choose."""
    model, scores = facts.model, facts.cv_scores
    if scores is None:
        return ""
    if not (scores.alphas > 0).any():
        return not_shown("Only alpha = 0 was tried.")
    words = (
        f"{format_count(len(scores.alphas))} alphas were scored by {scores.method}. A larger "
        f"alpha "
        "means a more cautious model. Where scores differ by less than a standard error, data like "
        "these cannot tell them apart: the largest such alpha is the more cautious choice."
    )
    chosen = definition_list(
        [
            ("alpha in use", _format_range(facts.fitted_problem.alphas)),
            ("largest within one standard error", _format_range(model.alpha_1se_)),
        ]
    )
    alt = f"Cross-validated score of {len(scores.alphas)} alphas, with standard errors"
    drawn = render_svg("cv", alt, lambda ax: CVDisplay.from_estimator(model, ax=ax))
    return text_beside_figure(f"<p>{escape(words)}</p>{chosen}", drawn)


def coefficient_section(facts: ReportData) -> str:
    """The strongest coefficients, how they change with alpha, and all of them."""
    around = "standard deviation" if facts.model.fit_intercept else "root mean square"
    words = (
        f"“Per spread” is how much the prediction moves when a column moves by its {around}, all "
        "others fixed: these compare. “Per unit” is the coefficient as the model has it."
    )
    if isinstance(facts.std_errors, str):
        words += f" No intervals are drawn. {facts.std_errors}"
    else:
        words += (
            " Intervals are those of the Gaussian model (coefficients given these data, pulled "
            "towards 0 by alpha); an interval across 0 leaves the sign open."
        )
    if facts.report.engine == "ling" and not isinstance(facts.path, str):
        words += " Their change with alpha is that of exact ridge regression, without LING's error."
    return f"<p>{escape(words)}</p>" + target_views(
        facts, lambda target: _target_coefficients(facts, target)
    )


def spectrum_section(facts: ReportData) -> str:
    """Directions of X and what is kept of them."""
    found = facts.spectrum
    if isinstance(found, str):
        return not_shown(found)
    if not len(found.eigenvalues):
        return not_shown("The columns do not vary.")
    shown = SpectrumDisplay(
        eigenvalues=found.eigenvalues, alpha=facts.fitted_problem.alphas, edf=found.edf,
        n_directions=facts.fitted_problem.cv_problem.shape[1], note=found.note,
    )  # fmt: skip
    words = (
        "Each dot is a direction in which the rows vary, the strongest first. Ridge regression "
        "keeps directions far above alpha, and all but drops those far below; what it keeps adds "
        "up to the effective degrees of freedom."
    )
    alt = "Eigenvalues of X'X in decreasing order, and alpha among them"
    return text_beside_figure(
        f"<p>{escape(words)}</p>", render_svg("spectrum", alt, lambda ax: shown.plot(ax=ax))
    )


def cost_section(facts: ReportData) -> str:
    """What the fit took, and this report."""
    report = facts.report
    pairs = [("engine", report.engine)]
    if report.n_iter is not None:
        pairs.append(("iterations", format_count(report.n_iter)))
    if report.rank is not None:
        name = "components" if report.engine == "ling" else "rank of the sketch"
        pairs.append((name, format_count(report.rank)))
    time = format_seconds(report.total_seconds)
    if report.predicted_seconds is not None:
        time += f", predicted {format_seconds(report.predicted_seconds)}"
    more = pluralize(round(facts.cost.passes), "pass", "passes")
    pairs += [
        ("passes over X", format_number(report.cost.passes)),
        ("operations", format_flops(report.cost.flops)),
        ("time", time),
        ("memory", _describe_memory(facts)),
        ("this report", f"{more} over X and {format_flops(facts.cost.flops)} more"),
    ]
    return f"{definition_list(pairs)}{_stage_table(report.seconds)}"


def notes_section(facts: ReportData) -> str:
    """Warnings first of all."""
    found = facts.notes
    if not found:
        return "<p>Nothing to report.</p>"
    return f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in found)}</ul>"


def _target_coefficients(facts: ReportData, target: int) -> str:
    found = facts.path
    if isinstance(found, str):
        path = not_shown(f"How they change with alpha: {found[0].lower()}{found[1:]}")
    else:
        shown = PathDisplay(
            alphas=found.alphas, coef=found.coef[:, :, facts.detailed_targets.index(target)],
            edf=found.effective_dof, alpha=float(facts.fitted_problem.alphas[target]),
            feature_names=facts.feature_names, label="coefficient per spread",
        )  # fmt: skip
        alt = f"Coefficients for {facts.target_names[target]} against alpha"
        path = wrap_figure(
            render_svg(
                f"path{target}", alt, lambda ax: shown.plot(ax=ax, n_highlighted=N_HIGHLIGHTED)
            )
        )
    return (
        f'<div class="pair coefficients"><div>{coefficients.coefficient_plot(facts, target)}</div>'
        f"<div>{path}</div></div><details><summary>All coefficients</summary>"
        '<label class="search">Find a column <input type="search"></label>'
        f"{coefficients.coefficient_table(facts, target)}</details>"
    )


def _describe_memory(facts: ReportData) -> str:
    budget = getattr(facts.model, "memory_budget", None)
    allowed = format_bytes(parse_memory_budget(budget))
    if budget is None:
        allowed = f"a quarter of all, {allowed},"
    planned = facts.report.predicted_bytes
    about = "" if planned is None else f"about {format_bytes(planned)} planned, "
    return f"{about}{allowed} allowed"


def _stage_table(found: dict[str, float]) -> str:
    longest = max([*found.values(), 1e-12])
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td{NUMERIC_CLASS}>{format_seconds(taken)}</td>'
        f'<td class="bar" aria-hidden="true"><i style="width:{100 * taken / longest:.1f}%"></i>'
        "</td></tr>"
        for name, taken in found.items()
    )
    return (
        f'<table class="bars"><caption>Time, stage by stage</caption><tbody>{rows}</tbody></table>'
    )


def _describe_targets(facts: ReportData) -> str:
    names = (
        [str(one) for one in facts.model.classes_]
        if facts.is_classification
        else facts.target_names
    )
    more = f" and {len(names) - MAX_LISTED_NAMES} more" if len(names) > MAX_LISTED_NAMES else ""
    found = f"{', '.join(names[:MAX_LISTED_NAMES])}{more}"
    return f"{facts.target_name}: {found}" if facts.is_classification else found


def _changed_parameters(model: Any) -> str:
    """The parameters of `model` that differ from their defaults, as text."""
    known = signature(type(model).__init__).parameters
    found = {name: _format_parameter(given) for name, given in model.get_params(deep=False).items()}
    changed = [f"{k}={v}" for k, v in found.items() if v != _format_parameter(known[k].default)]
    return ", ".join(changed) or "all as by default"


def _format_parameter(given: Any) -> str:
    """A parameter, without addresses of memory and without pages of numbers."""
    if callable(given) and hasattr(given, "__name__"):
        return str(given.__name__)
    text = repr(given.tolist() if isinstance(given, np.ndarray) else given)
    return text if len(text) <= MAX_PARAMETER_CHARS else f"{text[: MAX_PARAMETER_CHARS - 1]}…"


def _format_range(values: Any) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return format_number(low) if low == high else f"{format_number(low)} to {format_number(high)}"
