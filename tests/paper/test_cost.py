"""Costs are what counting by hand gives, in FLOPs and in passes, and what a meter shows."""

import numpy as np
import pytest
from scipy import sparse

from ling import paper
from ling.design import as_design
from ling.results import Cost
from tests.paper.registry import ALGORITHMS, SHAPES, gaussian, over, thinned

K = 4
LAM = 0.1


class Counts:
    """FLOPs of the pieces, 2 for a multiply-add, when X v takes `product` of them."""

    def __init__(self, X):
        self.n, self.p = X.shape
        self.is_sparse = sparse.issparse(X)
        self.stored = X.nnz if self.is_sparse else X.size
        self.product = 2 * self.stored
        # Each row adds its outer product to X'X, one triangle of it; each column to XX'.
        filled = (X.toarray() if self.is_sparse else X) != 0
        in_row, in_column = filled.sum(axis=1), filled.sum(axis=0)
        self.gram = sum(in_row * (in_row + 1))
        self.row_gram = sum(in_column * (in_column + 1))

    def ridge(self, factor_and_solve):
        """One Gram matrix, the smaller one, X'(.) and the fitted values."""
        gram = self.gram if self.p <= self.n else self.row_gram
        return gram + factor_and_solve + 2 * self.product

    def qr(self, m):
        """R and the thin Q of m x K by Householder reflections (Golub & Van Loan, 5.2)."""
        return 4 * m * K**2 - 4 * K**3 / 3

    def range_finder(self, power):
        """X'X `power` times and X once, orthonormalised each time; Q and its map rotated."""
        products = (2 * power + 1) * K * self.product
        orthonormal = (power + 1) * self.qr(self.p) + self.qr(self.n)
        return products + orthonormal + 22 * K**3 + 2 * (self.n + self.p) * K**2

    def random_svd(self, power):
        """Q'X, its SVD (Golub & Van Loan, 8.6: R-SVD), and its rotation carried over."""
        svd = 6 * self.p * K**2 + 20 * K**3
        return self.range_finder(power) + K * self.product + svd + 2 * (self.n + self.p) * K**2

    def product_left(self):
        """X_r v: X v and a correction of rank K."""
        return self.product + 2 * K * (self.n + self.p)

    def inner_step(self, rank=0):
        """Of SVRG, for all rows: 3 multiply-adds an entry, and 2 to catch up where X is sparse."""
        return (10 if self.is_sparse else 6) * self.stored + 10 * rank * self.n


# Each: how to run it, its FLOPs, its passes.
COUNTED = {
    "ridge": (
        lambda X, y: paper.ridge(X, y, LAM),
        lambda c: c.ridge(min(c.n, c.p) ** 3 / 3 + 2 * min(c.n, c.p) ** 2),
        3,
    ),
    "least-squares": (
        lambda X, y: paper.ridge(X, y, 0.0),
        lambda c: c.ridge(min(c.n, c.p) ** 3 / 3 + 2 * min(c.n, c.p) ** 2),
        3,
    ),
    "gradient_descent": (
        lambda X, y: paper.gradient_descent(X, y, LAM, 7),
        lambda c: 7 * 2 * c.product,
        14,
    ),
    "gradient_descent-from-a-start": (
        lambda X, y: paper.gradient_descent(X, y, LAM, 7, start=np.ones(X.shape[1])),
        lambda c: 15 * c.product,
        15,
    ),
    "no-iterations": (lambda X, y: paper.gradient_descent(X, y, LAM, 0), lambda c: 0, 0),
    "pcr": (lambda X, y: paper.pcr(X, y, K), lambda c: c.range_finder(1), 2),
    "pcr-power-3": (lambda X, y: paper.pcr(X, y, K, power=3), lambda c: c.range_finder(3), 4),
    "random_svd": (lambda X, y: paper.random_svd(X, K), lambda c: c.random_svd(1), 3),
    "random_svd-power-0": (
        lambda X, y: paper.random_svd(X, K, power=0),
        lambda c: c.random_svd(0),
        2,
    ),
    "exact_svd": (
        lambda X, y: paper.exact_svd(X, K),
        lambda c: 6 * c.n * c.p * min(c.n, c.p) + 20 * min(c.n, c.p) ** 3,
        1,
    ),
    "svrg": (
        lambda X, y: paper.svrg(X, y, LAM, 5, step=1e-3),
        lambda c: 3 * 2 * c.product + 5 * c.inner_step() + c.product,
        9,
    ),
    "svrg-one-pass": (
        lambda X, y: paper.svrg(X, y, LAM, 1, step=1e-3),
        lambda c: 2 * c.product + c.inner_step() + c.product,
        3,
    ),
    "ling": (
        lambda X, y: paper.ling(X, y, LAM, K, 7),
        lambda c: c.random_svd(1) + 7 * 2 * c.product_left(),
        3 + 14,
    ),
    "ling-power-2": (
        lambda X, y: paper.ling(X, y, LAM, K, 7, power=2),
        lambda c: c.random_svd(2) + 7 * 2 * c.product_left(),
        4 + 14,
    ),
    "ling-simplified": (
        lambda X, y: paper.ling(X, y, LAM, K, 7, shrink=False),
        lambda c: c.range_finder(1) + K * c.product + 7 * 2 * c.product_left(),
        3 + 14,
    ),
    "ling_svrg": (
        lambda X, y: paper.ling_svrg(X, y, LAM, K, 5, step=1e-3),
        # Beside stage 1 and the steps: X times the correction once, 3 snapshots, the fitted values.
        lambda c: (
            c.random_svd(1)
            + K * c.product
            + 7 * c.product_left()
            + 5 * c.inner_step(rank=K)
            + 2 * (c.n + c.p) * K**2  # R'R, and L times that
        ),
        3 + 1 + 3 + 5 + 1,
    ),
}
BOTH = {"dense": np.asarray, "csr": lambda X: sparse.csr_array(thinned(X))}


@over("wrap", BOTH)
@over("shape", SHAPES)
@pytest.mark.parametrize(("run", "flops", "passes"), COUNTED.values(), ids=COUNTED)
def test_cost_is_what_counting_by_hand_gives(run, flops, passes, shape, wrap):
    X, y = gaussian(*shape)
    X = wrap(X)
    cost = run(X, y).cost
    assert cost.flops == pytest.approx(flops(Counts(X)), rel=1e-12)
    assert cost.passes == pytest.approx(passes, rel=1e-12)


def test_cost_of_the_smallest_of_problems():
    X, y = np.array([[3.0, 1.0], [1.0, 2.0], [0.0, 1.0]]), np.ones(3)
    # X'(.) and Xw, 6 multiply-adds each.
    assert paper.gradient_descent(X, y, LAM, 1).cost == Cost(24, 2)
    # 3 entries of X'X of 3 multiply-adds each, 2^3 / 3 to factor it, 2 triangles of 2^2, and the
    # 24 of X'y and the fitted values.
    assert paper.ridge(X, y, LAM).cost == Cost(pytest.approx(18 + 8 / 3 + 8 + 24), 3)
    # One full gradient, 3 steps of 3 multiply-adds for each of 2 columns, the fitted values.
    assert paper.svrg(X, y, LAM, 1, step=1e-3).cost == Cost(24 + 3 * 12 + 12, 3)


@pytest.mark.parametrize("start", [np.zeros(12), np.ones(12)], ids=["zero", "ones"])
def test_start_costs_one_pass_if_it_is_not_zero(start):
    X, y = gaussian()
    fit = paper.gradient_descent(X, y, LAM, 3, start=start)
    assert fit.cost.passes == 6 + start[0]


@over("wrap", BOTH)
@over("algorithm", ALGORITHMS)
def test_a_meter_shows_the_same_cost(algorithm, wrap):
    X, y = gaussian()
    metered = as_design(wrap(X))
    first = algorithm(metered, y, LAM).cost
    assert metered.cost == first
    assert first == algorithm(wrap(X), y, LAM).cost
    second = algorithm(metered, y, LAM).cost
    assert second == first
    assert metered.cost == first + second


def test_columns_beyond_the_rank_are_not_paid_for():
    X, _ = gaussian()
    deficient = X[:, :2] @ X[:2]
    full, cut = (paper.random_svd(each, K, random_state=0).cost for each in (X, deficient))
    assert cut.passes == full.passes
    assert cut.flops < full.flops


def test_given_components_are_not_paid_for_twice():
    X, y = gaussian()
    svd = paper.random_svd(X, K, random_state=0)
    whole = paper.ling(X, y, LAM, K, 7, random_state=0).cost
    rest = paper.ling(X, y, LAM, K, 7, svd=svd).cost
    assert svd.cost + rest == Cost(pytest.approx(whole.flops), whole.passes)


def test_a_singular_problem_pays_for_the_cholesky_factor_it_cannot_use():
    X, y = gaussian(40, 6)
    X = np.hstack([X, X])
    n, m = X.shape
    both = (m**3 / 3 + 2 * m**2) + (9 * m**3 + 4 * m**2)
    assert paper.ridge(X, y, 0.0).cost.flops == pytest.approx(n * m * (m + 1) + both + 4 * n * m)
