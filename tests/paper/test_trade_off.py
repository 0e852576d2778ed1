"""Section 2.2: how long stage 2 takes, and how many components stage 1 should have."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ling import paper
from ling.paper.trade_off import (
    MAX_COMPONENTS,
    StageCosts,
    cheapest_n_components,
    descent_bounds,
)

P = 150
SPECTRA = {
    "steep": 4.0 ** -np.arange(P),
    "strong directions": np.append(np.full(10, 100.0), np.ones(P - 10)),
    "power law": np.arange(1.0, P + 1) ** -2,
    "flat": np.linspace(1.5, 1.0, P),
}
every_spectrum = pytest.mark.parametrize("name", SPECTRA)


def start(eigenvalues, alpha, rng):
    """y of X = diag(sqrt(eigenvalues)), and the squared bound of each direction without a fit."""
    d = np.sqrt(eigenvalues)
    y = d * rng.standard_normal(len(d))
    return y, (d * y) ** 2 / alpha / (y @ y)


@every_spectrum
@pytest.mark.parametrize("alpha", [1e-2, 1.0])
def test_bounds_are_those_of_algorithm_3(name, alpha, rng):
    eigenvalues = SPECTRA[name]
    X = np.diag(np.sqrt(eigenvalues))
    y, squares = start(eigenvalues, alpha, rng)
    forecast = islice(descent_bounds(eigenvalues[None], squares[None], alpha), 30)
    for n_iter, (sums,) in enumerate(forecast):
        coef = paper.gradient_descent(X, y, alpha / P, n_iter).coef
        gradient = X.T @ (y - X @ coef) - alpha * coef
        assert sums == pytest.approx(gradient @ gradient / alpha / (y @ y), rel=1e-4)


def test_equal_strong_eigenvalues_are_left_fast():
    """Short steps for the strong directions alternate with long ones for the others."""
    tail, squares = np.linspace(2.0, 0.5, 85), np.append(np.full(15, 200.0), np.full(85, 1.0))
    spectra = [np.append(200 * np.linspace(1, 1 - s, 15), tail) for s in (0.004, 0.5)]
    bounds = descent_bounds(np.stack(spectra), np.stack([squares, squares]), 1.0)
    equal, spread = next(islice(bounds, 40, None))
    assert 100 * equal < spread


COSTS = StageCosts(2e6, (10_000, 100))


def test_what_is_known_to_be_cheapest():
    strong = np.append(np.geomspace(1e5, 1e4, 10), np.ones(90))
    errors = np.full(100, 0.01)
    assert 10 < cheapest_n_components(strong, errors, 1.0, 1e-2, COSTS) <= 20
    assert cheapest_n_components(np.ones(100), errors, 1.0, 1e-2, COSTS) == 1
    assert cheapest_n_components(np.ones(1), np.ones(1), 1.0, 1e-2, COSTS) == 1


def test_two_components_more_than_strong_directions():
    """Algorithm 2 may miss two of them, and stage 2 would be slow with one of them."""
    strong = np.append(np.geomspace(1e5, 1e4, 10), np.linspace(1.5, 1.0, 90))
    squares = strong * np.append(np.ones(10), np.full(90, 0.1))
    assert cheapest_n_components(strong, squares, 1.0, 1e-2, COSTS) == 12


def test_many_targets_pay_for_all_components():
    """An iteration costs as many products as there are targets, and a component does not."""
    spectrum, errors = np.arange(1.0, 31.0) ** -2, np.full(30, 1.0)
    costs = [StageCosts(2e6, (10_000, 100), n_targets=t) for t in (1, 1000)]
    few, many = (cheapest_n_components(spectrum, errors, 1e-3, 1e-2, cost) for cost in costs)
    assert few < many == 30


def test_the_most_accurate_one_if_none_converges():
    spectrum = 10.0 ** -np.linspace(0, 12, 2000)
    squares = np.full(2000, 1e6)
    assert cheapest_n_components(spectrum, squares, 1e-16, 1e-6, COSTS) > MAX_COMPONENTS // 2


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.floats(1e-9, 1e3))
def test_any_spectrum_has_a_cheapest_number(values, alpha):
    eigenvalues = np.sort(values)[::-1]
    k = cheapest_n_components(eigenvalues, eigenvalues / alpha, alpha, 1e-2, COSTS)
    assert 1 <= k <= len(values)
