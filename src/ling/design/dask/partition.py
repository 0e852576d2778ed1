"""The partition of rows into one part per block, and reproducible sums over parts.

Parts are added up in a tree whose nodes are groups of consecutive parts. A sum is formed by the
first process that holds all members of a group, a worker or the client. The order of summation
does not depend on where the blocks are, so sums are bitwise reproducible.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import groupby, pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.arrays import as_slice
from ling.design.blocked import BlockCall, BlockResult, merge_results
from ling.design.dask.block_shapes import check_block_shape
from ling.design.dense import DenseStorage
from ling.design.rows import row_arrays, take_rows, with_row_arrays
from ling.errors import InputTypeError

#: Number of parts, or of sums of parts, in a group of the reduction tree.
SPLIT_EVERY = 8
#: Name of the row array that holds the indices of selected rows in their blocks.
ROW_INDICES_NAME = "places"
#: Methods of DenseStorage that run in compiled loops, which are as fast on unaligned data.
COMPILED_METHODS = (
    "gram_matmat", "gram_matmat_with_rows", "gram_matmat_with_squares", "moments",
)  # fmt: skip
#: Results by (level, number) of their node in the tree; level 0 holds single parts.
ReductionNodes: TypeAlias = dict[tuple[int, int], BlockResult]


class WorkerMemoryError(MemoryError):
    """A worker ran out of memory; args: first row, end row, bytes of the chunk, limit in bytes."""


@dataclass(frozen=True)
class BlockSlice:
    """A part: the rows `start` to `stop` of a design, which are in block number `block`.

    `block_offset` is the index of the first of these rows in the block, or None if they are not
    contiguous there. `declared_shape` is the shape that X declares for the whole block.
    """

    block: int
    start: int
    stop: int
    block_offset: int | None
    declared_shape: tuple[int, int]


@dataclass(frozen=True, eq=False)
class RowLayout:
    """The location of the rows of a design in blocks.

    `row_indices` are the indices of all rows in their blocks; None if each part is contiguous.
    """

    parts: tuple[BlockSlice, ...]
    row_indices: NDArray[np.intp] | None = None

    @classmethod
    def from_heights(cls, heights: Sequence[int], p: int) -> RowLayout:
        """Return the layout of all rows of blocks with these heights and p columns."""
        ends = np.cumsum([0, *heights]).tolist()
        pairs = enumerate(pairwise(ends))
        return cls(tuple(BlockSlice(i, a, b, 0, (b - a, p)) for i, (a, b) in pairs if a < b))

    def subset(self, rows: NDArray[np.intp]) -> RowLayout:
        """Return the layout of the given rows, which are in ascending order."""
        ends = np.searchsorted(rows, [part.stop for part in self.parts]).tolist()
        parts, pieces, start = [], [], 0
        for part, stop in zip(self.parts, ends, strict=True):
            if start < stop:
                indices = self._indices_in_block(part)[rows[start:stop] - part.start]
                index_slice = as_slice(indices)
                first = None if index_slice is None else index_slice.start
                parts.append(BlockSlice(part.block, start, stop, first, part.declared_shape))
                pieces.append(indices)
            start = stop
        scattered = any(part.block_offset is None for part in parts)
        return RowLayout(tuple(parts), np.concatenate(pieces) if scattered else None)

    def _indices_in_block(self, part: BlockSlice) -> NDArray[np.intp]:
        """Return the indices of the rows of a part in its block, (part.stop - part.start,)."""
        if part.block_offset is None:
            assert self.row_indices is not None
            return self.row_indices[part.start : part.stop]
        return np.arange(part.block_offset, part.block_offset + part.stop - part.start)

    def row_arrays(self, call: BlockCall) -> dict[str, np.ndarray[Any, Any]]:
        """Return all arrays that are split like the rows: the call's and `row_indices`."""
        own = {} if self.row_indices is None else {ROW_INDICES_NAME: self.row_indices}
        return {**row_arrays(call), **own}


@dataclass(frozen=True, eq=False)
class BlockTask:
    """The task that runs a BlockCall on some parts of a layout.

    `numbers` are the numbers of these parts, and `count` is the number of all parts. `call` is the
    result of `serialize`, or None if it is passed to the task. Per-row arrays are passed to the
    task too: `array_names` are their names, and the rows of these parts begin at row `offset`.
    `constants` are arrays with a single row, which applies to all rows.
    """

    call: bytes | None
    parts: tuple[BlockSlice, ...]
    numbers: tuple[int, ...]
    count: int
    offset: int = 0
    array_names: tuple[str, ...] = ()
    constants: dict[str, Array] = field(default_factory=dict)

    def __call__(self, *given: Any) -> ReductionNodes:
        """Run the task; `given` holds the call, unless stored here, the blocks and the arrays."""
        call = self.call
        if call is None:
            call, *given = given  # type: ignore[assignment]
        blocks, arrays = given[: len(self.parts)], given[len(self.parts) :]
        return run_parts(pickle.loads(call), self, blocks, self._slice_arrays(arrays))

    def _slice_arrays(self, arrays: Sequence[Array]) -> Iterator[dict[str, Array]]:
        """Yield the per-row arrays of each part, by name."""
        start = self.offset
        for part in self.parts:
            size = part.stop - part.start
            part_arrays = {
                name: a[start : start + size]
                for name, a in zip(self.array_names, arrays, strict=True)
            }
            for name, row in self.constants.items():
                part_arrays[name] = np.broadcast_to(row, (size, *row.shape[1:]))
            yield part_arrays
            start += size


def serialize(call: BlockCall) -> bytes:
    """Return the pickled call, including its arrays.

    Arrays are not sent as separate frames of distributed's messages, because they may be unaligned
    there. Products of unaligned arrays are slow, and differ in the last bits.
    """
    try:
        return pickle.dumps(call, protocol=5)
    except (AttributeError, TypeError, pickle.PicklingError):
        # Functions that are defined inside another function need cloudpickle.
        return bytes(import_module("cloudpickle").dumps(call, protocol=5))


def ensure_aligned(value: Any) -> Any:
    """Return an array with aligned data, copied if necessary; any other value unchanged."""
    return np.require(value, requirements="A") if isinstance(value, np.ndarray) else value


def without_row_arrays(call: BlockCall) -> BlockCall:
    """Return the call with empty row arrays."""
    return take_rows(call, slice(0, 0))


def run_parts(
    call: BlockCall,
    work: BlockTask,
    blocks: Iterable[Any],
    arrays: Iterable[dict[str, Array]],
) -> ReductionNodes:
    """Run the call on all parts of a task, one at a time, and add up complete groups.

    `blocks` and `arrays` hold the block and the per-row arrays of each part.
    """
    n_in_group = Counter(number // SPLIT_EVERY for number in work.numbers)
    items = zip(work.numbers, work.parts, blocks, arrays, strict=True)
    results = ((number, _run_part(call, part, block, rows)) for number, part, block, rows in items)
    nodes: ReductionNodes = {}
    for group, members in groupby(results, key=lambda item: item[0] // SPLIT_EVERY):
        if n_in_group[group] == min(SPLIT_EVERY, work.count - group * SPLIT_EVERY):
            nodes[1, group] = merge_results(outcome for _, outcome in members)
        else:
            nodes.update(((0, number), outcome) for number, outcome in members)
        nodes = merge_nodes(work.count, nodes)
    return nodes


def merge_nodes(count: int, *several: ReductionNodes) -> ReductionNodes:
    """Merge nodes of the reduction tree and add up complete groups; there are `count` parts."""
    merged = {node: outcome for nodes in several for node, outcome in nodes.items()}
    level = 0
    while count > 1:
        for group in sorted({number // SPLIT_EVERY for at, number in merged if at == level}):
            members = [
                (level, i)
                for i in range(group * SPLIT_EVERY, min((group + 1) * SPLIT_EVERY, count))
            ]
            if all(member in merged for member in members):
                merged[level + 1, group] = _sum_results([merged.pop(member) for member in members])
        level, count = level + 1, -(-count // SPLIT_EVERY)
    return merged


def _sum_results(outcomes: Sequence[BlockResult]) -> BlockResult:
    """Return the merged results without changing the inputs, which a worker may need again."""
    first = BlockResult(tuple(a.copy() for a in outcomes[0].reduced), outcomes[0].per_row)
    return merge_results([first, *outcomes[1:]])


def _run_part(
    call: BlockCall, part: BlockSlice, block: Any, arrays: dict[str, Array]
) -> BlockResult:
    """Run the call on the rows of one part; `arrays` are its per-row arrays."""
    if not isinstance(block, np.ndarray) or block.ndim != 2:
        raise InputTypeError(
            "X",
            f"has a chunk of type {type(block).__name__} for rows {part.start} to {part.stop}",
            "pass chunks that are NumPy arrays with two dimensions",
        )
    check_block_shape("X", (part.block, 0), block.shape, part.declared_shape)
    row_indices = arrays.pop(ROW_INDICES_NAME, None)
    try:
        rows = _select_rows(part, block, row_indices)
        rows = rows if call.method in COMPILED_METHODS else ensure_aligned(rows)
        return with_row_arrays(call, arrays)(DenseStorage(rows, compiled=True))
    except MemoryError as error:
        raise WorkerMemoryError(part.start, part.stop, block.nbytes, memory_limit()) from error


def _select_rows(
    part: BlockSlice, block: np.ndarray[Any, Any], places: Any
) -> np.ndarray[Any, Any]:
    """Return the rows of a part, (part.stop - part.start, p); `places` are scattered indices."""
    if part.block_offset is not None:
        places = slice(part.block_offset, part.block_offset + part.stop - part.start)
    return np.asarray(block[places])


def memory_limit() -> int | None:
    """Return the memory limit in bytes of the current worker; None without worker or limit."""
    try:
        from distributed import get_worker

        return int(get_worker().memory_manager.memory_limit or 0) or None
    except (ImportError, ValueError):
        return None
