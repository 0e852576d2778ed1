"""A score without a proof never decides silently, and a default grid reaches far enough."""

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from ling import RidgeCV
from ling.errors import OptionError
from ling.model_selection import CVScores, ScoredGrid
from ling.model_selection.score_grid import is_inconclusive, undecided_alphas


@pytest.fixture(params=range(6))
def nearly_collinear(request):
    """Two columns whose difference, far below either of them, is what y depends on."""
    rng = np.random.default_rng(request.param)
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
    alphas = model.alphas_
    trace = ((X - X.mean(axis=0)) ** 2).sum()
    assert alphas[0] < 1e-11 * trace
    assert alphas[-1] > 1e2 * trace


def mapped(tmp_path, X):
    np.save(tmp_path / "X.npy", X)
    return np.load(tmp_path / "X.npy", mmap_mode="r")


def isotropic(rng):
    X = rng.standard_normal((3000, 400))
    return X, X @ rng.standard_normal(400) + rng.standard_normal(3000)


def signal_in_weak_directions(rng):
    """The strong directions carry no signal: scores fall below the null model before they rise."""
    n, p = 3000, 400
    scales = np.full(p, 0.02)
    scales[:50] = np.linspace(30, 3, 50)
    Z = rng.standard_normal((n, p))
    X = (Z * scales) @ np.linalg.qr(rng.standard_normal((p, p)))[0]
    y = Z[:, 50:] @ rng.standard_normal(p - 50) / np.sqrt(p) + 0.3 * rng.standard_normal(n)
    return X, y


LONG = [("1MB", isotropic), ("1MB", signal_in_weak_directions), ("4MB", isotropic)]


# With a default grid, budgets below 5 MB take long to fail.
@pytest.mark.parametrize(
    ("budget", "make", "alphas"),
    [
        pytest.param(budget, make, alphas, id=f"{budget}-{make.__name__}-{name}")
        for budget, make, (name, alphas) in product(
            ["1MB", "4MB", "5MB", "6MB", "20MB"],
            [isotropic, signal_in_weak_directions],
            {"default": None, "given": np.logspace(-6, 8, 30)}.items(),
        )
        if alphas is not None or (budget, make) not in LONG
    ],
)
def test_a_small_budget_gives_a_useful_model_or_says_so(budget, make, alphas, tmp_path, rng):
    X, y = make(rng)
    model = RidgeCV(alphas, cv=5, memory_budget=budget, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(mapped(tmp_path, X), y)
        except OptionError as error:
            assert budget != "20MB", error  # noqa: PT017  (a small budget may raise)
            assert error.argument == "memory_budget"  # noqa: PT017
            return
    told = any("choice of alpha is not proved" in str(warning.message) for warning in caught)
    assert told or model.score(X, y) > 0.8


def test_a_tiny_column_and_a_noise_target_do_not_extend_the_grid_without_end(rng):
    X = rng.standard_normal((300, 5)) * [1, 1, 1, 1, 1e-10]
    model = RidgeCV().fit(X, rng.standard_normal(300))
    assert len(model.alphas_) < 130


def results(scores, certified, std_error=0.01, alphas=None, iterated=False):
    scores = np.array(scores, dtype=float)
    alphas = 10.0 ** np.arange(len(scores)) if alphas is None else np.array(alphas)
    errors = np.full(scores.shape, std_error)
    found = CVScores(alphas, scores, errors, scores[:, None], np.array(certified, bool), "test")
    return ScoredGrid(found, is_iterated=iterated)


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
    unproved = results([0, 1, 3, 2, 1], [1, 0, 1, 1, 1], iterated=True)
    np.testing.assert_array_equal(undecided_alphas(unproved), [1e1])


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
    alphas = 10.0 ** np.array(order)
    shuffled = results(scores[order], certified[order], alphas=alphas, iterated=True)
    np.testing.assert_array_equal(undecided_alphas(shuffled), [1e1])


def test_an_iterated_null_model_is_decided_only_by_proofs_for_all_alphas():
    """Proven scores fall from the largest alpha; unproved ones of iterated fits say nothing."""
    scores, certified = [0, 0, 0, 1, 2, 3], [0, 0, 1, 1, 1, 1]
    assert undecided_alphas(results(scores, certified)).size == 0
    assert undecided_alphas(results(scores, certified, iterated=True)).size == 2
    assert is_inconclusive(results(scores, certified, iterated=True))


def test_one_target_without_signal_does_not_make_all_useless():
    signal, noise = [0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 2, 3, 4]
    certified = [0, 0, 0, 0, 1, 1, 1, 1]
    assert not is_inconclusive(results(np.c_[signal, noise], certified))


def test_scores_of_minus_infinity_are_compared_quietly():
    undecided_alphas(results([-np.inf, -np.inf, 1.0, -np.inf], [1, 1, 1, 1]))
