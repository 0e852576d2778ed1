"""Data of every kind that cross-validation has to cope with, and fits by the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

from ling.model_selection import CVProblem, Splits
from tests import reference
from tests.training import make_data, make_problem

ALPHAS = np.geomspace(1e-3, 1e4, 8)


@dataclass(frozen=True)
class Data:
    """What a user passes."""

    X: Any
    Y: np.ndarray
    weights: np.ndarray | None = None
    fit_intercept: bool = True

    @property
    def dense(self):
        X = self.X.toarray() if sparse.issparse(self.X) else self.X
        return np.asarray(X, dtype=np.float64)

    def cv_problem(self) -> CVProblem:
        ones = np.ones(self.Y.shape[1])
        problem, standardization = make_problem(
            self.X, self.Y, ones, self.weights, self.fit_intercept
        )
        return CVProblem.from_problem(
            problem, standardization, make_data(self.X, self.Y, self.weights), self.fit_intercept
        )

    @property
    def sample_weights(self):
        return np.ones(len(self.Y)) if self.weights is None else self.weights

    def splits(self, pairs) -> Splits:
        return Splits.from_pairs(pairs, len(self.Y))

    def predictions(self, train, test, alpha):
        """Of an exact fit to the rows `train`, for the rows `test`; (n_test, t)."""
        X, Y = self.dense[train], self.Y[train]
        w = self.sample_weights[train]
        x_mean, y_mean = np.zeros(X.shape[1]), np.zeros(Y.shape[1])
        if self.fit_intercept:
            x_mean, y_mean = w @ X / w.sum(), w @ Y / w.sum()
        root = np.sqrt(w)[:, None]
        coef = [reference.ridge(root * (X - x_mean), r, alpha) for r in (root * (Y - y_mean)).T]
        return (self.dense[test] - x_mean) @ np.column_stack(coef) + y_mean

    def assert_within_bounds(self, held_out, exact, rows):
        """The errors of held-out predictions for `rows` are below their bounds.

        `exact` has rounding errors of its own, which are allowed for.
        """
        weights = self.sample_weights[rows]
        error, size = (np.sqrt(weights @ each**2) for each in (held_out.predictions - exact, exact))
        assert held_out.bounds.shape == error.shape
        assert (error <= held_out.bounds * (1 + 1e-9) + 1e-15 * size).all()


def _data(n, p, t=1, seed=0, mean=3.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * rng.uniform(0.2, 3, p) + mean * rng.standard_normal(p)
    return X, X @ rng.standard_normal((p, t)) + rng.standard_normal((n, t)) + 5.0, rng


def _weighted(n, p, t=1):
    X, Y, rng = _data(n, p, t, seed=1)
    return Data(X, Y, np.exp(rng.standard_normal(n)) * (rng.random(n) < 0.8))


def _sparse(n, p):
    X, Y, rng = _data(n, p, seed=2, mean=0.0)
    X[rng.random((n, p)) < 0.7] = 0.0
    return Data(sparse.csr_array(X), Y)


DATA = {
    "tall": lambda: Data(*_data(40, 6)[:2]),
    "three targets": lambda: Data(*_data(40, 6, 3)[:2]),
    "wide": lambda: Data(*_data(24, 40)[:2]),
    "wide, two targets": lambda: Data(*_data(24, 40, 2)[:2]),
    "square": lambda: Data(*_data(25, 25)[:2]),
    "weighted": lambda: _weighted(40, 6),
    "weighted, wide": lambda: _weighted(24, 40, 2),
    "without intercept": lambda: Data(*_data(40, 6)[:2], fit_intercept=False),
    "without intercept, wide": lambda: Data(*_data(24, 40)[:2], fit_intercept=False),
    "sparse": lambda: _sparse(50, 8),
    "sparse, wide": lambda: _sparse(24, 40),
    "one feature": lambda: Data(*_data(30, 1)[:2]),
    "large means": lambda: Data(*_data(40, 6, mean=1e5)[:2]),
}

SPLITTERS = {
    "consecutive": KFold(4),
    "shuffled": KFold(5, shuffle=True, random_state=0),
    "groups": GroupKFold(3),
    "time series": TimeSeriesSplit(3),
    "repeated": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "random": ShuffleSplit(3, test_size=0.3, random_state=0),
    "one sample each": LeaveOneOut(),
}


def splits_of(splitter, data):
    n = data.Y.shape[0]
    groups = np.arange(n) % 7 if isinstance(splitter, GroupKFold) else None
    pairs = splitter.split(np.zeros((n, 1)), None, groups)
    return [(np.sort(train), np.sort(test)) for train, test in pairs]
