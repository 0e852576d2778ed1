"""Task graphs for Dask's scheduler, one per pass, and the placement of their tasks on workers."""

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
# Each task carries its own copy of a call if all copies together have at most this many bytes.
# A larger call is sent once to each worker.
MAX_INLINE_BYTES = 8 * MIB
# Turns off the warning about large graphs: these graphs contain data on purpose.
LARGE_GRAPH_CONFIG = {"distributed.admin.large-graph-warning-threshold": "1TB"}


@dataclass(frozen=True)
class WorkerRestrictions:
    """The worker on which each task has to run, by key; other tasks run anywhere."""

    worker_of_key: dict[TaskKey, str]

    def __call__(self, key: TaskKey) -> list[str]:
        """Return the allowed workers, in the format of Dask's annotations."""
        return [self.worker_of_key[key]] if key in self.worker_of_key else []


@dataclass(frozen=True)
class EvenPlacement:
    """Places consecutive blocks on the same worker, with equally many blocks per slot.

    `slots` holds the address of each worker once per thread; `name` is the name of the array, and
    `count` its number of blocks.
    """

    name: str
    count: int
    slots: tuple[str, ...]

    def __call__(self, key: TaskKey) -> list[str]:
        """Return the allowed workers, in the format of Dask's annotations."""
        if not self.slots or not _makes_block_of(self.name, key):
            return []
        return [self.slots[key[1] * len(self.slots) // self.count]]


def _makes_block_of(name: str, key: TaskKey) -> bool:
    """Whether a task computes blocks of the array `name`, also if Dask has fused tasks into it."""
    return isinstance(key, tuple) and str(key[0]).endswith(name)


def release_restrictions(name: str, dask_scheduler: Any) -> None:
    """Allow blocks to be computed on any worker; runs on the scheduler.

    `allow_other_workers` permits this already, but tasks that wait while there is no worker at all
    do not notice new workers.
    """
    tasks = [task for key, task in dask_scheduler.tasks.items() if _makes_block_of(name, key)]
    for task in tasks:
        task.worker_restrictions = None
    waiting = {task.key: "processing" for task in tasks if task.state == "no-worker"}
    dask_scheduler.transitions(waiting, f"ling-{name}")


class TaskGraph:
    """The tasks of one pass, their workers, and the arrays that stay on the workers after it."""

    def __init__(self, name: str) -> None:
        spec = import_optional("dask._task_spec")
        self.task, self.ref = spec.Task, spec.TaskRef
        self.name = f"ling-{name}-{uuid.uuid4().hex}"
        self.tasks: dict[TaskKey, Any] = {}
        self.restrictions: dict[TaskKey, str] = {}
        self.resident_arrays: list[tuple[dict[int, ResidentArray], int, ResidentArray]] = []

    @property
    def workers(self) -> set[str]:
        """The workers on which tasks of the graph have to run."""
        return set(self.restrictions.values())

    def add(
        self, function: Callable[..., Any], given: Iterable[TaskKey], worker: str = ""
    ) -> TaskKey:
        """Add the task function(*given), where `given` are keys of other tasks; return its key.

        It runs on `worker`, or anywhere if that is empty.
        """
        key = (self.name, len(self.tasks))
        self.tasks[key] = self.task(key, function, *map(self.ref, given))
        if worker:
            self.restrictions[key] = worker
        return key

    def data(self, value: Any, worker: str = "", name: str = "rows") -> TaskKey:
        """Add a value as a task, which can run again if its worker is lost; return its key."""
        key = (f"ling-{name}-{self.name[-32:]}", len(self.tasks))
        self.tasks[key] = self.task(key, ensure_aligned, value)
        if worker:
            self.restrictions[key] = worker
        return key

    def add_shared_call(self, call: bytes, count: int) -> tuple[bytes | None, list[TaskKey]]:
        """Add the serialized call that `count` tasks share.

        Return (call, []) if it is small, and (None, [its key]) if it is large.
        """
        if len(call) * count <= MAX_INLINE_BYTES:
            return call, []
        return None, [self.data(call, name="call")]

    def add_merge_tree(
        self, outs: list[TaskKey], bundles: Sequence[TaskGroup], count: int
    ) -> list[TaskKey]:
        """Add tasks that merge the outputs in the reduction tree; return the key of the root.

        `outs` are the keys of the outputs of `bundles`; the layout has `count` parts.
        """
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
        """Submit the graph in one message; yield the futures of `outs`, released on errors."""
        check_client_running(client)
        dask = import_optional("dask")
        # With the token Dask does not hash all the data.
        graph = import_optional("dask._expr").LLGExpr(self.tasks, _determ_token=self.name)
        all_keys = [
            *outs,
            *(key for _, _, resident in self.resident_arrays for key in resident.keys),
        ]
        with (
            dask.annotate(workers=WorkerRestrictions(self.restrictions)),
            dask.config.set(LARGE_GRAPH_CONFIG),
        ):
            futures = dict(zip(all_keys, client.get(graph, all_keys, sync=False), strict=True))
        for store, name, resident in self.resident_arrays:
            resident.futures.extend(futures[key] for key in resident.keys)
            store[name] = resident
        out_futures = [futures[out] for out in outs]
        try:
            yield out_futures
        except BaseException:
            for future in out_futures:
                future.release()
            raise


def block_keys(collection: Any) -> list[TaskKey]:
    """Return the keys of the blocks of a collection, in order."""
    return list(import_optional("dask.core").flatten(collection.__dask_keys__()))


def futures_of(collection: Any, keys: Sequence[TaskKey]) -> list[Any]:
    """Return the futures of a persisted collection, in the order of `keys`."""
    future_of_key = {
        future.key: future for future in import_optional("distributed").futures_of(collection)
    }
    return [future_of_key[key] for key in keys]


def is_persisted(collection: Any) -> bool:
    """Whether the blocks are on the workers or being computed there, rather than lazy."""
    keys = block_keys(collection)
    future_keys = {future.key for future in import_optional("distributed").futures_of(collection)}
    return set(keys) == future_keys


def persist(client: Any, X: Any) -> Any:
    """Return X persisted on the workers, with consecutive rows on the same worker.

    The number of blocks of a worker is proportional to its number of threads.
    """
    if is_persisted(X):
        return X
    dask = import_optional("dask")
    with translate_errors(str):
        threads = {w: int(info["nthreads"]) for w, info in get_worker_info(client).items()}
        slots = tuple(worker for worker in sorted(threads) for _ in range(threads[worker]))
        placement = EvenPlacement(X.name, X.numblocks[0], slots)
        annotations = dask.annotate(workers=placement, allow_other_workers=True)
        with annotations, dask.config.set(LARGE_GRAPH_CONFIG):
            return client.persist(X)


def fetch_block_shapes(client: Any, X: Any) -> np.ndarray[Any, Any]:
    """Return the shapes of all blocks of a persisted X, as an array (*X.numblocks, 2)."""
    graph = TaskGraph("shape")
    with translate_errors(str):
        outs = [graph.add(np.shape, [key]) for key in block_keys(X)]
        with graph.submit(client, outs) as futures:
            shapes = gather_results(client, futures, ())
    return np.array(shapes).reshape(*X.numblocks, 2)
