"""The sections of a report, each from the facts to HTML."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from ling.display import (
    CVDisplay,
    DecisionDisplay,
    PathDisplay,
    PredictionDisplay,
    SpectrumDisplay,
)
from ling.display.predictions import KINDS, class_words
from ling.estimators.lazy import budget_asked
from ling.estimators.revisited import HeldOut
from ling.html import tables
from ling.html.facts import Facts
from ling.html.pictures import picture
from ling.html.scores import Decisions, Errors
from ling.html.summary import certificate
from ling.html.words import count, counted, flops, n_bytes, number, seconds, short
from ling.planning import memory_budget_bytes

# Characters of a parameter.
LONGEST = 120
#: What a certificate is, for somebody who has never seen one.
MEANING = """<p>Ridge regression has one exact answer. Computers only come near it: numbers are
rounded, and large problems are solved step by step until it is near enough. After every fit ling
works out, from the data itself and with rounding counted in, an upper bound on how far the
predictions for the training rows can be from those of the exact answer: the root of the mean
squared difference, as a share of the standard deviation of what is predicted (around 0, for a model
without an intercept). <code>tol</code> is how small that bound was asked to be.</p>
<p>It is a statement about the computation: this is the ridge regression that was asked for. It is
none about the world: whether a straight line is the right model, or whether new data will be like
these, is for the held-out numbers to suggest and for you to judge.</p>"""


def fitted(facts: Facts, version: str, when: str) -> str:
    """What was fitted to what."""
    n, p = facts.again.samples.shape
    model = facts.model
    changed = {
        name: _shown(value)
        for name, value in model.get_params(deep=False).items()
        if _shown(value) != _shown(type(model)().get_params(deep=False)[name])
    }
    weights = facts.again.samples.weights
    pairs = [
        ("model", type(model).__name__),
        ("parameters", ", ".join(f"{k}={v}" for k, v in changed.items()) or "all as by default"),
        ("rows", count(n)),
        ("columns", count(p)),
        ("target" if len(facts.targets) == 1 or facts.classifies else "targets", _targets(facts)),
        ("data", facts.source),
        ("weights", "none" if (weights == 1).all() else _range(weights)),
        ("ling", version),
        ("this report", when),
    ]
    return tables.definitions(pairs)


def proof(facts: Facts) -> str:
    """The certificate, and what it means."""
    found = facts.report.certificate
    numbers = f"Bound {number(found.bound)}, asked for (tol) {number(found.tol)}."
    if found.bound > 1 or not np.isfinite(found.bound):
        numbers = f"Asked for (tol): {number(found.tol)}."
    return (
        f'<p class="lead">{escape(certificate(facts))}</p><p class="note">{escape(numbers)}</p>'
        f"<details><summary>What does this mean?</summary>{MEANING}</details>"
    )


def choice(facts: Facts) -> str:
    """Scores against alpha; nothing for models that did not choose."""
    model, results = facts.model, facts.results
    if results is None:
        return ""
    if not (results.alphas > 0).any():
        return _missing("Only alpha = 0 was tried.")
    alt = f"Cross-validated score of {len(results.alphas)} alphas, with standard errors"
    drawn = picture("cv", alt, lambda ax: CVDisplay.from_estimator(model, ax=ax))
    words = (
        f"{count(len(results.alphas))} alphas were scored by {results.method}. A larger alpha "
        "means a more cautious model. Where scores differ by less than a standard error, data like "
        "these cannot tell them apart: the largest such alpha is the more cautious choice "
        "(choice='one_standard_error')."
    )
    if any(facts.again.alphas == 0):
        words += " alpha = 0 was chosen, which is not on the axis."
    chosen = [("in use", facts.again.alphas), ("largest within one standard error", model.alpha_1se_)]
    pairs = [(name, _range(values)) for name, values in chosen]
    return _beside(f"<p>{escape(words)}</p>{tables.definitions(pairs)}", drawn)


def quality(facts: Facts) -> str:
    """Predictions for rows that were left out."""
    held, scores = facts.held, facts.scores
    if not isinstance(held, HeldOut) or scores is None:
        return _missing(str(held))
    n = facts.again.samples.shape[0]
    words = (
        f"Every number and picture here is about rows that the fit had not seen: "
        f"{counted(len(held.rows), 'row')} of {count(n)}, predicted with the same alpha by fits to "
        f"other rows ({held.how}). alpha itself was chosen with their help, if it was chosen; for "
        "a last word use data that nobody has touched."
    )
    if isinstance(scores, Decisions):
        whole = tables.confusion(facts, scores)
        if len(facts.model.classes_) > 2 or scores.confusion is None:
            whole += tables.of_classes(facts, scores)
        return f"<p>{escape(words)}</p>{whole}" + _views(facts, lambda t: _decision(facts, scores, t))
    whole = tables.of_targets(facts, scores) if len(facts.targets) > 1 else _errors(scores)
    return f"<p>{escape(words)}</p>{whole}" + _views(facts, lambda t: _predictions(facts, scores, t))


def coefficients(facts: Facts) -> str:
    """The strongest, how they change with alpha, and all of them."""
    around = "standard deviation" if facts.model.fit_intercept else "root mean square"
    words = (
        f"“Per spread” is how much the prediction moves when a column moves by its {around}, all "
        "others fixed: these compare. “Per unit” is the coefficient as the model has it."
    )
    if isinstance(facts.std_errors, str):
        words += f" No intervals are drawn: {facts.std_errors}"
    else:
        words += (
            " Intervals are those of the Gaussian model (coefficients given these data, pulled "
            "towards 0 by alpha); an interval across 0 leaves the sign open."
        )
    return f"<p>{escape(words)}</p>" + _views(facts, lambda t: _coefficients_of(facts, t))


def spectrum(facts: Facts) -> str:
    """Directions of X and what is kept of them."""
    found = facts.spectrum
    if isinstance(found, str):
        return _missing(found)
    if not len(found.eigenvalues):
        return _missing("The columns do not vary.")
    shown = SpectrumDisplay(
        eigenvalues=found.eigenvalues, alpha=facts.again.alphas, edf=found.edf,
        n_directions=facts.again.samples.shape[1], note=found.note,
    )  # fmt: skip
    words = (
        "Each dot is a direction in which the rows vary, the strongest first. Ridge regression "
        "keeps directions far above alpha, and all but drops those far below; what it keeps adds up "
        "to the effective degrees of freedom."
    )
    alt = "Eigenvalues of X'X in decreasing order, and alpha among them"
    return _beside(
        f"<p>{escape(words)}</p>", picture("spectrum", alt, lambda ax: shown.plot(ax=ax))
    )


def cost(facts: Facts) -> str:
    """What the fit took, and this report."""
    report, again = facts.report, facts.again
    predicted = report.predicted_seconds
    total = report.total_seconds
    longest = max([*report.seconds.values(), 1e-12])
    stages = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="n">{seconds(value)}</td>'
        f'<td class="bar" aria-hidden="true"><i style="width:{100 * value / longest:.1f}%"></i></td></tr>'
        for name, value in report.seconds.items()
    )
    budget = memory_budget_bytes(budget_asked(facts.model), of_all=again.by_blocks)
    pairs = [
        ("engine", f"{report.engine} ({report.reason})"),
        ("passes over X", number(report.cost.passes)),
        ("operations", flops(report.cost.flops)),
        ("time", seconds(total) + ("" if predicted is None else f", predicted {seconds(predicted)}")),
        (
            "memory",
            ("" if report.predicted_bytes is None else f"about {n_bytes(report.predicted_bytes)} on top of the data, as planned; ")
            + f"{n_bytes(budget)} allowed",
        ),
        (
            "this report",
            f"{counted(round(facts.cost.passes), 'pass', 'passes')} over X, "
            f"{flops(facts.cost.flops)} more",
        ),
    ]  # fmt: skip
    if report.rank is not None:
        pairs.insert(1, ("rank of the sketch", count(report.rank)))
    if report.n_iter is not None:
        pairs.insert(1, ("iterations", count(report.n_iter)))
    return (
        f'{tables.definitions(pairs)}<table class="bars"><caption>Seconds, stage by stage</caption>'
        f"<tbody>{stages}</tbody></table>"
    )


def notes(facts: Facts) -> str:
    """Warnings first of all."""
    found = facts.notes
    if not found:
        return "<p>Nothing to report.</p>"
    return f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in found)}</ul>"


def _predictions(facts: Facts, scores: Errors, target: int) -> str:
    name = short(facts.targets[target])
    shown = PredictionDisplay(
        actual=scores.actual[:, target], predicted=scores.predicted[:, target], name=name
    )
    alts = f"Actual against predicted {name}", f"Residuals against predicted {name}"
    drawn = [
        _figure(picture(f"{kind[:3]}{target}", alt, lambda ax, k=kind: shown.plot(ax=ax, kind=k)))  # type: ignore[misc]
        for kind, alt in zip(KINDS, alts, strict=True)
    ]
    return _figures(*drawn)


def _decision(facts: Facts, scores: Decisions, target: int) -> str:
    words = class_words(facts.model, target)
    shown = DecisionDisplay(
        values=scores.values[:, target], belongs=scores.signs[:, target] > 0, **words
    )
    alt = f"Decision values of {words['name']} and of {words.get('other', 'other classes')}"
    return _figures(_figure(picture(f"dec{target}", alt, lambda ax: shown.plot(ax=ax))))


def _errors(scores: Errors) -> str:
    return tables.cards([
        (number(scores.r2[0]), "R²", "share of the variance explained"),
        (number(scores.rms[0]), "root mean square error", "typical size, large ones count more"),
        (number(scores.mean_size[0]), "mean error", "without sign"),
        (number(scores.spread[0]), "spread", "the error of always predicting the mean"),
    ])  # fmt: skip


def _coefficients_of(facts: Facts, target: int) -> str:
    strongest = tables.strongest(facts, target)
    found = facts.path
    if isinstance(found, str):
        beside = _missing(f"How they change with alpha is not shown. {found}")
    else:
        at = facts.shown.index(target)
        shown = PathDisplay(
            alphas=found.alphas, coef=found.coef[:, :, at], edf=found.degrees,
            alpha=float(facts.again.alphas[target]), feature_names=facts.features,
            label="coefficient per spread",
        )  # fmt: skip
        alt = f"Coefficients for {facts.targets[target]} against alpha"
        drawn = picture(f"path{target}", alt, lambda ax: shown.plot(ax=ax, n_highlighted=8))
        beside = _figure(drawn)
    every = tables.coefficients(facts, target)
    return (
        f'<div class="pair coefficients"><div>{strongest}</div><div>{beside}</div></div>'
        f'<details><summary>All coefficients</summary><label class="search">Find a column '
        f'<input type="search"></label>{every}</details>'
    )


def _views(facts: Facts, make: Callable[[int], str]) -> str:
    """Parts for each of the shown targets: one after the other, or one of them at a time."""
    if len(facts.shown) == 1:
        return make(facts.shown[0])
    kind = "Class" if facts.classifies else "Target"
    parts = "".join(
        f'<div class="view" data-view="{t}"><h3>{kind} {escape(facts.targets[t])}{_rank(facts, i)}</h3>'
        f"{make(t)}</div>"
        for i, t in enumerate(facts.shown)
    )
    return f'<div class="views">{parts}</div>'


def _rank(facts: Facts, at: int) -> str:
    if len(facts.targets) <= len(facts.shown):
        return ""
    return f" <small>({('worst predicted', 'median', 'best predicted')[at]})</small>"


def _targets(facts: Facts) -> str:
    if facts.classifies:
        names = [str(one) for one in facts.model.classes_]
        return f"{facts.target}: {', '.join(names[:12])}{' …' if len(names) > 12 else ''}"
    names = list(facts.targets)
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"{', '.join(names[:12])}{more}"


def _figure(drawn: str) -> str:
    return f"<figure>{drawn}</figure>"


def _figures(*drawn: str) -> str:
    return f'<div class="figures">{"".join(drawn)}</div>'


def _beside(text: str, drawn: str) -> str:
    return f'<div class="pair"><div>{text}</div>{_figure(drawn)}</div>'


def _range(values: Any) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return number(low) if low == high else f"{number(low)} to {number(high)}"


def _missing(why: str) -> str:
    return f'<p class="missing">Not shown. {escape(why)}</p>'


def _shown(value: Any) -> str:
    """A parameter, without addresses of memory and without pages of numbers."""
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    if isinstance(value, np.ndarray):
        return f"{value.size} values from {number(value.min())} to {number(value.max())}" if (
            value.size > 6
        ) else str(value.tolist())  # fmt: skip
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
