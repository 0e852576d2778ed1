"""Thread pool for kernels compiled by numba, with as many threads as BLAS; safe to fork."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from ling._typing import Array

THREAD_NAME_PREFIX = "ling-kernel"
# Limit on the bytes of all partial results of a parallel sweep, unless every thread has just one.
MAX_PARTIAL_BYTES = 2**27
PARTS_PER_THREAD = 8
# Least number of bytes of a part, which take about 0.05 ms to read: handing a part to a thread
# takes about 0.03 ms. Blocks of 1 MiB in 16 parts took twice as long as in two.
MIN_PART_BYTES = 2**19
# Limit on the bytes of all partial results, relative to the data that are read. A partial result is
# cleared, filled and added, which moves about four times its bytes: a quarter of the data at most.
MAX_PARTIAL_FRACTION = 1 / 16
# Multiply-adds of one call of BLAS from which threads pay: 4,000 x 300 in X'X, or a Cholesky factor
# of order 1,000. Below, one thread took at most 1.3 times as long (OpenBLAS 0.3.31, two cores), and
# with more the threads of two BLAS libraries compete.
MIN_PARALLEL_FLOPS = 4e8
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


def blas_kernels() -> frozenset[str]:
    """Names of the processors that the kernels of each BLAS are for; "" if it does not say."""
    return frozenset(getattr(library, "architecture", None) or "" for library in _blas_libraries())


_local = threading.local()


@contextmanager
def constant_thread_count() -> Iterator[None]:
    """Context manager in which `n_threads` asks BLAS only once in this thread.

    Asking releases the GIL. Beside another busy thread of Python, such as one that reads ahead, it
    takes 0.04 ms to get it back, which adds up for many small blocks.
    """
    previous = getattr(_local, "n_threads", None)
    _local.n_threads = n_threads()
    try:
        yield
    finally:
        _local.n_threads = previous


def n_threads() -> int:
    """Number of threads: that of BLAS, so that `threadpoolctl.threadpool_limits` sets both."""
    constant = getattr(_local, "n_threads", None)
    if constant is not None:
        return int(constant)
    libraries = _blas_libraries()
    if not libraries:
        return os.cpu_count() or 1
    with _blas_limiter.lock:  # not between saving the counts and limiting them
        counts = _blas_limiter.saved_counts if _blas_limiter.users else []
        return max(1, min(counts or _thread_counts(libraries)))


def _thread_counts(libraries: list[Any]) -> list[int]:
    """The number of threads of each library.

    A function, as Python 3.12 may not release a lock after an interrupt in a list comprehension.
    """
    return [int(library.num_threads) for library in libraries]


class _BlasLimiter:
    """Limits BLAS to one thread while it has at least one user.

    An interrupt can come at any place of `add` and `remove`, so each step can be repeated. If
    `remove` is never called for a user, it is removed when its object is deleted, which is when the
    traceback of the interrupt is.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()  # an object can be deleted while its thread holds the lock
        self.users: dict[int, weakref.ref[_SingleThreadedBlas]] = {}
        self.saved_counts: list[int] = []  # empty if all are restored

    def add(self, user: _SingleThreadedBlas) -> None:
        """Limit BLAS to one thread until `user` is removed or deleted."""
        key, libraries = id(user), _blas_libraries()
        with self.lock:
            for other, reference in list(self.users.items()):
                if reference() is None:
                    del self.users[other]  # its removal was interrupted
            is_first = not self.users
            self.users[key] = weakref.ref(user, lambda _: self.remove(key))
            if not self.saved_counts:
                self.saved_counts = _thread_counts(libraries)
            if is_first:
                for library in libraries:
                    library.set_num_threads(1)

    def remove(self, key: int) -> None:
        """Remove the user with this id; restore the number of threads if it is the last one."""
        with self.lock:
            if key not in self.users:
                return
            if len(self.users) == 1:
                self.restore()
            del self.users[key]
            if not self.users:  # another user may have been deleted in the meantime
                self.restore()

    def restore(self) -> None:
        """Restore the number of BLAS threads."""
        if self.saved_counts:
            for library, number in zip(_blas_libraries(), self.saved_counts, strict=True):
                library.set_num_threads(number)
            self.saved_counts = []


_blas_limiter = _BlasLimiter()


class _SingleThreadedBlas(AbstractContextManager[None]):
    """Context manager of one user of the limiter."""

    def __enter__(self) -> None:
        _blas_limiter.add(self)

    def __exit__(self, *_: object) -> None:
        _blas_limiter.remove(id(self))


def _after_fork() -> None:
    """Reset pools and limiter in a forked child.

    The child has only the thread that forked: the pools are gone, and no other thread would leave
    the limiter.
    """
    _pools.clear()
    _blas_limiter.lock = threading.RLock()
    _blas_limiter.users.clear()
    _blas_limiter.restore()


if hasattr(os, "register_at_fork"):  # not on systems without fork
    os.register_at_fork(after_in_child=_after_fork)


def single_threaded_blas() -> _SingleThreadedBlas:
    """Context manager for small factorisations, which one BLAS thread does about as fast.

    Several threads would keep spinning for a while after each call, on the cores that the compiled
    loops need.
    """
    return _SingleThreadedBlas()


def blas_threads_for(
    flops: float, least: float = MIN_PARALLEL_FLOPS
) -> AbstractContextManager[None]:
    """Context manager for calls of BLAS of at most `flops` each: one thread below `least`.

    NumPy and SciPy have a BLAS each. Their threads spin for some 20 ms after a call, and those of
    one take the cores from the other: on two cores, solves that alternate between the two have
    taken ten times as long with threads as without.
    """
    return nullcontext() if flops >= least else single_threaded_blas()


def n_slices(data_bytes: float, partial_bytes: int = 0) -> int:
    """Number of parts of a parallel sweep over `data_bytes`.

    There are several parts per thread, so that a delayed thread does not delay the others. (BLAS
    keeps its threads spinning for a while after a call, on the cores that the sweep needs.) There
    are fewer where they would take less time than starting them. Each part may have a partial
    result of `partial_bytes`, which is cleared and added up: large partial results mean fewer
    parts, and a single one if the data are not much larger than they are. A sweep that computes
    more than it reads counts its data several times.
    """
    workers = n_threads()
    if workers == 1:
        return 1
    most = min(PARTS_PER_THREAD * workers, data_bytes / MIN_PART_BYTES)
    if partial_bytes:
        most = min(most, max(workers, MAX_PARTIAL_BYTES // partial_bytes))
        most = min(most, MAX_PARTIAL_FRACTION * data_bytes / partial_bytes)
    return max(1, int(most))


def split_rows(rows: slice, pieces: int) -> list[slice]:
    """Split `rows` into `pieces` ranges of about equal length."""
    if pieces == 1:
        return [rows]
    bounds = np.linspace(rows.start, rows.stop, pieces + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(bounds)]


def row_parts(A: Array) -> list[slice]:
    """Ranges of the rows of A, one for each task of a parallel sweep over A."""
    return split_rows(slice(0, len(A)), n_slices(A.nbytes))


def parallel_map(task: Callable[[T], R], parts: Sequence[T]) -> list[R]:
    """`[task(part) for part in parts]`, computed in parallel, with the errstate of the caller."""
    # Inside the pool, parts run serially: a task that waits for tasks of its own pool can deadlock.
    # So do they once the main thread has ended, when pools take no more tasks.
    workers = n_threads()
    if (
        min(workers, len(parts)) <= 1
        or threading.current_thread().name.startswith(THREAD_NAME_PREFIX)
        or not threading.main_thread().is_alive()
    ):
        return [task(part) for part in parts]
    pool = _pools.get(workers)
    if pool is None:
        pool = _pools.setdefault(workers, ThreadPoolExecutor(workers, THREAD_NAME_PREFIX))
    contexts = [copy_context() for _ in parts]  # which NumPy's errstate is a part of
    return list(pool.map(lambda context, part: context.run(task, part), contexts, parts))


def parallel_sum(task: Callable[[T], Array], parts: Sequence[T]) -> Array:
    """Sum of the results of all parts, added in the order of the parts for reproducibility."""
    results = parallel_map(task, parts)
    for result in results[1:]:
        np.add(results[0], result, out=results[0])
    return results[0]
