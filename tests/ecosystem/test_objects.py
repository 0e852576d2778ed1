"""Estimators as objects: kept, copied, cloned and shown."""

import copy
import pickle
from dataclasses import asdict
from pathlib import Path

import cloudpickle
import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import ling
from ling.solvers.machine import DEFAULT_MACHINE
from tests.ecosystem.pairs import CLASSIFIERS, REGRESSORS, classes, regression
from tests.versions import shows_array_parameters

ALL = {**REGRESSORS, **CLASSIFIERS}
every_model = pytest.mark.parametrize("name", ALL)
SPEEDS = asdict(DEFAULT_MACHINE)
# Every parameter, at a value that is not its default.
OPTIONS = {
    "Ridge": {
        "alpha": 0.3, "fit_intercept": False, "copy_X": False, "max_iter": 99, "tol": 1e-3,
        "solver": "direct", "positive": True, "random_state": 7, "precision": "float64",
        "memory_budget": "1GiB", "verbose": 1, "store_covariance": True, "warm_start": True,
        "checkpoint": Path("nowhere"), "speeds": SPEEDS,
    },
    "RidgeCV": {
        "alphas": (0.1, 1.0), "fit_intercept": False, "scoring": "r2", "cv": KFold(3),
        "gcv_mode": "svd", "store_cv_results": True, "alpha_per_target": True,
        "selection_rule": "one_standard_error", "tol": 1e-3, "random_state": 7, "verbose": 1,
        "memory_budget": 1e9, "store_covariance": True, "checkpoint": "nowhere", "speeds": SPEEDS,
    },
    "RidgeClassifier": {
        "alpha": 0.3, "fit_intercept": False, "copy_X": False, "max_iter": 99, "tol": 1e-3,
        "class_weight": "balanced", "solver": "two_stage", "positive": True, "random_state": 7,
        "precision": "float32", "verbose": 1, "memory_budget": 1e9, "warm_start": True,
        "checkpoint": "nowhere", "speeds": SPEEDS,
    },
    "RidgeClassifierCV": {
        "alphas": (0.1, 1.0), "fit_intercept": False, "scoring": "f1", "cv": 4,
        "class_weight": {0: 2.0}, "store_cv_results": True, "selection_rule": "one_standard_error",
        "tol": 1e-3, "random_state": 7, "verbose": 1, "memory_budget": 1e9, "checkpoint": "nowhere",
        "speeds": SPEEDS,
    },
}  # fmt: skip


def by_joblib(model, folder):
    joblib.dump(model, folder / "model.joblib", compress=3)
    return joblib.load(folder / "model.joblib")


ROUND_TRIPS = {
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),
    "pickle, oldest": lambda model, folder: pickle.loads(pickle.dumps(model, protocol=2)),
    "joblib": by_joblib,
    "cloudpickle": lambda model, folder: cloudpickle.loads(cloudpickle.dumps(model)),
    "copy": lambda model, folder: copy.copy(model),
    "deepcopy": lambda model, folder: copy.deepcopy(model),
}


def data_for(name):
    return classes(n_classes=3) if "Classifier" in name else regression()


@every_model
@pytest.mark.parametrize("there_and_back", ROUND_TRIPS.values(), ids=ROUND_TRIPS)
def test_a_fitted_model_survives(name, there_and_back, tmp_path):
    X, y = data_for(name)
    pipeline = make_pipeline(StandardScaler(), ALL[name].ours()).fit(X, y)
    again = there_and_back(pipeline, tmp_path)
    assert np.array_equal(again.predict(X), pipeline.predict(X))
    assert again.score(X, y) == pipeline.score(X, y)
    assert str(again[-1].report_) == str(pipeline[-1].report_)
    assert np.array_equal(again.fit(X, y).predict(X), pipeline.predict(X))


@every_model
def test_a_deep_copy_is_another_model(name):
    X, y = data_for(name)
    model = ALL[name].ours().fit(X, y)
    before = model.predict(X)
    copy.deepcopy(model).coef_[...] = 0.0
    assert np.array_equal(model.predict(X), before)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_clone_has_every_parameter(name):
    model = getattr(ling, name)(**OPTIONS[name])
    assert set(OPTIONS[name]) == set(model.get_params())
    defaults = getattr(ling, name)().get_params()
    assert not [key for key, value in OPTIONS[name].items() if value is defaults[key]]
    again = clone(model).get_params()
    for key, value in OPTIONS[name].items():
        assert repr(again[key]) == repr(value)


@every_model
def test_a_clone_is_not_fitted(name):
    X, y = data_for(name)
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(ALL[name].ours().fit(X, y)))


@shows_array_parameters
@every_model
def test_a_notebook_shows_it_as_it_shows_theirs(name):
    X, y = data_for(name)
    ours, theirs = ALL[name]
    for model in (ours, make_pipeline(StandardScaler(), clone(ours))):
        assert "Not fitted" in model._repr_html_()
        assert "<span>Fitted</span>" in model.fit(X, y)._repr_html_()
    assert type(theirs).__name__ in ours._repr_html_()
    assert set(ours._repr_mimebundle_()) == set(theirs._repr_mimebundle_())
