"""Section 2.2: what Algorithm 2 leaves of the spectrum, and how long stage 2 takes."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ling import paper
from ling.paper.trade_off import (
    StageCosts,
    cheapest_n_components,
    expected_iterations,
    residual_eigenvalues,
)

N, P = 400, 150
SPECTRA = {
    "steep": 4.0 ** -np.arange(P),
    "strong directions": np.append(np.full(10, 100.0), np.ones(P - 10)),
    "power law": np.arange(1.0, P + 1) ** -2,
    "flat": np.linspace(1.5, 1.0, P),
}
every_spectrum = pytest.mark.parametrize("name", SPECTRA)


def matrix(eigenvalues, rng):
    """X with X'X of these eigenvalues."""
    U, _ = np.linalg.qr(rng.standard_normal((N, P)))
    V, _ = np.linalg.qr(rng.standard_normal((P, P)))
    return U * np.sqrt(eigenvalues) @ V.T


@every_spectrum
@pytest.mark.parametrize("power", [0, 1, 2])
@pytest.mark.parametrize("k", [3, 14, 40])
def test_what_algorithm_2_leaves(name, power, k, rng):
    eigenvalues = SPECTRA[name]
    X = matrix(eigenvalues, rng)
    left = []
    for seed in range(5):
        svd = paper.random_svd(X, k, power, random_state=seed)
        left.append(np.linalg.norm(X - svd.U @ (svd.U.T @ X), 2) ** 2)
    estimate = residual_eigenvalues(eigenvalues, power)[k]
    # Two columns are set apart as oversampling, which a steep spectrum would not need: 4^-2.
    assert 0.03 * estimate <= np.median(left) <= 2 * estimate


@settings(max_examples=50)
@example([0.0, 0.0, 0.0, 1.0, 1.7e-150], 2)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.integers(0, 3))
def test_components_never_add_anything(values, power):
    eigenvalues = np.sort(values)[::-1]
    residual = residual_eigenvalues(eigenvalues, power)
    assert (np.diff(residual) <= 0).all()
    assert (residual <= eigenvalues[0]).all()
    assert (residual >= eigenvalues - 1e-9 * eigenvalues[0]).all()


@every_spectrum
@pytest.mark.parametrize("alpha", [1e-2, 1.0])
def test_iterations_suffice(name, alpha, rng):
    """With as many iterations as expected, the bound is within a factor of 3 of tol."""
    eigenvalues, tol = SPECTRA[name], 1e-2
    d, a = np.sqrt(eigenvalues), rng.standard_normal(P)
    X, y = np.diag(d), d * a
    bounds = (d * y) ** 2 / alpha / (y @ y)
    n_iter = expected_iterations(eigenvalues, bounds, eigenvalues[0], alpha, tol)
    coef = paper.gradient_descent(X, y, alpha / P, int(n_iter)).coef
    gradient = X.T @ (y - X @ coef) - alpha * coef
    assert np.linalg.norm(gradient) / np.sqrt(alpha) / np.linalg.norm(y) <= 3 * tol


def test_what_is_known_to_be_cheapest():
    strong = np.append(np.full(10, 1e4), np.ones(90))
    errors, costs = np.full(100, 0.01), StageCosts(2e6, (10_000, 100))
    assert 10 < cheapest_n_components(strong, errors, 1.0, 1e-2, costs) <= 20
    assert cheapest_n_components(np.ones(100), errors, 1.0, 1e-2, costs) == 1
    assert cheapest_n_components(np.ones(1), np.ones(1), 1.0, 1e-2, costs) == 1


def test_many_targets_pay_for_all_components():
    """An iteration costs as many products as there are targets, and a component does not."""
    spectrum, errors = np.arange(1.0, 31.0) ** -2, np.full(30, 1.0)
    costs = [StageCosts(2e6, (10_000, 100), n_targets=t) for t in (1, 1000)]
    few, many = (cheapest_n_components(spectrum, errors, 1e-3, 1e-2, cost) for cost in costs)
    assert few < many == 30
