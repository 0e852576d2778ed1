"""Sources of rows that are read in blocks, and checks that files stay unchanged meanwhile."""

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
from ling.errors import DataFileError, InputTypeError, Where


@dataclass(frozen=True)
class FileVersions:
    """Sizes in bytes and modification times in nanoseconds of files, by path.

    Inode numbers are left out: on some network file systems they change while a file does not.
    `argument` is the name of the parameter that the files were passed as.
    """

    argument: str
    stamps: dict[str, tuple[int, int] | None]

    @classmethod
    def from_paths(cls, argument: str, paths: Iterable[str]) -> FileVersions:
        """Return the current versions of the files."""
        return cls(argument, {path: _stamp(path) for path in paths})

    def check(self, paths: Iterable[str] | None = None) -> None:
        """Raise DataFileError if a file was added, removed or changed.

        `paths` are the current files; by default the recorded ones.
        """
        now = FileVersions.from_paths(self.argument, self.stamps if paths is None else paths).stamps
        for path in (*self.stamps, *now):
            before, after = self.stamps.get(path), now.get(path)
            if before != after:
                change = (
                    "was added" if before is None else "was deleted or moved" if after is None
                    else "was changed"
                )  # fmt: skip
                raise DataFileError(
                    self.argument,
                    f"{change} after the scan, and all passes have to read the same data",
                    "wait until nothing writes to it, then scan it and fit or predict again",
                    where=Where(file=path),
                )


def _stamp(path: str) -> tuple[int, int] | None:
    """Return (size, modification time) of a file, or None if it does not exist."""
    stat = _stat(path)
    return None if stat is None else (stat.st_size, stat.st_mtime_ns)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


@dataclass(frozen=True)
class MappedFile:
    """The file of a `numpy.memmap` and its version: inode, size and modification time.

    `argument` is the name of the parameter that the map was passed as.
    """

    argument: str
    path: str
    version: tuple[int, ...]

    @classmethod
    def from_array(cls, argument: str, array: Any) -> MappedFile | None:
        """Return the file that an array, or the base of a view, maps; None if it is not mapped."""
        while isinstance(array, np.ndarray):
            if isinstance(array, np.memmap) and array.filename is not None:
                path = os.fspath(array.filename)
                version = _mapped_version(path)
                return None if version is None else cls(argument, path, version)
            array = array.base
        return None

    def check(self) -> None:
        """Raise DataFileError if the file was written to.

        A file that was deleted or replaced is allowed: the map still shows the old content.
        """
        now = _mapped_version(self.path)
        if now is not None and now[0] == self.version[0] and now != self.version:
            raise DataFileError(
                self.argument,
                f"`{self.argument}`, a memory map, was changed while it was read",
                "wait until nothing writes to the file, then fit or predict again",
                where=Where(file=self.path),
            )


def _mapped_version(path: str) -> tuple[int, ...] | None:
    stat = _stat(path)
    return None if stat is None else (stat.st_ino, stat.st_size, stat.st_mtime_ns)


@contextmanager
def verify_unchanged(check: Callable[[], None]) -> Iterator[None]:
    """Call `check`, which raises if data has changed, before and after the block.

    It is called after errors too, because reading a file that is being written fails in many ways.
    """
    check()
    try:
        yield
    except Exception:
        check()
        raise
    check()


@contextmanager
def verify_memmaps_unchanged(X: Any, y: Any = None, sample_weight: Any = None) -> Iterator[None]:
    """Raise DataFileError if a file that one of the arrays maps changes within the block."""
    arguments = {"X": X, "y": y, "sample_weight": sample_weight}
    files = [file for item in arguments.items() if (file := MappedFile.from_array(*item))]

    def check() -> None:
        for file in files:
            file.check()

    with verify_unchanged(check):
        yield


def not_an_array_error() -> InputTypeError:
    """The error when NumPy or scikit-learn converts X of a scan into an array."""
    return InputTypeError(
        "X",
        "comes from a scan, so it is read block by block and cannot be converted to an array",
        "fit a ling estimator to it directly, as in RidgeCV().fit(data), without transformers, "
        "cross_val_score or searches around it",
        "read it into memory with data.to_numpy()",
        "pass data.X to functions of ling.design and ling.paper",
    )


class RowSource(ABC):
    """A matrix that is read one block of rows at a time, as often as needed.

    `feature_names` are the names of the columns, if they have any. `encoding` describes how the
    columns were computed from a table. `dtype` is float32 or float64.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    feature_names: tuple[str, ...] | None = None
    encoding: Any = None
    #: Versions of the files at the time of the scan; None if the source has no files.
    versions: FileVersions | None = None
    #: Remarks about how the source was opened, for the report of a fit.
    notes: tuple[str, ...] = ()
    #: Bytes per entry of a buffer that a block is read into before it is converted to `dtype`.
    buffer_itemsize: int = 0

    def check_unchanged(self) -> None:
        """Raise DataFileError if a file has changed since it was scanned."""
        if self.versions is not None:
            self.versions.check(self.files)

    @abstractmethod
    def blocks(self, rows: slice, height: int) -> Iterator[Array]:
        """Yield consecutive blocks of the slice `rows`, of at most `height` rows each.

        Every block has dtype `dtype` and is contiguous in C or Fortran order. It stays valid after
        the next block is requested, so that another thread can read ahead.
        """

    @property
    def has_row_access(self) -> bool:
        """Whether single rows can be read without reading all rows, so that `take` is cheap."""
        return False

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return the given rows, which are in ascending order."""
        raise NotImplementedError

    @property
    def has_column_access(self) -> bool:
        """Whether some columns can be read without reading the others."""
        return False

    def read_columns(self, columns: slice) -> Array:
        """Return all rows of consecutive columns, in `dtype`; the result is not to be changed."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """A fingerprint of the data: file names, sizes and modification times, or a checksum."""
        return files_fingerprint(self.files)

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the local files that hold the data; empty if there are none."""
        return ()

    @property
    @abstractmethod
    def description(self) -> str:
        """A short description of the source and its location, for messages."""


def files_fingerprint(paths: tuple[str, ...]) -> str:
    """Return absolute path, size and modification time of each file, one line per file."""
    lines = []
    for path in paths:
        stat = os.stat(path)
        lines.append(f"{os.path.abspath(path)} {stat.st_size} {stat.st_mtime_ns}")
    return "\n".join(lines)


class ArraySource(RowSource):
    """An array in memory or a memory map; blocks are views where dtype and layout allow."""

    def __init__(
        self, array: np.ndarray[Any, Any], feature_names: tuple[str, ...] | None = None
    ) -> None:
        self.array = array
        self.feature_names = feature_names
        self.shape = array.shape
        self.dtype = float_dtype(array.dtype)
        self.mapped_file = MappedFile.from_array("X", array)

    def check_unchanged(self) -> None:
        """Raise DataFileError if the array maps a file that has changed since it was opened."""
        if self.mapped_file is not None:
            self.mapped_file.check()

    def blocks(self, rows: slice, height: int) -> Iterator[Array]:
        """Yield consecutive blocks of `rows`, of at most `height` rows each."""
        for start in range(rows.start, rows.stop, height):
            block = self.array[start : min(start + height, rows.stop)]
            contiguous = block.flags.c_contiguous or block.flags.f_contiguous
            ready = contiguous and block.dtype == self.dtype
            yield block if ready else np.ascontiguousarray(block, self.dtype)

    @property
    def has_row_access(self) -> bool:
        """True: rows of an array can be indexed."""
        return True

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return the given rows."""
        return np.ascontiguousarray(self.array[rows], self.dtype)

    @property
    def has_column_access(self) -> bool:
        """True: columns of an array can be sliced."""
        return True

    def read_columns(self, columns: slice) -> Array:
        """Return a view of the columns, or a copy in `dtype`."""
        return np.asarray(self.array[:, columns], self.dtype)

    @property
    def fingerprint(self) -> str:
        """CRC-32 of the values."""
        checksum = 0
        for block in self.blocks(slice(0, self.shape[0]), max(1, 2**22 // max(1, self.shape[1]))):
            checksum = zlib.crc32(np.ascontiguousarray(block).data, checksum)
        return f"crc32 {checksum}"

    @property
    def description(self) -> str:
        """The dtype of the array."""
        return f"an array of {self.array.dtype}"
