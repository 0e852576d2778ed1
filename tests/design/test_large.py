"""What holds for small matrices holds for large ones: compiled kernels, blocks and threads."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from ling.design import as_design
from tests.design.laws import LAWS, call_everything, calling, check, grams_are_the_dense_ones
from tests.design.registry import COMPOSITE, LARGE, build, case_of, cases_of, designs

#: The storages that compiled kernels read.
COMPILED = ("dense-c", "dense-float32", "dense-read-only", "dense-unaligned", "csr", "csr-float32")
# Of the others, those with a path of their own for large matrices: rows that are converted, or
# passed to BLAS, in blocks; and entries for which kernels are compiled again or which they read in
# another order. The rest would repeat these: all formats of SciPy become CSR before anything is
# large or small, and `ChunkedStorage` reads blocks of every size.
HAS_LARGE_PATH = (
    *COMPILED,
    "dense-fortran",
    "dense-column-strided",
    "dense-bool",
    "csr-long-indices",
    "csr-unsorted",
    "csr-duplicated",
)
large_designs = designs(HAS_LARGE_PATH, ["plain", COMPOSITE])
#: Kernels apply maps of rank 1 themselves.
compiled_designs = designs(COMPILED, ["plain", "standardised"])


# Limits of threads take longer to set than a law takes, so that tests are of all laws.
@large_designs
def test_laws(storage, wrapper, limit_threads, rng):
    limit_threads(2)
    for law in LAWS:
        check(law, [case_of(storage, wrapper, matrix, LARGE) for matrix in ("tall", "wide")], rng)


@compiled_designs
def test_laws_with_one_thread(storage, wrapper, limit_threads, rng):
    limit_threads(1)
    for law in LAWS:
        check(law, [case_of(storage, wrapper, "tall", LARGE)], rng)


@compiled_designs
def test_laws_with_three_threads(storage, wrapper, limit_threads, rng):
    """Of every matrix, since some have less rows or entries than there are threads."""
    limit_threads(3)
    for law in LAWS:
        check(law, cases_of(storage, wrapper, LARGE), rng)


@pytest.mark.parametrize("n_threads", [1, 3])
@compiled_designs
def test_the_data_is_swept_block_by_block(large_case, n_threads, limit_threads, rng):
    """Otherwise the laws above would say nothing about blocks."""
    limit_threads(n_threads)
    for V in (rng.standard_normal(5), rng.standard_normal((5, 2))):
        blocks = []
        large_case.design.gram_matmat(
            V, calling(large_case.design, lambda U, rows, blocks=blocks: blocks.append(rows) or U)
        )
        assert len(blocks) > 4


@designs([*HAS_LARGE_PATH, "blocks"], ["plain", COMPOSITE])
def test_results_are_the_same_bits_every_time(large_case, limit_threads, rng):
    limit_threads(3)
    n, p = large_case.matrix.shape
    V, U = rng.standard_normal(p), rng.standard_normal(n)

    def compute():
        return {k: v.tobytes() for k, v in call_everything(large_case.design, V, U).items()}

    assert compute() == compute()


@designs(["csr", "csr-duplicated"])
def test_a_sparse_gram_matrix_too_large_for_one_per_thread(storage, wrapper, limit_threads, rng):
    limit_threads(3)
    single_gram = replace(LARGE, max_thread_gram_bytes=4)
    check(grams_are_the_dense_ones, cases_of(storage, wrapper, single_gram), rng)


def test_a_gram_matrix_larger_than_one_tile(rng):
    """Its triangle is mirrored tile by tile, of 512 columns each."""
    for shape in ((3, 1100), (1100, 3)):
        grams_are_the_dense_ones(build("dense-c", "standardised", rng.standard_normal(shape)), rng)


@pytest.mark.parametrize("name", ["dense-c", "dense-fortran", "dense-float32", "dense-bool", "csr"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_gram_matrices_of_several_mapped_blocks(name, is_weighted, rng):
    """Blocks have 256 rows at least, so that small matrices are a single one."""
    X = (rng.standard_normal((700, 1500)) > 0.3).astype(np.float64)
    weights = rng.uniform(0.5, 1.5, 700) if is_weighted else None
    raw = {
        "dense-c": X,
        "dense-fortran": np.asfortranarray(X),
        "dense-float32": X.astype(np.float32),
        "dense-bool": X.astype(bool),
        "csr": sparse.csr_array(X),
    }[name]
    mean = X.mean(axis=0)
    root = np.ones(700) if weights is None else np.sqrt(weights)
    mapped = root[:, None] * (X - mean)
    gram = as_design(raw).standardized(shift=mean, weights=weights).gram(np.float64)
    np.testing.assert_allclose(gram, mapped.T @ mapped, rtol=0, atol=1e-10)
