"""The Davidson subspace: Galerkin solutions, residuals, bounds and new directions."""

import numpy as np
import pytest

from ling.model_selection.davidson import DavidsonSubspace
from tests import reference

P, T = 30, 2
ALPHAS = np.geomspace(1e-3, 1e3, 7)
EQUAL_TOLS = np.ones((len(ALPHAS), T))
# Squared norms of columns that are alike, for which no preconditioner is used, and that differ.
SPREADS = {"like columns": 1.0, "columns of different size": 300.0}


@pytest.fixture(params=SPREADS.values(), ids=SPREADS)
def gram_and_rhs(request):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((80, P)) * np.sqrt(np.geomspace(1, request.param, P))
    return X.T @ X, X.T @ rng.standard_normal((80, T)), X


def grow(gram, rhs, n_steps, width=3, tols=None):
    space = DavidsonSubspace(rhs, np.diag(gram).copy(), product_error=0.0)
    tols = EQUAL_TOLS if tols is None else tols
    for _ in range(n_steps):
        block = space.propose_directions(ALPHAS, tols, width)
        space.extend(block, gram @ block)
    return space


def solutions(space, alphas=ALPHAS):
    """The coefficients (p, n_alphas, t) that the subspace gives."""
    return np.einsum("pk,kat->pat", space.basis, space.solution_coordinates(alphas))


def exact_solutions(gram, rhs):
    return np.stack([np.linalg.solve(gram + a * np.eye(P), rhs) for a in ALPHAS], axis=1)


@pytest.mark.parametrize("n_steps", [0, 1, 4])
def test_residuals_are_those_of_the_solutions(gram_and_rhs, n_steps):
    gram, rhs, _ = gram_and_rhs
    space = grow(gram, rhs, n_steps)
    W = solutions(space)
    expected = rhs[:, None] - np.einsum("pq,qat->pat", gram, W) - ALPHAS[:, None] * W
    np.testing.assert_allclose(space.residuals(ALPHAS), expected, atol=1e-10 * np.abs(rhs).max())


def test_residuals_are_orthogonal_to_the_subspace(gram_and_rhs):
    gram, rhs, _ = gram_and_rhs
    space = grow(gram, rhs, 3)
    R = space.residuals(ALPHAS).reshape(P, -1)
    assert np.abs(space.basis.T @ R).max() <= 1e-10 * np.abs(rhs).max()


def test_the_basis_is_orthonormal_and_proposals_are_orthogonal_to_it(gram_and_rhs):
    gram, rhs, _ = gram_and_rhs
    space = grow(gram, rhs, 4)
    V = np.hstack([space.basis, space.propose_directions(ALPHAS, EQUAL_TOLS, 3)])
    np.testing.assert_allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-12)
    np.testing.assert_allclose(space.T, space.basis.T @ gram @ space.basis, atol=1e-10 * gram.max())


@pytest.mark.parametrize("n_steps", range(0, 8, 2))
def test_bounds_hold_at_every_step(gram_and_rhs, n_steps):
    gram, rhs, X = gram_and_rhs
    space = grow(gram, rhs, n_steps)
    errors = np.einsum("np,pat->nat", X, solutions(space) - exact_solutions(gram, rhs))
    assert (np.linalg.norm(errors, axis=0) <= space.bounds(ALPHAS) * (1 + 1e-8)).all()


def test_a_subspace_of_full_dimension_has_the_exact_solutions(gram_and_rhs):
    gram, rhs, X = gram_and_rhs
    space = grow(gram, rhs, P)
    assert space.dimension == P
    assert space.exhausted
    y = np.linalg.lstsq(X.T, rhs, rcond=None)[0]  # rhs = X'y
    for at, alpha in enumerate(ALPHAS):
        exact = np.column_stack([reference.ridge(X, column, alpha) for column in y.T])
        np.testing.assert_allclose(solutions(space)[:, at], exact, rtol=1e-7, atol=1e-9)


def test_a_product_error_widens_the_bounds(gram_and_rhs):
    gram, rhs, _ = gram_and_rhs
    exact, rough = (
        DavidsonSubspace(rhs, np.diag(gram).copy(), product_error) for product_error in (0.0, 0.1)
    )
    for space in (exact, rough):
        block = space.propose_directions(ALPHAS, EQUAL_TOLS, 3)
        space.extend(block, gram @ block)
    assert (rough.bounds(ALPHAS) > exact.bounds(ALPHAS)).all()


def test_targets_whose_errors_do_not_matter_get_no_directions(gram_and_rhs):
    gram, rhs, _ = gram_and_rhs
    space = DavidsonSubspace(rhs, np.diag(gram).copy(), product_error=0.0)
    block = space.propose_directions(ALPHAS[:1], np.array([[0.0, 1.0]]), 3)
    second = rhs[:, 1] / (space.preconditioner_diagonal + ALPHAS[0])
    np.testing.assert_allclose(
        np.abs(block[:, 0]), np.abs(second) / np.linalg.norm(second), atol=1e-12
    )
    assert block.shape[1] == 1


@pytest.mark.parametrize("wanted", [0, 3, 6])
def test_the_alpha_with_the_smallest_tolerance_comes_first(gram_and_rhs, wanted):
    gram, rhs, _ = gram_and_rhs
    space, tols = grow(gram, rhs, 2), np.full((len(ALPHAS), T), 1e30)
    tols[wanted, 1] = 1.0
    block = space.propose_directions(ALPHAS, tols, 1)
    expected = space.residuals(ALPHAS)[:, wanted, 1] / (
        space.preconditioner_diagonal + ALPHAS[wanted]
    )
    expected -= space.basis @ (space.basis.T @ expected)
    np.testing.assert_allclose(np.abs(block[:, 0] @ expected), np.linalg.norm(expected), rtol=1e-10)


def test_a_right_hand_side_of_zeros_needs_no_subspace():
    space = DavidsonSubspace(np.zeros((P, T)), np.ones(P), product_error=0.0)
    assert space.exhausted
    assert space.propose_directions(ALPHAS, EQUAL_TOLS, 3).shape == (P, 0)
    assert not space.bounds(ALPHAS).any()


def test_the_diagonal_preconditions_columns_of_different_size_alone():
    rhs = np.ones((P, 1))
    like, unlike = (DavidsonSubspace(rhs, np.geomspace(1, top, P), 0.0) for top in (2.0, 1e4))
    assert not like.preconditioner_diagonal.any()
    assert unlike.preconditioner_diagonal.any()
