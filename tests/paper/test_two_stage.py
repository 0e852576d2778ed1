"""Algorithm 1: LING is ridge in two pieces, and its second piece is quick to find."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from ling import paper
from tests import reference
from tests.paper import transcriptions
from tests.paper.registry import (
    MODELS,
    SHAPES,
    STORAGES,
    gaussian,
    over,
    relative_error,
    short_step,
)
from tests.paper.test_descent import shares_left

LARGER = {"tall": (200, 150), "wide": (150, 200)}


def components_left_out(X, y, U1):
    """X_r and y_r, formed."""
    return X - U1 @ (U1.T @ X), y - U1 @ (U1.T @ y)


@over("shape", LARGER)
@over("case", MODELS)
def test_exact_components_and_a_converged_second_stage_give_ridge(case, shape):
    model = case.draw(shape)
    svd = paper.exact_svd(model.X, case.k)
    fit = paper.ling(model.X, model.y, model.lam, case.k, 60, svd=svd)
    coef = reference.ridge(model.X, model.y, shape[0] * model.lam)
    assert relative_error(fit.fitted, model.X @ coef) < 1e-9
    assert relative_error(fit.coef, coef) < 1e-7


@pytest.mark.parametrize("k", [1, 7, 39, 40])
@over("shape", SHAPES)
def test_the_number_of_components_does_not_change_the_limit(shape, k):
    model = MODELS["model2"].draw(shape)
    fit = paper.ling(model.X, model.y, model.lam, k, 60, svd=paper.exact_svd(model.X, k))
    wanted = model.X @ reference.ridge(model.X, model.y, shape[0] * model.lam)
    assert relative_error(fit.fitted, wanted) < 1e-9


@over("shape", LARGER)
@over("case", MODELS)
def test_without_shrinking_the_top_components_keep_what_ridge_takes_away(case, shape):
    model = case.draw(shape)
    alpha = 100 * shape[0] * model.lam  # enough for the difference to be seen
    svd = paper.exact_svd(model.X, case.k)
    options = {"lam": alpha / shape[0], "k": case.k, "n_iter": 60, "svd": svd}
    fitted = paper.ling(model.X, model.y, **options, shrink=False).fitted
    taken = svd.U @ (alpha / (svd.d**2 + alpha) * (svd.U.T @ model.y))
    wanted = model.X @ reference.ridge(model.X, model.y, alpha) + taken
    assert relative_error(fitted, wanted) < 1e-9


@over("shape", LARGER)
def test_approximate_components_lead_near_ridge_and_not_to_it(shape):
    model = MODELS["model3"].draw(shape)
    fit = paper.ling(model.X, model.y, 10 * model.lam, 20, 300, random_state=0)
    wanted = model.X @ reference.ridge(model.X, model.y, 10 * shape[0] * model.lam)
    assert 1e-9 < relative_error(fit.fitted, wanted) < 1e-2


@dataclass(frozen=True)
class Variant:
    """LING with one kind of second stage, the options of that, and the same stage as printed."""

    function: Callable[..., paper.LingFit]
    options: Callable[[np.ndarray], dict[str, Any]]
    printed: Callable[..., np.ndarray]

    def second_stage(self, X, lam, rng):
        return partial(self.printed, lam=lam, rng=rng, **self.options(X))


VARIANTS = {
    "gradient-descent": Variant(
        paper.ling,
        lambda X: {"n_iter": 9},
        lambda X_r, y_r, lam, rng, n_iter: transcriptions.algorithm3(
            X_r, y_r, lam, n_iter, np.zeros(X_r.shape[1])
        ),
    ),
    "svrg": Variant(
        paper.ling_svrg,
        lambda X: {"n_passes": 3, "step": short_step(X)},
        lambda X_r, y_r, lam, rng, n_passes, step: transcriptions.johnson_zhang(
            X_r, y_r, lam, n_passes, step, rng
        ),
    ),
}


@pytest.mark.parametrize("power", range(3))
@pytest.mark.parametrize("shrink", [True, False])
@over("variant", VARIANTS)
@over("shape", SHAPES)
def test_fit_is_that_of_the_printed_algorithms(shape, variant, shrink, power):
    X, y = gaussian(*shape)
    rng = np.random.default_rng(11)
    U1, d, Q1 = transcriptions.algorithm2(X, 6, power, rng)
    components = (U1, d) if shrink else (Q1, None)
    _, gamma2, fitted = transcriptions.algorithm1(
        X, y, 0.1, *components, variant.second_stage(X, 0.1, rng)
    )
    options = {"power": power, "shrink": shrink, "random_state": 11}
    fit = variant.function(X, y, 0.1, 6, **variant.options(X), **options)
    assert relative_error(fit.gamma2, gamma2) < 1e-8
    assert relative_error(fit.fitted, fitted) < 1e-8


@pytest.mark.parametrize("shrink", [True, False])
@over("variant", VARIANTS)
@over("storage", STORAGES)
@over("shape", SHAPES)
def test_implicit_residual_data_are_as_good_as_stored_ones(shape, storage, variant, shrink):
    X, y = gaussian(*shape)
    stored, A = storage.wrap(X), storage.dense(X)
    svd = paper.random_svd(stored, 6, random_state=0)
    d = svd.d if shrink else None
    second_stage = variant.second_stage(A, 0.1, np.random.default_rng(3))
    gamma1, gamma2, fitted = transcriptions.algorithm1(A, y, 0.1, svd.U, d, second_stage)
    options = {"shrink": shrink, "svd": svd, "random_state": 3}
    fit = variant.function(stored, y, 0.1, 6, **variant.options(A), **options)
    assert relative_error(fit.gamma1, gamma1) < 1e-9
    assert relative_error(fit.gamma2, gamma2) < 1e-9
    assert relative_error(fit.fitted, fitted) < 1e-9


@over("shape", SHAPES)
def test_start_is_where_the_second_stage_begins(shape, rng):
    X, y = gaussian(*shape)
    start = rng.standard_normal(shape[1])
    svd = paper.exact_svd(X, 4)
    begun = start.copy()
    fit = paper.ling(X, y, 0.1, 4, 3, svd=svd, start=begun)
    np.testing.assert_array_equal(begun, start)
    wanted = transcriptions.algorithm3(*components_left_out(X, y, svd.U), 0.1, 3, start)
    assert relative_error(fit.gamma2, wanted) < 1e-10


@over("shape", SHAPES)
def test_no_iterations_leave_the_first_stage(shape):
    X, y = gaussian(*shape)
    svd = paper.exact_svd(X, 4)
    fit = paper.ling(X, y, 0.1, 4, 0, svd=svd, shrink=False)
    assert not fit.gamma2.any()
    np.testing.assert_allclose(fit.fitted, svd.U @ (svd.U.T @ y), rtol=1e-10)


@over("shape", LARGER)
@over("case", MODELS)
def test_every_step_of_the_second_stage_keeps_to_its_rate(case, shape):
    model = case.draw(shape)
    svd = paper.exact_svd(model.X, case.k)
    fit = paper.ling(model.X, model.y, model.lam, case.k, 20, svd=svd)
    least = _least_second_objective(model, svd)
    rate = paper.theory.ling_rate(model.spectrum, model.lam, shape[0], case.k)
    shares = shares_left(fit.objective, least)
    assert len(shares)
    assert (shares <= rate + 1e-6).all()


@over("shape", SHAPES)
def test_objective_is_that_of_the_second_stage(shape):
    X, y = gaussian(*shape)
    svd = paper.exact_svd(X, 4)
    whole = paper.ling(X, y, 0.1, 4, 6, svd=svd).objective
    assert whole.shape == (7,)
    for n_iter, value in enumerate(whole):
        gamma2 = paper.ling(X, y, 0.1, 4, n_iter, svd=svd).gamma2
        wanted = reference.objective(*components_left_out(X, y, svd.U), 0.1 * len(y), gamma2)
        np.testing.assert_allclose(value, wanted, rtol=1e-10)


@over("shape", LARGER)
def test_second_stage_needs_far_fewer_iterations_than_gradient_descent(shape):
    model = MODELS["model3"].draw(shape)
    svd = paper.exact_svd(model.X, 20)
    alpha = shape[0] * model.lam
    alone = paper.gradient_descent(model.X, model.y, model.lam, 2000).objective
    least = reference.objective(model.X, model.y, alpha, reference.ridge(model.X, model.y, alpha))
    second = paper.ling(model.X, model.y, model.lam, 20, 200, svd=svd).objective
    n_alone = _iterations_to(1e-6, alone, least)
    n_second = _iterations_to(1e-6, second, _least_second_objective(model, svd))
    assert n_alone > 10 * n_second


def _least_second_objective(model, svd):
    X_r, y_r = components_left_out(model.X, model.y, svd.U)
    alpha = len(model.y) * model.lam
    return reference.objective(X_r, y_r, alpha, reference.ridge(X_r, y_r, alpha))


def _iterations_to(share, objective, least):
    """How many iterations bring the gap down to `share` of what it was."""
    gap = objective - least
    reached = gap <= share * gap[0]
    assert reached.any()
    return int(np.argmax(reached))


@over("variant", VARIANTS)
def test_k_beyond_the_rank_removes_everything(variant):
    X, y = gaussian()
    X = X[:, :3] @ X[:3]
    fit = variant.function(X, y, 0.1, 8, **variant.options(X), random_state=0)
    assert fit.gamma1.shape == (3,)
    wanted = X @ reference.ridge(X, y, 0.1 * len(y))
    assert relative_error(fit.fitted, wanted) < 1e-9


def test_svrg_converges_faster_on_what_the_first_stage_leaves():
    # The paper's closing conjecture, at the same number of passes and the same relative step.
    model = MODELS["model3"].draw((200, 150))
    wanted = model.X @ reference.ridge(model.X, model.y, 200 * model.lam)
    alone = paper.svrg(model.X, model.y, model.lam, 10, random_state=0)
    after = paper.ling_svrg(model.X, model.y, model.lam, 20, 10, random_state=0)
    assert relative_error(after.fitted, wanted) < 0.5 * relative_error(alone.fitted, wanted)
