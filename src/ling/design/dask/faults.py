"""What can go wrong with workers that are waited for, in words that say what to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

from ling.design.dask.parts import NoRoom
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

Key: TypeAlias = Any
T = TypeVar("T")


class WorkerGone(Exception):
    """Workers that something was to run on are there no more: their addresses."""


class Theirs(Exception):
    """What making X has raised: nothing of ours, and nothing of the cluster's."""


def needed(module: str) -> Any:
    """A module of dask."""
    try:
        return import_module(module)
    except ImportError as error:
        raise NotInstalled(
            "X is a dask array, and dask is not installed, or only in part; "
            "run `pip install 'ling[dask]'`."
        ) from error


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
            raise deaths_over(describe(task), failures + 1, worker.memory_limit) from error
        if isinstance(error, OSError) and type(error).__module__.startswith("distributed"):
            raise _lost(error) from error
        raise


_REMEDY = (
    "Use smaller chunks (X.rechunk({0: n_rows})), a smaller memory_budget, or workers with more "
    "memory; float32 takes half as much as float64."
)


def deaths_over(where: str, count: int, limit: int | None) -> ClusterMemory:
    """The error for rows that so many workers have died of."""
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
        workers = workers_of(self.client, self.patience)
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


def workers_of(client: Any, patience: float = PATIENCE) -> dict[str, Any]:
    """Those that the scheduler knows, and what it knows about them."""
    refuse_closed(client)
    about = _started(client, client.scheduler.identity(n_workers=-1)).result(patience)
    return dict(about["workers"])
