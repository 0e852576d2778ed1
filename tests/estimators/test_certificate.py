"""What a fitted estimator claims of its predictions, intercept included, is true."""

import warnings
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from ling import Ridge, ridge_path
from ling.errors import NonFiniteError
from ling.results import Status
from tests import reference
from tests.estimators.parameters import every_solver
from tests.raising import raises


def true_error(model, X, y, alpha, weights=None):
    return reference.prediction_error(
        X, y, alpha, model.coef_, weights, model.fit_intercept, intercept=model.intercept_
    )


def fit_without_warnings(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args, **kwargs)


def test_y_near_the_largest_float_is_fitted():
    X = np.linspace(0, 1, 4)[:, None]
    y = np.array([0, 1, 2, -1.4e308])
    model = Ridge().fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert true_error(model, X, y, 1.0) <= model.report_.certificate.bound


def test_coefficients_outside_float64_are_refused():
    X = np.linspace(0, 1e-3, 4)[:, None]
    with raises(NonFiniteError, "y", mentions="coefficients"):
        Ridge(alpha=1e-12).fit(X, [0, 1, 2, -1.4e308])


def test_a_norm_of_y_outside_float64_is_refused():
    with raises(NonFiniteError, "y", mentions="norm of y"):
        Ridge().fit(np.eye(3), [1.7e308, 1.7e308, 1.6e308])


def test_an_intercept_outside_float32_is_refused():
    X = np.array([[1.0], [2.0], [3.0]], dtype=np.float32)
    with raises(NonFiniteError, "X", mentions="float32"):
        Ridge().fit(X, [1e39, 1e39, 1e39])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_target_that_hardly_varies_is_not_certified_at_zero(method):
    """y is exact in float64 and varies by few roundings of its size."""
    x = np.tile([0.0, 0.25, 0.5, 0.75, 1.0], 8)
    y = 2.0**50 + x
    with pytest.warns(ConvergenceWarning, match="subtract a constant from y"):
        model = getattr(Ridge(alpha=1e-6), method)(x[:, None], y)
    assert model.report_.status is Status.NOT_REACHED
    assert model.report_.certificate.bound >= true_error(model, x[:, None], y, 1e-6)


@pytest.mark.parametrize(
    ("method", "value"),
    # partial_fit refuses targets whose squares overflow
    [("fit", -1e300), *product(["fit", "partial_fit"], [0.1, 1e13 + 0.3, 0.0])],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_constant_target_is_fitted_exactly(method, value, weighted, rng):
    X, weights = rng.standard_normal((37, 3)), rng.uniform(size=37) if weighted else None
    model = getattr(Ridge(), method)(X, np.full(37, value), sample_weight=weights)
    assert model.intercept_ == value
    assert not model.coef_.any()
    assert model.report_.certificate.bound == 0


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_rounding_of_the_intercept_is_in_the_bound(method, rng):
    x = rng.standard_normal((200, 1))
    y = 1e13 + x[:, 0] + rng.standard_normal(200)
    with pytest.warns(ConvergenceWarning, match="mean of y"):
        model = getattr(Ridge(alpha=1e6), method)(x, y)
    assert model.report_.certificate.bound >= true_error(model, x, y, 1e6)


def test_rounding_of_the_intercept_is_in_the_bounds_of_a_path(rng):
    x = rng.standard_normal((60, 2))
    y = 1e13 + x[:, 0] + rng.standard_normal(60)
    with pytest.warns(ConvergenceWarning):
        path = ridge_path(x, y, alphas=[1e3, 1e6])
    for at, alpha in enumerate(path.alphas):
        error = reference.prediction_error(x, y, alpha, path.coef[at], intercept=path.intercept[at])
        assert path.bounds[at] >= error


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    y_offset=st.floats(0, 15),
    x_offset=st.floats(0, 9),
    alpha=st.floats(-6, 6),
    single=st.booleans(),
    weighted=st.booleans(),
)
def test_certificate_covers_the_intercept(seed, y_offset, x_offset, alpha, single, weighted):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 30)), int(rng.integers(1, 5))
    X = rng.standard_normal((n, p)) + 10**x_offset * rng.standard_normal(p)
    y = X @ rng.standard_normal(p) + rng.standard_normal(n) + 10**y_offset
    X = X.astype(np.float32 if single else np.float64)
    weights = rng.gamma(0.5, size=n) if weighted else None
    model = fit_without_warnings(Ridge(alpha=10**alpha), X, y, sample_weight=weights)
    error = true_error(model, X, y, 10**alpha, weights)
    assert model.report_.certificate.bound >= error * (1 - 1e-6)


@pytest.mark.parametrize("exponent", [95, 120, 150])
@pytest.mark.parametrize("shape", [(60, 5), (80, 30), (30, 80)])
@every_solver
def test_huge_numbers_do_not_overflow(solver, shape, exponent, rng):
    X = rng.standard_normal(shape)
    y = X @ rng.standard_normal(shape[1]) + rng.standard_normal(shape[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = Ridge(solver=solver).fit(X * 10.0**exponent, y)
    assert np.isfinite(model.coef_).all()
    # Preconditioners break down where alpha is 1e-190 beside X'X; the fit says it has no proof.
    if solver == "two_stage":
        assert model.report_.status is Status.NOT_REACHED
        return
    centred = X - X.mean(axis=0)
    expected = centred @ np.linalg.lstsq(centred, y - y.mean())[0]  # alpha = 1 is nothing beside X
    np.testing.assert_allclose(
        centred @ (model.coef_ * 10.0**exponent), expected, atol=1e-4 * np.linalg.norm(y)
    )


@pytest.mark.parametrize("seed", range(3))
def test_nearly_collinear_columns_are_certified_by_singular_values(seed):
    """X'X loses the difference of the columns, on which y depends; X does not."""
    rng = np.random.default_rng(seed)
    t, d = rng.uniform(0, 2.6e6, 300), rng.exponential(1, 300)
    X, y = np.c_[t, t + d], d + 0.1 * rng.standard_normal(300)
    model = Ridge(alpha=0.3, tol=1e-7).fit(X, y)
    assert model.report_.certificate.holds
    assert "singular values" in " ".join(model.report_.notes)
    assert model.score(X, y) > 0.98
    exact = reference.extreme_ridge(X - X.mean(axis=0), y - y.mean(), 0.3)
    np.testing.assert_allclose(model.coef_, exact, rtol=1e-6)
