"""X in float32: the coefficients are float32 too, and the certificate covers their rounding."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ling import LingRegressor, Ridge, RidgeCV
from ling.errors import NonFiniteError
from ling.estimators.fit import FLOAT32_NOTE
from ling.results import Status
from tests import reference
from tests.estimators.parameters import every_solver
from tests.raising import raises


@every_solver
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_float32_stays_float32(data, solver, container):
    X, y = data
    X = container(X.astype(np.float32))
    model = Ridge(solver=solver).fit(X, y.astype(np.float32))
    assert model.coef_.dtype == model.intercept_.dtype == model.predict(X).dtype == np.float32


def prediction_error(model, X, y):
    """Of coef_ and intercept_ as they are, in units of the spread of y, in float64."""
    X, y = X.astype(np.float64), y.astype(np.float64)
    centred = X - X.mean(axis=0)
    exact = reference.ridge(centred, y - y.mean(), model.alpha)
    found = X @ model.coef_.astype(np.float64) + np.float64(model.intercept_)
    return np.linalg.norm(found - y.mean() - centred @ exact) / np.linalg.norm(y - y.mean())


@every_solver
@pytest.mark.parametrize("mean", [0.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-8])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_certificate_covers_the_rounding_to_float32(data, solver, mean, tol):
    X, y = (a.astype(np.float32) for a in data)
    y = (y + mean).astype(np.float32)
    model = Ridge(alpha=0.1, solver=solver, tol=tol).fit(X, y)
    certificate = model.report_.certificate
    assert prediction_error(model, X, y) <= certificate.bound
    assert (model.report_.status is Status.CERTIFIED) == (certificate.bound <= tol)


@every_solver
def test_a_tol_that_float32_does_not_allow_is_blamed_on_it(data, solver):
    X, y = data
    model = Ridge(solver=solver, tol=1e-10).fit(X.astype(np.float32), y)
    assert model.report_.status is Status.ROUNDED
    assert model.report_.notes == (FLOAT32_NOTE,)
    assert 1e-10 < model.report_.certificate.bound < 1e-6
    assert Ridge(solver=solver, tol=1e-10).fit(X, y).report_.status is Status.CERTIFIED


def test_an_intercept_that_float32_cannot_hold_is_in_the_certificate(rng):
    X = rng.standard_normal((100, 3)).astype(np.float32)
    y = X @ np.ones(3) + 1e7 + 1 / 3
    model = Ridge(tol=1e-3).fit(X, y)
    assert model.report_.status is Status.ROUNDED
    assert model.report_.certificate.bound >= prediction_error(model, X, y) > 1e-3


ESTIMATORS = {
    "ridge": Ridge(),
    "partial_fit": Ridge(),
    "ridge-cv": RidgeCV([0.1, 1.0]),
    "ling": LingRegressor(),
    "two_stage": Ridge(solver="two_stage"),
}


@pytest.mark.parametrize("mean", [1e3, 1e4, 1e5])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_columns_with_a_large_mean(name, mean, rng):
    """float32 cannot hold the intercept, about `mean` times the coefficients, to tol."""
    X = (mean + rng.standard_normal((300, 8))).astype(np.float32)
    y = X.astype(np.float64) @ np.arange(8.0) + rng.standard_normal(300)
    y -= y.mean()
    method = "partial_fit" if name == "partial_fit" else "fit"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = getattr(clone(ESTIMATORS[name]), method)(X, y)
    report = model.report_
    if name != "ridge-cv":
        assert prediction_error(model, X, y) <= report.certificate.bound
    assert report.certificate.bound > 1e-6
    assert report.status is (Status.CERTIFIED if report.certificate.holds else Status.ROUNDED)
    assert (FLOAT32_NOTE in report.notes) == (not report.certificate.holds)


def test_an_iteration_that_ends_early_is_not_blamed_on_float32(rng):
    X = (1e4 + rng.standard_normal((300, 8))).astype(np.float32)
    y = rng.standard_normal(300)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = Ridge(solver="two_stage", max_iter=1, alpha=1e-3).fit(X, y)
    assert model.report_.status is Status.NOT_REACHED
    assert FLOAT32_NOTE not in model.report_.notes


def test_coefficients_beyond_float32_are_refused(data):
    X, y = data
    with raises(NonFiniteError, "X", mentions="float32"):
        Ridge().fit(X.astype(np.float32), y * 1e60)


def test_rounding_the_intercept_of_a_constant_target_is_not_certified(rng):
    """Any error is infinitely large beside a spread of 0; a value that float32 holds has none."""
    X = rng.standard_normal((20, 3)).astype(np.float32)
    rounded = Ridge().fit(X, np.full(20, 0.1))
    assert rounded.report_.status is Status.ROUNDED
    assert rounded.report_.certificate.bound == np.inf
    exact = Ridge().fit(X, np.full(20, 0.25))
    assert exact.report_.status is Status.CERTIFIED
    assert exact.report_.certificate.bound == 0
