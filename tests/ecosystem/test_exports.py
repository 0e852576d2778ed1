"""Other tools take models through `to_sklearn`: ONNX by skl2onnx, explanations by eli5."""

import numpy as np
import onnxruntime
import pytest
from skl2onnx import to_onnx
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ling
from tests.ecosystem.pairs import classes, regression

# Largest error of a prediction, relative to the largest prediction.
ACCURACY = {np.float32: 1e-5, np.float64: 1e-13}
LABELS = {
    "two integers": [3, 7],
    "two words": ["no", "yes"],
    "true and false": [False, True],
    "four integers": [3, -1, 7, 2],
    "three words": ["low", "middle", "ünusual"],
}
every_dtype = pytest.mark.parametrize("dtype", ACCURACY)
with_and_without = pytest.mark.parametrize("fit_intercept", [True, False])
every_classifier = pytest.mark.parametrize("name", ["RidgeClassifier", "RidgeClassifierCV"])


def run(graph, X):
    """Outputs of an ONNX graph for X, by name."""
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {session.get_inputs()[0].name: X}), strict=True))


def assert_close(found, expected, dtype):
    assert found.dtype == dtype
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=ACCURACY[dtype] * np.abs(expected).max()
    )


def score_columns(model, X):
    """Decision values with a column for each class, as the option `raw_scores` gives them."""
    scores = model.decision_function(X)
    return np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores


@every_dtype
@with_and_without
@pytest.mark.parametrize("name", ["Ridge", "RidgeCV"])
@pytest.mark.parametrize("n_targets", [None, 1, 3])
def test_onnx_predicts_the_same_numbers(name, dtype, fit_intercept, n_targets):
    X, y = regression(n_targets=n_targets)
    X = X.astype(dtype)
    model = getattr(ling, name)(fit_intercept=fit_intercept).fit(X, y)
    found = run(to_onnx(model.to_sklearn(), X[:1]), X)["variable"]
    assert_close(found, model.predict(X).reshape(len(X), -1), dtype)


@every_dtype
@with_and_without
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@every_classifier
def test_onnx_predicts_the_same_classes(name, labels, dtype, fit_intercept):
    X, y = classes(n_classes=len(labels), names=labels)
    X = X.astype(dtype)
    model = getattr(ling, name)(fit_intercept=fit_intercept).fit(X, y)
    found = run(to_onnx(model.to_sklearn(), X[:1], options={"raw_scores": True}), X)
    np.testing.assert_array_equal(found["label"], model.predict(X))
    assert_close(found["probabilities"], score_columns(model, X), dtype)


@with_and_without
@every_classifier
def test_onnx_predicts_the_same_labels_of_a_sample(name, fit_intercept):
    X, _ = classes()
    X = X.astype(np.float32)
    model = getattr(ling, name)(fit_intercept=fit_intercept).fit(X, (X[:, :3] > 3).astype(int))
    found = run(to_onnx(model.to_sklearn(), X[:1]), X)
    np.testing.assert_array_equal(found["label"], model.predict(X))
    assert_close(found["probabilities"], model.decision_function(X), np.float32)


def test_a_model_in_float64_becomes_a_graph_in_float32():
    X, y = regression()
    model = ling.Ridge().fit(X, y)
    found = run(to_onnx(model.to_sklearn(), X[:1].astype(np.float32)), X.astype(np.float32))
    assert_close(found["variable"], model.predict(X)[:, None], np.float32)


@every_dtype
def test_onnx_of_a_pipeline(dtype):
    X, y = classes(n_classes=3, names=["low", "middle", "high"])
    X = X.astype(dtype)
    pipeline = make_pipeline(StandardScaler(), ling.RidgeClassifierCV()).fit(X, y)
    plain = make_pipeline(*pipeline[:-1], pipeline[-1].to_sklearn())
    options = {id(plain[-1]): {"raw_scores": True}}
    found = run(to_onnx(plain, X[:1], options=options), X)
    np.testing.assert_array_equal(found["label"], pipeline.predict(X))
    assert_close(found["probabilities"], pipeline.decision_function(X), dtype)


def weights(explanation):
    """Weights by feature and target of an explanation of eli5."""
    return {
        (target.target, weight.feature): weight.weight
        for target in explanation.targets
        for weight in (*target.feature_weights.pos, *target.feature_weights.neg)
    }


@pytest.mark.parametrize("name", ["Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV"])
def test_eli5_shows_coefficients_and_contributions(name):
    eli5 = pytest.importorskip("eli5")
    is_classifier = "Classifier" in name
    X, y = classes(n_classes=3) if is_classifier else regression(n_targets=3)
    model = getattr(ling, name)().fit(X, y)
    features = [f"feature {column}" for column in range(X.shape[1])]
    targets = list(model.classes_) if is_classifier else ["y0", "y1", "y2"]
    plain = model.to_sklearn()

    shown = weights(eli5.explain_weights(plain, feature_names=features, top=None))
    for target, coef in zip(targets, model.coef_, strict=True):
        for feature, value in zip(features, coef, strict=True):
            assert shown[target, feature] == pytest.approx(value)

    contributions = eli5.explain_prediction(plain, X[0], feature_names=features)
    predict = model.decision_function if is_classifier else model.predict
    scores = {target.target: target.score for target in contributions.targets}
    np.testing.assert_allclose([scores[target] for target in targets], predict(X[:1])[0])


def test_eli5_shows_a_classifier_of_two_classes_with_coefficients_in_two_dimensions():
    eli5 = pytest.importorskip("eli5")
    X, y = classes(names=["no", "yes"])
    model = ling.RidgeClassifier().fit(X, y)
    plain = model.to_sklearn()
    plain.coef_ = plain.coef_[None, :]
    shown = weights(eli5.explain_weights(plain, top=None))
    for column, value in enumerate(model.coef_):
        assert shown["yes", f"x{column}"] == pytest.approx(value)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))
    np.testing.assert_array_equal(plain.decision_function(X), model.decision_function(X))
