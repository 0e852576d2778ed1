"""Thread pool for kernels compiled by numba, with as many threads as BLAS; safe to fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from ling._typing import Array

THREAD_NAME_PREFIX = "ling-kernel"
# Limit on the bytes of all partial results of a parallel sweep, unless every thread has just one.
MAX_PARTIAL_BYTES = 2**27
T = TypeVar("T")
R = TypeVar("R")

# Kernels release the GIL and run in Python threads. numba's own `parallel=True` is not used: its
# default layer aborts the process when two threads enter it at once.
_pools: dict[int, ThreadPoolExecutor] = {}


@cache
def _blas_libraries() -> list[Any]:
    import scipy.linalg  # noqa: F401  (loads SciPy's BLAS, so that the controller sees it)

    libraries = ThreadpoolController().lib_controllers
    return [library for library in libraries if library.user_api == "blas"]


def n_threads() -> int:
    """Number of threads: that of BLAS, so that `threadpoolctl.threadpool_limits` sets both."""
    libraries = _blas_libraries()
    if not libraries:
        return os.cpu_count() or 1
    counts = _blas_limiter.saved_counts or [int(library.num_threads) for library in libraries]
    return max(1, min(counts))


class _BlasLimiter:
    """Context manager that limits BLAS to one thread while at least one user is inside.

    The last user to leave restores the number of threads.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n_users = 0
        self.saved_counts: list[int] = []

    def __enter__(self) -> None:
        with self.lock:
            if self.n_users == 0:
                libraries = _blas_libraries()
                self.saved_counts = [int(library.num_threads) for library in libraries]
                for library in libraries:
                    library.set_num_threads(1)
            self.n_users += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.n_users -= 1
            if self.n_users == 0:
                self.restore()

    def restore(self) -> None:
        """Restore the number of BLAS threads."""
        counts, self.saved_counts = self.saved_counts, []
        for library, number in zip(_blas_libraries(), counts, strict=True):
            library.set_num_threads(number)


_blas_limiter = _BlasLimiter()


def _after_fork() -> None:
    """Reset pools and limiter in a forked child.

    The child has only the thread that forked: the pools are gone, and no other thread would leave
    the limiter.
    """
    _pools.clear()
    _blas_limiter.lock = threading.Lock()
    if _blas_limiter.n_users:
        _blas_limiter.n_users = 0
        _blas_limiter.restore()


if hasattr(os, "register_at_fork"):  # not on systems without fork
    os.register_at_fork(after_in_child=_after_fork)


def single_threaded_blas() -> _BlasLimiter:
    """Context manager for small factorisations, which one BLAS thread does about as fast.

    Several threads would keep spinning for a while after each call, on the cores that the compiled
    loops need.
    """
    return _blas_limiter


def n_slices(n_bytes: int) -> int:
    """Number of parts of a parallel sweep, each with a partial result of `n_bytes`.

    There are several parts per thread, so that a delayed thread does not delay the others. (BLAS
    keeps its threads spinning for a while after a call, on the cores that the sweep needs.) Large
    partial results mean fewer parts.
    """
    workers = n_threads()
    return (
        1 if workers == 1 else max(workers, min(8 * workers, MAX_PARTIAL_BYTES // max(1, n_bytes)))
    )


def split_rows(rows: slice, pieces: int) -> list[slice]:
    """Split `rows` into `pieces` ranges of about equal length."""
    bounds = np.linspace(rows.start, rows.stop, pieces + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(bounds)]


def parallel_map(task: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """`[task(part) for part in parts]`, computed in parallel."""
    # Inside the pool, parts run serially: a task that waits for tasks of its own pool can deadlock.
    workers = n_threads()
    if min(workers, len(parts)) <= 1 or threading.current_thread().name.startswith(
        THREAD_NAME_PREFIX
    ):
        return [task(part) for part in parts]
    pool = _pools.get(workers)
    if pool is None:
        pool = _pools.setdefault(workers, ThreadPoolExecutor(workers, THREAD_NAME_PREFIX))
    return list(pool.map(task, parts))


def parallel_sum(task: Callable[[T], Array], parts: Sequence[T]) -> Array:
    """Sum of the results of all parts, added in the order of the parts for reproducibility."""
    results = parallel_map(task, parts)
    for result in results[1:]:
        np.add(results[0], result, out=results[0])
    return results[0]
