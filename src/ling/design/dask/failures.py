"""Wait for the workers of a cluster, and turn their failures into errors that say what to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias, TypeVar

from ling.design.dask.partition import WorkerMemoryError
from ling.errors import ClusterLostError, ClusterMemoryError, MissingPackageError
from ling.wording import format_bytes

#: Seconds without any worker, or with workers paused because their memory is full, after which an
#: error is raised. The option `ling.patience` of Dask's configuration overrides it.
PATIENCE_SECONDS = 20.0
# Seconds during which tasks are pending but no worker is active, after which tasks are sent again.
STALL_SECONDS = 300.0
IDLE_MESSAGE = "no worker has done anything for a long time, though there was something to do"
# Seconds of waiting until the workers are checked for the first time, and between further checks.
FIRST_POLL_SECONDS, POLL_SECONDS = 0.3, 1.0

TaskKey: TypeAlias = Any
T = TypeVar("T")


class WorkerLostError(Exception):
    """Workers that tasks were to run on have disappeared; the args are their addresses."""


class UserGraphError(Exception):
    """Wraps an error raised by the user's own graph of X, neither by ling nor by the cluster."""


def import_optional(module: str) -> Any:
    """Import a module of Dask; raise MissingPackageError with advice if it is missing."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            "X is a dask array, and dask is not installed, or only in part; "
            "run `pip install 'ling[dask]'`."
        ) from error


@contextmanager
def translate_errors(describe: Callable[[TaskKey], str]) -> Iterator[None]:
    """Turn errors of distributed into errors that say what to do.

    `describe` returns a description of the task with a given key.
    """
    try:
        yield
    except UserGraphError as error:
        raise error.args[0] from None
    except WorkerMemoryError as error:
        start, stop, n_bytes, limit = error.args
        raise ClusterMemoryError(
            f"out of memory at rows {start} to {stop} of X, which lie in a chunk of "
            f"{format_bytes(n_bytes)}{_limit_text(limit)}. {_MEMORY_ADVICE}"
        ) from error
    except MemoryError as error:
        if isinstance(error, ClusterMemoryError):
            raise
        raise ClusterMemoryError(
            f"a worker ran out of memory ({error}). {_MEMORY_ADVICE}"
        ) from error
    except (CancelledError, asyncio.CancelledError, ConnectionError, TimeoutError) as error:
        raise _cluster_lost_error(error) from error
    except Exception as error:
        if type(error).__name__ == "KilledWorker":
            task, worker, failures = error.args
            raise repeated_deaths_error(
                describe(task), failures + 1, worker.memory_limit
            ) from error
        if isinstance(error, OSError) and type(error).__module__.startswith("distributed"):
            raise _cluster_lost_error(error) from error
        raise


_MEMORY_ADVICE = (
    "Use smaller chunks (X.rechunk({0: n_rows})), a smaller memory_budget, or workers with more "
    "memory; float32 takes half as much as float64."
)


def repeated_deaths_error(where: str, count: int, limit: int | None) -> ClusterMemoryError:
    """Return the error for rows on which `count` workers have died in turn."""
    return ClusterMemoryError(
        f"{count} workers died one after the other, each while it worked on {where}; most often "
        f"they have run out of memory{_limit_text(limit)}. {_MEMORY_ADVICE} The workers' logs "
        f"say more."
    )


def _limit_text(limit: int | None) -> str:
    """Return a clause with the memory limit of a worker in bytes; empty if there is none."""
    return f"; the limit of a worker is {format_bytes(limit)}" if limit else ""


def _cluster_lost_error(error: BaseException) -> ClusterLostError:
    """Return the error for a lost scheduler or client, which quotes the original error."""
    return ClusterLostError(
        f"the scheduler or the client is gone, and X with it ({type(error).__name__}: "
        f"{str(error).splitlines()[0] if str(error) else 'no reason given'}); connect a new "
        "Client, make X again, and fit again."
    )


def gather_results(client: Any, futures: list[Any], workers: Collection[str]) -> list[Any]:
    """Return the results of the futures, or raise the first error among them."""
    # Errors are raised here and not by gather: a gather that is cancelled half-way would log them.
    work = client.gather(futures, errors="skip", asynchronous=True)
    results = wait_for(client, work, workers, futures)
    if len(results) < len(futures):
        errors = [future.exception() for future in futures if future.status == "error"]
        raise errors[0] if errors else CancelledError("it was cancelled")
    return list(results)


def wait_for(
    client: Any, work: Awaitable[T], workers: Collection[str], futures: Sequence[Any] = ()
) -> T:
    """Return the result of the awaitable `work`; raise if it cannot be completed any more.

    It cannot be completed if one of `workers` disappears, or if there has been no worker for too
    long. `futures` are the tasks that `work` waits for.
    """
    done = _submit_coroutine(client, work)
    monitor = WorkerMonitor(client, workers, futures)
    timeout = FIRST_POLL_SECONDS
    try:
        while True:
            try:
                return done.result(timeout)  # type: ignore[no-any-return]
            except TimeoutError:
                if done.done():
                    raise
            except Exception:
                check_client_running(client)  # a closed client causes errors of many types
                raise
            monitor.check()
            timeout = POLL_SECONDS
    finally:
        done.cancel()


def check_client_running(client: Any) -> None:
    """Raise CancelledError if the client is not connected to its scheduler."""
    if client.status != "running":
        raise CancelledError(f"the client is {client.status}")


def _submit_coroutine(client: Any, work: Any) -> Any:
    """Run a coroutine in the event loop of the client; return its concurrent future."""
    return asyncio.run_coroutine_threadsafe(work, client.loop.asyncio_loop)


class WorkerMonitor:
    """Checks that required workers are alive, not paused, and active while futures are pending.

    `wanted` are the addresses of the required workers.
    """

    def __init__(self, client: Any, wanted: Collection[str], futures: Sequence[Any]) -> None:
        self.client, self.required_workers, self.futures = client, set(wanted), futures
        patience = import_optional("dask").config.get("ling.patience", PATIENCE_SECONDS)
        self.patience = float(patience)
        self.last_able_time = self.last_active_time = time.monotonic()

    def check(self) -> None:
        """Raise an error if the futures cannot be expected to complete any more.

        WorkerLostError if a required worker is gone or nothing has been done for STALL_SECONDS;
        ClusterLostError or ClusterMemoryError if there has been no worker, or a paused one, for
        `patience` seconds.
        """
        workers = get_worker_info(self.client, self.patience)
        if workers and (gone := self.required_workers - set(workers)):
            raise WorkerLostError(*gone)
        self._check_stall(workers)
        paused = {worker for worker, info in workers.items() if info["status"] == "paused"}
        able = set(workers) - paused
        if able and able >= self.required_workers:
            self.last_able_time = time.monotonic()
        if time.monotonic() - self.last_able_time < self.patience:
            return
        if not workers:
            raise ClusterLostError(
                f"there has been no worker for {self.patience:g} seconds; start workers, or a new "
                "cluster, make X again, and fit again. To wait longer: "
                "dask.config.set({'ling.patience': seconds})."
            )
        raise ClusterMemoryError(
            f"{len(paused)} of {len(workers)} workers have stopped, as their memory is full"
            f"{_limit_text(workers[min(paused)]['memory_limit'])}. {_MEMORY_ADVICE}"
        )

    def _check_stall(self, workers: dict[str, Any]) -> None:
        """Raise WorkerLostError if tasks are pending but no worker was active for STALL_SECONDS."""
        counts = [info["metrics"].get("task_counts", {}) for info in workers.values()]
        waiting = any(future.status == "pending" for future in self.futures)
        if not waiting or any(set(count) - {"memory", "released"} for count in counts):
            self.last_active_time = time.monotonic()
        elif workers and time.monotonic() - self.last_active_time > STALL_SECONDS:
            raise WorkerLostError


def get_worker_info(client: Any, patience: float = PATIENCE_SECONDS) -> dict[str, Any]:
    """Return the scheduler's information about each worker, by address."""
    check_client_running(client)
    identity = _submit_coroutine(client, client.scheduler.identity(n_workers=-1)).result(patience)
    return dict(identity["workers"])
