"""Algorithm 3: every step is the best one along the gradient, and Theorem 1 bounds what is left."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ling import paper
from tests import reference
from tests.paper import transcriptions
from tests.paper.registry import MODELS, SHAPES, STORAGES, gaussian, over, relative_error

# Sixteenths: small enough to shrink to something readable, and often of deficient rank.
numbers = st.integers(-64, 64).map(lambda i: i / 16)
penalties = st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 1.0, 100.0])


@st.composite
def problems(draw):
    n, p = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    X, y, start = (draw(arrays(np.float64, size, elements=numbers)) for size in ((n, p), n, p))
    return X, y, draw(penalties), start


def shares_left(objective, least):
    """The gap after each step over the gap before, for as long as it is above rounding."""
    gap = objective - least
    before = gap[:-1] > 1e-9 * objective[0]
    return (gap[1:] / np.where(before, gap[:-1], 1.0))[before]


def assert_theorem_1(X, y, lam, start, n_iter):
    n, p = X.shape
    objective = paper.gradient_descent(X, y, lam, n_iter, start).objective
    least = reference.objective(X, y, n * lam, reference.ridge(X, y, n * lam))
    rate = paper.theory.gd_rate(np.linalg.svd(X, compute_uv=False), lam, n, p)
    assert (shares_left(objective, least) <= rate + 1e-6).all()


@settings(max_examples=150)
@given(problems())
def test_theorem_1(problem):
    assert_theorem_1(*problem, n_iter=8)


@over("shape", SHAPES)
@over("case", MODELS)
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_theorem_1_on_the_models(case, shape, start):
    model = case.draw(shape)
    assert_theorem_1(model.X, model.y, model.lam, np.full(shape[1], start), n_iter=40)


def test_theorem_1_is_sharp():
    # From this start the gradient keeps equal parts along both eigenvectors: the slowest there is.
    X, y = np.diag([3.0, 1.0]), np.zeros(2)
    start = np.array([1.0 / 9.0, 1.0])
    objective = paper.gradient_descent(X, y, 0.0, 10, start).objective
    rate = paper.theory.gd_rate([3.0, 1.0], lam=0.0, n=2, p=2)
    np.testing.assert_allclose(objective[1:] / objective[:-1], rate, rtol=1e-9)


@settings(max_examples=100)
@given(problems())
def test_objective_never_increases(problem):
    objective = paper.gradient_descent(*problem[:3], 12, problem[3]).objective
    assert (np.diff(objective) <= 1e-12 * objective[0]).all()


@settings(max_examples=100)
@given(problems(), st.integers(0, 6))
def test_objective_is_that_of_the_coefficients(problem, n_iter):
    X, y, lam, start = problem
    fit = paper.gradient_descent(X, y, lam, n_iter, start)
    wanted = reference.objective(X, y, len(y) * lam, fit.coef)
    np.testing.assert_allclose(fit.objective[-1], wanted, rtol=1e-9, atol=1e-12 * fit.objective[0])


def test_objective_tells_of_every_iteration():
    X, y = gaussian()
    whole = paper.gradient_descent(X, y, 0.1, 9).objective
    assert whole.shape == (10,)
    for n_iter in range(10):
        part = paper.gradient_descent(X, y, 0.1, n_iter).objective
        np.testing.assert_array_equal(part, whole[: n_iter + 1])


@pytest.mark.parametrize("lam", [0.0, 0.1, 10.0])
@over("storage", STORAGES)
@over("shape", SHAPES)
def test_iterates_are_those_of_algorithm_3(storage, shape, lam, rng):
    X, y = gaussian(*shape)
    start = rng.standard_normal(shape[1])
    for n_iter in (1, 7):
        fit = paper.gradient_descent(storage.wrap(X), y, lam, n_iter, start)
        wanted = transcriptions.algorithm3(storage.dense(X), y, lam, n_iter, start)
        assert relative_error(fit.coef, wanted) < 1e-9


@pytest.mark.parametrize("lam", [0.0, 0.1, 10.0])
@over("shape", SHAPES)
def test_the_limit_is_ridge(shape, lam):
    X, y = gaussian(*shape)
    wanted = reference.ridge(X, y, len(y) * lam)
    assert relative_error(paper.gradient_descent(X, y, lam, 3000).coef, wanted) < 1e-7


def test_stopping_and_starting_again_changes_nothing():
    X, y = gaussian()
    half = paper.gradient_descent(X, y, 0.1, 4).coef
    resumed = paper.gradient_descent(X, y, 0.1, 5, start=half)
    whole = paper.gradient_descent(X, y, 0.1, 9)
    assert relative_error(resumed.coef, whole.coef) < 1e-12
    assert relative_error(resumed.objective, whole.objective[4:]) < 1e-12


@pytest.mark.parametrize("n_iter", [0, 3])
@pytest.mark.parametrize("kind", [list, np.float64, np.float32, np.int64])
def test_start_may_be_any_vector_and_stays_as_it_was(kind, n_iter):
    X, y = gaussian()
    values = np.arange(12)
    start = values.tolist() if kind is list else values.astype(kind)
    fit = paper.gradient_descent(X, y, 0.1, n_iter, start)
    np.testing.assert_array_equal(start, values)
    wanted = transcriptions.algorithm3(X, y, 0.1, n_iter, values)
    assert relative_error(fit.coef, wanted) < 1e-12


def test_no_iterations_leave_the_start():
    X, y = gaussian()
    start = np.linspace(-1.0, 1.0, 12)
    fit = paper.gradient_descent(X, y, 0.1, 0, start)
    np.testing.assert_array_equal(fit.coef, start)
    np.testing.assert_allclose(fit.fitted, X @ start, rtol=1e-12)
    np.testing.assert_allclose(fit.objective, [reference.objective(X, y, 4.0, start)], rtol=1e-12)


def test_no_iterations_and_no_start_leave_zero():
    X, y = gaussian()
    fit = paper.gradient_descent(X, y, 0.1, 0)
    assert not fit.coef.any()
    assert not fit.fitted.any()
    np.testing.assert_allclose(fit.objective, [y @ y], rtol=1e-12)


@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_the_solution_is_where_it_stays(lam):
    y = np.array([1.0, 3.0])
    solution = y / (1 + 2 * lam)
    fit = paper.gradient_descent(np.eye(2), y, lam, 5, start=solution)
    np.testing.assert_allclose(fit.coef, solution, rtol=1e-12)
