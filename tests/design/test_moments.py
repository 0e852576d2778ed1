"""What storages compute for a ridge problem: sums over columns, narrow Grams."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import sparse

from ling.design import DenseStorage, SparseStorage, as_design
from ling.linalg.rounding import sum_noise
from tests.design.laws import assert_close
from tests.design.registry import LARGE, designs


@designs(wrappers=["plain"])
def test_moments_are_sums_of_products_and_of_squares(any_case, limit_threads, rng):
    limit_threads(2)
    X, sizes = any_case.matrix, any_case.magnitude
    for columns, weighted in product([1, 2, 4, 6], [False, True]):
        what = f"{columns} columns, weights: {weighted}"
        U = rng.standard_normal((len(X), columns))
        weights = rng.uniform(0, 2, len(X)) if weighted else None
        sums, products, squares = any_case.design.storage.moments(weights, U)
        assert sums.dtype == products.dtype == squares.dtype == np.float64
        assert_close(products, X.T @ U, sizes.T @ np.abs(U), what=what)
        w = np.ones(len(X)) if weights is None else weights
        assert_close(sums, w @ X, w @ sizes, what=what)
        assert_close(squares, w @ X**2, w @ sizes**2, what=what)


@pytest.mark.parametrize("p", [1, 3, 4, 5, 30, 131])
@pytest.mark.parametrize("n", [1, 127, 128, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gram_matrix_of_few_columns(n, p, dtype, limit_threads, rng):
    limit_threads(2)
    X = (3 + rng.standard_normal((n, p))).astype(dtype)
    design = as_design(DenseStorage(X, tuning=LARGE)).centered(rng.uniform(0.5, 2, n))
    exact = design.take(np.arange(n))
    assert_close(design.gram(np.float64), exact.T @ exact, 20 * (np.abs(X).T @ np.abs(X)) + 1)


def test_a_dense_design_can_be_told_to_be_compiled(rng):
    X = rng.standard_normal((6, 5))
    V = rng.standard_normal((5, 3))
    for compiled in (True, False, None):
        design = DenseStorage(X, compiled=compiled)
        assert (design.max_compiled_columns > 0) is (compiled is True)
        assert np.allclose(as_design(design).gram_matmat(V), X.T @ (X @ V))


@pytest.mark.parametrize("values", [(0.1,), (0.1, 1.1)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [600, 5_000, 16_384, 200_003])
def test_sums_of_few_distinct_values_are_accurate(n, weighted, values, rng):
    """Additions of equal numbers round in one direction."""
    X = rng.choice(values, size=(n, 3))
    weights = np.full(n, 0.3) if weighted else None
    storages = {
        "C order": DenseStorage(X, compiled=False),
        "Fortran order": DenseStorage(np.asfortranarray(X)),
        "compiled": DenseStorage(X, compiled=True),
        "sparse": SparseStorage(sparse.csr_array(X)),
        "duplicates": SparseStorage(with_duplicates(X)),
    }
    exact = [math.fsum(0.3 * column if weighted else column) for column in X.T]
    for name, storage in storages.items():
        sums = storage.moments(weights, np.zeros((n, 1)))[0]
        errors = np.abs(sums - exact) / exact
        assert errors.max() <= sum_noise(n), name


def with_duplicates(X):
    """X as a CSR matrix that lists every entry twice, each time with half of its value."""
    csr = sparse.csr_array(X)
    data, indices = np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2)
    return sparse.csr_array((data, indices, 2 * csr.indptr), shape=X.shape)
