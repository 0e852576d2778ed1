"""Tables: names with values, rows that can be sorted, numbers to be seen at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, TypeAlias

from ling.html.words import number, short

#: Text, and the number that it is sorted by; None for text.
Cell: TypeAlias = tuple[str, float | None]
NUMBER = ' class="n"'


def definitions(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values."""
    rows = (f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in pairs)
    return f"<dl>{''.join(rows)}</dl>"


def name_cell(name: str) -> str:
    """The name of a column: broken only where its words end, and cut where a word is too long."""
    text = re.sub(r"([_.=/\-]+)", r"\1<wbr>", escape(short(name)))
    return f'<th scope="row" class="name" title="{escape(name)}">{text}</th>'


def cards(numbers: Iterable[tuple[str, str, str]]) -> str:
    """Value, name and a remark, to be seen at once."""
    items = (
        f"<li><b>{escape(value)}</b> {escape(name)}<small>{escape(remark)}</small></li>"
        for value, name, remark in numbers
    )
    return f'<ul class="numbers">{"".join(items)}</ul>'


def value(found: Any, words: Callable[[float], str] = number) -> Cell:
    """A number in a table."""
    return words(float(found)), float(found)


def sortable(head: Sequence[str], rows: Sequence[Sequence[Cell]], caption: str) -> str:
    """A table whose columns can be sorted by, where the page's script runs."""
    first = rows[0] if rows else [("", None)] * len(head)
    names = (
        f'<th scope="col"{"" if number is None else NUMBER}>{escape(name)}</th>'
        for name, (_, number) in zip(head, first, strict=True)
    )
    body = (f"<tr>{''.join(_cell(*cell) for cell in row)}</tr>" for row in rows)
    return framed(
        caption,
        f"<thead><tr>{''.join(names)}</tr></thead><tbody>{''.join(body)}</tbody>",
        "sortable",
    )


def framed(caption: str, inside: str, kind: str) -> str:
    """A table that scrolls by itself where it is wider than the page."""
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f'<table class="{kind}"><caption>{escape(caption)}</caption>{inside}</table></div>'
    )


def _cell(text: str, number: float | None) -> str:
    if number is None:
        return f"<td>{escape(text)}</td>"
    return f'<td{NUMBER} data-v="{number:.6g}">{escape(text)}</td>'
