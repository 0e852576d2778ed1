"""A line that shows how far a fit is, on a terminal; nothing where nobody looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ling.cli.out import Out, console
from ling.progress import watch
from ling.progress_bar import bar


@contextmanager
def shown(out: Out) -> Iterator[None]:
    """Fits inside of the block, as they go on."""
    aside = console(stderr=True, quiet=out.quiet)
    if not aside.is_terminal or out.quiet:
        yield
        return
    with bar(aside) as show, watch(show):
        yield
