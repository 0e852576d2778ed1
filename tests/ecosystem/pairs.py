"""Our four estimators beside scikit-learn's, told the same, and data to fit them to."""

import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from sklearn import linear_model

import ling

ALPHAS = np.logspace(-2, 4, 5)
# So that answers can be compared digit by digit.
TIGHT = 1e-11


@dataclass(frozen=True)
class Pair:
    """The same estimator, ours and theirs; each call makes a new one."""

    ours: partial
    theirs: partial

    def __iter__(self):
        yield self.ours()
        yield self.theirs()


def pair(name, **options):
    ours = partial(getattr(ling, name), tol=TIGHT, **options)
    return Pair(ours, partial(getattr(linear_model, name), **options))


REGRESSORS = {
    "Ridge": pair("Ridge", alpha=3.0),
    "RidgeCV": pair("RidgeCV", alphas=ALPHAS),
    "RidgeCV, 3 folds": pair("RidgeCV", alphas=ALPHAS, cv=3),
}
CLASSIFIERS = {
    "RidgeClassifier": pair("RidgeClassifier", alpha=3.0),
    "RidgeClassifierCV": pair("RidgeClassifierCV", alphas=ALPHAS),
}
regressors = pytest.mark.parametrize("models", REGRESSORS.values(), ids=REGRESSORS)
classifiers = pytest.mark.parametrize("models", CLASSIFIERS.values(), ids=CLASSIFIERS)


def regression(n=90, p=6, n_targets=None):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, p)) * np.arange(1, p + 1) + 10
    shape = (p,) if n_targets is None else (p, n_targets)
    signal = X @ rng.standard_normal(shape)
    return X, signal + 4 * rng.standard_normal(signal.shape)


def classes(n=120, p=5, n_classes=2, names=None):
    rng = np.random.default_rng(6)
    X = rng.standard_normal((n, p)) * np.arange(1, p + 1) + 3
    score = X @ rng.standard_normal(p) + rng.standard_normal(n)
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    return X, y if names is None else np.asarray(names)[y]


def same(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


def quiet(function, *arguments, **options):
    """Of scikit-learn's own warnings, nothing."""
    with warnings.catch_warnings(action="ignore"):
        return function(*arguments, **options)
