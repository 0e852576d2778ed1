"""`AffineRowTransform`, which compiled loops read without looking at its length: what does not fit
is refused.

That it computes what it says is one of the laws.
"""

import numpy as np
import pytest

from ling.design import AffineRowTransform
from ling.errors import ShapeError
from tests.design.laws import assert_close
from tests.design.registry import designs
from tests.raising import raises

affine_or_not = designs(["dense-c", "csr"], ["plain", "standardised"])


def row_map(n, length):
    """A map of `length` rows, which lie in room for `n`, so that writing past them does no harm."""
    return AffineRowTransform(np.ones(n)[:length], np.zeros(n)[:length], np.ones(n)[:length])


@pytest.mark.parametrize("length", [1, 200])
@affine_or_not
def test_a_map_of_too_few_rows_is_refused(any_case, length):
    n, p = any_case.design.shape
    with raises(ShapeError, "transform", mentions=f"({length},)"):
        any_case.design.gram_matmat(np.ones(p), row_map(n, length))


@pytest.mark.parametrize("length", [1, 200, 400])
@affine_or_not
def test_targets_of_too_few_or_too_many_rows_are_refused(any_case, length):
    p = any_case.design.shape[1]
    with raises(ShapeError, "Y", mentions=f"({length},)"):
        any_case.design.residual_gradient(np.ones(p), np.ones(length))


@affine_or_not
def test_a_map_of_one_column_is_refused_for_two(tall_case):
    n, p = tall_case.design.shape
    with raises(ShapeError, "transform", mentions=f"V has shape ({p}, 2)"):
        tall_case.design.gram_matmat(np.ones((p, 2)), row_map(n, n))


@affine_or_not
def test_targets_of_one_column_are_refused_for_two(tall_case):
    n, p = tall_case.design.shape
    with raises(ShapeError, "Y", mentions=f"({n}, 2)"):
        tall_case.design.residual_gradient(np.ones((p, 2)), np.ones(n))


@affine_or_not
def test_whole_numbers_are_as_good_as_others(any_case, rng):
    n, p = any_case.design.shape
    v, X, sizes = rng.standard_normal(p), any_case.matrix, any_case.magnitude
    scale, shift, post = rng.integers(-2, 3, (3, n))
    actual = any_case.design.gram_matmat(v, AffineRowTransform.from_values(scale, shift, post))
    magnitude = sizes.T @ (np.abs(post) * (np.abs(scale) * (sizes @ np.abs(v)) + np.abs(shift)))
    assert_close(actual, X.T @ (post * (scale * (X @ v) - shift)), magnitude)
