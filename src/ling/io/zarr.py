"""Zarr arrays, in folders or in any store that zarr knows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ling._typing import Array, FilePath, HasShape
from ling.design.arrays import float_dtype
from ling.design.row_source import FileVersions, RowSource
from ling.errors import (
    DataFileError,
    InputTypeError,
    LingError,
    MissingPackageError,
    ShapeError,
    Where,
)
from ling.io.dataset import ArrayTargetReader, Dataset, check_target_shape
from ling.io.npy import quote_error
from ling.io.tables import is_path

# Bytes that are read at once, where chunks are smaller than that.
MIN_READ_BYTES = 2**25


class ZarrSource(RowSource):
    """The rows of a zarr array; whole rows of chunks are read, so that none is decoded twice.

    Rows of chunks that are smaller than `min_read_bytes` are read several at once.
    """

    def __init__(
        self,
        array: Any,
        called: str,
        min_read_bytes: int = MIN_READ_BYTES,
        path: str | None = None,
    ) -> None:
        self.array = array
        self._path = path
        self.shape = tuple(array.shape)
        self.dtype = float_dtype(array.dtype)
        self._description = called
        self._min_read_bytes = min_read_bytes
        self.versions = FileVersions.from_paths("X", self.files)

    def blocks(self, rows: slice, height: int) -> Iterator[Array]:
        """Rows of chunks, cut into blocks."""
        start, stop, _ = rows.indices(self.shape[0])
        block, filled = self._allocate_block(height, start, stop), 0
        for piece in self._read_chunk_rows(start, stop):
            used = 0
            while used < len(piece):
                count = min(len(block) - filled, len(piece) - used)
                block[filled : filled + count] = piece[used : used + count]
                used, filled, start = used + count, filled + count, start + count
                if filled == len(block):
                    yield block
                    block, filled = self._allocate_block(height, start, stop), 0

    @property
    def files(self) -> tuple[str, ...]:
        """All of its store, if that is a folder."""
        return _store_files(self.array)

    @property
    def description(self) -> str:
        """Where the array lies."""
        return self._description

    def _allocate_block(self, height: int, start: int, stop: int) -> Array:
        return np.empty((min(height, stop - start), self.shape[1]), self.dtype)

    def _read_chunk_rows(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        """Rows from start to stop, ending where chunks end."""
        step = self._rows_per_read()
        while start < stop:
            end = min(stop, (start // step + 1) * step)
            with _translate_zarr_errors("X", self._path):
                rows = np.asarray(self.array[start:end])
            yield rows
            start = end

    def _rows_per_read(self) -> int:
        """Rows to read at once: those of some chunks (of a shard, if chunks lie in shards)."""
        stored = getattr(self.array, "shards", None) or self.array.chunks
        per_chunk = max(1, stored[0] * self.shape[1] * self.array.dtype.itemsize)
        # Damaged metadata may have chunks without rows, which fail when they are read.
        return max(1, int(stored[0] * max(1, self._min_read_bytes // per_chunk)))


def scan_zarr(X: FilePath | HasShape, y: FilePath | HasShape | ArrayLike | None = None) -> Dataset:
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
        For estimators, in place of X and y: `Ridge().fit(data)`.

    Examples
    --------
    >>> import numpy as np, zarr, ling.io
    >>> X = zarr.array(np.ones((4, 2)), chunks=(2, 2))
    >>> ling.io.scan_zarr(X, y=[1, 2, 3, 4]).shape
    (4, 2)
    """
    array = _open_array(X, "X")
    if not hasattr(array, "chunks"):
        raise InputTypeError(
            "X", f"is a {type(X).__name__}", "pass a zarr array or the path of one"
        )
    file = os.fspath(X) if is_path(X) else None
    if array.ndim != 2 or array.shape[1] == 0:
        raise ShapeError(
            "X",
            f"has shape {array.shape}",
            "pass a matrix of shape (n_samples, n_features)",
            where=Where(file=file),
        )
    called = "a zarr array" if file is None else f"zarr array {file!r}"
    n, versions = int(array.shape[0]), None
    if y is not None:
        target = _open_array(y, "y")
        y = os.fspath(y) if is_path(y) else y
        check_target_shape(np.shape(target), n, y if isinstance(y, str) else None)
        versions = FileVersions.from_paths("y", _store_files(target))
    source = ZarrSource(array, called, path=file)
    return Dataset(source, ArrayTargetReader(y, n, load_target, versions))


def _store_files(array: Any) -> tuple[str, ...]:
    """All files of a zarr array, if it is stored in a folder."""
    root = getattr(getattr(array, "store", None), "root", None)
    if root is None:
        return ()
    found = []
    for folder, _, names in os.walk(Path(root, array.path)):
        found += [os.path.join(folder, name) for name in names]
    return tuple(sorted(found))


def load_target(y: Any) -> NDArray[Any]:
    """An array, one of zarr's, or the one at a path; read."""
    opened = _open_array(y, "y")
    with _translate_zarr_errors("y", os.fspath(y) if is_path(y) else None):
        return np.asarray(opened[...] if hasattr(opened, "chunks") else opened)


def _open_array(array: Any, argument: str) -> Any:
    """The zarr array at a path; what is none is passed through. Errors call it `argument`."""
    if not is_path(array):
        return array
    try:
        import zarr
    except ImportError as error:
        raise MissingPackageError(
            "reading zarr arrays needs zarr; pip install 'ling[zarr]'."
        ) from error
    path = os.fspath(array)
    try:
        opened = zarr.open_array(path, mode="r")
    except Exception as error:  # zarr does not check the types in its metadata
        raise DataFileError(
            argument,
            f"cannot be opened as a zarr array ({quote_error(error)})",
            "pass the path of an array, not of a group",
            where=Where(file=path),
        ) from error
    _check_runs_no_code(opened, argument, path)
    return opened


def _check_runs_no_code(array: Any, argument: str, path: str) -> None:
    """Raise InputTypeError if chunks are pickles: older versions of numcodecs unpickle them."""
    codecs = (*(array.filters or ()), *(array.compressors or ()))
    if any(getattr(codec, "codec_id", None) == "pickle" for codec in codecs):
        raise InputTypeError(
            argument,
            "has chunks that are pickles, which can run any code",
            "write it as numbers",
            where=Where(file=path),
        )


@contextmanager
def _translate_zarr_errors(argument: str, path: str | None) -> Iterator[None]:
    """Turn whatever reading chunks raises into an error that names the array.

    Codecs raise errors of many types for damaged chunks, and stores have errors of their own.
    """
    try:
        yield
    except LingError:
        raise
    except MemoryError as error:
        raise DataFileError(
            argument,
            f"has chunks that do not fit into memory, or is damaged ({quote_error(error)})",
            "write it again with smaller chunks",
            where=Where(file=path),
        ) from error
    except Exception as error:
        raise DataFileError(
            argument,
            f"has chunks that cannot be read ({quote_error(error)}), so it is damaged, gone or "
            "still being written",
            "write it again",
            where=Where(file=path),
        ) from error
