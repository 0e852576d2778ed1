"""Passes over X that are kept on disk, so that a fit that was killed need not repeat them.

Algorithms do the same with the same results of their passes. A second start runs them again from
the beginning, and is given what is kept until it asks for something that is not.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ling.design.base import Affine, Array
from ling.design.blocked import Blocked
from ling.design.operations import Operation, Outcome
from ling.design.short import ShortCopy
from ling.errors import BadCheckpoint

VERSION = 1
HEADER, ENDING, PART = "checkpoint.json", ".pass", ".part"


class Journal:
    """A folder with a header, which says whose passes these are, and a file for each pass."""

    def __init__(self, folder: Path, header: dict[str, Any]) -> None:
        self.folder = folder
        self.header = header

    @classmethod
    def open(cls, folder: str | os.PathLike[str], mine: dict[str, Any], free: Any) -> Journal:
        """The one in `folder`, if it is of the same fit, or a new one.

        `mine` is what makes a fit the same. `free()` gives what may be chosen once, such as a seed.
        """
        place = Path(folder)
        file = place / HEADER
        if not file.exists():
            _refuse_other_files(place)
            place.mkdir(parents=True, exist_ok=True)
            header = {"version": VERSION, "mine": mine, "free": free()}
            text = json.dumps(header, indent=1).encode()
            _write(file, lambda out: out.write(text))
            return cls(place, header)
        header = _read_header(file)
        if header.get("version") != VERSION:
            raise BadCheckpoint(
                f"checkpoint {str(place)!r} has format {header.get('version')}, and this version "
                f"of ling reads {VERSION}; pass another folder, or delete it."
            )
        other = [name for name in mine if header["mine"].get(name) != mine[name]]
        if other:
            raise BadCheckpoint(
                f"checkpoint {str(place)!r} is of another fit: {', '.join(other)} differ(s); pass "
                "another folder, or delete it to start anew."
            )
        return cls(place, header)

    @property
    def free(self) -> dict[str, Any]:
        """What was chosen once."""
        return dict(self.header["free"])

    def recall(
        self, operation: Operation, rows: NDArray[np.intp] | None, run: Callable[[], Outcome]
    ) -> Outcome:
        """What the operation on these rows gave, or gives now, which is then kept."""
        key = digest(operation, rows)
        if key is None:
            return run()
        file = self.folder / f"{key}{ENDING}"
        if file.exists():
            return _unpacked(file)
        found = run()
        _write(file, lambda out: _pack(found, out))
        return found

    def close(self) -> None:
        """The fit is there: nothing needs to be kept."""
        for file in [*self.folder.glob(f"*{ENDING}"), *self.folder.glob(f".*{PART}")]:
            file.unlink(missing_ok=True)
        (self.folder / HEADER).unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()


class Journaled(Blocked):
    """The same rows, with every pass kept; `rows` are those of X, if they are not all."""

    def __init__(
        self, design: Blocked, journal: Journal, rows: NDArray[np.intp] | None = None
    ) -> None:
        self.design = design
        self.journal = journal
        self.rows = rows
        self.shape, self.dtype, self.names = design.shape, design.dtype, design.names
        self.taken, self.notes, self.encoding = design.taken, design.notes, design.encoding

    @property
    def rate(self) -> float | None:  # type: ignore[override]
        """As it was when the fit began, so that the same is done again."""
        known: float | None = self.journal.free["rate"]
        return known

    @property
    def picks(self) -> bool:
        """As the design does."""
        return self.design.picks

    def run(self, operation: Operation) -> Outcome:
        """Recalled, or run and kept."""
        return self.journal.recall(operation, self.rows, lambda: self.design.run(operation))

    def subset(self, rows: NDArray[np.intp]) -> Journaled:
        """Some rows."""
        mine = rows if self.rows is None else self.rows[rows]
        return Journaled(self.design.subset(rows), self.journal, mine)

    def shortens(self, affine: Affine) -> bool:
        """As the design does; the copy is made again."""
        return self.design.shortens(affine)

    def shortened(self, affine: Affine, units: Array) -> ShortCopy:
        """One pass."""
        return self.design.shortened(affine, units)


def digest(*things: Any) -> str | None:
    """A name for what an operation does, from all that it is made of; None if that is unknown."""
    sha = hashlib.sha256()
    return sha.hexdigest() if all(_feed(sha, thing) for thing in things) else None


def _feed(sha: Any, thing: Any) -> bool:
    if isinstance(thing, np.ndarray):
        _label(sha, f"{thing.dtype.str}{thing.shape}")
        constant = thing.ndim == 1 and thing.strides == (0,) and thing.size > 0
        sha.update(np.ascontiguousarray(thing[:1] if constant else thing).data)
        return True
    if is_dataclass(thing):
        _label(sha, type(thing).__qualname__)
        # What is filled in on the way is not part of what is done.
        named = [f.name for f in fields(thing) if not f.name.startswith("_")]
        return all(_feed(sha, getattr(thing, name)) for name in named)
    if thing is None or isinstance(thing, (bool, int, float, str, np.dtype)):
        _label(sha, repr(thing))
        return True
    return False


def _label(sha: Any, text: str) -> None:
    sha.update(f"{len(text)}:{text}".encode())


class _Hashing:
    """A file that hashes what goes through it; arrays pass in pieces, never as a copy."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.sha = hashlib.sha256()

    def write(self, content: bytes) -> int:
        """On to the file."""
        self.sha.update(content)
        return self.file.write(content)

    def read(self, size: int = -1, /) -> bytes:
        """From the file."""
        content = self.file.read(size)
        self.sha.update(content)
        return content


def _pack(outcome: Outcome, file: IO[bytes]) -> None:
    """How many arrays of each kind, the arrays, and a hash of it all."""
    out = _Hashing(file)
    out.write(bytes([len(outcome.summed), len(outcome.stacked)]))
    for array in (*outcome.summed, *outcome.stacked):
        np.lib.format.write_array(out, np.asarray(array), allow_pickle=False)
    file.write(out.sha.digest())


def _unpacked(path: Path) -> Outcome:
    try:
        with path.open("rb") as file:
            into = _Hashing(file)
            summed, stacked = into.read(2)
            arrays = [
                np.lib.format.read_array(into, allow_pickle=False) for _ in range(summed + stacked)
            ]
            whole = file.read() == into.sha.digest()
    except (ValueError, OSError, EOFError) as error:
        raise _damaged(path) from error
    if not whole:
        raise _damaged(path)
    return Outcome(tuple(arrays[:summed]), tuple(arrays[summed:]))


def _damaged(path: Path) -> BadCheckpoint:
    return BadCheckpoint(
        f"checkpoint file {str(path)!r} is damaged; delete its folder to start anew."
    )


def _write(file: Path, put: Callable[[IO[bytes]], object]) -> None:
    """Whole or not at all."""
    part = file.with_name(f".{file.name}.{os.getpid()}{PART}")
    try:
        with part.open("wb") as out:
            put(out)
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def _read_header(file: Path) -> dict[str, Any]:
    try:
        header = json.loads(file.read_text(encoding="utf-8"))
        _ = header["mine"], header["free"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadCheckpoint(
            f"checkpoint {str(file)!r} is damaged ({error}); delete its folder to start anew."
        ) from error
    return dict(header)


def _refuse_other_files(place: Path) -> None:
    if place.exists() and not place.is_dir():
        raise BadCheckpoint(f"checkpoint {str(place)!r} is a file; pass the name of a folder.")
    if not place.exists():
        return
    # A start that was killed may have left a part of its header.
    strangers = [f.name for f in place.iterdir() if not f.name.endswith(PART)]
    if strangers:
        raise BadCheckpoint(
            f"checkpoint {str(place)!r} is not empty and not a checkpoint ({strangers[0]!r} is in "
            "it); pass a new folder."
        )
