"""scikit-learn's inspection: importances, dependences, boundaries between classes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.inspection import (
    DecisionBoundaryDisplay,
    PartialDependenceDisplay,
    partial_dependence,
    permutation_importance,
)
from sklearn.metrics import (
    ConfusionMatrixDisplay,
    PrecisionRecallDisplay,
    PredictionErrorDisplay,
    RocCurveDisplay,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.ecosystem.pairs import classes, classifiers, regression, regressors, same


def framed(X):
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


@regressors
@pytest.mark.parametrize("container", [np.asarray, framed], ids=["array", "frame"])
def test_permuted_columns_of_a_regression(models, container):
    X, y = regression()
    X = container(X)
    ours, theirs = (
        permutation_importance(model.fit(X, y), X, y, n_repeats=3, random_state=0)
        for model in models
    )
    same(ours.importances, theirs.importances)


@classifiers
def test_permuted_columns_of_a_classifier(models):
    X, y = classes(n_classes=3)
    ours, theirs = (
        permutation_importance(m.fit(X, y), X, y, scoring="balanced_accuracy", n_repeats=3,
                               random_state=0)
        for m in models
    )  # fmt: skip
    same(ours.importances, theirs.importances)


@regressors
@pytest.mark.parametrize("kind", ["average", "individual"])
@pytest.mark.parametrize("n_targets", [None, 2])
def test_partial_dependence(models, kind, n_targets):
    X, y = regression(n_targets=n_targets)
    ours, theirs = (
        partial_dependence(model.fit(X, y), X, [1], kind=kind, grid_resolution=7)
        for model in models
    )
    same(ours[kind], theirs[kind])
    same(ours["grid_values"][0], theirs["grid_values"][0])


@classifiers
def test_partial_dependence_of_decisions(models):
    X, y = classes()
    ours, theirs = (
        partial_dependence(
            make_pipeline(StandardScaler(), model).fit(X, y), X, [(0, 2)],
            response_method="decision_function", grid_resolution=5,
        )
        for model in models
    )  # fmt: skip
    same(ours["average"], theirs["average"])


@regressors
def test_partial_dependence_by_name_is_drawn(models):
    X, y = regression()
    X = framed(X)
    ours, theirs = (
        PartialDependenceDisplay.from_estimator(
            model.fit(X, y), X, ["x0", ("x1", "x2")], grid_resolution=5
        )
        for model in models
    )
    for mine, other in zip(ours.pd_results, theirs.pd_results, strict=True):
        same(mine["average"], other["average"])
    assert ours.axes_[0, 0].get_xlabel() == "x0"


@classifiers
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("method", ["auto", "predict", "decision_function"])
def test_boundaries_between_classes_are_drawn(models, n_classes, method):
    X, y = classes(p=2, n_classes=n_classes)
    ours, theirs = (
        DecisionBoundaryDisplay.from_estimator(
            model.fit(X, y), X, response_method=method, grid_resolution=15
        )
        for model in models
    )
    same(ours.response, theirs.response)


@classifiers
def test_scores_of_classes_are_drawn(models):
    X, y = classes()
    fitted = [model.fit(X, y) for model in models]
    ours, theirs = (RocCurveDisplay.from_estimator(model, X, y) for model in fitted)
    same(ours.roc_auc, theirs.roc_auc)
    ours, theirs = (PrecisionRecallDisplay.from_estimator(model, X, y) for model in fitted)
    same(ours.average_precision, theirs.average_precision)
    ours, theirs = (ConfusionMatrixDisplay.from_estimator(model, X, y) for model in fitted)
    assert np.array_equal(ours.confusion_matrix, theirs.confusion_matrix)


@regressors
def test_errors_of_predictions_are_drawn(models):
    X, y = regression()
    ours, theirs = (
        PredictionErrorDisplay.from_estimator(model.fit(X, y), X, y) for model in models
    )
    same(ours.y_pred, theirs.y_pred)
