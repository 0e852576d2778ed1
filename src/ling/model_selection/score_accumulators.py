"""Accumulators of additive scores: sums over samples, formed in the pass that predicts them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.rows import RowReduction, per_row, take_rows
from ling.linalg.cholesky import CholeskyForm
from ling.linalg.singular_values import SingularForm
from ling.linalg.tridiagonal import HouseholderTridiagonal
from ling.model_selection.fold_errors import LeaveOneOutErrors
from ling.model_selection.splits import tested_rows

# Lower edges of the bins in which margins of decisions are counted: ten for each factor of ten. The
# first bin holds all margins below 1e-12.
MARGIN_EDGES = np.concatenate([[0.0], np.logspace(-12, 1, 131)])


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleLoss(ABC):
    """A loss or score of single samples, for the predictions of several fits.

    `weights`, of shape (n,), are the sample weights; None stands for weights of 1.
    """

    weights: Array | None = per_row()

    def __call__(self, P: Array) -> Array:
        """Weighted values (n_rows, n_fits, s) of predictions (n_rows, n_fits, n_targets)."""
        values = self._unweighted_values(P)
        if self.weights is not None:
            values *= self.weights[:, None, None]
        return values

    def loss_sums(self, P: Array) -> tuple[Array, Array]:
        """Sums over samples, (n_fits, s, 3), of w v, (w v)^2 and w^2 v, and `margin_weights`."""
        values = self(P)
        total, squares = values.sum(axis=0), np.einsum("iat,iat->at", values, values)
        weighted = total
        if self.weights is not None:
            weighted = np.einsum("iat,i->at", values, self.weights)
        return np.stack([total, squares, weighted], axis=-1), self.margin_weights(P)

    def margin_weights(self, P: Array) -> Array:
        """Weights of samples by margin, (n_fits, n_bins), for losses that jump; n_bins may be 0."""
        return np.zeros((P.shape[1], 0))

    @property
    @abstractmethod
    def n_samples(self) -> int:
        """Number of samples."""

    @property
    @abstractmethod
    def n_values(self) -> int:
        """Number s of values per sample and fit."""

    @abstractmethod
    def _unweighted_values(self, P: Array) -> Array:
        """Values (n_rows, n_fits, s) of predictions (n_rows, n_fits, n_targets), unweighted."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SquaredError(SampleLoss):
    """Squared error (y - prediction)^2: its mean over targets, or one for each if `per_target`."""

    y: Array = per_row()
    per_target: bool

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.y)

    @property
    def n_values(self) -> int:
        """1, or the number of targets if `per_target`."""
        return int(self.y.shape[1]) if self.per_target else 1

    def _unweighted_values(self, P: Array) -> Array:
        errors = self.y[:, None, :] - P
        errors *= errors
        return errors if self.per_target else errors.mean(axis=2, keepdims=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class Accuracy(SampleLoss):
    """Accuracy of a sample: 1 if its decision values give the same class as Y, otherwise 0.

    `Y` holds the labels, encoded as -1 and 1.
    """

    Y: Array = per_row()

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.Y)

    @property
    def n_values(self) -> int:
        """1, whatever the number of classes."""
        return 1

    def margin_weights(self, P: Array) -> Array:
        """Sum of the weights of samples in each bin of `MARGIN_EDGES`, (n_fits, n_bins).

        The margin is the norm of the smallest change of decision values that changes the class.
        """
        if P.shape[-1] == 1:
            margins = np.abs(P[..., 0])
        else:
            second, first = np.moveaxis(np.partition(P, -2, axis=-1)[..., -2:], -1, 0)
            margins = (first - second) / np.sqrt(2)
        bins = np.digitize(margins, MARGIN_EDGES[1:])
        fits = np.broadcast_to(np.arange(P.shape[1]), bins.shape)
        counts = np.zeros((P.shape[1], len(MARGIN_EDGES)))
        weights = np.ones(len(P)) if self.weights is None else self.weights
        np.add.at(counts, (fits, bins), weights[:, None])
        return counts

    def _unweighted_values(self, P: Array) -> Array:
        hits = _class_indices(P) == _class_indices(self.Y)[:, None]
        return np.asarray(hits, dtype=np.float64)[:, :, None]


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreAccumulator(RowReduction):
    """Sums over samples of w v, (w v)^2 and w^2 v, with weight w and loss value v of a sample.

    The sums have shape (n_splits, n_alphas, s, 3). They give weighted means of v and their standard
    errors. A second array, (n_splits, n_alphas, n_bins), holds the `margin_weights` of the loss.
    `y_mean` and `y_scale`, of shape (n_targets,), are the standardisation of y.
    """

    sample_loss: SampleLoss
    y_mean: Array
    y_scale: Array
    n_alphas: int

    @property
    def workspace_per_row(self) -> int:
        """Numbers of temporary memory per row: predictions and their loss values."""
        return 3 * self.n_alphas * len(self.y_scale)

    def _score_sums(self, P: Array) -> tuple[Array, Array]:
        """Sums of predictions of centred y, (n_rows, n_alphas, n_targets), without the split axis.

        `P` is overwritten with the predictions in the units of y.
        """
        P *= self.y_scale
        P += self.y_mean
        return self.sample_loss.loss_sums(P)


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldScores(ScoreAccumulator):
    """Scores of the predictions X W + intercept of each split for its test rows.

    `W` has shape (n_splits, p, n_alphas * t), `intercepts` (n_splits, n_alphas * t), and
    `test_membership` is that of `Splits`.
    """

    test_membership: NDArray[Any] = per_row()
    W: Array
    intercepts: Array

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """Contribution of these rows to the sums of `ScoreAccumulator`."""
        n_splits, numbers = len(self.W), np.arange(len(self.W))
        if self.test_membership.ndim == 1:
            numbers = np.unique(self.test_membership)
        no_rows = np.zeros((0, self.n_alphas, len(self.y_scale)))
        totals = [
            np.zeros((n_splits, *part.shape))
            for part in take_rows(self, slice(0))._score_sums(no_rows)
        ]
        for number in numbers[numbers >= 0]:
            is_test_row = tested_rows(self.test_membership, int(number))
            P = X[is_test_row] @ self.W[number] + self.intercepts[number]
            parts = take_rows(self, is_test_row)._score_sums(
                P.reshape(-1, self.n_alphas, len(self.y_scale))
            )
            for total, part in zip(totals, parts, strict=True):
                total[number] = part
        return tuple(totals)

    @property
    def flops_per_row(self) -> float:
        """FLOPs of the predictions for one row, by one split."""
        return 2.0 * float(self.W[0].size)


@dataclass(frozen=True, eq=False, kw_only=True)
class GCVScores(ScoreAccumulator):
    """Scores of generalised cross-validation, from the predictions X W + intercept of one fit.

    The residuals are divided by `residual_divisors`, of shape (n_alphas,). `W` has shape
    (p, n_alphas * t), `Y` is the centred y of shape (n, t).
    """

    Y: Array = per_row()
    W: Array
    intercepts: Array
    residual_divisors: Array

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """Contribution of these rows to the sums of `ScoreAccumulator`."""
        P = (X @ self.W + self.intercepts).reshape(len(X), self.n_alphas, len(self.y_scale))
        Y = self.Y[:, None, :]
        parts = self._score_sums(Y - (Y - P) / self.residual_divisors[:, None])
        return tuple(part[None] for part in parts)

    @property
    def flops_per_row(self) -> float:
        """FLOPs of the predictions for one row."""
        return 2.0 * self.W.size


@dataclass(frozen=True, eq=False, kw_only=True)
class LeaveOneOutScores(ScoreAccumulator):
    """Scores of exact leave-one-out: residuals divided by 1 - h, with the leverage h of the row.

    h = w (z'(T + alpha I)^-1 z + `intercept_leverage`) with z = Q'x, where T is the reduced form of
    X'X. `W`, of shape (p, n_alphas * t), are the coefficients in the coordinates of z. `errors`
    bounds the effect of rounding.
    """

    form: HouseholderTridiagonal | CholeskyForm | SingularForm
    Q: Array
    W: Array
    alphas: Array
    intercept_leverage: float
    errors: LeaveOneOutErrors
    Y: Array = per_row()
    weights: Array = per_row()

    @property
    def workspace_per_row(self) -> int:
        """Numbers of temporary memory per row, with the rotated row z and the leverages."""
        n_leverages = self.n_alphas * (3 + 2 * len(self.y_scale))
        return super().workspace_per_row + len(self.Q) + n_leverages

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """Contribution of these rows to the sums of `ScoreAccumulator`.

        A third array, (1, n_alphas, t), is the weighted sum of squared error bounds.
        """
        Z = X @ self.Q
        forms = self.form.quadratic_forms(Z, self.alphas, reuse_kernel=True)
        divisors = 1 - self.weights[:, None] * (forms + self.intercept_leverage)
        P = (Z @ self.W).reshape(len(X), self.n_alphas, len(self.y_scale))
        Y = self.Y[:, None, :]
        residuals = (Y - P) / divisors[:, :, None]
        bounds = self.errors.row_bounds(residuals, Y, forms, divisors, self.weights)
        squares = np.einsum("i,iat,iat->at", self.weights, bounds, bounds)
        return tuple(part[None] for part in (*self._score_sums(Y - residuals), squares))

    @property
    def flops_per_row(self) -> float:
        """FLOPs per row of the rotation to z, of the predictions and of the leverages."""
        return 2.0 * (self.Q.size + self.W.size + 2 * len(self.Q) * self.n_alphas)


def _class_indices(values: Array) -> Any:
    """Class index of each row: the column of the largest value; for one column, if it is > 0."""
    return values[..., 0] > 0 if values.shape[-1] == 1 else values.argmax(axis=-1)
