"""Storage for Dask arrays: blocks of rows stay on the workers, and operations are sent to them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.arrays import dimensions_error, float_dtype
from ling.design.blocked import BlockCall, BlockedStorage, BlockResult
from ling.design.chunked import prefetch
from ling.design.dask.block_shapes import with_checked_shapes
from ling.design.dask.cluster import ClusterBlocks
from ling.design.dask.failures import UserGraphError, import_optional, translate_errors
from ling.design.dask.partition import BlockTask, RowLayout, merge_nodes, run_parts
from ling.design.dask.task_graph import fetch_block_shapes, is_persisted, persist
from ling.errors import InputTypeError, OptionError

MIB = 2**20
# If X has more than MAX_SMALL_CHUNKS chunks, of SMALL_CHUNK_BYTES or less on average, consecutive
# chunks are joined to about JOINED_CHUNK_BYTES, because each chunk has an overhead.
MAX_SMALL_CHUNKS, SMALL_CHUNK_BYTES, JOINED_CHUNK_BYTES = 1000, MIB, 16 * MIB


class DaskStorage(BlockedStorage):
    """The rows of a Dask array, in the blocks in which they are stored.

    Blocks are computed once, from the array's own graph, and stay on the workers. Operations are
    sent to them, and only sums and per-row results come back. A block that is lost with its worker
    is computed again. Without a distributed Client, blocks are computed again in every pass, one
    after the other, in this process.
    """

    def __init__(
        self, blocks: ClusterBlocks | LocalBlocks, layout: RowLayout, p: int, dtype: np.dtype[Any],
        notes: tuple[str, ...] = (), feature_names: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        self.blocks = blocks
        self.layout = layout
        self.shape = (layout.parts[-1].stop if layout.parts else 0, p)
        self.dtype = dtype
        self.notes = notes
        self.feature_names = feature_names

    @classmethod
    def from_array(cls, X: Any, feature_names: tuple[str, ...] | None = None) -> DaskStorage:
        """Return the storage of X on the cluster of the Client or, without one, in this process."""
        dtype = _check_array(X)
        client = _find_client(X)
        persisted_by_user = client is not None and is_persisted(X)
        X, notes = _join_column_chunks(*_with_known_chunks(client, X))
        X, joined = _join_small_chunks(X)
        heights, p = X.chunks[0], int(X.shape[1])
        blocks: ClusterBlocks | LocalBlocks = LocalBlocks(X)
        if client is not None:
            placed_by_us = not (persisted_by_user and is_persisted(X))
            X = persist(client, _with_c_order(X))
            blocks = ClusterBlocks(client, X, heights, p * X.dtype.itemsize, placed_by_us)
        layout = RowLayout.from_heights(heights, p)
        return cls(blocks, layout, p, dtype, notes + joined, feature_names)

    @property
    def has_row_access(self) -> bool:
        """True: only the selected rows are transferred."""
        return True

    @property
    def block_rows(self) -> int:
        """Number of rows of the largest block."""
        return max((part.stop - part.start for part in self.layout.parts), default=0)

    @property
    def n_workers(self) -> int:
        """Number of workers of the cluster; 1 without a cluster."""
        return self.blocks.n_workers

    def run(self, call: BlockCall) -> BlockResult:
        """Run the call on every block, where the block is stored; one pass."""
        return self.blocks.run(call, self.layout)

    def subset(self, rows: NDArray[np.intp]) -> DaskStorage:
        """Return the storage of the given rows, in ascending order; no data is moved.

        Blocks without selected rows are not used.
        """
        if len(rows) > 1 and (np.diff(rows) < 0).any():
            raise AssertionError("rows of data that lies in blocks have to be in order")
        p = self.shape[1]
        layout = self.layout.subset(rows)
        return DaskStorage(self.blocks, layout, p, self.dtype, self.notes, self.feature_names)

    def __repr__(self) -> str:
        n, p = self.shape
        count = len(self.layout.parts)
        return (
            f"DaskStorage({n} x {p}, {self.dtype}, {count} blocks of up to {self.block_rows} rows)"
        )


class LocalBlocks:
    """Blocks that one of Dask's local schedulers computes in this process, again in every pass."""

    n_workers = 1

    def __init__(self, X: Any) -> None:
        self.X = X
        self.lazy_blocks: dict[int, Any] = {}

    @cached_property
    def scheduler(self) -> Any:
        """The scheduler set in Dask's configuration; threads by default."""
        return import_optional("dask").config.get("scheduler", None) or "threads"

    def run(self, call: BlockCall, layout: RowLayout) -> BlockResult:
        """Run the call on all blocks in turn and return the merged result.

        While the call runs on one block, the next one is computed.
        """
        count = len(layout.parts)
        arrays = layout.row_arrays(call)
        part_arrays = ({name: a[part.start : part.stop] for name, a in arrays.items()}
               for part in layout.parts)  # fmt: skip
        task = BlockTask(None, layout.parts, tuple(range(count)), count)
        computed = self.compute_blocks(part.block for part in layout.parts)
        with translate_errors(str), closing(prefetch(computed)) as blocks:
            (outcome,) = merge_nodes(count, run_parts(call, task, blocks, part_arrays)).values()
        return outcome

    def compute_blocks(self, numbers: Iterator[int]) -> Iterator[Array]:
        """Yield the computed blocks with the given numbers."""
        for number in numbers:
            if number not in self.lazy_blocks:
                (self.lazy_blocks[number],) = import_optional("dask").optimize(
                    self.X.blocks[number]
                )
            yield self._compute_block(self.lazy_blocks[number])

    def _compute_block(self, recipe: Any) -> Array:
        """Return the computed lazy block; errors of the user's graph become UserGraphError."""
        try:
            return np.asarray(recipe.compute(scheduler=self.scheduler))
        except Exception as error:
            raise UserGraphError(error) from error


def _check_array(X: Any) -> np.dtype[Any]:
    """Check dimensions and chunk type of X; return the float dtype in which X is used."""
    if X.ndim != 2:
        raise dimensions_error(X.shape)
    meta = type(X._meta)
    if meta is not np.ndarray:
        raise InputTypeError(
            "X",
            f"has chunks of type {meta.__module__}.{meta.__name__}",
            "pass a dask array of NumPy arrays, such as "
            "X.map_blocks(lambda chunk: chunk.toarray()) if the chunks are sparse",
            "pass a sparse matrix of SciPy",
        )
    return float_dtype(X.dtype)


def _find_client(X: Any) -> Any:
    """Return the distributed Client that holds X, or the current one, or None."""
    try:
        distributed = import_optional("distributed")
    except ImportError:
        return None
    try:
        distributed.get_worker()
    except ValueError:
        pass
    else:
        raise OptionError(
            "X",
            "is a dask array, and this is a task on a worker, which cannot wait for other tasks",
            "fit or predict in the process of the Client",
            "pass X.compute()",
        )
    futures = distributed.futures_of(X)
    scheduler = import_optional("dask.base").get_scheduler()
    client = futures[0].client if futures else getattr(scheduler, "__self__", None)
    if not isinstance(client, distributed.Client):
        return None
    if client.asynchronous:
        raise OptionError(
            "X", "belongs to an asynchronous Client", "connect a Client(asynchronous=False)"
        )
    return client


def _with_known_chunks(client: Any, X: Any) -> tuple[Any, tuple[str, ...]]:
    """Return X with known chunk sizes, and notes; the user's array is not modified."""
    if not any(isnan(size) for sizes in X.chunks for size in sizes):
        return X, ()
    note = ("The sizes of X's chunks were not known, and were found by making all of them.",)
    array, declared = import_optional("dask.array").Array, X.chunks
    if client is None:
        X = array(X.dask, X.name, X.chunks, meta=X._meta)
        actual = X.compute_chunk_sizes().chunks
    else:
        # Persisted before the sizes are fetched, so that chunks are computed only once.
        X = persist(client, _with_c_order(X))
        grid = fetch_block_shapes(client, X)
        actual = grid[:, 0, 0].tolist(), grid[0, :, 1].tolist()
    # Sizes that X declares are kept, and are compared with those of the chunks in every pass.
    sizes = tuple(
        tuple(b if isnan(a) else a for a, b in zip(*axis, strict=True))
        for axis in zip(declared, actual, strict=True)
    )
    return array(X.dask, X.name, sizes, meta=X._meta), note


def _join_column_chunks(X: Any, notes: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    """Return X with all columns in each chunk, and notes."""
    n_column_chunks = X.numblocks[1]
    if n_column_chunks <= 1:
        return X, notes
    note = (
        f"X had its columns in {n_column_chunks} chunks, which were put together, a copy; pass "
        "X.rechunk({1: -1}).persist() to do that once for several fits."
    )
    # Shapes are checked before chunks are split: a mismatch could not be detected afterwards.
    return with_checked_shapes(X, "X").rechunk({1: -1}), (*notes, note)


def _join_small_chunks(
    X: Any, max_small_chunks: int = MAX_SMALL_CHUNKS, joined_bytes: int = JOINED_CHUNK_BYTES
) -> tuple[Any, tuple[str, ...]]:
    """Return X with consecutive chunks joined if it has very many small ones, and notes."""
    heights = X.chunks[0]
    row_bytes = max(1, X.shape[1] * X.dtype.itemsize)
    if len(heights) <= max_small_chunks or (
        sum(heights) * row_bytes > SMALL_CHUNK_BYTES * len(heights)
    ):
        return X, ()
    joined_heights = tuple(_joined_heights(heights, joined_bytes // row_bytes))
    note = (
        f"X had {len(heights)} chunks of less than 1 MB on average, which were put together to "
        f"{len(joined_heights)}; larger chunks (X.rechunk) save that."
    )
    return with_checked_shapes(X, "X").rechunk((joined_heights, X.chunks[1])), (note,)


def _joined_heights(heights: Sequence[int], most: int) -> Iterator[int]:
    """Yield sums of consecutive heights; a sum ends as soon as it is at least `most`."""
    total = 0
    for height in heights:
        total += height
        if total >= most:
            yield total
            total = 0
    if total:
        yield total


def _with_c_order(X: Any) -> Any:
    """Return X with chunks in C order, for the compiled loops; a persisted X is not copied."""
    if is_persisted(X):
        return X
    return X.map_blocks(_as_c_order, dtype=X.dtype, meta=X._meta)


def _as_c_order(chunk: Any) -> Any:
    """Return the chunk in C order and aligned, copied if necessary; any other type unchanged."""
    return np.require(chunk, requirements=["C", "A"]) if isinstance(chunk, np.ndarray) else chunk
