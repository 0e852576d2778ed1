"""The form by singular values of X is X'X in another basis, without forming it."""

import numpy as np
import pytest
from scipy import linalg

from ling.linalg import singular_values
from ling.linalg.singular_values import singular_form
from tests import reference

ALPHAS = np.array([1e-3, 1.0, 1e3])
SHAPES = [(1, 1), (20, 6), (6, 20), (8, 8)]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(params=SHAPES, ids=str, name="X")
def matrix(request, rng):
    return rng.standard_normal(request.param)


def inverse(X, alpha):
    return np.linalg.inv(X.T @ X + alpha * np.eye(X.shape[1]))


def test_it_is_the_same_matrix(X):
    form, rotated = singular_form(X, X)
    assert len(form) == min(X.shape)
    np.testing.assert_allclose(form.unrotate(rotated), X.T @ X, atol=1e-12)
    np.testing.assert_allclose((form.Q * form.eigenvalues) @ form.Q.T, X.T @ X, atol=1e-12)
    assert (np.diff(form.eigenvalues) <= 0).all()


def test_rotations(X, rng):
    (form, _), C = singular_form(X, X), rng.standard_normal((X.shape[1], 2))
    np.testing.assert_allclose(form.rotate(C), form.Q.T @ C)
    np.testing.assert_allclose(form.unrotate(form.rotate(X.T)), X.T, atol=1e-12)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_solutions(X, rng, alpha):
    Y = rng.standard_normal((len(X), 3))
    form, rotated = singular_form(X, Y)
    expected = inverse(X, alpha) @ X.T @ Y
    for rhs in (rotated, form.rotate(X.T @ Y)):
        found = form.unrotate(form.solve(rhs, alpha))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("rank", [2, 5])
def test_without_a_penalty_the_solution_has_the_least_norm(rng, rank):
    X = rng.standard_normal((20, rank)) @ rng.standard_normal((rank, 5))
    y = rng.standard_normal(20)
    form, rotated = singular_form(X, y[:, None])
    found = form.unrotate(form.solve(rotated, 0.0))
    np.testing.assert_allclose(found[:, 0], reference.minimum_norm(X, y), rtol=1e-9)


def test_quadratic_forms_of_rows_of_x(X):
    form, _ = singular_form(X, X)
    found = form.quadratic_forms(X @ form.Q, ALPHAS)
    for at, alpha in enumerate(ALPHAS):
        expected = np.einsum("ij,jk,ik->i", X, inverse(X, alpha), X)
        np.testing.assert_allclose(found[:, at], expected, rtol=1e-9)


def test_degrees_of_freedom_are_the_trace(X):
    expected = [np.trace(X @ inverse(X, alpha) @ X.T) for alpha in ALPHAS]
    np.testing.assert_allclose(singular_form(X, X)[0].effective_dof(ALPHAS), expected, rtol=1e-9)


def test_weak_directions_keep_their_digits(rng):
    """X'X has lost directions that are 1e-10 of the largest."""
    U, V = (np.linalg.qr(rng.standard_normal((n, 3)))[0] for n in (12, 3))
    X, alpha = U @ np.diag([1.0, 1e-5, 1e-10]) @ V.T, 1e-22
    y = rng.standard_normal(12)
    form, rotated = singular_form(X, y[:, None])
    found = form.unrotate(form.solve(rotated, alpha))
    np.testing.assert_allclose(found[:, 0], reference.extreme_ridge(X, y, alpha), rtol=1e-4)


def test_another_algorithm_steps_in_where_the_first_does_not_converge(rng, monkeypatch):
    X, drivers = rng.standard_normal((7, 3)), []

    def svd(*args, lapack_driver="gesdd", **options):
        drivers.append(lapack_driver)
        if lapack_driver == "gesdd":
            raise linalg.LinAlgError("SVD did not converge")
        return real_svd(*args, lapack_driver=lapack_driver, **options)

    real_svd = linalg.svd
    monkeypatch.setattr(singular_values.linalg, "svd", svd)
    form, rotated = singular_form(X, X)
    assert drivers == ["gesdd", "gesvd"]
    np.testing.assert_allclose(form.unrotate(rotated), X.T @ X, atol=1e-12)
