"""Searches and cross-validation around ling: the choices and scores of scikit-learn's Ridge."""

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    LearningCurveDisplay,
    RandomizedSearchCV,
    TimeSeriesSplit,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    validation_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.ecosystem.pairs import (
    CLASSIFIERS,
    REGRESSORS,
    classes,
    classifiers,
    regression,
    regressors,
    same,
)

ALPHAS = [1e-2, 1.0, 30.0, 1e4]
RIDGE = REGRESSORS["Ridge"]


def searches(model):
    """The same search by grid, by halving, and at random."""
    name = f"{type(model).__name__.lower()}__alpha"
    pipeline = make_pipeline(StandardScaler(), model)
    return {
        "grid": GridSearchCV(pipeline, {name: ALPHAS}, cv=4),
        "halving": HalvingGridSearchCV(pipeline, {name: ALPHAS}, cv=4, random_state=0),
        "random": RandomizedSearchCV(
            pipeline, {name: loguniform(1e-3, 1e3)}, n_iter=5, cv=4, random_state=0
        ),
    }


@pytest.mark.parametrize("kind", ["grid", "halving", "random"])
@pytest.mark.parametrize("name", ["Ridge", "RidgeClassifier"])
def test_searches_find_the_same(kind, name):
    models = RIDGE if name == "Ridge" else CLASSIFIERS[name]
    X, y = regression() if name == "Ridge" else classes(n_classes=3)
    ours, theirs = (searches(model)[kind].fit(X, y) for model in models)
    assert ours.best_params_ == theirs.best_params_
    same(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
    assert np.array_equal(ours.predict(X), theirs.predict(X)) or name == "Ridge"
    same(ours.score(X, y), theirs.score(X, y))


def test_a_search_over_parameters_of_our_own():
    X, y = regression()
    grid = {"solver": ["direct", "two_stage", "auto"], "precision": ["auto", "float64"]}
    search = GridSearchCV(RIDGE.ours(), grid, cv=3).fit(X, y)
    same(search.cv_results_["mean_test_score"], search.best_score_)


@pytest.mark.processes
def test_a_search_in_other_processes_finds_the_same():
    X, y = regression()
    inside, outside = (
        GridSearchCV(RIDGE.ours(), {"alpha": ALPHAS}, cv=3, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (1, 2)
    )
    for name in ("mean_test_score", "params"):
        assert list(inside.cv_results_[name]) == list(outside.cv_results_[name])
    assert np.array_equal(inside.predict(X), outside.predict(X))


@regressors
@pytest.mark.parametrize("scoring", ["r2", "neg_mean_absolute_error", "explained_variance"])
def test_scores_of_regressions(models, scoring):
    X, y = regression()
    ours, theirs = (cross_val_score(model, X, y, cv=4, scoring=scoring) for model in models)
    same(ours, theirs)


@classifiers
@pytest.mark.parametrize("scoring", ["accuracy", "roc_auc", "f1", "average_precision"])
def test_scores_of_classifiers(models, scoring):
    X, y = classes()
    ours, theirs = (cross_val_score(model, X, y, cv=4, scoring=scoring) for model in models)
    same(ours, theirs)


@regressors
def test_several_scores_at_once_and_the_fits(models):
    X, y = regression(n_targets=2)
    scoring = {"r2": "r2", "worst": make_scorer(mean_absolute_error, greater_is_better=False)}
    ours, theirs = (
        cross_validate(model, X, y, cv=TimeSeriesSplit(3), scoring=scoring, return_estimator=True,
                       return_train_score=True)
        for model in models
    )  # fmt: skip
    for name in ("test_r2", "train_r2", "test_worst", "train_worst"):
        same(ours[name], theirs[name])
    for mine, other in zip(ours["estimator"], theirs["estimator"], strict=True):
        same(mine.coef_, other.coef_)


@regressors
def test_predictions_for_what_was_left_out(models):
    X, y = regression()
    groups = np.arange(len(y)) // 7
    same(*(cross_val_predict(model, X, y, cv=GroupKFold(4), groups=groups) for model in models))


@classifiers
def test_decisions_for_what_was_left_out(models):
    X, y = classes(n_classes=3, names=["low", "middle", "high"])
    ours, theirs = (cross_val_predict(model, X, y, cv=4) for model in models)
    assert np.array_equal(ours, theirs)
    same(*(cross_val_predict(m, X, y, cv=4, method="decision_function") for m in models))


@regressors
def test_learning_curves(models):
    X, y = regression()
    ours, theirs = (learning_curve(m, X, y, cv=3, train_sizes=[0.4, 1.0]) for m in models)
    for mine, other in zip(ours, theirs, strict=True):
        same(mine, other)


@pytest.mark.parametrize("name", ["Ridge", "RidgeClassifier"])
def test_validation_curves(name):
    models = RIDGE if name == "Ridge" else CLASSIFIERS[name]
    X, y = regression() if name == "Ridge" else classes()
    options = {"param_name": "alpha", "param_range": ALPHAS, "cv": 3}
    for mine, other in zip(*(validation_curve(m, X, y, **options) for m in models), strict=True):
        same(mine, other)


def test_a_learning_curve_can_be_drawn():
    X, y = regression()
    display = LearningCurveDisplay.from_estimator(RIDGE.ours(), X, y, cv=3, train_sizes=[0.5, 1.0])
    assert display.test_scores.shape == (2, 3)
