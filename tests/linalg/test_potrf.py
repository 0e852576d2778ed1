"""Cholesky factors formed tile by tile are LAPACK's, and large ones do not crash."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import linalg

from ling.linalg.cholesky import potrf
from tests.memory import peak_memory

TILE = 8


def positive(size, dtype, order):
    A = np.random.default_rng(size).standard_normal((size + 5, size))
    return np.array(A.T @ A + np.eye(size), dtype=dtype, order=order)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("size", [1, 8, 16, 17, 24, 41])
def test_tiles_give_lapacks_factor(size, clean, lower, order, dtype):
    H = positive(size, dtype, order)
    before = H.copy()
    factor, info = potrf(H, lower=lower, clean=clean, tile=TILE)
    triangle = np.tril if lower else np.triu
    assert info == 0
    assert factor.dtype == dtype
    known = linalg.cholesky(before.astype(np.float64), lower=lower)
    np.testing.assert_allclose(triangle(factor), known, rtol=0, atol=1e3 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(H, before)
    if clean:
        np.testing.assert_array_equal(factor, triangle(factor))


@pytest.mark.parametrize("lower", [True, False])
def test_fortran_order_is_overwritten(lower):
    H = positive(600, np.float64, "F")
    known = linalg.cholesky(H, lower=lower)
    found = []
    peak = peak_memory(lambda: found.append(potrf(H, lower=lower, overwrite=True, tile=60)))
    assert np.shares_memory(found[0][0], H)
    np.testing.assert_allclose((np.tril if lower else np.triu)(H), known, atol=1e-9)
    assert peak < 0.3 * H.nbytes


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("at", [0, 7, 20, 40])
def test_the_first_minor_that_is_not_positive_is_told(at, lower):
    H = positive(41, np.float64, "F")
    H[at, at] = -1.0
    assert potrf(H, lower=lower, tile=TILE)[1] == at + 1
    assert linalg.lapack.dpotrf(H, lower=lower)[1] == at + 1


# Ended the process with SIGSEGV: threaded potrf overran its buffer.
LARGE = """
import numpy as np
from scipy import sparse
from ling import Ridge

rng = np.random.default_rng(0)
X = sparse.random_array((15_800, 16_000), density=3e-4, rng=rng, format="csr")
y = rng.standard_normal(15_800)
model = Ridge(1.0, solver="direct", fit_intercept=False, memory_budget="16GB").fit(X, y)
np.testing.assert_allclose(X.T @ (y - X @ model.coef_), model.coef_, atol=1e-9)
"""


@pytest.mark.slow
def test_a_large_direct_fit_with_two_threads():
    """4 GB."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", LARGE], check=True, env=environment, timeout=900)


@pytest.mark.parametrize("lower", [False, True])
def test_the_other_triangle_is_kept(lower, rng):
    """Proofs of a least eigenvalue use it after the factorisation."""
    A = rng.standard_normal((4 * TILE + 3, 5 * TILE))
    H = np.asfortranarray(A @ A.T)
    factor, info = potrf(H, lower=lower, tile=TILE)
    other = np.triu if lower else np.tril
    assert info == 0
    assert np.array_equal(other(factor, 1 if lower else -1), other(H, 1 if lower else -1))
