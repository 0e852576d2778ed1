"""Calls of BLAS that are too small for threads run on one."""

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from ling.linalg.threads import MIN_PARALLEL_FLOPS, blas_threads_for


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize(("flops", "expected"), [(0.0, {1}), (MIN_PARALLEL_FLOPS, {2})])
def test_small_calls_run_on_one_thread(flops, expected):
    with threadpool_limits(2, user_api="blas"):
        with blas_threads_for(flops):
            assert blas_threads() == expected
        assert blas_threads() == {2}
