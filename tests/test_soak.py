"""Random problems of `tools/soak.py`: certificates are true, and its exact errors are exact."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.reference import ExactRidge
from tools import soak
from tools.soak_problems import (
    ENGINES,
    STORAGES,
    ExactProblem,
    as_floats,
    as_integers,
    draw_problem,
)

N_PROBLEMS = 300
#: Seeds and numbers of problems that have failed: sparse X, with goals whose squares overflow.
FAILED_BEFORE = [(20261120, 343), (20261120, 525), (20261120, 3062)]


@pytest.fixture(scope="module")
def problems():
    return [draw_problem(7, number) for number in range(N_PROBLEMS)]


def test_every_engine_and_storage_is_drawn(problems):
    assert {problem.engine for problem in problems} == set(ENGINES)
    assert {problem.storage for problem in problems} == set(STORAGES)
    alphas = np.array([problem.alphas[0] for problem in problems])
    assert np.ptp(np.log10(alphas)) > 8


def test_no_certificate_lies(problems, tmp_path):
    outcomes = [soak.examine(problem, tmp_path) for problem in problems]
    failures = [
        (number, outcome, text)
        for number, (outcome, _, text) in enumerate(outcomes)
        if outcome in soak.FAILURES
    ]
    assert not failures
    assert sum(outcome == "certified" for outcome, _, _ in outcomes) > N_PROBLEMS / 2


@pytest.mark.parametrize(("seed", "number"), FAILED_BEFORE)
def test_what_has_failed_does_not_fail_again(seed, number, tmp_path):
    outcome, _, text = soak.examine(draw_problem(seed, number), tmp_path)
    assert outcome not in soak.FAILURES, text


def test_a_lie_is_noticed(problems, tmp_path, monkeypatch):
    """Bounds that are a hundredth of the error, and a tolerance that is not kept."""
    solve = soak.solve

    def lie(problem, folder):
        coef, intercept, _, status = solve(problem, folder)
        exact = ExactProblem(problem).errors(coef.astype(np.float64), intercept)
        return coef, intercept, exact / 100, status

    monkeypatch.setattr(soak, "solve", lie)
    outcomes = [soak.examine(problem, tmp_path)[0] for problem in problems[:50]]
    assert outcomes.count("lie") > 25


def test_integers_are_exact(rng):
    values = rng.standard_normal(50) * 10.0 ** rng.uniform(-200, 200, 50) * (rng.random(50) < 0.9)
    np.testing.assert_array_equal(as_floats(*as_integers(values)), values)


@pytest.mark.parametrize("number", range(0, 60, 3))
def test_errors_are_those_of_the_reference(number):
    problem = draw_problem(11, number)
    X, y = problem.X[:12, :6], problem.y.reshape(len(problem.y), -1)[:12]
    weights = None if problem.weights is None else problem.weights[:12]
    if weights is not None and not weights.any():
        weights = None
    small = soak.SoakProblem(**{**vars(problem), "X": X, "y": y, "weights": weights})
    rng = np.random.default_rng(number)
    coef = rng.standard_normal((y.shape[1], X.shape[1])) * 10.0 ** rng.uniform(-3, 3)
    intercept = rng.standard_normal(y.shape[1]) if problem.fit_intercept else np.zeros(y.shape[1])
    errors = ExactProblem(small).errors(coef, intercept)
    for target, error in enumerate(errors):
        exact = ExactRidge(
            X, y[:, target], small.alphas[target], weights, problem.fit_intercept, digits=120
        )
        if exact.spread:
            given = intercept[target] if problem.fit_intercept else None
            expected = exact.prediction_error(coef[target], given)
            assert error == pytest.approx(expected, rel=soak.ERROR_ACCURACY)


def test_a_run_goes_on_where_it_stopped(tmp_path):
    whole, parts = (soak.Soak(tmp_path / name, seed=3) for name in ("whole.json", "parts.json"))
    soak.run(whole, 20)
    soak.run(parts, 8)
    resumed = soak.Soak(tmp_path / "parts.json", seed=3)
    assert resumed.state["next"] == 8
    soak.run(resumed, 20)
    kept = json.loads((tmp_path / "parts.json").read_text())
    assert kept["counts"] == whole.state["counts"]
    assert soak.table(resumed) == soak.table(whole)
    with pytest.raises(SystemExit, match="seed 3"):
        soak.Soak(tmp_path / "parts.json", seed=4)


@pytest.mark.parametrize("number", [68365, 90310])
def test_rounding_in_conjugate_gradients_is_in_the_bound(number, tmp_path):
    """alpha is 1e-11 of X'X, so that r'P^-1 r loses digits, on which the Radau bound depends."""
    problem = replace(draw_problem(0, number), engine="two_stage")
    outcome, ratio, details = soak.examine(problem, tmp_path)
    assert outcome == "certified", details
    assert 1 <= ratio < 10
