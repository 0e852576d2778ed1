"""The fixtures of the design layer's tests."""

from contextlib import ExitStack

import pytest
from threadpoolctl import threadpool_limits

from ling.design.tuning import DEFAULT_TUNING
from tests.design.registry import LARGE, case_of


@pytest.fixture
def case(storage, wrapper):
    """A design and the square matrix it stands for; for tests over `every_design`."""
    return case_of(storage, wrapper)


@pytest.fixture
def tall_case(storage, wrapper):
    """The same of a tall matrix."""
    return case_of(storage, wrapper, "tall")


@pytest.fixture
def large_case(storage, wrapper):
    """The same of a tall matrix that is treated as a large one."""
    return case_of(storage, wrapper, "tall", LARGE)


@pytest.fixture(params=[DEFAULT_TUNING, LARGE], ids=["small", "large"])
def any_case(request, storage, wrapper):
    """The same of a tall matrix, treated as a small one and as a large one."""
    return case_of(storage, wrapper, "tall", request.param)


@pytest.fixture
def limit_threads():
    """Called with a number: as many threads, of BLAS and so of ling, until the test ends."""
    with ExitStack() as stack:
        yield lambda n: stack.enter_context(threadpool_limits(limits=n, user_api="blas"))
