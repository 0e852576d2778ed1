"""Where a command may write: not onto what it reads, nor twice to one place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from ling.atomic_write import check_writable
from ling.cli.training_table import FORMAT_SUFFIXES
from ling.errors import FileWriteError, OptionError, Where


def check_output_paths(writes: Mapping[str, Path | None], reads: Iterable[str | Path]) -> None:
    """An error before any work; `writes` are options and what they name, `reads` are files."""
    reads = list(reads)
    places = [(option, path) for option, path in writes.items() if path is not None]
    for option, path in places:
        for other in reads:
            if _is_same_file(path, other):
                raise FileWriteError(
                    f"{option} {str(path)!r} is a file that is read, and would be overwritten; "
                    "pass another name."
                )
    for i, (option, path) in enumerate(places):
        for other, there in places[:i]:
            if _is_same_file(path, there):
                raise FileWriteError(
                    f"{other} and {option} are both {str(path)!r}; pass two names."
                )
        check_writable(path)


def check_not_data_file(argument: str, path: Path) -> None:
    """An error where something else than data would be called like data."""
    endings = tuple(ending for suffixes in FORMAT_SUFFIXES.values() for ending in suffixes)
    if path.name.lower().endswith(endings):
        raise OptionError(
            argument,
            "has the extension of a data file",
            f"pass another name, such as {path.name.split('.')[0] or 'model'}.ling",
            where=Where(file=str(path)),
        )


def _is_same_file(path: Path, other: str | Path) -> bool:
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)
