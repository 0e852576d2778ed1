"""Conjugate gradients that a sparse storage does in one compiled loop."""

import numpy as np
import pytest
from scipy import sparse

from ling.design import DiagonalCGState, SparseStorage, as_design
from ling.design.tuning import Tuning

ALPHA = 0.7


@pytest.fixture(params=["plain", "centred and weighted", "scaled"])
def design(request, rng):
    X = sparse.random_array((40, 12), density=0.3, rng=rng, format="csr")
    plain = as_design(X)
    if request.param == "plain":
        return plain
    if request.param == "scaled":
        return plain.standardized(None, rng.uniform(0.5, 2, 12), None)
    return plain.centered(rng.uniform(0.5, 2, 40))


def initial_state(design, rhs, goal):
    A = design.take(np.arange(design.shape[0]))
    H = A.T @ A + ALPHA * np.eye(design.shape[1])
    inverse_diagonal = 1 / np.diag(H)
    lower_ratio = ALPHA * inverse_diagonal.min()
    direction = inverse_diagonal * rhs
    constants = lower_ratio, lower_ratio, 1e-14, 1e-6
    state = DiagonalCGState(
        ALPHA, inverse_diagonal, constants, goal, np.zeros_like(rhs), rhs, direction,
        float(rhs @ direction), 1 / lower_ratio,
    )  # fmt: skip
    return H, state


def test_the_error_falls_and_stays_below_its_bound(design, rng):
    rhs = rng.standard_normal(12)
    H, state = initial_state(design, rhs, 1e-20)
    exact = np.linalg.solve(H, rhs)
    errors, bounds = [], []
    while not bounds or (bounds[-1] > 1e-20 and len(bounds) < 40):
        state, new_bounds = design.cg_steps(state, 1)
        error = state.solution - exact
        errors.append(error @ H @ error)
        bounds += new_bounds.tolist()
    assert np.all(np.diff(errors[:8]) < 0)
    assert np.all(np.array(errors) <= np.array(bounds) * (1 + 1e-9) + 1e-24)
    assert np.allclose(state.solution, exact)
    assert np.allclose(state.residual, rhs - H @ state.solution, atol=1e-9)
    assert design.cost.passes >= len(bounds)


def test_steps_in_one_call_equal_steps_in_many(design, rng):
    rhs = rng.standard_normal(12)
    _, start = initial_state(design, rhs, 1e-8)
    together, bounds = design.cg_steps(start, 30)
    assert bounds[-1] <= 1e-8 < bounds[-2]
    assert not start.solution.any()
    state = start
    for bound in bounds:
        state, single = design.cg_steps(state, 1)
        assert single[0] == bound
    assert np.array_equal(state.solution, together.solution)
    assert np.array_equal(state.direction, together.direction)


def test_only_small_problems_are_iterated_by_the_storage():
    X = sparse.csr_array(np.eye(5))
    assert as_design(X).can_iterate
    assert not as_design(SparseStorage(X, tuning=Tuning(max_iterated_entries=10))).can_iterate
    assert not as_design(np.eye(5)).can_iterate
