"""Errors, notes and warnings of the library in the words of the command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from ling.errors import Change, InvalidInputError, LingError, Wording

#: Options by what the functions of the library, and of this package, call them.
OPTIONS = {
    "alpha": "--alpha",
    "alphas": "--alphas",
    "choice": "--choice",
    "classify": "--classify",
    "cv": "--cv",
    "drop": "--drop",
    "features": "--features",
    "keep": "--keep",
    "memory_budget": "--memory-budget",
    "missing": "--missing",
    "out": "--out",
    "quick": "--quick",
    "flops": "--flops",
    "random_state": "--seed",
    "repeats": "--repeats",
    "report": "--report",
    "rows": "--rows",
    "sample_weight": "--weights",
    "seed": "--seed",
    "shuffle": "--shuffle",
    "skip_missing_target": "--skip-missing-target",
    "strict": "--strict",
    "target": "--target",
    "tol": "--tol",
    "unknown": "--unknown",
    "weights": "--weights",
}
#: Arguments that are no options: what they are to somebody who types a command.
DESCRIPTIONS = {
    "X": "the data",
    "data": "the data",
    "like": "the model",
    "model": "the model",
    "path": "the model file",
    "solution": "the file of coefficients",
    "source": "the data",
    "y": "the target",
}
#: Parameters whose value None has a name on the command line.
NAMES_OF_NONE = {"alphas": "auto"}
#: Patterns in notes and warnings of a fit, which are plain text, and what replaces them.
NOTE_REPLACEMENTS = (
    (r" or max_iter, or pass solver='direct' if .* fit in memory", " or memory_budget"),
    (r"scale X \(StandardScaler\)", "bring the columns to a similar scale"),
    (r"convert X to float64", "store the data as float64"),
    (r"pass another scoring, or splits with more test samples", "pass a smaller --cv"),
    (r"pass larger alphas", "pass larger --alphas"),
    (r"\balphas=None\b", "--alphas auto"),
    (r"\bor alpha\b", "or --alpha"),
    (r"\bmemory_budget\b", "--memory-budget"),
    (r"\btol=", "--tol "),
    (r"(?<!-)\btol\b", "--tol"),
)


class CommandLineWording(Wording):
    """Calls parameters by the options that set them, and files by their names."""

    def name(self, parameter: str) -> str:
        """The option, or what the argument is."""
        return OPTIONS.get(parameter) or DESCRIPTIONS.get(parameter, parameter)

    def changes(self, changes: Sequence[Change]) -> str:
        """The options with their values, to be pasted behind a command."""
        if not all(_is_option_setting(change) for change in changes):
            return super().changes(changes)
        return f"pass {' '.join(map(_option_with_value, changes))}"

    def function(self, change: Change) -> str:
        """Nothing if there is an option, which the command that was typed takes."""
        return "" if _is_option_setting(change) else super().function(change)

    def ends_with_command(self, error: InvalidInputError) -> bool:
        """Whether the message ends with options, to be pasted behind a command."""
        last = error.remedies[-1] if error.remedies else ""
        return isinstance(last, Change) and not last.effect and _is_option_setting(last)

    def file(self, argument: str, path: str) -> str:
        """The path, after the option that named it."""
        option = OPTIONS.get(argument)
        return repr(path) if option is None else f"{option} {path!r}"

    def column(self, argument: str, column: str | int) -> str:
        """The column, after the option that named it."""
        option = OPTIONS.get(argument)
        return f"column {column!r}" if option is None else f"{option} {column!r}"


def _is_option_setting(change: Change) -> bool:
    """Whether the command line can make this change."""
    has_name = change.value is not None or change.parameter in NAMES_OF_NONE
    return change.parameter in OPTIONS and has_name and change.value is not False


def _option_with_value(change: Change) -> str:
    option, value = OPTIONS[change.parameter], change.value
    if value is True:
        return option
    if value is None:
        return f"{option} {NAMES_OF_NONE[change.parameter]}"
    values = value if isinstance(value, list | tuple) else [value]
    return f"{option} {shlex.quote(','.join(map(str, values)))}"


def to_cli_wording(error: LingError) -> str:
    """The message of an error for somebody who typed a command, on one line."""
    text = (
        CommandLineWording().message(error) if isinstance(error, InvalidInputError) else str(error)
    )
    return " ".join(text.split())


def note_in_cli_wording(text: str) -> str:
    """A note or warning of a fit for somebody who typed a command, on one line."""
    for pattern, replacement in NOTE_REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    return " ".join(text.split())
