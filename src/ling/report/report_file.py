"""`write_report`: what a fit found, as one page to be mailed to somebody."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from numpy.typing import ArrayLike

from ling import __version__
from ling._typing import MatrixLike
from ling.atomic_write import atomic_write, check_writable
from ling.design.row_source import verify_memmaps_unchanged
from ling.estimators import LingRegressor, RidgeModel
from ling.report import encoding_table, sections
from ling.report.held_out import held_out_section
from ling.report.html_tables import number_cards
from ling.report.report_data import ReportData, collect_report_data
from ling.report.summary import key_numbers, summary_paragraph
from ling.report.svg import check_matplotlib_installed


def write_report(
    path: str | os.PathLike[str], model: RidgeModel | LingRegressor, X: MatrixLike,
    y: ArrayLike | None = None, *, sample_weight: ArrayLike | None = None, title: str | None = None,
    target: str | Sequence[str] | None = None, source: str | None = None,
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
    model : Ridge, RidgeCV, RidgeClassifier, RidgeClassifierCV or LingRegressor
        Fitted to X, y and `sample_weight`; it is not changed.
    X, y, sample_weight
        As for `fit`: arrays, data frames, sparse matrices, or a Dataset, which has its own y.
    title : str, default=None
    target : str or sequence of str, default=None
        What y is called, or each of its columns; None for the names that y or the Dataset has.
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
    check_matplotlib_installed()
    check_writable(path)
    with verify_memmaps_unchanged(X, y, sample_weight):
        facts = collect_report_data(model, X, y, sample_weight, target, source, about or {})
    when = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %z")
    page = render_page(facts, title, when)
    with atomic_write(path) as part:
        part.write_text(page, encoding="utf-8")
    return Path(path)


def render_page(facts: ReportData, title: str | None, when: str) -> str:
    """The whole page."""
    title = title or f"{type(facts.model).__name__}: {facts.target_name}"
    chosen = sections.alpha_section(facts)
    return Template(_read_resource("page.html")).substitute(
        title=escape(title),
        style=_read_resource("page.css"),
        script=_read_resource("page.js"),
        summary=escape(summary_paragraph(facts)),
        numbers=number_cards(key_numbers(facts)),
        choice=f'<section id="alpha"><h2>The choice of alpha</h2>{chosen}</section>' * bool(chosen),
        choice_link='<a href="#alpha">alpha</a>' * bool(chosen),
        fitted=sections.model_section(facts, __version__, when)
        + encoding_table.encoding_table(facts),
        proof=sections.certificate_section(facts),
        quality=held_out_section(facts),
        coefficients=sections.coefficient_section(facts),
        spectrum=sections.spectrum_section(facts),
        cost=sections.cost_section(facts),
        notes=sections.notes_section(facts),
    )


def _read_resource(name: str) -> str:
    return files("ling.report").joinpath(name).read_text(encoding="utf-8")
