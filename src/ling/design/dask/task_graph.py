"""Tasks for dask's scheduler: a graph for each pass, and where its tasks have to run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ling.design.dask.failures import (
    TaskKey,
    check_client_running,
    gather_results,
    get_worker_info,
    import_optional,
    translate_errors,
)
from ling.design.dask.partition import SPLIT_EVERY, ensure_aligned, merge_nodes

if TYPE_CHECKING:
    from ling.design.dask.cluster import ResidentArray, TaskGroup

MIB = 2**20
# An operation goes to each task with it, up to this many bytes in all; above, once to each worker.
MAX_INLINE_BYTES = 8 * MIB
# Graphs that hold data are meant to.
LARGE_GRAPH_CONFIG = {"distributed.admin.large-graph-warning-threshold": "1TB"}


@dataclass(frozen=True)
class WorkerRestrictions:
    """Where tasks have to run, by key; others run anywhere."""

    worker_of_key: dict[TaskKey, str]

    def __call__(self, key: TaskKey) -> list[str]:
        """As dask's annotations have it."""
        return [self.worker_of_key[key]] if key in self.worker_of_key else []


@dataclass(frozen=True)
class EvenPlacement:
    """Where blocks are to be made: consecutive ones on the same worker, as many on each slot."""

    name: str
    count: int
    slots: tuple[str, ...]

    def __call__(self, key: TaskKey) -> list[str]:
        """As dask's annotations have it."""
        if not self.slots or not _makes_block_of(self.name, key):
            return []
        return [self.slots[key[1] * len(self.slots) // self.count]]


def _makes_block_of(name: str, key: TaskKey) -> bool:
    """Whether a task makes blocks of that name, also if dask has put several together in it."""
    return isinstance(key, tuple) and str(key[0]).endswith(name)


def release_restrictions(name: str, dask_scheduler: Any) -> None:
    """Lets blocks be made anywhere, on the scheduler.

    They may be already, but tasks that wait while there is no worker at all do not see new ones.
    """
    tasks = [task for key, task in dask_scheduler.tasks.items() if _makes_block_of(name, key)]
    for task in tasks:
        task.worker_restrictions = None
    waiting = {task.key: "processing" for task in tasks if task.state == "no-worker"}
    dask_scheduler.transitions(waiting, f"ling-{name}")


class TaskGraph:
    """Tasks of one pass, where they have to run, and what is to stay on the workers after it."""

    def __init__(self, name: str) -> None:
        spec = import_optional("dask._task_spec")
        self.task, self.ref = spec.Task, spec.TaskRef
        self.name = f"ling-{name}-{uuid.uuid4().hex}"
        self.tasks: dict[TaskKey, Any] = {}
        self.restrictions: dict[TaskKey, str] = {}
        self.resident_arrays: list[tuple[dict[int, ResidentArray], int, ResidentArray]] = []

    @property
    def workers(self) -> set[str]:
        """Those without which it cannot be done."""
        return set(self.restrictions.values())

    def add(
        self, function: Callable[..., Any], given: Iterable[TaskKey], worker: str = ""
    ) -> TaskKey:
        """function(*given), on that worker or anywhere."""
        key = (self.name, len(self.tasks))
        self.tasks[key] = self.task(key, function, *map(self.ref, given))
        if worker:
            self.restrictions[key] = worker
        return key

    def data(self, value: Any, worker: str = "", name: str = "rows") -> TaskKey:
        """A value: a task that can be done again if its worker is lost."""
        key = (f"ling-{name}-{self.name[-32:]}", len(self.tasks))
        self.tasks[key] = self.task(key, ensure_aligned, value)
        if worker:
            self.restrictions[key] = worker
        return key

    def add_shared_operation(
        self, operation: bytes, count: int
    ) -> tuple[bytes | None, list[TaskKey]]:
        """What `count` tasks have in common: itself, or where it is large the key of it."""
        if len(operation) * count <= MAX_INLINE_BYTES:
            return operation, []
        return None, [self.data(operation, name="operation")]

    def add_merge_tree(
        self, outs: list[TaskKey], bundles: Sequence[TaskGroup], count: int
    ) -> list[TaskKey]:
        """Sums over groups, and over groups of these, until one is left."""
        level = [(bundle.numbers[0], out) for bundle, out in zip(bundles, outs, strict=True)]
        size = SPLIT_EVERY
        while len(level) > 1:
            groups: dict[int, list[TaskKey]] = {}
            for number, out in level:
                groups.setdefault(number // size, []).append(out)
            level = [
                (
                    group * size,
                    keys[0] if len(keys) == 1 else self.add(partial(merge_nodes, count), keys),
                )
                for group, keys in sorted(groups.items())
            ]
            size *= SPLIT_EVERY
        return [level[0][1]]

    @contextmanager
    def submit(self, client: Any, outs: list[TaskKey]) -> Iterator[list[Any]]:
        """Their futures, given up if something goes wrong; in one message."""
        check_client_running(client)
        dask = import_optional("dask")
        # The token spares dask hashing all data.
        graph = import_optional("dask._expr").LLGExpr(self.tasks, _determ_token=self.name)
        wanted = [*outs, *(key for _, _, kept in self.resident_arrays for key in kept.keys)]
        with (
            dask.annotate(workers=WorkerRestrictions(self.restrictions)),
            dask.config.set(LARGE_GRAPH_CONFIG),
        ):
            futures = dict(zip(wanted, client.get(graph, wanted, sync=False), strict=True))
        for store, name, kept in self.resident_arrays:
            kept.futures.extend(futures[key] for key in kept.keys)
            store[name] = kept
        found = [futures[out] for out in outs]
        try:
            yield found
        except BaseException:
            for future in found:
                future.release()
            raise


def block_keys(collection: Any) -> list[TaskKey]:
    """The keys of blocks, in order."""
    return list(import_optional("dask.core").flatten(collection.__dask_keys__()))


def futures_of(collection: Any, keys: Sequence[TaskKey]) -> list[Any]:
    """The futures of a collection that is on the workers."""
    found = {future.key: future for future in import_optional("distributed").futures_of(collection)}
    return [found[key] for key in keys]


def is_persisted(collection: Any) -> bool:
    """Whether it is on the workers, or on its way there, rather than a recipe."""
    keys = block_keys(collection)
    found = {future.key for future in import_optional("distributed").futures_of(collection)}
    return set(keys) == found


def persist(client: Any, X: Any) -> Any:
    """X on the workers, made from its own graph; consecutive rows on the same worker.

    Workers get as many blocks as they have threads for.
    """
    if is_persisted(X):
        return X
    dask = import_optional("dask")
    with translate_errors(str):
        threads = {w: int(about["nthreads"]) for w, about in get_worker_info(client).items()}
        slots = tuple(worker for worker in sorted(threads) for _ in range(threads[worker]))
        spread = EvenPlacement(X.name, X.numblocks[0], slots)
        annotations = dask.annotate(workers=spread, allow_other_workers=True)
        with annotations, dask.config.set(LARGE_GRAPH_CONFIG):
            return client.persist(X)


def fetch_block_shapes(client: Any, X: Any) -> np.ndarray[Any, Any]:
    """The shapes of all blocks of an X that is on the workers, as a grid."""
    graph = TaskGraph("shape")
    with translate_errors(str):
        outs = [graph.add(np.shape, [key]) for key in block_keys(X)]
        with graph.submit(client, outs) as futures:
            found = gather_results(client, futures, ())
    return np.array(found).reshape(*X.numblocks, 2)
