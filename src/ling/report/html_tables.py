"""Tables: names with values, rows that can be sorted, numbers to be seen at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, TypeAlias

from ling.wording import format_number, truncate_middle

#: Text, and the number that it is sorted by; None for text.
Cell: TypeAlias = tuple[str, float | None]
NUMERIC_CLASS = ' class="n"'


def definition_list(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values."""
    rows = (f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in pairs)
    return f"<dl>{''.join(rows)}</dl>"


def name_cell(name: str) -> str:
    """The name of a column: broken only where its words end, and cut where a word is too long."""
    text = re.sub(r"([_.=/\-]+)", r"\1<wbr>", escape(truncate_middle(name)))
    return f'<th scope="row" class="name" title="{escape(name)}">{text}</th>'


def number_cards(numbers: Iterable[tuple[str, str, str]]) -> str:
    """Value, name and a remark, to be seen at once."""
    items = (
        f"<li><b>{escape(number_cell)}</b> {escape(name)}<small>{escape(remark)}</small></li>"
        for number_cell, name, remark in numbers
    )
    return f'<ul class="numbers">{"".join(items)}</ul>'


def number_cell(found: Any, words: Callable[[float], str] = format_number) -> Cell:
    """A number in a table."""
    return words(float(found)), float(found)


def sortable_table(head: Sequence[str], rows: Sequence[Sequence[Cell]], caption: str) -> str:
    """A table whose columns can be sorted by, where the page's script runs."""
    first = rows[0] if rows else [("", None)] * len(head)
    names = (
        f'<th scope="col"{"" if format_number is None else NUMERIC_CLASS}>{escape(name)}</th>'
        for name, (_, format_number) in zip(head, first, strict=True)
    )
    body = (f"<tr>{''.join(_cell(*cell) for cell in row)}</tr>" for row in rows)
    return scrolling_table(
        caption,
        f"<thead><tr>{''.join(names)}</tr></thead><tbody>{''.join(body)}</tbody>",
        "sortable",
    )


def scrolling_table(caption: str, inside: str, kind: str) -> str:
    """A table that scrolls by itself where it is wider than the page."""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="{kind}"><caption>{escape(caption)}</caption>{inside}</table></div>'
    )


def _cell(text: str, format_number: float | None) -> str:
    if format_number is None:
        return f"<td>{escape(text)}</td>"
    return f'<td{NUMERIC_CLASS} data-v="{format_number:.6g}">{escape(text)}</td>'
