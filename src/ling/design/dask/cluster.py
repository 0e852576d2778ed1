"""Passes over blocks of rows that lie on the workers of a dask cluster."""

from __future__ import annotations

import asyncio
import weakref
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from ling.design.arrays import Array
from ling.design.dask.faults import (
    IDLE,
    Key,
    Theirs,
    WorkerGone,
    deaths_over,
    gathered,
    needed,
    telling,
    waited,
    workers_of,
)
from ling.design.dask.parts import GROUP, Layout, Nodes, Work, merged, packed, stripped
from ling.design.dask.tasks import Graph, block_keys, freed, held
from ling.design.operations import Operation, Outcome
from ling.errors import ClusterLost, ClusterMemory

MB = 2**20
# How often the same rows may have been on a worker that died; how many workers may in one pass.
SAME, LIVES = 3, 12
# Sums of at most this many bytes go straight to the client: a task takes the scheduler as long.
LARGE = MB // 2
# Results of a pass that may wait on the workers until the next has started.
LEFT = 16 * MB
# How often calls may fail until no more are made.
CALLS = 3
# Under this name, which is no array's id, the plans of shares are kept.
PLANS = 0


@dataclass(frozen=True)
class Bundle:
    """Parts that one task goes through on one worker.

    Per-row arrays are cut for shares, the parts of one thread: this is of share number `share`,
    and its rows start there at `offset`.
    """

    worker: str
    numbers: tuple[int, ...]
    share: int
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Kept:
    """An array's rows for each share, on the workers for as long as it lives."""

    owner: weakref.ref[Any]
    looks: int
    keys: tuple[Key, ...]
    futures: list[Any] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Sent:
    """How the parts of a layout are shared out, and which arrays are there, by their id."""

    shares: tuple[Bundle, ...]
    groups: tuple[Bundle, ...]
    kept: dict[int, Kept] = field(default_factory=dict)

    @cached_property
    def by_worker(self) -> dict[str, list[int]]:
        """The numbers of each worker's shares."""
        found: dict[str, list[int]] = {}
        for share in self.shares:
            found.setdefault(share.worker, []).append(share.share)
        return found


@dataclass(eq=False)
class Placement:
    """The worker that has each block, and the number of threads of each worker.

    `calls` is how often calls past the scheduler may still fail where its tasks do not.
    """

    workers: tuple[str, ...]
    threads: dict[str, int]
    calls: int = CALLS
    sent: weakref.WeakKeyDictionary[Layout, Sent] = field(default_factory=weakref.WeakKeyDictionary)

    def of(self, layout: Layout) -> Sent:
        """What has been sent for it."""
        found = self.sent.get(layout)
        if found is None:
            shares = tuple(_shares(layout, self))
            groups = tuple(group for share in shares for group in _groups(share, layout))
            found = self.sent[layout] = Sent(shares, groups)
        return found


@dataclass(frozen=True, eq=False)
class Call:
    """A pass for which everything but the operation is on the workers.

    It goes to all of them at once, past the scheduler's tasks: that takes a third of the time, and
    for the scheduler it is one message a worker, however many blocks there are.
    """

    operation: bytes
    shares: dict[str, list[int]]
    plans: tuple[Key, ...]
    pieces: dict[str, tuple[Key, ...]]
    constants: dict[str, Array]

    def of(self, worker: Any) -> Iterator[Callable[[], Nodes]]:
        """What a worker has to do, share by share."""
        data = worker.data
        for share in self.shares[worker.address]:
            work, blocks = data[self.plans[share]]
            work = replace(work, names=tuple(self.pieces), constants=self.constants)
            pieces = [keys[share] for keys in self.pieces.values()]
            yield partial(work, self.operation, *(data[key] for key in (*blocks, *pieces)))


async def answered(call: Call, dask_worker: Any) -> list[Nodes] | None:
    """What a worker's shares give; None if they give nothing, whatever the reason."""
    try:
        loop, pool = asyncio.get_running_loop(), dask_worker.executors["default"]
        return await asyncio.gather(*(loop.run_in_executor(pool, f) for f in call.of(dask_worker)))
    except Exception:
        return None  # the scheduler's tasks will bring the reason to light


class Cluster:
    """Blocks on the workers of `client`: those of `collection`, a persisted array.

    They have `heights` rows each, of `width` bytes; `spread` is whether they were by `persisted`.
    """

    def __init__(
        self, client: Any, collection: Any, heights: Sequence[int], width: int, spread: bool
    ) -> None:
        self.client = client
        self.keys = block_keys(collection)
        self.heights = tuple(heights)
        self.width = width
        self.futures = held(collection, self.keys)
        self._placement: Placement | None = None
        # Where blocks were to be made at first, if that was up to us.
        self._first: Collection[str] = ()
        if spread:
            with telling(str):
                self._first = set(workers_of(client))
        self._left: list[Any] = []

    @property
    def n_workers(self) -> int:
        """Workers there are now."""
        with telling(str):
            return len(workers_of(self.client))

    def run(self, operation: Operation, layout: Layout, p: int) -> Outcome:
        """What all parts give together, whatever becomes of single workers meanwhile."""
        if not layout.parts:
            return Outcome()
        deaths: Counter[int] = Counter()
        with telling(self._describe):
            for _ in range(LIVES):
                try:
                    placement = self._placed()
                    return self._pass(operation, layout, p, placement)
                except ClusterLost as lost:
                    raise ClusterLost(f"{lost} {self._suspicion}") from lost
                except WorkerGone as gone:
                    self._placement, dead = None, set(gone.args)
                    self._free()
                blocks = (part.block for part in layout.parts)
                deaths.update(block for block in blocks if placement.workers[block] in dead)
                if max(deaths.values(), default=0) > SAME:
                    break
            if not deaths:
                raise CancelledError(IDLE)
            block, count = deaths.most_common(1)[0]
            limits = [about["memory_limit"] for about in workers_of(self.client).values()]
            raise deaths_over(self._describe(self.keys[block]), count, min(limits, default=None))

    def _pass(self, operation: Operation, layout: Layout, p: int, placement: Placement) -> Outcome:
        count, sent = len(layout.parts), placement.of(layout)
        # Large sums are made on the workers, with a task for each group of parts.
        by_group = 8 * operation.n_summed(p) > LARGE and count > 1
        graph = Graph(type(operation).__name__.lower())
        arrays, constants = self._arrays(graph, layout, operation, sent)
        common, plans, failed = packed(stripped(operation)), sent.kept.get(PLANS), False
        if plans and placement.calls and not by_group and not graph.tasks:
            found = self._called(Call(common, sent.by_worker, plans.keys, arrays, constants))
            if found is not None:
                return _whole(count, found)
            if (now := self._placed(anew=True)).workers != placement.workers:
                return self._pass(operation, layout, p, now)
            self._placement, failed = placement, True
        bundles = sent.groups if by_group else sent.shares
        inline, first = graph.common(common, len(bundles))
        outs = []
        for bundle in bundles:
            work, blocks = self._plan(layout, bundle)
            work = replace(work, operation=inline, names=tuple(arrays), constants=constants)
            pieces = [keys[bundle.share] for keys in arrays.values()]
            outs.append(graph.add(work, [*first, *blocks, *pieces], bundle.worker))
        if by_group:
            outs = graph.tree(outs, bundles, count)
        elif plans is None:
            data = ((self._plan(layout, share), share.worker) for share in sent.shares)
            keys = tuple(graph.data(plan, worker, "plan") for plan, worker in data)
            graph.kept.append((sent.kept, PLANS, Kept(weakref.ref(layout), 0, keys)))
        outcome = self._outcome(graph, outs, count)
        placement.calls -= failed
        return outcome

    def _plan(self, layout: Layout, bundle: Bundle) -> tuple[Work, list[Key]]:
        """A bundle's work, but for the operation and its arrays, and the keys of its blocks."""
        parts = tuple(layout.parts[number] for number in bundle.numbers)
        work = Work(None, parts, bundle.numbers, len(layout.parts), bundle.offset)
        return work, [self.keys[part.block] for part in parts]

    def _called(self, call: Call) -> list[Nodes] | None:
        """What all workers answer; None if one of them does not."""

        async def ask() -> Any:
            return await self.client.run(answered, call, workers=list(call.shares))

        self._left = []
        try:
            found = waited(self.client, ask(), call.shares)
        except (WorkerGone, ClusterLost, ClusterMemory, CancelledError):
            raise
        except Exception:
            return None
        if any(nodes is None for nodes in found.values()):
            return None
        return [nodes for several in found.values() for nodes in several]

    def _outcome(self, graph: Graph, outs: list[Key], count: int) -> Outcome:
        with graph.submitted(self.client, outs) as futures:
            # Only now, as a message to the scheduler holds up the next for 10 ms.
            self._left = []
            found = gathered(self.client, futures, graph.workers)
        outcome = _whole(count, found)
        if sum(array.nbytes for array in (*outcome.summed, *outcome.stacked)) <= LEFT:
            self._left = futures
        return outcome

    def _arrays(
        self, graph: Graph, layout: Layout, operation: Operation, sent: Sent
    ) -> tuple[dict[str, tuple[Key, ...]], dict[str, Array]]:
        """Per-row arrays: the keys of their pieces, or one row, if all are equal."""
        arrays, constants = {}, {}
        for name, array in layout.per_row(operation).items():
            if array.strides[0] == 0:
                constants[name] = array[:1].copy()
            else:
                arrays[name] = self._kept(graph, layout, array, sent)
        return arrays, constants

    def _kept(self, graph: Graph, layout: Layout, array: Array, sent: Sent) -> tuple[Key, ...]:
        """The keys of its rows for each share; they are sent, unless they are there."""
        found, looks = sent.kept.get(id(array)), _looks(array)
        if found is None or found.owner() is not array or found.looks != looks:
            pieces = ((_rows_of(array, layout, share), share.worker) for share in sent.shares)
            keys = tuple(graph.data(piece, worker) for piece, worker in pieces)
            name, kept = id(array), sent.kept
            found = Kept(weakref.ref(array, lambda _: kept.pop(name, None)), looks, keys)
            graph.kept.append((kept, name, found))
        return found.keys

    def _placed(self, anew: bool = False) -> Placement:
        """Where all blocks are, once they are anywhere; `anew` in case they have moved."""
        retries = SAME
        self._placement = None if anew else self._placement
        while self._placement is None:
            self._ready()
            if failed := [future for future in self.futures if future.status == "error"]:
                error = failed[0].exception()
                if type(error).__name__ != "KilledWorker":
                    raise Theirs(error)
                if not retries:
                    raise error
                retries -= 1
                self.client.retry(failed)
                continue
            has = self.client.who_has(self.futures)
            workers = workers_of(self.client)
            places = [[w for w in has.get(key, ()) if w in workers] for key in self.keys]
            if all(places):
                threads = {w: int(about["nthreads"]) for w, about in workers.items()}
                self._placement = Placement(tuple(sorted(w)[0] for w in places), threads)
        return self._placement

    def _ready(self) -> None:
        """Waits until all blocks are there, or have failed."""
        try:
            work = needed("distributed.client")._wait(self.futures)
            waited(self.client, work, self._first, self.futures)
        except WorkerGone as gone:
            if not gone.args and not self._first:
                raise CancelledError(IDLE) from gone
            self._free()

    def _free(self) -> None:
        """Where blocks were to be made at first does not count any more."""
        if self._first:
            self._first = ()
            self.client.run_on_scheduler(freed, self.keys[0][0])

    @property
    def _suspicion(self) -> str:
        """What workers may have died of."""
        largest = max(self.heights) * self.width / MB
        return (
            f"If they ran out of memory: the largest chunk of X takes {largest:.3g} MB, and a pass "
            "holds about two at a time; use smaller ones (X.rechunk({0: n_rows})), a smaller "
            "memory_budget, or workers with more memory."
        )

    def _describe(self, key: Key) -> str:
        """A task in words."""
        if key not in self.keys:
            return "the sum of what several chunks give"
        block = self.keys.index(key)
        start, rows = sum(self.heights[:block]), self.heights[block]
        size = rows * self.width / MB
        return f"rows {start} to {start + rows} of X, a chunk of {size:.3g} MB"


def _whole(count: int, found: Iterable[Nodes]) -> Outcome:
    """All that there is, as one."""
    (outcome,) = merged(count, *found).values()
    return outcome


def _shares(layout: Layout, placement: Placement) -> Iterator[Bundle]:
    """Consecutive parts for each thread of each worker, with about as many rows."""
    by_worker: dict[str, list[int]] = {}
    for number, part in enumerate(layout.parts):
        by_worker.setdefault(placement.workers[part.block], []).append(number)
    count = 0
    for worker, numbers in by_worker.items():
        rows = np.cumsum([layout.parts[i].stop - layout.parts[i].start for i in numbers])
        threads = placement.threads[worker]
        middles = rows - np.diff(rows, prepend=0) / 2
        thread = (middles / rows[-1] * threads).astype(int)
        for i in np.unique(thread):
            mine = np.array(numbers)[thread == i]
            yield Bundle(worker, tuple(mine.tolist()), count)
            count += 1


def _groups(share: Bundle, layout: Layout) -> Iterator[Bundle]:
    """A share's parts in groups, as sums are made of them."""
    offset = 0
    for _, several in groupby(share.numbers, key=lambda number: number // GROUP):
        numbers = tuple(several)
        yield Bundle(share.worker, numbers, share.share, offset)
        offset += sum(layout.parts[i].stop - layout.parts[i].start for i in numbers)


def _rows_of(array: Array, layout: Layout, share: Bundle) -> Array:
    """The rows of its parts."""
    parts = [layout.parts[number] for number in share.numbers]
    if not all(a.stop == b.start for a, b in pairwise(parts)):
        return np.concatenate([array[part.start : part.stop] for part in parts])
    rows = array[parts[0].start : parts[-1].stop]
    # Distributed keeps small messages for a while, and a view in one would keep the array alive.
    return rows.copy() if rows.nbytes < MB else np.ascontiguousarray(rows)


def _looks(array: Array) -> int:
    """A sum over its bytes: an array that was changed in place has to be sent again."""
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data)
