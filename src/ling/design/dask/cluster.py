"""Passes over blocks of rows that are stored on the workers of a Dask cluster."""

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
from ling.design.blocked import BlockCall, BlockResult
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
from ling.errors import ClusterLostError, ClusterMemoryError
from ling.wording import format_bytes

MIB = 2**20
# A pass fails if more than MAX_DEATHS_PER_BLOCK workers die in turn while they hold the same block,
# or after MAX_ATTEMPTS attempts.
MAX_DEATHS_PER_BLOCK, MAX_ATTEMPTS = 3, 12
# Sums of at most this many bytes are sent straight to the client: a task that adds them up on a
# worker costs the scheduler as much time.
MAX_DIRECT_SUM_BYTES = MIB // 2
# Results of a pass of at most this many bytes are released only after the next pass has started,
# because a message to the scheduler delays the next one.
MAX_LINGERING_BYTES = 16 * MIB
# Number of failed direct calls after which only tasks of the scheduler are used.
MAX_FAILED_CALLS = 3
# Key of the tasks of the shares in `Residency.resident_arrays`. Arrays are stored under their ids,
# which are never 0.
PLANS_KEY = 0


@dataclass(frozen=True)
class TaskGroup:
    """The parts that one task processes on one worker.

    `numbers` are the numbers of the parts. A share is the set of parts of one thread, and per-row
    arrays are split by share. This group belongs to share number `share_index`, and its rows start
    at `offset` within the share.
    """

    worker: str
    numbers: tuple[int, ...]
    share_index: int
    offset: int = 0


@dataclass(frozen=True, eq=False)
class ResidentArray:
    """A per-row array whose rows stay on the workers until the array is deleted.

    `keys` are the keys of its pieces, one per share. `checksum` detects changes in place.
    """

    array_ref: weakref.ref[Any]
    checksum: int
    keys: tuple[TaskKey, ...]
    futures: list[Any] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Residency:
    """The assignment of the parts of a layout to threads, and the arrays that are on the workers.

    `shares` has one group per thread, and `groups` one per thread and group of the reduction tree.
    `resident_arrays` are stored by the id of the array.
    """

    shares: tuple[TaskGroup, ...]
    groups: tuple[TaskGroup, ...]
    resident_arrays: dict[int, ResidentArray] = field(default_factory=dict)

    @cached_property
    def by_worker(self) -> dict[str, list[int]]:
        """The indices of the shares of each worker, by address."""
        shares_of_worker: dict[str, list[int]] = {}
        for share in self.shares:
            shares_of_worker.setdefault(share.worker, []).append(share.share_index)
        return shares_of_worker


@dataclass(eq=False)
class BlockPlacement:
    """The worker that has each block, and the number of threads of each worker.

    Direct calls bypass the scheduler. `remaining_calls` is the number of further direct calls that
    may fail although tasks succeed; after that only tasks are used.
    """

    workers: tuple[str, ...]
    threads: dict[str, int]
    remaining_calls: int = MAX_FAILED_CALLS
    residencies: weakref.WeakKeyDictionary[RowLayout, Residency] = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def plan_for(self, layout: RowLayout) -> Residency:
        """Return the residency of the layout, created on first use."""
        residency = self.residencies.get(layout)
        if residency is None:
            shares = tuple(_split_by_thread(layout, self))
            groups = tuple(
                group for share in shares for group in _split_by_merge_group(share, layout)
            )
            residency = self.residencies[layout] = Residency(shares, groups)
        return residency


@dataclass(frozen=True, eq=False)
class DirectCall:
    """A pass for which everything but the call is already on the workers.

    It is sent to all workers at once and bypasses the scheduler's tasks. It takes a third of the
    time, and costs the scheduler one message per worker, however many blocks there are. `shares`
    are the share indices of each worker; `plans` and `pieces` are the keys of the tasks and of the
    per-row arrays, one per share.
    """

    call: bytes
    shares: dict[str, list[int]]
    plans: tuple[TaskKey, ...]
    pieces: dict[str, tuple[TaskKey, ...]]
    constants: dict[str, Array]

    def plan_for(self, worker: Any) -> Iterator[Callable[[], ReductionNodes]]:
        """Yield one function per share of the worker; each returns the results of the share."""
        data = worker.data
        for share in self.shares[worker.address]:
            task, blocks = data[self.plans[share]]
            task = replace(task, array_names=tuple(self.pieces), constants=self.constants)
            pieces = [keys[share] for keys in self.pieces.values()]
            yield partial(task, self.call, *(data[key] for key in (*blocks, *pieces)))


async def run_direct_call(call: DirectCall, dask_worker: Any) -> list[ReductionNodes] | None:
    """Run all shares of a worker and return their results; None if anything fails."""
    try:
        loop, pool = asyncio.get_running_loop(), dask_worker.executors["default"]
        return await asyncio.gather(
            *(loop.run_in_executor(pool, f) for f in call.plan_for(dask_worker))
        )
    except Exception:
        return None  # the pass is repeated with tasks, which report the error


class ClusterBlocks:
    """The blocks of `collection`, a persisted array, on the workers of `client`.

    Block i has heights[i] rows of `row_bytes` bytes. `spread` is true if `persist` of this package
    placed the blocks on the workers.
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
        # The workers on which `persist` placed the blocks; empty if the user persisted X.
        self._initial_workers: Collection[str] = ()
        if spread:
            with translate_errors(str):
                self._initial_workers = set(get_worker_info(client))
        self._lingering_futures: list[Any] = []

    @property
    def n_workers(self) -> int:
        """Current number of workers."""
        with translate_errors(str):
            return len(get_worker_info(self.client))

    def run(self, call: BlockCall, layout: RowLayout) -> BlockResult:
        """Run the call on all parts and return the merged result.

        The pass is repeated if workers are lost, up to MAX_ATTEMPTS times.
        """
        deaths: Counter[int] = Counter()
        with translate_errors(self._describe_task):
            for _ in range(MAX_ATTEMPTS):
                try:
                    placement = self._locate_blocks()
                    return self._run_pass(call, layout, placement)
                except ClusterLostError as lost:
                    raise ClusterLostError(f"{lost} {self._memory_advice}") from lost
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
            limits = [info["memory_limit"] for info in get_worker_info(self.client).values()]
            raise repeated_deaths_error(
                self._describe_task(self.keys[block]), count, min(limits, default=None)
            )

    def _run_pass(
        self, call: BlockCall, layout: RowLayout, placement: BlockPlacement
    ) -> BlockResult:
        """Run the call once on all parts, by a direct call if possible and otherwise by tasks.

        If a direct call fails, the blocks are located again. The pass is repeated at their new
        workers if they have moved, and otherwise by tasks, which report the error.
        """
        count, residency = len(layout.parts), placement.plan_for(layout)
        # Large sums are added up on the workers, with one task per group of parts.
        by_group = 8 * call.reduced_size > MAX_DIRECT_SUM_BYTES and count > 1
        graph = TaskGraph(call.method)
        arrays, constants = self._send_row_arrays(graph, layout, call, residency)
        serialized, plans, failed = (
            serialize(without_row_arrays(call)),
            residency.resident_arrays.get(PLANS_KEY),
            False,
        )
        if plans and placement.remaining_calls and not by_group and not graph.tasks:
            nodes = self._run_direct_call(
                DirectCall(serialized, residency.by_worker, plans.keys, arrays, constants)
            )
            if nodes is not None:
                return _merge_all(count, nodes)
            if (new_placement := self._locate_blocks(anew=True)).workers != placement.workers:
                return self._run_pass(call, layout, new_placement)
            self._placement, failed = placement, True
        groups = residency.groups if by_group else residency.shares
        inline, call_keys = graph.add_shared_call(serialized, len(groups))
        out_keys = []
        for group in groups:
            task, blocks = self._plan_task(layout, group)
            task = replace(task, call=inline, array_names=tuple(arrays), constants=constants)
            pieces = [keys[group.share_index] for keys in arrays.values()]
            out_keys.append(graph.add(task, [*call_keys, *blocks, *pieces], group.worker))
        if by_group:
            out_keys = graph.add_merge_tree(out_keys, groups, count)
        elif plans is None:
            data = ((self._plan_task(layout, share), share.worker) for share in residency.shares)
            keys = tuple(graph.data(plan, worker, "plan") for plan, worker in data)
            graph.resident_arrays.append(
                (residency.resident_arrays, PLANS_KEY, ResidentArray(weakref.ref(layout), 0, keys))
            )
        outcome = self._gather_result(graph, out_keys, count)
        placement.remaining_calls -= failed
        return outcome

    def _plan_task(self, layout: RowLayout, bundle: TaskGroup) -> tuple[BlockTask, list[TaskKey]]:
        """Return the task of a group, without call and arrays, and the keys of its blocks."""
        parts = tuple(layout.parts[number] for number in bundle.numbers)
        task = BlockTask(None, parts, bundle.numbers, len(layout.parts), bundle.offset)
        return task, [self.keys[part.block] for part in parts]

    def _run_direct_call(self, call: DirectCall) -> list[ReductionNodes] | None:
        """Return the results of all shares of all workers; None if a worker fails."""

        async def ask() -> Any:
            return await self.client.run(run_direct_call, call, workers=list(call.shares))

        self._lingering_futures = []
        try:
            nodes_of_worker = wait_for(self.client, ask(), call.shares)
        except (WorkerLostError, ClusterLostError, ClusterMemoryError, CancelledError):
            raise
        except Exception:
            return None
        if any(nodes is None for nodes in nodes_of_worker.values()):
            return None
        return [nodes for worker_nodes in nodes_of_worker.values() for nodes in worker_nodes]

    def _gather_result(self, graph: TaskGraph, outs: list[TaskKey], count: int) -> BlockResult:
        """Submit the graph and return the merged result of the tasks `outs`."""
        with graph.submit(self.client, outs) as futures:
            # Released only now, because a message to the scheduler delays the next one by 10 ms.
            self._lingering_futures = []
            results = gather_results(self.client, futures, graph.workers)
        outcome = _merge_all(count, results)
        if (
            sum(array.nbytes for array in (*outcome.reduced, *outcome.per_row))
            <= MAX_LINGERING_BYTES
        ):
            self._lingering_futures = futures
        return outcome

    def _send_row_arrays(
        self, graph: TaskGraph, layout: RowLayout, call: BlockCall, sent: Residency
    ) -> tuple[dict[str, tuple[TaskKey, ...]], dict[str, Array]]:
        """Return the keys of the pieces of per-row arrays, by name, and the arrays with equal rows.

        Of an array that repeats one row, only this row is returned.
        """
        arrays, constants = {}, {}
        for name, array in layout.row_arrays(call).items():
            if array.strides[0] == 0:
                constants[name] = array[:1].copy()
            else:
                arrays[name] = self._resident_keys(graph, layout, array, sent)
        return arrays, constants

    def _resident_keys(
        self, graph: TaskGraph, layout: RowLayout, array: Array, sent: Residency
    ) -> tuple[TaskKey, ...]:
        """Return the keys of an array's rows, one per share; the graph sends them if necessary."""
        resident, checksum = sent.resident_arrays.get(id(array)), _checksum(array)
        if resident is None or resident.array_ref() is not array or resident.checksum != checksum:
            pieces = ((_group_rows(array, layout, share), share.worker) for share in sent.shares)
            keys = tuple(graph.data(piece, worker) for piece, worker in pieces)
            name, store = id(array), sent.resident_arrays
            resident = ResidentArray(
                weakref.ref(array, lambda _: store.pop(name, None)), checksum, keys
            )
            graph.resident_arrays.append((store, name, resident))
        return resident.keys

    def _locate_blocks(self, anew: bool = False) -> BlockPlacement:
        """Wait for all blocks and return their placement, cached unless `anew`."""
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
            holders = self.client.who_has(self.futures)
            workers = get_worker_info(self.client)
            places = [[w for w in holders.get(key, ()) if w in workers] for key in self.keys]
            if all(places):
                threads = {w: int(info["nthreads"]) for w, info in workers.items()}
                self._placement = BlockPlacement(tuple(sorted(w)[0] for w in places), threads)
        return self._placement

    def _wait_for_blocks(self) -> None:
        """Wait until all blocks are computed or have failed."""
        try:
            work = import_optional("distributed.client")._wait(self.futures)
            wait_for(self.client, work, self._initial_workers, self.futures)
        except WorkerLostError as gone:
            if not gone.args and not self._initial_workers:
                raise CancelledError(IDLE_MESSAGE) from gone
            self._release_restrictions()

    def _release_restrictions(self) -> None:
        """Allow blocks to be computed on any worker, if `persist` has placed them."""
        if self._initial_workers:
            self._initial_workers = ()
            self.client.run_on_scheduler(release_restrictions, self.keys[0][0])

    @property
    def _memory_advice(self) -> str:
        """Advice for error messages about workers that may have run out of memory."""
        largest = format_bytes(max(self.heights) * self.row_bytes)
        return (
            f"If they ran out of memory: the largest chunk of X takes {largest}, and a pass "
            "holds about two at a time; use smaller ones (X.rechunk({0: n_rows})), a smaller "
            "memory_budget, or workers with more memory."
        )

    def _describe_task(self, key: TaskKey) -> str:
        """Return a description of a task for error messages."""
        if key not in self.keys:
            return "the sum of what several chunks give"
        block = self.keys.index(key)
        start, rows = sum(self.heights[:block]), self.heights[block]
        size = format_bytes(rows * self.row_bytes)
        return f"rows {start} to {start + rows} of X, a chunk of {size}"


def _merge_all(count: int, found: Iterable[ReductionNodes]) -> BlockResult:
    """Merge the nodes of all `count` parts into one result."""
    (outcome,) = merge_nodes(count, *found).values()
    return outcome


def _split_by_thread(layout: RowLayout, placement: BlockPlacement) -> Iterator[TaskGroup]:
    """Yield consecutive parts for each thread of each worker, with similar numbers of rows."""
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
            thread_numbers = np.array(numbers)[thread == i]
            yield TaskGroup(worker, tuple(thread_numbers.tolist()), count)
            count += 1


def _split_by_merge_group(share: TaskGroup, layout: RowLayout) -> Iterator[TaskGroup]:
    """Yield the parts of a share by their group in the reduction tree."""
    offset = 0
    for _, group in groupby(share.numbers, key=lambda number: number // SPLIT_EVERY):
        numbers = tuple(group)
        yield TaskGroup(share.worker, numbers, share.share_index, offset)
        offset += sum(layout.parts[i].stop - layout.parts[i].start for i in numbers)


def _group_rows(array: Array, layout: RowLayout, share: TaskGroup) -> Array:
    """Return the rows of an array that belong to the parts of a share."""
    parts = [layout.parts[number] for number in share.numbers]
    if not all(a.stop == b.start for a, b in pairwise(parts)):
        return np.concatenate([array[part.start : part.stop] for part in parts])
    rows = array[parts[0].start : parts[-1].stop]
    # Distributed keeps small messages for a while, so that a view would keep the whole array alive.
    return rows.copy() if rows.nbytes < MIB else np.ascontiguousarray(rows)


def _checksum(array: Array) -> int:
    """Return the CRC-32 of an array; an array that was changed in place has to be sent again."""
    return zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data)
