"""The certificate never lies: on random and adversarial problems the bound is above the error."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

from ling.solvers.certificate import certify
from ling.solvers.engines import ENGINES
from tests import reference
from tests.solvers.problems import Case, ridge_cases
from tests.solvers.ways import WAYS
from tests.training import make_problem, run_engine

# alpha / trace(X'X) overflows, because only rounding is left of the centred column.
TINY = Case(np.array([[1e-148]]), np.array([0.75]), 1.0, None, True)
# The squares of X divided by alpha overflow.
HUGE = Case(np.array([[1e149]]), np.array([0.75]), 1e-11, None, False)
HUGE_MEAN = Case(np.array([[-1e148, 1e149, 3e147]]), np.array([-2.0]), 1e-10, None, True)
# Nothing but rounding is left of the centred column, and 1 / alpha overflows in its units.
HUGE_CONSTANT = Case(np.array([[1e149]]), np.array([0.75]), 1e-11, None, True)
# Below this, an error cannot be told from the rounding of the coefficients themselves.
ROUNDING = 1e-15


def exact_solution(case):
    return reference.ExactRidge(case.X, case.y, case.alpha, case.weights, case.fit_intercept)


def bound_and_error(way, case, exact, tol=1e-4):
    """What is claimed and what is true; infinity where the coefficients leave float64."""
    problem, standardization = WAYS[way].build(
        case.X, case.y[:, None], np.array([case.alpha]), case.weights, case.fit_intercept
    )
    candidate = WAYS[way].solve(problem, tol, max_iter=200)
    certificate, _ = certify(problem, candidate, tol)
    coef = standardization.coef(candidate.coef)[:, 0]
    if not np.isfinite(coef).all():
        return certificate.bound, np.inf
    return certificate.bound, exact.prediction_error(coef)


def assert_bounds_hold(case):
    exact = exact_solution(case)
    for way in WAYS:
        bound, error = bound_and_error(way, case, exact)
        assert bound >= error * (1 - 1e-6), way


@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(case=ridge_cases())
@example(case=TINY)
@example(case=HUGE)
@example(case=HUGE_MEAN)
@example(case=HUGE_CONSTANT)
def test_certificate_never_lies(case):
    """The same cases in every run; the next test draws others."""
    assert_bounds_hold(case)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=ridge_cases())
def test_certificate_never_lies_in_many_cases(case):
    assert_bounds_hold(case)


@pytest.fixture(scope="module")
def solved_cases():
    """The same cases in every run, each with its exact solution."""
    cases = []

    @settings(max_examples=100, deadline=None, derandomize=True, database=None)
    @given(case=ridge_cases())
    def collect(case):
        cases.append(case)

    collect()
    return [(case, exact_solution(case)) for case in cases]


@pytest.mark.parametrize("way", WAYS)
def test_the_bound_is_within_ten_times_the_error_in_the_median(way, solved_cases):
    ratios = []
    for case, exact in solved_cases:
        bound, error = bound_and_error(way, case, exact)
        ratios.append(bound / max(error, ROUNDING))
    assert len(ratios) >= 100
    assert np.median(ratios) <= 10


def test_a_small_residual_is_not_enough(rng):
    """Off in a weak direction: the gradient hardly shows it, the predictions do, the bound too."""
    d = 10.0 ** -np.linspace(0, 5, 40)
    X = np.linalg.qr(rng.standard_normal((100, 40)))[0] * d
    y = X @ (rng.standard_normal(40) / d)
    problem = make_problem(X, y[:, None], np.array([1e-9]), None, False)[0]
    candidate = run_engine(ENGINES["direct"], problem, 1e-12)
    off = candidate.coef.copy()
    off[-1] += 1e-2 * np.linalg.norm(y) / d[-1]
    candidate = replace(candidate, coef=off, bound=None)
    gradient, _ = problem.gradient(off)
    assert np.linalg.norm(gradient) <= 1e-5 * np.linalg.norm(problem.moments)
    error = reference.prediction_error(X, y, 1e-9, off[:, 0], None, False)
    certificate, _ = certify(problem, candidate, 1e-4)
    assert error > 5e-3
    assert certificate.bound >= error
    assert not certificate.holds


def medium_case(rng):
    """Large enough that a sample of the rows is not all of them, with what is hard for samples."""
    n, p = int(rng.integers(70, 900)), int(rng.integers(5, 150))
    decay = rng.choice([0.0, 0.5, 1.0, 2.0])
    X = rng.standard_normal((n, p)) if rng.random() < 0.5 else rng.standard_t(2.2, (n, p))
    X = X * np.arange(1, p + 1) ** -decay
    if rng.random() < 0.7:
        X = X @ np.linalg.qr(rng.standard_normal((p, p)))[0]
    if rng.random() < 0.3:
        X[:, : p // 2] *= rng.random((n, 1)) < 0.02  # carried by few rows
    if rng.random() < 0.3:
        X = X * 10.0 ** rng.uniform(-3, 3, p)
    X = X + 10.0 ** rng.uniform(-2, 3) * rng.standard_normal(p) * np.abs(X).mean()
    y = X @ (rng.standard_normal(p) / np.linalg.norm(X, axis=0)) + rng.standard_normal(n)
    weights = rng.gamma(0.3, size=n) if rng.random() < 0.3 else np.ones(n)
    alpha = 10.0 ** rng.uniform(-9, 1) * np.linalg.norm(X - X.mean(axis=0)) ** 2 / min(n, p)
    return X, y, weights, float(alpha)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("way", WAYS)
def test_certificate_never_lies_where_samples_are_not_everything(way, seed):
    rng = np.random.default_rng(seed)
    X, y, weights, alpha = medium_case(rng)
    tol = 10.0 ** -rng.integers(2, 7)
    problem, standardization = WAYS[way].build(X, y[:, None], np.array([alpha]), weights, True)
    candidate = WAYS[way].solve(problem, tol, seed, max_iter=1000)
    certificate, _ = certify(problem, candidate, tol)
    root = np.sqrt(weights)
    X = root[:, None] * (X - weights @ X / weights.sum())
    y = root * (y - weights @ y / weights.sum())
    gap = standardization.coef(candidate.coef)[:, 0] - reference.ridge(X, y, alpha)
    error = np.linalg.norm(X @ gap) / np.linalg.norm(y)
    assert error <= certificate.bound * (1 + 1e-6) + 1e-10  # the reference is in float64
