"""What became of the columns of a table, before anything was fitted."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ling.io.encoding import Encoding, OneHot
from ling.report.html_tables import scrolling_table
from ling.report.report_data import ReportData
from ling.wording import format_count, pluralize, truncate_middle

# Columns of text with a row of their own, and names in a list.
MAX_TEXT_COLUMNS, MAX_LISTED_NAMES = 30, 6


def encoding_table(facts: ReportData) -> str:
    """A row for each column of text and one for all numbers; nothing where X was numbers."""
    encoding: Encoding | None = getattr(facts.model, "encoding_", None)
    if encoding is None:
        return ""
    rows = [_one_hot_row(column, encoding.fills) for column in encoding.one_hot[:MAX_TEXT_COLUMNS]]
    more = encoding.one_hot[MAX_TEXT_COLUMNS:]
    if more:
        width = sum(column.width for column in more)
        rows.append(
            (
                _abbreviate_names(c.name for c in more),
                "text",
                f"{format_count(width)} columns of 0 and 1",
            )
        )
    if encoding.numeric:
        filled = "as they are; where one is missing, the mean of its column"
        rows.append((
            _abbreviate_names(column.name for column in encoding.numeric),
            pluralize(len(encoding.numeric), "column") + " of numbers",
            filled if encoding.fills else "as they are; none is missing",
        ))  # fmt: skip
    head = (
        '<th scope="col">in the table</th><th scope="col" class="more">kind</th>'
        '<th scope="col">became</th>'
    )
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="more">{escape(kind)}</td>'
        f"<td>{escape(what)}</td></tr>"
        for name, kind, what in rows
    )
    inside = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return scrolling_table("What became of the columns", inside, "columns")


def _one_hot_row(column: OneHot, fills: bool) -> tuple[str, str, str]:
    what = (
        f"{pluralize(column.width, 'column')} of 0 and 1, one for each category: "
        f"{_abbreviate_names(column.categories)}"
    )
    return (
        truncate_middle(column.name),
        "text",
        what + ("; all 0 where it is missing" if fills else ""),
    )


def _abbreviate_names(given: Iterable[str]) -> str:
    names = [truncate_middle(name) for name in given]
    more = (
        f" and {format_count(len(names) - MAX_LISTED_NAMES)} more"
        if len(names) > MAX_LISTED_NAMES
        else ""
    )
    return f"{', '.join(names[:MAX_LISTED_NAMES])}{more}"
