"""Errors carry what they are about as fields, and all messages are in one list to be read."""

import pickle
from pathlib import Path

import pytest

from ling.cli.error_wording import to_cli_wording
from ling.errors import (
    Change,
    DataFileError,
    InputTypeError,
    InvalidInputError,
    MissingValueError,
    OptionError,
    UnknownCategoryError,
    UnknownColumnError,
    Where,
)
from tools.error_messages import errors_in_source, list_messages

GOLDEN_FILE = Path(__file__).with_name("error_messages.txt")
#: Errors, their messages in Python, and those of the command line.
EXAMPLES = [
    (
        OptionError("tol", "is -1", "pass a number >= 0"),
        "tol is -1; pass a number >= 0.",
        "--tol is -1; pass a number >= 0.",
    ),
    (
        OptionError("y", "the norm of `y` is infinite", "divide `y` by a constant, or raise `tol`"),
        "the norm of y is infinite; divide y by a constant, or raise tol.",
        "the norm of the target is infinite; divide the target by a constant, or raise --tol.",
    ),
    (
        MissingValueError(
            "X",
            "has no value",
            Change("missing", "mean", "to put the mean there"),
            "leave the row out",
            where=Where(row=3, column="zip"),
        ),
        "column 'zip' of X has no value in row 3 (rows count from 0); pass missing='mean' to put "
        "the mean there, or leave the row out.",
        "column 'zip' has no value in row 3 (rows count from 0); pass --missing mean to put the "
        "mean there, or leave the row out.",
    ),
    (
        DataFileError("source", "is empty", where=Where(file="a b.csv")),
        "source='a b.csv' is empty.",
        "'a b.csv' is empty.",
    ),
    (
        DataFileError("source", "has no comma", where=Where(file="a.csv", line=7)),
        "source has no comma in line 7 of 'a.csv'.",
        "the data has no comma in line 7 of 'a.csv'.",
    ),
    (
        InputTypeError(
            "data", "cannot be used", Change("drop", ["a", "b c"]), Change("missing", "mean"),
            needs_all_remedies=True,
        ),
        "data cannot be used; pass drop=['a', 'b c'], missing='mean'.",
        "the data cannot be used; pass --drop 'a,b c' --missing mean",
    ),
    (
        OptionError("alphas", "is []", Change("alphas", None), Change("solver", "auto")),
        "alphas is []; pass alphas=None, or pass solver='auto'.",
        "--alphas is []; pass --alphas auto, or pass solver='auto'.",
    ),
    (
        UnknownCategoryError(
            "X", "is '`X`', which is new", Change("drop", ["`tol`"]), where=Where(column="`tol`")
        ),
        "column '`tol`' of X is '`X`', which is new; pass drop=['`tol`'].",
        "column '`tol`' is '`X`', which is new; pass --drop '`tol`'",
    ),
    (
        OptionError("alphas", "is 0", Change("cv", None), Change("classify", False)),
        "alphas is 0; pass cv=None, or pass classify=False.",
        "--alphas is 0; pass cv=None, or pass classify=False.",
    ),
    (
        UnknownCategoryError("X", "is 'a'", Change("unknown", "ignore", "to go on", "scan_csv")),
        "X is 'a'; pass unknown='ignore' to scan_csv to go on.",
        "the data is 'a'; pass --unknown ignore to go on.",
    ),
    (
        UnknownColumnError("target", "is not one", "did you mean 'b'?", where=Where(column="a")),
        "target 'a' is not one; did you mean 'b'?",
        "--target 'a' is not one; did you mean 'b'?",
    ),
]  # fmt: skip


def test_the_list_of_messages_is_up_to_date():
    recorded = GOLDEN_FILE.read_text(encoding="utf-8")
    assert list_messages() == recorded, (
        "messages have changed; run `python tools/error_messages.py > tests/error_messages.txt` "
        "and read the difference"
    )


@pytest.mark.parametrize(("error", "in_python", "on_the_command_line"), EXAMPLES)
def test_wordings(error, in_python, on_the_command_line):
    assert str(error) == in_python
    assert to_cli_wording(error) == on_the_command_line


@pytest.mark.parametrize("error", [example[0] for example in EXAMPLES])
def test_pickles_keep_the_fields(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)


def test_every_error_says_what_to_do():
    without = {
        error.problem
        for error in errors_in_source()
        if isinstance(error, InvalidInputError) and not error.remedies
    }
    assert without == {
        "cannot be fitted: {str(error).rstrip('.')}",  # scikit-learn's message
        "`alphas`{at} == {alpha}, must be {least}",  # as in scikit-learn
    }


def test_remedies_that_are_needed_together_are_changes():
    with pytest.raises(TypeError, match="have to be changes"):
        OptionError("X", "is bad", "mend it", needs_all_remedies=True)


def test_problems_and_remedies_are_parts_of_a_sentence():
    for error in errors_in_source():
        if isinstance(error, InvalidInputError):
            texts = [each for each in error.remedies if isinstance(each, str)]
            assert not error.problem.endswith("."), error
            assert not any(text.endswith(".") for text in texts), error
            assert not any(text[:1].isupper() for text in texts), error
