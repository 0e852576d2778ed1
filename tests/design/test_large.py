"""What holds for small matrices holds for large ones: compiled kernels, blocks and threads."""

import pytest

from ling.design import sparse
from tests.design.laws import LAWS, call_everything, calling, check, grams_are_the_dense_ones
from tests.design.registry import WRAPPERS, build, case_of, cases_of, designs, every_design

#: The storages that compiled kernels read, and what can lie between them and the result.
COMPILED = ("dense-c", "dense-float32", "dense-read-only", "dense-unaligned", "csr", "csr-float32")
every_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)


@every_law
@designs(wrappers=[name for name in WRAPPERS if "metered" not in name])
def test_law(law, storage, wrapper, treat_as_large, rng):
    treat_as_large(2)
    check(law, [case_of(storage, wrapper, matrix) for matrix in ("tall", "wide")], rng)


@every_law
@pytest.mark.parametrize("n_threads", [1, 3])
@designs(COMPILED, ["plain", "standardised"])
def test_law_with_fewer_and_more_threads(law, storage, wrapper, n_threads, treat_as_large, rng):
    """Of every matrix, since some have less rows or entries than there are threads."""
    treat_as_large(n_threads)
    check(law, cases_of(storage, wrapper), rng)


@pytest.mark.parametrize("n_threads", [1, 3])
@designs(COMPILED, ["plain", "standardised"])
def test_the_data_is_swept_block_by_block(tall_case, n_threads, treat_as_large, rng):
    """Otherwise the laws above would say nothing about blocks."""
    treat_as_large(n_threads)
    for V in (rng.standard_normal(5), rng.standard_normal((5, 2))):
        blocks = []
        tall_case.design.gram_matmat(
            V, calling(tall_case.design, lambda U, rows, blocks=blocks: blocks.append(rows) or U)
        )
        assert len(blocks) > 4


@every_design
def test_results_are_the_same_bits_every_time(tall_case, treat_as_large, rng):
    treat_as_large(3)
    n, p = tall_case.matrix.shape
    V, U = rng.standard_normal(p), rng.standard_normal(n)

    def compute():
        return {k: v.tobytes() for k, v in call_everything(tall_case.design, V, U).items()}

    assert compute() == compute()


@designs(["csr", "csr-duplicated"])
def test_a_sparse_gram_matrix_too_large_for_one_per_thread(
    storage, wrapper, treat_as_large, monkeypatch, rng
):
    treat_as_large(3)
    monkeypatch.setattr(sparse, "MAX_THREAD_GRAM_BYTES", 4)
    check(grams_are_the_dense_ones, cases_of(storage, wrapper), rng)


def test_a_gram_matrix_larger_than_one_tile(rng):
    """Its triangle is mirrored tile by tile, of 512 columns each."""
    for shape in ((3, 1100), (1100, 3)):
        grams_are_the_dense_ones(build("dense-c", "standardised", rng.standard_normal(shape)), rng)
