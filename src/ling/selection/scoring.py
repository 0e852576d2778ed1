"""How predictions are scored: squared errors, R^2, or any scorer of scikit-learn's."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from ling.design import Array, Design
from ling.errors import BadOption
from ling.selection.splits import Rows
from ling.selection.tally import Measure, SquaredError

# Groups of samples in which a score of all samples is repeated, for its standard error.
GROUPS = 10


class Scoring(ABC):
    """Scores of predictions for some rows, higher is better; for each target if `by_target`."""

    by_target: bool
    #: Whether sums over samples tell the standard error of a score too.
    sums_tell_errors = True

    @abstractmethod
    def score(self, P: Array, rows: Rows) -> Array:
        """One number, or one for each target."""

    def kept(self, P: Array, rows: Rows) -> Array:
        """What `store_cv_results` keeps of every sample: the predictions."""
        return P

    @property
    def measure(self) -> Measure | None:
        """What samples add to the score one by one; None if it takes all of them together."""
        return None

    def of_sums(self, sums: Array, rows: Rows | slice) -> tuple[Array, Array]:
        """Scores, and standard errors, of all alphas, from sums (n_alphas, s, 3) over `rows`."""
        raise NotImplementedError

    def with_error(self, P: Array, rows: Rows) -> tuple[Array, Array]:
        """A score of all samples and its standard error, from the spread among groups of them."""
        score = self.score(P, rows)
        if len(rows) < 2 * GROUPS:
            return score, np.full_like(score, np.nan)
        groups = [np.arange(first, len(rows), GROUPS) for first in range(GROUPS)]
        try:
            with warnings.catch_warnings(action="ignore"):
                scores = [self.score(P[some], rows[some]) for some in groups]
        except Exception:  # a scorer of the user's need not be made for so few, or for one class
            return score, np.full_like(score, np.nan)
        return score, np.asarray(np.std(scores, axis=0, ddof=1) / np.sqrt(GROUPS))


@dataclass(frozen=True, eq=False)
class SquaredErrors(Scoring):
    """-mean w (y - prediction)^2."""

    y: Array
    weights: Array | None
    by_target: bool = False

    def kept(self, P: Array, rows: Rows) -> Array:
        """The squared errors."""
        errors = self.y[rows] - P
        errors *= errors
        if self.weights is not None:
            errors *= self.weights[rows, None]
        return errors

    @property
    def measure(self) -> Measure:
        """Squared errors."""
        return SquaredError(self.weights, self.y, self.by_target)

    def of_sums(self, sums: Array, rows: Rows | slice) -> tuple[Array, Array]:
        """Means, and their standard errors."""
        n = len(self.y[rows])
        mean = sums[..., 0] / n
        error = np.full_like(mean, np.nan)
        if n > 1:
            error = np.sqrt(np.maximum(sums[..., 1] / n - mean**2, 0.0) / (n - 1))
        return -self._shaped(mean), self._shaped(error)

    def _shaped(self, each: Array) -> Array:
        return each if self.by_target else each[:, 0]

    def score(self, P: Array, rows: Rows) -> Array:
        """The mean, over all targets or for each."""
        return np.asarray(-self.kept(P, rows).mean(axis=0 if self.by_target else None))

    def with_error(self, P: Array, rows: Rows) -> tuple[Array, Array]:
        """The mean and its standard error, from the spread of the samples' errors."""
        errors = self.kept(P, rows)
        errors = errors if self.by_target else errors.mean(axis=1)
        score = np.asarray(-errors.mean(axis=0))
        if len(rows) < 2:
            return score, np.full_like(score, np.nan)
        errors += score
        unit = float(np.abs(errors).max()) or 1.0  # squares of large errors would leave float64
        errors /= unit
        error = np.sqrt(np.einsum("i...,i...->...", errors, errors) / (len(rows) - 1) / len(rows))
        return score, np.asarray(unit * error)


@dataclass(frozen=True, eq=False)
class R2(Scoring):
    """1 - sum w (y - prediction)^2 / sum w (y - mean)^2; the mean over targets, or for each."""

    sums_tell_errors = False

    y: Array
    weights: Array | None
    by_target: bool = False

    @property
    def measure(self) -> Measure:
        """Squared errors, for each target."""
        return SquaredError(self.weights, self.y, True)

    def of_sums(self, sums: Array, rows: Rows | slice) -> tuple[Array, Array]:
        """scikit-learn's, a constant y included; no errors, which the splits tell."""
        y = self.y[rows]
        _need_two(len(y))
        weights = None if self.weights is None else self.weights[rows]
        y = y - np.average(y, axis=0, weights=weights)
        y *= y
        spread, left = y.sum(axis=0) if weights is None else weights @ y, sums[:, :, 0]
        constant = np.where(left == 0, 1.0, 0.0)
        each = np.where(spread == 0, constant, 1 - left / np.where(spread == 0, 1.0, spread))
        found = each if self.by_target else each.mean(axis=1)
        return found, np.full_like(found, np.nan)

    def score(self, P: Array, rows: Rows) -> Array:
        """scikit-learn's, a constant y included."""
        from sklearn.metrics import r2_score

        _need_two(len(rows))
        weights = None if self.weights is None else self.weights[rows]
        each = np.asarray(
            r2_score(self.y[rows], P, sample_weight=weights, multioutput="raw_values")
        )
        return each if self.by_target else np.asarray(each.mean())


@dataclass(frozen=True, eq=False)
class Scorer(Scoring):
    """A scorer of scikit-learn's, or any function (estimator, X, y) -> score.

    It is called with an estimator that has made its predictions already; `decide` makes them what
    the estimator's `predict` gives: classes, for a classifier. `X` is passed on to functions that
    may want to look at it, None to those that only predict.
    """

    call: Callable[..., Any]
    y: Array
    decide: Callable[[Array], Any] | None = None
    X: Any = None
    by_target: bool = False
    parameters: dict[str, Array] = field(default_factory=dict)

    def score(self, P: Array, rows: Rows) -> Array:
        """Of all targets together, or one by one."""
        mine = {name: value[rows] for name, value in self.parameters.items()}
        X = rows if self.X is None else self._rows_of_x(rows)
        y = self.y[rows]
        if self.by_target:
            each = [self._one(P[:, t], X, y[:, t], mine) for t in range(P.shape[1])]
            return np.asarray(each, dtype=np.float64)
        return np.asarray(self._one(P, X, y, mine), dtype=np.float64)

    def _rows_of_x(self, rows: Rows) -> Any:
        return self.X.take(rows) if isinstance(self.X, Design) else self.X[rows]

    def _one(self, P: Array, X: Any, y: Array, parameters: dict[str, Array]) -> float:
        if self.decide is not None:
            estimator: Any = _Decided(P, self.decide)
        else:
            estimator = _Predicted(P[:, 0] if P.ndim == 2 and P.shape[1] == 1 else P)
            y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        return float(self.call(estimator, X, y, **parameters))


@dataclass(frozen=True, eq=False)
class Mean(Scorer):
    """A scorer that is the mean, weighted, of what samples' predictions are worth; or less that."""

    worth: Measure | None = None
    sign: float = 1.0

    @property
    def measure(self) -> Measure | None:
        """What a prediction is worth."""
        return self.worth

    def with_error(self, P: Array, rows: Rows) -> tuple[Array, Array]:
        """The mean and its standard error, from the spread of the samples."""
        assert self.worth is not None
        score, error = self.of_sums(self.worth.cut(rows).sums(P[:, None, :]), rows)
        return score[0], error[0]

    def of_sums(self, sums: Array, rows: Rows | slice) -> tuple[Array, Array]:
        """Means, and the standard errors of a ratio of two sums."""
        assert self.worth is not None
        weights = np.ones(len(self.y)) if self.worth.weights is None else self.worth.weights
        weights = weights[rows]
        n = int(np.count_nonzero(weights))
        mass, squares = float(weights.sum()), float(weights @ weights)
        mean = sums[..., 0] / mass
        spread = np.maximum(sums[..., 1] - 2 * mean * sums[..., 2] + mean**2 * squares, 0.0)
        error = np.sqrt(spread * n / max(n - 1, 1)) / mass
        error = error if n > 1 else np.full_like(mean, np.nan)
        shaped = (slice(None),) if self.by_target else (slice(None), 0)
        return self.sign * mean[shaped], error[shaped]


def _need_two(n: int) -> None:
    if n < 2:
        raise BadOption(
            "scoring=None is R^2 with this cv, and a split has one test sample, of which R^2 "
            "is not defined; pass scoring='neg_mean_squared_error', or cv=None."
        )


class _Predicted(RegressorMixin, BaseEstimator):
    """An estimator whose predictions are known."""

    def __init__(self, found: Any = None) -> None:
        self.found = found

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Any:
        """The predictions, for whatever rows they are."""
        return self.found


_Predicted.__name__ = "RidgeCV"  # whom messages are about


class _Decided(ClassifierMixin, BaseEstimator):
    """A classifier whose decision values are known."""

    def __init__(self, found: Any = None, decide: Any = None) -> None:
        self.found = found
        self.decide = decide

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def classes_(self) -> Any:
        """As the labels are."""
        return self.decide.classes

    def decision_function(self, X: Any) -> Any:
        """One column for two classes, as scikit-learn has it."""
        return self.found[:, 0] if self.found.shape[1] == 1 else self.found

    def predict(self, X: Any) -> Any:
        """The classes that these values stand for."""
        return self.decide(self.found)


_Decided.__name__ = "RidgeClassifierCV"
