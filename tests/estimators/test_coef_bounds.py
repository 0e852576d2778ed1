"""Bounds on coefficients, and on predictions for new rows, are never below the error."""

import pickle
import warnings
from dataclasses import replace
from functools import partial

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import ling
from ling import (
    LingClassifier,
    LingRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    certify,
    scan_npy,
)
from ling.error_region import round_up_to_float32
from ling.errors import OptionError
from ling.solvers.engines import ENGINES
from tests import reference
from tests.raising import raises
from tests.solvers.problems import Case, ridge_cases


def data(n=200, p=12, t=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) / np.arange(1, p + 1) + rng.standard_normal(p)
    w = rng.standard_normal((p, t) if t else p)
    return X, X @ w + rng.standard_normal((n, t) if t else n) + 2.0


def quiet_fit(model, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args)


def new_rows(X, seed=1):
    """Rows of X, rows near its mean, and rows far away."""
    rng = np.random.default_rng(seed)
    scale = np.abs(X).max(axis=0)
    far = 10 * scale * rng.standard_normal((2, X.shape[1]))
    return np.vstack([X[:3], X.mean(axis=0), np.zeros(X.shape[1]), far]).astype(X.dtype)


def assert_bounds_hold(model, exact, X, predict):
    coef = np.asarray(model.coef_, np.float64)
    errors, norm = exact.coef_errors(coef)
    certificate = model.report_.certificate
    assert certificate.coef_norm_bounds[0] >= norm
    assert (certificate.coef_bounds()[0] >= errors).all()
    rows = new_rows(X)
    predicted, bounds = predict(rows)
    assert (bounds >= exact.errors_of_predictions(rows, predicted)).all()


@given(
    case=ridge_cases(largest_scale=60.0),
    solver=st.sampled_from([*ENGINES]),
    tol=st.sampled_from([1e-2, 1e-6, 1e-12]),
    max_iter=st.sampled_from([None, 1]),
    store=st.booleans(),
)
@settings(max_examples=300)
def test_no_bound_lies(case, solver, tol, max_iter, store):
    """Condition to 1e14, large means, weights, all scales, every engine, also stopped early."""
    model = Ridge(case.alpha, fit_intercept=case.fit_intercept, solver=solver, tol=tol,
                  max_iter=max_iter, store_covariance=store)  # fmt: skip
    quiet_fit(model, case.X, case.y, case.weights)
    exact = reference.ExactRidge(case.X, case.y, case.alpha, case.weights, case.fit_intercept, 200)
    assert_bounds_hold(model, exact, case.X, lambda rows: model.predict(rows, return_bound=True))


RESIDUAL_OF_ROUNDING = Case(
    np.array([[-1.0e59], [9.0847304e58], [-3.66445416e58], [8.11604674e58]]),
    np.array([4.21341798e59, -2.39055849e60, 7.56764546e59, -1.9671092e60]),
    1.0, None, False,
)  # fmt: skip


@example(case=RESIDUAL_OF_ROUNDING, n_iter="auto", second_stage="svrg", shrink=False)
@given(
    case=ridge_cases(largest_scale=60.0),
    n_iter=st.sampled_from(["auto", 0, 3]),
    second_stage=st.sampled_from(["gradient_descent", "svrg"]),
    shrink=st.booleans(),
)
@settings(max_examples=150)
def test_no_bound_of_ling_lies(case, n_iter, second_stage, shrink):
    """Also where LING cannot get near ridge regression, however long it runs."""
    model = LingRegressor(case.alpha, n_components=1, n_iter=n_iter, second_stage=second_stage,
                          shrink=shrink, fit_intercept=case.fit_intercept)  # fmt: skip
    assume(second_stage == "gradient_descent" or len(case.y) >= 3)
    quiet_fit(model, case.X, case.y, case.weights)
    exact = reference.ExactRidge(case.X, case.y, case.alpha, case.weights, case.fit_intercept, 200)
    assert_bounds_hold(model, exact, case.X, lambda rows: model.predict(rows, return_bound=True))


@given(case=ridge_cases(largest_scale=10.0), offset=st.sampled_from([0.0, 1e3]))
@settings(max_examples=150)
def test_no_bound_lies_in_float32(case, offset):
    """coef_, intercept_ and predictions are rounded to float32."""
    X = (case.X / np.abs(case.X).max(initial=1e-300) + offset).astype(np.float32)
    y = case.y / max(np.abs(case.y).max(), 1e-300)
    model = quiet_fit(Ridge(1e-3, fit_intercept=case.fit_intercept), X, y)
    assert model.coef_.dtype == np.float32
    exact = reference.ExactRidge(X, y, 1e-3, None, case.fit_intercept, 200)
    for make in (np.asarray, sparse.csr_array):
        assert_bounds_hold(
            model, exact, X, lambda rows, make=make: model.predict(make(rows), return_bound=True)
        )


@given(case=ridge_cases(largest_scale=60.0), change=st.sampled_from([0.0, 1e-9, 1e-3]))
@settings(max_examples=100)
def test_no_bound_of_a_solution_from_elsewhere_lies(case, change):
    rng = np.random.default_rng(0)
    exact = reference.ExactRidge(case.X, case.y, case.alpha, case.weights, case.fit_intercept, 200)
    coef = np.array([float(v) for v in exact.coef]) * (
        1 + change * rng.standard_normal(len(exact.coef))
    )
    certificate = certify(coef, case.X, case.y, case.alpha, sample_weight=case.weights,
                          fit_intercept=case.fit_intercept)  # fmt: skip
    errors, norm = exact.coef_errors(coef)
    assert certificate.coef_norm_bounds[0] >= norm
    assert (certificate.coef_bounds()[0] >= errors).all()


@pytest.mark.parametrize("positive", [False, True])
def test_batches_and_constraints_have_bounds(positive):
    X, y = data()
    X = X + 1e4
    model = Ridge(0.5, positive=positive).partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    model.partial_fit(X[:20], y[:20], remove=True)
    tight = Ridge(0.5, positive=positive, tol=1e-8).fit(X[20:], y[20:])
    certificate = model.report_.certificate
    other = tight.report_.certificate.coef_bounds() + certificate.coef_bounds()
    assert (np.abs(model.coef_ - tight.coef_) <= other[0]).all()
    rows = new_rows(X)
    a, bound_a = model.predict(rows, return_bound=True)
    b, bound_b = tight.predict(rows, return_bound=True)
    assert (np.abs(a - b) <= bound_a + bound_b).all()
    assert (bound_a < 1e-3 * y.std()).all()


@pytest.mark.parametrize("solver", [*ENGINES])
@pytest.mark.parametrize("alpha", [1e-2, 10.0])
def test_bounds_are_useful(solver, alpha):
    """They shrink with tol, and are a small fraction of what they are about."""
    X, y = data(2000, 30)
    sizes = []
    for tol in (1e-3, 1e-7):
        model = Ridge(alpha, solver=solver, tol=tol).fit(X, y)
        certificate = model.report_.certificate
        bounds = model.predict(X, return_bound=True)[1]
        assert (certificate.coef_bounds()[0] <= certificate.coef_norm_bounds[0] * (1 + 1e-6)).all()
        sizes.append(bounds.max() / y.std())
        # sqrt(x'x / alpha) E is the bound without any knowledge of X'X
        centred = X - X.mean(axis=0)
        simple = certificate.bound * np.linalg.norm(y - y.mean()) / np.sqrt(alpha)
        assert (bounds <= 1.01 * simple * np.linalg.norm(centred, axis=1) + 1e-9).all()
    assert sizes[1] <= sizes[0]
    assert sizes[1] < 1e-3


def test_bounds_of_ling_shrink_with_tol():
    X, y = data(2000, 30)
    models = [LingRegressor(10.0, n_components=30, n_iter=0), LingRegressor(10.0, tol=0.1)]
    tight, loose = (model.fit(X, y).predict(X, return_bound=True)[1] for model in models)
    assert tight.max() < 1e-6 * y.std()
    assert tight.max() < loose.min()


def test_a_stored_covariance_makes_bounds_tighter():
    X, y = data(2000, 100)
    plain, stored = (
        Ridge(0.01, solver="two_stage", tol=1e-3, store_covariance=store).fit(X, y)
        for store in (False, True)
    )
    without, within = (model.predict(X, return_bound=True)[1] for model in (plain, stored))
    assert (within <= without).all()
    assert np.median(within) < 0.2 * np.median(without)
    exact = reference.ridge(X - X.mean(axis=0), y - y.mean(), 0.01)
    errors = np.abs(stored.predict(X) - y.mean() - (X - X.mean(axis=0)) @ exact)
    assert (within >= errors).all()
    assert np.median(within) < 2000 * np.median(errors)


def test_directions_make_bounds_tighter():
    """Rows that lie in the leading directions have much smaller bounds than others as long."""
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    X = rng.standard_normal((1000, 60)) * np.r_[np.full(4, 30.0), np.full(56, 0.1)] @ V.T
    y = X @ rng.standard_normal(60) + rng.standard_normal(1000)
    model = Ridge(1.0, solver="two_stage", tol=1e-3).fit(X, y)
    assert model.report_.certificate.region.directions is not None
    along = X.mean(axis=0) + np.vstack([V[:, 0], V[:, -1]])
    bounds = model.predict(along, return_bound=True)[1]
    assert bounds[0] < 0.1 * bounds[1]


def kinds(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    return {
        "sparse": sparse.csr_array(X),
        "csc": sparse.csc_matrix(X),
        "file": scan_npy(tmp_path / "X.npy"),
        "memory map": np.load(tmp_path / "X.npy", mmap_mode="r"),
    }


@pytest.mark.parametrize(
    "make", [partial(Ridge, solver="two_stage"), partial(LingRegressor, n_components=3, n_iter=9)]
)
def test_every_kind_of_data_gives_the_same_bounds(make, tmp_path):
    X, Y = data(t=3)
    model = make([0.1, 1.0, 10.0]).fit(X, Y)
    predicted, bounds = model.predict(X, return_bound=True)
    assert bounds.shape == predicted.shape == (200, 3)
    for name, other in kinds(X, tmp_path).items():
        values, others = model.predict(other, return_bound=True)
        np.testing.assert_allclose(values, predicted, err_msg=name)
        np.testing.assert_allclose(others, bounds, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("make", [Ridge, LingRegressor])
def test_dask_arrays_have_lazy_bounds(make):
    da = pytest.importorskip("dask.array")
    X, y = data()
    model = make().fit(X, y)
    lazy = da.from_array(X, chunks=(70, -1))
    predicted, bounds = model.predict(lazy, return_bound=True)
    assert isinstance(predicted, da.Array)
    assert isinstance(bounds, da.Array)
    np.testing.assert_allclose(bounds.compute(), model.predict(X, return_bound=True)[1])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("make", [RidgeClassifier, RidgeClassifierCV, LingClassifier])
def test_decision_values_have_bounds(make, n_classes):
    X, y = data()
    labels = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    model = make().fit(X, labels)
    values, bounds = model.decision_function(X, return_bound=True)
    np.testing.assert_array_equal(values, model.decision_function(X))
    assert bounds.shape == values.shape
    alpha = getattr(model, "alpha_", 1.0)
    for k in range(n_classes if n_classes > 2 else 1):
        target = np.where(labels == (k if n_classes > 2 else 1), 1.0, -1.0)
        exact = reference.ExactRidge(X, target, alpha, digits=40)
        column = values.reshape(len(X), -1)[:, k]
        errors = exact.errors_of_predictions(X, column)
        assert (bounds.reshape(len(X), -1)[:, k] >= errors).all()


def test_a_choice_of_alpha_has_bounds():
    X, y = data()
    model = RidgeCV().fit(X, y)
    exact = reference.ExactRidge(X, y, model.alpha_, digits=60)
    assert_bounds_hold(model, exact, X, lambda rows: model.predict(rows, return_bound=True))


@pytest.mark.parametrize("make", [Ridge, partial(LingRegressor, n_components=3, n_iter=5)])
def test_without_a_penalty_bounds_are_infinite(make):
    X, y = data()
    model = make(0.0).fit(X, y)
    assert np.isinf(model.report_.certificate.coef_norm_bounds).all()
    assert np.isinf(model.report_.certificate.coef_bounds()).all()
    assert np.isinf(model.predict(X, return_bound=True)[1]).all()


@pytest.mark.parametrize("value", [0.0, 3.5])
def test_a_constant_target_is_exact(value):
    X, _ = data()
    model = Ridge().fit(X, np.full(len(X), value))
    assert model.report_.certificate.coef_norm_bounds[0] <= 1e-20
    assert model.predict(X, return_bound=True)[1].max() <= 1e-12 * max(value, 1.0)


def test_a_warm_start_does_not_hide_an_error():
    """y = 0: the certificate is relative to ||y||, the bounds of coefficients are not."""
    X, y = data(500, 30)
    model = Ridge(warm_start=True, solver="two_stage").fit(X, y)
    quiet_fit(model, X, np.zeros(len(X)))
    assert model.report_.certificate.coef_norm_bounds[0] >= np.linalg.norm(model.coef_)


def test_bounds_and_standard_deviations_are_asked_for_separately():
    X, y = data()
    model = Ridge(store_covariance=True).fit(X, y)
    with raises(OptionError, "return_bound"):
        model.predict(X, return_std=True, return_bound=True)


@pytest.mark.parametrize("make", [partial(Ridge, solver="two_stage"), LingRegressor])
def test_bounds_survive_pickles_and_files(make, tmp_path):
    X, y = data()
    model = make().fit(X, y)
    ling.save(model, tmp_path / "model.ling")
    for again in (pickle.loads(pickle.dumps(model)), ling.load(tmp_path / "model.ling")):
        bounds = again.predict(X, return_bound=True)[1]
        np.testing.assert_array_equal(bounds, model.predict(X, return_bound=True)[1])


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=20))
def test_rounding_to_float32_is_upwards(values):
    rounded = round_up_to_float32(np.array(values))
    assert rounded.dtype == np.float32
    assert (rounded.astype(np.float64) >= values).all()


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_rounding_of_the_product_is_part_of_the_bound(make):
    """With coefficients that count as exact, only the sum x'w + b is off."""
    rng = np.random.default_rng(0)
    model = Ridge().fit(rng.standard_normal((50, 1000)), rng.standard_normal(50))
    model.coef_ = np.full(1000, 0.1)
    certificate = model.report_.certificate
    exact_region = replace(
        certificate.region, errors=np.zeros(1), intercept_errors=np.zeros(1), center_error=0.0
    )
    model.report_ = replace(model.report_, certificate=replace(certificate, region=exact_region))
    rows = np.vstack([np.full(1000, 0.1), rng.standard_normal((20, 1000))])
    predicted, bounds = model.predict(make(rows), return_bound=True)
    with mpmath.workdps(40):
        exact = [
            mpmath.fdot(map(mpmath.mpf, row), map(mpmath.mpf, model.coef_.tolist()))
            + mpmath.mpf(float(model.intercept_))
            for row in rows.tolist()
        ]
        errors = np.array(
            [float(abs(p - e)) for p, e in zip(predicted.tolist(), exact, strict=True)]
        )
    assert errors.max() > 0
    assert (bounds >= errors).all()
    assert (bounds < 1e-9).all()
