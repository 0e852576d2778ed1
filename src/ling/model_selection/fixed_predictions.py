"""Estimators that return precomputed predictions, for scorers of scikit-learn."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin


class _FixedPredictions(BaseEstimator):
    """Base of estimators that return precomputed predictions.

    A scorer that asks for a method they do not have gets an error that names the estimator of which
    the predictions are.
    """

    estimator_name = ""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.estimator_name!r} object has no attribute {name!r}")


class FixedRegressor(RegressorMixin, _FixedPredictions):
    """A regressor that returns precomputed predictions."""

    estimator_name = "RidgeCV"

    def __init__(self, values: Any = None) -> None:
        self.values = values

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Any:
        """The precomputed predictions; X is ignored."""
        return self.values


class FixedClassifier(ClassifierMixin, _FixedPredictions):
    """A classifier that returns precomputed decision values."""

    estimator_name = "RidgeClassifierCV"

    def __init__(self, values: Any = None, label_decoder: Any = None) -> None:
        self.values = values
        self.label_decoder = label_decoder

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def classes_(self) -> Any:
        """The class labels."""
        return self.label_decoder.classes

    def decision_function(self, X: Any) -> Any:
        """The precomputed decision values; (n,) for two classes, as in scikit-learn."""
        return self.values[:, 0] if self.values.shape[1] == 1 else self.values

    def predict(self, X: Any) -> Any:
        """Class labels of the precomputed decision values; X is ignored."""
        return self.label_decoder(self.values)
