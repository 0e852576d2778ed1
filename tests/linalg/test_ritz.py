"""A Ritz space grows block by block into the projection of a matrix onto its basis."""

import numpy as np
import pytest

from ling.linalg.ritz import (
    ColumnBuffer,
    RitzSpace,
    orthonormalize,
    orthonormalize_against,
    thin_svd,
)


def test_thin_factors(rng):
    A = rng.standard_normal((30, 4))
    Q = orthonormalize(A)
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(Q @ (Q.T @ A), A)
    U, S = thin_svd(A)
    np.testing.assert_allclose((U * S**2) @ U.T, A @ A.T, atol=1e-12)


@pytest.mark.parametrize("width", [0, 3])
def test_a_block_is_orthonormalized_against_a_basis(width, rng):
    basis = orthonormalize(rng.standard_normal((30, width)))
    A = rng.standard_normal((30, 4))
    Q, R = orthonormalize_against(A, basis)
    np.testing.assert_allclose(Q.T @ Q, np.eye(4), atol=1e-14)
    np.testing.assert_allclose(basis.T @ Q, 0.0, atol=1e-14)
    np.testing.assert_allclose(basis @ (basis.T @ A) + Q @ R, A)


def test_a_buffer_holds_all_columns(rng):
    A, buffer = rng.standard_normal((5, 40)), ColumnBuffer(5, 3)
    assert buffer.columns.shape == (5, 0)
    for start, stop in ((0, 2), (2, 2), (2, 9), (9, 10), (10, 40)):
        buffer.append(A[:, start:stop])
        np.testing.assert_array_equal(buffer.columns, A[:, :stop])
    assert buffer.columns.flags.f_contiguous


def test_a_space_projects_the_matrix(rng):
    A = rng.standard_normal((25, 25))
    A = A @ A.T
    V = orthonormalize(rng.standard_normal((25, 9)))
    space = RitzSpace(25, 2)
    assert space.ritz_pairs()[0].shape == (0,)
    for block in (V[:, :2], V[:, 2:3], V[:, 3:]):
        space.append_basis(block)
        space.append_projection(space.basis.T @ (A @ block))
        assert space.dimension == space.basis.shape[1] == len(space.T)
        np.testing.assert_allclose(space.T, space.basis.T @ A @ space.basis, atol=1e-12)
        theta, Z = space.ritz_pairs()
        np.testing.assert_allclose((Z * theta) @ Z.T, space.T, atol=1e-12)
    alphas = np.array([0.1, 10.0])
    np.testing.assert_allclose(space.shifted_ritz_values(alphas), theta[:, None] + alphas)


def test_ritz_values_below_rounding_are_left_out():
    space = RitzSpace(3, 3)
    space.append_basis(np.eye(3))
    space.append_projection(np.diag([0.0, 1e-14, 1.0]))
    assert space.significant_ritz_pairs()[0] == pytest.approx([1.0])
    shifted = space.shifted_ritz_values(np.array([0.0, 0.5]))
    assert np.isinf(shifted[0, 0])
    np.testing.assert_allclose(shifted[:, 1], [0.5, 0.5 + 1e-14, 1.5])
