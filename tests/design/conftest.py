"""The fixtures of the design layer's tests."""

import pytest

from ling.design import dense, sparse
from ling.linalg import threads
from tests.design.registry import case_of


@pytest.fixture
def case(storage, wrapper):
    """A design and the square matrix it stands for; for tests over `every_design`."""
    return case_of(storage, wrapper)


@pytest.fixture
def tall_case(storage, wrapper):
    """The same of a tall matrix."""
    return case_of(storage, wrapper, "tall")


@pytest.fixture
def treat_as_large(monkeypatch):
    """Makes small matrices take the way of large ones: compiled kernels, blocks, and threads."""

    def apply(n_threads):
        monkeypatch.setattr(dense, "MAX_CACHED_BYTES", 0)
        monkeypatch.setattr(dense, "MIB", 2**8)
        monkeypatch.setattr(sparse, "MIN_PARALLEL_ENTRIES", 0)
        monkeypatch.setattr(sparse, "BLOCK_ENTRIES", 2**7)
        monkeypatch.setattr(threads, "n_threads", lambda: n_threads)

    return apply
