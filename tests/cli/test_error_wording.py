"""Errors and notes in the words of the command line."""

import ast
import re
from pathlib import Path

import pytest
import typer

import ling as library
from ling.cli.app import app
from ling.cli.error_wording import (
    NOTE_REPLACEMENTS,
    OPTIONS,
    note_in_cli_wording,
    to_cli_wording,
)
from ling.errors import Change, FileWriteError, MissingValueError, OptionError, Where

DROP = Change("drop", ["a b", "c"], "to leave them out")
WORDED = {
    "option": (OptionError("memory_budget", "is 'lots'", "pass bytes"),
               "--memory-budget is 'lots'; pass bytes."),
    "description": (OptionError("X", "`X` and `y` do not go with `sample_weight`"),
                    "the data and the target do not go with --weights."),
    "place": (MissingValueError("X", "has no value", where=Where(row=3, column="zip")),
              "column 'zip' has no value in row 3 (rows count from 0)."),
    "column": (OptionError("target", "is text", where=Where(column="zip")),
               "--target 'zip' is text."),
    "file": (OptionError("source", "is empty", where=Where(file="a.csv")), "'a.csv' is empty."),
    "option-file": (OptionError("out", "is there", where=Where(file="a.csv")),
                    "--out 'a.csv' is there."),
    "change": (OptionError("X", "has dates", DROP, "convert them"),
               "the data has dates; pass --drop 'a b,c' to leave them out, or convert them."),
    "flag": (OptionError("y", "is text", Change("classify", True)),
             "the target is text; pass --classify"),
    "none": (OptionError("alphas", "is []", Change("alphas", None)),
             "--alphas is []; pass --alphas auto"),
    "no-option": (OptionError("alpha", "is 0", Change("solver", "direct")),
                  "--alpha is 0; pass solver='direct'."),
    "all": (OptionError("X", "has gaps", DROP, Change("missing", "mean"), needs_all_remedies=True),
            "the data has gaps; pass --drop 'a b,c' --missing mean"),
    "question": (OptionError("target", "is 'a'", "did you mean 'b'?"),
                 "--target is 'a'; did you mean 'b'?"),
    "sentence": (FileWriteError("'a' cannot\nbe written."), "'a' cannot be written."),
}  # fmt: skip


@pytest.mark.parametrize(("error", "text"), WORDED.values(), ids=WORDED)
def test_errors(error, text):
    assert to_cli_wording(error) == text


def test_changes_that_are_needed_together_in_python():
    changes = Change("drop", ["a"]), Change("missing", "mean")
    error = OptionError("X", "has gaps", *changes, needs_all_remedies=True)
    assert str(error) == "X has gaps; pass drop=['a'], missing='mean'."


def test_options_are_those_of_the_commands():
    commands = typer.main.get_command(app).commands.values()
    known = {
        option
        for command in commands
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--")
    }
    assert set(OPTIONS.values()) == known - {"--json", "--quiet"}


NOTES = {
    "not within tol=0.0001: raise memory_budget, or scale X (StandardScaler).":
        "not within --tol 0.0001: raise --memory-budget, or bring the columns to a similar scale.",
    "raise tol or max_iter, or pass solver='direct' if n_features^2 or n_samples^2 numbers fit in "
    "memory.": "raise --tol or --memory-budget.",
    "Pass a wider grid, or alphas=None for one that follows from the data.":
        "Pass a wider grid, or --alphas auto for one that follows from the data.",
    "raise tol or alpha": "raise --tol or --alpha",
}  # fmt: skip


@pytest.mark.parametrize(("note", "text"), NOTES.items())
def test_notes(note, text):
    assert note_in_cli_wording(note) == text


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in NOTE_REPLACEMENTS])
def test_patterns_occur_in_notes_of_fits(pattern):
    """Each is in a text of the source, so that none is left behind when notes change."""
    folder = Path(library.__file__).parent / "estimators"
    paths = [*folder.glob("*fit.py"), folder / "choice_notes.py"]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    docstrings = {ast.get_docstring(node, clean=False) for node in nodes if has_docstring(node)}
    constants = {
        node.value for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }  # fmt: skip
    assert any(re.search(pattern, text) for text in constants - docstrings)


def has_docstring(node):
    return isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
