"""How well it predicts rows that were left out: tables of targets and classes, and pictures."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling.estimators.out_of_sample import OutOfSample
from ling.report.held_out_scores import ClassificationScores, RegressionScores
from ling.report.html_layout import not_shown, target_views, wrap_figure, wrap_figures
from ling.report.html_tables import Cell, number_cards, number_cell, scrolling_table, sortable_table
from ling.report.prediction_display import (
    PLOT_KINDS,
    DecisionDisplay,
    PredictionDisplay,
    describe_class,
)
from ling.report.report_data import ReportData
from ling.report.svg import render_svg
from ling.wording import (
    format_count,
    format_number,
    format_percent,
    pluralize,
    truncate_middle,
)

# Rows of a table.
MAX_TABLE_ROWS = 500
# Classes of which a table of all pairs can be read; of more, so many pairs are shown.
MAX_CONFUSION_CLASSES, MAX_CONFUSION_PAIRS = 20, 20


def held_out_section(facts: ReportData) -> str:
    """Predictions for rows that were left out."""
    held, scores = facts.held_out, facts.scores
    if not isinstance(held, OutOfSample) or scores is None:
        return not_shown(str(held))
    n = facts.fitted_problem.cv_problem.shape[0]
    rows = "all" if len(held.rows) == n else f"{format_count(len(held.rows))} of"
    words = (
        "Every number and picture here is about rows that a fit had not seen: "
        f"{rows} {pluralize(n, 'row')}, predicted with the same alpha by fits to other rows "
        f"({held.how})."
    )
    if facts.cv_score is not None:
        words += (
            " They are over all rows together: the cross-validated score above is the mean of "
            "those of the folds, which is another number."
        )
    if facts.cv_scores is not None:
        words += " alpha was chosen with their help: for a last word use data that nobody touched."
    if isinstance(scores, ClassificationScores):
        return f"<p>{escape(words)}</p>{_class_tables(facts, scores)}" + target_views(
            facts, lambda target: _decision_figure(facts, scores, target)
        )
    whole = _target_table(facts, scores) if len(facts.target_names) > 1 else _error_cards(scores)
    return f"<p>{escape(words)}</p>{whole}" + target_views(
        facts, lambda target: _prediction_figures(facts, scores, target)
    )


def _error_cards(scores: RegressionScores) -> str:
    return number_cards(
        [
            (
                format_number(scores.r2[0]),
                "R², over all rows together",
                "share of the variance explained",
            ),
            (format_number(scores.rmse[0]), "root mean square error", "large errors count more"),
            (format_number(scores.mean_absolute_error[0]), "mean error", "without sign"),
            (format_number(scores.spread[0]), "spread", "the error of always predicting the mean"),
        ]
    )


def _target_table(facts: ReportData, scores: RegressionScores) -> str:
    """Every target with its errors."""
    columns = (
        scores.r2,
        scores.rmse,
        scores.mean_absolute_error,
        scores.spread,
        facts.fitted_problem.alphas,
    )
    rows: list[list[Cell]] = [
        [(name, None), *(number_cell(column[t]) for column in columns)]
        for t, name in enumerate(facts.target_names[:MAX_TABLE_ROWS])
    ]
    head = ["target", "R²", "root mean square error", "mean error", "spread of target", "alpha"]
    return sortable_table(
        head, rows, _truncated_caption("Targets, held out", len(facts.target_names))
    )


def _class_tables(facts: ReportData, scores: ClassificationScores) -> str:
    names = [str(one) for one in facts.model.classes_]
    if scores.confusion is None:
        rows: list[list[Cell]] = [
            [
                (name, None),
                number_cell(scores.class_counts[i], format_count),
                number_cell(scores.class_accuracy[i], format_percent),
            ]
            for i, name in enumerate(names[:MAX_TABLE_ROWS])
        ]
        head = ["label", "rows with it", "right"]
        return sortable_table(head, rows, _truncated_caption("Labels, held out", len(names)))
    many = len(names) > MAX_CONFUSION_CLASSES
    table = (
        _confused_pairs_table(names, scores.confusion)
        if many
        else _confusion_table(names, scores.confusion)
    )
    return table + _recall_table(names, scores, scores.confusion)


def _recall_table(names: list[str], scores: ClassificationScores, found: NDArray[Any]) -> str:
    """Every class: how many of it are found, and how many of those said to be it are."""
    said = found.sum(axis=0)
    precision = np.diag(found) / np.where(said > 0, said, np.nan)
    rows: list[list[Cell]] = [
        [
            (name, None),
            number_cell(scores.class_counts[i], format_count),
            number_cell(scores.class_accuracy[i], format_percent),
            number_cell(precision[i], format_percent),
        ]
        for i, name in enumerate(names[:MAX_TABLE_ROWS])
    ]
    head = ["class", "rows", "found (recall)", "right when said (precision)"]
    return sortable_table(head, rows, _truncated_caption("Classes, held out", len(names)))


def _confused_pairs_table(names: list[str], found: NDArray[Any]) -> str:
    """The most frequent, of very many classes."""
    off = np.where(np.eye(len(names), dtype=bool), 0, found)
    order = np.argsort(-off, axis=None, kind="stable")[:MAX_CONFUSION_PAIRS]
    rows: list[list[Cell]] = [
        [(names[i], None), (names[j], None), number_cell(off[i, j], format_count)]
        for i, j in (divmod(int(at), len(names)) for at in order)
        if off[i, j]
    ]
    return sortable_table(["actual", "predicted", "rows"], rows, "Most frequent mistakes, held out")


def _confusion_table(names: list[str], found: NDArray[Any]) -> str:
    """Actual classes down, predicted ones across, the darker the more."""
    shares = found / np.maximum(1, found.sum(axis=1, keepdims=True))
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = []
    for i, name in enumerate(names):
        cells = "".join(
            f'<td class="{"right" if i == j else "wrong"}" style="--s:{shares[i, j]:.3f}">'
            f"{format_count(found[i, j])}</td>"
            for j in range(len(names))
        )
        body.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    caption = "Actual class (rows of the table) and predicted class (columns), held out"
    inside = f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
    return scrolling_table(caption, inside, "confusion")


def _prediction_figures(facts: ReportData, scores: RegressionScores, target: int) -> str:
    name = truncate_middle(facts.target_names[target])
    shown = PredictionDisplay(
        actual=scores.actual[:, target], predicted=scores.predicted[:, target], name=name
    )
    actual = render_svg(
        f"actual{target}", f"Actual against predicted {name}, held out",
        lambda ax: shown.plot(ax=ax, kind=PLOT_KINDS[0]),
    )  # fmt: skip
    residual = render_svg(
        f"residual{target}", f"Actual less predicted against predicted {name}, held out",
        lambda ax: shown.plot(ax=ax, kind=PLOT_KINDS[1]),
    )  # fmt: skip
    return wrap_figures(wrap_figure(actual), wrap_figure(residual))


def _decision_figure(facts: ReportData, scores: ClassificationScores, target: int) -> str:
    words = describe_class(facts.model, target)
    shown = DecisionDisplay(
        values=scores.values[:, target], belongs=scores.signs[:, target] > 0, **words
    )
    alt = f"Decision values of {words['name']} and of {words.get('other', 'other classes')}"
    drawn = render_svg(f"decision{target}", f"{alt}, held out", lambda ax: shown.plot(ax=ax))
    return wrap_figures(wrap_figure(drawn))


def _truncated_caption(caption: str, n: int) -> str:
    return (
        caption
        if n <= MAX_TABLE_ROWS
        else f"{caption}: the first {format_count(MAX_TABLE_ROWS)} of {format_count(n)}"
    )
