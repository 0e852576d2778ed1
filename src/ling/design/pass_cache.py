"""A cache on disk of the results of passes over X, so that a killed fit need not repeat them.

Algorithms are deterministic functions of the results of their passes. A restarted fit runs again
from the beginning. It receives the cached results until it requests a pass that is not cached.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.atomic_write import atomic_write, temporary_target
from ling.design.affine import AffineMap
from ling.design.blocked import BlockCall, BlockedStorage, BlockResult
from ling.design.quantized import QuantizedMatrix
from ling.errors import CheckpointError, Where

FORMAT_VERSION = 3
HEADER_FILE, LOCK_FILE, PASS_SUFFIX = "checkpoint.json", "lock", ".pass"
DIGEST_BYTES = 32
# Matches exactly the names of the files that hold passes: a SHA-256 digest in hex (see `digest`).
PASS_FILE_PATTERN = re.compile(rf"[0-9a-f]{{64}}{re.escape(PASS_SUFFIX)}")
# Number of foreign files that an error message names; the others are only counted.
MAX_NAMED_FILES = 3


class PassCache:
    """A checkpoint folder with one file per pass and a header that identifies the fit.

    Only one process at a time may have it open.
    """

    def __init__(self, folder: Path, header: dict[str, Any], lock: IO[bytes]) -> None:
        self.folder = folder
        self.header = header
        self.lock = lock
        self.n_cached_passes = len(_pass_files(folder))

    @classmethod
    def open(
        cls, folder: str | os.PathLike[str], fingerprint: dict[str, Any],
        frozen_choices: Callable[[], dict[str, Any]],
    ) -> PassCache:  # fmt: skip
        """Open the cache in `folder` if it belongs to the same fit, or create a new one.

        `fingerprint` identifies the fit. `frozen_choices()` returns choices that
        are made once and reused by a restarted fit, such as a seed.
        """
        folder_path = Path(folder)
        header_file = folder_path / HEADER_FILE
        _check_no_other_files(folder_path)
        folder_path.mkdir(parents=True, exist_ok=True)
        lock = _acquire_lock(folder_path)
        try:
            _delete(_temporary_files(folder_path))  # left behind by a process that was killed
            header = _read_header(header_file) if header_file.exists() else {}
            if header:
                _check_same_fit(folder_path, header, fingerprint)
            cache = cls(folder_path, header, lock)
            if not header:
                cache.write_header(fingerprint, frozen_choices())
        except BaseException:
            lock.close()
            raise
        return cache

    def write_header(self, fingerprint: dict[str, Any], frozen_choices: dict[str, Any]) -> None:
        """Write the header: format version, fingerprint of the fit, and frozen choices."""
        self.header = {
            "version": FORMAT_VERSION,
            "fingerprint": fingerprint,
            "frozen_choices": frozen_choices,
        }
        text = json.dumps(self.header).encode()
        content = text + b"\n" + hashlib.sha256(text).hexdigest().encode()
        _write_atomically(self.folder / HEADER_FILE, lambda out: out.write(content))

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The fingerprint that identifies the fit."""
        return dict(self.header["fingerprint"])

    @property
    def frozen_choices(self) -> dict[str, Any]:
        """The choices that were made when the cache was created."""
        return dict(self.header["frozen_choices"])

    @property
    def notes(self) -> tuple[str, ...]:
        """The remark in the report of a resumed fit; empty if no pass was cached."""
        if not self.n_cached_passes:
            return ()
        passes = "1 pass" if self.n_cached_passes == 1 else f"{self.n_cached_passes} passes"
        return (f"Resumed after {passes} kept in {str(self.folder)!r}.",)

    def get_or_run(
        self,
        call: BlockCall,
        rows: NDArray[np.intp] | None,
        run: Callable[[], BlockResult],
    ) -> BlockResult:
        """Return the cached result of the call on `rows`, or call `run` and cache it."""
        key = digest(json.dumps(self.fingerprint), call, rows)
        if key is None:
            return run()
        file = self.folder / f"{key}{PASS_SUFFIX}"
        if file.exists():
            return _read_result(file)
        result = run()
        _write_atomically(file, lambda out: _write_result(result, out))
        return result

    def release_lock(self) -> None:
        """Release the lock, so that another process can open the cache."""
        self.lock.close()

    def delete(self) -> None:
        """Delete the checkpoint: the fit is complete.

        Only files of the checkpoint are deleted. The folder stays if it holds other files.
        """
        _delete(_pass_files(self.folder))
        _delete(_temporary_files(self.folder))
        _delete([self.folder / HEADER_FILE])
        try:
            _delete([self.folder / LOCK_FILE])
            self.lock.close()
        except PermissionError:  # Windows does not delete open files
            self.lock.close()
            _delete([self.folder / LOCK_FILE])
        with suppress(OSError):  # other files are in the folder
            self.folder.rmdir()


def _acquire_lock(folder: Path) -> IO[bytes]:
    """Lock the folder and return the lock file; the system releases it if the process dies."""
    lock = (folder / LOCK_FILE).open("ab")
    try:
        _lock_file(lock)
    except OSError as error:
        lock.close()
        raise CheckpointError(
            "checkpoint",
            "is in use by another fit",
            "pass another folder",
            "wait until that fit has ended",
            where=Where(file=str(folder)),
        ) from error
    return lock


def _lock_file(file: IO[bytes]) -> None:
    """Lock an open file, or raise OSError if another process has locked it.

    Without a module for it, nothing is locked: users then have to avoid concurrent use.
    """
    try:
        fcntl = import_module("fcntl")
    except ImportError:  # Windows
        with suppress(ImportError):
            msvcrt = import_module("msvcrt")
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _check_same_fit(folder: Path, header: dict[str, Any], fingerprint: dict[str, Any]) -> None:
    if header["version"] != FORMAT_VERSION:
        raise CheckpointError(
            "checkpoint",
            f"has format {header['version']}, and this version of ling reads {FORMAT_VERSION}",
            "pass another folder",
            "delete this one",
            where=Where(file=str(folder)),
        )
    differing = [
        name for name in fingerprint if header["fingerprint"].get(name) != fingerprint[name]
    ]
    if differing:
        raise CheckpointError(
            "checkpoint",
            f"belongs to another fit, which differs in {', '.join(differing)}",
            "pass another folder",
            "delete this one to start again",
            where=Where(file=str(folder)),
        )


class PassCachedStorage(BlockedStorage):
    """A storage whose passes are cached; `rows` are its row indices in X, None for all rows."""

    def __init__(
        self, storage: BlockedStorage, pass_cache: PassCache, rows: NDArray[np.intp] | None = None
    ) -> None:
        self.storage = storage
        self.pass_cache = pass_cache
        self.rows = rows
        self.shape, self.dtype, self.feature_names = (
            storage.shape,
            storage.dtype,
            storage.feature_names,
        )
        self.encoding = storage.encoding
        self.block_bytes = storage.block_bytes

    @property
    def read_bandwidth(self) -> float | None:  # type: ignore[override]
        """The bandwidth measured when the fit began, so that a restart makes the same decisions."""
        bandwidth: float | None = self.pass_cache.frozen_choices["rate"]
        return bandwidth

    @property
    def has_row_access(self) -> bool:
        """Whether the wrapped storage can read single rows cheaply."""
        return self.storage.has_row_access

    def run(self, call: BlockCall) -> BlockResult:
        """Return the cached result of the call, or run it and cache the result."""
        return self.pass_cache.get_or_run(call, self.rows, lambda: self.storage.run(call))

    def subset(self, rows: NDArray[np.intp]) -> PassCachedStorage:
        """Return the cached storage of the given rows."""
        rows_in_x = rows if self.rows is None else self.rows[rows]
        return PassCachedStorage(self.storage.subset(rows), self.pass_cache, rows_in_x)

    def can_quantize(self, affine: AffineMap) -> bool:
        """Whether the wrapped storage can be quantised; the copy is not cached."""
        return self.storage.can_quantize(affine)

    def quantize(self, affine: AffineMap, column_scales: Array) -> QuantizedMatrix:
        """Return A quantised to 16-bit integers; one pass, which is not cached."""
        return self.storage.quantize(affine, column_scales)


def digest(*values: Any) -> str | None:
    """Return the SHA-256 of the content of `values` in hex, or None if one cannot be hashed."""
    sha = hashlib.sha256()
    return sha.hexdigest() if all(_update_hash(sha, value) for value in values) else None


def _update_hash(sha: Any, value: Any) -> bool:
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        _update_hash_with_text(sha, f"{value.dtype.str}{value.shape}")
        constant = value.ndim > 0 and value.strides[0] == 0 and value.size > 0
        sha.update(np.ascontiguousarray(value[:1] if constant else value).data)
        return True
    if is_dataclass(value):
        _update_hash_with_text(sha, type(value).__qualname__)
        return all(_update_hash(sha, getattr(value, field.name)) for field in fields(value))
    if isinstance(value, list | tuple):
        _update_hash_with_text(sha, f"{len(value)} values")
        return all(_update_hash(sha, item) for item in value)
    if value is None or isinstance(value, (bool, int, float, str, np.dtype)):
        _update_hash_with_text(sha, repr(value))
        return True
    return False


def _update_hash_with_text(sha: Any, text: str) -> None:
    sha.update(f"{len(text)}:{text}".encode())


def _write_result(result: BlockResult, file: IO[bytes]) -> None:
    """Write the SHA-256 of the rest, the numbers of reduced and per-row arrays, and the arrays."""
    file.write(bytes(DIGEST_BYTES))
    file.write(bytes([len(result.reduced), len(result.per_row)]))
    for array in (*result.reduced, *result.per_row):
        np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    file.seek(DIGEST_BYTES)
    hashed = hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]
    file.seek(0)
    file.write(hashed)


def _read_result(path: Path) -> BlockResult:
    with refuse_damaged_file(path), path.open("rb") as file:
        stored_digest = file.read(DIGEST_BYTES)
        if hashlib.file_digest(file, "sha256").digest() != stored_digest:
            raise ValueError("its checksum differs")
        file.seek(DIGEST_BYTES)
        n_reduced, n_per_row = file.read(2)
        count = n_reduced + n_per_row
        arrays = [np.lib.format.read_array(file, allow_pickle=False) for _ in range(count)]
        if any(array.dtype.kind not in "biuf" for array in arrays):
            raise TypeError("its arrays are not numbers")
    return BlockResult(tuple(arrays[:n_reduced]), tuple(arrays[n_reduced:]))


@contextmanager
def refuse_damaged_file(path: Path) -> Iterator[None]:
    """Turn whatever reading a file of a checkpoint raises into a CheckpointError.

    A file with the right checksum can be damaged, too: it may be the work of another program.
    """
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(
            "checkpoint",
            f"has a file {path.name!r} that is damaged or was not written by ling",
            "pass another folder",
            "delete this one if it is a checkpoint, to start again",
            where=Where(file=str(path.parent)),
        ) from error


def _write_atomically(file: Path, put: Callable[[IO[bytes]], object]) -> None:
    """Write a file completely or not at all; `put` writes the content to an open file."""
    with atomic_write(file) as part, part.open("w+b") as out:
        put(out)


def _read_header(file: Path) -> dict[str, Any]:
    """The header as `write_header` wrote it, or one of another version."""
    with refuse_damaged_file(file):
        text, _, stored_digest = file.read_bytes().rpartition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != stored_digest:
            raise ValueError("its checksum differs")
        header: dict[str, Any] = json.loads(text)
        parts = ("fingerprint", "frozen_choices") if header["version"] == FORMAT_VERSION else ()
        if not all(isinstance(header[part], dict) for part in parts):
            raise TypeError("its parts are not dictionaries")
        return header


def _check_no_other_files(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(
            "checkpoint", "is a file", "pass the name of a folder", where=Where(file=str(folder))
        )
    if not folder.exists():
        return
    foreign = _foreign_files(folder)
    if foreign:
        named = ", ".join(map(repr, foreign[:MAX_NAMED_FILES]))
        rest = (
            f" and {len(foreign) - MAX_NAMED_FILES} more" if len(foreign) > MAX_NAMED_FILES else ""
        )
        raise CheckpointError(
            "checkpoint",
            f"contains files that are not part of a checkpoint: {named}{rest}",
            "pass another folder",
            "move these files",
            where=Where(file=str(folder)),
        )


def _foreign_files(folder: Path) -> list[str]:
    """Return the sorted names of all entries of a folder that `PassCache` has not written."""
    with os.scandir(folder) as entries:
        files = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
    # Without a header, files of passes cannot be attributed to a fit, and count as foreign.
    is_checkpoint = files.get(HEADER_FILE, False)
    return sorted(
        name
        for name, is_file in files.items()
        if not is_file
        or not (_is_checkpoint_file(folder, name) and (is_checkpoint or not _is_pass(name)))
    )


def _is_checkpoint_file(folder: Path, name: str) -> bool:
    """Whether `PassCache` writes files of this name; a lock file must be empty."""
    if name == LOCK_FILE:
        try:
            return (folder / name).stat().st_size == 0
        except FileNotFoundError:  # deleted by the fit that has just ended
            return True
    return name == HEADER_FILE or _is_pass(name) or _is_temporary(name)


def _is_pass(name: str) -> bool:
    return PASS_FILE_PATTERN.fullmatch(name) is not None


def _is_temporary(name: str) -> bool:
    target = temporary_target(name)
    return target is not None and (target == HEADER_FILE or _is_pass(target))


def _pass_files(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if _is_pass(file.name) and file.is_file()]


def _temporary_files(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if _is_temporary(file.name) and file.is_file()]


def _delete(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
