"""Time series classified as sktime and aeon do it: random convolutions, then a ridge classifier."""

import numpy as np
import pytest
from sklearn import linear_model
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ling

ALPHAS = np.logspace(-3, 3, 10)


class Convolutions(TransformerMixin, BaseEstimator):
    """ROCKET's features: the largest value, and the share above 0, of random convolutions."""

    def __init__(self, n_kernels=60, random_state=0):
        self.n_kernels = n_kernels
        self.random_state = random_state

    def fit(self, X, y=None):
        rng = np.random.default_rng(self.random_state)
        self.kernels_ = rng.standard_normal((self.n_kernels, 9))
        self.kernels_ -= self.kernels_.mean(axis=1, keepdims=True)
        self.biases_ = rng.uniform(-1, 1, self.n_kernels)
        return self

    def transform(self, X):
        windows = np.lib.stride_tricks.sliding_window_view(X, 9, axis=1)
        found = windows @ self.kernels_.T + self.biases_
        return np.hstack([found.max(axis=1), (found > 0).mean(axis=1)]).astype(np.float32)


class Rocket(ClassifierMixin, BaseEstimator):
    """What wraps a classifier without probabilities, as those libraries do."""

    def __init__(self, estimator):
        self.estimator = estimator

    def fit(self, X, y):
        self.pipeline_ = make_pipeline(
            Convolutions(), StandardScaler(with_mean=False), self.estimator
        ).fit(X, y)
        self.classes_ = self.pipeline_.classes_
        return self

    def predict(self, X):
        return self.pipeline_.predict(X)

    def predict_proba(self, X):
        """1 for the class that is decided for."""
        decided = np.searchsorted(self.classes_, self.predict(X))
        return np.eye(len(self.classes_))[decided]

    def soft_proba(self, X):
        """From the decision values."""
        values = self.pipeline_.decision_function(X)
        values = np.c_[-values, values] if values.ndim == 1 else values
        grown = np.exp(values - values.max(axis=1, keepdims=True))
        return grown / grown.sum(axis=1, keepdims=True)


def series(n_classes):
    """Waves that differ in their frequency."""
    rng = np.random.default_rng(3)
    kinds = np.array(["slow", "middle", "fast"])[:n_classes]
    at = rng.integers(0, n_classes, 90)
    phase = rng.uniform(0, 6, (90, 1))
    waves = np.sin(np.arange(80) * (0.2 + 0.1 * at[:, None]) + phase)
    return waves + 0.8 * rng.standard_normal(waves.shape), kinds[at]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("options", [{}, {"class_weight": "balanced"}, {"cv": 3}], ids=str)
def test_the_decisions_are_the_same(n_classes, options):
    X, y = series(n_classes)
    ours = Rocket(ling.RidgeClassifierCV(alphas=ALPHAS, **options)).fit(X[:60], y[:60])
    theirs = Rocket(linear_model.RidgeClassifierCV(alphas=ALPHAS, **options)).fit(X[:60], y[:60])
    mine, other = ours.pipeline_[-1], theirs.pipeline_[-1]
    assert list(ours.classes_) == list(theirs.classes_) == sorted(set(y))
    assert mine.alpha_ == other.alpha_
    assert mine.best_score_ == pytest.approx(other.best_score_, rel=1e-3)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    assert np.array_equal(ours.predict_proba(X), theirs.predict_proba(X))
    np.testing.assert_allclose(ours.soft_proba(X), theirs.soft_proba(X), atol=1e-3)
    assert ours.score(X[60:], y[60:]) == theirs.score(X[60:], y[60:]) > 1 / n_classes


def test_without_alphas_there_are_none_to_think_of():
    X, y = series(3)
    scores = cross_val_score(Rocket(ling.RidgeClassifierCV()), X, y, cv=3)
    assert scores.mean() > 0.45
