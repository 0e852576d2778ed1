"""ling inside of other estimators: ensembles, one class against the rest, chosen features."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE, RFECV, SelectFromModel, SequentialFeatureSelector
from sklearn.linear_model import RANSACRegressor
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import (
    ClassifierChain,
    MultiOutputClassifier,
    MultiOutputRegressor,
    RegressorChain,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.semi_supervised import SelfTrainingClassifier

from tests.ecosystem.pairs import (
    CLASSIFIERS,
    REGRESSORS,
    classes,
    classifiers,
    quiet,
    regression,
    regressors,
    same,
)

FOR_TARGETS = {
    "each by itself": MultiOutputRegressor,
    "in a chain": RegressorChain,
}
FOR_ONE_TARGET = {
    "stacked below": lambda m: StackingRegressor(
        [("ridge", m), ("near", KNeighborsRegressor())], final_estimator=KNeighborsRegressor()
    ),
    "stacked on top": lambda m: StackingRegressor(
        [("near", KNeighborsRegressor())], final_estimator=m, passthrough=True
    ),
    "voting": lambda m: VotingRegressor([("ridge", m), ("near", KNeighborsRegressor())]),
    "bagged": lambda m: BaggingRegressor(m, 4, max_features=0.7, random_state=0),
}
# These draw a seed for every estimator that takes one, which scikit-learn's RidgeCV does not.
WITH_SEEDS = {
    "boosted": lambda m: AdaBoostRegressor(m, n_estimators=4, random_state=0),
    "without outliers": lambda m: RANSACRegressor(m, min_samples=20, random_state=0),
}
FOR_CLASSES = {
    "one against the rest": OneVsRestClassifier,
    "one against one": OneVsOneClassifier,
    "output codes": lambda m: OutputCodeClassifier(m, random_state=0),
    "calibrated": lambda m: CalibratedClassifierCV(m, cv=3),
    "calibrated, isotonic": lambda m: CalibratedClassifierCV(m, cv=3, method="isotonic"),
    "bagged": lambda m: BaggingClassifier(m, 4, random_state=0),
    "voting": lambda m: VotingClassifier([("ridge", m), ("near", KNeighborsClassifier())]),
    "stacked": lambda m: StackingClassifier([("ridge", m)], KNeighborsClassifier()),
}
SELECTORS = {
    "by coefficients": lambda m: SelectFromModel(m, threshold="median"),
    "one by one, backwards": lambda m: RFE(m, n_features_to_select=2),
    "as many as it takes": lambda m: RFECV(m, cv=3),
    "one by one, by scores": lambda m: SequentialFeatureSelector(m, n_features_to_select=2, cv=2),
}


@regressors
@pytest.mark.parametrize("around", FOR_TARGETS.values(), ids=FOR_TARGETS)
def test_several_targets(models, around):
    X, Y = regression(n_targets=3)
    same(*(around(model).fit(X, Y).predict(X) for model in models))


@regressors
@pytest.mark.parametrize("around", FOR_ONE_TARGET.values(), ids=FOR_ONE_TARGET)
def test_regressions_inside_of_others(models, around):
    X, y = regression()
    same(*(around(model).fit(X, y).predict(X) for model in models))


@pytest.mark.parametrize("around", WITH_SEEDS.values(), ids=WITH_SEEDS)
def test_regressions_that_are_given_seeds(around):
    X, y = regression()
    same(*(around(model).fit(X, y).predict(X) for model in REGRESSORS["Ridge"]))


@classifiers
@pytest.mark.parametrize("around", FOR_CLASSES.values(), ids=FOR_CLASSES)
def test_classifiers_inside_of_others(models, around):
    X, y = classes(n_classes=3, names=["low", "middle", "high"])
    ours, theirs = (quiet(around(model).fit, X, y) for model in models)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    for method in ("predict_proba", "decision_function"):
        assert hasattr(ours, method) == hasattr(theirs, method)
        if hasattr(ours, method):
            same(getattr(ours, method)(X), getattr(theirs, method)(X))


@classifiers
@pytest.mark.parametrize("around", [MultiOutputClassifier, ClassifierChain])
def test_several_labels(models, around):
    X, _ = classes()
    Y = (X[:, :3] > X[:, :3].mean(axis=0)).astype(int)
    ours, theirs = (around(model).fit(X, Y) for model in models)
    assert np.array_equal(ours.predict(X), theirs.predict(X))


def test_labels_that_are_missing_can_be_learned():
    X, y = classes()
    known = np.where(np.arange(len(y)) % 3, y, -1)
    found = [
        SelfTrainingClassifier(CalibratedClassifierCV(model, cv=3), max_iter=2).fit(X, known)
        for model in CLASSIFIERS["RidgeClassifier"]
    ]
    assert np.array_equal(*(model.predict(X) for model in found))


@regressors
@pytest.mark.parametrize("around", SELECTORS.values(), ids=SELECTORS)
def test_features_chosen_by_a_regression(models, around):
    X, y = regression()
    ours, theirs = (around(model).fit(X, y) for model in models)
    assert np.array_equal(ours.get_support(), theirs.get_support())
    assert 0 < ours.get_support().sum() <= X.shape[1]


@classifiers
@pytest.mark.parametrize("around", SELECTORS.values(), ids=SELECTORS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_features_chosen_by_a_classifier(models, around, n_classes):
    X, y = classes(n_classes=n_classes)
    ours, theirs = (around(model).fit(X, y) for model in models)
    assert np.array_equal(ours.get_support(), theirs.get_support())


def test_a_fitted_model_can_choose_without_a_fit():
    X, Y = regression(n_targets=2)
    fitted = [model.fit(X, Y) for model in REGRESSORS["Ridge"]]
    ours, theirs = (SelectFromModel(model, prefit=True, max_features=3) for model in fitted)
    assert np.array_equal(ours.fit_transform(X), theirs.fit_transform(X))
