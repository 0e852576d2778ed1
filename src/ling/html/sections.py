"""The sections of a report, each from the facts to HTML."""

from __future__ import annotations

from html import escape
from inspect import signature
from typing import Any

import numpy as np

from ling.display import CVDisplay, PathDisplay, SpectrumDisplay
from ling.estimators.lazy import budget_asked
from ling.html import coefficients
from ling.html.facts import Facts
from ling.html.parts import beside, figure, missing, views
from ling.html.pictures import picture
from ling.html.summary import certificate, upwards
from ling.html.tables import NUMBER, definitions
from ling.html.words import count, counted, flops, n_bytes, number, seconds
from ling.machine import memory_budget_bytes

# Characters of a parameter, and names of targets or classes in a list.
LONGEST, MOST_NAMES = 120, 12
# Coefficients with names in the picture of the path.
NAMED = 8
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
    weights = facts.again.samples.weights
    several = len(facts.targets) > 1 and not facts.classifies
    told = dict(facts.about)
    spread = "" if (weights == 1).all() else _range(weights)
    weighted = ", ".join(filter(None, [told.pop("weights", ""), spread]))
    return definitions([
        ("model", type(facts.model).__name__),
        ("parameters", _parameters(facts.model)),
        ("rows", count(n)),
        ("columns", count(p)),
        ("targets" if several else "target", _targets(facts)),
        ("data", facts.source),
        ("weights", weighted or "none"),
        *((name, str(what)) for name, what in told.items()),
        ("ling", version),
        ("this report", when),
    ])  # fmt: skip


def proof(facts: Facts) -> str:
    """The certificate, and what it means."""
    found = facts.report.certificate
    numbers = f"Bound {number(upwards(found.bound))}, asked for (tol) {number(found.tol)}."
    if not found.bound <= 1:
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
        return missing("Only alpha = 0 was tried.")
    words = (
        f"{count(len(results.alphas))} alphas were scored by {results.method}. A larger alpha "
        "means a more cautious model. Where scores differ by less than a standard error, data like "
        "these cannot tell them apart: the largest such alpha is the more cautious choice."
    )
    chosen = definitions([
        ("alpha in use", _range(facts.again.alphas)),
        ("largest within one standard error", _range(model.alpha_1se_)),
    ])  # fmt: skip
    alt = f"Cross-validated score of {len(results.alphas)} alphas, with standard errors"
    drawn = picture("cv", alt, lambda ax: CVDisplay.from_estimator(model, ax=ax))
    return beside(f"<p>{escape(words)}</p>{chosen}", drawn)


def influence(facts: Facts) -> str:
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
    return f"<p>{escape(words)}</p>" + views(facts, lambda target: _coefficients(facts, target))


def spectrum(facts: Facts) -> str:
    """Directions of X and what is kept of them."""
    found = facts.spectrum
    if isinstance(found, str):
        return missing(found)
    if not len(found.eigenvalues):
        return missing("The columns do not vary.")
    shown = SpectrumDisplay(
        eigenvalues=found.eigenvalues, alpha=facts.again.alphas, edf=found.edf,
        n_directions=facts.again.samples.shape[1], note=found.note,
    )  # fmt: skip
    words = (
        "Each dot is a direction in which the rows vary, the strongest first. Ridge regression "
        "keeps directions far above alpha, and all but drops those far below; what it keeps adds "
        "up to the effective degrees of freedom."
    )
    alt = "Eigenvalues of X'X in decreasing order, and alpha among them"
    return beside(f"<p>{escape(words)}</p>", picture("spectrum", alt, lambda ax: shown.plot(ax=ax)))


def cost(facts: Facts) -> str:
    """What the fit took, and this report."""
    report = facts.report
    pairs = [("engine", report.engine)]
    if report.n_iter is not None:
        pairs.append(("iterations", count(report.n_iter)))
    if report.rank is not None:
        pairs.append(("rank of the sketch", count(report.rank)))
    time = seconds(report.total_seconds)
    if report.predicted_seconds is not None:
        time += f", predicted {seconds(report.predicted_seconds)}"
    more = counted(round(facts.cost.passes), "pass", "passes")
    pairs += [
        ("passes over X", number(report.cost.passes)),
        ("operations", flops(report.cost.flops)),
        ("time", time),
        ("memory", _memory(facts)),
        ("this report", f"{more} over X and {flops(facts.cost.flops)} more"),
    ]
    return f"{definitions(pairs)}{_stages(report.seconds)}"


def notes(facts: Facts) -> str:
    """Warnings first of all."""
    found = facts.notes
    if not found:
        return "<p>Nothing to report.</p>"
    return f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in found)}</ul>"


def _coefficients(facts: Facts, target: int) -> str:
    found = facts.path
    if isinstance(found, str):
        path = missing(f"How they change with alpha: {found[0].lower()}{found[1:]}")
    else:
        shown = PathDisplay(
            alphas=found.alphas, coef=found.coef[:, :, facts.shown.index(target)],
            edf=found.degrees, alpha=float(facts.again.alphas[target]),
            feature_names=facts.features, label="coefficient per spread",
        )  # fmt: skip
        alt = f"Coefficients for {facts.targets[target]} against alpha"
        path = figure(
            picture(f"path{target}", alt, lambda ax: shown.plot(ax=ax, n_highlighted=NAMED))
        )
    return (
        f'<div class="pair coefficients"><div>{coefficients.strongest(facts, target)}</div>'
        f"<div>{path}</div></div><details><summary>All coefficients</summary>"
        '<label class="search">Find a column <input type="search"></label>'
        f"{coefficients.every(facts, target)}</details>"
    )


def _memory(facts: Facts) -> str:
    asked, read = budget_asked(facts.model), facts.again.is_read
    allowed = n_bytes(memory_budget_bytes(asked, read))
    if asked is None:  # what is free is another number every time
        allowed = f"a quarter of all, {allowed}," if read else "half of what is free"
    planned = facts.report.predicted_bytes
    about = "" if planned is None else f"about {n_bytes(planned)} planned, "
    return f"{about}{allowed} allowed"


def _stages(found: dict[str, float]) -> str:
    longest = max([*found.values(), 1e-12])
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td{NUMBER}>{seconds(taken)}</td>'
        f'<td class="bar" aria-hidden="true"><i style="width:{100 * taken / longest:.1f}%"></i>'
        "</td></tr>"
        for name, taken in found.items()
    )
    return (
        f'<table class="bars"><caption>Time, stage by stage</caption><tbody>{rows}</tbody></table>'
    )


def _targets(facts: Facts) -> str:
    names = [str(one) for one in facts.model.classes_] if facts.classifies else facts.targets
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    found = f"{', '.join(names[:MOST_NAMES])}{more}"
    return f"{facts.target}: {found}" if facts.classifies else found


def _parameters(model: Any) -> str:
    """Those that differ from what they are by default."""
    known = signature(type(model).__init__).parameters
    found = {name: _shown(given) for name, given in model.get_params(deep=False).items()}
    changed = [f"{k}={v}" for k, v in found.items() if v != _shown(known[k].default)]
    return ", ".join(changed) or "all as by default"


def _shown(given: Any) -> str:
    """A parameter, without addresses of memory and without pages of numbers."""
    if callable(given) and hasattr(given, "__name__"):
        return str(given.__name__)
    text = repr(given.tolist() if isinstance(given, np.ndarray) else given)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _range(values: Any) -> str:
    low, high = float(np.min(values)), float(np.max(values))
    return number(low) if low == high else f"{number(low)} to {number(high)}"
