"""Degrees of freedom, noise and standard errors: against formulas, simulation and each other."""

import numpy as np
import pytest
from scipy import sparse

from ling import Ridge, RidgeCV, scan_npy
from ling.errors import OptionError
from tests import reference
from tests.raising import raises


def data(n=60, p=5, t=None, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + rng.standard_normal(p)
    w = rng.standard_normal((p, t) if t else p)
    return X, X @ w + noise * rng.standard_normal((n, t) if t else n) + 2.0


def covariance(X, alpha, weights=None, fit_intercept=True):
    w = np.ones(len(X)) if weights is None else weights
    centred = X - (w @ X / w.sum() if fit_intercept else 0.0)
    A = centred.T @ (w[:, None] * centred)
    return A, np.linalg.inv(A + alpha * np.eye(X.shape[1]))


@pytest.mark.parametrize("shape", [(60, 5), (20, 40)], ids=["tall", "wide"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_statistics_are_those_of_the_gaussian_model(shape, fit_intercept, weighted):
    X, y = data(*shape)
    rng = np.random.default_rng(1)
    weights = np.exp(rng.standard_normal(len(X))) * (rng.random(len(X)) < 0.9) if weighted else None
    model = Ridge(2.0, fit_intercept=fit_intercept, store_covariance=True).fit(X, y, weights)
    A, inverse = covariance(X, 2.0, weights, fit_intercept)
    edf = np.trace(A @ inverse)
    assert model.edf_ == pytest.approx(edf)
    w = np.ones(len(X)) if weights is None else weights
    squares = w @ (y - model.predict(X)) ** 2
    noise = squares / (np.count_nonzero(w) - edf - fit_intercept)
    assert model.noise_variance_ == pytest.approx(noise)
    assert np.allclose(model.coef_std_errors(), np.sqrt(noise * np.diag(inverse)))
    new = rng.standard_normal((7, X.shape[1]))
    centred = new - (w @ X / w.sum() if fit_intercept else 0.0)
    share = np.einsum("ij,jk,ik->i", centred, inverse, centred) + fit_intercept / w.sum()
    mean, std = model.predict(new, return_std=True)
    assert np.allclose(mean, model.predict(new))
    assert np.allclose(std, np.sqrt(noise * (1 + share)))
    assert model.covariance_method_ == "exact"


@pytest.mark.parametrize("cv", [None, 4])
def test_targets_and_their_own_alphas(cv):
    X, Y = data(t=3)
    model = RidgeCV(cv=cv, alpha_per_target=True, store_covariance=True).fit(X, Y)
    for t in range(3):
        alone = Ridge(model.alpha_[t], store_covariance=True).fit(X, Y[:, t])
        assert model.edf_[t] == pytest.approx(alone.edf_)
        assert model.noise_variance_[t] == pytest.approx(alone.noise_variance_)
        assert np.allclose(model.coef_std_errors()[t], alone.coef_std_errors())
        _, std = model.predict(X, return_std=True)
        assert np.allclose(std[:, t], alone.predict(X, return_std=True)[1])


@pytest.mark.parametrize("kind", ["sparse", "float32", "tiny units", "one column of y"])
def test_every_kind_of_data(kind):
    X, y = data()
    exact = Ridge(1.0, store_covariance=True).fit(X, y)
    if kind == "sparse":
        model, unit, new = (
            Ridge(1.0, store_covariance=True).fit(sparse.csr_array(X), y),
            1.0,
            sparse.csr_array(X),
        )
    elif kind == "float32":
        X = X.astype(np.float32)
        model, unit, new = (
            Ridge(1.0, solver="direct", precision="float64", store_covariance=True).fit(X, y),
            1.0,
            X,
        )
        assert model.coef_std_errors().dtype == np.float32
    elif kind == "tiny units":
        model, unit, new = Ridge(1e-60, store_covariance=True).fit(X * 1e-30, y), 1e30, X * 1e-30
    else:
        model, unit, new = Ridge(1.0, store_covariance=True).fit(X, y[:, None]), 1.0, X
    assert np.allclose(model.coef_std_errors().ravel(), unit * exact.coef_std_errors(), rtol=1e-4)
    std = model.predict(new, return_std=True)[1]
    assert np.allclose(std.ravel(), exact.predict(data()[0], return_std=True)[1], rtol=1e-4)


@pytest.mark.parametrize("alpha", [1e-20, 1e-12, 1e-3, 1.0])
def test_standard_errors_of_columns_of_very_different_sizes(alpha):
    X, y = data(60, 25)
    scale = 10.0 ** np.linspace(-6, 6, 25)
    model = Ridge(alpha, solver="direct", store_covariance=True).fit(X * scale, y)
    exact = reference.inverse_diagonal((X - X.mean(axis=0)) * scale, alpha)
    known = np.sqrt(model.noise_variance_ * exact)
    np.testing.assert_allclose(model.coef_std_errors(), known, rtol=1e-6)
    assert model.edf_ == pytest.approx(25 - alpha * exact.sum())


def test_standard_errors_follow_the_units_of_the_columns():
    """An alpha that is small beside every column: without effect in any unit."""
    X, y = data(60, 25)
    scale = 10.0 ** np.linspace(-6, 6, 25)
    known = Ridge(1e-20, solver="direct", store_covariance=True).fit(X, y).coef_std_errors()
    errors = (
        Ridge(1e-20, solver="direct", store_covariance=True).fit(X * scale, y).coef_std_errors()
    )
    np.testing.assert_allclose(errors * scale, known, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("alpha", [1e-20, 1e-10])
def test_dependent_columns_have_standard_errors(alpha):
    """X'X + alpha I is singular, up to rounding."""
    X, y = data()
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    model = Ridge(alpha, solver="direct", store_covariance=True).fit(X, y)
    assert (np.isfinite(model.coef_std_errors()) & (model.coef_std_errors() > 0)).all()
    # The dependent column adds nothing to the predictions.
    known = (
        Ridge(alpha, solver="direct", store_covariance=True)
        .fit(X[:, :-1], y)
        .predict(X[:, :-1], return_std=True)[1]
    )
    assert np.allclose(model.predict(X, return_std=True)[1], known, rtol=0.05)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_constant_column_has_no_degree_of_freedom():
    X, y = data()
    X = np.column_stack([X, np.full(len(X), 3.0)])
    model = Ridge(1e-20, solver="direct", store_covariance=True).fit(X, y)
    assert model.edf_ == pytest.approx(5)
    assert model.coef_std_errors()[-1] == pytest.approx(np.sqrt(model.noise_variance_ / 1e-20))


@pytest.mark.parametrize(
    ("estimator", "repeats"),
    [(Ridge(0.1, store_covariance=True), 400), (RidgeCV(store_covariance=True), 150)],
)
def test_intervals_cover_what_they_promise(estimator, repeats):
    """Low shrinkage: 95 % intervals of coefficients, and of new observations."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(6)
    covered, seen = [], []
    for _ in range(repeats):
        X = rng.standard_normal((80, 6))
        model = estimator.fit(X, X @ w + rng.standard_normal(80))
        covered.append(np.abs(model.coef_ - w) <= 1.96 * model.coef_std_errors())
        new = rng.standard_normal((5, 6))
        mean, std = model.predict(new, return_std=True)
        seen.append(np.abs(new @ w + rng.standard_normal(5) - mean) <= 1.96 * std)
    assert 0.93 <= np.mean(covered) <= 0.97
    assert 0.93 <= np.mean(seen) <= 0.97


@pytest.mark.parametrize("shape", [(300, 120), (120, 300)], ids=["tall", "wide"])
def test_draws_stand_in_where_memory_is_short(shape):
    X, y = data(*shape, noise=2.0)
    exact = Ridge(20.0, store_covariance=True).fit(X, y)
    model = Ridge(20.0, store_covariance=True, memory_budget=2e5, random_state=0).fit(X, y)
    assert "128 random draws" in model.covariance_method_
    assert model.edf_ == pytest.approx(exact.edf_, rel=0.05)
    assert model.noise_variance_ == pytest.approx(exact.noise_variance_, rel=0.15)
    unit = np.sqrt(model.noise_variance_ / exact.noise_variance_)
    ratio = model.coef_std_errors() / exact.coef_std_errors() / unit
    assert abs(np.mean(ratio) - 1) < 0.03
    assert np.abs(ratio - 1).max() < 5 * np.sqrt(1 / 256)
    ratio = model.predict(X, return_std=True)[1] / exact.predict(X, return_std=True)[1] / unit
    assert abs(np.mean(ratio) - 1) < 0.02


def test_no_covariance_is_stored_unless_asked():
    X, y = data()
    model = Ridge(10.0).fit(X, y)
    assert not hasattr(model, "edf_")
    assert not hasattr(model, "noise_variance_")
    assert not hasattr(model, "covariance_method_")
    with raises(OptionError, "store_covariance", change=("store_covariance", True)):
        model.coef_std_errors()
    with raises(OptionError, "store_covariance", change=("store_covariance", True)):
        model.predict(X, return_std=True)
    model.set_params(store_covariance=True).fit(X, y)
    assert model.coef_std_errors().shape == model.coef_.shape
    assert 0 < model.edf_ < X.shape[1]
    model.set_params(store_covariance=False).fit(X, y)
    assert not hasattr(model, "edf_")


def test_a_covariance_needs_a_penalty():
    X, y = data()
    with raises(OptionError, "store_covariance", change=("store_covariance", False)):
        Ridge(alpha=0.0, store_covariance=True).fit(X, y)


def test_the_degrees_of_freedom_of_a_choice_come_with_it():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 1050))
    y = X[:, 0] + rng.standard_normal(1200)
    model = RidgeCV([10.0, 1e3, 1e4, 1e6]).fit(X, y)
    theta = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    assert model.edf_ == pytest.approx((theta / (theta + model.alpha_)).sum())
    with raises(OptionError, "store_covariance", change=("store_covariance", True)):
        model.coef_std_errors()


@pytest.mark.parametrize("noise", [1e-5, 1e-8])
def test_the_noise_of_a_nearly_perfect_fit_is_not_rounding(noise):
    X, y = data(noise=noise)
    model = Ridge(1e-12, store_covariance=True).fit(X, y)
    assert model.noise_variance_ == pytest.approx(noise**2, rel=0.6)
    assert (model.coef_std_errors() > 0).all()


def test_statistics_and_positive_do_not_go_together():
    X, y = data()
    with raises(OptionError, "store_covariance", change=("positive", False)):
        Ridge(positive=True, store_covariance=True).fit(X, y)


def test_x_in_memory_counts_towards_the_budget(tmp_path):
    """Exact statistics of 600 columns take 8.6 MB, and X that was read from a file 4.8 MB."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 600))
    y = X[:, 0] + rng.standard_normal(1000)
    np.save(tmp_path / "X.npy", X)
    options = {"store_covariance": True, "memory_budget": "10MB", "random_state": 0}
    scanned = Ridge(**options).fit(scan_npy(tmp_path / "X.npy").X, y)
    assert "random draws" in scanned._uncertainty_state.posterior.method
    assert Ridge(**options).fit(X, y)._uncertainty_state.posterior.method == "exact"
