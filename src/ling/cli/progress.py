"""A line that shows how far a fit is, on a terminal; nothing where nobody looks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.status import Status

from ling.cli.out import Out, console
from ling.progress import Event, Listener, watch


@contextmanager
def shown(out: Out, what: str) -> Iterator[None]:
    """Passes over the data that are made inside of the block, as they are made."""
    aside = console(stderr=True, quiet=out.quiet)
    if not aside.is_terminal or out.quiet:
        yield
        return
    with aside.status(what) as status, watch(_updating(status)):
        yield


def _updating(status: Status) -> Listener:
    def update(event: Event) -> None:
        status.update(line(event))

    return update


def line(event: Event) -> str:
    """The stage, passes done, and the time that is left, as far as it is known.

    >>> line(Event("choose alpha", 4, 12, 3.0, 95.0))
    'choose alpha: pass 4 of about 12, 3 s so far, about 1 min 35 s left'
    >>> line(Event("solve", 4, None, 3.0, None))
    'solve: pass 4, 3 s so far'
    """
    expected = (
        "" if event.expected is None else f" of about {max(event.expected, event.passes):.0f}"
    )
    left = "" if event.left is None else f", about {duration(event.left)} left"
    return (
        f"{event.stage}: pass {event.passes:.0f}{expected}, {duration(event.seconds)} so far{left}"
    )


def duration(seconds: float) -> str:
    """In words.

    >>> duration(0.31), duration(61), duration(7260)
    ('0.3 s', '1 min 1 s', '2 h 1 min')
    """
    if seconds < 0.95:
        return f"{seconds:.1g} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
