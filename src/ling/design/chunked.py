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

from ling.design.arrays import Array, consecutive
from ling.design.blocked import Blocked
from ling.design.dense import DenseDesign
from ling.design.maps import Affine
from ling.design.operations import Operation, Outcome, at, together
from ling.design.short import SHARED, ShortCopy, shortened
from ling.design.source import Source, unchanged
from ling.design.threads import quiet_blas
from ling.progress import current

MB = 2**20
# Bytes of a block: large enough that starting threads on it takes no time beside reading it.
LARGE, SMALL = 64 * MB, MB
# Blocks that may be there at once: worked on, waiting, being read, and one that is given back.
AT_ONCE = 4
# Share of the memory budget that is for blocks.
SHARE = 0.25
# Of so many rows less than this share is picked one by one; more are read with all others.
PICKED = 0.02
# What is read to measure how fast.
SAMPLE = 128 * MB
T = TypeVar("T")


class ChunkedDesign(Blocked):
    """A source of rows, read anew in every pass; `rows` are those of it that count.

    At any time at most `room` bytes of it are in memory.
    """

    def __init__(
        self, source: Source, rows: NDArray[np.intp] | None = None, room: float = AT_ONCE * LARGE
    ) -> None:
        n, p = source.shape
        self.source = source
        self.rows = rows
        self.room = room
        self.shape = (n if rows is None else len(rows), p)
        self.dtype = source.dtype
        self.names = source.names
        self.encoding = source.encoding
        self.notes = source.notes
        self.taken = room
        self.block_bytes = room / AT_ONCE
        self._rate: float | None = None

    def within(self, budget: float) -> ChunkedDesign:
        """The same, with blocks that fit into a share of the budget."""
        room = min(AT_ONCE * LARGE, max(AT_ONCE * SMALL, SHARE * budget))
        found = ChunkedDesign(self.source, self.rows, room)
        found._rate = self._rate  # of the source, and measured by reading
        return found

    @property
    def identity(self) -> str:
        """The source's."""
        return self.source.identity

    @property
    def picks(self) -> bool:
        """Whether the source can read single rows."""
        return self.source.picks

    @property
    def height(self) -> int:
        """Rows of a block."""
        n_bytes = self.source.shape[1] * self.dtype.itemsize
        rows = max(1, int(self.room / AT_ONCE) // max(1, n_bytes))
        return rows if rows < SHARED else rows // SHARED * SHARED

    @property
    def n_bytes(self) -> int:
        """Of all rows, as numbers."""
        return self.n_stored * self.dtype.itemsize

    @property
    def rate(self) -> float:  # type: ignore[override]
        """Bytes a second at which rows come, measured on the first of them, once."""
        if self._rate is None:
            count = max(1, SAMPLE // max(1, self.shape[1] * self.dtype.itemsize))
            some = slice(0, min(count, self.source.shape[0]))
            started = time.perf_counter()
            read = 0
            with unchanged(self.source.check_unchanged):
                for block in self.source.blocks(some, self.height):
                    read += _touched(block)
            self._rate = max(1.0, read / max(time.perf_counter() - started, 1e-9))
        return self._rate

    def subset(self, rows: NDArray[np.intp]) -> ChunkedDesign:
        """Some rows, in ascending order; read when they are needed."""
        if len(rows) > 1 and (np.diff(rows) < 0).any():
            raise AssertionError("rows of data that is read in order have to be in order")
        mine = rows if self.rows is None else self.rows[rows]
        return ChunkedDesign(self.source, mine, self.room)

    def run(self, operation: Operation) -> Outcome:
        """One block after the other, the next being read meanwhile."""
        # Threads of BLAS that spin after each call would take the reader's time.
        quiet = quiet_blas() if operation.is_sweep else nullcontext()
        # The blocks are closed here, and not when the last reference to them goes: the traceback of
        # an error, or of Ctrl-C, would keep their reader running for as long as it lives.
        with quiet, closing(self.blocks()) as blocks:
            return together(at(operation, rows)(block) for rows, block in blocks)

    def blocks(self) -> Generator[tuple[slice, DenseDesign], None, None]:
        """All rows in order, and what they are called here.

        Raises MissingData if a file of the source has changed since it was scanned.
        """
        start, run = 0, current()
        with unchanged(self.source.check_unchanged):
            for block in ahead(self._read()):
                if len(block):
                    yield slice(start, start + len(block)), DenseDesign(block, compiled=True)
                start += len(block)
                if run is not None and start < self.shape[0]:  # the last is heard of with the pass
                    run.add_part(len(block) / self.source.shape[0])

    def shortens(self, affine: Affine) -> bool:
        """Where blocks can be, into one copy in memory."""
        aligned = self.rows is None and self.height % SHARED == 0
        return aligned and affine.col_scale is None and affine.rank <= 1

    def shortened(self, affine: Affine, units: Array) -> ShortCopy:
        """A copy of X~ in 16-bit integers, one pass; further ones do not read X any more."""
        n, p = self.shape
        blocks = -(-n // SHARED)
        short = np.empty((blocks * SHARED, p), np.int16)
        steps = np.empty((blocks, p), np.float32)
        for rows, block in self.blocks():
            vectors = block.vectors(affine.subset(rows))
            part = shortened(np.ascontiguousarray(block.array), vectors, units)
            short[rows.start : rows.start + len(part.short)] = part.short
            steps[rows.start // SHARED :][: len(part.steps)] = part.steps
        return ShortCopy(short, steps, units)

    def _read(self) -> Iterator[Array]:
        n, height = self.source.shape[0], self.height
        run = slice(0, n) if self.rows is None else consecutive(self.rows)
        if run is not None:
            yield from self.source.blocks(run, height)
            return
        assert self.rows is not None
        first, last = int(self.rows[0]), int(self.rows[-1]) + 1
        if self.source.picks and len(self.rows) < PICKED * (last - first):
            for first in range(0, len(self.rows), height):
                yield self.source.take(self.rows[first : first + height])
            return
        for block in self.source.blocks(slice(first, last), height):
            here = np.searchsorted(self.rows, [first, first + len(block)])
            yield block[self.rows[here[0] : here[1]] - first]
            first += len(block)


def _touched(block: Array) -> int:
    """Bytes of a block, of which a number a page was looked at: it may be mapped, not read."""
    np.add.reduce(block.ravel(order="K")[:: 4096 // block.itemsize], dtype=np.float64)
    return block.nbytes


def in_memory(design: ChunkedDesign) -> DenseDesign:
    """All of it, read once."""
    whole = np.empty(design.shape, design.dtype)
    for rows, block in design.blocks():
        whole[rows] = block.array
    found = DenseDesign(whole)
    found.names, found.taken = design.names, float(whole.nbytes)
    found.notes = design.notes
    return found


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
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
            item, error = _next(ready, reader)
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


def _next(ready: Queue[tuple[Any, BaseException | None]], reader: Thread) -> Any:
    """Waits in steps, so that Ctrl-C is heard."""
    while True:
        try:
            return ready.get(timeout=0.5)
        except Empty:
            if not reader.is_alive() and ready.empty():
                raise RuntimeError("the reader of blocks has died") from None
