"""Passes and FLOPs, counted by hand and by the meter."""

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from ling.design import DenseStorage, Design, Meter, SparseStorage, as_design
from ling.errors import ShapeError
from ling.results import Cost
from tests.design.laws import Multiply
from tests.design.registry import every_design
from tests.raising import raises

FOUR_BY_THREE = np.arange(12.0).reshape(4, 3)
#: Rows of 2, 0 and 3 entries; columns of 2, 1 and 2.
FIVE_ENTRIES = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [3.0, 4.0, 5.0]])


@dataclass(frozen=True)
class Count:
    """A design, and its FLOPs counted by hand: X v, one triangle of X'X, one triangle of XX'."""

    make: Callable[[], Design]
    product: float
    gram: float
    row_gram: float


COUNTS = {
    # 2 n p, n p (p + 1), p n (n + 1)
    "dense": Count(lambda: DenseStorage(FOUR_BY_THREE), 24, 48, 60),
    "dense-float32": Count(lambda: DenseStorage(FOUR_BY_THREE.astype(np.float32)), 24, 48, 60),
    # 2 nnz, and c (c + 1) for each row or column of c entries
    "sparse": Count(
        lambda: SparseStorage(sparse.csr_array(FIVE_ENTRIES)),
        10,
        2 * 3 + 3 * 4,
        2 * 3 + 1 * 2 + 2 * 3,
    ),
    # In a product: a scale of n rows and p columns, and 2 (n + p) for each rank. In a Gram matrix
    # of a dense design, which maps its rows: n p for scaled rows, 2 n p for each rank. Scaled
    # columns add 2 p^2 to X'X, which is scaled afterwards, and n p to XX'.
    "shifted": Count(
        lambda: as_design(DenseStorage(FOUR_BY_THREE)).standardized(shift=np.ones(3)),
        24 + 14,
        48 + 2 * 12,
        60 + 2 * 12,
    ),
    "standardised": Count(
        lambda: as_design(DenseStorage(FOUR_BY_THREE)).standardized(
            np.ones(3), np.ones(3), np.ones(4)
        ),
        24 + 4 + 3 + 14,
        48 + (1 + 2) * 12 + 2 * 9,
        60 + (2 + 2) * 12,
    ),
    # A sparse one multiplies with L once, and adds L R' in two places.
    "corrected": Count(
        lambda: as_design(SparseStorage(sparse.csr_array(FIVE_ENTRIES))).low_rank_corrected(
            np.ones((3, 2)), np.ones((3, 2))
        ),
        10 + 2 * 12,
        18 + 2 * 10 + 2 * 4 * 9,
        14 + 2 * 10 + 2 * 4 * 9,
    ),
}


@pytest.mark.parametrize("columns", [None, 1, 5])
@pytest.mark.parametrize("count", COUNTS.values(), ids=COUNTS)
def test_costs_are_those_counted_by_hand(count, columns):
    metered = as_design(count.make()).metered(Meter())
    n, p = metered.shape
    V, U = (np.ones(size if columns is None else (size, columns)) for size in (p, n))
    k = columns or 1
    spent = [metered.cost]
    for call in (
        lambda: metered.matmat(V),
        lambda: metered.rmatmat(U),
        lambda: metered.gram_matmat(V),
        lambda: metered.gram_matmat(V, Multiply(np.ones((n, 1)))),
        metered.gram,
        metered.row_gram,
    ):
        call()
        spent.append(metered.cost)
    steps = [(b.flops - a.flops, b.passes - a.passes) for a, b in pairwise(spent)]
    assert spent[0] == Cost(0.0, 0.0)
    assert steps == [
        (count.product * k, 1.0),
        (count.product * k, 1.0),
        (2 * count.product * k, 1.0),
        (2 * count.product * k, 1.0),
        (count.gram, 1.0),
        (count.row_gram, 1.0),
    ]


@every_design
def test_metering_any_design_adds_up_its_own_flops(case):
    metered = case.design.metered(Meter())
    metered.matvec(np.ones(metered.shape[1]))
    metered.rmatvec(np.ones(metered.shape[0]))
    metered.gram()
    metered.row_gram()
    flops = 2 * case.design.matvec_flops + case.design.gram_flops + case.design.row_gram_flops
    assert metered.cost == Cost(flops, 3.0 + case.design.storage.row_gram_passes)


def test_a_product_that_fails_costs_nothing():
    metered = as_design(DenseStorage(FOUR_BY_THREE))
    with raises(ShapeError, "V"):
        metered.matmat(np.ones(5))
    assert metered.cost == Cost()


def test_a_meter_adds_to_its_parent():
    parent = Meter()
    children = [Meter(parent), Meter(parent)]
    grandchild = Meter(children[0])
    parent.add(flops=1.0)
    children[1].add(flops=10.0, passes=1.0)
    grandchild.add(flops=100.0, passes=2.0)
    assert grandchild.cost == Cost(100.0, 2.0)
    assert [child.cost for child in children] == [Cost(100.0, 2.0), Cost(10.0, 1.0)]
    assert parent.cost == Cost(111.0, 3.0)


def test_metered_designs_may_share_a_meter():
    meter = Meter()
    designs = [as_design(DenseStorage(FOUR_BY_THREE)).metered(meter) for _ in range(2)]
    for design in designs:
        design.matmat(np.ones(3))
    assert meter.cost == designs[0].cost == designs[1].cost == Cost(48.0, 2.0)


@pytest.fixture
def restless_threads():
    """Python threads that take turns after every few instructions, so that races show."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("restless_threads")
def test_a_meter_shared_by_threads_loses_nothing():
    meter, rounds = Meter(Meter()), 2000
    workers = [
        threading.Thread(target=lambda: [meter.add(1.0, 1.0) for _ in range(rounds)])
        for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert meter.cost == meter.parents[0].cost == Cost(4.0 * rounds, 4.0 * rounds)
