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

from ling.design.arrays import Array, consecutive
from ling.design.dask.block_shapes import check_shape
from ling.design.dense import DenseDesign
from ling.design.operations import GramTimes, Moments, Operation, Outcome, together
from ling.errors import WrongType

#: Parts, or sums of parts, that are added up at a time.
GROUP = 8
#: The name under which the places of single rows travel.
PLACES = "places"
#: Outcomes by their level in the tree and their number on it; level 0 is that of single parts.
Nodes: TypeAlias = dict[tuple[int, int], Outcome]


class NoRoom(MemoryError):
    """A part that there was no memory for: its first row and its last, bytes, and the limit."""


@dataclass(frozen=True)
class Part:
    """The rows from `start` to `stop` of a design, in block number `block`, there from `first` on.

    `first` is None where they do not lie together. `declared` is the shape of the whole block
    according to X.
    """

    block: int
    start: int
    stop: int
    first: int | None
    declared: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the rows of a design lie; `places` are those in their blocks, if some lie apart."""

    parts: tuple[Part, ...]
    places: NDArray[np.intp] | None = None

    @classmethod
    def whole(cls, heights: Sequence[int], p: int) -> Layout:
        """All rows of blocks of these heights, with p columns each."""
        ends = np.cumsum([0, *heights]).tolist()
        pairs = enumerate(pairwise(ends))
        return cls(tuple(Part(i, a, b, 0, (b - a, p)) for i, (a, b) in pairs if a < b))

    def subset(self, rows: NDArray[np.intp]) -> Layout:
        """Some of the rows, in ascending order."""
        ends = np.searchsorted(rows, [part.stop for part in self.parts]).tolist()
        found, pieces, start = [], [], 0
        for part, stop in zip(self.parts, ends, strict=True):
            if start < stop:
                here = self._places(part)[rows[start:stop] - part.start]
                run = consecutive(here)
                first = None if run is None else run.start
                found.append(Part(part.block, start, stop, first, part.declared))
                pieces.append(here)
            start = stop
        apart = any(part.first is None for part in found)
        return Layout(tuple(found), np.concatenate(pieces) if apart else None)

    def _places(self, part: Part) -> NDArray[np.intp]:
        if part.first is None:
            assert self.places is not None
            return self.places[part.start : part.stop]
        return np.arange(part.first, part.first + part.stop - part.start)

    def per_row(self, operation: Operation) -> dict[str, np.ndarray[Any, Any]]:
        """All arrays that are cut like the rows."""
        mine = {} if self.places is None else {PLACES: self.places}
        return {**operation.per_row(), **mine}


@dataclass(frozen=True, eq=False)
class Work:
    """What to do with some parts: `numbers` are theirs, of `count` in all.

    The operation, as `packed`, if it is None, and the arrays of these `names` are given beside it.
    The arrays hold rows of these parts from `offset` on; `constants` are rows that stand for all.
    """

    operation: bytes | None
    parts: tuple[Part, ...]
    numbers: tuple[int, ...]
    count: int
    offset: int = 0
    names: tuple[str, ...] = ()
    constants: dict[str, Array] = field(default_factory=dict)

    def __call__(self, *given: Any) -> Nodes:
        """Done: `given` are the operation, if it is not here, all blocks, and all arrays."""
        operation = self.operation
        if operation is None:
            operation, *given = given  # type: ignore[assignment]
        blocks, arrays = given[: len(self.parts)], given[len(self.parts) :]
        return worked(pickle.loads(operation), self, blocks, self._cut(arrays))

    def _cut(self, arrays: Sequence[Array]) -> Iterator[dict[str, Array]]:
        start = self.offset
        for part in self.parts:
            size = part.stop - part.start
            found = {
                name: a[start : start + size] for name, a in zip(self.names, arrays, strict=True)
            }
            for name, row in self.constants.items():
                found[name] = np.broadcast_to(row, (size, *row.shape[1:]))
            yield found
            start += size


def packed(operation: Operation) -> bytes:
    """The operation as it travels.

    Not in the frames of distributed's messages, where numbers may lie at odd addresses: products
    of such numbers are slow, and have other bits.
    """
    try:
        return pickle.dumps(operation, protocol=5)
    except (AttributeError, TypeError, pickle.PicklingError):
        # A function that is defined inside of another.
        return bytes(import_module("cloudpickle").dumps(operation, protocol=5))


def aligned(value: Any) -> Any:
    """An array whose numbers lie at even addresses; anything else as it is."""
    return np.require(value, requirements="A") if isinstance(value, np.ndarray) else value


def stripped(operation: Operation) -> Operation:
    """The operation without what it has for each row."""
    return operation.placed(0, {name: a[:0] for name, a in operation.per_row().items()})


def worked(
    operation: Operation, work: Work, blocks: Iterable[Any], arrays: Iterable[dict[str, Array]]
) -> Nodes:
    """What all parts give, added up as far as groups are complete; one block at a time."""
    here = Counter(number // GROUP for number in work.numbers)
    items = zip(work.numbers, work.parts, blocks, arrays, strict=True)
    done = ((number, _done(operation, part, block, rows)) for number, part, block, rows in items)
    nodes: Nodes = {}
    for group, several in groupby(done, key=lambda item: item[0] // GROUP):
        if here[group] == min(GROUP, work.count - group * GROUP):
            nodes[1, group] = together(outcome for _, outcome in several)
        else:
            nodes.update(((0, number), outcome) for number, outcome in several)
        nodes = merged(work.count, nodes)
    return nodes


def merged(count: int, *several: Nodes) -> Nodes:
    """All of them, with groups that are complete added up; `count` parts there are in all."""
    found = {node: outcome for nodes in several for node, outcome in nodes.items()}
    level = 0
    while count > 1:
        for group in sorted({number // GROUP for at, number in found if at == level}):
            members = [(level, i) for i in range(group * GROUP, min((group + 1) * GROUP, count))]
            if all(member in found for member in members):
                found[level + 1, group] = _total([found.pop(member) for member in members])
        level, count = level + 1, -(-count // GROUP)
    return found


def _total(outcomes: Sequence[Outcome]) -> Outcome:
    """Their sum, in place of none of them: a worker may be asked for them again."""
    first = Outcome(tuple(a.copy() for a in outcomes[0].summed), outcomes[0].stacked)
    return together([first, *outcomes[1:]])


def _done(operation: Operation, part: Part, block: Any, arrays: dict[str, Array]) -> Outcome:
    if not isinstance(block, np.ndarray) or block.ndim != 2:
        raise WrongType(
            f"X has a chunk of type {type(block).__name__} for rows {part.start} to {part.stop}; "
            "pass chunks that are NumPy arrays with two dimensions."
        )
    check_shape("X", (part.block, 0), block.shape, part.declared)
    places = arrays.pop(PLACES, None)
    try:
        rows = _rows(part, block, places)
        # Compiled loops go over numbers at odd addresses as fast, and with the same bits.
        rows = rows if isinstance(operation, GramTimes | Moments) else aligned(rows)
        return operation.placed(part.start, arrays)(DenseDesign(rows, compiled=True))
    except MemoryError as error:
        raise NoRoom(part.start, part.stop, block.nbytes, memory_limit()) from error


def _rows(part: Part, block: np.ndarray[Any, Any], places: Any) -> np.ndarray[Any, Any]:
    if part.first is not None:
        places = slice(part.first, part.first + part.stop - part.start)
    return np.asarray(block[places])


def memory_limit() -> int | None:
    """Bytes that the worker which runs this may use; None where it is none, or has no limit."""
    try:
        from distributed import get_worker

        return int(get_worker().memory_manager.memory_limit or 0) or None
    except (ImportError, ValueError):
        return None
