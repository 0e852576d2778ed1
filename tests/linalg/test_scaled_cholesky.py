"""Scaled Cholesky factors are those of A + alpha I, whatever the sizes of its columns."""

import numpy as np
import pytest
from scipy import linalg

from ling.linalg.cholesky import (
    CholeskyForm,
    proven_min_eigenvalue,
    scaled_cholesky,
    scaled_to_unit_diagonal,
)
from tests import reference

ALPHA = 0.3


def gram(rng, size, scale=1.0):
    X = rng.standard_normal((size + 20, size)) * scale
    return X.T @ X


@pytest.fixture(params=[1, 2, 30])
def matrix(request, rng):
    return gram(rng, request.param)


def test_the_factor_is_that_of_the_matrix(matrix):
    A = matrix
    factor = scaled_cholesky(A, ALPHA)
    L = factor.scale[:, None] * factor.factor
    shifted = A + ALPHA * np.eye(len(A))
    np.testing.assert_allclose(L @ L.T, shifted, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(factor.factor, np.tril(factor.factor))
    np.testing.assert_allclose((factor.factor**2).sum(axis=1), 1.0)


def test_solve_half_solve_and_inverse(matrix, rng):
    A = matrix
    factor = scaled_cholesky(A, ALPHA)
    C = rng.standard_normal((len(A), 3))
    inverse = np.linalg.inv(A + ALPHA * np.eye(len(A)))
    np.testing.assert_allclose(factor.solve(C), inverse @ C, rtol=1e-10, atol=1e-12)
    half_solution = factor.half_solve(C)
    np.testing.assert_allclose(half_solution.T @ half_solution, C.T @ inverse @ C, rtol=1e-9)
    M = factor.inverse_factor
    np.testing.assert_allclose(M.T @ M, inverse, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(M @ C, half_solution, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(factor.inverse_diagonal, np.diag(inverse), rtol=1e-10)


@pytest.mark.parametrize("order", "CF")
def test_the_matrix_is_left_as_it_is(order, rng):
    A = np.array(gram(rng, 8), order=order)
    before = A.copy()
    scaled_cholesky(A, ALPHA, lift=1e-3)
    np.testing.assert_array_equal(A, before)


@pytest.mark.parametrize("alpha", [0.0, 1e-20, 1.0])
def test_columns_of_very_different_sizes(alpha, rng):
    scale = 10.0 ** np.linspace(-9, 9, 15)
    X = rng.standard_normal((40, 15)) * scale
    factor = scaled_cholesky(X.T @ X, alpha)
    exact = reference.inverse_diagonal(X, alpha)
    np.testing.assert_allclose(factor.inverse_diagonal, exact, rtol=1e-12)
    w = rng.standard_normal((15, 2)) / scale[:, None]
    solution = factor.solve(X.T @ (X @ w) + alpha * w)
    np.testing.assert_allclose(solution, w, rtol=1e-10, atol=0)


def test_an_alpha_for_each_column(rng):
    A, alphas = gram(rng, 6), np.logspace(-3, 3, 6)
    inverse = np.linalg.inv(A + np.diag(alphas))
    factor = scaled_cholesky(A, alphas)
    np.testing.assert_allclose(factor.inverse_diagonal, np.diag(inverse), rtol=1e-10)


def test_matrices_that_are_not_positive_definite_have_no_factor(rng):
    indefinite = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    assert np.linalg.eigvalsh(indefinite)[0] == pytest.approx(-0.8)
    assert scaled_cholesky(indefinite, 0.79) is None
    assert scaled_cholesky(indefinite, 0.81) is not None
    sizes = np.array([1e-8, 1.0, 1e8])
    assert scaled_cholesky(sizes[:, None] * indefinite * sizes, 0.0) is None
    A = gram(rng, 5)
    for entry in (0.0, -1.0, np.nan):
        A[2, 2] = entry
        assert scaled_to_unit_diagonal(A, 0.0) is None
        assert scaled_cholesky(A, 0.0) is None


def test_lift_is_added_to_the_unit_diagonal(rng):
    A = gram(rng, 5)
    H, scale = scaled_to_unit_diagonal(A, ALPHA)
    factor = scaled_cholesky(A, ALPHA, lift=0.5)
    np.testing.assert_allclose(factor.factor @ factor.factor.T, H + 0.5 * np.eye(5))
    np.testing.assert_array_equal(factor.scale, scale)


@pytest.mark.parametrize("order", "CF")
def test_a_proof_in_place_gives_the_same_answer(order, rng):
    H = np.array(gram(rng, 7), order=order)
    least = float(np.linalg.eigvalsh(H)[0])
    for wanted in (0.9 * least, 1.1 * least):
        known = proven_min_eigenvalue(H, wanted, 0.0)
        assert proven_min_eigenvalue(H.copy(order="K"), wanted, 0.0, overwrite=True) == known
        assert known == (wanted if wanted < least else 0.0)


def test_a_form_of_a_singular_matrix_is_finite(rng):
    X = rng.standard_normal((20, 4))
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.zeros(20)])
    A = X.T @ X
    A[5, 5] = -1e-18  # a column of zeros, but for rounding
    form = CholeskyForm(A)
    C = A[:, :2]
    solution = form.solve(C, 1e-18)
    np.testing.assert_allclose(A @ solution, C, rtol=0, atol=1e-9 * np.abs(A).max())
    assert np.isfinite(form.quadratic_forms(X, np.array([1e-18, 1.0]))).all()


def test_a_form_of_a_matrix_that_is_not_finite_fails():
    with pytest.raises(linalg.LinAlgError):
        CholeskyForm(np.full((2, 2), np.nan)).solve(np.ones((2, 1)), 1.0)


FLOOR_MATRICES = {
    "like columns": lambda rng: gram(rng, 12),
    "columns of very different sizes": lambda rng: gram(rng, 12, 10.0 ** np.linspace(-6, 6, 12)),
    "nearly collinear columns": lambda rng: (
        np.kron(np.ones((2, 2)), gram(rng, 6)) + 1e-5 * gram(rng, 12)
    ),
    "collinear columns": lambda rng: np.kron(np.ones((2, 2)), gram(rng, 6)),
    "one column": lambda rng: gram(rng, 1),
}


@pytest.mark.parametrize("make", FLOOR_MATRICES.values(), ids=FLOOR_MATRICES)
@pytest.mark.parametrize("n_alphas", [1, 2, 30])
def test_scaled_floors_are_below_the_scaled_eigenvalues(make, n_alphas, rng):
    A = make(rng)
    alphas = rng.permutation(np.geomspace(1e-6, 1e6, n_alphas))
    floors = CholeskyForm(A).scaled_floors(alphas)
    assert floors.shape == alphas.shape
    for alpha, floor in zip(alphas, floors, strict=True):
        H, _ = scaled_to_unit_diagonal(A, alpha)
        least = np.linalg.eigvalsh(H)[0]
        assert 0 <= floor <= least * (1 + 1e-9) + 1e-14
        if n_alphas <= 2:  # every alpha has a factor of its own
            assert floor >= (1 - 1e-3) * least / len(A) - 1e-12
