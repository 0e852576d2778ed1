"""A score without a proof never decides silently, and a default grid reaches far enough."""

import warnings
from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from ling import RidgeCV
from ling.errors import Change, OptionError
from ling.model_selection import CVScores, ScoredGrid
from ling.model_selection.alpha_grid import EXTENSION_STEPS, extend_grid
from ling.model_selection.score_grid import is_inconclusive, undecided_alphas
from tests.raising import raises


@pytest.fixture(params=range(6))
def nearly_collinear(request):
    """Two columns whose difference, far below either of them, is what y depends on."""
    rng = np.random.default_rng(request.param)
    t, d = rng.uniform(0, 2.6e6, 500), rng.exponential(1, 500)
    return np.c_[t, t + d], d + 0.1 * rng.standard_normal(500)


@pytest.mark.parametrize("cv", [None, 5])
def test_the_default_grid_reaches_a_direction_far_below_the_columns(cv, nearly_collinear):
    """Its alphas are too small for X'X, so singular values of X prove the choice, and the fit."""
    X, y = nearly_collinear
    model = RidgeCV(cv=cv).fit(X, y)
    assert model.score(X, y) > 0.98
    assert model.alpha_ < 1e3
    assert model.cv_scores_.gap < 1e-3
    assert model.report_.certificate.holds


@pytest.mark.parametrize("cv", [None, 5])
def test_what_singular_values_would_take_too_much_for_is_a_warning(cv, nearly_collinear):
    X, y = nearly_collinear
    too_little = "20kB"  # enough for X'X, but not for a copy of X
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = RidgeCV(cv=cv, memory_budget=too_little).fit(X, y)
    assert model.score(X, y) > 0.98
    messages = [str(warning.message) for warning in caught]
    (choice,) = (message for message in messages if "choice of alpha is not proved" in message)
    assert "the fits that scored the alphas from" in choice
    assert "raise memory_budget" in choice
    assert not any("raise tol" in message for message in messages)


@pytest.mark.parametrize("seed", range(5))
def test_a_weak_direction_is_found_although_a_strong_one_already_explains_much(seed):
    """The scores have a plateau, well above the null model, before the better alphas begin."""
    rng = np.random.default_rng(seed)
    t, d = rng.standard_normal(400), rng.standard_normal(400)
    X = np.c_[t, t + 1e-6 * d]
    y = t + d + 0.1 * rng.standard_normal(400)
    for cv in (None, 5):
        assert RidgeCV(cv=cv).fit(X, y).score(X, y) > 0.98


@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_the_default_grid_covers_the_spectrum_and_is_extended_upwards(signal, rng):
    """Below the smallest direction fits hardly change, so that no alphas are added there."""
    X = rng.standard_normal((60, 5))
    y = signal * X.sum(axis=1) + (1 - signal) * rng.standard_normal(60)
    alphas = RidgeCV().fit(X, y).alphas_
    eigenvalues = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    assert alphas[0] < 1e-3 * eigenvalues.min()
    assert alphas[-1] > 1e2 * eigenvalues.sum()


def test_a_budget_that_is_too_small_names_one_that_is_enough(tmp_path, rng):
    X = rng.standard_normal((3000, 300)) * np.linspace(1, 0.01, 300)
    y = X @ rng.standard_normal(300) + rng.standard_normal(3000)
    with raises(OptionError, "memory_budget", mentions="3000 rows") as caught:
        RidgeCV(cv=5, memory_budget="1MB").fit(mapped(tmp_path, X), y)
    (enough,) = (part.value for part in caught.value.remedies if isinstance(part, Change))
    model = RidgeCV(cv=5, memory_budget=enough).fit(mapped(tmp_path, X), y)
    assert model.score(X, y) > 0.9
    assert model.cv_scores_.gap < 1e-6


def test_no_signal_is_one_note_and_no_warning(rng):
    X = rng.standard_normal((200, 8))
    noise = rng.standard_normal((200, 40))
    for options in ({"cv": 5}, {"cv": None}, {"cv": None, "alpha_per_target": True}):
        notes = RidgeCV(**options).fit(X, noise).report_.notes
        assert sum("no better than the mean of y" in note for note in notes) <= 1
    notes = RidgeCV(alpha_per_target=True).fit(X, np.c_[noise[:, :3], X[:, 0]]).report_.notes
    assert any("of 4 targets held-out predictions are no better" in note for note in notes)


def test_the_report_says_how_close_to_the_best_the_choice_is(rng):
    X = rng.standard_normal((100, 5))
    y = X.sum(axis=1) + rng.standard_normal(100)
    given = RidgeCV([0.1, 1.0, 10.0], cv=5).fit(X, y)
    assert "Proved: no other alpha of the grid scores higher." in given.report_.notes
    assert given.cv_scores_.gap == 0
    # On the default grid the largest of nearly equal alphas is taken.
    notes = RidgeCV().fit(X, y).report_.notes
    proved = "Proved: no other alpha of the grid scores higher"
    assert any(note.startswith(proved) for note in notes)
    other = RidgeCV([0.1, 1.0, 10.0], cv=5, scoring="neg_mean_absolute_error").fit(X, y)
    assert not np.isfinite(other.cv_scores_.gap)
    assert other.cv_scores_.certified.all()


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


def results(scores, certified, std_error=0.01, alphas=None, error=np.nan):
    """Scores whose certified ones have no error, and others the given one; NaN is unknown."""
    scores = np.array(scores, dtype=float)
    certified = np.array(certified, bool)
    alphas = 10.0 ** np.arange(len(scores)) if alphas is None else np.array(alphas)
    errors = np.full(scores.shape, std_error)
    bounds = np.where(certified.reshape(-1, *[1] * (scores.ndim - 1)), np.zeros_like(scores), error)
    return ScoredGrid(CVScores(alphas, scores, errors, scores[:, None], certified, "test", bounds))


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
    unproved = results([0, 1, 3, 2, 1], [1, 0, 1, 1, 1])
    np.testing.assert_array_equal(undecided_alphas(unproved), [1e1])


def test_unproved_scores_matter_below_proven_scores_that_are_flat():
    flat = results([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1])
    np.testing.assert_array_equal(undecided_alphas(flat), [1e1, 1e2, 1e3])
    assert is_inconclusive(flat)
    assert not is_inconclusive(results([0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1, 1]))


def test_every_target_has_to_be_decided():
    falls, flat = [0, 0, 0, 1, 3, 2], [0, 0, 5, 5, 5, 4]
    certified = [0, 0, 1, 1, 1, 1]
    assert undecided_alphas(results(falls, certified)).size == 0
    assert undecided_alphas(results(np.c_[falls, flat], certified)).size > 0


def test_scores_that_cannot_be_the_highest_are_decided():
    scores, certified = [0, 0, 5, 5, 5, 5], [0, 0, 1, 1, 1, 1]
    assert undecided_alphas(results(scores, certified, error=4.0)).size == 0
    assert undecided_alphas(results(scores, certified, error=6.0)).size == 2
    assert undecided_alphas(results(scores, certified, error=np.inf)).size == 2


def test_the_order_of_alphas_does_not_matter():
    order = [3, 0, 4, 1, 2]
    scores, certified = np.array([0, 1, 3, 2, 1]), np.array([1, 0, 1, 1, 1])
    alphas = 10.0 ** np.array(order)
    shuffled = results(scores[order], certified[order], alphas=alphas)
    np.testing.assert_array_equal(undecided_alphas(shuffled), [1e1])


def test_a_null_model_is_decided_only_by_proofs_for_all_alphas():
    """Proven scores fall from the largest alpha; those without a bound say nothing."""
    scores, certified = [0, 0, 0, 1, 2, 3], [0, 0, 1, 1, 1, 1]
    assert undecided_alphas(results(scores, certified)).size == 2
    assert is_inconclusive(results(scores, certified))


def test_one_target_without_signal_does_not_make_all_useless():
    signal, noise = [0, 0, 0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 1, 2, 3, 4]
    certified = [0, 0, 0, 0, 1, 1, 1, 1]
    assert not is_inconclusive(results(np.c_[signal, noise], certified))


def test_scores_of_minus_infinity_are_compared_quietly():
    undecided_alphas(results([-np.inf, -np.inf, 1.0, -np.inf], [1, 1, 1, 1]))


def test_an_extended_grid_has_the_same_ratio_everywhere():
    alphas = np.geomspace(1e-2, 1e2, 9)
    extended = extend_grid(alphas, (0.0, np.inf))
    assert len(extended) == len(alphas) + 2 * EXTENSION_STEPS
    np.testing.assert_allclose(extended[1:] / extended[:-1], alphas[1] / alphas[0], rtol=1e-12)
    np.testing.assert_array_equal(extend_grid(alphas, (alphas[0], alphas[-1])), alphas)


def test_an_unproved_choice_names_all_alphas_that_might_be_better():
    rng = np.random.default_rng(0)
    t, d = rng.uniform(0, 1e6, 30), rng.exponential(1, 30)
    X = np.c_[t, t + d, rng.normal(size=30), t]
    y = (d + 0.1 * rng.normal(size=30)) * 1e5 + 1e9
    model = RidgeCV(alphas=np.geomspace(1e-14, 1e4, 10), cv=3)
    with pytest.warns(ConvergenceWarning, match="the alphas from 1e-14 to 0.01 could not"):
        model.fit(X, y)
    assert model.cv_scores_.gap == np.inf
