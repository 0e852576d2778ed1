"""The solver for benchopt's ridge benchmark, run as benchopt runs it.

benchopt itself, with the hundred megabytes that it takes along, is not needed to test it: what it
asks of a solver is written down here.
"""

import importlib.util
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import sparse

from tests import reference

FILE = Path(__file__).parents[2] / "benchmarks" / "benchopt_solver.py"
START = 3e38  # the tolerance that benchopt begins with


class BaseSolver:
    """What benchopt's does for a solver: parameters become attributes, `run_once` is untimed."""

    parameters = {}  # noqa: RUF012

    def __init__(self, **given):
        known = {name: values[0] for name, values in self.parameters.items()}
        assert set(given) <= set(known)
        vars(self).update({**known, **given})

    def run_once(self, stop_val):
        self.run(stop_val)


@pytest.fixture
def solver_class(monkeypatch):
    stand_in = ModuleType("benchopt")
    stand_in.BaseSolver = BaseSolver
    monkeypatch.setitem(sys.modules, "benchopt", stand_in)
    spec = importlib.util.spec_from_file_location("benchopt_solver", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Solver


def data():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((300, 40)) / np.arange(1, 41)
    return X, X @ rng.standard_normal(40) + rng.standard_normal(300) + 2


def objective(X, y, lmbd, fit_intercept, beta):
    """As the benchmark evaluates it."""
    coef, intercept = (beta[:-1], beta[-1]) if fit_intercept else (beta, 0.0)
    residual = y - X @ coef - intercept
    return 0.5 * residual @ residual + 0.5 * lmbd * coef @ coef


def curve(solver, n_runs, **problem):
    """Tolerances, and the objective that a run with each of them gives."""
    solver.set_objective(**problem)
    solver.warm_up()
    stop_val, points = START, []
    for _ in range(n_runs):
        solver.run(stop_val)
        points.append((stop_val, objective(**problem, **solver.get_result())))
        stop_val = solver.get_next(stop_val)
    return points


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("solver", ["auto", "two_stage"])
def test_the_curve_goes_down_to_the_optimum(solver_class, fit_intercept, container, solver):
    X, y = data()
    problem = {"X": container(X), "y": y, "lmbd": 0.1, "fit_intercept": fit_intercept}
    points = curve(solver_class(solver=solver), 18, **problem)
    shift, mean = (X.mean(axis=0), y.mean()) if fit_intercept else (np.zeros(40), 0.0)
    exact = reference.ridge(X - shift, y - mean, 0.1)
    beta = np.r_[exact, mean - shift @ exact] if fit_intercept else exact
    best = objective(X, y, 0.1, fit_intercept, beta)
    tols, values = np.array(points).T
    assert values[0] == pytest.approx(0.5 * y @ y)  # no coefficients
    assert all(low < high for high, low in pairwise(tols))
    # The objective is off by half the square of the error that tol bounds, and alpha's part of it.
    size = np.linalg.norm(y - mean)
    assert (values[1:] - best <= 20 * (tols[1:] * size) ** 2 + 1e-10 * best).all()
    assert values[-1] == pytest.approx(best, rel=1e-12)


def test_it_says_what_benchopt_looks_for(solver_class):
    assert solver_class.name == "ling"
    assert solver_class.sampling_strategy == "tolerance"
    assert solver_class.get_next(solver_class(), 1) == 0.1
    assert solver_class.references
