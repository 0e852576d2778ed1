"""X'X that is formed before centring is as good as its error scale says, and used where it pays."""

import numpy as np
import pytest
from scipy import sparse

from ling import Ridge
from ling.linalg.rounding import sum_noise
from tests import reference
from tests.training import make_data, make_problem

ORDERS = {"C": np.ascontiguousarray, "F": np.asfortranarray}


@pytest.fixture(params=ORDERS)
def in_order(request):
    return ORDERS[request.param]


@pytest.mark.parametrize("mean", [0.0, 1.0, 3.5])
@pytest.mark.parametrize("shape", [(50, 7), (900, 300)], ids=str)
def test_the_error_of_a_corrected_gram_matrix_is_within_its_scale(mean, shape, in_order, rng):
    X = in_order(rng.standard_normal(shape) + mean)
    problem, _ = make_problem(X, X[:, :1], np.ones(1))
    assert problem.centers_gram
    exact = X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)
    exact = exact.T @ exact
    scale = np.sqrt(problem.gram_error_scale)
    assert (np.abs(problem.gram() - exact) <= sum_noise(len(X)) * np.outer(scale, scale)).all()
    np.testing.assert_array_equal(problem.gram(), problem.gram().T)


def test_large_means_are_subtracted_first(in_order, rng):
    X = in_order(rng.standard_normal((50, 7)) + np.r_[np.zeros(6), 5.0])
    assert not make_problem(X, X[:, :1], np.ones(1))[0].centers_gram


def test_a_constant_column_is_subtracted_first(in_order, rng):
    X = in_order(np.c_[rng.standard_normal((50, 3)), np.ones(50)])
    assert not make_problem(X, X[:, :1], np.ones(1))[0].centers_gram


def test_small_alphas_have_means_subtracted_first(in_order, rng):
    X = in_order(rng.standard_normal((50, 7)))
    assert make_problem(X, X[:, :1], np.array([1e-3]))[0].centers_gram
    assert not make_problem(X, X[:, :1], np.array([1e-8]))[0].centers_gram


@pytest.mark.parametrize("case", ["weights", "no intercept", "float32", "sparse"])
def test_other_data_take_their_own_way(case, rng):
    X, weights = rng.standard_normal((50, 7)), None
    if case == "weights":
        weights = rng.uniform(0.5, 1.0, 50)
    if case == "float32":
        X = X.astype(np.float32)
    if case == "sparse":
        X = sparse.csr_array(X)
    Y = rng.standard_normal((50, 1))
    problem, _ = make_problem(X, Y, np.ones(1), weights, case != "no intercept")
    assert not problem.centers_gram


def test_alphas_that_are_not_known_yet_have_means_subtracted_first(rng):
    from ling.solvers.problem import build_problem

    data = make_data(rng.standard_normal((50, 7)), rng.standard_normal((50, 1)))
    assert not build_problem(data, np.ones(1), True, has_final_alphas=False)[0].centers_gram


@pytest.mark.parametrize("mean", [0.0, 3.0])
def test_coefficients_are_those_of_the_reference(mean, in_order, rng):
    X = in_order(rng.standard_normal((200, 30)) + mean)
    y = X @ rng.standard_normal(30) + rng.standard_normal(200)
    coef = reference.ridge(X - X.mean(axis=0), y - y.mean(), 2.0)
    model = Ridge(2.0, tol=1e-9, solver="direct").fit(X, y)
    np.testing.assert_allclose(model.coef_, coef, rtol=1e-10)
    assert model.report_.certificate.holds
