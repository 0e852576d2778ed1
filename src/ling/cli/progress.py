"""A line that shows how far a fit is, on a terminal; nothing where nobody looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ling.cli.console import CommandOutput, make_console
from ling.progress import watch
from ling.progress_bar import progress_listener


@contextmanager
def show_progress(out: CommandOutput) -> Iterator[None]:
    """Fits inside of the block, as they go on."""
    aside = make_console(stderr=True, quiet=out.quiet)
    if not aside.is_terminal or out.quiet:
        yield
        return
    with progress_listener(aside) as show, watch(show):
        yield
