"""Any design, of any matrix, behaves like the dense matrix that it stands for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import lsmr

from ling.errors import ShapeError
from tests.design.laws import GRAMS, LAWS, PRODUCTS, assert_close, check
from tests.design.registry import DESIGNS, WRAPPERS, build, case_of, cases_of, designs, every_design
from tests.raising import raises


@every_design
def test_laws(storage, wrapper, rng):
    for law in LAWS:
        check(law, cases_of(storage, wrapper), rng)


@pytest.mark.parametrize("storage", DESIGNS)
@settings(max_examples=10)
@given(
    wrapper=st.sampled_from(sorted(WRAPPERS)),
    shape=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    seed=st.integers(0, 2**32 - 1),
    a=st.integers(-1000, 1000),
    b=st.integers(-1000, 1000),
)
def test_linear(storage, wrapper, shape, seed, a, b):
    """X(a v + b w) == a X v + b X w, and so for the other products."""
    rng = np.random.default_rng(seed)
    case = build(storage, wrapper, rng.standard_normal(shape))
    for method, product in PRODUCTS.items():
        apply = getattr(case.design, method)
        v, w = rng.standard_normal((2, shape[product.axis]))
        magnitude = product.dense(case.magnitude, np.abs(a * v) + np.abs(b * w))
        assert_close(apply(a * v + b * w), a * apply(v) + b * apply(w), magnitude, what=method)


@every_design
def test_scipy_solves_least_squares_with_it(tall_case, rng):
    b = rng.standard_normal(len(tall_case.matrix))
    expected = np.linalg.lstsq(tall_case.matrix, b)[0]
    actual = lsmr(tall_case.design, b, atol=1e-14, btol=1e-14)[0]
    np.testing.assert_allclose(actual, expected, atol=1e-10)


@every_design
def test_wrong_operand_shapes_are_named(case):
    for method, product in PRODUCTS.items():
        size = case.matrix.shape[product.axis]
        wanted = f"n_{('samples', 'features')[product.axis]} = {size}"
        for shape in ((), (0,), (size + 1,), (size - 1, 2), (1, size), (size, 2, 2)):
            with raises(ShapeError, "UV"[product.axis], mentions=wanted) as error:
                getattr(case.design, method)(np.zeros(shape))
            assert str(shape) in error.value.problem


@designs(["dense-c", "csr-float32"])
def test_repr_tells_shape_and_dtype(case):
    n, p = case.matrix.shape
    name = type(case.design.storage).__name__
    assert f"{name}({n} x {p}, {case.design.dtype})" in repr(case.design)


@pytest.mark.parametrize("storage", DESIGNS)
def test_dtype_is_float32_only_for_float32(storage):
    assert case_of(storage).design.dtype == DESIGNS[storage].dtype


@designs(["dense-c", "csr"], ["plain"])
def test_a_gram_matrix_may_be_had_in_less_precision(tall_case):
    for method, dense in GRAMS.items():
        actual = getattr(tall_case.design, method)(np.float32)
        assert actual.dtype == np.float32
        assert_close(actual, dense(tall_case.matrix), dense(tall_case.magnitude), np.float32)
