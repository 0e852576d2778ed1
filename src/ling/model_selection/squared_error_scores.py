"""Scores from squared errors: negative mean squared errors and R^2."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.rows import per_row
from ling.linalg.rounding import sum_noise
from ling.model_selection.score_accumulators import SampleLoss, SquaredError
from ling.model_selection.scoring import MeanScore, Scoring, squared_deviations
from ling.solvers.targets import constant_columns

# Smallest spread of y, relative to its norm, that is not rounding.
MIN_RELATIVE_SPREAD = 1e-12
# R^2 of fewer samples is not defined.
MIN_R2_SAMPLES = 2
# Smallest sum of squares, per sample, whose terms do not underflow.
MIN_MEAN_SQUARE = float(np.finfo(np.float64).tiny / np.finfo(np.float64).eps)


class SquaredErrorScore(Scoring):
    """Base of scores that are a constant minus ||v||^2, with the scaled residuals v of all targets.

    If v is off by at most delta, the score is off by at most 2 ||v|| delta + delta^2.
    """

    #: The score of perfect predictions.
    best_possible = 0.0

    @property
    @abstractmethod
    def _y(self) -> Array:
        """What predictions approximate, (n, t)."""

    @property
    @abstractmethod
    def _residual_scales(self) -> Array:
        """Factors (t,) by which residuals are multiplied to give v."""

    @property
    @abstractmethod
    def _unit(self) -> Array:
        """Size of the scores: what predicting the mean of y loses; a scalar, or (t,)."""

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self._y)

    @property
    def null_score(self) -> Array:
        """The score of predicting the mean of y, a scalar or (t,)."""
        return np.asarray(self.best_possible - self._unit)

    def score_errors(self, scores: Array, bounds: Array, margins: Array) -> Array:
        """2 ||v|| delta + delta^2, and the rounding of the sum of squares and of its mean."""
        scales = self._residual_scales
        with np.errstate(invalid="ignore"):  # bounds may be infinite
            sizes = np.where(scales > 0, bounds * scales, 0.0)  # a constant y has scale 0
        sizes = sizes if self.per_target else np.linalg.norm(sizes, axis=-1)
        losses = np.maximum(self.best_possible - scores, 0.0)
        n, t = self._y.shape
        rounding = 4 * sum_noise(n, t) * losses + 4 * sum_noise(t) * self.best_possible
        return np.asarray(sizes * (2 * np.sqrt(losses) + sizes) + rounding)

    def is_certified(
        self, scores: Array, errors: Array, mean_bounds: Array, tol: float
    ) -> NDArray[np.bool_]:
        """True where the error of the score is at most tol times its size, or the score is NaN."""
        return np.asarray((errors <= tol * self._unit) | np.isnan(scores))


def _loss_of_mean(score: SquaredErrorScore) -> Array:
    """What predicting the mean of y loses, at least its rounding: a scalar, or (t,)."""
    y, weights = score._y, score.score_weights
    # Rounding of a constant y: its squared deviations would be 0.
    if weights is None:
        squares = np.einsum("ij,ij->j", y, y, dtype=np.float64)  # y may be integers
    else:
        squares = np.einsum("i,ij,ij->j", weights, y, y, dtype=np.float64)
    floor = MIN_RELATIVE_SPREAD * np.sqrt(squares)
    spread = np.maximum(np.sqrt(squared_deviations(y, weights)), floor)
    squares = (spread * score._residual_scales) ** 2
    return np.asarray(squares if score.per_target else squares.sum())


@dataclass(frozen=True, eq=False)
class NegMeanSquaredError(SquaredErrorScore):
    """Negative mean squared error, -mean w (y - prediction)^2."""

    y: Array = per_row()
    weights: Array | None = per_row()
    per_target: bool = False

    @property
    def _y(self) -> Array:
        return self.y

    def sample_values(self, P: Array) -> Array:
        """Weighted squared errors of every target, (n, k, t)."""
        return SquaredError(weights=self.weights, y=self.y, per_target=True)(P)

    @property
    def score_weights(self) -> Array | None:
        """The sample weights."""
        return self.weights

    @property
    def _residual_scales(self) -> Array:
        n, t = self.y.shape
        return np.full(t, 1 / np.sqrt(n if self.per_target else n * t))

    @cached_property
    def _unit(self) -> Array:
        return _loss_of_mean(self)

    @property
    def sample_loss(self) -> SampleLoss:
        """The squared error of a sample."""
        return SquaredError(weights=self.weights, y=self.y, per_target=self.per_target)

    def scores_from_sums(self, sums: Array) -> tuple[Array, Array]:
        """Negative means of the squared errors, and their standard errors."""
        n = self.n_samples
        mean = sums[..., 0] / n
        error = np.full_like(mean, np.nan)
        if n > 1:
            error = np.sqrt(np.maximum(sums[..., 1] / n - mean**2, 0.0) / (n - 1))
        return -self._drop_target_axis(mean), self._drop_target_axis(error)

    def _drop_target_axis(self, each: Array) -> Array:
        return each if self.per_target else each[:, 0]

    def score(self, P: Array) -> Array:
        """Negative mean squared errors, over all targets or per target."""
        return self.score_with_std_error(P)[0]

    def score_with_std_error(self, P: Array) -> tuple[Array, Array]:
        """Scores, and their standard errors from the spread of the squared errors."""
        losses, n = self.sample_loss(P), self.n_samples
        losses = losses if self.per_target else losses[:, :, 0]
        scores = np.asarray(-losses.mean(axis=0))
        if n < 2:
            return scores, np.full_like(scores, np.nan)
        losses += scores
        # Squares of large errors would overflow.
        units = np.maximum(losses.max(axis=0), -losses.min(axis=0))
        units = np.where(units > 0, units, 1.0)
        losses /= units
        errors = np.sqrt(np.einsum("i...,i...->...", losses, losses) / (n - 1) / n)
        return scores, np.asarray(units * errors)


@dataclass(frozen=True, eq=False)
class R2Score(SquaredErrorScore):
    """R^2: 1 - sum w (y - prediction)^2 / sum w (y - mean)^2, averaged over targets or for each.

    As in scikit-learn, it is NaN for one sample. For a constant y it is 1 if the predictions are
    equal to y, and otherwise 0.
    """

    has_std_error_from_sums = False
    best_possible = 1.0
    _unit = np.array(1.0)

    y: Array = per_row()
    weights: Array | None = per_row()
    per_target: bool = False

    @property
    def _y(self) -> Array:
        return self.y

    @property
    def score_weights(self) -> Array | None:
        """The sample weights."""
        return self.weights

    @cached_property
    def _total_squares(self) -> Array:
        """Sums (t,) of w (y - mean)^2; 0 for a constant y."""
        return squared_deviations(self.y, self.weights)

    @cached_property
    def _is_constant(self) -> NDArray[np.bool_]:
        """Mask (t,) of the targets that are constant in all samples with a weight above 0."""
        return constant_columns(self.y, self.weights)

    @property
    def _residual_scales(self) -> Array:
        spread = np.sqrt(self._total_squares) * (1 if self.per_target else np.sqrt(self.y.shape[1]))
        return np.asarray(np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0))

    def score_errors(self, scores: Array, bounds: Array, margins: Array) -> Array:
        """The errors of squared residuals, and 1 where a constant y has a score of 0 or of 1.

        Predictions differ from a constant y if they do by more than their bound. Without an error,
        they may be equal to it. Otherwise either score is possible.
        """
        errors = super().score_errors(scores, bounds, margins)
        jumps = np.zeros_like(bounds)
        if margins.shape[1]:
            differs = margins * (1 - 4 * sum_noise(self.n_samples)) > bounds
            is_unknown = ~differs & ((margins > 0) | ~(bounds == 0))
            jumps = np.where(self._is_constant & is_unknown, 1.0, 0.0)
        # Sums of squares that over- or underflow say nothing about the score.
        squares = self._total_squares
        is_normal = (squares > MIN_MEAN_SQUARE * self.n_samples) & (squares < np.inf)
        jumps = np.where(self._is_constant | is_normal, jumps, np.inf)
        return np.asarray(errors + (jumps if self.per_target else jumps.mean(axis=1)))

    @property
    def sample_loss(self) -> SampleLoss:
        """The squared error of a sample, for each target."""
        return SquaredError(weights=self.weights, y=self.y, per_target=True)

    def margins(self, P: Array) -> Array:
        """Norms (k, t) of the residuals if a target is constant, where the score jumps at 0."""
        if not self._is_constant.any():
            return super().margins(P)
        return np.asarray(np.sqrt(self._residual_squares(P)))

    def margins_from_sums(self, sums: Array, margin_weights: Array) -> Array:
        """Norms (k, t) of the residuals if a target is constant."""
        if not self._is_constant.any():
            return margin_weights
        return np.asarray(np.sqrt(sums[..., 0]))

    def scores_from_sums(self, sums: Array) -> tuple[Array, Array]:
        """R^2, and NaN for the standard errors, which the spread of the splits gives."""
        r2 = self._r2(sums[..., 0])
        return r2, np.full_like(r2, np.nan)

    def score(self, P: Array) -> Array:
        """R^2 of all samples."""
        return self._r2(self._residual_squares(P))

    def _residual_squares(self, P: Array) -> Array:
        """Weighted sums (k, t) of squared residuals."""
        residuals = self.y[:, None] - P
        if self.weights is None:
            return np.asarray(np.einsum("ikt,ikt->kt", residuals, residuals))
        return np.asarray(np.einsum("i,ikt,ikt->kt", self.weights, residuals, residuals))

    def _r2(self, residual_squares: Array) -> Array:
        """R^2 from weighted sums of squared residuals, (k, t)."""
        if self.n_samples < MIN_R2_SAMPLES:
            r2 = np.full_like(residual_squares, np.nan)
        else:
            total_squares = self._total_squares
            r2 = np.where(
                total_squares == 0,
                np.where(residual_squares == 0, 1.0, 0.0),
                1 - residual_squares / np.where(total_squares == 0, 1.0, total_squares),
            )
        return r2 if self.per_target else r2.mean(axis=1)


@dataclass(frozen=True, eq=False)
class NegMeanSquaredLoss(SquaredErrorScore, MeanScore):
    """scikit-learn's neg_mean_squared_error: squared errors are divided by the sum of weights."""

    loss: SquaredError
    sign: float = -1.0

    @property
    def _y(self) -> Array:
        return self.loss.y

    @property
    def _residual_scales(self) -> Array:
        total, t = float(self._weights.sum()), self.loss.y.shape[1]
        return np.full(t, 1 / np.sqrt(total if self.per_target else total * t))

    @cached_property
    def _unit(self) -> Array:
        return _loss_of_mean(self)
