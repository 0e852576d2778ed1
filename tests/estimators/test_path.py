"""ridge_path: every alpha as `Ridge` would have it."""

import pickle
from functools import cache

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from ling import Ridge, RidgeCV, ridge_path
from ling.errors import NonFiniteError, OptionError, ShapeError
from ling.model_selection.path import SOLUTION_BATCH_ELEMENTS, _alpha_batches
from tests import reference
from tests.model_selection.problems import DATA
from tests.raising import raises

ALPHAS = np.geomspace(1e-2, 1e4, 9)
WAYS = {"one factorisation": None, "one subspace, iterated": 1.0}


@pytest.fixture(params=WAYS, ids=lambda name: name.split()[1])
def way(request, monkeypatch):
    """Direct and iterated, whatever would be faster."""
    direct = 0.0 if request.param == "one factorisation" else np.inf
    monkeypatch.setattr(
        "ling.model_selection.path.direct_and_pass_seconds", lambda *_: (direct, 1.0)
    )
    return request.param


@cache
def exact_solution(name, target, alpha):
    """By the oracle; both ways are compared with it."""
    data = DATA[name]()
    return reference.ExactRidge(
        data.dense, data.Y[:, target], alpha, data.weights, data.fit_intercept, digits=60
    )


@pytest.mark.parametrize("name", DATA)
def test_every_alpha_is_ridge_and_its_bound_holds(name, way):
    data = DATA[name]()
    path = ridge_path(
        data.X, data.Y, ALPHAS, sample_weight=data.weights, fit_intercept=data.fit_intercept,
        tol=1e-2 if name == "large means" else 1e-6,  # means take the digits
    )  # fmt: skip
    assert path.method == way
    assert path.certified.all()
    assert (path.bounds <= path.tol).all()
    X, t = data.dense, data.Y.shape[1]
    w = np.ones(len(X)) if data.weights is None else data.weights
    for at, alpha in enumerate(ALPHAS):
        for target in range(t if at % 4 == 0 else 0):  # the oracle takes long
            error = exact_solution(name, target, alpha).prediction_error(path.coef[at, target])
            assert error <= path.bounds[at, target]
        everything = np.flatnonzero(w)
        exact = data.predictions(everything, np.arange(len(X)), alpha)
        assert np.allclose(path.predict(X)[:, at], exact, atol=1e-4 * np.abs(exact).max())
        mean = w @ (data.Y - path.predict(X)[:, at]) ** 2 / np.count_nonzero(w)
        assert np.allclose(path.training_error[at], mean, rtol=1e-4, atol=1e-9 * data.Y.var())


@pytest.mark.parametrize("data", ["tall", "wide", "weighted", "sparse"])
def test_degrees_of_freedom(data, way):
    data = DATA[data]()
    path = ridge_path(data.X, data.Y, ALPHAS, sample_weight=data.weights, random_state=0)
    for at, alpha in enumerate(ALPHAS):
        exact = Ridge(alpha, store_covariance=True).fit(data.X, data.Y, data.weights).edf_
        assert path.edf[at] == pytest.approx(exact[0], abs=4 * path.edf_error[at] + 0.02)


def test_shapes_follow_those_of_y():
    data = DATA["three targets"]()
    several, one = ridge_path(data.X, data.Y), ridge_path(data.X, data.Y[:, 0])
    assert several.coef.shape == (30, 3, 6)
    assert (
        several.intercept.shape == several.bounds.shape == several.training_error.shape == (30, 3)
    )
    assert one.coef.shape == (30, 6)
    assert (
        one.intercept.shape
        == one.bounds.shape
        == one.training_error.shape
        == one.edf.shape
        == (30,)
    )
    assert np.allclose(one.coef, several.coef[:, 0])
    assert one.predict(data.X).shape == (40, 30)


def test_the_default_grid_is_that_of_ridge_cv():
    data = DATA["tall"]()
    alphas = ridge_path(data.X, data.Y[:, 0]).alphas
    chosen = RidgeCV().fit(data.X, data.Y[:, 0]).alphas_
    assert np.isin(alphas, chosen).all()


def test_it_reads_as_a_sentence_and_can_be_pickled(way):
    data = DATA["tall"]()
    path = ridge_path(data.X, data.Y, ALPHAS, random_state=0)
    assert str(path).startswith("9 alphas from 0.01 to 1e+04 by one")
    assert "9 of them are certified within 0.0001" in str(path)
    copy = pickle.loads(pickle.dumps(path))
    assert np.array_equal(copy.edf, path.edf)
    assert np.array_equal(copy.predict(data.X), path.predict(data.X))


def test_bad_input_is_named():
    data = DATA["tall"]()
    with raises(OptionError, "alphas", mentions="alphas[0] == 0.0, must be > 0.0"):
        ridge_path(data.X, data.Y, [0.0])
    with raises(ShapeError, "y", mentions="y has 3 rows"):
        ridge_path(data.X, data.Y[:3])
    with raises(NonFiniteError, "X", row=0, column=2):
        ridge_path(np.where(np.arange(6) == 2, np.nan, data.X), data.Y)


def test_what_cannot_be_certified_is_said():
    data = DATA["sparse"]()
    with pytest.warns(ConvergenceWarning, match="not certified within tol=1e-30"):
        ridge_path(sparse.csc_array(data.X), data.Y, ALPHAS, tol=1e-30)


def test_float32_data_do_not_make_the_bound_lie():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5)).astype(np.float32)
    y = 1e6 + X[:, 0] + 0.1 * rng.standard_normal(200)
    path = ridge_path(X, y, [1.0], tol=1e-6)
    error = reference.prediction_error(X, y, 1.0, path.coef[0], digits=60)
    assert error <= path.bounds[0] <= 1e-6
    centred = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    assert path.intercept[0] == pytest.approx(
        y.mean() - X.mean(axis=0, dtype=np.float64) @ path.coef[0]
    )
    assert np.abs(path.predict(X)[:, 0] - y.mean() - centred @ path.coef[0]).max() < 1e-6


@pytest.mark.parametrize("X", [np.hstack([np.arange(20.0)[:, None]] * 3), np.ones((20, 2))])
def test_an_alpha_below_rounding_and_a_singular_x(X):
    with pytest.warns(ConvergenceWarning, match="not certified"):
        path = ridge_path(X, np.arange(20.0) % 3, [1e-20], fit_intercept=False)
    assert np.isfinite(path.coef).all()


def test_the_same_seed_gives_the_same_path(way):
    data = DATA["tall"]()
    found = [ridge_path(data.X, data.Y, ALPHAS, random_state=0) for _ in range(2)]
    assert np.array_equal(found[0].coef, found[1].coef)
    assert np.array_equal(found[0].edf, found[1].edf)


@pytest.mark.parametrize("tol", ["a", -1.0, np.nan])
def test_tol_is_checked(tol):
    data = DATA["tall"]()
    with raises(OptionError, "tol", mentions=repr(tol)):
        ridge_path(data.X, data.Y, tol=tol)


@pytest.mark.parametrize("shape", [(200, 10), (30, 60)])
def test_the_training_error_of_a_nearly_perfect_fit_has_digits(shape):
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape)
    y = X @ rng.standard_normal(shape[1]) + 1e-9 * rng.standard_normal(shape[0])
    path = ridge_path(X, y, alphas=[1e-9, 1e-7, 1.0])
    errors = np.mean((path.predict(X) - y[:, None]) ** 2, axis=0)
    np.testing.assert_allclose(path.training_error, errors, rtol=1e-3)


@pytest.mark.parametrize(
    ("n_batches", "elements_per_alpha"), [(1, 1), (3, SOLUTION_BATCH_ELEMENTS // 3)]
)
def test_batches_of_alphas_hold_a_limited_number_of_coefficients(n_batches, elements_per_alpha):
    batches = list(_alpha_batches(ALPHAS, elements_per_alpha))
    np.testing.assert_array_equal(np.concatenate(batches), ALPHAS)
    assert len(batches) == n_batches
