"""Tasks for dask's scheduler: a graph for each pass, and where its tasks have to run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ling.design.dask.faults import Key, gathered, needed, refuse_closed, telling, workers_of
from ling.design.dask.parts import GROUP, aligned, merged

if TYPE_CHECKING:
    from ling.design.dask.cluster import Bundle, Kept

MB = 2**20
# An operation goes to each task with it, up to this many bytes in all; above, once to each worker.
INLINE = 8 * MB
# Graphs that hold data are meant to.
QUIET = {"distributed.admin.large-graph-warning-threshold": "1TB"}


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
        threads = {w: int(about["nthreads"]) for w, about in workers_of(client).items()}
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
