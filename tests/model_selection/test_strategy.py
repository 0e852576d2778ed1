"""The choice between factorisations and iteration, from what each is predicted to cost."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import KFold

from ling.model_selection.path import expected_path_cost
from ling.model_selection.strategy import (
    MAX_EXACT_LOO_SECONDS,
    MIN_DIRECT_TO_ITERATED_RATIO,
    TYPICAL_PASSES_PER_TARGET,
    direct_and_pass_seconds,
    exact_loo_obstacle,
    expected_cv_cost,
    is_iteration_worthwhile,
    k_fold_strategies,
    leave_one_out_strategy,
)
from ling.solvers.dimensions import ProblemDimensions
from ling.solvers.machine import DEFAULT_MACHINE
from ling.solvers.options import FitOptions
from ling.solvers.planning import plan_solve
from tests.model_selection.problems import ALPHAS, DATA, splits_of

#: Factorisations are slow beside a sweep over X, so that iteration pays.
SLOW_FACTORIZATIONS = replace(DEFAULT_MACHINE, gemm_rate=1e3, gemm32=1e3, potrf_rate=1e3)
TOL = 1e-4


def make_plan(n, p, machine=DEFAULT_MACHINE, budget=1e12, n_targets=1):
    dimensions = ProblemDimensions(n, p, n * p, 8, True, n_targets, 1)
    return plan_solve(dimensions, FitOptions(tol=TOL, memory_budget=budget, machine=machine))


def k_folds(plan):
    data = DATA["tall"]()
    splits = data.splits(splits_of(KFold(4), data))
    rng = np.random.default_rng(0)
    return k_fold_strategies(data.cv_problem(), splits, ALPHAS, plan, TOL, rng)


def leave_one_out(plan, stochastic=None):
    rng = np.random.default_rng(0)
    return leave_one_out_strategy(DATA["tall"]().cv_problem(), plan, TOL, rng, stochastic)


def test_factorizations_are_tried_alone_where_they_are_cheap():
    assert [strategy.is_direct for strategy in k_folds(make_plan(40, 6))] == [True]


def test_iteration_comes_first_where_factorizations_are_slow_and_they_remain_the_fallback():
    strategies = k_folds(make_plan(40, 6, SLOW_FACTORIZATIONS))
    assert [strategy.is_direct for strategy in strategies] == [False, True]
    assert "iterated" in strategies[0].method


def test_without_memory_for_factorizations_there_is_no_fallback():
    strategies = k_folds(make_plan(40, 6, budget=1.0))
    assert [strategy.is_direct for strategy in strategies] == [False]


@pytest.mark.parametrize("n_targets", [1, 5])
def test_iteration_has_to_be_clearly_faster(n_targets):
    limit = MIN_DIRECT_TO_ITERATED_RATIO * TYPICAL_PASSES_PER_TARGET * n_targets
    assert is_iteration_worthwhile(1.01 * limit, 1.0, n_targets)
    assert not is_iteration_worthwhile(0.99 * limit, 1.0, n_targets)


def test_leave_one_out_is_exact_where_it_takes_minutes_at_most():
    assert leave_one_out(make_plan(2000, 500)).is_direct
    assert not leave_one_out(make_plan(10**6, 10**5)).is_direct
    seconds = [direct_and_pass_seconds(1, 30, make_plan(10**5, p))[0] for p in (500, 60_000)]
    assert seconds[0] < MAX_EXACT_LOO_SECONDS < seconds[1]


def test_leave_one_out_without_memory_for_a_factorization_is_stochastic():
    assert "memory_budget" in exact_loo_obstacle(make_plan(2000, 500, budget=1e4))


@pytest.mark.parametrize("stochastic", [False, True])
def test_what_the_user_asks_for_is_done(stochastic):
    for plan in (make_plan(2000, 500), make_plan(10**6, 10**5)):
        assert leave_one_out(plan, stochastic).is_direct is not stochastic


def test_the_expected_cost_is_that_of_the_strategy_that_is_tried_first():
    direct, iterated = make_plan(40_000, 600), make_plan(40_000, 600, SLOW_FACTORIZATIONS)
    passes, seconds = expected_cv_cost(direct, 5, len(ALPHAS))
    assert passes < TYPICAL_PASSES_PER_TARGET
    assert seconds == direct_and_pass_seconds(5, len(ALPHAS), direct)[0]
    passes, seconds = expected_cv_cost(iterated, 5, len(ALPHAS))
    assert passes >= TYPICAL_PASSES_PER_TARGET
    assert seconds < direct_and_pass_seconds(5, len(ALPHAS), iterated)[0]


def test_the_expected_seconds_are_unknown_where_factorizations_do_not_fit():
    plan = make_plan(40_000, 600, replace(DEFAULT_MACHINE), budget=1e4)
    assert direct_and_pass_seconds(5, 8, plan)[0] == np.inf
    passes, seconds = expected_cv_cost(plan, 5, 8)
    assert passes >= TYPICAL_PASSES_PER_TARGET
    assert seconds is not None


@pytest.mark.parametrize("n_targets", [1, 5])
def test_an_iterated_path_is_expected_to_take_the_typical_passes_of_all_targets(n_targets):
    plan = make_plan(40_000, 600, SLOW_FACTORIZATIONS, n_targets=n_targets)
    passes, seconds = expected_path_cost(plan, len(ALPHAS))
    assert passes == 1 + TYPICAL_PASSES_PER_TARGET * n_targets
    assert seconds == passes * direct_and_pass_seconds(1, len(ALPHAS), plan)[1]
