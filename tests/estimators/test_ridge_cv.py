"""RidgeCV: scikit-learn's choice of alpha, and what goes beyond it."""

import pickle
from itertools import product

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model
from sklearn.base import clone
from sklearn.datasets import (
    load_diabetes,
    load_linnerud,
    make_friedman1,
    make_friedman2,
    make_friedman3,
    make_regression,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold

from ling import Ridge, RidgeCV
from ling.errors import InputTypeError, NonFiniteError, OptionError
from ling.paper import models
from ling.reproduction import datasets
from ling.results import Status
from tests.raising import raises
from tests.versions import shows_array_parameters

ALPHAS = np.geomspace(1e-4, 1e6, 21)


def random_problem(seed):
    """Tall or wide, one target or several, weighted or not, dense or sparse."""
    rng = np.random.default_rng(seed)
    n, p = (40, 8) if seed % 2 else (25, 60)
    t = 1 + seed // 2 % 3
    X = rng.standard_normal((n, p)) * rng.uniform(0.1, 3, p) + rng.standard_normal(p)
    if seed % 5 == 0:
        X[rng.random((n, p)) < 0.6] = 0.0
    Y = X @ rng.standard_normal((p, t)) * 0.3 + 10 ** rng.uniform(-1, 1) * rng.standard_normal(
        (n, t)
    )
    weights = np.exp(rng.standard_normal(n)) if seed % 3 == 0 else None
    return sparse.csr_array(X) if seed % 5 == 0 else X, Y[:, 0] if t == 1 else Y, weights


# With folds, scikit-learn takes much longer, so that these are half of the alphas, and each problem
# with an intercept or without one. The first 12 have every pair of properties, but few sparse X.
@pytest.mark.parametrize(
    ("seed", "cv", "fit_intercept"),
    [
        *product(range(30), [None], [True, False]),
        *((seed, 4, seed % 4 < 2) for seed in (*range(12), 15, 20, 25)),
    ],
)
def test_the_choice_is_scikit_learns(seed, cv, fit_intercept):
    X, y, weights = random_problem(seed)
    options = {"cv": cv, "fit_intercept": fit_intercept}
    alphas = ALPHAS[::2] if cv else ALPHAS
    ours = RidgeCV(alphas, **options).fit(X, y, sample_weight=weights)
    theirs = linear_model.RidgeCV(alphas, **options).fit(X, y, sample_weight=weights)
    # Theirs iterates for sparse data, and its scores are that much off.
    near = {"abs": 1e-3} if cv else {"rel": 1e-8}
    assert ours.best_score_ == pytest.approx(theirs.best_score_, **near)
    assert ours.alpha_ == theirs.alpha_
    assert np.allclose(ours.coef_, theirs.coef_, rtol=1e-2 if cv else 1e-6, atol=1e-3)
    assert ours.report_.status is Status.CERTIFIED


@pytest.mark.parametrize("cv", [None, 4, KFold(3, shuffle=True, random_state=0)])
@pytest.mark.parametrize("seed", [3, 4])
def test_each_target_gets_the_alpha_it_would_have_alone(cv, seed):
    X, Y, weights = random_problem(seed)
    together = RidgeCV(ALPHAS, cv=cv, alpha_per_target=True).fit(X, Y, weights)
    for t in range(Y.shape[1]):
        alone = RidgeCV(ALPHAS, cv=cv).fit(X, Y[:, t], weights)
        assert together.alpha_[t] == alone.alpha_
        assert together.best_score_[t] == pytest.approx(alone.best_score_)
        assert np.allclose(together.coef_[t], alone.coef_)


@pytest.mark.parametrize("scoring", ["neg_mean_absolute_error", "r2", "explained_variance"])
@pytest.mark.parametrize("cv", [None, 3])
def test_scorers_are_called_as_scikit_learn_does(scoring, cv):
    X, y, weights = random_problem(7)
    ours = RidgeCV(ALPHAS, scoring=scoring, cv=cv).fit(X, y, weights)
    theirs = linear_model.RidgeCV(ALPHAS, scoring=scoring, cv=cv).fit(X, y, weights)
    assert ours.alpha_ == theirs.alpha_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, rel=1e-6)


def test_a_scorer_may_look_at_x():
    X, y, _ = random_problem(1)
    seen = []

    def scorer(estimator, X_test, y_test):
        seen.append(X_test)
        return -np.abs(estimator.predict(X_test) - y_test).mean()

    model = RidgeCV([1.0, 10.0], scoring=scorer, cv=KFold(4)).fit(X, y)
    folds = [test for _, test in KFold(4).split(X)]
    assert {len(rows) for rows in seen} == {10}
    assert any(np.array_equal(seen[0], X[test]) for test in folds)
    grid = GridSearchCV(
        linear_model.Ridge(), {"alpha": [1.0, 10.0]}, cv=KFold(4), scoring="neg_mean_absolute_error"
    ).fit(X, y)
    assert model.best_score_ == pytest.approx(grid.best_score_)


@pytest.mark.filterwarnings("ignore:RidgeCV. the fits that the best score comes from")
@pytest.mark.filterwarnings("ignore:RidgeCV. the choice of alpha is not proved")
@pytest.mark.parametrize("is_dual", [False, True])
def test_a_rank_deficient_x_and_an_alpha_below_rounding(is_dual):
    rng = np.random.default_rng(0)
    X = np.eye(4)[rng.integers(0, 4, 30)]
    X = np.hstack([X] * 10) if is_dual else X
    y = X[:, 0] + 0.1 * rng.standard_normal(30)
    for cv in (None, 3):
        model = RidgeCV([1e-16, 1e-3, 1.0], cv=cv, tol=1e-2).fit(X, y)
        assert np.isfinite(model.cv_scores_.mean_score).all()
        assert np.abs(model.predict(X) - y).max() < 0.5


@pytest.mark.parametrize("cv", [None, 5])
def test_the_one_standard_error_choice_is_the_largest_alpha_that_is_as_good(cv):
    X, y, _ = random_problem(1)
    model = RidgeCV(ALPHAS, cv=cv).fit(X, y)
    r = model.cv_scores_
    best = r.mean_score.argmax()
    good = r.mean_score >= r.mean_score[best] - r.std_error[best]
    assert model.alpha_1se_ == r.alphas[good].max() >= model.alpha_
    chosen = RidgeCV(ALPHAS, cv=cv, selection_rule="one_standard_error").fit(X, y)
    assert chosen.alpha_ == model.alpha_1se_
    assert np.allclose(chosen.coef_, Ridge(chosen.alpha_).fit(X, y).coef_)
    assert chosen.best_score_ == r.mean_score[r.alphas == model.alpha_1se_]


def drawn(model):
    found = model(0, n=400, p=300)
    return found.X, found.y


def loaded(load):
    found = load()
    return found.X, found.y


TOYS = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "linnerud": lambda: load_linnerud(return_X_y=True),
    "regression": lambda: make_regression(200, 50, noise=10, random_state=0),
    "friedman 1": lambda: make_friedman1(200, noise=0.5, random_state=0),
    "friedman 2": lambda: make_friedman2(200, noise=0.5, random_state=0),
    "friedman 3": lambda: make_friedman3(200, noise=0.5, random_state=0),
    "model 1": lambda: drawn(models.model1),
    "model 2": lambda: drawn(models.model2),
    "model 3": lambda: drawn(models.model3),
}
# Of the size that the paper has, and data that have to be had first.
LARGE = {
    **{f"model {m.__name__[-1]}, full": lambda m=m: loaded(lambda: m(0))
       for m in (models.model1, models.model2, models.model3)},
    "gisette": lambda: loaded(datasets.load_gisette),
    "buzz": lambda: loaded(datasets.load_buzz),
}  # fmt: skip


@pytest.mark.parametrize("cv", [None, 5])
@pytest.mark.parametrize(
    "data",
    [*(pytest.param(make, id=name) for name, make in TOYS.items()),
     *(pytest.param(make, id=name, marks=pytest.mark.slow) for name, make in LARGE.items())],
)  # fmt: skip
def test_the_default_grid_has_the_best_alpha_inside(data, cv):
    model = RidgeCV(cv=cv).fit(*data())
    assert len(model.alphas_) >= 30
    assert np.all((model.alpha_ > model.alphas_.min()) & (model.alpha_ < model.alphas_.max()))


@pytest.mark.parametrize("cv", [None, 5])
@pytest.mark.parametrize("unit", [1e-40, 0.3, 7.0, 1e30])
def test_units_of_x_move_alpha_and_nothing_else(unit, cv):
    X, y = load_diabetes(return_X_y=True)
    plain, scaled = (RidgeCV(cv=cv).fit(c * X, y) for c in (1.0, unit))
    assert scaled.alpha_ == pytest.approx(plain.alpha_ * unit**2, rel=1e-9)
    assert scaled.best_score_ == pytest.approx(plain.best_score_, rel=1e-9)
    assert np.allclose(scaled.coef_ * unit, plain.coef_, rtol=1e-8)
    assert np.allclose(scaled.alphas_, plain.alphas_ * unit**2, rtol=1e-9)


@pytest.mark.parametrize(
    ("alphas", "kind", "fields"),
    [
        ([], OptionError, {"mentions": "(0,)"}),
        ([1.0, -2.0], OptionError, {"mentions": "alphas[1] == -2.0"}),
        ([1.0, np.nan], NonFiniteError, {"mentions": "alphas[1] is nan"}),
        ([np.inf], NonFiniteError, {"mentions": "alphas[0] is inf"}),
        ([0.0, 1.0], OptionError, {"change": ("cv", 5)}),
        ([[1.0, 2.0]], OptionError, {"mentions": "(1, 2)", "change": ("alphas", None)}),
        (["a"], InputTypeError, {"mentions": "must be an instance of float, not str"}),
    ],
)
def test_a_grid_that_cannot_be_is_refused_by_name(alphas, kind, fields):
    X, y = load_diabetes(return_X_y=True)
    with raises(kind, "alphas", **fields):
        RidgeCV(alphas).fit(X, y)


def test_zero_is_possible_with_folds():
    X, y, _ = random_problem(1)
    ours = RidgeCV([0.0, 1.0], cv=3).fit(X, y)
    theirs = linear_model.RidgeCV([0.0, 1.0], cv=3).fit(X, y)
    assert np.allclose(ours.cv_scores_.mean_score.max(), theirs.best_score_)
    assert ours.alpha_ == theirs.alpha_


def test_nothing_is_proved_of_zero_where_solutions_are_not_unique():
    wide, y, _ = random_problem(2)
    with pytest.warns(ConvergenceWarning, match="choice of alpha is not proved"):
        model = RidgeCV([0.0, 1.0], cv=3).fit(wide, y)
    assert np.isfinite(model.cv_scores_.mean_score).all()
    assert not model.cv_scores_.certified[0]


def test_a_constant_y_is_fitted_whatever_alpha_is():
    X, _, _ = random_problem(1)
    for cv in (None, 4):
        model = RidgeCV(ALPHAS, cv=cv).fit(X, np.full(40, 2.5))
        assert not model.coef_.any()
        assert model.intercept_ == pytest.approx(2.5)
        default = RidgeCV(cv=cv).fit(X, np.full(40, 0.1))
        assert len(default.alphas_) == 30


@pytest.mark.parametrize(
    ("cv", "mentions"),
    [([], "(train, test)"), ([(np.arange(5), [])], "split 0 of cv has no test"),
     ([([], np.arange(5))], "split 0 of cv has no training")],
)  # fmt: skip
def test_splits_without_samples_are_refused(cv, mentions):
    X, y, _ = random_problem(1)
    with raises(OptionError, "cv", mentions=mentions):
        RidgeCV(ALPHAS, cv=cv).fit(X, y)


def test_one_sample_cannot_be_left_out():
    X, y, _ = random_problem(1)
    with raises(OptionError, "X"):
        RidgeCV(ALPHAS).fit(X, y, sample_weight=np.eye(40)[0])


def test_groups_go_to_the_splitter():
    X, y, _ = random_problem(1)
    groups = np.arange(40) % 4
    model = RidgeCV(ALPHAS, cv=GroupKFold(4)).fit(X, y, groups=groups)
    splits = list(GroupKFold(4).split(X, y, groups))
    assert np.allclose(
        model.cv_scores_.mean_score, RidgeCV(ALPHAS, cv=splits).fit(X, y).cv_scores_.mean_score
    )
    with raises(OptionError, "colour"):
        RidgeCV(ALPHAS, cv=3).fit(X, y, colour=groups)


def test_float32_is_kept():
    X, y, _ = random_problem(1)
    model = RidgeCV(ALPHAS, tol=1e-3).fit(X.astype(np.float32), y)
    assert model.coef_.dtype == np.float32
    assert model.alpha_ == RidgeCV(ALPHAS).fit(X, y).alpha_


@pytest.fixture
def steep():
    """Few directions matter, so that little memory will do."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 400)) * 10.0 ** -np.linspace(0, 4, 400)
    return X, X[:, :20] @ np.ones(20) + rng.standard_normal(500)


def test_where_memory_is_short_leave_one_out_is_generalised(steep):
    exact = RidgeCV().fit(*steep)
    short = RidgeCV(memory_budget="5MB", random_state=0).fit(*steep)
    assert "generalised" in short.cv_scores_.method
    assert "generalised" in str(short.report_)
    assert "exact leave-one-out does not fit into memory_budget" in str(short.report_)
    assert exact.alpha_ / 5 < short.alpha_ < exact.alpha_ * 5


def test_where_memory_is_short_folds_are_iterated(steep):
    folds = RidgeCV(cv=4, memory_budget="5MB").fit(*steep)
    results = folds.cv_scores_
    assert "iterated" in results.method
    assert results.certified[results.alphas == folds.alpha_]
    same = RidgeCV(results.alphas, cv=4).fit(*steep)
    assert same.cv_scores_.method == "cross-validation on 4 splits"
    assert same.alpha_ == folds.alpha_
    certified = results.certified
    assert np.allclose(
        same.cv_scores_.mean_score[certified], results.mean_score[certified], atol=1e-3
    )


def test_too_little_memory_to_choose_is_refused(steep):
    with raises(OptionError, "memory_budget", mentions="500 rows"):
        RidgeCV(cv=4, memory_budget="0.1MB", tol=1e-8).fit(*steep)


@pytest.mark.filterwarnings("ignore:RidgeCV. .*not within tol")
def test_what_rounding_does_not_allow_to_be_certified_ends_too(steep):
    with raises(OptionError, "memory_budget", mentions="500 rows"):
        RidgeCV(cv=4, memory_budget="4MB", tol=1e-30).fit(*steep)


def test_the_stochastic_estimate_can_be_asked_for():
    X, y = load_diabetes(return_X_y=True)
    model = RidgeCV(gcv_mode="stochastic", random_state=0).fit(X, y)
    assert "random vectors" in str(model.report_)
    again = RidgeCV(gcv_mode="stochastic", random_state=0).fit(X, y)
    assert np.array_equal(model.coef_, again.coef_)


def test_a_fitted_model_can_be_cloned_and_pickled():
    X, y = load_diabetes(return_X_y=True)
    model = RidgeCV(cv=3).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict(X), model.predict(X))
    assert np.array_equal(copy.cv_scores_.split_scores, model.cv_scores_.split_scores)
    assert clone(model).get_params() == model.get_params()


def test_an_interrupted_fit_leaves_the_estimator_as_it_was(monkeypatch):
    X, y = load_diabetes(return_X_y=True)
    model = RidgeCV(cv=3)

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("ling.model_selection.direct_folds.symmetric_form", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "alpha_")


def test_the_data_are_not_changed():
    X, y, weights = random_problem(6)
    before = X.copy(), y.copy(), weights.copy()
    RidgeCV(cv=3).fit(X, y, weights)
    RidgeCV().fit(X, y, weights)
    assert all(np.array_equal(a, b) for a, b in zip(before, (X, y, weights), strict=True))


@shows_array_parameters
def test_it_shows_in_a_notebook():
    X, y, _ = random_problem(1)
    assert "RidgeCV" in RidgeCV(ALPHAS).fit(X, y)._repr_html_()
    assert "Ridge" in Ridge().fit(X, y)._repr_html_()


@pytest.mark.parametrize(
    "split", [([0.5, 1.0], [2]), ([0, 99], [1]), (np.ones(7, dtype=bool), [1]), ([[0, 1]], [2])]
)
def test_splits_that_are_not_numbers_of_samples_are_refused(split):
    X, y, _ = random_problem(1)
    with raises(OptionError, "cv", mentions="split 0"):
        RidgeCV(ALPHAS, cv=[split]).fit(X, y)


def test_masks_are_splits_too():
    X, y, _ = random_problem(1)
    mask = np.arange(40) < 30
    masked = RidgeCV(ALPHAS, cv=[(mask, ~mask)]).fit(X, y)
    numbers = RidgeCV(ALPHAS, cv=[(np.arange(30), np.arange(30, 40))]).fit(X, y)
    assert np.array_equal(masked.cv_scores_.mean_score, numbers.cv_scores_.mean_score)


def test_a_scorer_that_cannot_score_few_samples_has_no_standard_error():
    X, y, _ = random_problem(1)

    def scorer(estimator, X, y):
        return -np.abs(estimator.predict(X) - y)[30]

    results = RidgeCV(ALPHAS, scoring=scorer).fit(X, y).cv_scores_
    assert np.isnan(results.std_error).all()
    assert np.isfinite(results.mean_score).all()


def test_a_fit_that_fails_leaves_nothing_of_itself():
    X, y, _ = random_problem(1)
    for model in (
        Ridge(0.0, store_covariance=True),
        RidgeCV([0.0, 1.0], cv=3, store_covariance=True),
    ):
        with raises(OptionError, "store_covariance", change=("store_covariance", False)):
            model.fit(X, y)
        assert not hasattr(model, "coef_")
        assert not hasattr(model, "alpha_")


@pytest.mark.parametrize("cv", [None, 5])
def test_the_default_grid_reaches_columns_of_any_size(cv):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 20))
    y = 3 * X[:, 0] + X[:, 2] + rng.standard_normal(300)
    X[:, 0] *= 1e-3
    X[:, 1] *= 1e5
    model = RidgeCV(cv=cv).fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.cv_scores_.certified[model.alphas_ == model.alpha_]


def test_groups_without_folds_are_refused():
    X, y, _ = random_problem(1)
    with raises(OptionError, "groups"):
        RidgeCV().fit(X, y, groups=np.arange(40) % 4)


def test_a_report_says_what_was_done():
    X, y, _ = random_problem(1)
    text = str(RidgeCV(ALPHAS).fit(X, y).report_)
    assert "choose alpha" in text
    assert "Gram matrix of cross-validation" in text
    assert "alpha was chosen from 21 by exact leave-one-out" in text


def test_a_target_of_words_is_named():
    X, _, _ = random_problem(1)
    for model in (Ridge(), RidgeCV()):
        with raises(InputTypeError, "y", mentions="'yes'"):
            model.fit(X, ["yes", "no"] * 20)


@pytest.mark.parametrize("cv", [None, 3])
def test_a_constant_x_has_a_grid_too(cv):
    y = np.arange(30.0)
    model = RidgeCV(cv=cv).fit(np.ones((30, 2)), y)
    assert not model.coef_.any()
    assert model.intercept_ == y.mean()


def test_a_constant_column_does_not_stretch_the_grid():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4))
    y = X.sum(axis=1) + rng.standard_normal(500)
    weights = rng.uniform(0.1, 3, 500)
    plain = RidgeCV(cv=5).fit(X, y, weights).alphas_
    with_it = RidgeCV(cv=5).fit(np.column_stack([X, np.full(500, 7.0)]), y, weights)
    np.testing.assert_allclose(with_it.alphas_, plain, rtol=1e-9)
