"""The tridiagonal form is the matrix, in another basis."""

import numpy as np
import pytest

from ling.linalg.tridiagonal import tridiagonalize


@pytest.fixture(params=[1, 2, 3, 20, 150])
def matrix(request, rng):
    A = rng.standard_normal((request.param, request.param + 3))
    return A @ A.T


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def dense(form):
    return np.diag(form.diagonal) + np.diag(form.off_diagonal, 1) + np.diag(form.off_diagonal, -1)


def test_it_is_the_same_matrix(matrix):
    form = tridiagonalize(matrix)
    Q = form.Q
    assert np.allclose(Q @ dense(form) @ Q.T, matrix, rtol=1e-12, atol=1e-12 * np.abs(matrix).max())
    assert np.allclose(Q.T @ Q, np.eye(len(matrix)), atol=1e-12)


def test_q_is_applied_without_being_formed(matrix, rng):
    form = tridiagonalize(matrix)
    C = rng.standard_normal((len(matrix), 3))
    assert np.allclose(form.rotate(C), form.Q.T @ C)
    assert np.allclose(form.unrotate(C), form.Q @ C)


def test_solutions_for_all_alphas(matrix, rng):
    form = tridiagonalize(matrix)
    alphas = np.array([1e-3, 1.0, 1e3])
    C = rng.standard_normal((len(matrix), 3))
    for t, alpha in enumerate(alphas):
        exact = np.linalg.solve(matrix + alpha * np.eye(len(matrix)), C[:, t])
        assert np.allclose(form.solve_columns(C, alphas)[:, t], exact, rtol=1e-7)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n_alphas", [1, 4, 7])
def test_quadratic_forms(matrix, rng, compiled, n_alphas):
    form = tridiagonalize(matrix)
    alphas = np.geomspace(1e-2, 1e2, n_alphas)
    X = rng.standard_normal((9, len(matrix)))
    found = form.quadratic_forms(X @ form.Q, alphas, reuse_kernel=compiled)
    for at, alpha in enumerate(alphas):
        exact = np.linalg.solve(matrix + alpha * np.eye(len(matrix)), X.T)
        assert np.allclose(found[:, at], np.einsum("ij,ji->i", X, exact), rtol=1e-8)


@pytest.mark.parametrize("n_alphas", [1, 8])
def test_quadratic_forms_of_a_matrix_that_rounding_makes_indefinite(rng, n_alphas):
    A = rng.standard_normal((60, 3))
    form = tridiagonalize(A @ A.T)
    alphas = np.geomspace(1e-6, 1.0, n_alphas)
    X = A.T  # rows in the range of the matrix
    found = form.quadratic_forms(X @ form.Q, alphas)
    inverse = np.linalg.inv(A.T @ A + alphas[:, None, None] * np.eye(3))  # by the push-through rule
    assert np.allclose(found.T, 1 - alphas[:, None] * np.einsum("aii->ai", inverse), rtol=1e-6)


def test_the_memory_of_the_matrix_may_be_used(matrix):
    form, copy = tridiagonalize(matrix), matrix.copy()
    in_place = tridiagonalize(copy, overwrite=True)
    np.testing.assert_array_equal(in_place.diagonal, form.diagonal)
    np.testing.assert_array_equal(in_place.off_diagonal, form.off_diagonal)
    np.testing.assert_array_equal(in_place.Q, form.Q)
    assert np.array_equal(copy, matrix) == (len(matrix) <= 2)  # which are tridiagonal


def test_eigenvalues(matrix):
    exact = np.linalg.eigvalsh(matrix)
    assert np.allclose(tridiagonalize(matrix).eigenvalues, exact, atol=1e-10 * exact[-1])


def test_a_matrix_that_rounding_made_indefinite_is_solved_all_the_same(rng):
    A = rng.standard_normal((30, 5))
    form = tridiagonalize(A @ A.T - 1e-15 * np.eye(30))
    assert np.isfinite(form.solve(np.ones((30, 1)), 1e-300)).all()


def test_the_smallest_significant_eigenvalue(matrix):
    exact = np.linalg.eigvalsh(matrix)[0]
    assert tridiagonalize(matrix).smallest_significant() == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("n_zeros", [1, 4, 9])
def test_eigenvalues_of_zero_are_not_significant(rng, n_zeros):
    theta = np.concatenate([np.zeros(n_zeros), np.geomspace(1e-6, 1.0, 10 - n_zeros)])
    Q = np.linalg.qr(rng.standard_normal((10, 10)))[0]
    for A in (np.diag(theta), Q @ np.diag(theta) @ Q.T):
        found = tridiagonalize((A + A.T) / 2).smallest_significant()
        assert found == pytest.approx(theta[n_zeros], rel=1e-6)


def test_of_a_matrix_of_zeros_no_eigenvalue_is_significant():
    assert tridiagonalize(np.zeros((5, 5))).smallest_significant() == 0.0
