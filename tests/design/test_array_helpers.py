"""Sums and differences in blocks that stay in cache."""

import numpy as np
import pytest

from ling.design.affine import subtract_outer
from ling.design.arrays import subtract_row, weighted_magnitudes

SHAPES = [(0, 3), (3, 0), (1, 1), (7, 2), (1000, 3), (9, 700), (5000, 40)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@every_shape
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_is_subtracted_as_numpy_does(shape, order, dtype, rng):
    A = np.asarray(rng.standard_normal(shape), dtype, order=order)
    row, before = rng.standard_normal(shape[1]), A.copy()
    out = np.empty(shape)
    assert subtract_row(A, row, out) is out
    np.testing.assert_array_equal(out, before - row)
    np.testing.assert_array_equal(A, before)
    subtract_row(A, row, A)
    np.testing.assert_array_equal(A, (before - row).astype(dtype))


@every_shape
@pytest.mark.parametrize("rank", [1, 2])
def test_a_product_is_subtracted_in_place(shape, rank, rng):
    V, A, B = (rng.standard_normal(size) for size in (shape, (shape[0], rank), (rank, shape[1])))
    expected = V - A @ B
    assert subtract_outer(V, A, B) is V
    np.testing.assert_allclose(V, expected, rtol=1e-12, atol=1e-12)


def test_what_is_read_only_is_not_changed(rng):
    V = rng.standard_normal((5, 3))
    V.flags.writeable = False
    before = V.copy()
    result = subtract_outer(V, np.ones((5, 1)), np.ones((1, 3)))
    np.testing.assert_allclose(result, before - 1)
    np.testing.assert_array_equal(V, before)


@every_shape
def test_magnitudes_are_weighted(shape, rng):
    weights, W = rng.uniform(size=shape[0]), rng.standard_normal(shape)
    np.testing.assert_allclose(weighted_magnitudes(weights, W), weights @ np.abs(W), rtol=1e-12)


@every_shape
@pytest.mark.parametrize("count", [0, 1, 30])
def test_magnitudes_of_stacks_are_weighted(shape, count, rng):
    weights, W = rng.uniform(size=shape[0]), rng.standard_normal((count, *shape))
    found = weighted_magnitudes(weights, W)
    np.testing.assert_allclose(found, weights @ np.abs(W), rtol=1e-12)
