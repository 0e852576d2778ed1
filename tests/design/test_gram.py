"""Gram matrices formed tile by tile are those that syrk forms, and large ones do not crash."""

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from ling.linalg.gram import (
    MAX_MATMUL_SIZE,
    add_gram,
    form_gram,
    parallel_sum_of_grams,
    sum_of_grams,
    tile_slices,
)
from tests.memory import peak_memory

TILE = 8
#: Up to two tiles are left to syrk; 17 columns are the first that are cut.
SIZES = [1, 8, 16, 17, 24, 41]

every_array = pytest.mark.parametrize(
    ("dtype", "order", "size", "n_rows"),
    [
        (dtype, order, size, n_rows)
        for dtype in (np.float32, np.float64)
        for order in "CF"
        for size in SIZES
        for n_rows in (3, 60)
    ],
)


@pytest.fixture
def array(dtype, order, size, n_rows):
    values = np.random.default_rng(size).standard_normal((n_rows, size))
    return np.array(values, dtype=dtype, order=order)


@pytest.mark.parametrize("n_rows", [100, 40_000])
def test_threads_that_pay_sum_up_matrices_of_their_own(n_rows):
    A = np.random.default_rng(0).standard_normal((n_rows, 50))
    parts = []

    def blocks(part, n_parts):
        parts.append((part, n_parts))
        yield A[part]

    with threadpool_limits(2):
        G = parallel_sum_of_grams(blocks, n_rows, 50, A.dtype, 2**25)
        assert_is_gram(G, A)
        np.testing.assert_array_equal(G, parallel_sum_of_grams(blocks, n_rows, 50, A.dtype, 2**25))
    expected = [slice(0, 100)] if n_rows == 100 else [slice(0, 20_000), slice(20_000, 40_000)]
    assert sorted(parts[: len(expected)], key=str) == [(e, len(expected)) for e in expected]


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("size", [MAX_MATMUL_SIZE, MAX_MATMUL_SIZE + 1])
def test_matrices_of_medium_size_are_summed_by_matmul_or_syrk(order, size):
    A = np.random.default_rng(0).standard_normal((300, size))
    A = np.array(A, order=order)
    blocks = (A[start : start + 70] for start in range(0, 300, 70))
    assert_is_gram(sum_of_grams(blocks, size, A.dtype), A)


def assert_is_gram(G, A):
    exact = A.astype(np.float64).T @ A.astype(np.float64)
    assert G.dtype == A.dtype
    np.testing.assert_allclose(G, exact, rtol=0, atol=100 * np.finfo(A.dtype).eps * len(A))
    np.testing.assert_array_equal(G, G.T)


@every_array
def test_tiles_give_what_syrk_gives(array):
    assert_is_gram(form_gram(array, tile=TILE), array)


@every_array
def test_a_gram_matrix_is_written_where_it_is_wanted(array):
    grams = np.full((2, array.shape[1], array.shape[1]), 7.0, array.dtype)
    assert np.shares_memory(form_gram(array, out=grams[1], tile=TILE), grams[1])
    assert_is_gram(grams[1], array)
    assert (grams[0] == 7.0).all()


@every_array
def test_a_gram_matrix_is_added(array):
    total = np.ones((array.shape[1], array.shape[1]), array.dtype)
    add_gram(total, array, tile=TILE)
    add_gram(total, -array, tile=TILE)
    total -= 1
    assert_is_gram(total / 2, array)


@every_array
def test_gram_matrices_of_blocks_add_up(array):
    bounds = [0, 1, 1, len(array) // 2, len(array)]
    blocks = [array[a:b] for a, b in pairwise(bounds)]
    assert_is_gram(sum_of_grams(blocks, array.shape[1], array.dtype, tile=TILE), array)


@pytest.mark.parametrize("size", SIZES)
def test_no_blocks_add_up_to_zero(size):
    G = sum_of_grams([], size, np.dtype(np.float32), tile=TILE)
    np.testing.assert_array_equal(G, np.zeros((size, size), np.float32))


def test_tiles_cover_everything_once():
    for size in range(1, 50):
        cuts = tile_slices(size, TILE)
        assert np.array_equal(np.concatenate([np.arange(size)[cut] for cut in cuts]), range(size))
        assert max(cut.stop - cut.start for cut in cuts) <= TILE


@pytest.mark.parametrize("order", "CF")
def test_tiles_take_no_second_gram_matrix(order):
    A = np.array(np.random.default_rng(0).standard_normal((16, 1200)), order=order)
    n_bytes = 8 * 1200**2
    assert peak_memory(lambda: form_gram(A, tile=100)) < 1.3 * n_bytes
    assert peak_memory(lambda: sum_of_grams([A, A], 1200, A.dtype, tile=100)) < 1.3 * n_bytes
    total = np.zeros((1200, 1200))
    assert peak_memory(lambda: add_gram(total, A, tile=100)) < 0.3 * n_bytes


# Each ended the process with SIGSEGV: threaded syrk overran its buffer.
LARGE = """
import numpy as np
from ling.design import as_design

rng = np.random.default_rng(0)
X = rng.standard_normal({shape})
design = {design}
G = {gram}
some = rng.choice(len(G), 50, replace=False)
rows = {rows}
np.testing.assert_allclose(G[some], rows[some] @ rows.T, atol=1e-9)
np.testing.assert_array_equal(G[:, some], G[some].T)
"""
MEAN = "as_design(X).standardized(X.mean(axis=0))"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "design", "gram", "rows"),
    [
        ((200, 21_000), "as_design(X)", "design.gram()", "X.T"),
        ((800, 15_600), "as_design(np.asfortranarray(X))", "design.gram()", "X.T"),
        ((300, 19_000), MEAN, "design.gram()", "(X - X.mean(axis=0)).T"),
        ((15_600, 800), "as_design(X)", "design.row_gram()", "X"),
        ((19_000, 300), MEAN, "design.row_gram()", "X - X.mean(axis=0)"),
    ],
)
def test_large_gram_matrices_with_two_threads(shape, design, gram, rows):
    """2 to 3.5 GB each."""
    code = LARGE.format(shape=shape, design=design, gram=gram, rows=rows)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=600)
