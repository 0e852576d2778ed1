"""Rows of numbers that are read in blocks, from wherever they lie."""

from __future__ import annotations

import os
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling.design.arrays import Array, float_dtype


class Source(ABC):
    """A matrix that is read one block of rows at a time, as often as needed.

    `names` are those of its columns, if they have any, and `encoding` is how these came about.
    `dtype` is float32 or float64.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    names: tuple[str, ...] | None = None
    encoding: Any = None

    @abstractmethod
    def blocks(self, rows: slice, height: int) -> Iterator[Array]:
        """Consecutive blocks of `rows`, from start to stop, of at most `height` rows each.

        Every block is `dtype`, and contiguous in C or Fortran order. It stays valid after the next
        one has been asked for, so that it can be read ahead, from another thread.
        """

    @property
    def picks(self) -> bool:
        """Whether single rows can be read without reading all: `take` is cheap."""
        return False

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows, in ascending order."""
        raise NotImplementedError

    @property
    def identity(self) -> str:
        """Something that is another if the data is: names, sizes and times of files, or a sum."""
        return of_files(self.files)

    @property
    def files(self) -> tuple[str, ...]:
        """Where it lies, if it does so in files of this machine."""
        return ()

    @property
    @abstractmethod
    def description(self) -> str:
        """What it is and where it lies, in a few words, for messages."""


def of_files(paths: tuple[str, ...]) -> str:
    """Their names, sizes and times of change."""
    found = []
    for path in paths:
        about = os.stat(path)
        found.append(f"{os.path.abspath(path)} {about.st_size} {about.st_mtime_ns}")
    return "\n".join(found)


class ArraySource(Source):
    """An array, in memory or mapped, as blocks: views, where its dtype allows."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        self.shape = array.shape
        self.dtype = float_dtype(array.dtype)

    def blocks(self, rows: slice, height: int) -> Iterator[Array]:
        """Some rows at a time."""
        for start in range(rows.start, rows.stop, height):
            block = self.array[start : min(start + height, rows.stop)]
            whole = block.flags.c_contiguous or block.flags.f_contiguous
            ready = whole and block.dtype == self.dtype
            yield block if ready else np.ascontiguousarray(block, self.dtype)

    @property
    def picks(self) -> bool:
        """Yes."""
        return True

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows."""
        return np.ascontiguousarray(self.array[rows], self.dtype)

    @property
    def identity(self) -> str:
        """A sum over all bytes."""
        found = 0
        for block in self.blocks(slice(0, self.shape[0]), max(1, 2**22 // max(1, self.shape[1]))):
            found = zlib.crc32(np.ascontiguousarray(block).data, found)
        return f"crc32 {found}"

    @property
    def description(self) -> str:
        """An array."""
        return f"an array of {self.array.dtype}"
