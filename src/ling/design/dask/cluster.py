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

from ling._typing import Array
from ling.design.block_operations import BlockOperation, BlockResult
from ling.design.dask.failures import (
    IDLE_MESSAGE,
    TaskKey,
    UserGraphError,
    WorkerLostError,
    gather_results,
    get_worker_info,
    import_optional,
    repeated_deaths_error,
    translate_errors,
    wait_for,
)
from ling.design.dask.partition import (
    SPLIT_EVERY,
    BlockTask,
    ReductionNodes,
    RowLayout,
    merge_nodes,
    serialize,
    without_row_arrays,
)
from ling.design.dask.task_graph import TaskGraph, block_keys, futures_of, release_restrictions
from ling.errors import ClusterLost, ClusterMemory

MIB = 2**20
# How often the same rows may have been on a worker that died; how many workers may in one pass.
MAX_DEATHS_PER_BLOCK, MAX_ATTEMPTS = 3, 12
# Sums of at most this many bytes go straight to the client: a task takes the scheduler as long.
MAX_DIRECT_SUM_BYTES = MIB // 2
# Results of a pass that may wait on the workers until the next has started.
MAX_LINGERING_BYTES = 16 * MIB
# How often calls may fail until no more are made.
MAX_FAILED_CALLS = 3
# Under this name, which is no array's id, the plans of shares are kept.
PLANS_KEY = 0


@dataclass(frozen=True)
class TaskGroup:
    """Parts that one task goes through on one worker.

    Per-row arrays are cut for shares, the parts of one thread: this is of share number `share`,
    and its rows start there at `offset`.
    """

    worker: str
    numbers: tuple[int, ...]
    share_index: int
    offset: int = 0


@dataclass(frozen=True, eq=False)
class ResidentArray:
    """An array's rows for each share, on the workers for as long as it lives."""

    array_ref: weakref.ref[Any]
    checksum: int
    keys: tuple[TaskKey, ...]
    futures: list[Any] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Residency:
    """How the parts of a layout are shared out, and which arrays are there, by their id."""

    shares: tuple[TaskGroup, ...]
    groups: tuple[TaskGroup, ...]
    resident_arrays: dict[int, ResidentArray] = field(default_factory=dict)

    @cached_property
    def by_worker(self) -> dict[str, list[int]]:
        """The numbers of each worker's shares."""
        found: dict[str, list[int]] = {}
        for share in self.shares:
            found.setdefault(share.worker, []).append(share.share_index)
        return found


@dataclass(eq=False)
class BlockPlacement:
    """The worker that has each block, and the number of threads of each worker.

    `calls` is how often calls past the scheduler may still fail where its tasks do not.
    """

    workers: tuple[str, ...]
    threads: dict[str, int]
    remaining_calls: int = MAX_FAILED_CALLS
    residencies: weakref.WeakKeyDictionary[RowLayout, Residency] = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def plan_for(self, layout: RowLayout) -> Residency:
        """What has been sent for it."""
        found = self.residencies.get(layout)
        if found is None:
            shares = tuple(_split_by_thread(layout, self))
            groups = tuple(
                group for share in shares for group in _split_by_merge_group(share, layout)
            )
            found = self.residencies[layout] = Residency(shares, groups)
        return found


@dataclass(frozen=True, eq=False)
class DirectCall:
    """A pass for which everything but the operation is on the workers.

    It goes to all of them at once, past the scheduler's tasks: that takes a third of the time, and
    for the scheduler it is one message a worker, however many blocks there are.
    """

    operation: bytes
    shares: dict[str, list[int]]
    plans: tuple[TaskKey, ...]
    pieces: dict[str, tuple[TaskKey, ...]]
    constants: dict[str, Array]

    def plan_for(self, worker: Any) -> Iterator[Callable[[], ReductionNodes]]:
        """What a worker has to do, share by share."""
        data = worker.data
        for share in self.shares[worker.address]:
            work, blocks = data[self.plans[share]]
            work = replace(work, array_names=tuple(self.pieces), constants=self.constants)
            pieces = [keys[share] for keys in self.pieces.values()]
            yield partial(work, self.operation, *(data[key] for key in (*blocks, *pieces)))


async def run_direct_call(call: DirectCall, dask_worker: Any) -> list[ReductionNodes] | None:
    """What a worker's shares give; None if they give nothing, whatever the reason."""
    try:
        loop, pool = asyncio.get_running_loop(), dask_worker.executors["default"]
        return await asyncio.gather(
            *(loop.run_in_executor(pool, f) for f in call.plan_for(dask_worker))
        )
    except Exception:
        return None  # the scheduler's tasks will bring the reason to light


class ClusterBlocks:
    """Blocks on the workers of `client`: those of `collection`, a persisted array.

    They have `heights` rows each, of `row_bytes` bytes; `spread` is whether they were by `persist`.
    """

    def __init__(
        self, client: Any, collection: Any, heights: Sequence[int], row_bytes: int, spread: bool
    ) -> None:
        self.client = client
        self.keys = block_keys(collection)
        self.heights = tuple(heights)
        self.row_bytes = row_bytes
        self.futures = futures_of(collection, self.keys)
        self._placement: BlockPlacement | None = None
        # Where blocks were to be made at first, if that was up to us.
        self._initial_workers: Collection[str] = ()
        if spread:
            with translate_errors(str):
                self._initial_workers = set(get_worker_info(client))
        self._lingering_futures: list[Any] = []

    @property
    def n_workers(self) -> int:
        """Workers there are now."""
        with translate_errors(str):
            return len(get_worker_info(self.client))

    def run(self, operation: BlockOperation, layout: RowLayout, p: int) -> BlockResult:
        """What all parts give together, whatever becomes of single workers meanwhile."""
        if not layout.parts:
            return BlockResult()
        deaths: Counter[int] = Counter()
        with translate_errors(self._describe_task):
            for _ in range(MAX_ATTEMPTS):
                try:
                    placement = self._locate_blocks()
                    return self._run_pass(operation, layout, p, placement)
                except ClusterLost as lost:
                    raise ClusterLost(f"{lost} {self._memory_advice}") from lost
                except WorkerLostError as gone:
                    self._placement, dead = None, set(gone.args)
                    self._release_restrictions()
                blocks = (part.block for part in layout.parts)
                deaths.update(block for block in blocks if placement.workers[block] in dead)
                if max(deaths.values(), default=0) > MAX_DEATHS_PER_BLOCK:
                    break
            if not deaths:
                raise CancelledError(IDLE_MESSAGE)
            block, count = deaths.most_common(1)[0]
            limits = [about["memory_limit"] for about in get_worker_info(self.client).values()]
            raise repeated_deaths_error(
                self._describe_task(self.keys[block]), count, min(limits, default=None)
            )

    def _run_pass(
        self, operation: BlockOperation, layout: RowLayout, p: int, placement: BlockPlacement
    ) -> BlockResult:
        count, sent = len(layout.parts), placement.plan_for(layout)
        # Large sums are made on the workers, with a task for each group of parts.
        by_group = 8 * operation.reduced_size(p) > MAX_DIRECT_SUM_BYTES and count > 1
        graph = TaskGraph(type(operation).__name__.lower())
        arrays, constants = self._send_row_arrays(graph, layout, operation, sent)
        common, plans, failed = (
            serialize(without_row_arrays(operation)),
            sent.resident_arrays.get(PLANS_KEY),
            False,
        )
        if plans and placement.remaining_calls and not by_group and not graph.tasks:
            found = self._run_direct_call(
                DirectCall(common, sent.by_worker, plans.keys, arrays, constants)
            )
            if found is not None:
                return _merge_all(count, found)
            if (now := self._locate_blocks(anew=True)).workers != placement.workers:
                return self._run_pass(operation, layout, p, now)
            self._placement, failed = placement, True
        bundles = sent.groups if by_group else sent.shares
        inline, first = graph.add_shared_operation(common, len(bundles))
        outs = []
        for bundle in bundles:
            work, blocks = self._plan_task(layout, bundle)
            work = replace(work, operation=inline, array_names=tuple(arrays), constants=constants)
            pieces = [keys[bundle.share_index] for keys in arrays.values()]
            outs.append(graph.add(work, [*first, *blocks, *pieces], bundle.worker))
        if by_group:
            outs = graph.add_merge_tree(outs, bundles, count)
        elif plans is None:
            data = ((self._plan_task(layout, share), share.worker) for share in sent.shares)
            keys = tuple(graph.data(plan, worker, "plan") for plan, worker in data)
            graph.resident_arrays.append(
                (sent.resident_arrays, PLANS_KEY, ResidentArray(weakref.ref(layout), 0, keys))
            )
        outcome = self._gather_result(graph, outs, count)
        placement.remaining_calls -= failed
        return outcome

    def _plan_task(self, layout: RowLayout, bundle: TaskGroup) -> tuple[BlockTask, list[TaskKey]]:
        """A bundle's work, but for the operation and its arrays, and the keys of its blocks."""
        parts = tuple(layout.parts[number] for number in bundle.numbers)
        work = BlockTask(None, parts, bundle.numbers, len(layout.parts), bundle.offset)
        return work, [self.keys[part.block] for part in parts]

    def _run_direct_call(self, call: DirectCall) -> list[ReductionNodes] | None:
        """What all workers answer; None if one of them does not."""

        async def ask() -> Any:
            return await self.client.run(run_direct_call, call, workers=list(call.shares))

        self._lingering_futures = []
        try:
            found = wait_for(self.client, ask(), call.shares)
        except (WorkerLostError, ClusterLost, ClusterMemory, CancelledError):
            raise
        except Exception:
            return None
        if any(nodes is None for nodes in found.values()):
            return None
        return [nodes for several in found.values() for nodes in several]

    def _gather_result(self, graph: TaskGraph, outs: list[TaskKey], count: int) -> BlockResult:
        with graph.submit(self.client, outs) as futures:
            # Only now, as a message to the scheduler holds up the next for 10 ms.
            self._lingering_futures = []
            found = gather_results(self.client, futures, graph.workers)
        outcome = _merge_all(count, found)
        if (
            sum(array.nbytes for array in (*outcome.reduced, *outcome.per_row))
            <= MAX_LINGERING_BYTES
        ):
            self._lingering_futures = futures
        return outcome

    def _send_row_arrays(
        self, graph: TaskGraph, layout: RowLayout, operation: BlockOperation, sent: Residency
    ) -> tuple[dict[str, tuple[TaskKey, ...]], dict[str, Array]]:
        """Per-row arrays: the keys of their pieces, or one row, if all are equal."""
        arrays, constants = {}, {}
        for name, array in layout.row_arrays(operation).items():
            if array.strides[0] == 0:
                constants[name] = array[:1].copy()
            else:
                arrays[name] = self._resident_keys(graph, layout, array, sent)
        return arrays, constants

    def _resident_keys(
        self, graph: TaskGraph, layout: RowLayout, array: Array, sent: Residency
    ) -> tuple[TaskKey, ...]:
        """The keys of its rows for each share; they are sent, unless they are there."""
        found, looks = sent.resident_arrays.get(id(array)), _checksum(array)
        if found is None or found.array_ref() is not array or found.checksum != looks:
            pieces = ((_group_rows(array, layout, share), share.worker) for share in sent.shares)
            keys = tuple(graph.data(piece, worker) for piece, worker in pieces)
            name, kept = id(array), sent.resident_arrays
            found = ResidentArray(weakref.ref(array, lambda _: kept.pop(name, None)), looks, keys)
            graph.resident_arrays.append((kept, name, found))
        return found.keys

    def _locate_blocks(self, anew: bool = False) -> BlockPlacement:
        """Where all blocks are, once they are anywhere; `anew` in case they have moved."""
        retries = MAX_DEATHS_PER_BLOCK
        self._placement = None if anew else self._placement
        while self._placement is None:
            self._wait_for_blocks()
            if failed := [future for future in self.futures if future.status == "error"]:
                error = failed[0].exception()
                if type(error).__name__ != "KilledWorker":
                    raise UserGraphError(error)
                if not retries:
                    raise error
                retries -= 1
                self.client.retry(failed)
                continue
            has = self.client.who_has(self.futures)
            workers = get_worker_info(self.client)
            places = [[w for w in has.get(key, ()) if w in workers] for key in self.keys]
            if all(places):
                threads = {w: int(about["nthreads"]) for w, about in workers.items()}
                self._placement = BlockPlacement(tuple(sorted(w)[0] for w in places), threads)
        return self._placement

    def _wait_for_blocks(self) -> None:
        """Waits until all blocks are there, or have failed."""
        try:
            work = import_optional("distributed.client")._wait(self.futures)
            wait_for(self.client, work, self._initial_workers, self.futures)
        except WorkerLostError as gone:
            if not gone.args and not self._initial_workers:
                raise CancelledError(IDLE_MESSAGE) from gone
            self._release_restrictions()

    def _release_restrictions(self) -> None:
        """Where blocks were to be made at first does not count any more."""
        if self._initial_workers:
            self._initial_workers = ()
            self.client.run_on_scheduler(release_restrictions, self.keys[0][0])

    @property
    def _memory_advice(self) -> str:
        """What workers may have died of."""
        largest = max(self.heights) * self.row_bytes / MIB
        return (
            f"If they ran out of memory: the largest chunk of X takes {largest:.3g} MB, and a pass "
            "holds about two at a time; use smaller ones (X.rechunk({0: n_rows})), a smaller "
            "memory_budget, or workers with more memory."
        )

    def _describe_task(self, key: TaskKey) -> str:
        """A task in words."""
        if key not in self.keys:
            return "the sum of what several chunks give"
        block = self.keys.index(key)
        start, rows = sum(self.heights[:block]), self.heights[block]
        size = rows * self.row_bytes / MIB
        return f"rows {start} to {start + rows} of X, a chunk of {size:.3g} MB"


def _merge_all(count: int, found: Iterable[ReductionNodes]) -> BlockResult:
    """All that there is, as one."""
    (outcome,) = merge_nodes(count, *found).values()
    return outcome


def _split_by_thread(layout: RowLayout, placement: BlockPlacement) -> Iterator[TaskGroup]:
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
            yield TaskGroup(worker, tuple(mine.tolist()), count)
            count += 1


def _split_by_merge_group(share: TaskGroup, layout: RowLayout) -> Iterator[TaskGroup]:
    """A share's parts in groups, as sums are made of them."""
    offset = 0
    for _, several in groupby(share.numbers, key=lambda number: number // SPLIT_EVERY):
        numbers = tuple(several)
        yield TaskGroup(share.worker, numbers, share.share_index, offset)
        offset += sum(layout.parts[i].stop - layout.parts[i].start for i in numbers)


def _group_rows(array: Array, layout: RowLayout, share: TaskGroup) -> Array:
    """The rows of its parts."""
    parts = [layout.parts[number] for number in share.numbers]
    if not all(a.stop == b.start for a, b in pairwise(parts)):
        return np.concatenate([array[part.start : part.stop] for part in parts])
    rows = array[parts[0].start : parts[-1].stop]
    # Distributed keeps small messages for a while, and a view in one would keep the array alive.
    return rows.copy() if rows.nbytes < MIB else np.ascontiguousarray(rows)


def _checksum(array: Array) -> int:
    """A sum over its bytes: an array that was changed in place has to be sent again."""
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data)
