"""Display of fit progress: a live progress bar on a terminal, one line per stage elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TextIO

from ling.progress import DONE_STAGE, Event, Listener


@contextmanager
def progress_listener(console: Any = None, title: str = "") -> Iterator[Listener]:
    """Context manager that yields a listener which displays the progress of a fit.

    `with progress_listener() as show, watch(show):` displays all fits inside the block. On a
    terminal, and in a notebook with ipywidgets, it is a live line of rich with stage, bar, passes
    and remaining time. Elsewhere, and without rich, each stage is a line of plain text that is
    written when it begins. `console` is a rich console; None stands for stderr.
    """
    if console is None and sys.stderr is None:  # a service, or a GUI program without a console
        yield lambda event: None
        return
    console = _stderr_console() if console is None else console
    if console is None or not _supports_live_display(console):
        yield _StageLines(sys.stderr if console is None else console.file, title)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(),
        TextColumn("{task.fields[passes]}"), TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(title, total=None, passes="", left="")

        def show(event: Event) -> None:
            progress.tasks[task].total = event.expected  # `update` takes None to mean "no change"
            progress.update(
                task, description=_stage_title(title, event.stage), completed=event.passes,
                passes=_format_passes(event), left=_format_time_left(event),
            )  # fmt: skip

        yield show


def write_stderr(text: str) -> None:
    """Write a line to stderr, where progress is displayed, too; do nothing without stderr."""
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")


class _StageLines:
    """Listener that writes a line of text to `out` whenever a stage begins."""

    def __init__(self, out: TextIO, title: str) -> None:
        self.out = out
        self.title = title
        self.stage = ""

    def __call__(self, event: Event) -> None:
        if event.stage == self.stage:
            return
        self.stage = event.stage
        parts = (_format_passes(event), _format_time_left(event))
        said = ", ".join(part for part in parts if part)
        name = _stage_title(self.title, event.stage)
        self.out.write(f"{format_duration(event.seconds):>8}  {name}: {said}\n")
        self.out.flush()


def _stderr_console() -> Any:
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(stderr=True)


def _supports_live_display(console: Any) -> bool:
    if console.is_jupyter:  # where rich displays nothing but a warning without ipywidgets
        return find_spec("ipywidgets") is not None
    return bool(console.is_terminal and not console.is_dumb_terminal)


def _stage_title(title: str, stage: str) -> str:
    return f"{title}, {stage}" if title else stage


def _format_passes(event: Event) -> str:
    done = f"{event.passes:.1f}".removesuffix(".0")
    if event.stage == DONE_STAGE or event.expected is None:
        return f"{done} pass{'' if done == '1' else 'es'}"
    return f"{done} of about {event.expected:.0f} pass{'' if round(event.expected) == 1 else 'es'}"


def _format_time_left(event: Event) -> str:
    if event.stage == DONE_STAGE or event.left is None or event.left < 0.01:
        return ""
    return f"about {format_duration(event.left)} left"


def format_duration(seconds: float) -> str:
    """A duration in seconds as readable text.

    >>> format_duration(0.31), format_duration(61), format_duration(7260)
    ('0.3 s', '1 min 1 s', '2 h 1 min')
    """
    if seconds < 0.95:
        return f"{seconds:.1g} s"
    n_seconds = round(seconds)
    if n_seconds < 60:
        return f"{n_seconds} s"
    if n_seconds < 3600:
        return f"{n_seconds // 60} min {n_seconds % 60} s"
    return f"{n_seconds // 3600} h {n_seconds % 3600 // 60} min"
