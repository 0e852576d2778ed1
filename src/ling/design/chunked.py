"""Data that is read a block of rows at a time, the next while this one is worked on."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator
from contextlib import closing, nullcontext
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.affine_map import AffineMap
from ling.design.arrays import as_slice
from ling.design.block_operations import BlockOperation, BlockResult, merge_results, slice_rows
from ling.design.blocked import BlockedStorage
from ling.design.dense import DenseStorage
from ling.design.quantized import GROUP_SIZE, QuantizedMatrix, quantize
from ling.design.row_source import RowSource, verify_unchanged
from ling.linalg.threads import single_threaded_blas
from ling.progress import current_fit

MIB = 2**20
# Bytes of a block: large enough that starting threads on it takes no time beside reading it.
MAX_BLOCK_BYTES, MIN_BLOCK_BYTES = 64 * MIB, MIB
# Blocks that may be there at once: worked on, waiting, being read, and one that is given back.
MAX_RESIDENT_BLOCKS = 4
# Share of the memory budget that is for blocks.
BLOCK_BUDGET_FRACTION = 0.25
# Of so many rows less than this share is picked one by one; more are read with all others.
MAX_PICKED_FRACTION = 0.02
# What is read to measure how fast.
BANDWIDTH_SAMPLE_BYTES = 128 * MIB
T = TypeVar("T")


class ChunkedStorage(BlockedStorage):
    """A source of rows, read anew in every pass; `rows` are those of it that count.

    At any time at most `max_resident_bytes` bytes of it are in memory.
    """

    def __init__(
        self,
        source: RowSource,
        rows: NDArray[np.intp] | None = None,
        max_resident_bytes: float = MAX_RESIDENT_BLOCKS * MAX_BLOCK_BYTES,
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
        self.resident_bytes = max_resident_bytes
        self.block_bytes = max_resident_bytes / MAX_RESIDENT_BLOCKS
        self._read_bandwidth: float | None = None

    def with_memory_budget(self, budget: float) -> ChunkedStorage:
        """The same, with blocks that fit into a share of the budget."""
        max_resident_bytes = min(
            MAX_RESIDENT_BLOCKS * MAX_BLOCK_BYTES,
            max(MAX_RESIDENT_BLOCKS * MIN_BLOCK_BYTES, BLOCK_BUDGET_FRACTION * budget),
        )
        found = ChunkedStorage(self.source, self.rows, max_resident_bytes)
        found._read_bandwidth = self._read_bandwidth  # of the source, and measured by reading
        return found

    @property
    def fingerprint(self) -> str:
        """The source's."""
        return self.source.fingerprint

    @property
    def has_row_access(self) -> bool:
        """Whether the source can read single rows."""
        return self.source.has_row_access

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        n_bytes = self.source.shape[1] * self.dtype.itemsize
        rows = max(1, int(self.max_resident_bytes / MAX_RESIDENT_BLOCKS) // max(1, n_bytes))
        return rows if rows < GROUP_SIZE else rows // GROUP_SIZE * GROUP_SIZE

    @property
    def n_bytes(self) -> int:
        """Of all rows, as numbers."""
        return self.n_stored * self.dtype.itemsize

    @property
    def read_bandwidth(self) -> float:  # type: ignore[override]
        """Bytes a second at which rows come, measured on the first of them, once."""
        if self._read_bandwidth is None:
            count = max(1, BANDWIDTH_SAMPLE_BYTES // max(1, self.shape[1] * self.dtype.itemsize))
            some = slice(0, min(count, self.source.shape[0]))
            started = time.perf_counter()
            read = 0
            with verify_unchanged(self.source.check_unchanged):
                for block in self.source.blocks(some, self.block_rows):
                    read += _touch_pages(block)
            self._read_bandwidth = max(1.0, read / max(time.perf_counter() - started, 1e-9))
        return self._read_bandwidth

    def subset(self, rows: NDArray[np.intp]) -> ChunkedStorage:
        """Some rows, in ascending order; read when they are needed."""
        if len(rows) > 1 and (np.diff(rows) < 0).any():
            raise AssertionError("rows of data that is read in order have to be in order")
        mine = rows if self.rows is None else self.rows[rows]
        return ChunkedStorage(self.source, mine, self.max_resident_bytes)

    def run(self, operation: BlockOperation) -> BlockResult:
        """One block after the other, the next being read meanwhile."""
        # Threads of BLAS that spin after each call would take the reader's time.
        quiet = single_threaded_blas() if operation.is_memory_bound else nullcontext()
        # The blocks are closed here, and not when the last reference to them goes: the traceback of
        # an error, or of Ctrl-C, would keep their reader running for as long as it lives.
        with quiet, closing(self.blocks()) as blocks:
            return merge_results(slice_rows(operation, rows)(block) for rows, block in blocks)

    def blocks(self) -> Generator[tuple[slice, DenseStorage], None, None]:
        """All rows in order, and what they are called here.

        Raises MissingData if a file of the source has changed since it was scanned.
        """
        start, run = 0, current_fit()
        with verify_unchanged(self.source.check_unchanged):
            for block in prefetch(self._read_blocks()):
                if len(block):
                    yield slice(start, start + len(block)), DenseStorage(block, compiled=True)
                start += len(block)
                if run is not None and start < self.shape[0]:  # the last is heard of with the pass
                    run.add_partial_pass(len(block) / self.source.shape[0])

    def can_quantize(self, affine: AffineMap) -> bool:
        """Where blocks can be, into one copy in memory."""
        aligned = self.rows is None and self.block_rows % GROUP_SIZE == 0
        return aligned and affine.col_scale is None and affine.rank <= 1

    def quantize(self, affine: AffineMap, column_scales: Array) -> QuantizedMatrix:
        """A copy of X~ in 16-bit integers, one pass; further ones do not read X any more."""
        n, p = self.shape
        blocks = -(-n // GROUP_SIZE)
        short = np.empty((blocks * GROUP_SIZE, p), np.int16)
        scales = np.empty((blocks, p), np.float32)
        for rows, block in self.blocks():
            vectors = block.map_vectors(affine.subset(rows))
            part = quantize(np.ascontiguousarray(block.array), vectors, column_scales)
            short[rows.start : rows.start + len(part.codes)] = part.codes
            scales[rows.start // GROUP_SIZE :][: len(part.scales)] = part.scales
        return QuantizedMatrix(short, scales, column_scales)

    def _read_blocks(self) -> Iterator[Array]:
        n, height = self.source.shape[0], self.block_rows
        run = slice(0, n) if self.rows is None else as_slice(self.rows)
        if run is not None:
            yield from self.source.blocks(run, height)
            return
        assert self.rows is not None
        first, last = int(self.rows[0]), int(self.rows[-1]) + 1
        if self.source.has_row_access and len(self.rows) < MAX_PICKED_FRACTION * (last - first):
            for first in range(0, len(self.rows), height):
                yield self.source.take(self.rows[first : first + height])
            return
        for block in self.source.blocks(slice(first, last), height):
            here = np.searchsorted(self.rows, [first, first + len(block)])
            yield block[self.rows[here[0] : here[1]] - first]
            first += len(block)


def _touch_pages(block: Array) -> int:
    """Bytes of a block, of which a number a page was looked at: it may be mapped, not read."""
    np.add.reduce(block.ravel(order="K")[:: 4096 // block.itemsize], dtype=np.float64)
    return block.nbytes


def read_all(design: ChunkedStorage) -> DenseStorage:
    """All of it, read once."""
    whole = np.empty(design.shape, design.dtype)
    for rows, block in design.blocks():
        whole[rows] = block.array
    found = DenseStorage(whole)
    found.feature_names, found.resident_bytes = design.feature_names, float(whole.nbytes)
    found.notes = design.notes
    return found


def prefetch(items: Iterator[T]) -> Generator[T, None, None]:
    """The same items, each made by another thread while the one before is used.

    Closing it ends the thread, once the item that it is making is there.
    """
    ready: Queue[tuple[T | None, BaseException | None]] = Queue(maxsize=1)
    stop = Event()

    def put(item: T | None, error: BaseException | None) -> None:
        while not stop.is_set():
            try:
                ready.put((item, error), timeout=0.05)
            except Full:
                continue
            return

    def work() -> None:
        try:
            for item in items:
                put(item, None)
                if stop.is_set():
                    return
            put(None, StopIteration())
        except BaseException as error:  # handed on, and raised where the items are used
            put(None, error)
        finally:
            if isinstance(items, Generator):
                items.close()  # files and readers of its own

    reader = Thread(target=work, name="ling-reader", daemon=True)
    # Looked up now: when the interpreter ends, modules are emptied before generators are closed.
    is_finalizing = sys.is_finalizing
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
        # An iterator that was dropped half-way may be closed only when the interpreter ends. Daemon
        # threads do not run any more by then, and from Python 3.13 on join would wait forever.
        if not is_finalizing() and reader.is_alive():
            reader.join()


def _wait_for_item(ready: Queue[tuple[Any, BaseException | None]], reader: Thread) -> Any:
    """Waits in steps, so that Ctrl-C is heard."""
    while True:
        try:
            return ready.get(timeout=0.5)
        except Empty:
            if not reader.is_alive() and ready.empty():
                raise RuntimeError("the reader of blocks has died") from None
