"""Statistics are exact to the digits shown, or come with an error that covers the difference."""

import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from ling import Ridge, RidgeCV, scan_npy
from tests import reference
from tests.solvers.problems import ridge_cases


def quiet_fit(model, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(*args)


def graded(n, p, condition, seed=0):
    """X with singular values that fall from 1 to 1 / condition, and means."""
    rng = np.random.default_rng(seed)
    k = min(n - 1, p)
    centred = rng.standard_normal((n, k))
    U = np.linalg.qr(centred - centred.mean(axis=0))[0]
    V = np.linalg.qr(rng.standard_normal((p, p)))[0][:, :k]
    d = condition ** -np.linspace(0, 1, k)
    return (U * d) @ V.T, d


def exact_statistics(X, y, alpha, weights=None, fit_intercept=True, digits=120):
    """edf, noise variance and the diagonal of (X'X + alpha I)^-1, in so many digits."""
    exact = reference.ExactRidge(X, y, alpha, weights, fit_intercept, digits)
    with mpmath.workdps(digits):
        A, alpha = exact.A, mpmath.mpf(float(alpha))
        inverse = (A.T * A + alpha * mpmath.eye(A.cols)) ** -1
        diagonal = [inverse[j, j] for j in range(A.cols)]
        edf = A.cols - alpha * mpmath.fsum(diagonal)
        residual = exact.centred_y - A * exact.coef
        counted = len(X) if weights is None else np.count_nonzero(weights)
        freedom = counted - edf - bool(fit_intercept)
        noise = float(mpmath.norm(residual) ** 2 / freedom) if freedom > 0 else np.nan
        return float(edf), noise, np.array([float(v) for v in diagonal])


@pytest.mark.parametrize("shape", [(60, 12), (14, 40), (300, 12)])
@pytest.mark.parametrize("condition", [1e5, 1e6, 1e7])
@pytest.mark.parametrize("factor", [0.03, 1.0])
def test_degrees_of_freedom_of_ill_conditioned_data(shape, condition, factor):
    """The Gram matrix alone loses all but four digits of them."""
    X, d = graded(*shape, condition)
    alpha = factor * d[-1] ** 2
    y = X @ np.ones(shape[1]) + 1e-3 * np.random.default_rng(1).standard_normal(shape[0])
    model = quiet_fit(Ridge(alpha, store_covariance=True), X, y)
    edf = float((d**2 / (d**2 + alpha)).sum())
    assert model.edf_ == pytest.approx(edf, abs=2e-8)
    assert abs(model.edf_ - edf) <= model.edf_error_ + 1e-9
    assert model.edf_error_ < 1e-6
    assert model.covariance_method_ == "exact"


def test_the_noise_after_a_fit_that_was_not_certified():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 100)) / np.arange(1, 101)
    y = 100 * X @ rng.standard_normal(100) + 20 * rng.standard_normal(3000)
    exact = Ridge(0.1, solver="direct", store_covariance=True).fit(X, y)
    model = quiet_fit(Ridge(0.1, solver="two_stage", max_iter=1, store_covariance=True), X, y)
    assert not model.report_.certificate.holds
    assert model.noise_variance_ == pytest.approx(exact.noise_variance_, rel=3e-3)
    assert abs(model.noise_variance_ - exact.noise_variance_) <= (
        model.noise_variance_error_ + exact.noise_variance_error_
    )


@pytest.mark.parametrize("noise", [1e-1, 1e-2, 3e-3])
def test_the_noise_at_the_default_tolerance(noise):
    """tol is relative to y; residuals of a good fit are far smaller."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 100)) / np.arange(1, 101)
    y = 100 * X @ rng.standard_normal(100) + noise * rng.standard_normal(3000)
    exact = Ridge(1e-3, solver="direct", store_covariance=True).fit(X, y)
    model = Ridge(1e-3, solver="two_stage", store_covariance=True).fit(X, y)
    assert model.noise_variance_ == pytest.approx(exact.noise_variance_, rel=3e-3)
    assert abs(model.noise_variance_ - exact.noise_variance_) <= (
        model.noise_variance_error_ + exact.noise_variance_error_
    )
    np.testing.assert_allclose(model.coef_std_errors(), exact.coef_std_errors(), rtol=2e-3)


@given(case=ridge_cases(largest_scale=20.0), solver=st.sampled_from(["direct", "two_stage"]))
@settings(max_examples=150)
def test_errors_of_statistics_are_covered(case, solver):
    if not case.X.any() or case.alpha > 1e8:
        return
    model = Ridge(case.alpha, fit_intercept=case.fit_intercept, solver=solver,
                  store_covariance=True, max_iter=3)  # fmt: skip
    quiet_fit(model, case.X, case.y, case.weights)
    edf, noise, diagonal = exact_statistics(
        case.X, case.y, case.alpha, case.weights, case.fit_intercept
    )
    assert abs(model.edf_ - edf) <= model.edf_error_
    if np.isfinite(noise) and np.isfinite(model.noise_variance_):
        assert abs(model.noise_variance_ - noise) <= model.noise_variance_error_
    if np.isfinite(model.covariance_error_):
        state = model._uncertainty_state
        scale = float(state.standardization.x_scale)
        with np.errstate(over="ignore", under="ignore"):
            computed = state.posterior.inverse_diagonal[:, 0] / scale / scale
        usable = (computed > 0) & np.isfinite(computed)
        ratio = computed[usable] / diagonal[usable]
        assert (np.abs(ratio - 1) <= model.covariance_error_ + 1e-9).all()


def test_draws_say_how_far_off_they_may_be():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 120))
    y = X @ rng.standard_normal(120) + rng.standard_normal(300)
    exact = Ridge(20.0, store_covariance=True).fit(X, y)
    model = Ridge(20.0, store_covariance=True, memory_budget=2e5).fit(X, y)
    assert "draws" in model.covariance_method_
    assert 0 < model.edf_error_ < 0.05 * model.edf_
    assert abs(model.edf_ - exact.edf_) <= 4 * model.edf_error_
    assert abs(model.noise_variance_ - exact.noise_variance_) <= 4 * model.noise_variance_error_
    assert model.covariance_error_ == pytest.approx(0.125, rel=0.01)


def test_rounding_that_memory_does_not_allow_to_avoid_is_told(tmp_path):
    """From X'X alone, as partial_fit has nothing else."""
    X, d = graded(60, 12, 1e7)
    alpha, y = d[-1] ** 2, X @ np.ones(12) + 1e-3 * np.arange(60)
    model = Ridge(alpha, store_covariance=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.partial_fit(X, y)
    edf = float((d**2 / (d**2 + alpha)).sum())
    assert abs(model.edf_ - edf) > 1e-6
    assert abs(model.edf_ - edf) <= model.edf_error_
    assert model.covariance_error_ > 1e-6
    assert "rounding" in model.covariance_method_


def test_degrees_of_freedom_of_a_choice_have_an_error():
    X, d = graded(60, 12, 1e7)
    alpha, y = d[-1] ** 2, X @ np.ones(12) + 1e-3 * np.arange(60)
    model = quiet_fit(RidgeCV([alpha]), X, y)
    edf = float((d**2 / (d**2 + alpha)).sum())
    assert abs(model.edf_ - edf) <= model.edf_error_
    assert model.noise_variance_error_ >= 0


@pytest.mark.parametrize("shape", [(400, 100), (150, 300)])
@pytest.mark.parametrize("alpha", [1e-2, 1.0, 30.0])
def test_degrees_of_freedom_from_random_vectors_have_a_standard_error(shape, alpha):
    errors = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal(shape) / np.sqrt(np.arange(1, shape[1] + 1))
        Y = X @ rng.standard_normal((shape[1], 2)) + rng.standard_normal((shape[0], 2))
        model = RidgeCV([alpha], gcv_mode="stochastic", random_state=seed).fit(X, Y)
        eigenvalues = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
        edf = float((eigenvalues / (eigenvalues + alpha)).sum())
        assert model.edf_error_.shape == model.edf_.shape == (2,)
        assert (model.edf_error_ > 0).all()
        assert (model.edf_error_ < 0.1 * edf).all()
        errors.append((model.edf_ - edf) / model.edf_error_)
        assert np.isfinite(model.noise_variance_error_).all()
    assert np.abs(errors).max() < 4
    assert np.abs(errors).mean() > 0.1


def test_errors_have_the_shape_of_their_statistics(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((50, 4)), rng.standard_normal((50, 2))
    np.save(tmp_path / "X.npy", X)
    model = Ridge([0.1, 1.0], store_covariance=True).fit(scan_npy(tmp_path / "X.npy").X, Y)
    assert model.edf_error_.shape == model.noise_variance_error_.shape == (2,)
    assert (model.edf_error_ < 1e-10).all()
    plain = Ridge().fit(X, Y)
    for name in ("edf_error_", "noise_variance_error_", "covariance_error_"):
        assert not hasattr(plain, name)
