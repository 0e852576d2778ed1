"""A pool for the kernels that numba compiles: as many threads as BLAS uses, safe to fork."""

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
    """Threads to use: BLAS's number, so that `threadpoolctl.threadpool_limits` rules both."""
    libraries = _blas_libraries()
    if not libraries:
        return os.cpu_count() or 1
    numbers = _blas_limiter.saved_counts or [int(library.num_threads) for library in libraries]
    return max(1, min(numbers))


class _BlasLimiter:
    """Keeps BLAS to one thread for as long as anybody wants it, and then gives it back its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n_users = 0
        self.saved_counts: list[int] = []

    def __enter__(self) -> None:
        with self.lock:
            if self.n_users == 0:
                self.saved_counts = [int(library.num_threads) for library in _blas_libraries()]
                for library in _blas_libraries():
                    library.set_num_threads(1)
            self.n_users += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.n_users -= 1
            if self.n_users == 0:
                self.restore()

    def restore(self) -> None:
        """Give BLAS back its threads."""
        for library, number in zip(_blas_libraries(), self.saved_counts, strict=True):
            library.set_num_threads(number)
        self.saved_counts = []


_blas_limiter = _BlasLimiter()


def _after_fork() -> None:
    """The child has one thread: no pool, and nobody that would end a quiet it was born into."""
    _pools.clear()
    _blas_limiter.lock = threading.Lock()
    if _blas_limiter.n_users:
        _blas_limiter.n_users = 0
        _blas_limiter.restore()


if hasattr(os, "register_at_fork"):  # where there is no fork, there is nothing to survive
    os.register_at_fork(after_in_child=_after_fork)


def single_threaded_blas() -> _BlasLimiter:
    """`with quiet_blas():` for small factorisations, which one thread does about as fast.

    Several would spin on after each, for a while, on the cores that our loops need.
    """
    return _blas_limiter


def n_slices(n_bytes: int) -> int:
    """Parts to cut a sweep into: several a thread, so that a thread held up holds nobody up.

    (BLAS keeps its threads spinning for a while after a call, on the cores that we need.) Each has
    a result of `n_bytes`, so there are fewer of large ones.
    """
    workers = n_threads()
    return (
        1 if workers == 1 else max(workers, min(8 * workers, MAX_PARTIAL_BYTES // max(1, n_bytes)))
    )


def split_rows(rows: slice, pieces: int) -> list[slice]:
    """`rows` in that many ranges of about equal length."""
    bounds = np.linspace(rows.start, rows.stop, pieces + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(bounds)]


def parallel_map(task: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """`[task(part) for part in parts]`, the parts side by side."""
    # A task of the pool that waited for other tasks of the pool could wait forever.
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
    """The sum of what the parts give, added in their order, whichever finished first."""
    results = parallel_map(task, parts)
    for result in results[1:]:
        np.add(results[0], result, out=results[0])
    return results[0]
