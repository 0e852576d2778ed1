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

from ling._typing import Array
from ling.atomic_write import atomic_write, temporary_target
from ling.design.affine_map import AffineMap
from ling.design.block_operations import BlockOperation, BlockResult
from ling.design.blocked import BlockedStorage
from ling.design.quantized import QuantizedMatrix
from ling.errors import BadCheckpoint

FORMAT_VERSION = 2
HEADER_FILE, LOCK_FILE, PASS_SUFFIX = "checkpoint.json", "lock", ".pass"
DIGEST_BYTES = 32
# Exactly the names of the files in which passes are kept; see `digest`.
PASS_FILE_PATTERN = re.compile(rf"[0-9a-f]{{64}}{re.escape(PASS_SUFFIX)}")
# Foreign files that an error message names before it only counts the others.
MAX_NAMED_FILES = 3


class PassCache:
    """A folder with a header, which says whose passes these are, and a file for each pass.

    One at a time may have it open.
    """

    def __init__(self, folder: Path, header: dict[str, Any], lock: IO[bytes]) -> None:
        self.folder = folder
        self.header = header
        self.lock = lock
        self.n_cached_passes = len(_pass_files(folder))

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], mine: dict[str, Any],
        frozen_choices: Callable[[], dict[str, Any]],
    ) -> PassCache:  # fmt: skip
        """The one in `folder`, if it is of the same fit, or a new one.

        `mine` is what makes a fit the same. `frozen_choices()` gives what may be chosen once, such
        as a seed.
        """
        place = Path(folder)
        file = place / HEADER_FILE
        _check_no_other_files(place)
        place.mkdir(parents=True, exist_ok=True)
        lock = _acquire_lock(place)
        try:
            _delete(_temporary_files(place))  # a process that was killed cannot do so
            header = _read_header(file) if file.exists() else {}
            if header:
                _check_same_fit(place, header, mine)
            journal = cls(place, header, lock)
            if not header:
                journal.write_header(mine, frozen_choices())
        except BaseException:
            lock.close()
            raise
        return journal

    def write_header(self, mine: dict[str, Any], frozen_choices: dict[str, Any]) -> None:
        """Say whose this is, and what has been chosen."""
        self.header = {
            "version": FORMAT_VERSION,
            "fingerprint": mine,
            "frozen_choices": frozen_choices,
        }
        text = json.dumps(self.header).encode()
        content = text + b"\n" + hashlib.sha256(text).hexdigest().encode()
        _write_atomically(self.folder / HEADER_FILE, lambda out: out.write(content))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What makes this fit the same."""
        return dict(self.header["fingerprint"])

    @property
    def frozen_choices(self) -> dict[str, Any]:
        """What was chosen once."""
        return dict(self.header["frozen_choices"])

    @property
    def notes(self) -> tuple[str, ...]:
        """What the report of a fit says that did not start from nothing."""
        if not self.n_cached_passes:
            return ()
        passes = "1 pass" if self.n_cached_passes == 1 else f"{self.n_cached_passes} passes"
        return (f"Resumed after {passes} kept in {str(self.folder)!r}.",)

    def get_or_run(
        self,
        operation: BlockOperation,
        rows: NDArray[np.intp] | None,
        run: Callable[[], BlockResult],
    ) -> BlockResult:
        """What the operation on these rows gave, or gives now, which is then kept."""
        key = digest(json.dumps(self.fingerprint), operation, rows)
        if key is None:
            return run()
        file = self.folder / f"{key}{PASS_SUFFIX}"
        if file.exists():
            return _read_result(file)
        found = run()
        _write_atomically(file, lambda out: _write_result(found, out))
        return found

    def release_lock(self) -> None:
        """Let another go on."""
        self.lock.close()

    def delete(self) -> None:
        """Delete the checkpoint: the fit is complete.

        Only files that a checkpoint consists of are deleted. The folder stays if others are in it.
        """
        _delete(_pass_files(self.folder))
        _delete(_temporary_files(self.folder))
        _delete([self.folder / HEADER_FILE, self.folder / LOCK_FILE])
        self.lock.close()
        with suppress(OSError):  # somebody else has put something there
            self.folder.rmdir()


def _acquire_lock(place: Path) -> IO[bytes]:
    """A file that only one can have; the system lets go of it when a process dies."""
    lock = (place / LOCK_FILE).open("ab")
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


def _check_same_fit(place: Path, header: dict[str, Any], mine: dict[str, Any]) -> None:
    if header["version"] != FORMAT_VERSION:
        raise BadCheckpoint(
            f"checkpoint {str(place)!r} has format {header['version']}, and this version of ling "
            f"reads {FORMAT_VERSION}; pass another folder, or delete it."
        )
    other = [name for name in mine if header["fingerprint"].get(name) != mine[name]]
    if other:
        raise BadCheckpoint(
            f"checkpoint {str(place)!r} is of another fit: {', '.join(other)} differ(s); pass "
            "another folder, or delete it to start anew."
        )


class PassCachedStorage(BlockedStorage):
    """The same rows, with every pass kept; `rows` are those of X, if they are not all."""

    def __init__(
        self, design: BlockedStorage, journal: PassCache, rows: NDArray[np.intp] | None = None
    ) -> None:
        self.design = design
        self.pass_cache = journal
        self.rows = rows
        self.shape, self.dtype, self.feature_names = (
            design.shape,
            design.dtype,
            design.feature_names,
        )
        self.resident_bytes, self.encoding = design.resident_bytes, design.encoding
        self.notes = (*design.notes, *journal.notes)
        self.block_bytes = design.block_bytes

    @property
    def read_bandwidth(self) -> float | None:  # type: ignore[override]
        """As it was when the fit began, so that the same is done again."""
        known: float | None = self.pass_cache.frozen_choices["rate"]
        return known

    @property
    def has_row_access(self) -> bool:
        """As the design does."""
        return self.design.has_row_access

    def run(self, operation: BlockOperation) -> BlockResult:
        """Recalled, or run and kept."""
        return self.pass_cache.get_or_run(operation, self.rows, lambda: self.design.run(operation))

    def subset(self, rows: NDArray[np.intp]) -> PassCachedStorage:
        """Some rows."""
        mine = rows if self.rows is None else self.rows[rows]
        return PassCachedStorage(self.design.subset(rows), self.pass_cache, mine)

    def can_quantize(self, affine: AffineMap) -> bool:
        """As the design does; the copy is made again."""
        return self.design.can_quantize(affine)

    def quantize(self, affine: AffineMap, column_scales: Array) -> QuantizedMatrix:
        """One pass."""
        return self.design.quantize(affine, column_scales)


def digest(*things: Any) -> str | None:
    """A name for what an operation does, from all that it is made of; None if that is unknown."""
    sha = hashlib.sha256()
    return sha.hexdigest() if all(_update_hash(sha, thing) for thing in things) else None


def _update_hash(sha: Any, thing: Any) -> bool:
    if isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
        _update_hash_with_text(sha, f"{thing.dtype.str}{thing.shape}")
        constant = thing.ndim > 0 and thing.strides[0] == 0 and thing.size > 0
        sha.update(np.ascontiguousarray(thing[:1] if constant else thing).data)
        return True
    if is_dataclass(thing):
        _update_hash_with_text(sha, type(thing).__qualname__)
        # What is filled in on the way is not part of what is done.
        named = [f.name for f in fields(thing) if not f.name.startswith("_")]
        return all(_update_hash(sha, getattr(thing, name)) for name in named)
    if isinstance(thing, list | tuple):
        _update_hash_with_text(sha, f"{len(thing)} things")
        return all(_update_hash(sha, item) for item in thing)
    if thing is None or isinstance(thing, (bool, int, float, str, np.dtype)):
        _update_hash_with_text(sha, repr(thing))
        return True
    return False


def _update_hash_with_text(sha: Any, text: str) -> None:
    sha.update(f"{len(text)}:{text}".encode())


def _write_result(outcome: BlockResult, file: IO[bytes]) -> None:
    """A hash of it all, how many arrays of each kind there are, and the arrays."""
    file.write(bytes(DIGEST_BYTES))
    file.write(bytes([len(outcome.reduced), len(outcome.per_row)]))
    for array in (*outcome.reduced, *outcome.per_row):
        np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    file.seek(DIGEST_BYTES)
    hashed = hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]
    file.seek(0)
    file.write(hashed)


def _read_result(path: Path) -> BlockResult:
    with path.open("rb") as file:
        known = file.read(DIGEST_BYTES)
        if hashlib.file_digest(file, "sha256").digest() != known:
            raise BadCheckpoint(
                f"checkpoint file {str(path)!r} is damaged; delete its folder to start anew."
            )
        file.seek(DIGEST_BYTES)
        summed, stacked = file.read(2)
        count = summed + stacked
        arrays = [np.lib.format.read_array(file, allow_pickle=False) for _ in range(count)]
    return BlockResult(tuple(arrays[:summed]), tuple(arrays[summed:]))


def _write_atomically(file: Path, put: Callable[[IO[bytes]], object]) -> None:
    """Whole or not at all."""
    with atomic_write(file) as part, part.open("w+b") as out:
        put(out)


def _read_header(file: Path) -> dict[str, Any]:
    text, _, known = file.read_bytes().rpartition(b"\n")
    if hashlib.sha256(text).hexdigest().encode() != known:
        raise BadCheckpoint(
            f"checkpoint {str(file)!r} is damaged, or was not written by ling; pass another "
            "folder, or delete this one if it is a checkpoint that you do not need."
        )
    return dict(json.loads(text))


def _check_no_other_files(place: Path) -> None:
    if place.exists() and not place.is_dir():
        raise BadCheckpoint(f"checkpoint {str(place)!r} is a file; pass the name of a folder.")
    if not place.exists():
        return
    foreign = _foreign_files(place)
    if foreign:
        named = ", ".join(map(repr, foreign[:MAX_NAMED_FILES]))
        more = (
            f" and {len(foreign) - MAX_NAMED_FILES} more" if len(foreign) > MAX_NAMED_FILES else ""
        )
        raise BadCheckpoint(
            f"checkpoint {str(place)!r} holds what is not part of a checkpoint: {named}{more}; "
            "pass another folder, or move that away."
        )


def _foreign_files(place: Path) -> list[str]:
    """Names of everything in a folder that `PassCache` has not written, sorted."""
    with os.scandir(place) as entries:
        files = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
    # Passes without a header belong to no fit that could be recognised.
    is_checkpoint = files.get(HEADER_FILE, False)
    return sorted(
        name
        for name, is_file in files.items()
        if not is_file
        or not (_is_checkpoint_file(place, name) and (is_checkpoint or not _is_pass(name)))
    )


def _is_checkpoint_file(place: Path, name: str) -> bool:
    """Whether `PassCache` writes files of this name; nothing is ever written to the lock."""
    if name == LOCK_FILE:
        try:
            return (place / name).stat().st_size == 0
        except FileNotFoundError:  # deleted by the fit that has just ended
            return True
    return name == HEADER_FILE or _is_pass(name) or _is_temporary(name)


def _is_pass(name: str) -> bool:
    return PASS_FILE_PATTERN.fullmatch(name) is not None


def _is_temporary(name: str) -> bool:
    target = temporary_target(name)
    return target is not None and (target == HEADER_FILE or _is_pass(target))


def _pass_files(place: Path) -> list[Path]:
    return [file for file in place.iterdir() if _is_pass(file.name) and file.is_file()]


def _temporary_files(place: Path) -> list[Path]:
    return [file for file in place.iterdir() if _is_temporary(file.name) and file.is_file()]


def _delete(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
