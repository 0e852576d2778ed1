"""Threads: as many as BLAS has, side by side, from any Python thread, and after a fork."""

import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from ling.linalg import threads
from tests.design.laws import assert_close, call_everything, calling
from tests.design.registry import DESIGNS, LARGE, case_of, designs

compiled_designs = designs(["dense-c", "csr"])
PATIENCE = 10.0


def run_in_forked_child(compute):
    """What `compute()` returns in a forked copy of this process; a failure if it hangs there."""
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    child = fork.Process(target=lambda: sender.send(compute()))
    child.start()
    sender.close()
    try:
        assert receiver.poll(PATIENCE), f"no answer within {PATIENCE:.0f} seconds"
        return receiver.recv()
    finally:
        child.kill()
        child.join()
        receiver.close()


def needs_fork(test):
    # From 3.12 on, Python warns of forking a process with threads, which is what is tested here.
    quiet = pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
    possible = "fork" in multiprocessing.get_all_start_methods()
    return pytest.mark.skipif(not possible, reason="this system cannot fork")(quiet(test))


def meeting(n_threads, workers):
    """A `transform` that breaks unless `n_threads` parts, noted in `workers`, are all under way."""
    barrier = threading.Barrier(n_threads)

    def meet(U, rows):
        worker = threading.get_ident()
        if worker not in workers:
            workers.add(worker)
            barrier.wait(PATIENCE)
        return U

    return meet


def test_threadpoolctl_rules():
    before = threads.n_threads()
    with threadpool_limits(1):
        assert threads.n_threads() == 1
    assert threads.n_threads() == before


def test_run_keeps_the_order_of_the_parts():
    def task(part):
        time.sleep(0.002 * (3 - part))  # the last part is the first to finish
        return part

    assert threads.parallel_map(task, range(4)) == [0, 1, 2, 3]


def test_an_error_in_a_part_is_raised():
    def task(part):
        raise ZeroDivisionError(f"in part {part}")

    with pytest.raises(ZeroDivisionError, match="in part 0"):
        threads.parallel_map(task, range(3))


# A dense design hands blocks to `transform` in the thread that asked, and leaves the rest to BLAS.
@pytest.mark.parametrize("n_threads", [1, 2, 3])
@designs(["csr"])
def test_parts_run_side_by_side(large_case, n_threads, limit_threads):
    limit_threads(n_threads)
    workers: set[int] = set()
    meet = calling(large_case.design, meeting(n_threads, workers))
    large_case.design.gram_matmat(np.ones(large_case.design.shape[1]), meet)
    assert len(workers) == n_threads
    assert (threading.get_ident() in workers) == (n_threads == 1)


@compiled_designs
def test_the_sum_does_not_depend_on_who_finishes_first(large_case, limit_threads, rng):
    limit_threads(3)
    n, p = large_case.design.shape
    v = rng.standard_normal(p)

    def with_late_block(is_late):
        def transform(U, rows):
            time.sleep(0.01 * is_late(rows))
            return U

        return large_case.design.gram_matmat(v, calling(large_case.design, transform))

    first_late = with_late_block(lambda rows: rows.start == 0)
    last_late = with_late_block(lambda rows: rows.stop == n)
    assert first_late.tobytes() == last_late.tobytes()


@designs(DESIGNS, ["plain"])
def test_concurrent_calls_do_not_disturb_each_other(large_case, limit_threads, rng):
    limit_threads(2)
    n, p = large_case.design.shape
    pairs = [(rng.standard_normal(p), rng.standard_normal(n)) for _ in range(4)]

    def compute(pair):
        results = call_everything(large_case.design, *pair)
        return [result.tobytes() for result in results.values()]

    alone = [compute(pair) for pair in pairs]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(compute, pairs)) == alone


@designs(["dense-c", "csr", "blocks"], ["standardised"])
def test_concurrent_calls_of_maps_do_not_disturb_each_other(large_case, limit_threads, rng):
    test_concurrent_calls_do_not_disturb_each_other(large_case, limit_threads, rng)


@needs_fork
@designs(["dense-c", "csr"], ["plain", "standardised"])
def test_a_forked_child_still_computes(large_case, limit_threads, rng):
    limit_threads(2)
    n, p = large_case.design.shape
    v, u = rng.standard_normal(p), rng.standard_normal(n)
    here = call_everything(
        large_case.design, v, u
    )  # starts the threads, which a fork does not copy
    there = run_in_forked_child(lambda: call_everything(large_case.design, v, u))
    for name, result in here.items():
        np.testing.assert_array_equal(there[name], result, err_msg=name)


@needs_fork
def test_between_may_multiply_with_a_design(limit_threads, rng):
    """In a child, because a deadlock of the pool would also keep this process from ending."""
    limit_threads(2)
    case = case_of("csr", matrix="tall", tuning=LARGE)
    v = rng.standard_normal(case.design.shape[1])
    meet = meeting(2, set())

    def transform(U, rows):
        return meet(U, rows) * case.design.gram_matmat(v)[0]

    actual = run_in_forked_child(
        lambda: case.design.gram_matmat(v, calling(case.design, transform))
    )
    expected = case.matrix.T @ (case.matrix @ v)
    magnitude = case.magnitude.T @ (case.magnitude @ np.abs(v))
    assert_close(actual, expected * expected[0], magnitude * magnitude[0])
