"""Rows in parts, one for each block that holds some, and sums over parts in an order of their own.

Parts are added up in a tree with groups of consecutive ones. Whoever has a whole group adds it up,
a worker, another one, or the client; so sums have the same bits wherever the blocks lie.
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
from ling.design.block_operations import (
    BlockOperation,
    BlockResult,
    GramMatmat,
    Moments,
    merge_results,
)
from ling.design.dask.block_shapes import check_block_shape
from ling.design.dense import DenseStorage
from ling.errors import WrongType

#: Parts, or sums of parts, that are added up at a time.
SPLIT_EVERY = 8
#: The name under which the places of single rows travel.
ROW_INDICES_NAME = "places"
#: Outcomes by their level in the tree and their number on it; level 0 is that of single parts.
ReductionNodes: TypeAlias = dict[tuple[int, int], BlockResult]


class WorkerMemoryError(MemoryError):
    """A part that there was no memory for: its first row and its last, bytes, and the limit."""


@dataclass(frozen=True)
class BlockSlice:
    """The rows from `start` to `stop` of a design, in block number `block`, there from `first` on.

    `first` is None where they do not lie together. `declared` is the shape of the whole block
    according to X.
    """

    block: int
    start: int
    stop: int
    block_offset: int | None
    declared_shape: tuple[int, int]


@dataclass(frozen=True, eq=False)
class RowLayout:
    """Where the rows of a design lie; `places` are those in their blocks, if some lie apart."""

    parts: tuple[BlockSlice, ...]
    row_indices: NDArray[np.intp] | None = None

    @classmethod
    def from_heights(cls, heights: Sequence[int], p: int) -> RowLayout:
        """All rows of blocks of these heights, with p columns each."""
        ends = np.cumsum([0, *heights]).tolist()
        pairs = enumerate(pairwise(ends))
        return cls(tuple(BlockSlice(i, a, b, 0, (b - a, p)) for i, (a, b) in pairs if a < b))

    def subset(self, rows: NDArray[np.intp]) -> RowLayout:
        """Some of the rows, in ascending order."""
        ends = np.searchsorted(rows, [part.stop for part in self.parts]).tolist()
        found, pieces, start = [], [], 0
        for part, stop in zip(self.parts, ends, strict=True):
            if start < stop:
                here = self._indices_in_block(part)[rows[start:stop] - part.start]
                run = as_slice(here)
                first = None if run is None else run.start
                found.append(BlockSlice(part.block, start, stop, first, part.declared_shape))
                pieces.append(here)
            start = stop
        apart = any(part.block_offset is None for part in found)
        return RowLayout(tuple(found), np.concatenate(pieces) if apart else None)

    def _indices_in_block(self, part: BlockSlice) -> NDArray[np.intp]:
        if part.block_offset is None:
            assert self.row_indices is not None
            return self.row_indices[part.start : part.stop]
        return np.arange(part.block_offset, part.block_offset + part.stop - part.start)

    def row_arrays(self, operation: BlockOperation) -> dict[str, np.ndarray[Any, Any]]:
        """All arrays that are cut like the rows."""
        mine = {} if self.row_indices is None else {ROW_INDICES_NAME: self.row_indices}
        return {**operation.row_arrays(), **mine}


@dataclass(frozen=True, eq=False)
class BlockTask:
    """What to do with some parts: `numbers` are theirs, of `count` in all.

    The operation, as `serialize`, if it is None, and the arrays of these `names` are given beside
    it. The arrays hold rows of these parts from `offset` on; `constants` are rows that stand for
    all.
    """

    operation: bytes | None
    parts: tuple[BlockSlice, ...]
    numbers: tuple[int, ...]
    count: int
    offset: int = 0
    array_names: tuple[str, ...] = ()
    constants: dict[str, Array] = field(default_factory=dict)

    def __call__(self, *given: Any) -> ReductionNodes:
        """Done: `given` are the operation, if it is not here, all blocks, and all arrays."""
        operation = self.operation
        if operation is None:
            operation, *given = given  # type: ignore[assignment]
        blocks, arrays = given[: len(self.parts)], given[len(self.parts) :]
        return run_parts(pickle.loads(operation), self, blocks, self._slice_arrays(arrays))

    def _slice_arrays(self, arrays: Sequence[Array]) -> Iterator[dict[str, Array]]:
        start = self.offset
        for part in self.parts:
            size = part.stop - part.start
            found = {
                name: a[start : start + size]
                for name, a in zip(self.array_names, arrays, strict=True)
            }
            for name, row in self.constants.items():
                found[name] = np.broadcast_to(row, (size, *row.shape[1:]))
            yield found
            start += size


def serialize(operation: BlockOperation) -> bytes:
    """The operation as it travels.

    Not in the frames of distributed's messages, where numbers may lie at odd addresses: products
    of such numbers are slow, and have other bits.
    """
    try:
        return pickle.dumps(operation, protocol=5)
    except (AttributeError, TypeError, pickle.PicklingError):
        # A function that is defined inside of another.
        return bytes(import_module("cloudpickle").dumps(operation, protocol=5))


def ensure_aligned(value: Any) -> Any:
    """An array whose numbers lie at even addresses; anything else as it is."""
    return np.require(value, requirements="A") if isinstance(value, np.ndarray) else value


def without_row_arrays(operation: BlockOperation) -> BlockOperation:
    """The operation without what it has for each row."""
    return operation.for_rows(0, {name: a[:0] for name, a in operation.row_arrays().items()})


def run_parts(
    operation: BlockOperation,
    work: BlockTask,
    blocks: Iterable[Any],
    arrays: Iterable[dict[str, Array]],
) -> ReductionNodes:
    """What all parts give, added up as far as groups are complete; one block at a time."""
    here = Counter(number // SPLIT_EVERY for number in work.numbers)
    items = zip(work.numbers, work.parts, blocks, arrays, strict=True)
    done = (
        (number, _run_part(operation, part, block, rows)) for number, part, block, rows in items
    )
    nodes: ReductionNodes = {}
    for group, several in groupby(done, key=lambda item: item[0] // SPLIT_EVERY):
        if here[group] == min(SPLIT_EVERY, work.count - group * SPLIT_EVERY):
            nodes[1, group] = merge_results(outcome for _, outcome in several)
        else:
            nodes.update(((0, number), outcome) for number, outcome in several)
        nodes = merge_nodes(work.count, nodes)
    return nodes


def merge_nodes(count: int, *several: ReductionNodes) -> ReductionNodes:
    """All of them, with groups that are complete added up; `count` parts there are in all."""
    found = {node: outcome for nodes in several for node, outcome in nodes.items()}
    level = 0
    while count > 1:
        for group in sorted({number // SPLIT_EVERY for at, number in found if at == level}):
            members = [
                (level, i)
                for i in range(group * SPLIT_EVERY, min((group + 1) * SPLIT_EVERY, count))
            ]
            if all(member in found for member in members):
                found[level + 1, group] = _sum_results([found.pop(member) for member in members])
        level, count = level + 1, -(-count // SPLIT_EVERY)
    return found


def _sum_results(outcomes: Sequence[BlockResult]) -> BlockResult:
    """Their sum, in place of none of them: a worker may be asked for them again."""
    first = BlockResult(tuple(a.copy() for a in outcomes[0].reduced), outcomes[0].per_row)
    return merge_results([first, *outcomes[1:]])


def _run_part(
    operation: BlockOperation, part: BlockSlice, block: Any, arrays: dict[str, Array]
) -> BlockResult:
    if not isinstance(block, np.ndarray) or block.ndim != 2:
        raise WrongType(
            f"X has a chunk of type {type(block).__name__} for rows {part.start} to {part.stop}; "
            "pass chunks that are NumPy arrays with two dimensions."
        )
    check_block_shape("X", (part.block, 0), block.shape, part.declared_shape)
    places = arrays.pop(ROW_INDICES_NAME, None)
    try:
        rows = _select_rows(part, block, places)
        # Compiled loops go over numbers at odd addresses as fast, and with the same bits.
        rows = rows if isinstance(operation, GramMatmat | Moments) else ensure_aligned(rows)
        return operation.for_rows(part.start, arrays)(DenseStorage(rows, compiled=True))
    except MemoryError as error:
        raise WorkerMemoryError(part.start, part.stop, block.nbytes, memory_limit()) from error


def _select_rows(
    part: BlockSlice, block: np.ndarray[Any, Any], places: Any
) -> np.ndarray[Any, Any]:
    if part.block_offset is not None:
        places = slice(part.block_offset, part.block_offset + part.stop - part.start)
    return np.asarray(block[places])


def memory_limit() -> int | None:
    """Bytes that the worker which runs this may use; None where it is none, or has no limit."""
    try:
        from distributed import get_worker

        return int(get_worker().memory_manager.memory_limit or 0) or None
    except (ImportError, ValueError):
        return None
