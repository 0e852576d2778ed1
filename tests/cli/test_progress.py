"""The line that shows how far a fit is."""

import io

import pytest
from rich.console import Console

from ling import progress
from ling.cli import progress as shown_progress
from ling.cli.out import Out
from ling.progress import Event

EVENT = Event("solve", 3, 10, 2.0, 5.0)


def tell(event):
    listener = progress._listener.get()
    if listener is not None:
        listener(event)


@pytest.fixture
def terminal(monkeypatch):
    """What goes to a terminal."""
    screen = io.StringIO()

    def console(**options):
        return Console(file=screen, force_terminal=True, width=80)

    monkeypatch.setattr(shown_progress, "console", console)
    return screen


def test_a_terminal_sees_it(terminal):
    with shown_progress.shown(Out(), "fitting"):
        tell(EVENT)
    assert "solve: pass 3 of about 10, 2 s so far, about 5 s left" in terminal.getvalue()


def test_silence_is_silence(terminal):
    with shown_progress.shown(Out(quiet=True), "fitting"):
        tell(EVENT)
    assert terminal.getvalue() == ""


def test_a_pipe_sees_nothing(capsys):
    with shown_progress.shown(Out(), "fitting"):
        tell(EVENT)
    assert capsys.readouterr() == ("", "")


def test_nobody_is_told_after_the_block():
    seen = []
    with progress.watch(seen.append):
        tell(EVENT)
    tell(EVENT)
    assert seen == [EVENT]
