"""A score without a proof never decides silently, and a default grid reaches far enough."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from ling import RidgeCV
from ling.errors import BadOption
from ling.model_selection.results import CVResults
from ling.model_selection.score_grid import is_inconclusive, undecided_alphas


@pytest.fixture
def nearly_collinear(rng):
    """Two columns whose difference, far below either of them, is what y depends on."""
    t, d = rng.uniform(0, 2.6e6, 500), rng.exponential(1, 500)
    return np.c_[t, t + d], d + 0.1 * rng.standard_normal(500)


@pytest.mark.parametrize("cv", [None, 5])
def test_the_default_grid_reaches_a_direction_far_below_the_columns(cv, nearly_collinear):
    X, y = nearly_collinear
    with pytest.warns(ConvergenceWarning) as caught:
        model = RidgeCV(cv=cv).fit(X, y)
    assert any("choice of alpha is not proved" in str(warning.message) for warning in caught)
    assert model.score(X, y) > 0.95
    assert model.alpha_ < 1e3


@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_the_default_grid_is_extended_at_both_ends(signal, rng):
    """Noise pulls the best alpha to the upper end, y without noise to the lower one."""
    X = rng.standard_normal((60, 5))
    y = signal * X.sum(axis=1) + (1 - signal) * rng.standard_normal(60)
    model = RidgeCV().fit(X, y)
    alphas = model.cv_results_.alphas
    trace = ((X - X.mean(axis=0)) ** 2).sum()
    assert alphas[0] < 1e-11 * trace
    assert alphas[-1] > 1e2 * trace


@pytest.mark.parametrize("budget", ["1MB", "2MB", "4MB", "6MB", "8MB", "20MB"])
def test_a_small_budget_gives_a_useful_model_or_an_error(budget, tmp_path, rng):
    X = rng.standard_normal((3000, 400))
    y = X @ rng.standard_normal(400) + rng.standard_normal(3000)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = RidgeCV(cv=5, memory_budget=budget)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(mapped, y)
        except BadOption as error:
            assert "memory_budget" in str(error)  # noqa: PT017  (either outcome is right)
            return
    assert model.score(X, y) > 0.95


def results(scores, certified, std_error=0.01, alphas=None):
    scores = np.array(scores, dtype=float)
    alphas = 10.0 ** np.arange(len(scores)) if alphas is None else np.array(alphas)
    errors = np.full(scores.shape, std_error)
    return CVResults(alphas, scores, errors, scores[:, None], np.array(certified, bool), "test")


def test_nothing_is_undecided_where_everything_is_proved():
    assert undecided_alphas(results([0, 1, 2, 1], [1, 1, 1, 1])).size == 0


def test_unproved_scores_do_not_matter_below_proven_scores_that_fall():
    assert undecided_alphas(results([0, 0, 1, 2, 3, 2], [0, 0, 1, 1, 1, 1])).size == 0


def test_an_unproved_best_score_matters():
    best_and_above = undecided_alphas(results([9, 0, 1, 2, 3, 2], [0, 0, 1, 1, 1, 1]))
    np.testing.assert_array_equal(best_and_above, [1e0, 1e1])


def test_unproved_scores_matter_above_the_best_and_next_to_it():
    np.testing.assert_array_equal(
        undecided_alphas(results([0, 1, 3, 2, 1], [1, 1, 1, 1, 0])), [1e4]
    )
    np.testing.assert_array_equal(
        undecided_alphas(results([0, 1, 3, 2, 1], [1, 0, 1, 1, 1])), [1e1]
    )


def test_unproved_scores_matter_below_proven_scores_that_are_flat():
    flat = results([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(undecided_alphas(flat), [1e1, 1e2, 1e3])
    assert is_inconclusive(flat)
    assert not is_inconclusive(results([0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1, 1]))


def test_every_target_has_to_be_decided():
    falls, flat = [0, 0, 0, 1, 2, 3], [0, 0, 5, 5, 5, 5]
    certified = [0, 0, 1, 1, 1, 1]
    assert undecided_alphas(results(falls, certified)).size == 0
    assert undecided_alphas(results(np.c_[falls, flat], certified)).size > 0


def test_the_order_of_alphas_does_not_matter():
    order = [3, 0, 4, 1, 2]
    scores, certified = np.array([0, 1, 3, 2, 1]), np.array([1, 0, 1, 1, 1])
    shuffled = results(scores[order], certified[order], alphas=10.0 ** np.array(order))
    np.testing.assert_array_equal(undecided_alphas(shuffled), [1e1])
