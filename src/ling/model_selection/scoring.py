"""Scores of held-out predictions: the interface, means of losses, and any scikit-learn scorer."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design import Storage
from ling.design.arrays import row_slices
from ling.design.rows import take_rows
from ling.linalg.rounding import EPS
from ling.model_selection.fixed_predictions import FixedClassifier, FixedRegressor
from ling.model_selection.score_accumulators import MARGIN_EDGES, SampleLoss
from ling.model_selection.splits import RowIndices
from ling.solvers.targets import constant_columns

# Number of groups of samples whose scores give the standard error of a score of all samples.
N_SCORE_GROUPS = 10
# Numbers of y that are squared at a time.
SQUARED_ELEMENTS = 2**16


class Scoring(ABC):
    """Interface: scores of predictions for some samples, where higher is better.

    Predictions P (n, k, t) are those of k fits, for n samples and t targets. There is one score for
    each fit, (k,), or one for each target, (k, t), if `per_target`. `take` gives the scoring of the
    test rows of a split. Implementations are dataclasses, with per-sample arrays declared by
    `per_row`.
    """

    per_target: bool
    #: True if the sums over samples give the standard error of the score, too.
    has_std_error_from_sums = True
    #: True if `score_errors` gives bounds; else those of predictions are all that is known.
    has_score_bounds = True

    def take(self, rows: RowIndices | slice) -> Self:
        """The scoring of predictions for `rows` only; a slice stands for all samples."""
        return self if isinstance(rows, slice) else take_rows(self, rows)

    @property
    @abstractmethod
    def n_samples(self) -> int:
        """Number of samples."""

    @abstractmethod
    def score(self, P: Array) -> Array:
        """Scores of the predictions `P` (n, k, t)."""

    def sample_values(self, P: Array) -> Array:
        """Values that `store_cv_results` keeps per sample, (n, k, t): predictions."""
        return P

    @property
    def sample_loss(self) -> SampleLoss | None:
        """Loss of one sample if the score follows from sums over samples, otherwise None."""
        return None

    def scores_from_sums(self, sums: Array) -> tuple[Array, Array]:
        """Scores and standard errors of all fits from the sums (k, s, 3) over samples."""
        raise NotImplementedError

    def score_errors(self, scores: Array, bounds: Array, margins: Array) -> Array:
        """Bounds on |score - exact score|, in the shape of `scores`; NaN if unknown.

        The exact score is that of exact ridge fits. `bounds` (k, t) are those of `HeldOut`, with
        the weights that samples have in the score. `margins` (k, m) are what `margins` returns.
        """
        return np.full_like(scores, np.nan)

    @abstractmethod
    def is_certified(
        self, scores: Array, errors: Array, mean_bounds: Array, tol: float
    ) -> NDArray[np.bool_]:
        """True where scores of splits are accurate enough to decide, in the shape of `scores`.

        `scores` and their `score_errors` have shape (n_alphas, n_splits, ...). `mean_bounds`
        (n_alphas, n_splits, t) are the bounds of predictions, as root mean squares over samples.
        This is asked of the scoring of all samples.
        """

    @property
    def null_score(self) -> Array | None:
        """The score of predicting the mean of y, a scalar or (t,); None if it is not known."""
        return None

    @property
    @abstractmethod
    def score_weights(self) -> Array | None:
        """Weights (n,) of the samples in the score; None stands for weights of 1."""

    def margins(self, P: Array) -> Array:
        """What errors of scores that jump depend on, (k, m); m is 0 for scores without jumps."""
        return np.zeros((P.shape[1], 0))

    def margins_from_sums(self, sums: Array, margin_weights: Array) -> Array:
        """`margins` (k, m) from sums over samples.

        They are `sums` (k, s, 3) and the `margin_weights` (k, n_bins) of the loss.
        """
        return margin_weights

    def score_with_std_error(self, P: Array) -> tuple[Array, Array]:
        """Scores, and their standard errors from the spread of the scores of groups of samples.

        The standard errors are NaN if there are too few samples, or if the scorer fails on a group.
        """
        score = self.score(P)
        if len(P) < 2 * N_SCORE_GROUPS:
            return score, np.full_like(score, np.nan)
        groups = [np.arange(first, len(P), N_SCORE_GROUPS) for first in range(N_SCORE_GROUPS)]
        try:
            with warnings.catch_warnings(action="ignore"):
                scores = [self.take(group).score(P[group]) for group in groups]
        except Exception:  # a user's scorer may fail on few samples or on a single class
            return score, np.full_like(score, np.nan)
        return score, np.asarray(np.std(scores, axis=0, ddof=1) / np.sqrt(N_SCORE_GROUPS))


def squared_deviations(y: Array, weights: Array | None) -> Array:
    """Sums (t,) of w (y - mean)^2 for y (n, t), without a copy of y; exactly 0 for a constant y."""
    with np.errstate(invalid="ignore"):  # NaN if all weights are 0; np.average would copy y
        mean = y.mean(axis=0) if weights is None else weights @ y / weights.sum()
    sums, squares = np.zeros(y.shape[1]), np.zeros(y.shape[1])
    for rows in row_slices(len(y), max(1, SQUARED_ELEMENTS // max(1, y.shape[1]))):
        deviations = y[rows] - mean
        w = np.ones(len(deviations)) if weights is None else weights[rows]
        sums += w @ deviations
        squares += w @ deviations**2
    # The mean is rounded, which shows if y hardly varies. This term corrects it (Chan, Golub &
    # LeVeque 1983); only that of a constant y would be all rounding.
    squares -= sums**2 / (len(y) if weights is None else weights.sum())
    return np.where(constant_columns(y, weights), 0.0, np.maximum(squares, 0.0))


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

    def take(self, rows: RowIndices | slice) -> Self:
        """The scoring of predictions for `rows` only."""
        X, rows = self._rows_or_x, np.arange(self.n_samples)[rows]
        return replace(
            self,
            y=self.y[rows],
            X=X.take(rows) if isinstance(X, Storage) else X[rows],
            score_params={name: value[rows] for name, value in self.score_params.items()},
            targets=None if self.targets is None else self.targets[rows],
        )

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.y)

    @property
    def _rows_or_x(self) -> Any:
        return np.arange(self.n_samples) if self.X is None else self.X

    @property
    def score_weights(self) -> Array | None:
        """None: bounds are about the predictions, not about the score."""
        return None

    @cached_property
    def _mean_spread(self) -> Array:
        """Standard deviations (t,) of what predictions approximate."""
        targets = self.y if self.targets is None else self.targets
        return np.sqrt(squared_deviations(targets, None) / self.n_samples)

    def is_certified(
        self, scores: Array, errors: Array, mean_bounds: Array, tol: float
    ) -> NDArray[np.bool_]:
        """True where the predictions are within tol of the exact ones, relative to the spread."""
        spread = self._mean_spread
        sizes = np.divide(mean_bounds, spread, out=np.zeros_like(mean_bounds), where=spread > 0)
        return (sizes if self.per_target else sizes.max(axis=-1, initial=0.0)) <= tol

    def score(self, P: Array) -> Array:
        """Scores of all targets together, or of each target if `per_target`."""
        X, y, (_, k, t) = self._rows_or_x, self.y, P.shape
        if not self.per_target:
            return np.array([self._score_one(P[:, fit], X, y) for fit in range(k)])
        return np.array(
            [
                [self._score_one(P[:, fit, target], X, y[:, target]) for target in range(t)]
                for fit in range(k)
            ]
        )

    def _score_one(self, P: Array, X: Any, y: Array) -> float:
        if self.label_decoder is not None:
            estimator: Any = FixedClassifier(P, self.label_decoder)
        else:
            estimator = FixedRegressor(P[:, 0] if P.ndim == 2 and P.shape[1] == 1 else P)
            y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        return float(self.scorer(estimator, X, y, **self.score_params))


@dataclass(frozen=True, eq=False)
class MeanScore(Scoring):
    """The weighted mean of a loss over samples, times `sign` (1 or -1).

    It is what the scorer of scikit-learn gives, without checking its arguments for every alpha.
    """

    loss: SampleLoss
    sign: float = 1.0
    per_target: bool = False

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.loss.n_samples

    @property
    def sample_loss(self) -> SampleLoss:
        """The loss of one sample."""
        return self.loss

    @property
    def score_weights(self) -> Array | None:
        """The weights of the loss."""
        return self.loss.weights

    @cached_property
    def _weights(self) -> Array:
        return np.ones(self.n_samples) if self.loss.weights is None else self.loss.weights

    def score_errors(self, scores: Array, bounds: Array, margins: Array) -> Array:
        """The largest weighted means of changes of the loss within the bounds.

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
        sizes = changes.sum(axis=1) / float(self._weights.sum())
        return np.asarray(sizes + 4 * EPS * np.abs(scores))  # the mean is rounded

    def is_certified(
        self, scores: Array, errors: Array, mean_bounds: Array, tol: float
    ) -> NDArray[np.bool_]:
        """True where the error of the score is at most tol."""
        return np.asarray(errors <= tol)

    def score(self, P: Array) -> Array:
        """Scores of all samples."""
        return self.score_with_std_error(P)[0]

    def score_with_std_error(self, P: Array) -> tuple[Array, Array]:
        """Scores, and their standard errors from the spread over the samples."""
        return self.scores_from_sums(self.loss.loss_sums(P)[0])

    def margins(self, P: Array) -> Array:
        """`margin_weights` of the loss, (k, n_bins)."""
        return self.loss.margin_weights(P)

    def scores_from_sums(self, sums: Array) -> tuple[Array, Array]:
        """Weighted means sum(w v) / sum(w), and their standard errors as ratios of two sums."""
        weights = self._weights
        n = int(np.count_nonzero(weights))
        total_weight, weight_squares = float(weights.sum()), float(weights @ weights)
        mean = sums[..., 0] / total_weight
        deviation_squares = np.maximum(
            sums[..., 1] - 2 * mean * sums[..., 2] + mean**2 * weight_squares, 0.0
        )
        error = np.sqrt(deviation_squares * n / max(n - 1, 1)) / total_weight
        error = error if n > 1 else np.full_like(mean, np.nan)
        index = (slice(None),) if self.per_target else (slice(None), 0)
        return self.sign * mean[index], error[index]
