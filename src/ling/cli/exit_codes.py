"""How a command ends: exit codes, and errors as one line instead of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from ling.cli.console import escape_control_characters, make_console
from ling.cli.error_wording import to_cli_wording
from ling.cli.interrupts import reliable_interrupts
from ling.errors import LingError

EXIT_BAD_DATA, EXIT_NOT_CERTIFIED, EXIT_INTERRUPTED = 1, 3, 130
EXIT_CODES = {
    0: "all is well",
    EXIT_BAD_DATA: "the data, the model or a file is not fit for it; the message says why",
    2: "the command line is not understood",
    EXIT_NOT_CERTIFIED: "the accuracy is not proved; what was fitted is written",
    EXIT_INTERRUPTED: "interrupted; no file is left half-written",
}
EXTRA_BY_PACKAGE = {"pyarrow": "parquet", "matplotlib": "plot"}


class _HelpWithoutValue:
    """A command whose --help takes no value, and says so."""

    def get_help_option(self, ctx: Any) -> Any:
        """As usual, but for the type."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.metavar = ""
        return option


class CommandGroup(_HelpWithoutValue, TyperGroup):
    """All commands."""


class Command(_HelpWithoutValue, TyperCommand):
    """A command whose errors are answers."""

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        with errors_as_exit_codes():
            return super().invoke(ctx)


@contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """Turns what goes wrong into a line on stderr and an exit code."""
    try:
        with reliable_interrupts() as interrupts:
            try:
                yield
            except typer.Exit:
                raise
            except Exception as error:
                if interrupts.was_requested:  # libraries turn interrupts into other exceptions
                    raise KeyboardInterrupt from error
                raise
    except KeyboardInterrupt as interrupt:
        print_error(f"Interrupted; {str(interrupt) or 'nothing is left half-written.'}", "")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except LingError as error:
        print_error(to_cli_wording(error))
        raise typer.Exit(EXIT_BAD_DATA) from None
    except UnicodeEncodeError as error:  # a file name, where the locale has no such characters
        print_error(f"{error.object!r} has no encoding in this locale; set PYTHONUTF8=1.")
        raise typer.Exit(EXIT_BAD_DATA) from None
    except BrokenPipeError:  # whoever was reading has seen enough
        raise
    except OSError as error:
        print_error(str(error))
        raise typer.Exit(EXIT_BAD_DATA) from None
    except ModuleNotFoundError as missing:
        if missing.name not in EXTRA_BY_PACKAGE:
            raise
        print_error(
            f"this needs {missing.name}: pip install 'ling[{EXTRA_BY_PACKAGE[missing.name]}]'"
        )
        raise typer.Exit(EXIT_BAD_DATA) from None


def print_error(text: str, start: str = "Error: ") -> None:
    """One line on stderr, red on a terminal."""
    line = Text(start, style="bold red").append(escape_control_characters(text), style="red")
    make_console(stderr=True).print(line, soft_wrap=True)
