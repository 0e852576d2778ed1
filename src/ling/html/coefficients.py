"""Coefficients: the strongest as dots and whiskers, and all of them in a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from ling.design import Array
from ling.html.facts import Facts
from ling.html.tables import NUMBER, Cell, name_cell, sortable, value
from ling.html.words import count, number

# Rows of the table that is drawn, and of those that can be searched: for one target, for several.
STRONGEST, MOST, MOST_OF_SEVERAL = 20, 500, 200
# Standard errors of a 95 % interval.
WIDE = 1.96


def strongest(facts: Facts, target: int) -> str:
    """Dots and whiskers of the largest coefficients, per spread of their columns."""
    scaled, errors = _scaled(facts, target), _errors(facts, target)
    order = _ranked(scaled)[:STRONGEST]
    wide = np.zeros(len(scaled)) if errors is None else WIDE * errors * facts.again.spread
    known = np.isfinite(wide)
    wide = np.where(known, wide, 0.0)
    low = float((scaled - wide)[order].min(initial=0.0))
    high = float((scaled + wide)[order].max(initial=0.0))
    percent = 100 / ((high - low) or 1.0)
    rows = []
    for j in order:
        left, right = scaled[j] - wide[j], scaled[j] + wide[j]
        whisker = interval = ""
        if errors is not None and not known[j]:
            interval = '<td class="n more">unknown</td>'
        elif errors is not None:
            whisker = _whisker(percent * (left - low), percent * (right - left))
            interval = f'<td class="n more">{number(left)} to {number(right)}</td>'
        rows.append(
            f"<tr>{name_cell(facts.features[j])}"
            f'<td class="plot" aria-hidden="true"><span><u style="left:{-percent * low:.2f}%"></u>'
            f'{whisker}<b style="left:{percent * (scaled[j] - low):.2f}%"></b></span></td>'
            f"<td{NUMBER}>{number(scaled[j])}</td>{interval}"
            f'<td class="n more">{number(facts.coef[target, j])}</td></tr>'
        )
    intervals = '<th scope="col" class="n more">95 % interval</th>' if errors is not None else ""
    return (
        '<table class="dots"><thead><tr><th scope="col">column</th><td class="plot"></td>'
        f'<th scope="col"{NUMBER}>per spread</th>{intervals}'
        '<th scope="col" class="n more">per unit</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def every(facts: Facts, target: int) -> str:
    """All coefficients, or the largest of very many: to be searched and sorted."""
    scaled, errors = _scaled(facts, target), _errors(facts, target)
    most = MOST if len(facts.shown) == 1 else MOST_OF_SEVERAL
    order = _ranked(scaled)[:most]
    head = ["rank", "column", "per spread", "per unit", "spread of column"]
    rows: list[list[Cell]] = [
        [
            value(rank, count), (facts.features[j], None), value(scaled[j], _precisely),
            value(facts.coef[target, j], _precisely), value(facts.again.spread[j]),
        ]
        for rank, j in enumerate(order, 1)
    ]  # fmt: skip
    if errors is not None:
        head.insert(4, "std. error")
        for row, j in zip(rows, order, strict=True):
            row.insert(4, value(errors[j]))
    p = len(scaled)
    which = f"All {count(p)}" if p <= most else f"The {count(most)} strongest of {count(p)}"
    return sortable(head, rows, f"{which} coefficients for {facts.targets[target]}")


def _whisker(left: float, width: float) -> str:
    return f'<i style="left:{left:.2f}%;width:{width:.2f}%"></i>'


def _precisely(found: float) -> str:
    return number(found, 4)


def _scaled(facts: Facts, target: int) -> Array:
    return np.asarray(facts.coef[target] * facts.again.spread)


def _ranked(scaled: Array) -> Any:
    return np.argsort(-np.abs(scaled), kind="stable")


def _errors(facts: Facts, target: int) -> Array | None:
    return None if isinstance(facts.std_errors, str) else facts.std_errors[target]
