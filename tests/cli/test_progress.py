"""The line that shows how far a fit is."""

import io

import numpy as np
import pytest
from rich.console import Console

from ling import Ridge
from ling.cli import progress
from ling.cli.console import CommandOutput


def fit():
    Ridge().fit(np.eye(30), np.arange(30.0))


@pytest.fixture
def terminal(monkeypatch):
    """What goes to a terminal."""
    screen = io.StringIO()

    def console(**options):
        return Console(file=screen, force_terminal=True, width=100)

    monkeypatch.setattr(progress, "make_console", console)
    return screen


def test_a_terminal_sees_it(terminal):
    with progress.show_progress(CommandOutput()):
        fit()
    assert "done" in terminal.getvalue()
    assert "passes" in terminal.getvalue()


def test_silence_is_silence(terminal):
    with progress.show_progress(CommandOutput(quiet=True)):
        fit()
    assert terminal.getvalue() == ""


def test_a_pipe_sees_nothing(capsys):
    with progress.show_progress(CommandOutput()):
        fit()
    assert capsys.readouterr() == ("", "")


def test_nobody_is_told_after_the_block(terminal):
    with progress.show_progress(CommandOutput()):
        fit()
    before = terminal.getvalue()
    fit()
    assert terminal.getvalue() == before
