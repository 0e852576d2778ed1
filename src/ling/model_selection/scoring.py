"""How predictions are scored: squared errors, R^2, or any scorer of scikit-learn's."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from ling._typing import Array
from ling.design import Design
from ling.errors import BadOption
from ling.model_selection.score_accumulators import SampleLoss, SquaredError
from ling.model_selection.splits import RowIndices

# Groups of samples in which a score of all samples is repeated, for its standard error.
N_SCORE_GROUPS = 10


class Scoring(ABC):
    """Scores of predictions for some rows, higher is better; for each target if `per_target`."""

    per_target: bool
    #: Whether sums over samples tell the standard error of a score too.
    has_std_error_from_sums = True

    @abstractmethod
    def score(self, P: Array, rows: RowIndices) -> Array:
        """One number, or one for each target."""

    def sample_values(self, P: Array, rows: RowIndices) -> Array:
        """What `store_cv_results` keeps of every sample: the predictions."""
        return P

    @property
    def sample_loss(self) -> SampleLoss | None:
        """What samples add to the score one by one; None if it takes all of them together."""
        return None

    def scores_from_sums(self, sums: Array, rows: RowIndices | slice) -> tuple[Array, Array]:
        """Scores, and standard errors, of all alphas, from sums (n_alphas, s, 3) over `rows`."""
        raise NotImplementedError

    def score_with_std_error(self, P: Array, rows: RowIndices) -> tuple[Array, Array]:
        """A score of all samples and its standard error, from the spread among groups of them."""
        score = self.score(P, rows)
        if len(rows) < 2 * N_SCORE_GROUPS:
            return score, np.full_like(score, np.nan)
        groups = [np.arange(first, len(rows), N_SCORE_GROUPS) for first in range(N_SCORE_GROUPS)]
        try:
            with warnings.catch_warnings(action="ignore"):
                scores = [self.score(P[some], rows[some]) for some in groups]
        except Exception:  # a scorer of the user's need not be made for so few, or for one class
            return score, np.full_like(score, np.nan)
        return score, np.asarray(np.std(scores, axis=0, ddof=1) / np.sqrt(N_SCORE_GROUPS))


@dataclass(frozen=True, eq=False)
class NegMeanSquaredError(Scoring):
    """-mean w (y - prediction)^2."""

    y: Array
    weights: Array | None
    per_target: bool = False

    def sample_values(self, P: Array, rows: RowIndices) -> Array:
        """The squared errors."""
        errors = self.y[rows] - P
        errors *= errors
        if self.weights is not None:
            errors *= self.weights[rows, None]
        return errors

    @property
    def sample_loss(self) -> SampleLoss:
        """Squared errors."""
        return SquaredError(self.weights, self.y, self.per_target)

    def scores_from_sums(self, sums: Array, rows: RowIndices | slice) -> tuple[Array, Array]:
        """Means, and their standard errors."""
        n = len(self.y[rows])
        mean = sums[..., 0] / n
        error = np.full_like(mean, np.nan)
        if n > 1:
            error = np.sqrt(np.maximum(sums[..., 1] / n - mean**2, 0.0) / (n - 1))
        return -self._drop_target_axis(mean), self._drop_target_axis(error)

    def _drop_target_axis(self, each: Array) -> Array:
        return each if self.per_target else each[:, 0]

    def score(self, P: Array, rows: RowIndices) -> Array:
        """The mean, over all targets or for each."""
        return np.asarray(-self.sample_values(P, rows).mean(axis=0 if self.per_target else None))

    def score_with_std_error(self, P: Array, rows: RowIndices) -> tuple[Array, Array]:
        """The mean and its standard error, from the spread of the samples' errors."""
        errors = self.sample_values(P, rows)
        errors = errors if self.per_target else errors.mean(axis=1)
        score = np.asarray(-errors.mean(axis=0))
        if len(rows) < 2:
            return score, np.full_like(score, np.nan)
        errors += score
        unit = float(np.abs(errors).max()) or 1.0  # squares of large errors would leave float64
        errors /= unit
        error = np.sqrt(np.einsum("i...,i...->...", errors, errors) / (len(rows) - 1) / len(rows))
        return score, np.asarray(unit * error)


@dataclass(frozen=True, eq=False)
class R2Score(Scoring):
    """1 - sum w (y - prediction)^2 / sum w (y - mean)^2; the mean over targets, or for each."""

    has_std_error_from_sums = False

    y: Array
    weights: Array | None
    per_target: bool = False

    @property
    def sample_loss(self) -> SampleLoss:
        """Squared errors, for each target."""
        return SquaredError(self.weights, self.y, True)

    def scores_from_sums(self, sums: Array, rows: RowIndices | slice) -> tuple[Array, Array]:
        """scikit-learn's, a constant y included; no errors, which the splits tell."""
        y = self.y[rows]
        _check_r2_defined(len(y))
        weights = None if self.weights is None else self.weights[rows]
        y = y - np.average(y, axis=0, weights=weights)
        y *= y
        spread, left = y.sum(axis=0) if weights is None else weights @ y, sums[:, :, 0]
        constant = np.where(left == 0, 1.0, 0.0)
        each = np.where(spread == 0, constant, 1 - left / np.where(spread == 0, 1.0, spread))
        values = each if self.per_target else each.mean(axis=1)
        return values, np.full_like(values, np.nan)

    def score(self, P: Array, rows: RowIndices) -> Array:
        """scikit-learn's, a constant y included."""
        from sklearn.metrics import r2_score

        _check_r2_defined(len(rows))
        weights = None if self.weights is None else self.weights[rows]
        each = np.asarray(
            r2_score(self.y[rows], P, sample_weight=weights, multioutput="raw_values")
        )
        return each if self.per_target else np.asarray(each.mean())


@dataclass(frozen=True, eq=False)
class SklearnScorer(Scoring):
    """A scorer of scikit-learn's, or any function (estimator, X, y) -> score.

    It is called with an estimator that has made its predictions already; `label_decoder` makes them
    what the estimator's `predict` gives: classes, for a classifier. `X` is passed on to functions
    that may want to look at it, None to those that only predict.
    """

    scorer: Callable[..., Any]
    y: Array
    label_decoder: Callable[[Array], Any] | None = None
    X: Any = None
    per_target: bool = False
    score_params: dict[str, Array] = field(default_factory=dict)

    def score(self, P: Array, rows: RowIndices) -> Array:
        """Of all targets together, or one by one."""
        mine = {name: value[rows] for name, value in self.score_params.items()}
        X = rows if self.X is None else self._rows_of_x(rows)
        y = self.y[rows]
        if self.per_target:
            each = [self._score_one(P[:, t], X, y[:, t], mine) for t in range(P.shape[1])]
            return np.asarray(each, dtype=np.float64)
        return np.asarray(self._score_one(P, X, y, mine), dtype=np.float64)

    def _rows_of_x(self, rows: RowIndices) -> Any:
        return self.X.take(rows) if isinstance(self.X, Design) else self.X[rows]

    def _score_one(self, P: Array, X: Any, y: Array, parameters: dict[str, Array]) -> float:
        if self.label_decoder is not None:
            estimator: Any = _FixedClassifier(P, self.label_decoder)
        else:
            estimator = _FixedRegressor(P[:, 0] if P.ndim == 2 and P.shape[1] == 1 else P)
            y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        return float(self.scorer(estimator, X, y, **parameters))


@dataclass(frozen=True, eq=False)
class MeanScore(SklearnScorer):
    """A scorer that is the mean, weighted, of what samples' predictions are worth; or less that."""

    loss: SampleLoss | None = None
    sign: float = 1.0

    @property
    def sample_loss(self) -> SampleLoss | None:
        """What a prediction is worth."""
        return self.loss

    def score_with_std_error(self, P: Array, rows: RowIndices) -> tuple[Array, Array]:
        """The mean and its standard error, from the spread of the samples."""
        assert self.loss is not None
        score, error = self.scores_from_sums(
            self.loss.take_rows(rows).loss_sums(P[:, None, :]), rows
        )
        return score[0], error[0]

    def scores_from_sums(self, sums: Array, rows: RowIndices | slice) -> tuple[Array, Array]:
        """Means, and the standard errors of a ratio of two sums."""
        assert self.loss is not None
        weights = np.ones(len(self.y)) if self.loss.weights is None else self.loss.weights
        weights = weights[rows]
        n = int(np.count_nonzero(weights))
        total_weight, squares = float(weights.sum()), float(weights @ weights)
        mean = sums[..., 0] / total_weight
        spread = np.maximum(sums[..., 1] - 2 * mean * sums[..., 2] + mean**2 * squares, 0.0)
        error = np.sqrt(spread * n / max(n - 1, 1)) / total_weight
        error = error if n > 1 else np.full_like(mean, np.nan)
        shaped = (slice(None),) if self.per_target else (slice(None), 0)
        return self.sign * mean[shaped], error[shaped]


def _check_r2_defined(n: int) -> None:
    if n < 2:
        raise BadOption(
            "scoring=None is R^2 with this cv, and a split has one test sample, of which R^2 "
            "is not defined; pass scoring='neg_mean_squared_error', or cv=None."
        )


class _FixedRegressor(RegressorMixin, BaseEstimator):
    """An estimator whose predictions are known."""

    def __init__(self, values: Any = None) -> None:
        self.values = values

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Any) -> Any:
        """The predictions, for whatever rows they are."""
        return self.values


_FixedRegressor.__name__ = "RidgeCV"  # whom messages are about


class _FixedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier whose decision values are known."""

    def __init__(self, values: Any = None, label_decoder: Any = None) -> None:
        self.values = values
        self.label_decoder = label_decoder

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def classes_(self) -> Any:
        """As the labels are."""
        return self.label_decoder.classes

    def decision_function(self, X: Any) -> Any:
        """One column for two classes, as scikit-learn has it."""
        return self.values[:, 0] if self.values.shape[1] == 1 else self.values

    def predict(self, X: Any) -> Any:
        """The classes that these values stand for."""
        return self.label_decoder(self.values)


_FixedClassifier.__name__ = "RidgeClassifierCV"
