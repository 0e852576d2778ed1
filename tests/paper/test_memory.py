"""X_r is never stored: what LING needs beside X is a few vectors for each component."""

import numpy as np
import pytest
from scipy import sparse

from ling.design import DenseStorage, SparseStorage, as_design
from tests.memory import peak_memory
from tests.paper.registry import FITS, memory_mapped, over

N, P, K = 2000, 1500, 5
DENSE_BYTES = 8 * N * P


def _thin():
    return sparse.random_array(
        (N, P), density=0.002, format="csr", rng=np.random.default_rng(0), dtype=np.float64
    )


def _mapped():
    return memory_mapped(np.random.default_rng(0).standard_normal((N, P)))


def _standardised(design):
    return as_design(design).standardized(
        shift=np.ones(P), scale=np.full(P, 2.0), weights=np.full(N, 3.0)
    )


LARGE = {
    "csr": _thin,
    "csr-standardised": lambda: _standardised(SparseStorage(_thin())),
    "memmap": _mapped,
    "memmap-standardised": lambda: _standardised(DenseStorage(_mapped())),
    "memmap-float32": lambda: memory_mapped(np.asarray(_mapped(), dtype=np.float32)),
}
# Ridge alone needs a matrix beside X: the Gram matrix.
ITERATIVE = {name: fit for name, fit in FITS.items() if name != "ridge"}


def peak_bytes(run):
    run()  # compiled kernels and thread pools stay, and are not what is asked for
    return peak_memory(run)


@pytest.fixture(scope="module", params=LARGE.values(), ids=LARGE.keys())
def large(request):
    return request.param()


@over("algorithm", ITERATIVE)
def test_data_are_neither_copied_nor_corrected_in_memory(algorithm, large):
    options = {"step": 1e-6} if "step" in algorithm.parameters else {}
    y = np.ones(N)
    # Memory-mapped data is read in blocks of 4 MB, 2 of which may be around at a time.
    assert peak_bytes(lambda: algorithm(large, y, 0.1, **options)) < 0.4 * DENSE_BYTES


@over("algorithm", ITERATIVE)
def test_sparse_data_needs_a_few_vectors_for_each_component(algorithm):
    X, y = _thin(), np.ones(N)
    options = {"step": 1e-6} if "step" in algorithm.parameters else {}
    stored = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    vectors = 8 * (K + 5) * (N + P)
    peak = peak_bytes(lambda: algorithm(X, y, 0.1, **options))
    assert peak < 6 * vectors + 4 * stored < 0.1 * DENSE_BYTES
