"""Gram matrices by the compiled loop, for every order, dtype and map of rank 1."""

import numpy as np
import pytest

from ling.design import as_design
from ling.design.compiled_gram import MappedMatrix, compiled_gram, is_compiled_gram_faster
from ling.design.dense import DenseStorage
from ling.linalg import threads, vector_width

# Around the lines of a tile and of a group, and the rows that a line holds.
ORDERS = 1, 3, 4, 5, 31, 33, 48, 130
LENGTHS = 1, 127, 128, 129, 700


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
    gram = compiled_gram(matrix, np.dtype(out_dtype))
    norms = np.linalg.norm(M, axis=0)
    assert gram.shape == (p, p)
    assert gram.dtype == out_dtype
    assert np.array_equal(gram, gram.T)
    assert (np.abs(gram - M.T @ M) <= rtol * np.outer(norms, norms)).all()


@pytest.fixture
def wide_vectors(monkeypatch):
    """A processor on which the loop is faster than BLAS for large matrices."""
    monkeypatch.setattr("ling.design.compiled_gram.has_wider_vectors_than_blas", lambda: True)


@pytest.mark.parametrize("shape", [(900, 100), (100, 900)])
@pytest.mark.parametrize("order", "CF")
def test_storages_use_it_for_both_gram_matrices(shape, order, wide_vectors, rng, monkeypatch):
    X = np.asarray(rng.standard_normal(shape) + 5.0, order=order)
    weights = rng.uniform(0.5, 2.0, shape[0])
    scale = rng.uniform(0.5, 2.0, shape[1])
    storage = DenseStorage(X, compiled=True)
    assert storage.has_compiled_gram
    design = as_design(storage).standardized(X.mean(axis=0), scale, weights)
    M = np.sqrt(weights)[:, None] * (X - X.mean(axis=0)) * scale
    is_tall = shape[0] > shape[1]
    result = design.gram() if is_tall else design.row_gram()
    np.testing.assert_allclose(result, M.T @ M if is_tall else M @ M.T, rtol=1e-11, atol=1e-9)


def test_it_is_used_where_it_is_faster(wide_vectors, monkeypatch):
    float64, n_threads = np.dtype(np.float64), threads.n_threads()
    long = 1_000 * n_threads
    assert is_compiled_gram_faster((long, 1_000), float64, n_threads * 8e6)
    assert not is_compiled_gram_faster((long, 1_000), float64, n_threads * 8e6 - 1)  # no memory
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
