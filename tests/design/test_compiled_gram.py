"""Gram matrices by the compiled loop, for every order, dtype and map of rank 1."""

from fractions import Fraction

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from ling.design import as_design
from ling.design.compiled_gram import MappedMatrix, compiled_gram, is_compiled_gram_faster
from ling.design.dense import DenseStorage
from ling.linalg import threads, vector_width
from ling.linalg.rounding import sum_noise

# Around the lines of a tile and of a group, and the rows that a line holds.
ORDERS = 1, 3, 4, 5, 31, 33, 48, 130
LENGTHS = 1, 127, 128, 129, 255, 257, 700


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize(
    ("dtype", "out_dtype", "rtol"),
    [(np.float64, np.float64, 1e-13), (np.float32, np.float64, 1e-13),
     (np.float32, np.float32, 1e-5)],
)  # fmt: skip
@pytest.mark.parametrize("p", ORDERS)
@pytest.mark.parametrize("n", LENGTHS)
def test_the_gram_matrix_of_the_mapped_matrix(n, p, dtype, out_dtype, rtol, order, rng):
    A = np.asarray(rng.standard_normal((n, p)), dtype, order=order)
    row_scale, left, post_scale = rng.uniform(0.5, 2.0, (3, n))
    column_scale, right = rng.uniform(0.5, 2.0, (2, p))
    matrix = MappedMatrix(A, row_scale, column_scale, left, right, post_scale)
    scaled = row_scale[:, None] * A.astype(np.float64) * column_scale
    M = post_scale[:, None] * (scaled - np.outer(left, right))
    gram = compiled_gram(matrix, np.dtype(out_dtype), 2**25)
    norms = np.linalg.norm(M, axis=0)
    assert gram.shape == (p, p)
    assert gram.dtype == out_dtype
    assert np.array_equal(gram, gram.T)
    assert (np.abs(gram - M.T @ M) <= rtol * np.outer(norms, norms)).all()


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize(("n", "p"), [(2, 3), (9_001, 30), (5_000, 400)])
def test_work_is_divided_among_threads(n, p, n_threads, rng):
    A = rng.standard_normal((n, p))
    A.flags.writeable = False
    ones, zeros = np.ones(n), np.zeros(n)
    matrix = MappedMatrix(A, ones, np.ones(p), zeros, np.zeros(p), None)
    with threadpool_limits(n_threads):
        gram = compiled_gram(matrix, A.dtype, 2**25)
        again = compiled_gram(matrix, A.dtype, 2**25)
    np.testing.assert_allclose(gram, A.T @ A, rtol=1e-12, atol=1e-9)
    assert gram.tobytes() == again.tobytes()


def test_equal_products_do_not_round_in_one_direction():
    n = 2_000_000
    A = np.where(np.arange(n) % 2, 0.1, -0.1)[:, None]
    ones = np.ones(n)
    matrix = MappedMatrix(A, ones, np.ones(1), np.zeros(n), np.zeros(1), None)
    with threadpool_limits(1):
        gram = compiled_gram(matrix, A.dtype, 2**25)
    exact = n * Fraction(0.1) ** 2
    assert abs(Fraction(float(gram[0, 0])) - exact) <= sum_noise(n) * exact


@pytest.fixture
def wide_vectors(monkeypatch):
    """A processor on which the loop is faster than BLAS for large matrices."""
    monkeypatch.setattr("ling.design.compiled_gram.has_wider_vectors_than_blas", lambda: True)


@pytest.mark.parametrize("shape", [(900, 100), (100, 900)])
@pytest.mark.parametrize("order", "CF")
def test_storages_use_it_for_both_gram_matrices(shape, order, wide_vectors, rng):
    X = np.asarray(rng.standard_normal(shape) + 5.0, order=order)
    weights = rng.uniform(0.5, 2.0, shape[0])
    scale = rng.uniform(0.5, 2.0, shape[1])
    storage = DenseStorage(X, compiled=True)
    design = as_design(storage).standardized(X.mean(axis=0), scale, weights)
    M = np.sqrt(weights)[:, None] * (X - X.mean(axis=0)) * scale
    is_tall = shape[0] > shape[1]
    with threadpool_limits(2):
        assert storage.has_compiled_gram
        result = design.gram() if is_tall else design.row_gram()
    np.testing.assert_allclose(result, M.T @ M if is_tall else M @ M.T, rtol=1e-11, atol=1e-9)


def test_it_is_used_where_it_is_faster(wide_vectors, monkeypatch):
    float64, n_threads = np.dtype(np.float64), threads.n_threads()
    long = 1_000 * n_threads
    assert is_compiled_gram_faster((long, 1_000), float64, n_threads * 16e6)
    assert not is_compiled_gram_faster((long, 1_000), float64, n_threads * 16e6 - 1)  # no memory
    assert not is_compiled_gram_faster((long - 1, 1_000), float64, 1e9)  # short beside its result
    monkeypatch.setattr("ling.design.compiled_gram.has_wider_vectors_than_blas", lambda: False)
    assert not is_compiled_gram_faster((long, 1_000), float64, 1e9)
    assert is_compiled_gram_faster((long, 20), float64, 0.0)


@pytest.mark.parametrize(
    ("features", "kernels", "expected"),
    [
        ({"avx512f": True}, {"Haswell"}, True),
        ({"avx512f": True}, {"Zen", "Haswell"}, True),
        ({"avx512f": True}, {"SkylakeX"}, False),
        ({"avx512f": True}, {"Haswell", ""}, False),  # a BLAS of which nothing is known
        ({"avx512f": True}, set(), False),
        ({"avx512f": False}, {"Haswell"}, False),
        ({}, {"Haswell"}, False),
        (None, {"Haswell"}, False),
    ],
)
def test_vectors_of_the_processor_and_of_blas(features, kernels, expected, monkeypatch):
    def host_features():
        if features is None:
            raise RuntimeError("failed to get host cpu features")
        return features

    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", host_features)
    monkeypatch.setattr(threads, "blas_kernels", lambda: frozenset(kernels))
    uncached = vector_width.has_wider_vectors_than_blas.__wrapped__
    assert uncached() is expected
