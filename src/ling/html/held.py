"""How well it predicts rows that were left out: tables of targets and classes, and pictures."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling.display import DecisionDisplay, PredictionDisplay
from ling.display.predictions import KINDS, class_words
from ling.estimators.revisited import HeldOut
from ling.html.facts import Facts
from ling.html.parts import figure, figures, missing, views
from ling.html.pictures import picture
from ling.html.scores import Decisions, Errors
from ling.html.tables import Cell, cards, framed, sortable, value
from ling.html.words import count, counted, number, percent, short

# Rows of a table.
MOST = 500
# Classes of which a table of all pairs can be read; of more, so many pairs are shown.
MOST_CLASSES, MOST_PAIRS = 20, 20


def quality(facts: Facts) -> str:
    """Predictions for rows that were left out."""
    held, scores = facts.held, facts.scores
    if not isinstance(held, HeldOut) or scores is None:
        return missing(str(held))
    n = facts.again.samples.shape[0]
    rows = "all" if len(held.rows) == n else f"{count(len(held.rows))} of"
    words = (
        "Every number and picture here is about rows that a fit had not seen: "
        f"{rows} {counted(n, 'row')}, predicted with the same alpha by fits to other rows "
        f"({held.how})."
    )
    if facts.chosen_score is not None:
        words += (
            " They are over all rows together: the cross-validated score above is the mean of "
            "those of the folds, which is another number."
        )
    if facts.results is not None:
        words += " alpha was chosen with their help: for a last word use data that nobody touched."
    if isinstance(scores, Decisions):
        return f"<p>{escape(words)}</p>{_classes(facts, scores)}" + views(
            facts, lambda target: _decision(facts, scores, target)
        )
    whole = _targets(facts, scores) if len(facts.targets) > 1 else _errors(scores)
    return f"<p>{escape(words)}</p>{whole}" + views(
        facts, lambda target: _predictions(facts, scores, target)
    )


def _errors(scores: Errors) -> str:
    return cards([
        (number(scores.r2[0]), "R², over all rows together", "share of the variance explained"),
        (number(scores.rms[0]), "root mean square error", "large errors count more"),
        (number(scores.mean_size[0]), "mean error", "without sign"),
        (number(scores.spread[0]), "spread", "the error of always predicting the mean"),
    ])  # fmt: skip


def _targets(facts: Facts, scores: Errors) -> str:
    """Every target with its errors."""
    columns = scores.r2, scores.rms, scores.mean_size, scores.spread, facts.again.alphas
    rows: list[list[Cell]] = [
        [(name, None), *(value(column[t]) for column in columns)]
        for t, name in enumerate(facts.targets[:MOST])
    ]
    head = ["target", "R²", "root mean square error", "mean error", "spread of target", "alpha"]
    return sortable(head, rows, _some("Targets, held out", len(facts.targets)))


def _classes(facts: Facts, scores: Decisions) -> str:
    names = [str(one) for one in facts.model.classes_]
    if scores.confusion is None:
        rows: list[list[Cell]] = [
            [(name, None), value(scores.counts[i], count), value(scores.right[i], percent)]
            for i, name in enumerate(names[:MOST])
        ]
        head = ["label", "rows with it", "right"]
        return sortable(head, rows, _some("Labels, held out", len(names)))
    many = len(names) > MOST_CLASSES
    table = _mistakes(names, scores.confusion) if many else _confusion(names, scores.confusion)
    return table + _recall(names, scores, scores.confusion)


def _recall(names: list[str], scores: Decisions, found: NDArray[Any]) -> str:
    """Every class: how many of it are found, and how many of those said to be it are."""
    said = found.sum(axis=0)
    precision = np.diag(found) / np.where(said > 0, said, np.nan)
    rows: list[list[Cell]] = [
        [
            (name, None), value(scores.counts[i], count), value(scores.right[i], percent),
            value(precision[i], percent),
        ]
        for i, name in enumerate(names[:MOST])
    ]  # fmt: skip
    head = ["class", "rows", "found (recall)", "right when said (precision)"]
    return sortable(head, rows, _some("Classes, held out", len(names)))


def _mistakes(names: list[str], found: NDArray[Any]) -> str:
    """The most frequent, of very many classes."""
    off = np.where(np.eye(len(names), dtype=bool), 0, found)
    order = np.argsort(-off, axis=None, kind="stable")[:MOST_PAIRS]
    rows: list[list[Cell]] = [
        [(names[i], None), (names[j], None), value(off[i, j], count)]
        for i, j in (divmod(int(at), len(names)) for at in order)
        if off[i, j]
    ]
    return sortable(["actual", "predicted", "rows"], rows, "Most frequent mistakes, held out")


def _confusion(names: list[str], found: NDArray[Any]) -> str:
    """Actual classes down, predicted ones across, the darker the more."""
    shares = found / np.maximum(1, found.sum(axis=1, keepdims=True))
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = []
    for i, name in enumerate(names):
        cells = "".join(
            f'<td class="{"right" if i == j else "wrong"}" style="--s:{shares[i, j]:.3f}">'
            f"{count(found[i, j])}</td>"
            for j in range(len(names))
        )
        body.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    caption = "Actual class (rows of the table) and predicted class (columns), held out"
    inside = f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(body)}</tbody>"
    return framed(caption, inside, "confusion")


def _predictions(facts: Facts, scores: Errors, target: int) -> str:
    name = short(facts.targets[target])
    shown = PredictionDisplay(
        actual=scores.actual[:, target], predicted=scores.predicted[:, target], name=name
    )
    actual = picture(
        f"actual{target}", f"Actual against predicted {name}, held out",
        lambda ax: shown.plot(ax=ax, kind=KINDS[0]),
    )  # fmt: skip
    residual = picture(
        f"residual{target}", f"Actual less predicted against predicted {name}, held out",
        lambda ax: shown.plot(ax=ax, kind=KINDS[1]),
    )  # fmt: skip
    return figures(figure(actual), figure(residual))


def _decision(facts: Facts, scores: Decisions, target: int) -> str:
    words = class_words(facts.model, target)
    shown = DecisionDisplay(
        values=scores.values[:, target], belongs=scores.signs[:, target] > 0, **words
    )
    alt = f"Decision values of {words['name']} and of {words.get('other', 'other classes')}"
    drawn = picture(f"decision{target}", f"{alt}, held out", lambda ax: shown.plot(ax=ax))
    return figures(figure(drawn))


def _some(caption: str, n: int) -> str:
    return caption if n <= MOST else f"{caption}: the first {count(MOST)} of {count(n)}"
