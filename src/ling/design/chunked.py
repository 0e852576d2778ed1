"""Out-of-core storage that reads one block of rows ahead while it processes the current one."""

from __future__ import annotations

import copy
import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from queue import Empty, Full, Queue
from threading import Event, Thread, current_thread, main_thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ling._typing import Array
from ling.design.affine import AffineMap
from ling.design.arrays import as_slice, row_slices
from ling.design.blocked import (
    BlockCall,
    BlockedStorage,
    BlockResult,
    merge_results,
    row_gram_bytes,
)
from ling.design.dense import DenseStorage
from ling.design.quantized import GROUP_SIZE, QuantizedMatrix, quantize
from ling.design.row_source import RowSource, not_an_array_error, verify_unchanged
from ling.design.rows import take_rows
from ling.design.tuning import DEFAULT_TUNING, MAX_WORKSPACE_BYTES, Tuning
from ling.errors import DataFileError
from ling.linalg.gram import sum_of_grams
from ling.linalg.threads import blas_threads_for, constant_thread_count
from ling.progress import FitProgress
from ling.wording import format_bytes

MIB = 2**20
# Largest and smallest size of a block in bytes. The maximum is large enough that starting threads
# takes no time compared with reading the block.
MAX_BLOCK_BYTES, MIN_BLOCK_BYTES = 64 * MIB, MIB
# Multiply-adds of BLAS in one block from which its threads pay beside the thread that reads ahead.
# A Gram matrix of 193 columns from blocks of 1 MiB, 2.5e7 each, takes 0.7 times as long with one.
MIN_PARALLEL_BLOCK_FLOPS = 5e7
# Number of blocks in memory at once: being processed, waiting, being read, and being released.
MAX_RESIDENT_BLOCKS = 4
# Size of what is computed from a block at a time, in float64, in units of the size of a block. A
# block of float32 becomes twice as large.
WORKSPACE_BLOCKS = 2
# Fraction of the memory budget that is used for blocks.
BLOCK_BUDGET_FRACTION = 0.25
# ... but never less than this.
MIN_RESIDENT_BYTES = MAX_RESIDENT_BLOCKS * MIN_BLOCK_BYTES
# Selected rows are read one by one if they are less than this fraction of the rows that they span;
# otherwise all rows of the span are read.
MAX_PICKED_FRACTION = 0.02
# Bytes that are read to measure the bandwidth of the source.
BANDWIDTH_SAMPLE_BYTES = 128 * MIB
# Measured bandwidths in bytes per second, by source. Each is measured once in a process and never
# replaced, so that repeated fits make the same plan however busy the machine is. In a process that
# reads more sources than this, the oldest is forgotten: each entry takes some hundred bytes.
MAX_MEASURED_SOURCES = 1000
_measured_bandwidths: dict[tuple[Any, ...], float] = {}
T = TypeVar("T")


class ChunkedStorage(BlockedStorage):
    """The rows of a RowSource, read again in every pass; `rows` selects a subset of them.

    At most `max_resident_bytes` bytes of blocks are in memory at any time. `progress` is told of
    every block that has been read. With `has_fixed_blocks`, fits read blocks of that size whatever
    their memory budget, and never read all of X into memory.
    """

    def __init__(
        self,
        source: RowSource,
        rows: NDArray[np.intp] | None = None,
        max_resident_bytes: float = MAX_RESIDENT_BLOCKS * MAX_BLOCK_BYTES,
        progress: FitProgress | None = None,
        has_fixed_blocks: bool = False,
    ) -> None:
        n, p = source.shape
        self.source = source
        self.rows = rows
        self.max_resident_bytes = max_resident_bytes
        self.shape = (n if rows is None else len(rows), p)
        self.dtype = source.dtype
        self.feature_names = source.feature_names
        self.encoding = source.encoding
        self.notes = source.notes
        self.progress = progress
        self.has_fixed_blocks = has_fixed_blocks
        self.block_bytes = max_resident_bytes / MAX_RESIDENT_BLOCKS
        self.workspace_bytes = float(
            np.clip(
                WORKSPACE_BLOCKS * self.block_bytes,
                WORKSPACE_BLOCKS * MIN_BLOCK_BYTES,
                MAX_WORKSPACE_BYTES,
            )
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "progress": None}  # locks cannot be pickled

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise not_an_array_error()

    def with_memory_budget(
        self, budget: float, progress: FitProgress | None = None
    ) -> ChunkedStorage:
        """Return the storage with blocks that fit into BLOCK_BUDGET_FRACTION of `budget` bytes."""
        if self.has_fixed_blocks:
            same = copy.copy(self)
            same.progress = progress
            return same
        max_resident_bytes = min(
            MAX_RESIDENT_BLOCKS * MAX_BLOCK_BYTES,
            max(MIN_RESIDENT_BYTES, BLOCK_BUDGET_FRACTION * budget),
        )
        return ChunkedStorage(self.source, self.rows, max_resident_bytes, progress)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the source."""
        return self.source.fingerprint

    @property
    def has_row_access(self) -> bool:
        """Whether the source can read single rows."""
        return self.source.has_row_access

    @property
    def block_rows(self) -> int:
        """Number of rows of a block; a multiple of GROUP_SIZE where blocks are large enough.

        What the source reads them into counts as part of the block.
        """
        n_bytes = self.source.shape[1] * (self.dtype.itemsize + self.source.buffer_itemsize)
        rows = max(1, int(self.max_resident_bytes / MAX_RESIDENT_BLOCKS) // max(1, n_bytes))
        return rows if rows < GROUP_SIZE else rows // GROUP_SIZE * GROUP_SIZE

    @property
    def _block_shape(self) -> tuple[int, int]:
        return self.block_rows, self.source.shape[1]

    @property
    def n_bytes(self) -> int:
        """Size of all rows in bytes, in the dtype of X."""
        return self.n_stored * self.dtype.itemsize

    @property
    def read_bandwidth(self) -> float:  # type: ignore[override]
        """Bytes per second at which the source is read, as first measured in this process.

        Sources of the same type, location, shape and dtype count as the same source.
        """
        source = self.source
        key = type(source), source.description, source.shape, source.dtype.str
        bandwidth = _measured_bandwidths.get(key)
        if bandwidth is None:
            # If another thread has measured in the meantime, its result is the one that counts.
            bandwidth = _measured_bandwidths.setdefault(key, self._measure_bandwidth())
            for oldest in list(_measured_bandwidths)[:-MAX_MEASURED_SOURCES]:
                _measured_bandwidths.pop(oldest, None)
        return bandwidth

    def _measure_bandwidth(self) -> float:
        """Bytes per second at which the first rows of the source are read."""
        n_rows = max(1, BANDWIDTH_SAMPLE_BYTES // max(1, self.shape[1] * self.dtype.itemsize))
        sample_rows = slice(0, min(n_rows, self.source.shape[0]))
        started = time.perf_counter()
        n_read = 0
        with (
            verify_unchanged(self.source.check_unchanged),
            self._translate_memory_errors(*self._block_shape),
        ):
            for block in self.source.blocks(sample_rows, self.block_rows):
                n_read += _touch_pages(block)
        return max(1.0, n_read / max(time.perf_counter() - started, 1e-9))

    def subset(self, rows: NDArray[np.intp]) -> ChunkedStorage:
        """Return the storage of the given rows, in ascending order; nothing is read yet."""
        if len(rows) > 1 and (np.diff(rows) < 0).any():
            raise AssertionError("rows of data that is read in order have to be in order")
        source_rows = rows if self.rows is None else self.rows[rows]
        return ChunkedStorage(
            self.source, source_rows, self.max_resident_bytes, self.progress, self.has_fixed_blocks
        )

    def run(self, call: BlockCall) -> BlockResult:
        """Run the call on one block after the other while the next one is read."""
        # Threads of BLAS keep spinning after each call and would take CPU time from the reader.
        blas_threads = blas_threads_for(
            call.blas_flops_per_row * self.block_rows, MIN_PARALLEL_BLOCK_FLOPS
        )
        # The generator is closed explicitly: the traceback of an error, or of Ctrl-C, holds a
        # reference to it, and would keep the reader running for as long as the traceback lives.
        with blas_threads, constant_thread_count(), closing(self.blocks()) as blocks:
            return merge_results(take_rows(call, rows)(block) for rows, block in blocks)

    def blocks(self) -> Generator[tuple[slice, DenseStorage], None, None]:
        """Yield (rows, block) for all rows in order, with the slice `rows` into this storage.

        Raises DataFileError if a file of the source has changed since it was scanned.
        """
        start = 0
        tuning = replace(DEFAULT_TUNING, workspace_bytes=int(self.workspace_bytes))
        with (
            verify_unchanged(self.source.check_unchanged),
            self._translate_memory_errors(*self._block_shape),
        ):
            for block in prefetch(self._read_blocks()):
                if len(block):
                    dense = DenseStorage(block, compiled=True, tuning=tuning)
                    yield slice(start, start + len(block)), dense
                start += len(block)
                # The meter reports the last block, with the pass.
                if self.progress is not None and start < self.shape[0]:
                    self.progress.add_partial_pass(len(block) / self.source.shape[0])

    @contextmanager
    def _translate_memory_errors(self, n_rows: int, n_columns: int) -> Iterator[None]:
        """Turn a MemoryError of the source into an error that says how much a block takes."""
        try:
            yield
        except MemoryError as error:
            n_bytes = n_rows * n_columns * self.dtype.itemsize
            raise DataFileError(
                "X",
                f"cannot be read in blocks of {n_rows} x {n_columns} numbers, which take "
                f"{format_bytes(n_bytes)}, because memory does not suffice or the file is damaged "
                f"({self.source.description})",
                "lower `memory_budget`",
                "use fewer columns",
            ) from error

    @property
    def row_gram_passes(self) -> float:
        """One if the source can read columns."""
        return 1.0 if self._reads_columns else super().row_gram_passes

    def row_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return A C^2 A', (n, n), from blocks of columns if the source can read them; one pass."""
        if not self._reads_columns:
            return super().row_gram(affine, dtype)
        out_dtype = self.dtype if dtype is None else np.dtype(dtype)
        blocks = (block.T.astype(out_dtype, copy=False) for block in self._column_blocks(affine))
        return sum_of_grams(blocks, self.shape[0], out_dtype)

    @property
    def _reads_columns(self) -> bool:
        return self.rows is None and self.source.has_column_access

    def _column_blocks(self, affine: AffineMap) -> Iterator[Array]:
        """Yield consecutive columns of A C, all rows of them, in float64."""
        n, p = self.shape
        # Three blocks are in memory: one that is read, mapped, and the mapped one before it. They
        # take as much as two groups of rows in `BlockedStorage.row_gram`.
        width = max(1, 2 * int(row_gram_bytes(self.block_bytes)) // (3 * 8 * max(1, n)))
        with verify_unchanged(self.source.check_unchanged), self._translate_memory_errors(n, width):
            for columns in row_slices(p, width):
                yield affine.apply(self.source.read_columns(columns), slice(None), columns)
                # The meter reports the last block, with the pass.
                if self.progress is not None and columns.stop < p:
                    self.progress.add_partial_pass((columns.stop - columns.start) / p)

    def can_quantize(self, affine: AffineMap) -> bool:
        """Whether A can be quantised block by block, into one copy in memory."""
        aligned = self.rows is None and self.block_rows % GROUP_SIZE == 0
        return aligned and affine.rank <= 1

    def quantize(self, affine: AffineMap, column_scales: Array) -> QuantizedMatrix:
        """Return A quantised to 16-bit integers; one pass. Products with it do not read X."""
        n, p = self.shape
        n_groups = -(-n // GROUP_SIZE)
        codes = np.empty((n_groups * GROUP_SIZE, p), np.int16)
        scales = np.empty((n_groups, p), np.float32)
        with closing(self.blocks()) as blocks:
            for rows, block in blocks:
                vectors = take_rows(affine, rows).as_vectors(block.shape)
                part = quantize(np.ascontiguousarray(block.array), vectors, column_scales)
                codes[rows.start : rows.start + len(part.codes)] = part.codes
                scales[rows.start // GROUP_SIZE :][: len(part.scales)] = part.scales
        return QuantizedMatrix(codes, scales, column_scales)

    def _read_blocks(self) -> Iterator[Array]:
        n, height = self.source.shape[0], self.block_rows
        row_range = slice(0, n) if self.rows is None else as_slice(self.rows)
        if row_range is not None:
            yield from self.source.blocks(row_range, height)
            return
        assert self.rows is not None
        first, last = int(self.rows[0]), int(self.rows[-1]) + 1
        if self.source.has_row_access and len(self.rows) < MAX_PICKED_FRACTION * (last - first):
            for first in range(0, len(self.rows), height):
                yield self.source.take(self.rows[first : first + height])
            return
        for block in self.source.blocks(slice(first, last), height):
            bounds = np.searchsorted(self.rows, [first, first + len(block)])
            yield block[self.rows[bounds[0] : bounds[1]] - first]
            first += len(block)


def _touch_pages(block: Array) -> int:
    """Read one number per memory page of a block and return the size of the block in bytes.

    A memory-mapped block is loaded from disk only when its pages are accessed.
    """
    np.add.reduce(block.ravel(order="K")[:: 4096 // block.itemsize], dtype=np.float64)
    return block.nbytes


def read_all(design: ChunkedStorage, tuning: Tuning = DEFAULT_TUNING) -> DenseStorage:
    """Read all rows into memory and return them as a DenseStorage; one pass."""
    array = np.empty(design.shape, design.dtype)
    with closing(design.blocks()) as blocks:
        for rows, block in blocks:
            array[rows] = block.array
    return DenseStorage(array, feature_names=design.feature_names, tuning=tuning)


def prefetch(items: Iterator[T]) -> Generator[T, None, None]:
    """Yield the items of an iterator; a thread computes the next one while the current one is used.

    Closing the generator ends the thread as soon as its current item is complete. So does the end
    of the program, if the generator was abandoned half-way. Once the main thread has ended there is
    no thread, because Python refuses to start one.
    """
    if not main_thread().is_alive():
        yield from items
        return
    ready: Queue[tuple[T | None, BaseException | None]] = Queue(maxsize=1)
    stop, main, consumer = Event(), main_thread(), current_thread()
    outlives_main = consumer is not main and not consumer.daemon

    def is_needed() -> bool:
        # After the main thread, a program goes on until its threads that are no daemons have ended.
        runs = main.is_alive() or (outlives_main and consumer.is_alive())
        return runs and not stop.is_set()

    def put(item: T | None, error: BaseException | None) -> None:
        while is_needed():
            try:
                ready.put((item, error), timeout=0.05)
            except Full:
                continue
            return

    def work() -> None:
        try:
            for item in items:
                put(item, None)
                if not is_needed():
                    return
            put(None, StopIteration())
        except BaseException as error:  # raised in the thread that consumes the items
            put(None, error)
        finally:
            if isinstance(items, Generator):
                items.close()  # releases the files and readers that it holds

    # Not a daemon: the interpreter waits for it at exit. A thread that was still reading while the
    # interpreter is torn down could crash the process.
    reader = Thread(target=work, name="ling-reader", daemon=False)
    try:
        reader.start()
        while True:
            item, error = _wait_for_item(ready, reader)
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item
    finally:
        stop.set()
        if reader.is_alive():  # not if a generator is closed at interpreter exit
            reader.join()


def _wait_for_item(ready: Queue[tuple[Any, BaseException | None]], reader: Thread) -> Any:
    """Return the next item; wait with a timeout in a loop, so that Ctrl-C is handled."""
    while True:
        try:
            return ready.get(timeout=0.5)
        except Empty:
            if not reader.is_alive() and ready.empty():
                raise RuntimeError("the reader of blocks has died") from None
