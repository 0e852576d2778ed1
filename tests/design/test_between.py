"""What `transform` is given, and may give back."""

import numpy as np
import pytest

from tests.design.laws import Multiply, assert_close, calling
from tests.design.registry import designs, every_design


@every_design
def test_blocks_have_the_dimensions_and_dtype_of_the_result(case, rng):
    p = case.matrix.shape[1]
    for V in (rng.standard_normal(p, np.float32), rng.standard_normal((p, 1))):
        blocks = []
        case.design.gram_matmat(
            V, calling(case.design, lambda U, rows, blocks=blocks: blocks.append(U) or U)
        )
        assert {block.dtype for block in blocks} == {case.result_dtype(V)}
        assert {block.shape[1:] for block in blocks} == {V.shape[1:]}


@pytest.mark.parametrize("shape", ["vector", "block"])
@designs(["dense-float32", "csr-float32"], ["plain"])
def test_float64_weights_leave_float32_data_float32(any_case, shape, limit_threads, rng):
    """Weights are float64 more often than not."""
    limit_threads(2)
    case = any_case
    n, p = case.matrix.shape
    columns = () if shape == "vector" else (3,)
    V = rng.standard_normal((p, *columns), np.float32)
    W = rng.uniform(0, 2, (n, *columns))
    actual = case.design.gram_matmat(V, Multiply(W))
    assert actual.dtype == np.float32
    magnitude = case.magnitude.T @ (W * (case.magnitude @ np.abs(V)))
    assert_close(actual, case.matrix.T @ (W * (case.matrix @ V)), magnitude, np.float32)


@every_design
def test_a_block_in_another_order_may_be_returned(case, rng):
    V = rng.standard_normal((case.matrix.shape[1], 3))
    fortran = case.design.gram_matmat(V, calling(case.design, lambda U, rows: np.asfortranarray(U)))
    np.testing.assert_allclose(fortran, case.design.gram_matmat(V), rtol=1e-13, atol=1e-10)
