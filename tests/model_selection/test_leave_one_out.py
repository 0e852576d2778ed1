"""Leave-one-out from X'X and from X X': the same residuals, and what is derived from them."""

from dataclasses import replace

import numpy as np
import pytest

from ling.linalg.tridiagonal import HouseholderTridiagonal
from ling.model_selection.leave_one_out import (
    ExactLeaveOneOut,
    _DualLeaveOneOut,
    _PrimalLeaveOneOut,
)
from ling.model_selection.score_accumulators import SquaredError
from ling.solvers.memory_budget import MemoryBudget
from tests.model_selection.problems import ALPHAS, DATA, Data

every_data = pytest.mark.parametrize("data", DATA.values(), ids=DATA)
FORMULATIONS = {"X'X": _PrimalLeaveOneOut, "X X'": _DualLeaveOneOut}
# Alphas for which 1 - h has digits left in both formulations.
LARGE_ALPHAS = ALPHAS[ALPHAS >= 1]


def hat_diagonal(data, alpha):
    """The derivative of each prediction with respect to its own y, from a dense inverse."""
    X, w = data.dense, data.sample_weights
    centred = X - (w @ X / w.sum() if data.fit_intercept else 0.0)
    inverse = np.linalg.inv(centred.T @ (w[:, None] * centred) + alpha * np.eye(X.shape[1]))
    return w * (np.einsum("ip,pq,iq->i", centred, inverse, centred) + data.fit_intercept / w.sum())


def residuals_and_bounds(formulation, alphas):
    """Residuals (n, t) and bounds (t,) for each alpha."""
    batches = list(formulation.residuals(alphas))
    assert [alpha for batch, _, _ in batches for alpha in alphas[batch]] == list(alphas)
    return [
        (residuals[:, index], bounds[index])
        for _, residuals, bounds in batches
        for index in range(len(bounds))
    ]


@every_data
def test_both_formulations_give_the_same_residuals(data):
    data = data()
    samples = data.cv_problem()
    primal, dual = (
        residuals_and_bounds(kind(samples), LARGE_ALPHAS) for kind in FORMULATIONS.values()
    )
    for (one, bound), (other, other_bound) in zip(primal, dual, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8 * np.abs(one).max())
        assert (np.abs(one - other) <= bound + other_bound).all()


@every_data
@pytest.mark.parametrize("kind", FORMULATIONS.values(), ids=FORMULATIONS)
def test_batches_of_alphas_give_the_same_residuals(data, kind):
    samples = data().cv_problem()
    tight = replace(samples, memory=MemoryBudget(1.0, min_batch_bytes=0.0))
    assert len(list(kind(tight).residuals(LARGE_ALPHAS))) == len(LARGE_ALPHAS)
    pairs = (residuals_and_bounds(kind(one), LARGE_ALPHAS) for one in (samples, tight))
    for (one, bound), (other, other_bound) in zip(*pairs, strict=True):
        assert (np.abs(one - other) <= bound + other_bound).all()
        np.testing.assert_allclose(bound, other_bound, rtol=1e-6)


@every_data
@pytest.mark.parametrize("kind", FORMULATIONS.values(), ids=FORMULATIONS)
def test_residuals_are_those_of_all_rows_divided_by_one_minus_leverage(data, kind):
    data = data()
    samples, rows = data.cv_problem(), np.arange(len(data.Y))
    found = residuals_and_bounds(kind(samples), LARGE_ALPHAS)
    for alpha, (residuals, _) in zip(LARGE_ALPHAS, found, strict=True):
        fitted = data.predictions(rows, rows, alpha)
        expected = (data.Y - fitted) / (1 - hat_diagonal(data, alpha))[:, None]
        np.testing.assert_allclose(
            residuals * samples.standardization.y_scale,
            expected,
            rtol=1e-6,
            atol=1e-7 * np.abs(expected).max(),
        )


@every_data
def test_leverages_add_up_to_the_degrees_of_freedom(data):
    data = data()
    found, _ = ExactLeaveOneOut(data.cv_problem()).effective_dof(LARGE_ALPHAS)
    expected = [hat_diagonal(data, alpha).sum() - data.fit_intercept for alpha in LARGE_ALPHAS]
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("name", ["tall", "weighted", "three targets", "without intercept"])
def test_sums_of_scores_are_those_of_the_predictions(name):
    data = DATA[name]()
    loo = ExactLeaveOneOut(data.cv_problem())
    loss = SquaredError(y=data.Y, per_target=True, weights=data.weights)
    (sums, *_), bounds = loo.score_sums(ALPHAS, loss)
    for _, at, held_out in loo.predictions(ALPHAS):
        expected = data.sample_weights @ (data.Y - held_out.predictions) ** 2
        np.testing.assert_allclose(sums[0, at, :, 0], expected, rtol=1e-9)
        np.testing.assert_allclose(bounds[0, at], held_out.bounds, rtol=1e-6)


@pytest.mark.parametrize(("name", "is_primal"), [("tall", True), ("wide", False)])
def test_the_smaller_matrix_is_factorized(name, is_primal):
    formulation = ExactLeaveOneOut(DATA[name]().cv_problem())._formulation
    assert formulation.is_primal is is_primal


def test_as_many_coefficients_as_samples_take_the_kernel():
    """With p + 1 = n all leverages tend to 1, and 1 - h from X'X has no digits."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 11)), rng.standard_normal((12, 1))
    loo = ExactLeaveOneOut(Data(X, Y).cv_problem())
    assert not loo._formulation.is_primal
    tiny = np.array([1e-10])
    ((_, _, held_out),) = loo.predictions(tiny)
    rows = np.arange(12)
    exact = [Data(X, Y).predictions(np.delete(rows, i), rows[i : i + 1], tiny[0]) for i in rows]
    np.testing.assert_allclose(held_out.predictions, np.vstack(exact), rtol=1e-4)
    Data(X, Y).assert_within_bounds(held_out, np.vstack(exact), rows)


@pytest.mark.parametrize("name", ["tall", "wide", "wide, two targets"])
def test_the_final_fit_is_that_of_the_oracle(name):
    data = DATA[name]()
    loo = ExactLeaveOneOut(data.cv_problem())
    problem = replace(loo.cv_problem.problem, alphas=np.full(data.Y.shape[1], 3.0))
    candidate = loo.final_fit(problem)
    assert isinstance(loo._formulation.form(problem.alphas), HouseholderTridiagonal)
    assert candidate is not None
    rows = np.arange(len(data.Y))
    X = data.dense - data.dense.mean(axis=0)
    fitted = loo.cv_problem.to_data_units(X @ candidate.coef)
    np.testing.assert_allclose(fitted, data.predictions(rows, rows, 3.0), rtol=1e-8)


def test_there_is_no_final_fit_for_alphas_below_rounding():
    data = DATA["tall"]()
    collinear = Data(np.hstack([data.X, data.X]), data.Y)
    loo = ExactLeaveOneOut(collinear.cv_problem())
    bounds = [held_out.bounds for _, _, held_out in loo.predictions(ALPHAS)]
    assert np.max(bounds) <= 1e-6 * np.linalg.norm(data.Y)  # the form is chosen for these
    problem = replace(loo.cv_problem.problem, alphas=np.array([1e-30]))
    assert loo.final_fit(problem) is None
    ((_, _, held_out),) = loo.predictions(problem.alphas)
    assert held_out.bounds == np.inf
