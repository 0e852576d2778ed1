"""BLAS on one thread for a while, and back on its own afterwards, whatever happens in between."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

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
    assert threads._blas_limiter.n_users == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_born_into_quiet_is_not_quiet():
    before = numbers()
    with threads.single_threaded_blas():
        child = os.fork()
        if child == 0:
            same = numbers() == before and threads._blas_limiter.n_users == 0
            sys.stdout.flush()
            os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
