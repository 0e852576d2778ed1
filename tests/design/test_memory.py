"""Data is read where it lies: no product makes a copy of all of it, whatever the dtypes."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from ling.design import as_design
from ling.design.tuning import Tuning
from tests.design.laws import PRODUCTS
from tests.design.registry import WRAPPERS, build
from tests.memory import peak_memory

MB = 2**20
#: Storages that BLAS cannot read as they are when the operand is float64.
CONVERTED = ("dense-float32", "dense-bool")


def calls(design):
    """Each product with a float64 vector, by its name."""
    return {
        method: partial(getattr(design, method), np.ones(design.shape[product.axis]))
        for method, product in PRODUCTS.items()
    }


@pytest.fixture(scope="module")
def five_million():
    """Numbers that take 20 MB in float32, 40 MB in float64."""
    return np.random.default_rng(5).random((10_000, 500))


@pytest.mark.parametrize(
    ("storage", "wrapper"),
    [*((storage, "plain") for storage in CONVERTED), ("dense-float32", "standardised")],
)
def test_dense_data_is_converted_block_by_block(storage, wrapper, five_million):
    # The blocks of a Gram matrix are as large as this whole matrix, if they are not made smaller.
    small_blocks = Tuning(block_bytes=2**16)
    design = build(storage, wrapper, five_million, tuning=small_blocks).design
    for method, call in {**calls(design), "gram": partial(design.gram, np.float64)}.items():
        call()  # compiles the kernels
        assert peak_memory(call) < 12 * MB, method


@pytest.fixture(scope="module")
def sparse_million():
    """A tall matrix with a million entries, 8 MB of them, and few columns."""
    random = sparse.random_array((20_000, 200), density=0.25, rng=np.random.default_rng(5))
    return sparse.csr_array(random)


@pytest.mark.parametrize("wrapper", ["plain", "standardised"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_data_is_not_copied(dtype, wrapper, sparse_million):
    design = WRAPPERS[wrapper].wrap(as_design(sparse_million.astype(dtype)))
    for method, call in calls(design).items():
        call()  # compiles the kernels
        assert peak_memory(call) < sparse_million.data.nbytes / 4, method


@pytest.mark.parametrize("wrapper", ["plain", "standardised"])
def test_sparse_data_is_not_copied_for_its_gram_matrix(wrapper, sparse_million):
    """`Storage.gram` promises it: one pass and no copy of X."""
    design = WRAPPERS[wrapper].wrap(as_design(sparse_million))
    with threadpool_limits(1):  # each thread has a block of its own
        design.gram()  # compiles the kernel
        assert peak_memory(design.gram) < sparse_million.data.nbytes / 2
