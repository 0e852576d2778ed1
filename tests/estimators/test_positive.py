"""positive=True: the optimum among coefficients >= 0, and a certificate that covers it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import lsq_linear, nnls
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning

from ling import Ridge
from ling.results import Status
from ling.solvers import nonnegative as module
from ling.solvers.certificate import certify
from ling.solvers.engine import Candidate
from ling.solvers.nonnegative import nonnegative
from tests.training import make_problem, run_engine

KINDS = {
    "tall": (80, 12, 1.0),
    "wide": (12, 40, 1.0),
    "square": (30, 30, 1.0),
    "columns of all sizes": (80, 12, 10.0 ** np.arange(-6, 6)),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
every_alpha = pytest.mark.parametrize("alpha", [1e-6, 1e-2, 1.0, 1e4])


def made(kind, rng, n_targets=1):
    n, p, scale = KINDS[kind]
    X = rng.standard_normal((n, p))
    Y = X @ rng.standard_normal((p, n_targets)) + rng.standard_normal((n, n_targets))
    return X * scale, Y


def problem_of(X, Y, alpha):
    return make_problem(X, Y, np.full(Y.shape[1], float(alpha)), None, False)[0]


def exact(X, y, alpha):
    """By Lawson and Hanson's method on [X; sqrt(alpha) I] itself, not on X'X."""
    p = X.shape[1]
    tall = np.vstack([X, np.sqrt(alpha) * np.eye(p)])
    return nnls(tall, np.concatenate([y, np.zeros(p)]), maxiter=100 * p)[0]


def energy(X, alpha, e):
    """sqrt(||X e||^2 + alpha ||e||^2)."""
    return np.sqrt(np.linalg.norm(X @ e) ** 2 + alpha * np.linalg.norm(e) ** 2)


@every_kind
@every_alpha
def test_it_is_the_optimum(rng, kind, alpha):
    X, Y = made(kind, rng, 3)
    model = Ridge(alpha=alpha, positive=True, fit_intercept=False, tol=1e-8).fit(X, Y)
    assert (model.coef_ >= 0).all()
    assert model.report_.status is Status.CERTIFIED
    for coef, y in zip(model.coef_, Y.T, strict=True):
        assert energy(X, alpha, coef - exact(X, y, alpha)) <= 1e-8 * np.linalg.norm(y)


@every_kind
def test_some_coefficients_are_0_and_some_are_not(rng, kind):
    X, Y = made(kind, rng)
    model = Ridge(alpha=1e-2, positive=True).fit(X, Y[:, 0])
    assert 0 < np.count_nonzero(model.coef_) < X.shape[1]


@pytest.mark.parametrize("alpha", [1e-2, 1.0, 10.0])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_it_agrees_with_scikit_learn(rng, alpha, container):
    X, Y = made("tall", rng)
    X, y, weights = X + 2, Y[:, 0] + 5, rng.uniform(0, 2, len(X))
    ours = Ridge(alpha=alpha, positive=True, tol=1e-10).fit(container(X), y, sample_weight=weights)
    theirs = linear_model.Ridge(alpha=alpha, positive=True, tol=1e-12).fit(
        X, y, sample_weight=weights
    )
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert np.isclose(ours.intercept_, theirs.intercept_, atol=1e-3)


def test_each_target_may_have_its_own_alpha_and_0_is_one(rng):
    X, Y = made("tall", rng, 3)
    alphas = [1.0, 0.0, 1e-3]
    model = Ridge(alpha=alphas, positive=True, fit_intercept=False).fit(X, Y)
    for coef, y, alpha in zip(model.coef_, Y.T, alphas, strict=True):
        assert np.allclose(coef, exact(X, y, alpha), atol=1e-10)
    assert model.report_.status is Status.UNCERTIFIED


@pytest.mark.parametrize("kind", ["tall", "wide", "square"])
def test_alpha_0_with_a_singular_gram_matrix_is_least_squares(rng, kind):
    X, Y = made(kind, rng)
    X, y = np.hstack([X, X[:, :3]]), Y[:, 0]
    model = Ridge(alpha=0.0, positive=True, fit_intercept=False).fit(X, y)
    least = lsq_linear(X, y, (0, np.inf), method="bvls", tol=1e-14, max_iter=1000)
    assert (model.coef_ >= 0).all()
    found = np.linalg.norm(y - X @ model.coef_)
    assert found <= np.linalg.norm(least.fun) + 1e-8 * np.linalg.norm(y)


def test_a_penalty_that_rounding_swallows_is_no_trouble(rng):
    X, Y = made("tall", rng)
    X = np.hstack([X, X])
    with pytest.warns(
        ConvergenceWarning, match="float64 cannot tell more of this X; raise tol or alpha"
    ):
        model = Ridge(alpha=1e-18, positive=True, fit_intercept=False, tol=1e-14).fit(X, Y[:, 0])
    error = X @ (model.coef_ - exact(X, Y[:, 0], 1e-18))
    assert np.linalg.norm(error) <= 1e-7 * np.linalg.norm(Y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_method_that_turns_in_circles_is_seen_by_the_certificate(rng, monkeypatch):
    def endless(A, b, maxiter):
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr(module, "nnls", endless)
    X, Y = made("tall", rng)
    y = Y[:, 0]
    model = Ridge(positive=True, fit_intercept=False).fit(X, y)
    assert (model.coef_ >= 0).all()
    assert model.report_.status is Status.NOT_REACHED
    assert "active set was not found" in str(model.report_)
    error = energy(X, 1.0, model.coef_ - exact(X, y, 1.0)) / np.linalg.norm(y)
    assert error <= model.report_.certificate.bound < 10


@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["tall", "wide", "square"]),
    alpha=st.sampled_from([1e-4, 1e-1, 10.0]),
    size=st.sampled_from([1e-8, 1e-3, 1.0, 100.0]),
    kept=st.floats(0, 1),
)
def test_the_certificate_never_lies_wherever_the_candidate_is(seed, kind, alpha, size, kept):
    rng = np.random.default_rng(seed)
    X, Y = made(kind, rng)
    best = exact(X, Y[:, 0], alpha)
    coef = best + size * rng.standard_normal(len(best)) * np.abs(best).max()
    coef = np.maximum(np.where(rng.uniform(size=len(best)) < kept, coef, 0.0), 0.0)
    problem = problem_of(X, Y, alpha)
    minorant = run_engine(nonnegative, problem, 1e-4).minorant
    for candidate in (Candidate(coef[:, None]), Candidate(coef[:, None], minorant)):
        certificate, _ = certify(problem, candidate, 1e-4, positive=True)
        true = np.linalg.norm(X @ (coef - best)) / np.linalg.norm(Y)
        assert true <= certificate.bound * (1 + 1e-6) + 1e-12


@every_kind
def test_without_the_constraint_the_certificate_would_not_hold(rng, kind):
    X, Y = made(kind, rng)
    problem = problem_of(X, Y, 1.0)
    candidate = run_engine(nonnegative, problem, 1e-4)
    constrained, _ = certify(problem, candidate, 1e-6, positive=True)
    free, status = certify(problem, candidate, 1e-6)
    assert constrained.bound < 1e-6 < free.bound
    assert status is Status.NOT_REACHED


def test_the_report_names_the_engine(rng):
    X, Y = made("tall", rng)
    model = Ridge(positive=True).fit(X, Y[:, 0])
    assert model.solver_ == "nonnegative"
    assert "solved by nonnegative (for coefficients >= 0)" in str(model.report_)


def test_float32_stays_above_0(rng):
    X, Y = made("tall", rng)
    model = Ridge(positive=True).fit(X.astype(np.float32), Y[:, 0].astype(np.float32))
    assert model.coef_.dtype == np.float32
    assert (model.coef_ >= 0).all()
    assert model.report_.status is Status.CERTIFIED
