"""Errors that ling raises, with what they are about as fields.

An `InvalidInputError` knows the argument, what is wrong with it, what to do about it and where in
the data the problem is. Its message is made of these fields by a `Wording`: this module has the
wording of Python, `ling.cli.error_wording` that of the command line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # `import ling` alone does not load NumPy
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Change",
    "CheckpointError",
    "ClusterLostError",
    "ClusterMemoryError",
    "DataFileError",
    "DivergenceError",
    "FileWriteError",
    "FitStoppedError",
    "InputTypeError",
    "InvalidInputError",
    "LingError",
    "MissingPackageError",
    "MissingValueError",
    "ModelFileError",
    "NegativeWeightError",
    "NonFiniteError",
    "OptionError",
    "ShapeError",
    "UnknownCategoryError",
    "UnknownColumnError",
    "Where",
    "Wording",
]

# Not within quotes: those are values of the user's.
PARAMETER_IN_BACKTICKS = re.compile(r"""(?<!['"])`(\w+)`(?!['"])""")


class Change(NamedTuple):
    """A remedy: pass `parameter=value`, which has the `effect`, such as "to ...".

    `function` says which one takes the parameter, if it is not the one that raises the error.
    """

    parameter: str
    value: object
    effect: str = ""
    function: str = ""


class Where(NamedTuple):
    """The place in the data that an error is about; None where it does not apply.

    Rows count from 0, lines of text files from 1. A `column` is its name, or its number if the
    columns have no names.
    """

    row: int | None = None
    column: str | int | None = None
    file: str | None = None
    line: int | None = None


class Wording:
    """How messages call parameters and places: as arguments of a Python function."""

    def name(self, parameter: str) -> str:
        """A parameter in a sentence."""
        return parameter

    def changes(self, changes: Sequence[Change]) -> str:
        """The instruction to make all of these changes."""
        return f"pass {', '.join(f'{change.parameter}={change.value!r}' for change in changes)}"

    def function(self, change: Change) -> str:
        """The function that takes the parameter of a change: "to scan_csv", or nothing."""
        return f"to {change.function}" if change.function else ""

    def file(self, argument: str, path: str) -> str:
        """A file or folder that was passed as `argument`."""
        return f"{argument}={path!r}"

    def column(self, argument: str, column: str | int) -> str:
        """A column of the data in `argument`, or a column that `argument` names."""
        if argument in ("X", "y", "sample_weight"):
            return f"column {column!r} of {argument}"
        return f"{argument} {column!r}"

    def subject(self, argument: str, where: Where) -> str:
        """What an error is about, as the subject of its message."""
        if where.column is not None:
            return self.column(argument, where.column)
        if where.file is not None and where.row is None and where.line is None:
            return self.file(argument, where.file)
        return self.name(argument)

    def place(self, where: Where) -> str:
        """Where the subject has the problem: " in row 3 (rows count from 0)", or nothing."""
        file = "" if where.file is None else f" of {where.file!r}"
        if where.line is not None:
            return f" in line {where.line}{file}"
        if where.row is not None:
            return f" in row {where.row}{file} (rows count from 0)"
        return f" in {where.file!r}" if file and where.column is not None else ""

    def message(self, error: InvalidInputError) -> str:
        """The whole message of an error."""
        subject = self.subject(error.argument, error.where)
        problem, is_sentence = self._name_parameters(error.problem, {error.argument: subject})
        sentence = problem if is_sentence else f"{subject} {problem}"
        remedies = self._remedies(error)
        text = f"{sentence}{self.place(error.where)}{'; ' if remedies else ''}{remedies}"
        return text if text.endswith("?") or self.ends_with_command(error) else f"{text}."

    def ends_with_command(self, error: InvalidInputError) -> bool:
        """Whether the message ends with something to be copied, which takes no period."""
        return False

    def _remedies(self, error: InvalidInputError) -> str:
        if error.needs_all_remedies:
            return self.changes([each for each in error.remedies if isinstance(each, Change)])
        return ", or ".join(self._remedy(remedy) for remedy in error.remedies)

    def _remedy(self, remedy: Change | str) -> str:
        if isinstance(remedy, str):
            return self._name_parameters(remedy, {})[0]
        parts = [self.changes([remedy]), self.function(remedy), remedy.effect]
        return " ".join(part for part in parts if part)

    def _name_parameters(self, text: str, subjects: dict[str, str]) -> tuple[str, bool]:
        """`text` with parameters in backticks by name, and whether one of `subjects` is in it."""
        found = [match[1] for match in PARAMETER_IN_BACKTICKS.finditer(text)]
        named = PARAMETER_IN_BACKTICKS.sub(
            lambda match: subjects.get(match[1]) or self.name(match[1]), text
        )
        return named, any(name in subjects for name in found)


class LingError(Exception):
    """Base class of all errors that ling raises on purpose."""


class InvalidInputError(LingError, ValueError):
    """An argument, or the data in it, cannot be used.

    Parameters
    ----------
    argument : str
        The name of the parameter.
    problem : str
        What is wrong with it: a predicate ("is -1"), or a sentence that names the argument in
        backticks ("the norm of `y` is not finite"). Other parameters are in backticks too.
    *remedies : Change or str
        What to do, each an instruction ("pass a number >= 0").
    where : Where, optional
        The place in the data. The message mentions it after the problem.
    needs_all_remedies : bool, default=False
        Whether all remedies, which are changes, are needed together; otherwise any one will do.
    """

    def __init__(
        self,
        argument: str,
        problem: str,
        *remedies: Change | str,
        where: Where | None = None,
        needs_all_remedies: bool = False,
    ) -> None:
        if needs_all_remedies and not all(isinstance(each, Change) for each in remedies):
            raise TypeError("remedies that are needed together have to be changes")
        super().__init__(argument, problem, *remedies)  # pickles are made of these
        self.argument = argument
        self.problem = problem
        self.remedies = remedies
        self.where = where or Where()
        self.needs_all_remedies = needs_all_remedies

    def __str__(self) -> str:
        return Wording().message(self)

    def __repr__(self) -> str:
        fields = [repr(each) for each in self.args] + [f"where={self.where}"]
        return f"{type(self).__name__}({', '.join(fields)})"


class InputTypeError(InvalidInputError, TypeError):
    """An argument has a type or dtype that ridge regression cannot use."""


class ShapeError(InvalidInputError):
    """The shape of an argument is wrong, or does not match the shape of another argument."""


class NonFiniteError(InvalidInputError):
    """The data contain NaN or infinity, or a result leaves the range of floating-point numbers."""


class OptionError(InvalidInputError):
    """An option has a value outside its range, or does not go with another option."""


class NegativeWeightError(InvalidInputError):
    """A sample weight is negative."""


class DataFileError(InvalidInputError):
    """A data file does not exist, cannot be read, or is damaged."""


class MissingValueError(InvalidInputError):
    """A table has a missing value where a value is needed."""


class UnknownCategoryError(InvalidInputError):
    """A text column has a value that it did not have in the fit."""


class UnknownColumnError(InvalidInputError):
    """A table has no column of that name."""


class CheckpointError(InvalidInputError):
    """A checkpoint is damaged, or belongs to another fit."""


class ModelFileError(InvalidInputError):
    """A model file is damaged, was written by a newer version of ling, or is no model file."""


class FileWriteError(LingError, OSError):
    """A file cannot be written."""


class ClusterLostError(LingError, RuntimeError):
    """The cluster has no workers left.

    `partial_coef` (p, t) are the coefficients that an iteration had reached, in the units of the
    problem; None if there was no iteration.
    """

    def __init__(self, message: str, partial_coef: NDArray[np.floating[Any]] | None = None) -> None:
        super().__init__(message)
        self.partial_coef = partial_coef


class ClusterMemoryError(LingError, MemoryError):
    """A block of X does not fit into a worker's memory."""


class FitStoppedError(LingError, RuntimeError):
    """A callback stopped a fit before it was done."""


class MissingPackageError(LingError, ImportError):
    """An optional package that is needed is not installed."""


class DivergenceError(LingError, ArithmeticError):
    """An iteration diverged: its step was too long."""


def __dir__() -> list[str]:
    return __all__
