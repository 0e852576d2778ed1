"""Calls of BLAS that are too small for threads run on one, and large ones on all."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from ling import Ridge, RidgeCV
from ling.design import Design
from ling.linalg.threads import (
    MIN_PARALLEL_FLOPS,
    MIN_PART_BYTES,
    PARTS_PER_THREAD,
    blas_threads_for,
    constant_thread_count,
    n_slices,
    n_threads,
    parallel_map,
)


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize(("flops", "expected"), [(0.0, {1}), (MIN_PARALLEL_FLOPS, {2})])
def test_small_calls_run_on_one_thread(flops, expected):
    with threadpool_limits(2, user_api="blas"):
        with blas_threads_for(flops):
            assert blas_threads() == expected
        assert blas_threads() == {2}


def test_tasks_have_the_errstate_of_their_caller():
    barrier = threading.Barrier(2, timeout=60)

    def overflow(number):
        barrier.wait()  # two threads work at the same time
        return float(np.float64(number) * number), threading.current_thread().name

    with threadpool_limits(2, user_api="blas"), np.errstate(over="ignore"):
        results = parallel_map(overflow, [1e200, 1e300])
    assert [value for value, _ in results] == [np.inf, np.inf]
    assert len({name for _, name in results}) == 2


@pytest.fixture
def threads_of_grams(monkeypatch):
    """The number of BLAS threads in each Gram matrix that a fit forms."""
    seen, gram = [], Design.gram

    def recorded(self, *arguments):
        seen.append(blas_threads())
        return gram(self, *arguments)

    monkeypatch.setattr(Design, "gram", recorded)
    with threadpool_limits(2, user_api="blas"):
        yield seen


@pytest.mark.parametrize("model", [Ridge(), RidgeCV(), RidgeCV(cv=3)], ids=str)
def test_small_fits_run_on_one_thread(model, threads_of_grams, rng):
    model.fit(rng.standard_normal((60, 5)), rng.standard_normal(60))
    assert threads_of_grams
    assert all(threads == {1} for threads in threads_of_grams)
    assert blas_threads() == {2}


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_large_gram_matrices_are_formed_by_all_threads(precision, threads_of_grams, rng):
    n, p = 4_500, 300
    assert n * p * p > MIN_PARALLEL_FLOPS
    model = Ridge(solver="direct", precision=precision)
    model.fit(rng.standard_normal((n, p)), rng.standard_normal(n))
    assert threads_of_grams == [{2}]


def test_parts_are_worth_their_threads():
    with threadpool_limits(2, user_api="blas"):
        assert n_slices(MIN_PART_BYTES) == 1
        assert n_slices(3 * MIN_PART_BYTES) == 3
        assert n_slices(1e9) == 2 * PARTS_PER_THREAD
        assert n_slices(1e9, partial_bytes=10**8) == 1
    with threadpool_limits(1, user_api="blas"):
        assert n_slices(1e9) == 1


def test_a_constant_number_of_threads_ends_with_its_block():
    with threadpool_limits(2, user_api="blas"):
        with constant_thread_count(), threadpool_limits(1, user_api="blas"):
            assert n_threads() == 2
            with constant_thread_count():
                assert n_threads() == 2
            assert n_threads() == 2
        assert n_threads() == 2
    with threadpool_limits(1, user_api="blas"):
        assert n_threads() == 1
