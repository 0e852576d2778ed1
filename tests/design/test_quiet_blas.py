"""BLAS on one thread for a while, and back on its own afterwards, whatever happens in between."""

import linecache
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import pytest
from threadpoolctl import threadpool_limits

from ling.linalg import threads


def numbers():
    return [int(library.num_threads) for library in threads._blas_libraries()]


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def test_quiet_is_one_thread_and_ends():
    before = numbers()
    with threads.single_threaded_blas():
        assert set(numbers()) <= {1}
        assert threads.n_threads() == min(before)  # the loops keep theirs
        with threads.single_threaded_blas():
            assert set(numbers()) <= {1}
        assert set(numbers()) <= {1}
    assert numbers() == before


def test_an_error_ends_it_too():
    before = numbers()
    with pytest.raises(KeyError), threads.single_threaded_blas():
        raise KeyError
    assert numbers() == before


def test_several_may_want_it_at_once():
    """OpenBLAS does not listen to every thread; but nobody is left with another's number."""
    before = numbers()

    def quiet(_):
        with threads.single_threaded_blas():
            return threads.n_threads()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(quiet, range(200))) == {min(before)}
    assert numbers() == before
    assert not threads._blas_limiter.users


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_born_into_quiet_is_not_quiet():
    before = numbers()
    with threads.single_threaded_blas():
        child = os.fork()
        if child == 0:
            same = numbers() == before and not threads._blas_limiter.users
            sys.stdout.flush()
            os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@contextmanager
def interrupted_at(place):
    """Raise KeyboardInterrupt where so many calls and lines of threads.py have been executed.

    Lines with a `with` statement do not count. They are traced once more when the block ends, where
    Python does not handle signals: a lock is always released.
    """
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if frame.f_code.co_filename != threads.__file__:
            return None
        is_with = linecache.getline(threads.__file__, frame.f_lineno).strip().startswith("with ")
        count += event == "call" or (event == "line" and not is_with)
        if count == place:
            raise KeyboardInterrupt  # and nothing is traced any more
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def enter_and_leave():
    with threads.single_threaded_blas():
        pass


def is_free(lock):
    """Whether another thread can take the lock."""
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(lambda: lock.acquire(timeout=5) and not lock.release())
        return taken.result()


def test_an_interrupt_at_any_line_leaves_blas_as_it_was():
    before, place, is_complete = numbers(), 0, False
    while not is_complete:
        place += 1
        with suppress(KeyboardInterrupt), interrupted_at(place):
            enter_and_leave()
            is_complete = True
        assert numbers() == before, place
        assert not threads._blas_limiter.users, place
        assert is_free(threads._blas_limiter.lock), place
    assert place > 20


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_a_second_interrupt_leaves_is_mended_by_the_next_use():
    before, n_left = numbers(), 0
    for place in range(1, 20):
        user = threads.single_threaded_blas()
        user.__enter__()
        with interrupted_at(place):
            del user  # its removal is interrupted
        n_left += bool(threads._blas_limiter.users)
        enter_and_leave()
        assert numbers() == before, place
        assert not threads._blas_limiter.users, place
    assert n_left > 5


def test_other_threads_always_see_the_same_number_of_threads():
    """The number of parts of a sweep depends on it, and so do the last bits of results."""
    seen, stop = set(), threading.Event()

    def look():
        while not stop.is_set():
            seen.add(threads.n_threads())

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    observer = threading.Thread(target=look)
    observer.start()
    try:
        for _ in range(2000):
            with threads.single_threaded_blas():
                seen.add(threads.n_threads())
    finally:
        stop.set()
        observer.join()
        sys.setswitchinterval(interval)
    assert seen == {2}
