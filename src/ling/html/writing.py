"""`write_report`: what a fit found, as one page to be mailed to somebody."""

from __future__ import annotations

import os
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from ling import __version__
from ling.design.source import unchanged_maps
from ling.files import check_writable, whole
from ling.html import columns, sections
from ling.html.facts import Facts, gather
from ling.html.held import quality
from ling.html.pictures import need_matplotlib
from ling.html.summary import key_numbers, paragraph
from ling.html.tables import cards


def write_report(
    path: str | os.PathLike[str], model: Any, X: Any, y: Any, *, sample_weight: Any = None,
    title: str | None = None, target: Any = None, source: str | None = None,
    about: dict[str, str] | None = None,
) -> Path:  # fmt: skip
    """Write what a fit found, how good it is and what it cost into one HTML file.

    The file needs no network and no other file. It looks at the data again: predictions for rows
    that were left out, for about what cross-validation of one alpha costs, and a path and a
    spectrum where they take no longer than the fit, or a few seconds. It stays within the model's
    `memory_budget`. The page says how many passes that took.

    Parameters
    ----------
    path : str or path
        Written whole, or not at all.
    model : Ridge, RidgeCV, RidgeClassifier or RidgeClassifierCV
        Fitted to X, y and `sample_weight`; it is not changed.
    X, y, sample_weight
        As for `fit`: arrays, data frames, sparse, scanned.
    title : str, default=None
    target : str or sequence of str, default=None
        What y is called, or each of its columns; None for the names that y has.
    source : str, default=None
        Where the data are from.
    about : dict of str, default=None
        What else is known of the data, by its name: {"left out": "id, date", "weights": "sold"}.

    Returns
    -------
    Path
        Where it was written.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_diabetes
    >>> from ling import RidgeCV, write_report
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = write_report(f"{folder}/diabetes.html", RidgeCV().fit(X, y), X, y)
    ...     print(found.name)
    diabetes.html
    """
    need_matplotlib()
    check_writable(path)
    with unchanged_maps(X, y, sample_weight):
        facts = gather(model, X, y, sample_weight, target, source, about or {})
    when = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %z")
    page = render(facts, title, when)
    with whole(path) as part:
        part.write_text(page, encoding="utf-8")
    return Path(path)


def render(facts: Facts, title: str | None, when: str) -> str:
    """The whole page."""
    title = title or f"{type(facts.model).__name__}: {facts.target}"
    chosen = sections.choice(facts)
    return Template(_text("page.html")).substitute(
        title=escape(title),
        style=_text("page.css"),
        script=_text("page.js"),
        summary=escape(paragraph(facts)),
        numbers=cards(key_numbers(facts)),
        choice=f'<section id="alpha"><h2>The choice of alpha</h2>{chosen}</section>' * bool(chosen),
        choice_link='<a href="#alpha">alpha</a>' * bool(chosen),
        fitted=sections.fitted(facts, __version__, when) + columns.became(facts),
        proof=sections.proof(facts),
        quality=quality(facts),
        coefficients=sections.influence(facts),
        spectrum=sections.spectrum(facts),
        cost=sections.cost(facts),
        notes=sections.notes(facts),
    )


def _text(name: str) -> str:
    return files("ling.html").joinpath(name).read_text(encoding="utf-8")
