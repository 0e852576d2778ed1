"""Passes over blocks of rows that lie on the workers of a dask cluster, and what can go wrong."""

from __future__ import annotations

import asyncio
import time
import uuid
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from itertools import groupby, pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ling.design.arrays import Array
from ling.design.operations import Operation, Outcome
from ling.design.parts import GROUP, Layout, Nodes, NoRoom, Work, aligned, merged, packed, stripped
from ling.errors import ClusterLost, ClusterMemory, NotInstalled

MB = 2**20
#: Seconds without any worker, or with workers that have stopped for want of memory, until it is an
#: error; dask's configuration may have another number as `ling.patience`.
PATIENCE = 20.0
# Seconds in which no worker does anything, though tasks are waited for, until they are sent again.
STALLED = 300.0
IDLE = "no worker has done anything for a long time, though there was something to do"
# A look at the workers: after this many seconds of waiting, and then as often.
FIRST_LOOK, LOOK = 0.3, 1.0
# How often the same rows may have been on a worker that died; how many workers may in one pass.
SAME, LIVES = 3, 12
# Sums of at most this many bytes go straight to the client: a task takes the scheduler as long.
LARGE = MB // 2
# An operation goes to each task with it, up to this many bytes in all; above, once to each worker.
INLINE = 8 * MB
# Results of a pass that may wait on the workers until the next has started.
LEFT = 16 * MB
# Graphs that hold data are meant to.
QUIET = {"distributed.admin.large-graph-warning-threshold": "1TB"}
# How often calls may fail until no more are made.
CALLS = 3
# Under this name, which is no array's id, the plans of shares are kept.
PLANS = 0
# Numbers of an array by which a change in place shows.
SAMPLE = 1024

Key: TypeAlias = Any
T = TypeVar("T")


class WorkerGone(Exception):
    """Workers that something was to run on are there no more: their addresses."""


class Theirs(Exception):
    """What making X has raised: nothing of ours, and nothing of the cluster's."""


@dataclass(frozen=True)
class Pins:
    """Where tasks have to run, by key; others run anywhere."""

    places: dict[Key, str]

    def __call__(self, key: Key) -> list[str]:
        """As dask's annotations have it."""
        return [self.places[key]] if key in self.places else []


@dataclass(frozen=True)
class Spread:
    """Where blocks are to be made: consecutive ones on the same worker, as many on each slot."""

    name: str
    count: int
    slots: tuple[str, ...]

    def __call__(self, key: Key) -> list[str]:
        """As dask's annotations have it."""
        if not self.slots or not _is_of(self.name, key):
            return []
        return [self.slots[key[1] * len(self.slots) // self.count]]


def _is_of(name: str, key: Key) -> bool:
    """Whether a task makes blocks of that name, also if dask has put several together in it."""
    return isinstance(key, tuple) and str(key[0]).endswith(name)


def freed(name: str, dask_scheduler: Any) -> None:
    """Lets blocks be made anywhere, on the scheduler.

    They may be already, but tasks that wait while there is no worker at all do not see new ones.
    """
    tasks = [task for key, task in dask_scheduler.tasks.items() if _is_of(name, key)]
    for task in tasks:
        task.worker_restrictions = None
    waiting = {task.key: "processing" for task in tasks if task.state == "no-worker"}
    dask_scheduler.transitions(waiting, f"ling-{name}")


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
    looks: bytes
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
                self._first = set(_workers(client))
        self._left: list[Any] = []

    @property
    def n_workers(self) -> int:
        """Workers there are now."""
        with telling(str):
            return len(_workers(self.client))

    def run(self, operation: Operation, layout: Layout, p: int) -> Outcome:
        """What all parts give together, whatever becomes of single workers meanwhile."""
        if not layout.parts:
            return Outcome()
        deaths: Counter[int] = Counter()
        with telling(self._describe):
            for _ in range(LIVES):
                placement = self._placed()
                try:
                    return self._pass(operation, layout, p, placement)
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
            limits = [about["memory_limit"] for about in _workers(self.client).values()]
            raise _deaths(self._describe(self.keys[block]), count, min(limits, default=None))

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
            graph.kept.append((sent.kept, PLANS, Kept(weakref.ref(layout), b"", keys)))
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
            workers = _workers(self.client)
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

    def _describe(self, key: Key) -> str:
        """A task in words."""
        if key not in self.keys:
            return "the sum of what several chunks give"
        block = self.keys.index(key)
        start, rows = sum(self.heights[:block]), self.heights[block]
        size = rows * self.width / MB
        return f"rows {start} to {start + rows} of X, a chunk of {size:.3g} MB"


class Graph:
    """Tasks of one pass, where they have to run, and what is to stay on the workers after it."""

    def __init__(self, name: str) -> None:
        spec = needed("dask._task_spec")
        self.task, self.ref = spec.Task, spec.TaskRef
        self.name = f"ling-{name}-{uuid.uuid4().hex}"
        self.tasks: dict[Key, Any] = {}
        self.pins: dict[Key, str] = {}
        self.kept: list[tuple[dict[int, Kept], int, Kept]] = []

    @property
    def workers(self) -> set[str]:
        """Those without which it cannot be done."""
        return set(self.pins.values())

    def add(self, function: Callable[..., Any], given: Iterable[Key], worker: str = "") -> Key:
        """function(*given), on that worker or anywhere."""
        key = (self.name, len(self.tasks))
        self.tasks[key] = self.task(key, function, *map(self.ref, given))
        if worker:
            self.pins[key] = worker
        return key

    def data(self, value: Any, worker: str = "", name: str = "rows") -> Key:
        """A value: a task that can be done again if its worker is lost."""
        key = (f"ling-{name}-{self.name[-32:]}", len(self.tasks))
        self.tasks[key] = self.task(key, aligned, value)
        if worker:
            self.pins[key] = worker
        return key

    def common(self, operation: bytes, count: int) -> tuple[bytes | None, list[Key]]:
        """What `count` tasks have in common: itself, or where it is large the key of it."""
        if len(operation) * count <= INLINE:
            return operation, []
        return None, [self.data(operation, name="operation")]

    def tree(self, outs: list[Key], bundles: Sequence[Bundle], count: int) -> list[Key]:
        """Sums over groups, and over groups of these, until one is left."""
        level = [(bundle.numbers[0], out) for bundle, out in zip(bundles, outs, strict=True)]
        size = GROUP
        while len(level) > 1:
            groups: dict[int, list[Key]] = {}
            for number, out in level:
                groups.setdefault(number // size, []).append(out)
            level = [
                (
                    group * size,
                    keys[0] if len(keys) == 1 else self.add(partial(merged, count), keys),
                )
                for group, keys in sorted(groups.items())
            ]
            size *= GROUP
        return [level[0][1]]

    @contextmanager
    def submitted(self, client: Any, outs: list[Key]) -> Iterator[list[Any]]:
        """Their futures, given up if something goes wrong; in one message."""
        refuse_closed(client)
        dask = needed("dask")
        # The token spares dask hashing all data.
        graph = needed("dask._expr").LLGExpr(self.tasks, _determ_token=self.name)
        wanted = [*outs, *(key for _, _, kept in self.kept for key in kept.keys)]
        with dask.annotate(workers=Pins(self.pins)), dask.config.set(QUIET):
            futures = dict(zip(wanted, client.get(graph, wanted, sync=False), strict=True))
        for store, name, kept in self.kept:
            kept.futures.extend(futures[key] for key in kept.keys)
            store[name] = kept
        found = [futures[out] for out in outs]
        try:
            yield found
        except BaseException:
            for future in found:
                future.release()
            raise


def needed(module: str) -> Any:
    """A module of dask."""
    try:
        return import_module(module)
    except ImportError as error:
        raise NotInstalled(
            "X is a dask array, and dask is not installed, or only in part; "
            "run `pip install 'ling[dask]'`."
        ) from error


def block_keys(collection: Any) -> list[Key]:
    """The keys of blocks, in order."""
    return list(needed("dask.core").flatten(collection.__dask_keys__()))


def held(collection: Any, keys: Sequence[Key]) -> list[Any]:
    """The futures of a collection that is on the workers."""
    found = {future.key: future for future in needed("distributed").futures_of(collection)}
    return [found[key] for key in keys]


def is_there(collection: Any) -> bool:
    """Whether it is on the workers, or on its way there, rather than a recipe."""
    keys = block_keys(collection)
    found = {future.key for future in needed("distributed").futures_of(collection)}
    return set(keys) == found


def persisted(client: Any, X: Any) -> Any:
    """X on the workers, made from its own graph; consecutive rows on the same worker.

    Workers get as many blocks as they have threads for.
    """
    if is_there(X):
        return X
    dask = needed("dask")
    with telling(str):
        threads = {w: int(about["nthreads"]) for w, about in _workers(client).items()}
        slots = tuple(worker for worker in sorted(threads) for _ in range(threads[worker]))
        spread = Spread(X.name, X.numblocks[0], slots)
        annotations = dask.annotate(workers=spread, allow_other_workers=True)
        with annotations, dask.config.set(QUIET):
            return client.persist(X)


def shapes(client: Any, X: Any) -> np.ndarray[Any, Any]:
    """The shapes of all blocks of an X that is on the workers, as a grid."""
    graph = Graph("shape")
    with telling(str):
        outs = [graph.add(np.shape, [key]) for key in block_keys(X)]
        with graph.submitted(client, outs) as futures:
            found = gathered(client, futures, ())
    return np.array(found).reshape(*X.numblocks, 2)


@contextmanager
def telling(describe: Callable[[Key], str]) -> Iterator[None]:
    """What distributed raises, in words that say what to do; `describe` puts a task's key so."""
    try:
        yield
    except Theirs as error:
        raise error.args[0] from None
    except NoRoom as error:
        start, stop, n_bytes, limit = error.args
        raise ClusterMemory(
            f"out of memory at rows {start} to {stop} of X, which lie in a chunk of "
            f"{n_bytes / MB:.3g} MB{_limit(limit)}. {_REMEDY}"
        ) from error
    except MemoryError as error:
        if isinstance(error, ClusterMemory):
            raise
        raise ClusterMemory(f"a worker ran out of memory ({error}). {_REMEDY}") from error
    except (CancelledError, asyncio.CancelledError, ConnectionError, TimeoutError) as error:
        raise _lost(error) from error
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            task, worker, failures = error.args
            raise _deaths(describe(task), failures + 1, worker.memory_limit) from error
        if isinstance(error, OSError) and type(error).__module__.startswith("distributed"):
            raise _lost(error) from error
        raise


_REMEDY = (
    "Use smaller chunks (X.rechunk({0: n_rows})), a smaller memory_budget, or workers with more "
    "memory; float32 takes half as much as float64."
)


def _deaths(where: str, count: int, limit: int | None) -> ClusterMemory:
    return ClusterMemory(
        f"{count} workers died one after the other, each while it worked on {where}; most often "
        f"they have run out of memory{_limit(limit)}. {_REMEDY} The workers' logs say more."
    )


def _limit(limit: int | None) -> str:
    return f"; the limit of a worker is {limit / MB:.4g} MB" if limit else ""


def _lost(error: BaseException) -> ClusterLost:
    return ClusterLost(
        f"the scheduler or the client is gone, and X with it ({type(error).__name__}: "
        f"{str(error).splitlines()[0] if str(error) else 'no reason given'}); connect a new "
        "Client, make X again, and fit again."
    )


# Waiting


def gathered(client: Any, futures: list[Any], workers: Collection[str]) -> list[Any]:
    """Their results, or the first error among them."""
    # Errors are looked at here: a gather that is given up in the middle would complain of them.
    work = client.gather(futures, errors="skip", asynchronous=True)
    found = waited(client, work, workers, futures)
    if len(found) < len(futures):
        errors = [future.exception() for future in futures if future.status == "error"]
        raise errors[0] if errors else CancelledError("it was cancelled")
    return list(found)


def waited(
    client: Any, work: Awaitable[T], workers: Collection[str], futures: Sequence[Any] = ()
) -> T:
    """What it gives, for as long as these workers, or at least some, are there.

    `futures` are the tasks that it waits for.
    """
    done = _started(client, work)
    watch = Watch(client, workers, futures)
    pause = FIRST_LOOK
    try:
        while True:
            try:
                return done.result(pause)  # type: ignore[no-any-return]
            except TimeoutError:
                if done.done():
                    raise
            except Exception:
                refuse_closed(client)  # which shows as errors of all sorts
                raise
            watch.look()
            pause = LOOK
    finally:
        done.cancel()


def refuse_closed(client: Any) -> None:
    """An error if the client is not connected to its scheduler."""
    if client.status != "running":
        raise CancelledError(f"the client is {client.status}")


def _started(client: Any, work: Any) -> Any:
    return asyncio.run_coroutine_threadsafe(work, client.loop.asyncio_loop)


class Watch:
    """Looks whether workers are there, and able to work."""

    def __init__(self, client: Any, wanted: Collection[str], futures: Sequence[Any]) -> None:
        self.client, self.wanted, self.futures = client, set(wanted), futures
        patience = needed("dask").config.get("ling.patience", PATIENCE)
        self.patience = float(patience)
        self.well = self.active = time.monotonic()

    def look(self) -> None:
        """An error if it is of no use to wait any longer."""
        workers = _workers(self.client, self.patience)
        if workers and (gone := self.wanted - set(workers)):
            raise WorkerGone(*gone)
        self._refuse_stall(workers)
        paused = {worker for worker, about in workers.items() if about["status"] == "paused"}
        able = set(workers) - paused
        if able and able >= self.wanted:
            self.well = time.monotonic()
        if time.monotonic() - self.well < self.patience:
            return
        if not workers:
            raise ClusterLost(
                f"there has been no worker for {self.patience:g} seconds; start workers, or a new "
                "cluster, make X again, and fit again. To wait longer: "
                "dask.config.set({'ling.patience': seconds})."
            )
        raise ClusterMemory(
            f"{len(paused)} of {len(workers)} workers have stopped, as their memory is full"
            f"{_limit(workers[min(paused)]['memory_limit'])}. {_REMEDY}"
        )

    def _refuse_stall(self, workers: dict[str, Any]) -> None:
        """As if workers were gone, if tasks wait, and none of those there are does anything."""
        counts = [about["metrics"].get("task_counts", {}) for about in workers.values()]
        waiting = any(future.status == "pending" for future in self.futures)
        if not waiting or any(set(count) - {"memory", "released"} for count in counts):
            self.active = time.monotonic()
        elif workers and time.monotonic() - self.active > STALLED:
            raise WorkerGone


def _workers(client: Any, patience: float = PATIENCE) -> dict[str, Any]:
    """Those that the scheduler knows, and what it knows about them."""
    refuse_closed(client)
    about = _started(client, client.scheduler.identity(n_workers=-1)).result(patience)
    return dict(about["workers"])


# What goes to the workers, and comes from them


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


def _looks(array: Array) -> bytes:
    """Some of its numbers: an array that was changed in place has to be sent again."""
    return np.ascontiguousarray(array[:: max(1, len(array) // SAMPLE)]).tobytes()
