"""Scores of held-out predictions: negative mean squared error, R^2, or any scikit-learn scorer."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design import Storage
from ling.design.arrays import row_slices
from ling.design.rows import take_rows
from ling.linalg.rounding import EPS, sum_noise
from ling.model_selection.fixed_predictions import FixedClassifier, FixedRegressor
from ling.model_selection.score_accumulators import MARGIN_EDGES, SampleLoss, SquaredError
from ling.model_selection.splits import RowIndices

# Number of groups of samples whose scores give the standard error of a score of all samples.
N_SCORE_GROUPS = 10
# Smallest spread of y, relative to its norm, that is not rounding.
MIN_RELATIVE_SPREAD = 1e-12
# Numbers of y that are squared at a time.
SQUARED_ELEMENTS = 2**16
# R^2 of fewer samples is not defined.
MIN_R2_SAMPLES = 2


class Scoring(ABC):
    """Interface: scores of predictions, where higher is better; one per target if `per_target`."""

    per_target: bool
    #: True if the sums over samples give the standard error of the score, too.
    has_std_error_from_sums = True

    @abstractmethod
    def score(self, P: Array, rows: RowIndices) -> Array:
        """Score of the predictions `P` for `rows`: a scalar, or (n_targets,) if `per_target`."""

    def sample_values(self, P: Array, rows: RowIndices) -> Array:
        """Values that `store_cv_results` keeps per sample, (n_rows, n_targets): predictions."""
        return P

    @property
    def sample_loss(self) -> SampleLoss | None:
        """Loss of one sample if the score follows from sums over samples, otherwise None."""
        return None

    def scores_from_sums(self, sums: Array, rows: RowIndices | slice) -> tuple[Array, Array]:
        """Scores and standard errors of all alphas from the sums (n_alphas, s, 3) over `rows`.

        Both have shape (n_alphas,), or (n_alphas, n_targets) if `per_target`.
        """
        raise NotImplementedError

    def error_sizes(self, bounds: Array, margins: Array, rows: RowIndices | slice) -> Array:
        """Sizes of the errors of predictions, from which `score_errors` derives those of scores.

        `bounds` (n_alphas, t) are those of `HeldOut`, for predictions of `rows`. `margins`
        (n_alphas, n_bins) are the `margin_weights` of the loss. The result has shape (n_alphas,),
        or (n_alphas, n_targets) if `per_target`. Here it is the error relative to the spread that
        so many samples have on average.
        """
        n_rows, n = len(self._targets[rows]), len(self._targets)
        spread = weighted_spread(self._targets, None) * np.sqrt(n_rows / n)
        with np.errstate(invalid="ignore"):
            sizes = np.divide(bounds, spread, out=np.zeros_like(bounds), where=spread > 0)
        return np.asarray(sizes if self.per_target else sizes.max(axis=-1, initial=0.0))

    def score_errors(self, scores: Array, sizes: Array) -> Array:
        """Bounds on |score - exact score| from scores and error sizes of any shape; NaN if unknown.

        The exact score is that of exact ridge fits.
        """
        return np.full_like(scores, np.nan)

    def is_certified(self, scores: Array, sizes: Array, tol: float) -> NDArray[np.bool_]:
        """True where scores are accurate enough to decide, for scores and error sizes of any shape.

        Where bounds on scores are unknown, the predictions that they come from have to be accurate.
        """
        return np.asarray(sizes <= tol)

    #: True if `score_errors` gives bounds; else those of predictions are all that is known.
    has_score_bounds = True

    @property
    def null_score(self) -> Array | None:
        """The score of predicting the mean of y, a scalar or (t,); None if it is not known."""
        return None

    @property
    @abstractmethod
    def score_weights(self) -> Array | None:
        """Weights (n,) of the samples in the score; None stands for weights of 1."""

    @property
    def _targets(self) -> Array:
        """What predictions approximate, (n, t)."""
        raise NotImplementedError

    def margin_weights(self, P: Array, rows: RowIndices) -> Array:
        """`margin_weights` of the loss of predictions for `rows`, (n_bins,)."""
        return np.zeros(0)

    def score_with_std_error(self, P: Array, rows: RowIndices) -> tuple[Array, Array]:
        """Score of all rows, and its standard error from the spread of the scores of groups.

        The standard error is NaN if there are too few rows, or if the scorer fails on a group.
        """
        score = self.score(P, rows)
        if len(rows) < 2 * N_SCORE_GROUPS:
            return score, np.full_like(score, np.nan)
        groups = [np.arange(first, len(rows), N_SCORE_GROUPS) for first in range(N_SCORE_GROUPS)]
        try:
            with warnings.catch_warnings(action="ignore"):
                scores = [self.score(P[group], rows[group]) for group in groups]
        except Exception:  # a user's scorer may fail on few samples or on a single class
            return score, np.full_like(score, np.nan)
        return score, np.asarray(np.std(scores, axis=0, ddof=1) / np.sqrt(N_SCORE_GROUPS))


def weighted_spread(y: Array, weights: Array | None) -> Array:
    """Norms (t,) of y (n, t) minus its mean, with `weights` (n,)."""
    return np.sqrt(_sums_of_squares(y, weights, _mean(y, weights)))


def _mean(y: Array, weights: Array | None) -> Array:
    """Weighted mean (t,) of y (n, t), without a copy of y; NaN if all weights are 0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(y.mean(axis=0) if weights is None else weights @ y / weights.sum())


def _sums_of_squares(y: Array, weights: Array | None, shift: Array) -> Array:
    """Weighted sums (t,) of the squares of y (n, t) minus shift (t,), without a copy of y."""
    total = np.zeros(y.shape[1])
    for rows in row_slices(len(y), max(1, SQUARED_ELEMENTS // max(1, y.shape[1]))):
        squares = y[rows] - shift
        squares *= squares
        total += squares.sum(axis=0) if weights is None else weights[rows] @ squares
    return total


class SquaredErrorScore(Scoring):
    """Base of scores that are a constant minus ||v||^2, with the scaled residuals v of all targets.

    If v is off by at most delta, the score is off by at most 2 ||v|| delta + delta^2.
    """

    #: The score of perfect predictions.
    best_possible = 0.0

    @property
    @abstractmethod
    def _n_samples(self) -> int:
        """Number of samples."""

    @abstractmethod
    def _residual_scales(self, rows: RowIndices | slice) -> Array:
        """Factors (t,) by which residuals of `rows` are multiplied to give v."""

    @property
    @abstractmethod
    def _unit(self) -> Array:
        """Size of the scores: what predicting the mean of y loses; a scalar, or (t,)."""

    @property
    def null_score(self) -> Array:
        """The score of predicting the mean of y, a scalar or (t,)."""
        return np.asarray(self.best_possible - self._unit)

    def error_sizes(self, bounds: Array, margins: Array, rows: RowIndices | slice) -> Array:
        """delta for all alphas, over all targets or for each."""
        scales = self._residual_scales(rows)
        with np.errstate(invalid="ignore"):  # bounds may be infinite
            sizes = np.where(scales > 0, bounds * scales, 0.0)  # a constant y has scale 0
        return np.asarray(sizes if self.per_target else np.linalg.norm(sizes, axis=-1))

    def score_errors(self, scores: Array, sizes: Array) -> Array:
        """2 ||v|| delta + delta^2."""
        losses = np.maximum(self.best_possible - scores, 0.0)
        # The sum of squares, and the mean over splits, are rounded too.
        rounding = 4 * sum_noise(self._n_samples) * losses + 4 * EPS * np.abs(scores)
        return np.asarray(sizes * (2 * np.sqrt(losses) + sizes) + rounding)

    def is_certified(self, scores: Array, sizes: Array, tol: float) -> NDArray[np.bool_]:
        """True where the error of the score is at most tol times its size, or the score is NaN."""
        is_within = self.score_errors(scores, sizes) <= tol * self._unit
        return np.asarray(is_within | np.isnan(scores))


def _loss_of_mean(score: SquaredErrorScore, y: Array, weights: Array | None) -> Array:
    """What predicting the mean of y loses, at least its rounding: a scalar, or (t,)."""
    # Rounding of a constant y: its squared deviations would be 0.
    floor = MIN_RELATIVE_SPREAD * np.sqrt(_sums_of_squares(y, weights, np.zeros(y.shape[1])))
    spread = np.maximum(weighted_spread(y, weights), floor)
    squares = (spread * score._residual_scales(slice(None))) ** 2
    return np.asarray(squares if score.per_target else squares.sum())


@dataclass(frozen=True, eq=False)
class NegMeanSquaredError(SquaredErrorScore):
    """Negative mean squared error, -mean w (y - prediction)^2."""

    y: Array
    weights: Array | None
    per_target: bool = False

    def sample_values(self, P: Array, rows: RowIndices) -> Array:
        """Weighted squared errors of `rows`, (n_rows, n_targets)."""
        errors = self.y[rows] - P
        errors *= errors
        if self.weights is not None:
            errors *= self.weights[rows, None]
        return errors

    @property
    def score_weights(self) -> Array | None:
        """The sample weights."""
        return self.weights

    def _spread(self, rows: RowIndices | slice) -> Array:
        return weighted_spread(self.y[rows], None if self.weights is None else self.weights[rows])

    def _residual_scales(self, rows: RowIndices | slice) -> Array:
        n, t = self.y[rows].shape
        return np.full(t, 1 / np.sqrt(n if self.per_target else n * t))

    @cached_property
    def _unit(self) -> Array:
        return _loss_of_mean(self, self.y, self.weights)

    @property
    def _n_samples(self) -> int:
        return len(self.y)

    @property
    def sample_loss(self) -> SampleLoss:
        """The squared error of a sample."""
        return SquaredError(weights=self.weights, y=self.y, per_target=self.per_target)

    def scores_from_sums(self, sums: Array, rows: RowIndices | slice) -> tuple[Array, Array]:
        """Negative means of the squared errors, and their standard errors."""
        n = len(self.y[rows])
        mean = sums[..., 0] / n
        error = np.full_like(mean, np.nan)
        if n > 1:
            error = np.sqrt(np.maximum(sums[..., 1] / n - mean**2, 0.0) / (n - 1))
        return -self._drop_target_axis(mean), self._drop_target_axis(error)

    def _drop_target_axis(self, each: Array) -> Array:
        return each if self.per_target else each[:, 0]

    def score(self, P: Array, rows: RowIndices) -> Array:
        """Negative mean squared error, over all targets or per target."""
        return np.asarray(-self.sample_values(P, rows).mean(axis=0 if self.per_target else None))

    def score_with_std_error(self, P: Array, rows: RowIndices) -> tuple[Array, Array]:
        """Score of `rows`, and its standard error from the spread of the squared errors."""
        errors = self.sample_values(P, rows)
        errors = errors if self.per_target else errors.mean(axis=1)
        score = np.asarray(-errors.mean(axis=0))
        if len(rows) < 2:
            return score, np.full_like(score, np.nan)
        errors += score
        unit = float(np.abs(errors).max()) or 1.0  # squares of large errors would overflow
        errors /= unit
        error = np.sqrt(np.einsum("i...,i...->...", errors, errors) / (len(rows) - 1) / len(rows))
        return score, np.asarray(unit * error)


@dataclass(frozen=True, eq=False)
class R2Score(SquaredErrorScore):
    """R^2: 1 - sum w (y - prediction)^2 / sum w (y - mean)^2, averaged over targets or for each."""

    has_std_error_from_sums = False
    best_possible = 1.0
    _unit = np.array(1.0)

    y: Array
    weights: Array | None
    per_target: bool = False

    @property
    def score_weights(self) -> Array | None:
        """The sample weights."""
        return self.weights

    def _spread(self, rows: RowIndices | slice) -> Array:
        return weighted_spread(self.y[rows], None if self.weights is None else self.weights[rows])

    @property
    def _n_samples(self) -> int:
        return len(self.y)

    def _residual_scales(self, rows: RowIndices | slice) -> Array:
        spread = self._spread(rows) * (1 if self.per_target else np.sqrt(self.y.shape[1]))
        return np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)

    @property
    def sample_loss(self) -> SampleLoss:
        """The squared error of a sample, for each target."""
        return SquaredError(weights=self.weights, y=self.y, per_target=True)

    def scores_from_sums(self, sums: Array, rows: RowIndices | slice) -> tuple[Array, Array]:
        """R^2 of `rows`, and NaN for the standard errors, which the spread of the splits gives."""
        r2 = self._r2(sums[..., 0], rows)
        return r2, np.full_like(r2, np.nan)

    def score(self, P: Array, rows: RowIndices) -> Array:
        """R^2 of `rows`."""
        squares = self.y[rows] - P
        squares *= squares
        residual_squares = (
            squares.sum(axis=0) if self.weights is None else self.weights[rows] @ squares
        )
        return np.asarray(self._r2(residual_squares[None], rows)[0])

    def _r2(self, residual_squares: Array, rows: RowIndices | slice) -> Array:
        """R^2 from weighted sums of squared residuals, (n_alphas, n_targets).

        As in scikit-learn, it is 1 or 0 for a constant y, and NaN for one sample.
        """
        y, weights = self.y[rows], None if self.weights is None else self.weights[rows]
        if len(y) < MIN_R2_SAMPLES:
            r2 = np.full_like(residual_squares, np.nan)
        else:
            total_squares = _sums_of_squares(y, weights, _mean(y, weights))
            r2 = np.where(
                total_squares == 0,
                np.where(residual_squares == 0, 1.0, 0.0),
                1 - residual_squares / np.where(total_squares == 0, 1.0, total_squares),
            )
        return r2 if self.per_target else r2.mean(axis=1)


@dataclass(frozen=True, eq=False)
class SklearnScorer(Scoring):
    """A scikit-learn scorer, or any function (estimator, X, y) -> score.

    The scorer gets an estimator that returns precomputed predictions. For a classifier,
    `label_decoder` converts decision values to class labels, and `targets` (n, t) are what the
    decision values approximate. `X` is given if the scorer may look at the features. If it is None,
    scorers get row indices in its place.
    """

    scorer: Callable[..., Any]
    y: Array
    label_decoder: Callable[[Array], Any] | None = None
    X: Any = None
    per_target: bool = False
    score_params: dict[str, Array] = field(default_factory=dict)
    targets: Array | None = None

    has_score_bounds = False

    @property
    def score_weights(self) -> Array | None:
        """None: bounds are about the predictions, not about the score."""
        return None

    @property
    def _targets(self) -> Array:
        return self.y if self.targets is None else self.targets

    def score(self, P: Array, rows: RowIndices) -> Array:
        """Score of all targets together, or of each target if `per_target`."""
        row_params = {name: value[rows] for name, value in self.score_params.items()}
        X = rows if self.X is None else self._rows_of_x(rows)
        y = self.y[rows]
        if self.per_target:
            target_scores = [
                self._score_one(P[:, t], X, y[:, t], row_params) for t in range(P.shape[1])
            ]
            return np.asarray(target_scores, dtype=np.float64)
        return np.asarray(self._score_one(P, X, y, row_params), dtype=np.float64)

    def _rows_of_x(self, rows: RowIndices) -> Any:
        return self.X.take(rows) if isinstance(self.X, Storage) else self.X[rows]

    def _score_one(self, P: Array, X: Any, y: Array, parameters: dict[str, Array]) -> float:
        if self.label_decoder is not None:
            estimator: Any = FixedClassifier(P, self.label_decoder)
        else:
            estimator = FixedRegressor(P[:, 0] if P.ndim == 2 and P.shape[1] == 1 else P)
            y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        return float(self.scorer(estimator, X, y, **parameters))


@dataclass(frozen=True, eq=False)
class MeanScore(Scoring):
    """The weighted mean of a loss over samples, times `sign` (1 or -1).

    It is what the scorer of scikit-learn gives, without checking its arguments for every alpha.
    """

    loss: SampleLoss
    n_samples: int
    sign: float = 1.0
    per_target: bool = False

    @property
    def sample_loss(self) -> SampleLoss:
        """The loss of one sample."""
        return self.loss

    @property
    def score_weights(self) -> Array | None:
        """The weights of the loss."""
        return self.loss.weights

    def error_sizes(self, bounds: Array, margins: Array, rows: RowIndices | slice) -> Array:
        """The largest weighted means of changes of the loss within the bounds, for all alphas.

        A decision with margin m changes only if its decision values change by m or more. Decisions
        with the smallest margins change first, until the sum of w m^2 exceeds the squared bound.
        """
        budgets = (bounds**2).sum(axis=1)
        costs = np.cumsum(margins * MARGIN_EDGES**2, axis=1)
        changes = np.where(costs <= budgets[:, None], margins, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            left = np.maximum(budgets[:, None] - (costs - margins * MARGIN_EDGES**2), 0.0)
            partial_changes = np.minimum(margins, left / MARGIN_EDGES**2)
        changes = np.where(costs > budgets[:, None], partial_changes, changes)
        return np.asarray(changes.sum(axis=1) / self._total_weight(rows))

    def _total_weight(self, rows: RowIndices | slice) -> float:
        weights = self.loss.weights
        return float((np.ones(self.n_samples) if weights is None else weights)[rows].sum())

    def score_errors(self, scores: Array, sizes: Array) -> Array:
        """The weighted means of the largest changes, and the rounding of their mean."""
        return np.asarray(sizes + 4 * EPS * np.abs(scores))

    def score(self, P: Array, rows: RowIndices) -> Array:
        """Score of `rows`."""
        return self.score_with_std_error(P, rows)[0]

    def score_with_std_error(self, P: Array, rows: RowIndices) -> tuple[Array, Array]:
        """Score of `rows`, and its standard error from the spread over the samples."""
        sums, _ = take_rows(self.loss, rows).loss_sums(P[:, None, :])
        score, error = self.scores_from_sums(sums, rows)
        return score[0], error[0]

    def margin_weights(self, P: Array, rows: RowIndices) -> Array:
        """`margin_weights` of the loss of predictions for `rows`, (n_bins,)."""
        return np.asarray(take_rows(self.loss, rows).margin_weights(P[:, None, :])[0])

    def scores_from_sums(self, sums: Array, rows: RowIndices | slice) -> tuple[Array, Array]:
        """Weighted means sum(w v) / sum(w), and their standard errors as ratios of two sums."""
        weights = self.loss.weights
        weights = (np.ones(self.n_samples) if weights is None else weights)[rows]
        n = int(np.count_nonzero(weights))
        total_weight, weight_squares = float(weights.sum()), float(weights @ weights)
        mean = sums[..., 0] / total_weight
        squared_deviations = np.maximum(
            sums[..., 1] - 2 * mean * sums[..., 2] + mean**2 * weight_squares, 0.0
        )
        error = np.sqrt(squared_deviations * n / max(n - 1, 1)) / total_weight
        error = error if n > 1 else np.full_like(mean, np.nan)
        index = (slice(None),) if self.per_target else (slice(None), 0)
        return self.sign * mean[index], error[index]


@dataclass(frozen=True, eq=False)
class NegMeanSquaredLoss(SquaredErrorScore, MeanScore):
    """scikit-learn's neg_mean_squared_error: squared errors are divided by the sum of weights."""

    loss: SquaredError
    sign: float = -1.0

    def _residual_scales(self, rows: RowIndices | slice) -> Array:
        total, t = self._total_weight(rows), self.loss.y.shape[1]
        return np.full(t, 1 / np.sqrt(total if self.per_target else total * t))

    @cached_property
    def _unit(self) -> Array:
        return _loss_of_mean(self, self.loss.y, self.loss.weights)

    @property
    def _n_samples(self) -> int:
        return len(self.loss.y)
