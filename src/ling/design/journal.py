"""Passes over X that are kept on disk, so that a fit that was killed need not repeat them.

Algorithms do the same with the same results of their passes. A second start runs them again from
the beginning, and is given what is kept until it asks for something that is not.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ling.design.arrays import Array
from ling.design.blocked import Blocked
from ling.design.maps import Affine
from ling.design.operations import Operation, Outcome
from ling.design.short import ShortCopy
from ling.errors import BadCheckpoint
from ling.files import temporary_target, whole

VERSION = 1
HEADER, LOCK, ENDING = "checkpoint.json", "lock", ".pass"
DIGEST = 32
# Exactly the names of the files in which passes are kept; see `digest`.
PASS_FILE = re.compile(rf"[0-9a-f]{{64}}{re.escape(ENDING)}")
# Foreign files that an error message names before it only counts the others.
MAX_NAMED = 3


class Journal:
    """A folder with a header, which says whose passes these are, and a file for each pass.

    One at a time may have it open.
    """

    def __init__(self, folder: Path, header: dict[str, Any], lock: IO[bytes]) -> None:
        self.folder = folder
        self.header = header
        self.lock = lock
        self.n_kept = len(_pass_files(folder))

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], mine: dict[str, Any],
        free: Callable[[], dict[str, Any]],
    ) -> Journal:  # fmt: skip
        """The one in `folder`, if it is of the same fit, or a new one.

        `mine` is what makes a fit the same. `free()` gives what may be chosen once, such as a seed.
        """
        place = Path(folder)
        file = place / HEADER
        _refuse_other_files(place)
        place.mkdir(parents=True, exist_ok=True)
        lock = _locked(place)
        try:
            _delete(_temporary_files(place))  # a process that was killed cannot do so
            header = _read_header(file) if file.exists() else {}
            if header:
                _refuse_another(place, header, mine)
            journal = cls(place, header, lock)
            if not header:
                journal.choose(mine, free())
        except BaseException:
            lock.close()
            raise
        return journal

    def choose(self, mine: dict[str, Any], free: dict[str, Any]) -> None:
        """Say whose this is, and what has been chosen."""
        self.header = {"version": VERSION, "mine": mine, "free": free}
        text = json.dumps(self.header).encode()
        whole = text + b"\n" + hashlib.sha256(text).hexdigest().encode()
        _write(self.folder / HEADER, lambda out: out.write(whole))

    @property
    def mine(self) -> dict[str, Any]:
        """What makes this fit the same."""
        return dict(self.header["mine"])

    @property
    def free(self) -> dict[str, Any]:
        """What was chosen once."""
        return dict(self.header["free"])

    @property
    def notes(self) -> tuple[str, ...]:
        """What the report of a fit says that did not start from nothing."""
        if not self.n_kept:
            return ()
        passes = "1 pass" if self.n_kept == 1 else f"{self.n_kept} passes"
        return (f"Resumed after {passes} kept in {str(self.folder)!r}.",)

    def recall(
        self, operation: Operation, rows: NDArray[np.intp] | None, run: Callable[[], Outcome]
    ) -> Outcome:
        """What the operation on these rows gave, or gives now, which is then kept."""
        key = digest(json.dumps(self.mine), operation, rows)
        if key is None:
            return run()
        file = self.folder / f"{key}{ENDING}"
        if file.exists():
            return _unpacked(file)
        found = run()
        _write(file, lambda out: _pack(found, out))
        return found

    def leave(self) -> None:
        """Let another go on."""
        self.lock.close()

    def close(self) -> None:
        """Delete the checkpoint: the fit is complete.

        Only files that a checkpoint consists of are deleted. The folder stays if others are in it.
        """
        _delete(_pass_files(self.folder))
        _delete(_temporary_files(self.folder))
        _delete([self.folder / HEADER, self.folder / LOCK])
        self.lock.close()
        with suppress(OSError):  # somebody else has put something there
            self.folder.rmdir()


def _locked(place: Path) -> IO[bytes]:
    """A file that only one can have; the system lets go of it when a process dies."""
    lock = (place / LOCK).open("ab")
    try:
        import fcntl
    except ImportError:  # not everywhere: then users have to see to it
        return lock
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise BadCheckpoint(
            f"checkpoint {str(place)!r} is in use by another fit; pass a folder of its own for "
            "each fit, or wait."
        ) from error
    return lock


def _refuse_another(place: Path, header: dict[str, Any], mine: dict[str, Any]) -> None:
    if header["version"] != VERSION:
        raise BadCheckpoint(
            f"checkpoint {str(place)!r} has format {header['version']}, and this version of ling "
            f"reads {VERSION}; pass another folder, or delete it."
        )
    other = [name for name in mine if header["mine"].get(name) != mine[name]]
    if other:
        raise BadCheckpoint(
            f"checkpoint {str(place)!r} is of another fit: {', '.join(other)} differ(s); pass "
            "another folder, or delete it to start anew."
        )


class Journaled(Blocked):
    """The same rows, with every pass kept; `rows` are those of X, if they are not all."""

    def __init__(
        self, design: Blocked, journal: Journal, rows: NDArray[np.intp] | None = None
    ) -> None:
        self.design = design
        self.journal = journal
        self.rows = rows
        self.shape, self.dtype, self.names = design.shape, design.dtype, design.names
        self.taken, self.encoding = design.taken, design.encoding
        self.notes = (*design.notes, *journal.notes)
        self.block_bytes = design.block_bytes

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
    if isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
        _label(sha, f"{thing.dtype.str}{thing.shape}")
        constant = thing.ndim > 0 and thing.strides[0] == 0 and thing.size > 0
        sha.update(np.ascontiguousarray(thing[:1] if constant else thing).data)
        return True
    if is_dataclass(thing):
        _label(sha, type(thing).__qualname__)
        # What is filled in on the way is not part of what is done.
        named = [f.name for f in fields(thing) if not f.name.startswith("_")]
        return all(_feed(sha, getattr(thing, name)) for name in named)
    if isinstance(thing, list | tuple):
        _label(sha, f"{len(thing)} things")
        return all(_feed(sha, item) for item in thing)
    if thing is None or isinstance(thing, (bool, int, float, str, np.dtype)):
        _label(sha, repr(thing))
        return True
    return False


def _label(sha: Any, text: str) -> None:
    sha.update(f"{len(text)}:{text}".encode())


def _pack(outcome: Outcome, file: IO[bytes]) -> None:
    """A hash of it all, how many arrays of each kind there are, and the arrays."""
    file.write(bytes(DIGEST))
    file.write(bytes([len(outcome.summed), len(outcome.stacked)]))
    for array in (*outcome.summed, *outcome.stacked):
        np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    file.seek(DIGEST)
    hashed = hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]
    file.seek(0)
    file.write(hashed)


def _unpacked(path: Path) -> Outcome:
    with path.open("rb") as file:
        known = file.read(DIGEST)
        if hashlib.file_digest(file, "sha256").digest() != known:
            raise BadCheckpoint(
                f"checkpoint file {str(path)!r} is damaged; delete its folder to start anew."
            )
        file.seek(DIGEST)
        summed, stacked = file.read(2)
        count = summed + stacked
        arrays = [np.lib.format.read_array(file, allow_pickle=False) for _ in range(count)]
    return Outcome(tuple(arrays[:summed]), tuple(arrays[summed:]))


def _write(file: Path, put: Callable[[IO[bytes]], object]) -> None:
    """Whole or not at all."""
    with whole(file) as part, part.open("w+b") as out:
        put(out)


def _read_header(file: Path) -> dict[str, Any]:
    text, _, known = file.read_bytes().rpartition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != known:
        raise BadCheckpoint(
            f"checkpoint {str(file)!r} is damaged; delete its folder to start anew."
        )
    return dict(json.loads(text))


def _refuse_other_files(place: Path) -> None:
    if place.exists() and not place.is_dir():
        raise BadCheckpoint(f"checkpoint {str(place)!r} is a file; pass the name of a folder.")
    if not place.exists():
        return
    foreign = _foreign_files(place)
    if foreign:
        named = ", ".join(map(repr, foreign[:MAX_NAMED]))
        more = f" and {len(foreign) - MAX_NAMED} more" if len(foreign) > MAX_NAMED else ""
        raise BadCheckpoint(
            f"checkpoint {str(place)!r} holds what is not part of a checkpoint: {named}{more}; "
            "pass another folder, or move that away."
        )


def _foreign_files(place: Path) -> list[str]:
    """Names of everything in a folder that `Journal` has not written, sorted."""
    with os.scandir(place) as entries:
        files = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
    # Passes without a header belong to no fit that could be recognised.
    is_checkpoint = files.get(HEADER, False)
    return sorted(
        name
        for name, is_file in files.items()
        if not is_file or not (_is_ours(place, name) and (is_checkpoint or not _is_pass(name)))
    )


def _is_ours(place: Path, name: str) -> bool:
    """Whether `Journal` writes files of this name; nothing is ever written to the lock."""
    if name == LOCK:
        try:
            return (place / name).stat().st_size == 0
        except FileNotFoundError:  # deleted by the fit that has just ended
            return True
    return name == HEADER or _is_pass(name) or _is_temporary(name)


def _is_pass(name: str) -> bool:
    return PASS_FILE.fullmatch(name) is not None


def _is_temporary(name: str) -> bool:
    target = temporary_target(name)
    return target is not None and (target == HEADER or _is_pass(target))


def _pass_files(place: Path) -> list[Path]:
    return [file for file in place.iterdir() if _is_pass(file.name) and file.is_file()]


def _temporary_files(place: Path) -> list[Path]:
    return [file for file in place.iterdir() if _is_temporary(file.name) and file.is_file()]


def _delete(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
