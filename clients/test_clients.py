"""Other packages with ling's estimators in the place of scikit-learn's: the same numbers.

These packages are not dependencies of ling. `make clients` installs them into an environment of
their own and runs this file.
"""

import re
from pathlib import Path

import dask.array as da
import eli5
import mlflow.sklearn
import numpy as np
import optuna
import pandas as pd
import pytest
import shap
import skops.io
import skrub
from aeon.classification.convolution_based import RocketClassifier
from dask_ml.wrappers import ParallelPostFit
from mapie.regression import CrossConformalRegressor
from onnxruntime import InferenceSession
from skl2onnx import to_onnx
from sklearn import linear_model
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold, cross_val_score
from sktime.forecasting.compose import make_reduction

import ling

ECOSYSTEM_PAGE = Path(__file__).parents[1] / "docs" / "ecosystem.md"
TIGHT = {"tol": 1e-12}
ESTIMATORS = {
    "Ridge": lambda: ling.Ridge(0.1, **TIGHT),
    "RidgeCV": lambda: ling.RidgeCV([0.1, 1.0, 10.0], **TIGHT),
    "RidgeClassifier": lambda: ling.RidgeClassifier(0.1, **TIGHT),
    "RidgeClassifierCV": lambda: ling.RidgeClassifierCV([0.1, 1.0, 10.0], **TIGHT),
}
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(scope="module")
def data():
    return load_diabetes(return_X_y=True)


@pytest.fixture
def pair():
    """Ridge of ling and of scikit-learn."""
    return ling.Ridge(0.1, **TIGHT), linear_model.Ridge(0.1)


def fitted(name, data):
    """A fitted estimator, by its name; classifiers tell high values of y from low ones."""
    X, y = data
    labels = np.where(y > np.median(y), "high", "low")
    return ESTIMATORS[name]().fit(X, labels if "Classifier" in name else y)


def test_aeon_rocket():
    rng = np.random.default_rng(0)
    kinds = np.arange(40) % 2
    series = np.sin(np.linspace(0, 9, 60) * (1 + kinds[:, None])) + rng.normal(0, 0.7, (40, 60))
    scores = [
        RocketClassifier(n_kernels=300, estimator=estimator, random_state=0)
        .fit(series[:20, None], kinds[:20])
        .predict(series[20:, None])
        for estimator in (
            ling.RidgeClassifierCV([0.1, 1.0, 10.0], **TIGHT),
            linear_model.RidgeClassifierCV([0.1, 1.0, 10.0]),
        )
    ]
    np.testing.assert_array_equal(*scores)


def test_sktime_forecasts_by_reduction(pair):
    y = pd.Series(np.sin(np.arange(80) / 5) + np.arange(80) / 40)
    forecasts = [make_reduction(each, window_length=8).fit(y).predict([1, 2, 3]) for each in pair]
    np.testing.assert_allclose(*forecasts, rtol=1e-8)


def test_mapie_conformal_intervals(pair, data):
    X, y = data
    intervals = []
    for each in pair:
        regressor = CrossConformalRegressor(
            each, confidence_level=0.9, cv=KFold(5, shuffle=True, random_state=0)
        )
        intervals.append(regressor.fit_conformalize(X, y).predict_interval(X[:20])[1])
    np.testing.assert_allclose(*intervals, rtol=1e-6)


def test_shap_values(pair, data):
    X, y = data
    values = [shap.LinearExplainer(each.fit(X, y), X).shap_values(X[:20]) for each in pair]
    np.testing.assert_allclose(*values, rtol=1e-6, atol=1e-9)


@every_estimator
def test_skops_needs_one_trusted_type(name, data):
    model = fitted(name, data)
    content = skops.io.dumps(model)
    trusted = skops.io.get_untrusted_types(data=content)
    assert trusted == [f"{type(model).__module__}.{name}"]
    again = skops.io.loads(content, trusted=trusted)
    np.testing.assert_array_equal(again.predict(data[0]), model.predict(data[0]))
    assert str(again.report_) == str(model.report_)


@every_estimator
def test_mlflow_saves_and_loads(name, data, tmp_path):
    model = fitted(name, data)
    trusted = [f"{type(model).__module__}.{name}"]
    mlflow.sklearn.save_model(model, tmp_path / "model", skops_trusted_types=trusted)
    again = mlflow.sklearn.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(data[0]), model.predict(data[0]))


def test_optuna_finds_the_same_alpha(pair, data):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    best = []
    for each in pair:
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=0)
        )

        def objective(trial, each=each):
            each.set_params(alpha=trial.suggest_float("alpha", 1e-3, 10, log=True))
            return cross_val_score(each, *data, cv=3).mean()

        study.optimize(objective, n_trials=8)
        best.append(study.best_params["alpha"])
    assert best[0] == pytest.approx(best[1], rel=1e-9)


def test_skrub_tabular_pipeline(pair):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "size": rng.standard_normal(200),
            "city": rng.choice(["Oslo", "Bergen", "Bodø"], 200),
            "day": pd.date_range("2026-01-01", periods=200),
        }
    )
    y = table["size"] + (table["city"] == "Oslo") + rng.standard_normal(200)
    predicted = [skrub.tabular_pipeline(each).fit(table, y).predict(table) for each in pair]
    np.testing.assert_allclose(*predicted, atol=1e-4)  # its features are in float32


def test_dask_ml_predicts_in_parallel(pair, data):
    X, y = data
    blocks = da.from_array(X, chunks=(100, X.shape[1]))
    predicted = [ParallelPostFit(each).fit(X, y).predict(blocks).compute() for each in pair]
    np.testing.assert_allclose(*predicted, rtol=1e-8)


@every_estimator
def test_eli5_explains_the_converted_model(name, data):
    model = fitted(name, data)
    plain = model.to_sklearn()
    if "Classifier" in name:  # eli5 0.16 expects two dimensions, which two classes do not have
        plain.coef_ = plain.coef_[None, :]
    frame = eli5.explain_weights_df(plain, top=100)
    weights = frame.set_index("feature")["weight"]
    names = [f"x{i}" for i in range(model.n_features_in_)]
    np.testing.assert_allclose(weights[names], np.ravel(model.coef_), rtol=1e-12)


@every_estimator
def test_onnx_predicts_the_same(name, data):
    model = fitted(name, data)
    X = data[0].astype(np.float32)
    session = InferenceSession(to_onnx(model.to_sklearn(), X[:1]).SerializeToString())
    predicted = session.run(None, {"X": X})[0]
    expected = model.predict(X)
    if "Classifier" in name:
        np.testing.assert_array_equal(predicted, expected)
    else:
        np.testing.assert_allclose(predicted.ravel(), expected, rtol=1e-5)


RECIPES = re.findall(r"^```python\n(.*?)^```", ECOSYSTEM_PAGE.read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize("code", RECIPES)
def test_recipes_of_the_ecosystem_page_run(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "ecosystem.md", "exec"), {"__name__": "__main__"})
