"""ONNX graphs of fitted models, run by onnxruntime: they predict what the models predict."""

import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from skl2onnx import to_onnx
from sklearn import linear_model
from sklearn.ensemble import StackingRegressor, VotingRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ling
from ling import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from ling.errors import LingError

ACCURACY = {np.float32: 2e-6, np.float64: 1e-13}
LABELS = {
    "two integers": [3, 7],
    "two words": ["no", "yes"],
    "true and false": [False, True],
    "two whole numbers": [0.0, 1.0],
    "four integers": [3, -1, 7, 2],
    "three words": ["low", "middle", "ünusual"],
}
every_dtype = pytest.mark.parametrize("dtype", ACCURACY)
with_and_without = pytest.mark.parametrize("fit_intercept", [True, False])


@pytest.fixture(autouse=True)
def _registered():
    ling.onnx.register()


def data(dtype=np.float64, n_targets=None):
    rng = np.random.default_rng(2)
    X = (rng.standard_normal((80, 5)) + 1).astype(dtype)
    shape = (5,) if n_targets is None else (5, n_targets)
    y = X @ rng.standard_normal(shape)
    return X, y + 0.3 * rng.standard_normal(y.shape) + 2


def labelled(labels, dtype=np.float64):
    X, y = data(dtype)
    at = np.searchsorted(np.quantile(y, np.arange(1, len(labels)) / len(labels)), y)
    return X, np.asarray(labels)[at]


def run(graph, X):
    """What the graph gives for X, by name."""
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {session.get_inputs()[0].name: X}), strict=True))


def declared(graph):
    """The shapes that a graph says its outputs have."""
    return {
        output.name: tuple(axis.dim_value or None for axis in output.type.tensor_type.shape.dim)
        for output in graph.graph.output
    }


def columns(values):
    return values[:, None] if values.ndim == 1 else values


@every_dtype
@with_and_without
@pytest.mark.parametrize("model", [Ridge(), RidgeCV()], ids=["Ridge", "RidgeCV"])
@pytest.mark.parametrize("n_targets", [None, 1, 3])
def test_a_regression_predicts_the_same(model, dtype, fit_intercept, n_targets):
    X, y = data(dtype, n_targets)
    model.set_params(fit_intercept=fit_intercept).fit(X, y)
    graph = to_onnx(model, X[:1])
    found = run(graph, X)["variable"]
    assert found.dtype == dtype
    assert declared(graph) == {"variable": (None, n_targets or 1)}
    wanted = columns(model.predict(X))
    np.testing.assert_allclose(found, wanted, atol=ACCURACY[dtype] * np.abs(wanted).max())


@every_dtype
@with_and_without
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("kind", [RidgeClassifier, RidgeClassifierCV])
def test_a_classifier_decides_the_same(kind, labels, dtype, fit_intercept):
    X, y = labelled(labels, dtype)
    model = kind(fit_intercept=fit_intercept).fit(X, y)
    graph = to_onnx(model, X[:1])
    found = run(graph, X)
    assert np.array_equal(found["label"], model.predict(X))
    np.testing.assert_allclose(
        found["probabilities"], columns(model.decision_function(X)), atol=4 * ACCURACY[dtype]
    )
    n_columns = 1 if len(labels) == 2 else len(labels)
    assert declared(graph) == {"label": (None,), "probabilities": (None, n_columns)}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize(
    "options", [None, {"zipmap": False}, {"raw_scores": True}, {"nocl": True}], ids=str
)
def test_the_outputs_are_those_of_scikit_learns_classifier(labels, options):
    X, y = labelled(labels, np.float32)
    graphs = [
        to_onnx(kind().fit(X, y), X[:1], options=options)
        for kind in (RidgeClassifier, linear_model.RidgeClassifier)
    ]
    ours, theirs = (run(graph, X) for graph in graphs)
    assert list(ours) == list(theirs)
    assert np.array_equal(ours["label"], theirs["label"])
    assert ours["label"].dtype == theirs["label"].dtype
    np.testing.assert_allclose(ours["probabilities"], theirs["probabilities"], atol=1e-5)


@every_dtype
@pytest.mark.parametrize("n_labels", [2, 3])
def test_a_sample_can_have_several_labels(dtype, n_labels):
    X, _ = data(dtype)
    model = RidgeClassifier().fit(X, (X[:, :n_labels] > 1).astype(int))
    found = run(to_onnx(model, X[:1]), X)
    assert np.array_equal(found["label"], model.predict(X))
    np.testing.assert_allclose(
        found["probabilities"], columns(model.decision_function(X)), atol=4 * ACCURACY[dtype]
    )


def test_integers_become_float32():
    X = np.random.default_rng(0).integers(0, 9, (40, 3))
    model = Ridge().fit(X, X.sum(axis=1))
    found = run(to_onnx(model, X[:1]), X)["variable"]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:, 0], model.predict(X), rtol=1e-6)


@every_dtype
def test_pipelines_and_searches_are_converted_as_a_whole(dtype):
    X, y = data(dtype)
    wide = StackingRegressor([("ridge", Ridge())], final_estimator=RidgeCV())
    for model in (
        make_pipeline(StandardScaler(), Ridge()),
        make_pipeline(StandardScaler(), RidgeCV(cv=3)),
        GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 1.0]}, cv=3),
        VotingRegressor([("a", Ridge()), ("b", Ridge(alpha=10.0))]),
        wide,
    ):
        found = run(to_onnx(model.fit(X, y), X[:1]), X)["variable"]
        np.testing.assert_allclose(found[:, 0], model.predict(X), atol=1e-4 * np.ptp(y))


@every_dtype
def test_a_classifier_at_the_end_of_a_pipeline(dtype):
    X, y = labelled(["low", "middle", "high"], dtype)
    model = make_pipeline(StandardScaler(), RidgeClassifierCV()).fit(X, y)
    found = run(to_onnx(model, X[:1], options={"zipmap": False}), X)
    assert np.array_equal(found["label"], model.predict(X))
    np.testing.assert_allclose(found["probabilities"], model.decision_function(X), atol=1e-5)


def test_labels_that_onnx_does_not_have_are_refused():
    X, y = data()
    model = RidgeClassifier().fit(X, np.where(y > 0, "yes", "no"))
    model.classes_ = np.array([0.5, 1.5])
    with pytest.raises(LingError, match=r"classes_ are \[0.5 1.5\].*'nocl': True"):
        to_onnx(model, X[:1])
    assert set(run(to_onnx(model, X[:1], options={"nocl": True}), X)["label"]) <= {0, 1}


def test_without_skl2onnx_it_says_what_to_install():
    code = "import sys; sys.modules['skl2onnx'] = None\nimport ling; ling.onnx.register()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MissingPackageError" in done.stderr
    assert "pip install 'ling[onnx]'" in done.stderr


def test_nothing_of_it_is_loaded_before_it_is_asked_for():
    code = "import ling.onnx, sys; print('skl2onnx' in sys.modules, 'onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
