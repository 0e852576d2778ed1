"""What became of the columns of a table, before anything was fitted."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ling.html.facts import Facts
from ling.html.tables import framed
from ling.html.words import count, counted, short
from ling.scan.encoding import Encoding, OneHot

# Columns of text with a row of their own, and names in a list.
MOST, MOST_NAMES = 30, 6


def became(facts: Facts) -> str:
    """A row for each column of text and one for all numbers; nothing where X was numbers."""
    encoding: Encoding | None = getattr(facts.model, "encoding_", None)
    if encoding is None:
        return ""
    rows = [_one_hot(column, encoding.fills) for column in encoding.one_hot[:MOST]]
    more = encoding.one_hot[MOST:]
    if more:
        width = sum(column.width for column in more)
        rows.append((_names(c.name for c in more), "text", f"{count(width)} columns of 0 and 1"))
    if encoding.numeric:
        filled = "as they are; where one is missing, the mean of its column"
        rows.append((
            _names(column.name for column in encoding.numeric),
            counted(len(encoding.numeric), "column") + " of numbers",
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
    return framed("What became of the columns", inside, "columns")


def _one_hot(column: OneHot, fills: bool) -> tuple[str, str, str]:
    what = (
        f"{counted(column.width, 'column')} of 0 and 1, one for each category: "
        f"{_names(column.categories)}"
    )
    return short(column.name), "text", what + ("; all 0 where it is missing" if fills else "")


def _names(given: Iterable[str]) -> str:
    names = [short(name) for name in given]
    more = f" and {count(len(names) - MOST_NAMES)} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}"
