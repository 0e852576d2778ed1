"""Tables in HTML for notebooks, without scripts, external resources or fixed text colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

# Longer tables show N_END_ROWS rows at each end, and the marked ones.
MAX_ROWS, N_END_ROWS = 12, 4
# Grey lines and inherited text colours suit light and dark notebooks.
STYLE = """\
.ling-table table {border-collapse: collapse; margin: 0; font-size: 13px; color: inherit}
.ling-table caption {caption-side: top; text-align: left; font-weight: 600; color: inherit;
  padding: 0 0 4px}
.ling-table tr > * {text-align: right; vertical-align: top; padding: 3px 12px; border: 0;
  font-variant-numeric: tabular-nums; max-width: 60em}
.ling-table tr > :first-child, .ling-table tr > :last-child {text-align: left}
.ling-table tr > :first-child {padding-left: 0}
.ling-table thead tr > * {border-bottom: 1px solid #8888}
.ling-table p {margin: 4px 0 0; font-size: 13px; max-width: 60em}"""


def html_table(
    title: str, rows: Iterable[Sequence[str]], notes: Iterable[str] = (), head: Sequence[str] = ()
) -> str:
    """A table of text with a title above and notes below; `head` names the columns.

    The first and the last column are aligned left, as text, and the others right, as numbers.
    """
    thead = f"<thead><tr>{_cells('th', head)}</tr></thead>" if head else ""
    tbody = "".join(f"<tr><th>{escape(row[0])}</th>{_cells('td', row[1:])}</tr>" for row in rows)
    paragraphs = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return (
        f'<div class="ling-table"><style>{STYLE}</style><table><caption>{escape(title)}</caption>'
        f"{thead}<tbody>{tbody}</tbody></table>{paragraphs}</div>"
    )


def html_table_of_ends(
    title: str,
    rows: Sequence[Sequence[str]],
    notes: Iterable[str],
    head: Sequence[str],
    marked: Iterable[int] = (),
) -> str:
    """A table of the first and the last rows and of the `marked` ones, with dots in between."""
    indices = range(len(rows))
    shown: Sequence[int] = indices
    if len(rows) > MAX_ROWS:
        shown = sorted({*indices[:N_END_ROWS], *marked, *indices[-N_END_ROWS:]})
    body: list[Sequence[str]] = []
    for previous, index in zip([-1, *shown], shown, strict=False):
        body += [rows[index]] if index == previous + 1 else [["…"] * len(head), rows[index]]
    return html_table(title, body, notes, head)


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts)
