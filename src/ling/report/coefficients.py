"""Coefficients: the strongest as dots and whiskers, and all of them in a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from ling._typing import Array
from ling.report.html_tables import NUMERIC_CLASS, Cell, name_cell, number_cell, sortable_table
from ling.report.report_data import ReportData
from ling.wording import format_count, format_number

# Rows of the table that is drawn, and of those that can be searched: for one target, for several.
MAX_PLOTTED_COEFFICIENTS, MAX_TABLE_ROWS, MAX_TABLE_ROWS_PER_TARGET = 20, 500, 200
# Standard errors of a 95 % interval.
NORMAL_QUANTILE_95 = 1.96


def coefficient_plot(facts: ReportData, target: int) -> str:
    """Dots and whiskers of the largest coefficients, per spread of their columns."""
    scaled, errors = _standardized_coef(facts, target), _target_std_errors(facts, target)
    order = _rank_by_magnitude(scaled)[:MAX_PLOTTED_COEFFICIENTS]
    wide = (
        np.zeros(len(scaled))
        if errors is None
        else NORMAL_QUANTILE_95 * errors * facts.fitted_problem.spread
    )
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
            interval = f'<td class="n more">{format_number(left)} to {format_number(right)}</td>'
        rows.append(
            f"<tr>{name_cell(facts.feature_names[j])}"
            f'<td class="plot" aria-hidden="true"><span><u style="left:{-percent * low:.2f}%"></u>'
            f'{whisker}<b style="left:{percent * (scaled[j] - low):.2f}%"></b></span></td>'
            f"<td{NUMERIC_CLASS}>{format_number(scaled[j])}</td>{interval}"
            f'<td class="n more">{format_number(facts.coef[target, j])}</td></tr>'
        )
    intervals = '<th scope="col" class="n more">95 % interval</th>' if errors is not None else ""
    return (
        '<table class="dots"><thead><tr><th scope="col">column</th><td class="plot"></td>'
        f'<th scope="col"{NUMERIC_CLASS}>per spread</th>{intervals}'
        '<th scope="col" class="n more">per unit</th></tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def coefficient_table(facts: ReportData, target: int) -> str:
    """All coefficients, or the largest of very many: to be searched and sorted."""
    scaled, errors = _standardized_coef(facts, target), _target_std_errors(facts, target)
    most = MAX_TABLE_ROWS if len(facts.detailed_targets) == 1 else MAX_TABLE_ROWS_PER_TARGET
    order = _rank_by_magnitude(scaled)[:most]
    head = ["rank", "column", "per spread", "per unit", "spread of column"]
    rows: list[list[Cell]] = [
        [
            number_cell(rank, format_count),
            (facts.feature_names[j], None),
            number_cell(scaled[j], _four_digits),
            number_cell(facts.coef[target, j], _four_digits),
            number_cell(facts.fitted_problem.spread[j]),
        ]
        for rank, j in enumerate(order, 1)
    ]
    if errors is not None:
        head.insert(4, "std. error")
        for row, j in zip(rows, order, strict=True):
            row.insert(4, number_cell(errors[j]))
    p = len(scaled)
    which = (
        f"All {format_count(p)}"
        if p <= most
        else f"The {format_count(most)} strongest of {format_count(p)}"
    )
    return sortable_table(head, rows, f"{which} coefficients for {facts.target_names[target]}")


def _whisker(left: float, width: float) -> str:
    return f'<i style="left:{left:.2f}%;width:{width:.2f}%"></i>'


def _four_digits(found: float) -> str:
    return format_number(found, 4)


def _standardized_coef(facts: ReportData, target: int) -> Array:
    return np.asarray(facts.coef[target] * facts.fitted_problem.spread)


def _rank_by_magnitude(scaled: Array) -> Any:
    return np.argsort(-np.abs(scaled), kind="stable")


def _target_std_errors(facts: ReportData, target: int) -> Array | None:
    return None if isinstance(facts.std_errors, str) else facts.std_errors[target]
