"""Zarr arrays, in folders or in any store that zarr knows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling.design.arrays import Array, float_dtype
from ling.design.source import FileVersions, Source
from ling.errors import MissingData, NotInstalled, WrongShape, WrongType
from ling.scan.dataset import ArrayOthers, Dataset, check_target_shape
from ling.scan.files import is_path

# Bytes that are read at once, where chunks are smaller than that.
READ_AT_ONCE = 2**25


class ZarrSource(Source):
    """The rows of a zarr array; whole rows of chunks are read, so that none is decoded twice."""

    def __init__(self, array: Any, called: str) -> None:
        self.array = array
        self.shape = tuple(array.shape)
        self.dtype = float_dtype(array.dtype)
        self.called = called
        self.versions = FileVersions.of(self.files)

    def blocks(self, rows: slice, height: int) -> Iterator[Array]:
        """Rows of chunks, cut into blocks."""
        start, stop, _ = rows.indices(self.shape[0])
        block, filled = self._empty(height, start, stop), 0
        for piece in self._pieces(start, stop):
            used = 0
            while used < len(piece):
                count = min(len(block) - filled, len(piece) - used)
                block[filled : filled + count] = piece[used : used + count]
                used, filled, start = used + count, filled + count, start + count
                if filled == len(block):
                    yield block
                    block, filled = self._empty(height, start, stop), 0

    @property
    def files(self) -> tuple[str, ...]:
        """All of its store, if that is a folder."""
        return _files_of(self.array)

    @property
    def description(self) -> str:
        """Where the array lies."""
        return self.called

    def _empty(self, height: int, start: int, stop: int) -> Array:
        return np.empty((min(height, stop - start), self.shape[1]), self.dtype)

    def _pieces(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        """Rows from start to stop, ending where chunks end."""
        step = self._step()
        while start < stop:
            end = min(stop, (start // step + 1) * step)
            yield np.asarray(self.array[start:end])
            start = end

    def _step(self) -> int:
        """Rows to read at once: those of some chunks (of a shard, if chunks lie in shards)."""
        stored = getattr(self.array, "shards", None) or self.array.chunks
        per_chunk = max(1, stored[0] * self.shape[1] * self.array.dtype.itemsize)
        return int(stored[0] * max(1, READ_AT_ONCE // per_chunk))


def scan_zarr(X: Any, y: Any = None) -> Dataset:
    """A matrix in a zarr array, and a target, read some rows of chunks at a time.

    Chunks of many rows and all columns are read fastest.

    Parameters
    ----------
    X : zarr.Array or path
        A matrix of shape (n_samples, n_features).
    y : zarr.Array, path or array, default=None
        The target, (n_samples,) or (n_samples, n_targets).

    Returns
    -------
    Dataset
        `X` and `y` for an estimator.

    Examples
    --------
    >>> import numpy as np, zarr, ling.scan
    >>> X = zarr.array(np.ones((4, 2)), chunks=(2, 2))
    >>> ling.scan.scan_zarr(X, y=[1, 2, 3, 4]).shape
    (4, 2)
    """
    array = _opened(X, "X")
    if not hasattr(array, "chunks"):
        raise WrongType(f"X is a {type(X).__name__}; pass a zarr array, or the path of one.")
    if array.ndim != 2 or array.shape[1] == 0:
        raise WrongShape(f"X has shape {array.shape}; pass a matrix (n_samples, n_features).")
    called = f"zarr array {os.fspath(X)!r}" if is_path(X) else "a zarr array"
    n, versions = int(array.shape[0]), None
    if y is not None:
        target = _opened(y, "y")
        check_target_shape(np.shape(target), n)
        versions = FileVersions.of(_files_of(target))
    y = os.fspath(y) if is_path(y) else y
    return Dataset(ZarrSource(array, called), ArrayOthers(y, n, load_array, versions))


def _files_of(array: Any) -> tuple[str, ...]:
    """All files of a zarr array, if it is stored in a folder."""
    root = getattr(getattr(array, "store", None), "root", None)
    if root is None:
        return ()
    folder = Path(root, array.path)
    return tuple(sorted(str(path) for path in folder.rglob("*") if path.is_file()))


def load_array(y: Any) -> NDArray[Any]:
    """An array, one of zarr's, or the one at a path; read."""
    opened = _opened(y, "y")
    return np.asarray(opened[...] if hasattr(opened, "chunks") else opened)


def _opened(array: Any, name: str) -> Any:
    """The zarr array at a path; what is none is passed through."""
    if not is_path(array):
        return array
    try:
        import zarr
    except ImportError as error:
        raise NotInstalled("reading zarr arrays needs zarr; pip install 'ling[zarr]'.") from error
    try:
        return zarr.open_array(os.fspath(array), mode="r")
    except (OSError, ValueError, KeyError) as error:
        raise MissingData(
            f"{name}={os.fspath(array)!r} cannot be opened as a zarr array ({error}); pass the "
            "path of an array, not of a group."
        ) from error
