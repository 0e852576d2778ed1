"""`cv_results_`, `cv_scores_` and `alphas_`: what cross-validation leaves behind, and its notes."""

import pickle
import re
import sys
import warnings
from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import linear_model
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.model_selection import GridSearchCV, LeaveOneOut

import ling
from ling.errors import MissingPackageError
from ling.model_selection import CVScores
from tests.versions import sklearn_from

# Not in order, so that a mix-up of alphas shows.
ALPHAS = (10.0, 0.1, 1.0, 100.0)
N = 40
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 5)) * [1, 2, 3, 0.5, 1] + [0, 1, -5, 0, 0]
Y = X @ RNG.standard_normal((5, 3)) + RNG.standard_normal((N, 3)) * [1, 3, 10]
ONE = Y[:, 0]
WEIGHTS = RNG.gamma(2.0, size=N)
CLASSES = np.digitize(ONE, np.quantile(ONE, [0.3, 0.7]))
LABELS = (Y > 0).astype(int)


def case(name, X, y, weights=None, **options):
    return name, X, y, weights, options


STORED = {
    "one target": case("RidgeCV", X, ONE),
    "a column as target": case("RidgeCV", X, Y[:, :1]),
    "targets": case("RidgeCV", X, Y),
    "weights": case("RidgeCV", X, ONE, WEIGHTS),
    "targets, weights": case("RidgeCV", X, Y, WEIGHTS),
    "no intercept": case("RidgeCV", X, Y, WEIGHTS, fit_intercept=False),
    "alpha per target": case("RidgeCV", X, Y, alpha_per_target=True),
    "r2": case("RidgeCV", X, ONE, scoring="r2"),
    "r2, targets": case("RidgeCV", X, Y, WEIGHTS, scoring="r2"),
    "r2, alpha per target": case("RidgeCV", X, Y, scoring="r2", alpha_per_target=True),
    "absolute error": case("RidgeCV", X, ONE, WEIGHTS, scoring="neg_mean_absolute_error"),
    "more columns than rows": case("RidgeCV", X[:4], ONE[:4]),
    "float32": case("RidgeCV", X.astype(np.float32), Y),
    "float32, r2": case("RidgeCV", X.astype(np.float32), ONE, scoring="r2"),
    "integers": case("RidgeCV", (10 * X).astype(int), ONE),
    "float32 y": case("RidgeCV", X, ONE.astype(np.float32)),
    "sparse": case("RidgeCV", sparse.csr_array(X), ONE),
    "data frame": case("RidgeCV", pd.DataFrame(X), pd.Series(ONE)),
    "one alpha": case("RidgeCV", X, ONE, alphas=[1.0]),
    "two classes": case("RidgeClassifierCV", X, ONE > 0),
    "classes": case("RidgeClassifierCV", X, CLASSES),
    "classes, weights": case("RidgeClassifierCV", X, CLASSES, WEIGHTS, class_weight="balanced"),
    "accuracy": case("RidgeClassifierCV", X, CLASSES, scoring="accuracy"),
    "classes, float32": case("RidgeClassifierCV", X.astype(np.float32), CLASSES),
    "labels": case("RidgeClassifierCV", X, LABELS),
}
OTHER_DTYPES = ("float32", "float32, r2", "integers", "classes, float32")
own_dtypes = sklearn_from(9, "before 1.9 scikit-learn stores float64, or integers, of such X")
every_stored = pytest.mark.parametrize(
    ("name", "X", "y", "weights", "options"),
    [
        pytest.param(*each, id=key, marks=[own_dtypes] if key in OTHER_DTYPES else [])
        for key, each in STORED.items()
    ],
)
every_cv = pytest.mark.parametrize("name", ["RidgeCV", "RidgeClassifierCV"])


def target(name):
    return ONE if name == "RidgeCV" else CLASSES


@every_stored
def test_cv_results_is_the_array_of_scikit_learn(name, X, y, weights, options):
    options = {"alphas": ALPHAS, "store_cv_results": True, **options}
    ours, theirs = (
        getattr(module, name)(**options).fit(X, y, weights) for module in (ling, linear_model)
    )
    assert type(ours.cv_results_) is np.ndarray
    assert ours.cv_results_.dtype == theirs.cv_results_.dtype
    assert ours.cv_results_.shape == theirs.cv_results_.shape
    rtol = 1e-5 if ours.cv_results_.dtype == np.float32 else 1e-9
    np.testing.assert_allclose(ours.cv_results_, theirs.cv_results_, rtol=rtol, atol=rtol)


@every_cv
@pytest.mark.parametrize("cv", [None, 3])
def test_cv_results_is_there_only_if_it_was_asked_for(name, cv):
    model = getattr(ling, name)(ALPHAS, cv=cv)
    assert not hasattr(model.fit(X, target(name)), "cv_results_")
    model.set_params(cv=None, store_cv_results=True).fit(X, target(name))
    assert hasattr(model, "cv_results_")
    model.set_params(cv=cv, store_cv_results=False).fit(X, target(name))
    assert not hasattr(model, "cv_results_")


def test_stored_squared_errors_give_the_scores():
    model = ling.RidgeCV(ALPHAS, store_cv_results=True).fit(X, ONE, WEIGHTS)
    errors, scores = model.cv_results_, model.cv_scores_
    np.testing.assert_allclose(scores.mean_score, -errors.mean(axis=0))
    np.testing.assert_allclose(scores.std_error, errors.std(axis=0, ddof=1) / np.sqrt(N))
    np.testing.assert_array_equal(scores.split_scores[:, 0], scores.mean_score)


def test_storing_does_not_change_the_scores():
    for options in ({}, {"scoring": "r2"}, {"alphas": None}):
        stored, plain = (
            ling.RidgeCV(**{"alphas": ALPHAS, **options, "store_cv_results": store}).fit(X, ONE)
            for store in (True, False)
        )
        np.testing.assert_array_equal(stored.alphas_, plain.alphas_)
        np.testing.assert_allclose(stored.cv_scores_.mean_score, plain.cv_scores_.mean_score)
        assert stored.cv_results_.shape == (N, len(stored.alphas_))


def test_scores_of_folds_are_those_of_a_grid_search():
    scores = ling.RidgeCV(ALPHAS, cv=5).fit(X, ONE).cv_scores_
    grid = GridSearchCV(linear_model.Ridge(), {"alpha": ALPHAS}, cv=5).fit(X, ONE).cv_results_
    splits = np.transpose([grid[f"split{k}_test_score"] for k in range(5)])
    np.testing.assert_allclose(scores.split_scores, splits)
    np.testing.assert_allclose(scores.mean_score, grid["mean_test_score"])
    np.testing.assert_allclose(scores.std_error, grid["std_test_score"] / 2)  # of five, unbiased
    assert scores.method == "cross-validation on 5 splits"


@every_cv
@pytest.mark.parametrize("cv", [None, 3])
@pytest.mark.parametrize("alphas", [ALPHAS, np.array([3.0, 1.0]), 2.0, None], ids=str)
def test_alphas_are_the_grid_that_was_used(name, cv, alphas):
    model = getattr(ling, name)(alphas, cv=cv).fit(X, target(name))
    assert type(model.alphas_) is np.ndarray
    if alphas is None:
        assert len(model.alphas_) >= 30
        assert (np.diff(model.alphas_) > 0).all()
    else:
        np.testing.assert_array_equal(model.alphas_, np.atleast_1d(alphas))
    np.testing.assert_array_equal(model.cv_scores_.alphas, model.alphas_)
    assert model.alpha_ in model.alphas_
    assert len(model.cv_scores_.mean_score) == len(model.alphas_)


def test_alphas_do_not_change_with_the_array_that_was_passed():
    alphas = np.array(ALPHAS)
    model = ling.RidgeCV(alphas).fit(X, ONE)
    alphas *= 2
    np.testing.assert_array_equal(model.alphas_, ALPHAS)


def test_a_frame_has_a_row_per_alpha():
    scores = ling.RidgeCV(ALPHAS, cv=4).fit(X, Y).cv_scores_
    frame = scores.to_frame()
    assert list(frame) == ["alpha", "mean_score", "std_error", "score_error", "certified"]
    np.testing.assert_array_equal(frame["alpha"], ALPHAS)
    for column in list(frame)[1:]:
        np.testing.assert_array_equal(frame[column], getattr(scores, column))
    assert frame["certified"].dtype == bool


def test_a_frame_has_a_row_per_alpha_and_target():
    scores = ling.RidgeCV(ALPHAS, cv=4, alpha_per_target=True).fit(X, Y).cv_scores_
    frame = scores.to_frame()
    assert list(frame)[:3] == ["alpha", "target", "mean_score"]
    assert len(frame) == len(ALPHAS) * Y.shape[1]
    for row in frame.itertuples():
        at = ALPHAS.index(row.alpha)
        assert row.mean_score == scores.mean_score[at, row.target]
        assert row.std_error == scores.std_error[at, row.target]
        assert row.score_error == scores.score_error[at, row.target]
        assert row.certified == scores.certified[at]


def test_a_frame_without_pandas_says_what_to_do(monkeypatch):
    scores = ling.RidgeCV(ALPHAS).fit(X, ONE).cv_scores_
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingPackageError, match="to_frame needs pandas: pip install pandas"):
        scores.to_frame()


def scores_of(mean_score, certified=None, alphas=None):
    mean = np.array(mean_score, dtype=float)
    alphas = np.geomspace(0.1, 10, len(mean)) if alphas is None else np.array(alphas)
    certified = np.ones(len(mean), bool) if certified is None else np.array(certified, bool)
    errors = np.full_like(mean, 0.1), np.full_like(mean, 1e-9)
    return CVScores(alphas, mean, errors[0], mean[:, None], certified, "a method", errors[1])


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        (
            scores_of([1, 2.5, 2]),
            "CVScores(3 alphas from 0.1 to 10, by a method; mean_score from 1 to 2.5; all "
            "certified)",
        ),
        (
            scores_of([[1, 2], [3, 5], [2, 2]], [0, 1, 1]),
            "CVScores(3 alphas from 0.1 to 10, by a method; mean_score of 2 targets from 1 to 5; "
            "2 of 3 certified)",
        ),
        (
            scores_of([-np.inf, 1.0, np.nan]),
            "CVScores(3 alphas from 0.1 to 10, by a method; mean_score from 1 to 1; all certified)",
        ),
        (
            scores_of([np.nan], alphas=[2.0]),
            "CVScores(alpha = 2, by a method; mean_score none finite; all certified)",
        ),
    ],
)
def test_scores_can_be_printed(scores, text):
    assert repr(scores) == str(scores) == text


def test_scores_are_frozen_and_can_be_pickled():
    scores = ling.RidgeCV(ALPHAS, cv=3).fit(X, ONE).cv_scores_
    with pytest.raises(FrozenInstanceError):
        scores.method = "another"
    again = pickle.loads(pickle.dumps(scores))
    np.testing.assert_array_equal(again.split_scores, scores.split_scores)


def edge_notes(model):
    return [note for note in model.report_.notes if "is the smallest" in note or "largest" in note]


@every_cv
@pytest.mark.parametrize("cv", [None, 5])
def test_a_best_alpha_at_an_end_of_the_grid_is_a_note(name, cv):
    rng = np.random.default_rng(1)
    y = X[:, 0] + 0.1 * rng.standard_normal(N)
    y = y if name == "RidgeCV" else y > 0
    model = getattr(ling, name)([1e4, 1e2, 1e3], cv=cv).fit(X, y)
    (note,) = edge_notes(model)
    assert note.startswith("The best alpha is the smallest of alphas, 100: a better one may lie")
    assert note in str(model.report_)
    assert "alphas=None" in note


def test_both_ends_of_the_grid_are_noted_for_targets():
    rng = np.random.default_rng(1)
    targets = np.c_[X @ np.ones(5), rng.standard_normal((N, 2))]
    model = ling.RidgeCV([0.1, 1.0, 10.0], alpha_per_target=True).fit(X, targets)
    low, high = edge_notes(model)
    assert low.startswith("The best alpha of 1 of 3 targets is the smallest of alphas, 0.1:")
    assert high.startswith("The best alpha of 2 of 3 targets is the largest of alphas, 10:")


@every_cv
@pytest.mark.parametrize("cv", [None, 5])
@pytest.mark.parametrize(("signal", "end"), [(1.0, "smallest"), (0.0, "largest")])
@pytest.mark.parametrize("alphas", [[1.0, 1e3], [1e3, 1.0], [1e3, 1.0, 1e3]], ids=str)
def test_the_better_of_two_alphas_is_at_an_end(name, cv, signal, end, alphas):
    rng = np.random.default_rng(1)
    y = signal * X[:, 0] + 0.1 * rng.standard_normal(N)
    y = y if name == "RidgeCV" else y > 0
    model = getattr(ling, name)(alphas, cv=cv).fit(X, y)
    (note,) = edge_notes(model)
    assert note.startswith(f"The best alpha is the {end} of alphas, {model.alpha_:g}:")


@pytest.mark.parametrize(
    "options",
    [
        {"alphas": None},
        {"alphas": [1.0]},
        {"alphas": [1.0, 1.0]},
        {"alphas": [0.0, 1e3, 1e4], "cv": 4},
        {"alphas": [1e-20, 1e-19, 1e4]},
        {"y": 0.0},
    ],
    ids=[
        "default grid",
        "one alpha",
        "one alpha twice",
        "nothing below 0",
        "flat at the end",
        "equal scores",
    ],
)
def test_where_no_other_grid_would_help_there_is_no_note(options):
    y = ONE if options.pop("y", None) is None else np.zeros(N)
    model = ling.RidgeCV(**{"alphas": [1.0, 1e3, 1e4], **options}).fit(X, y)
    assert not edge_notes(model)


def recorded(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit()
    return model, caught


LEAVE_SOME_OUT = [(np.arange(1, N), [0]), (np.arange(20), np.arange(20, N))]
UNDEFINED_SCORES = {
    "LeaveOneOut()": {"cv": LeaveOneOut()},
    "cv=n": {"cv": N},
    "r2": {"cv": LeaveOneOut(), "scoring": "r2"},
    "a split of one": {"cv": LEAVE_SOME_OUT},
    "weights": {"cv": N, "sample_weight": WEIGHTS},
    "targets": {"cv": N, "y": Y},
    "roc_auc": {"cv": 4, "y": ONE.min() < ONE, "name": "RidgeClassifierCV", "scoring": "roc_auc"},
}


@pytest.mark.parametrize("options", UNDEFINED_SCORES.values(), ids=UNDEFINED_SCORES)
def test_undefined_scores_are_what_they_are_in_scikit_learn(options):
    options = dict(options)
    y, weights = options.pop("y", ONE), options.pop("sample_weight", None)
    name = options.pop("name", "RidgeCV")
    (ours, our_warnings), (theirs, their_warnings) = (
        recorded(lambda m=module: getattr(m, name)(ALPHAS, **options).fit(X, y, weights))
        for module in (ling, linear_model)
    )
    assert ours.alpha_ == theirs.alpha_ == ours.alpha_1se_ == ALPHAS[0]
    assert np.isnan([ours.best_score_, theirs.best_score_]).all()
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6)
    undefined = UndefinedMetricWarning, UserWarning
    starts = [
        {(w.category, str(w.message)[:40]) for w in caught if w.category in undefined}
        for caught in (our_warnings, their_warnings)
    ]
    assert {category for category, _ in starts[0]} == set(undefined)
    assert starts[0] <= starts[1]
    assert not edge_notes(ours)
    assert "Without a finite score the first alpha, 10, was taken" in str(ours.report_)


def test_warnings_about_undefined_scores_point_at_the_fit():
    _, caught = recorded(lambda: ling.RidgeCV(ALPHAS, cv=N).fit(X, ONE))
    assert [w.category for w in caught] == [UndefinedMetricWarning, UserWarning]
    assert {w.filename for w in caught} == {__file__}


def test_r2_of_single_samples_for_each_target_and_from_blocks(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for data in (X, mapped):
        model, _ = recorded(
            lambda data=data: ling.RidgeCV(
                ALPHAS, cv=N, alpha_per_target=True, memory_budget="1MB"
            ).fit(data, Y)
        )
        assert np.isnan(model.cv_scores_.mean_score).all()
        np.testing.assert_array_equal(model.alpha_, np.full(3, ALPHAS[0]))


def test_the_default_grid_does_not_grow_without_a_finite_score():
    model, _ = recorded(lambda: ling.RidgeCV(cv=N).fit(X, ONE))
    assert len(model.alphas_) == 30
    assert model.alpha_ == model.alphas_[0]


def test_some_undefined_scores_do_not_decide():
    def scorer(estimator, X, y):
        error = np.abs(estimator.predict(X) - y).mean()
        return np.nan if error < np.std(y) / 2 else -error

    model, (warning, *_) = recorded(lambda: ling.RidgeCV(ALPHAS, scoring=scorer).fit(X, ONE))
    scores = model.cv_scores_.mean_score
    assert 0 < np.isnan(scores).sum() < len(scores)
    assert model.best_score_ == np.nanmax(scores)
    message = str(warning.message)
    assert re.fullmatch(
        r"One or more of the test scores are non-finite: those of \d of 4 alphas\.", message
    )


def test_one_sample_a_fold_has_a_squared_error():
    folds = ling.RidgeCV(ALPHAS, cv=N, scoring="neg_mean_squared_error").fit(X, ONE)
    loo = ling.RidgeCV(ALPHAS).fit(X, ONE)
    assert folds.best_score_ == pytest.approx(loo.best_score_)
    assert folds.alpha_ == loo.alpha_


@every_cv
def test_ignored_groups_are_told_as_in_a_grid_search(name):
    y, groups = target(name), np.arange(N) // 10
    estimator = getattr(linear_model, name.removesuffix("CV"))()
    model = getattr(ling, name)(ALPHAS, cv=4)
    search = GridSearchCV(estimator, {"alpha": ALPHAS}, cv=4)
    for each in (model, search):
        with pytest.warns(UserWarning, match="The groups parameter is ignored by (Strat|KFold)"):
            each.fit(X, y, groups=groups)
    np.testing.assert_allclose(model.best_score_, search.best_score_)
    assert model.fit(X, y, groups=None).alpha_ == search.best_params_["alpha"]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scorers_get_decision_values_as_from_scikit_learn(n_classes):
    X = np.random.default_rng(0).standard_normal((30, 4))
    y = np.arange(30) % n_classes
    shapes = set()

    def scorer(estimator, X, y):
        shapes.add(estimator.decision_function(X).shape[1:])
        return 0.0

    ling.RidgeClassifierCV([0.1, 1.0, 10.0], cv=3, scoring=scorer).fit(X, y)
    assert shapes == {() if n_classes == 2 else (3,)}
