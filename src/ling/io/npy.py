"""NumPy's .npy files."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ling._typing import Array, FilePath
from ling.design.arrays import float_dtype
from ling.design.row_source import ArraySource, FileVersions, RowSource
from ling.errors import DataFileError, InputTypeError, LingError, ShapeError, Where
from ling.io.buffer_pool import BufferPool
from ling.io.dataset import ArrayTargetReader, Dataset, check_target_shape
from ling.io.tables import is_path

# Characters of NumPy's message that an error quotes; it may repeat a header of 10 000.
MAX_QUOTED_CHARS = 200
MATRIX_ADVICE = "pass a matrix of shape (n_samples, n_features)"


@dataclass(frozen=True)
class NpyLayout:
    """Where in a file the numbers of an array lie, and how; errors call the array `argument`."""

    argument: str
    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool

    @property
    def end(self) -> int:
        """The byte after its last one."""
        return self.offset + int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize

    def check_file_size(self, file: BinaryIO | FileIO) -> None:
        """Raise DataFileError if the file is shorter than that."""
        size = os.fstat(file.fileno()).st_size
        if size < self.end:
            raise DataFileError(
                self.argument,
                f"has {size} bytes, but {self.shape} numbers of {self.dtype} need {self.end}, so "
                "it is cut off or still being written",
                "write it again",
                where=Where(file=self.path),
            )


class NpySource(RowSource):
    """The rows of a matrix in a file.

    They are read, never mapped: if a mapped file is truncated by another program, the system kills
    the process (SIGBUS), where a read only comes up short.
    """

    def __init__(self, layout: NpyLayout) -> None:
        rows, columns = layout.shape
        self.layout = layout
        self.shape = (rows, columns)
        self.dtype = float_dtype(layout.dtype)
        # Other types are read in their own dtype and converted.
        is_converted = layout.dtype != self.dtype
        self.buffer_itemsize = layout.dtype.itemsize if is_converted else 0
        self.versions = FileVersions.from_paths("X", self.files)

    def blocks(self, rows: slice, height: int) -> Iterator[Array]:
        """Yield blocks that are contiguous in the order of the file."""
        start, stop, _ = rows.indices(self.shape[0])
        height, width = max(1, min(height, stop - start)), self.shape[1]
        buffers = BufferPool(height * width, self.layout.dtype)
        read = self._read_columns if self.layout.is_fortran else self._read_rows
        with open(self.layout.path, "rb", buffering=0) as file:
            for first in range(start, stop, height):
                self.layout.check_file_size(file)
                block = read(file, buffers, first, min(first + height, stop))
                yield block.astype(self.dtype, copy=False)
                del block  # its memory is used again

    @property
    def has_row_access(self) -> bool:
        """Whether rows lie together."""
        return not self.layout.is_fortran

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows, each read alone."""
        layout = self.layout
        picked = np.empty((len(rows), self.shape[1]), layout.dtype)
        with open(layout.path, "rb", buffering=0) as file:
            layout.check_file_size(file)
            for out, row in zip(picked, rows, strict=True):
                _read_into(file, out, layout.offset + int(row) * out.nbytes)
        return picked.astype(self.dtype, copy=False)

    @property
    def has_column_access(self) -> bool:
        """True: the numbers of a row that lie together are read alone."""
        return True

    def read_columns(self, columns: slice) -> Array:
        """All rows of consecutive columns: a read for every row, or one in Fortran order."""
        layout, (n, width) = self.layout, self.shape
        count, itemsize = columns.stop - columns.start, layout.dtype.itemsize
        with open(layout.path, "rb", buffering=0) as file:
            layout.check_file_size(file)
            if layout.is_fortran:
                block = np.empty((count, n), layout.dtype)
                _read_into(file, block.reshape(-1), layout.offset + columns.start * n * itemsize)
                return block.T.astype(self.dtype, copy=False)
            block = np.empty((n, count), layout.dtype)
            for i, out in enumerate(block):
                _read_into(file, out, layout.offset + (i * width + columns.start) * itemsize)
        return block.astype(self.dtype, copy=False)

    @property
    def files(self) -> tuple[str, ...]:
        """The file."""
        return (self.layout.path,)

    @property
    def description(self) -> str:
        """Where the file lies."""
        return f"npy file {self.layout.path!r}"

    def _read_rows(self, file: FileIO, buffers: BufferPool, start: int, stop: int) -> Array:
        """Rows of a C-ordered file, in its dtype: one read."""
        width, dtype = self.shape[1], self.layout.dtype
        block = buffers.allocate_block(width, stop - start).T
        _read_into(file, block.reshape(-1), self.layout.offset + start * width * dtype.itemsize)
        return block

    def _read_columns(self, file: FileIO, buffers: BufferPool, start: int, stop: int) -> Array:
        """Rows of a Fortran-ordered file, in its dtype: a read for every column."""
        n, dtype = self.shape[0], self.layout.dtype
        block = buffers.allocate_block(stop - start, self.shape[1])
        for j, column in enumerate(block.T):
            _read_into(file, column, self.layout.offset + (j * n + start) * dtype.itemsize)
        return block


def _read_into(file: FileIO, out: np.ndarray[Any, Any], offset: int) -> None:
    """Fill a contiguous array of one dimension from byte `offset` on."""
    file.seek(offset)
    view = memoryview(out.view(np.uint8).data)
    while len(view):
        count = file.readinto(view)
        if not count:
            raise DataFileError(
                "X",
                "became shorter while it was read",
                "write it again",
                where=Where(file=str(file.name)),
            )
        view = view[count:]


def scan_npy(X: FilePath | np.memmap[Any, Any], y: FilePath | ArrayLike | None = None) -> Dataset:
    """A matrix in a .npy file, and a target, read a block of rows at a time.

    Rows in C order (numpy's own) are read fastest; in Fortran order it takes a read for each
    column of each block. float32 and float64 are used as they are, and other types converted.

    Parameters
    ----------
    X : path or numpy.memmap
        A matrix of shape (n_samples, n_features), as `numpy.save` writes it.
    y : path or array, default=None
        The target, (n_samples,) or (n_samples, n_targets).

    Returns
    -------
    Dataset
        For estimators, in place of X and y: `Ridge().fit(data)`.

    Examples
    --------
    >>> import numpy as np, tempfile, ling.io
    >>> path = tempfile.mkdtemp() + "/X.npy"
    >>> np.save(path, np.ones((3, 2), np.float32))
    >>> data = ling.io.scan_npy(path, y=[1, 2, 3])
    >>> data.shape, data.y
    ((3, 2), array([1, 2, 3]))
    """
    source = _matrix_source(X)
    n, versions = source.shape[0], None
    if is_path(y):
        y = os.fspath(y)
        versions = FileVersions.from_paths("y", [y])
        check_target_shape(read_layout(y, "y").shape, n, y)
    elif y is not None:
        y = np.asarray(y)
        check_target_shape(y.shape, n)
    return Dataset(source, ArrayTargetReader(y, n, load_target, versions))


def load_target(y: Any) -> NDArray[Any]:
    """An array, or the one in a file."""
    return read_npy(os.fspath(y), "y") if is_path(y) else np.asarray(y)


def read_npy(path: str, argument: str) -> NDArray[Any]:
    """The array in a .npy file, read into memory; errors call it `argument`."""
    read_layout(path, argument)
    with _translate_npy_errors(path, argument):
        return np.asarray(np.load(path, allow_pickle=False))


def _matrix_source(X: Any) -> RowSource:
    if is_path(X):
        return NpySource(_check_matrix_layout(read_layout(os.fspath(X), "X")))
    if not isinstance(X, np.memmap):
        raise InputTypeError(
            "X",
            f"is a {type(X).__name__}",
            "pass the path of a .npy file or a numpy.memmap",
            "pass what is in memory to the estimator directly",
        )
    if X.ndim != 2:
        raise ShapeError("X", f"has shape {X.shape}", MATRIX_ADVICE)
    layout = memmap_layout(X)
    return ArraySource(X) if layout is None else NpySource(_check_matrix_layout(layout))


def read_layout(path: str, argument: str) -> NpyLayout:
    """What the header of a .npy file says, checked against the file's size."""
    with _translate_npy_errors(path, argument), open(path, "rb") as file:
        shape, fortran, dtype = read_npy_header(file)
        layout = NpyLayout(argument, path, file.tell(), shape, dtype, fortran)
        layout.check_file_size(file)
    if layout.dtype.hasobject:
        raise InputTypeError(
            argument,
            "has Python objects",
            "save it with a dtype of numbers",
            where=Where(file=path),
        )
    return layout


def read_npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, Fortran order and dtype in the header of a .npy file.

    ValueError if there is no valid header. NumPy's reader hands it to Python's tokenizer and
    parser, and raises whatever these do for damaged text.
    """
    from numpy.lib import format as npy

    try:
        version = npy.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"format {version} is unknown")
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read(file)
        if any(length < 0 for length in shape):
            raise ValueError(f"shape {shape} is negative")
    except (OSError, Warning):  # files of Python 2 are valid, and NumPy warns of them
        raise
    except Exception as error:
        raise ValueError(quote_error(error)) from error
    return shape, fortran, dtype


def quote_error(error: Exception) -> str:
    """The message of another package's error on one line, cut off where it is long."""
    text = " ".join(str(error).split())
    quoted = text if len(text) <= MAX_QUOTED_CHARS else f"{text[:MAX_QUOTED_CHARS]}..."
    return quoted or type(error).__name__


@contextmanager
def _translate_npy_errors(path: str, argument: str) -> Iterator[None]:
    """Turn whatever reading a .npy file raises into an error that names the file."""
    try:
        yield
    except LingError:
        raise
    except OSError as error:
        raise DataFileError(
            argument,
            f"cannot be read ({error.strerror or error})",
            "pass the path of a .npy file",
            where=Where(file=path),
        ) from error
    except MemoryError as error:
        raise DataFileError(
            argument,
            f"does not fit into memory, or its header is damaged ({error})",
            "write it again with numpy.save if it is damaged",
            where=Where(file=path),
        ) from error
    except (ValueError, EOFError) as error:
        raise DataFileError(
            argument,
            f"is not a .npy file ({error})",
            "write it with numpy.save",
            where=Where(file=path),
        ) from error


def memmap_layout(array: np.memmap[Any, Any]) -> NpyLayout | None:
    """Where in its file a memory map, or a contiguous part of one, lies; None if it is neither."""
    window, flags = array._mmap, array.flags  # type: ignore[attr-defined]
    contiguous = flags.c_contiguous or flags.f_contiguous
    # Changes to a map of mode "c" are not in the file.
    if array.filename is None or array.mode == "c" or not contiguous:
        return None
    base = np.frombuffer(window, np.uint8).ctypes.data
    begin = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    offset = begin + array.ctypes.data - base
    path = os.fspath(array.filename)
    return NpyLayout("X", path, offset, array.shape, array.dtype, not flags.c_contiguous)


def _check_matrix_layout(layout: NpyLayout) -> NpyLayout:
    if len(layout.shape) != 2 or layout.shape[1] == 0:
        raise ShapeError(
            "X", f"has shape {layout.shape}", MATRIX_ADVICE, where=Where(file=layout.path)
        )
    if layout.dtype.kind not in "fiub":
        raise InputTypeError(
            "X",
            f"has dtype {layout.dtype}",
            "save it with a dtype of real numbers",
            where=Where(file=layout.path),
        )
    return layout
