"""Where a command speaks: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class CommandOutput:
    """What was asked for: a page to read, JSON, or silence."""

    as_json: bool = False
    quiet: bool = False

    def show(self, thing: Any = "", style: str = "") -> None:
        """Part of the page."""
        if not self.as_json and not self.quiet:
            text = (
                Text(escape_control_characters(thing), style=style)
                if isinstance(thing, str)
                else thing
            )
            make_console(highlight=False).print(text, soft_wrap=isinstance(text, Text))

    def show_pairs(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Lines of a name and what there is to say."""
        pairs = list(pairs)
        width = max((len(name) for name, _ in pairs), default=0)
        for name, words in pairs:
            line = Text("  ").append(f"{escape_control_characters(name):<{width}}  ", style="dim")
            self.show(line.append(escape_control_characters(words)))

    def note(self, text: str) -> None:
        """What should be known, on stderr."""
        if not self.quiet:
            line = Text("Note: ", style="bold yellow").append(
                escape_control_characters(text), style="default"
            )
            make_console(stderr=True).print(line, soft_wrap=True)

    def print_json(self, found: Any) -> None:
        """All that was found, for programs."""
        if self.as_json:
            sys.stdout.write(json.dumps(to_json_value(found), indent=2, allow_nan=False) + "\n")

    @contextmanager
    def show_status(self, what: str) -> Iterator[None]:
        """Says so while it lasts, on a terminal."""
        aside = make_console(stderr=True, quiet=self.quiet)
        if not aside.is_terminal:
            yield
            return
        with aside.status(escape_control_characters(what)):
            yield


def make_console(**options: Any) -> Console:
    """One that takes names of columns for what they are: neither markup nor emoji."""
    return Console(markup=False, emoji=False, **options)


def escape_control_characters(text: str) -> str:
    r"""The same without signs that a terminal would obey: names come from other people's files.

    >>> escape_control_characters(chr(27) + "[2J")
    '\\x1b[2J'
    """
    return "".join(
        sign if sign.isprintable() or sign == "\n" else sign.encode("unicode_escape").decode()
        for sign in text
    )


def make_table(*columns: str) -> Table:
    """An empty table; columns whose names begin with ">" are flush right."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for name in columns:
        right = name.startswith(">")
        table.add_column(
            name.removeprefix(">"), justify="right" if right else "left", no_wrap=right
        )
    return table


def to_json_value(value: Any) -> Any:
    """The same as JSON has it: no NumPy, and null for what is not finite."""
    if isinstance(value, dict):
        return {str(key): to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item) for item in value]
    if isinstance(value, np.ndarray):
        return to_json_value(value.tolist())
    if isinstance(value, np.generic):
        return to_json_value(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
