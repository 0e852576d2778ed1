"""Dask arrays: blocks of rows stay on the workers of a cluster, and what is done goes to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling.design.arrays import Array, float_dtype
from ling.design.blocked import Blocked
from ling.design.chunked import ahead
from ling.design.dask.block_shapes import with_checked_shapes
from ling.design.dask.cluster import Cluster
from ling.design.dask.faults import Theirs, needed, telling
from ling.design.dask.parts import Layout, Work, merged, worked
from ling.design.dask.tasks import is_there, persisted, shapes
from ling.design.operations import Operation, Outcome
from ling.errors import BadOption, WrongShape, WrongType

MB = 2**20
# More chunks than this, smaller than that, are put together to some of this size: each takes time.
MANY, SMALL, JOINED = 1000, MB, 16 * MB


class DaskDesign(Blocked):
    """The rows of a dask array, in the blocks in which they lie.

    Blocks are made once, from the array's own graph, and stay on the workers; what is done goes to
    them, and only sums and what has a row for each of X's come back. A block that is lost with its
    worker is made again. Without a distributed Client, blocks are made anew in every pass, one
    after the other, in this process.
    """

    def __init__(
        self, blocks: Cluster | Local, layout: Layout, p: int, dtype: np.dtype[Any],
        notes: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.blocks = blocks
        self.layout = layout
        self.shape = (layout.parts[-1].stop if layout.parts else 0, p)
        self.dtype = dtype
        self.notes = notes

    @classmethod
    def of(cls, X: Any) -> DaskDesign:
        """X, on the cluster of the current Client or, if there is none, here."""
        dtype = _checked(X)
        client = _client(X)
        theirs = client is not None and is_there(X)
        X, notes = _whole_rows(*_known(client, X))
        X, joined = _joined(X)
        heights, p = X.chunks[0], int(X.shape[1])
        blocks: Cluster | Local = Local(X)
        if client is not None:
            spread = not (theirs and is_there(X))
            X = persisted(client, _in_order(X))
            blocks = Cluster(client, X, heights, p * X.dtype.itemsize, spread)
        return cls(blocks, Layout.whole(heights, p), p, dtype, notes + joined)

    @property
    def picks(self) -> bool:
        """Only the rows that are wanted travel."""
        return True

    @property
    def height(self) -> int:
        """Rows of the largest block."""
        return max((part.stop - part.start for part in self.layout.parts), default=0)

    @property
    def n_workers(self) -> int:
        """Workers of the cluster; 1 for this process."""
        return self.blocks.n_workers

    def run(self, operation: Operation) -> Outcome:
        """On every block where it lies, one pass."""
        return self.blocks.run(operation, self.layout, self.shape[1])

    def subset(self, rows: NDArray[np.intp]) -> DaskDesign:
        """Some rows, in ascending order, where they lie; blocks without any are left alone."""
        if len(rows) > 1 and (np.diff(rows) < 0).any():
            raise AssertionError("rows of data that lies in blocks have to be in order")
        p = self.shape[1]
        return DaskDesign(self.blocks, self.layout.subset(rows), p, self.dtype, self.notes)

    def __repr__(self) -> str:
        n, p = self.shape
        count = len(self.layout.parts)
        return f"DaskDesign({n} x {p}, {self.dtype}, {count} blocks of up to {self.height} rows)"


class Local:
    """Blocks that are made in this process, by one of dask's own schedulers, in every pass."""

    n_workers = 1

    def __init__(self, X: Any) -> None:
        self.X = X
        self.recipes: dict[int, Any] = {}

    @cached_property
    def scheduler(self) -> Any:
        """Threads, unless dask is told otherwise."""
        return needed("dask").config.get("scheduler", None) or "threads"

    def run(self, operation: Operation, layout: Layout, p: int) -> Outcome:
        """One block after the other, the next being made meanwhile."""
        count = len(layout.parts)
        if not count:
            return Outcome()
        arrays = layout.per_row(operation)
        cut = ({name: a[part.start : part.stop] for name, a in arrays.items()}
               for part in layout.parts)  # fmt: skip
        work = Work(None, layout.parts, tuple(range(count)), count)
        made = self.made(part.block for part in layout.parts)
        with telling(str), closing(ahead(made)) as blocks:
            (outcome,) = merged(count, worked(operation, work, blocks, cut)).values()
        return outcome

    def made(self, numbers: Iterator[int]) -> Iterator[Array]:
        """Those blocks."""
        for number in numbers:
            if number not in self.recipes:
                (self.recipes[number],) = needed("dask").optimize(self.X.blocks[number])
            yield self._computed(self.recipes[number])

    def _computed(self, recipe: Any) -> Array:
        try:
            return np.asarray(recipe.compute(scheduler=self.scheduler))
        except Exception as error:
            raise Theirs(error) from error


def _checked(X: Any) -> np.dtype[Any]:
    """The dtype that X counts as."""
    if X.ndim != 2:
        raise WrongShape(
            f"X has shape {X.shape}; pass two dimensions, (n_samples, n_features): "
            "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one sample."
        )
    meta = type(X._meta)
    if meta is not np.ndarray:
        raise WrongType(
            f"X has chunks of type {meta.__module__}.{meta.__name__}; pass a dask array of NumPy "
            "arrays, as by X.map_blocks(lambda chunk: chunk.toarray()) from sparse ones, or a "
            "sparse matrix of SciPy."
        )
    return float_dtype(X.dtype)


def _client(X: Any) -> Any:
    """The distributed Client to use, if there is one: the one that holds X, or the current one."""
    try:
        distributed = needed("distributed")
    except ImportError:
        return None
    try:
        distributed.get_worker()
    except ValueError:
        pass
    else:
        raise BadOption(
            "X is a dask array, and this runs in a task on a worker, which would have to wait for "
            "other tasks; fit where the Client is, or pass X.compute()."
        )
    futures = distributed.futures_of(X)
    scheduler = needed("dask.base").get_scheduler()
    client = futures[0].client if futures else getattr(scheduler, "__self__", None)
    if not isinstance(client, distributed.Client):
        return None
    if client.asynchronous:
        raise BadOption("the Client is asynchronous; pass X with a Client(asynchronous=False).")
    return client


def _known(client: Any, X: Any) -> tuple[Any, tuple[str, ...]]:
    """X with chunks whose sizes are known; the user's array is left as it is."""
    if not any(isnan(size) for sizes in X.chunks for size in sizes):
        return X, ()
    note = ("The sizes of X's chunks were not known, and were found by making all of them.",)
    array, declared = needed("dask.array").Array, X.chunks
    if client is None:
        X = array(X.dask, X.name, X.chunks, meta=X._meta)
        found = X.compute_chunk_sizes().chunks
    else:
        # On the workers before they are counted, so that they are made only once.
        X = persisted(client, _in_order(X))
        grid = shapes(client, X)
        found = grid[:, 0, 0].tolist(), grid[0, :, 1].tolist()
    # Sizes that X declares stay, and are compared with those of the chunks in every pass.
    sizes = tuple(
        tuple(b if isnan(a) else a for a, b in zip(*axis, strict=True))
        for axis in zip(declared, found, strict=True)
    )
    return array(X.dask, X.name, sizes, meta=X._meta), note


def _whole_rows(X: Any, notes: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    """X with all columns in each chunk."""
    pieces = X.numblocks[1]
    if pieces <= 1:
        return X, notes
    note = (
        f"X had its columns in {pieces} chunks, which were put together, a copy; pass "
        "X.rechunk({1: -1}).persist() to do that once for several fits."
    )
    # Chunks are compared with what X declares before they are cut: afterwards nothing would tell.
    return with_checked_shapes(X, "X").rechunk({1: -1}), (*notes, note)


def _joined(X: Any) -> tuple[Any, tuple[str, ...]]:
    """X with consecutive chunks put together where there are very many small ones."""
    heights = X.chunks[0]
    row = max(1, X.shape[1] * X.dtype.itemsize)
    if len(heights) <= MANY or sum(heights) * row > SMALL * len(heights):
        return X, ()
    found = tuple(_sums(heights, JOINED // row))
    note = (
        f"X had {len(heights)} chunks of less than 1 MB on average, which were put together to "
        f"{len(found)}; larger chunks (X.rechunk) save that."
    )
    return with_checked_shapes(X, "X").rechunk((found, X.chunks[1])), (note,)


def _sums(heights: Sequence[int], most: int) -> Iterator[int]:
    """Sums of consecutive ones, of about `most`."""
    total = 0
    for height in heights:
        total += height
        if total >= most:
            yield total
            total = 0
    if total:
        yield total


def _in_order(X: Any) -> Any:
    """X with chunks in C order, for the compiled loops; what is there already is not copied."""
    if is_there(X):
        return X
    return X.map_blocks(_tidy, dtype=X.dtype, meta=X._meta)


def _tidy(chunk: Any) -> Any:
    return np.require(chunk, requirements=["C", "A"]) if isinstance(chunk, np.ndarray) else chunk
