"""Classifiers: scikit-learn's, and leave-one-out accuracy that is right."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model
from sklearn.datasets import load_digits, load_iris, make_multilabel_classification
from sklearn.metrics import accuracy_score
from sklearn.model_selection import KFold, StratifiedKFold

from ling import RidgeClassifier, RidgeClassifierCV
from ling.errors import NonFiniteError
from ling.results import Status
from tests.raising import raises

ALPHAS = np.geomspace(1e-2, 1e4, 7)


def binary():
    X, y = load_iris(return_X_y=True)
    return X[20:90], np.array(["no", "yes"])[(y[20:90] == 1).astype(int)]


def multiclass():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    rows = rng.permutation(150)[:60]
    return X[rows] + 0.5 * rng.standard_normal((60, 4)), y[rows]


def wide():
    X, y = load_digits(return_X_y=True)
    return X[:40], y[:40]


def multilabel():
    return make_multilabel_classification(50, 8, n_classes=4, random_state=0)


KINDS = {"binary": binary, "multiclass": multiclass, "wide": wide, "multilabel": multilabel}
every_kind = pytest.mark.parametrize("data", KINDS.values(), ids=KINDS)


@pytest.mark.parametrize(
    ("data", "class_weight"),
    [*((make, None) for make in KINDS.values()), (binary, "balanced"), (multiclass, "balanced")],
)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_fits_are_scikit_learns(data, class_weight, is_sparse):
    X, y = data()
    data = sparse.csr_array(X) if is_sparse else X
    ours = RidgeClassifier(0.5, class_weight=class_weight, tol=1e-8).fit(data, y)
    theirs = linear_model.RidgeClassifier(0.5, class_weight=class_weight, tol=1e-10).fit(X, y)
    assert np.array_equal(ours.classes_, theirs.classes_)
    assert ours.coef_.shape == theirs.coef_.shape
    assert np.shape(ours.intercept_) == np.shape(theirs.intercept_)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-6)
    assert np.allclose(ours.decision_function(data), theirs.decision_function(X), atol=1e-5)
    assert np.array_equal(ours.predict(data), theirs.predict(X))
    assert ours.report_.status is Status.CERTIFIED


def balanced(y):
    counts = dict(zip(*np.unique(y, return_counts=True), strict=True))
    return np.array([len(y) / len(counts) / counts[label] for label in y])


def left_out_predictions(X, y, alpha, weights):
    """n fits: the class of every sample by a classifier that has not seen it."""
    found = []
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        model = linear_model.RidgeClassifier(alpha).fit(X[rest], y[rest], weights[rest])
        found.append(model.predict(X[i : i + 1])[0])
    return np.array(found)


@pytest.mark.parametrize(
    ("data", "class_weight"),
    [*((make, None) for make in KINDS.values()), (binary, "balanced"), (multiclass, "balanced")],
)
def test_leave_one_out_accuracy_is_that_of_n_fits(data, class_weight):
    X, y = data()
    weights = balanced(y) if class_weight else np.ones(len(X))
    model = RidgeClassifierCV(ALPHAS, scoring="accuracy", class_weight=class_weight).fit(X, y)
    pairs = list(zip(ALPHAS, model.cv_scores_.mean_score, strict=True))
    for alpha, found in pairs[::3]:
        left_out = left_out_predictions(X, y, alpha, weights)
        assert found == pytest.approx(accuracy_score(y, left_out, sample_weight=weights))
    assert model.best_score_ == model.cv_scores_.mean_score.max()


@every_kind
@pytest.mark.parametrize("cv", [None, 4])
def test_the_choice_is_scikit_learns(data, cv):
    X, y = data()
    cv = KFold(4, shuffle=True, random_state=0) if cv and (y.ndim == 2 or len(y) < 50) else cv
    ours = RidgeClassifierCV(ALPHAS, cv=cv).fit(X, y)
    theirs = linear_model.RidgeClassifierCV(ALPHAS, cv=cv).fit(X, y)
    assert ours.alpha_ == theirs.alpha_
    assert ours.best_score_ == pytest.approx(theirs.best_score_)
    assert np.allclose(ours.coef_, theirs.coef_, atol=1e-8)
    assert np.array_equal(ours.predict(X), theirs.predict(X))


def test_folds_are_stratified():
    X, y = multiclass()
    order = np.argsort(y)
    folds = RidgeClassifierCV(ALPHAS, cv=3).fit(X[order], y[order]).cv_scores_.split_scores
    splits = list(StratifiedKFold(3).split(X, y[order]))
    same = RidgeClassifierCV(ALPHAS, cv=splits).fit(X[order], y[order]).cv_scores_.split_scores
    assert np.array_equal(folds, same)


def test_a_training_set_without_a_class_never_predicts_it():
    X, y = multiclass()
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    last = y == 2
    model = RidgeClassifierCV(ALPHAS, cv=[(np.flatnonzero(~last), np.flatnonzero(last))]).fit(X, y)
    assert (model.cv_scores_.mean_score == 0).all()
    assert set(model.predict(X)) == {0, 1, 2}  # the final fit has seen it


def test_the_default_grid_finds_an_alpha_inside():
    X, y = load_digits(return_X_y=True)
    model = RidgeClassifierCV().fit(X[:500], y[:500])
    assert model.alphas_.min() < model.alpha_ < model.alphas_.max()
    assert model.score(X[500:], y[500:]) > 0.8


def test_one_class_is_refused_or_fitted_as_scikit_learn_does():
    X, _ = binary()
    y = np.zeros(len(X), dtype=int)
    ours, theirs = RidgeClassifier().fit(X, y), linear_model.RidgeClassifier().fit(X, y)
    assert np.array_equal(ours.predict(X), theirs.predict(X))


def test_float32_is_kept():
    X, y = multiclass()
    model = RidgeClassifier(tol=1e-3).fit(X.astype(np.float32), y)
    assert model.coef_.dtype == np.float32
    assert model.decision_function(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("model", [RidgeClassifier(), RidgeClassifierCV()])
def test_a_second_fit_that_fails_leaves_the_first(model):
    X, y = binary()
    model.fit(X, y)
    before = model.predict(X)
    with raises(NonFiniteError, "X", row=0, column=1):
        model.fit(np.where(np.arange(4) == 1, np.nan, X), np.where(y == "yes", "c", "d"))
    assert np.array_equal(model.predict(X), before)
    assert list(model.classes_) == ["no", "yes"]
