"""Rows of numbers that are read in blocks, from wherever they lie."""

from __future__ import annotations

import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.arrays import float_dtype
from ling.errors import MissingData

#: What to do about a file that changes between two passes.
RESCAN_ADVICE = (
    "All passes have to read the same version of the data: wait until nothing writes to the file, "
    "then scan it and fit or predict again."
)


@dataclass(frozen=True)
class FileVersions:
    """Sizes in bytes and modification times in nanoseconds of files, by their paths.

    Inode numbers are left out: on some network file systems they change while a file does not.
    """

    stamps: dict[str, tuple[int, int] | None]

    @classmethod
    def from_paths(cls, paths: Iterable[str]) -> FileVersions:
        """The versions that are there now."""
        return cls({path: _stamp(path) for path in paths})

    def check(self, paths: Iterable[str] | None = None) -> None:
        """Raise MissingData unless `paths`, by default the same, are the files they were."""
        now = FileVersions.from_paths(self.stamps if paths is None else paths).stamps
        for path in (*self.stamps, *now):
            before, after = self.stamps.get(path), now.get(path)
            if before != after:
                change = (
                    "is new" if before is None else "was deleted or moved" if after is None
                    else "has another size or modification time"
                )  # fmt: skip
                raise MissingData(f"{path!r} {change} since it was scanned. {RESCAN_ADVICE}")


def _stamp(path: str) -> tuple[int, int] | None:
    """Size and modification time of a file; None if it is not there."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


@dataclass(frozen=True)
class MappedFile:
    """The file of a `numpy.memmap` and its version: inode, size and modification time."""

    path: str
    version: tuple[int, ...]

    @classmethod
    def from_array(cls, array: Any) -> MappedFile | None:
        """The file that an array is a map of, or a view of a map; None if there is none."""
        while isinstance(array, np.ndarray):
            if isinstance(array, np.memmap) and array.filename is not None:
                path = os.fspath(array.filename)
                version = _mapped_version(path)
                return None if version is None else cls(path, version)
            array = array.base
        return None

    def check(self) -> None:
        """Raise MissingData if something has written to the file.

        A file that was deleted or replaced is fine: the map still shows the old one.
        """
        now = _mapped_version(self.path)
        if now is not None and now[0] == self.version[0] and now != self.version:
            raise MissingData(
                f"{self.path!r}, of which X, y or sample_weight is a memory map, was changed while "
                "it was read. All passes have to read the same version of the data: wait until "
                "nothing writes to the file, then fit or predict again."
            )


def _mapped_version(path: str) -> tuple[int, ...] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


@contextmanager
def verify_unchanged(check: Callable[[], None]) -> Iterator[None]:
    """Call `check`, which raises if data has changed, before and after the block.

    It is called after errors too: reading a file that is being written fails in many ways.
    """
    check()
    try:
        yield
    except Exception:
        check()
        raise
    check()


@contextmanager
def verify_memmaps_unchanged(*arrays: Any) -> Iterator[None]:
    """Raise MissingData if files that arrays are memory maps of change within the block."""
    files = [file for file in map(MappedFile.from_array, arrays) if file is not None]

    def check() -> None:
        for file in files:
            file.check()

    with verify_unchanged(check):
        yield


class RowSource(ABC):
    """A matrix that is read one block of rows at a time, as often as needed.

    `names` are those of its columns, if they have any, and `encoding` is how these came about.
    `dtype` is float32 or float64.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    feature_names: tuple[str, ...] | None = None
    encoding: Any = None
    #: Its files as they were when it was scanned, if it lies in files.
    versions: FileVersions | None = None
    #: What there is to say about how it was opened; it goes into the report of a fit.
    notes: tuple[str, ...] = ()

    def check_unchanged(self) -> None:
        """Raise MissingData if a file has changed since it was scanned."""
        if self.versions is not None:
            self.versions.check(self.files)

    @abstractmethod
    def blocks(self, rows: slice, height: int) -> Iterator[Array]:
        """Consecutive blocks of `rows`, from start to stop, of at most `height` rows each.

        Every block is `dtype`, and contiguous in C or Fortran order. It stays valid after the next
        one has been asked for, so that it can be read ahead, from another thread.
        """

    @property
    def has_row_access(self) -> bool:
        """Whether single rows can be read without reading all: `take` is cheap."""
        return False

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows, in ascending order."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """Something that is another if the data is: names, sizes and times of files, or a sum."""
        return files_fingerprint(self.files)

    @property
    def files(self) -> tuple[str, ...]:
        """Where it lies, if it does so in files of this machine."""
        return ()

    @property
    @abstractmethod
    def description(self) -> str:
        """What it is and where it lies, in a few words, for messages."""


def files_fingerprint(paths: tuple[str, ...]) -> str:
    """Their names, sizes and times of change."""
    found = []
    for path in paths:
        about = os.stat(path)
        found.append(f"{os.path.abspath(path)} {about.st_size} {about.st_mtime_ns}")
    return "\n".join(found)


class ArraySource(RowSource):
    """An array, in memory or mapped, as blocks: views, where its dtype allows."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = float_dtype(array.dtype)
        self.mapped_file = MappedFile.from_array(array)

    def check_unchanged(self) -> None:
        """Raise MissingData if it is a map of a file that has changed since it was opened."""
        if self.mapped_file is not None:
            self.mapped_file.check()

    def blocks(self, rows: slice, height: int) -> Iterator[Array]:
        """Some rows at a time."""
        for start in range(rows.start, rows.stop, height):
            block = self.array[start : min(start + height, rows.stop)]
            whole = block.flags.c_contiguous or block.flags.f_contiguous
            ready = whole and block.dtype == self.dtype
            yield block if ready else np.ascontiguousarray(block, self.dtype)

    @property
    def has_row_access(self) -> bool:
        """Yes."""
        return True

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows."""
        return np.ascontiguousarray(self.array[rows], self.dtype)

    @property
    def fingerprint(self) -> str:
        """A sum over all bytes."""
        found = 0
        for block in self.blocks(slice(0, self.shape[0]), max(1, 2**22 // max(1, self.shape[1]))):
            found = zlib.crc32(np.ascontiguousarray(block).data, found)
        return f"crc32 {found}"

    @property
    def description(self) -> str:
        """An array."""
        return f"an array of {self.array.dtype}"
