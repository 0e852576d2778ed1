"""Scores that samples add to one by one, summed in the pass that predicts them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.row_transform import (
    HasRowArrays,
    RowReduction,
    nested_row_arrays,
    split_nested_row_arrays,
)
from ling.linalg.cholesky import ScaledCholesky
from ling.linalg.tridiagonal import HouseholderTridiagonal


@dataclass(frozen=True, eq=False)
class SampleLoss(HasRowArrays):
    """What a sample's predictions, by several fits, are worth."""

    weights: Array | None

    def row_arrays(self) -> dict[str, Any]:
        """The weights, and all arrays of the kind."""
        mine = {"weights": self.weights, **self._row_arrays()}
        return {name: array for name, array in mine.items() if array is not None}

    def with_row_arrays(self, arrays: dict[str, Any]) -> Self:
        """For some of the rows."""
        return replace(self, **arrays)

    def __call__(self, P: Array) -> Array:
        """(n_rows, n_fits, s) of predictions (n_rows, n_fits, n_targets), weighted."""
        values = self._unweighted_values(P)
        if self.weights is not None:
            values *= self.weights[:, None, None]
        return values

    def loss_sums(self, P: Array) -> Array:
        """(n_fits, s, 3): see `ScoreAccumulator`."""
        values = self(P)
        total, squares = values.sum(axis=0), np.einsum("iat,iat->at", values, values)
        if self.weights is None:
            return np.stack([total, squares, total], axis=-1)
        return np.stack([total, squares, np.einsum("iat,i->at", values, self.weights)], axis=-1)

    @property
    @abstractmethod
    def n_values(self) -> int:
        """s."""

    @abstractmethod
    def _row_arrays(self) -> dict[str, Any]:
        """What is known of the rows."""

    @abstractmethod
    def _unweighted_values(self, P: Array) -> Array:
        """Without weights."""


@dataclass(frozen=True, eq=False)
class SquaredError(SampleLoss):
    """(y - prediction)^2; its mean over targets, or for each."""

    y: Array
    per_target: bool

    def _row_arrays(self) -> dict[str, Any]:
        return {"y": self.y}

    @property
    def n_values(self) -> int:
        """One for all targets, or for each."""
        return int(self.y.shape[1]) if self.per_target else 1

    def _unweighted_values(self, P: Array) -> Array:
        errors = self.y[:, None, :] - P
        errors *= errors
        return errors if self.per_target else errors.mean(axis=2, keepdims=True)


@dataclass(frozen=True, eq=False)
class Accuracy(SampleLoss):
    """1 where decision values stand for the same class as Y, which is -1 and 1, 0 elsewhere."""

    Y: Array

    def _row_arrays(self) -> dict[str, Any]:
        return {"Y": self.Y}

    @property
    def n_values(self) -> int:
        """One."""
        return 1

    def _unweighted_values(self, P: Array) -> Array:
        hits = _class_indices(P) == _class_indices(self.Y)[:, None]
        return np.asarray(hits, dtype=np.float64)[:, :, None]


@dataclass(frozen=True, eq=False)
class ScoreAccumulator(RowReduction):
    """Sums over samples of w v, (w v)^2 and w^2 v, v being what their predictions are worth.

    They are (n_splits, n_alphas, s, 3); `mean` and `unit` are those of y.
    """

    sample_loss: SampleLoss
    y_mean: Array
    y_scale: Array
    n_alphas: int

    def row_arrays(self) -> dict[str, Any]:
        """Those of the measure, and all arrays of the kind."""
        return self._row_arrays() | nested_row_arrays(self.sample_loss)

    def with_row_arrays(self, arrays: dict[str, Any]) -> Self:
        """For some of the rows."""
        mine, theirs = split_nested_row_arrays(arrays)
        return replace(self, sample_loss=self.sample_loss.with_row_arrays(theirs), **mine)

    @property
    def workspace_per_row(self) -> int:
        """Predictions, and what they are worth."""
        return 3 * self.n_alphas * len(self.y_scale)

    @abstractmethod
    def _row_arrays(self) -> dict[str, Any]:
        """What is known of the rows."""

    def _score_sums(self, P: Array) -> Array:
        """(n_alphas, s, 3), of predictions of centred y."""
        P *= self.y_scale
        P += self.y_mean
        return self.sample_loss.loss_sums(P)


@dataclass(frozen=True, eq=False)
class FoldScores(ScoreAccumulator):
    """Predictions X W + constant by the fits of the splits that test a row.

    `W` is (n_splits, p, n_alphas * t), `test_membership` as `Splits` has it.
    """

    test_membership: NDArray[Any]
    W: Array
    intercepts: Array

    def _row_arrays(self) -> dict[str, Any]:
        return {"test_membership": self.test_membership}

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """What these rows add."""
        n_splits, numbers = len(self.W), np.arange(len(self.W))
        if self.test_membership.ndim == 1:
            numbers = np.unique(self.test_membership)
        found = np.zeros((n_splits, self.n_alphas, self.sample_loss.n_values, 3))
        for number in numbers[numbers >= 0]:
            mine = (
                self.test_membership == number
                if self.test_membership.ndim == 1
                else self.test_membership[:, number]
            )
            P = X[mine] @ self.W[number] + self.intercepts[number]
            found[number] = self.take_rows(mine)._score_sums(
                P.reshape(-1, self.n_alphas, len(self.y_scale))
            )
        return (found,)

    @property
    def flops_per_row(self) -> float:
        """Of predictions."""
        return 2.0 * float(self.W[0].size)


@dataclass(frozen=True, eq=False)
class GCVScores(ScoreAccumulator):
    """Residuals of predictions X W + constant, divided by `kept`, alpha by alpha."""

    Y: Array
    W: Array
    intercepts: Array
    residual_divisors: Array

    def _row_arrays(self) -> dict[str, Any]:
        return {"Y": self.Y}

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """What these rows add."""
        P = (X @ self.W + self.intercepts).reshape(len(X), self.n_alphas, len(self.y_scale))
        Y = self.Y[:, None, :]
        return (self._score_sums(Y - (Y - P) / self.residual_divisors[:, None])[None],)

    @property
    def flops_per_row(self) -> float:
        """Of predictions."""
        return 2.0 * self.W.size


@dataclass(frozen=True, eq=False)
class LeaveOneOutScores(ScoreAccumulator):
    """Each row's residual, divided by 1 - h: h = w (z'(T + alpha I)^-1 z + share), z = Q'x.

    `W` is (p, n_alphas * t), the coefficients in the coordinates of z.
    """

    form: HouseholderTridiagonal | ScaledCholesky
    Q: Array
    W: Array
    alphas: Array
    intercept_leverage: float
    Y: Array
    weights: Array

    def _row_arrays(self) -> dict[str, Any]:
        return {"Y": self.Y, "weights": self.weights}

    @property
    def workspace_per_row(self) -> int:
        """Rows in the coordinates of z as well."""
        return super().workspace_per_row + len(self.Q) + self.n_alphas

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """What these rows add."""
        Z = X @ self.Q
        leverages = (
            self.form.quadratic_forms(Z, self.alphas, reuse_kernel=True) + self.intercept_leverage
        )
        kept = 1 - self.weights[:, None] * leverages
        P = (Z @ self.W).reshape(len(X), self.n_alphas, len(self.y_scale))
        Y = self.Y[:, None, :]
        return (self._score_sums(Y - (Y - P) / kept[:, :, None])[None],)

    @property
    def flops_per_row(self) -> float:
        """Of z, of predictions and of leverages."""
        return 2.0 * (self.Q.size + self.W.size + 2 * len(self.Q) * self.n_alphas)


def _class_indices(values: Array) -> Any:
    """The column that is largest; for one column, whether it is above 0."""
    return values[..., 0] > 0 if values.shape[-1] == 1 else values.argmax(axis=-1)
