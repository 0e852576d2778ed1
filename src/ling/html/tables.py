"""Tables of a report: coefficients, targets, classes, and names with values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from ling.design import Array
from ling.html.facts import Facts
from ling.html.scores import Decisions, Errors
from ling.html.words import count, number, percent, short

# Rows of the table that is drawn, and of those that can be searched: for one target, for several.
STRONGEST, MOST, MOST_OF_SEVERAL = 20, 500, 200
# Classes of which a table of all pairs can be read.
MOST_CLASSES = 20
NUMBER = ' class="n"'
# Standard errors of a 95 % interval.
WIDE = 1.96


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values."""
    return (
        "<dl>"
        + "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in pairs)
        + "</dl>"
    )


def cards(numbers: Iterable[tuple[str, str, str]]) -> str:
    """Value, name and a remark, to be seen at once."""
    items = "".join(
        f"<li><b>{escape(value)}</b> {escape(name)}<small>{escape(remark)}</small></li>"
        for value, name, remark in numbers
    )
    return f'<ul class="numbers">{items}</ul>'


def table(
    head: Sequence[str], rows: Sequence[Sequence[tuple[str, Any]]], *, caption: str, kind: str
) -> str:
    """Cells are text and what they are sorted by: a number, or None for text."""
    names = "".join(
        f'<th scope="col"{"" if value is None else NUMBER}>{escape(name)}</th>'
        for name, (_, value) in zip(head, rows[0] if rows else [("", None)] * len(head), strict=True)
    )
    body = "".join(f"<tr>{''.join(_cell(*cell) for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="{kind}"><caption>{escape(caption)}</caption><thead><tr>{names}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(text: str, value: Any = None) -> str:
    if value is None:
        return f"<td>{escape(text)}</td>"
    return f'<td{NUMBER} data-v="{float(value):.6g}">{escape(text)}</td>'


def strongest(facts: Facts, target: int) -> str:
    """Dots and whiskers of the largest coefficients, per spread of their columns."""
    scaled = facts.coef[target] * facts.again.spread
    order = _ranked(scaled)[:STRONGEST]
    errors = _errors(facts, target)
    wide = np.zeros(len(scaled)) if errors is None else WIDE * errors * facts.again.spread
    wide = np.nan_to_num(wide)
    low = min(0.0, float((scaled - wide)[order].min(initial=0.0)))
    high = max(0.0, float((scaled + wide)[order].max(initial=0.0)))
    room = (high - low) or 1.0

    def at(value: float) -> float:
        return 100 * (value - low) / room

    rows = []
    for j in order:
        whisker = ""
        interval = ""
        if errors is not None:
            ends = scaled[j] - wide[j], scaled[j] + wide[j]
            interval = f'<td class="n more">{number(ends[0])} to {number(ends[1])}</td>'
            whisker = f'<i style="left:{at(ends[0]):.2f}%;width:{100 * 2 * wide[j] / room:.2f}%"></i>'
        rows.append(
            f'<tr><th scope="row">{escape(short(facts.features[j]))}</th><td class="plot" aria-hidden="true">'
            f'<span><u style="left:{at(0.0):.2f}%"></u>{whisker}'
            f'<b style="left:{at(scaled[j]):.2f}%"></b></span></td>'
            f'<td class="n">{number(scaled[j])}</td>'
            f"{interval}"
            f'<td class="n more">{number(facts.coef[target, j])}</td></tr>'
        )
    intervals = '<th scope="col" class="n more">95 % interval</th>' if errors is not None else ""
    head = (
        '<th scope="col">column</th><th scope="col" class="plot" aria-hidden="true"></th>'
        f'<th scope="col"{NUMBER}>per spread</th>{intervals}<th scope="col" class="n more">per unit</th>'
    )
    return f'<table class="dots"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def coefficients(facts: Facts, target: int) -> str:
    """All coefficients, or the largest of very many: to be searched and sorted."""
    scaled = facts.coef[target] * facts.again.spread
    most = MOST if len(facts.shown) == 1 else MOST_OF_SEVERAL
    order = _ranked(scaled)[:most]
    errors = _errors(facts, target)
    head = ["rank", "column", "per spread", "per unit", "spread of column"]
    rows = [
        [
            (str(rank), rank), (facts.features[j], None), (number(scaled[j], 4), scaled[j]),
            (number(facts.coef[target, j], 4), facts.coef[target, j]),
            (number(facts.again.spread[j]), facts.again.spread[j]),
        ]
        for rank, j in enumerate(order, 1)
    ]  # fmt: skip
    if errors is not None:
        head.insert(4, "std. error")
        for row, j in zip(rows, order, strict=True):
            row.insert(4, (number(errors[j]), errors[j]))
    p = len(scaled)
    which = f"All {count(p)}" if p <= most else f"The {count(most)} strongest of {count(p)}"
    caption = f"{which} coefficients for {facts.targets[target]}"
    return table(head, rows, caption=caption, kind="sortable")


def of_targets(facts: Facts, scores: Errors) -> str:
    """Every target with its errors."""
    rows = [
        [
            (name, None), (number(scores.r2[t]), scores.r2[t]), (number(scores.rms[t]), scores.rms[t]),
            (number(scores.mean_size[t]), scores.mean_size[t]),
            (number(scores.spread[t]), scores.spread[t]),
            (number(facts.again.alphas[t]), facts.again.alphas[t]),
        ]
        for t, name in enumerate(facts.targets[:MOST])
    ]  # fmt: skip
    head = ["target", "R²", "root mean square error", "mean error", "spread of target", "alpha"]
    return table(head, rows, caption="Targets, held out", kind="sortable")


def of_classes(facts: Facts, scores: Decisions) -> str:
    """Every class with how many of it are found, and how many of those said to be it are."""
    names = [str(one) for one in facts.model.classes_]
    if scores.confusion is None:
        rows = [
            [(name, None), (count(scores.counts[i]), scores.counts[i]),
             (percent(scores.right[i]), scores.right[i])]
            for i, name in enumerate(names[:MOST])
        ]  # fmt: skip
        return table(["label", "rows with it", "right"], rows, caption="Labels, held out",
                     kind="sortable")  # fmt: skip
    said = scores.confusion.sum(axis=0)
    precision = np.diag(scores.confusion) / np.where(said > 0, said, np.nan)
    rows = [
        [(name, None), (count(scores.counts[i]), scores.counts[i]),
         (percent(scores.right[i]), scores.right[i]), (percent(precision[i]), precision[i])]
        for i, name in enumerate(names[:MOST])
    ]  # fmt: skip
    head = ["class", "rows", "found (recall)", "right when said (precision)"]
    return table(head, rows, caption="Classes, held out", kind="sortable")


def confusion(facts: Facts, scores: Decisions) -> str:
    """Actual classes down, predicted ones across; the most frequent pairs, if there are many."""
    found = scores.confusion
    if found is None:
        return ""
    names = [str(one) for one in facts.model.classes_]
    if len(names) > MOST_CLASSES:
        off = np.where(np.eye(len(names), dtype=bool), 0, found)
        pairs = np.argsort(-off, axis=None, kind="stable")[:STRONGEST]
        places = [np.unravel_index(at, off.shape) for at in pairs]
        rows = [
            [(names[i], None), (names[j], None), (count(off[i, j]), off[i, j])]
            for i, j in places
            if off[i, j]
        ]
        head = ["actual", "predicted", "rows"]
        return table(head, rows, caption="Most frequent mistakes, held out", kind="sortable")
    shares = found / np.maximum(1, found.sum(axis=1, keepdims=True))
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{_shares(found[i], shares[i], i)}</tr>'
        for i, name in enumerate(names)
    )
    caption = "Actual class (rows of the table) and predicted class (columns), held out"
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{caption}">'
        f'<table class="confusion"><caption>{caption}</caption><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _shares(counts: Array, shares: Array, right: int) -> str:
    cells = []
    for j, (n, share) in enumerate(zip(counts, shares, strict=True)):
        kind = "right" if j == right else "wrong"
        cells.append(f'<td class="{kind}" style="--s:{share:.3f}">{count(n) if n else "·"}</td>')
    return "".join(cells)


def _ranked(scaled: Array) -> Any:
    return np.argsort(-np.abs(scaled), kind="stable")


def _errors(facts: Facts, target: int) -> Array | None:
    return None if isinstance(facts.std_errors, str) else facts.std_errors[target]
