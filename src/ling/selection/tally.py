"""Scores that samples add to one by one, summed in the pass that predicts them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ling.design import Array
from ling.design.between import PerRow, RowSums, named, parted
from ling.engines.graded import Graded
from ling.engines.tridiagonal import Tridiagonal


@dataclass(frozen=True, eq=False)
class Measure(PerRow):
    """What a sample's predictions, by several fits, are worth."""

    weights: Array | None

    def per_row(self) -> dict[str, Any]:
        """The weights, and all arrays of the kind."""
        mine = {"weights": self.weights, **self._given()}
        return {name: array for name, array in mine.items() if array is not None}

    def with_rows(self, arrays: dict[str, Any]) -> Self:
        """For some of the rows."""
        return replace(self, **arrays)

    def __call__(self, P: Array) -> Array:
        """(n_rows, n_fits, s) of predictions (n_rows, n_fits, n_targets), weighted."""
        values = self._values(P)
        if self.weights is not None:
            values *= self.weights[:, None, None]
        return values

    def sums(self, P: Array) -> Array:
        """(n_fits, s, 3): see `Tally`."""
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
    def _given(self) -> dict[str, Any]:
        """What is known of the rows."""

    @abstractmethod
    def _values(self, P: Array) -> Array:
        """Without weights."""


@dataclass(frozen=True, eq=False)
class SquaredError(Measure):
    """(y - prediction)^2; its mean over targets, or for each."""

    y: Array
    by_target: bool

    def _given(self) -> dict[str, Any]:
        return {"y": self.y}

    @property
    def n_values(self) -> int:
        """One for all targets, or for each."""
        return int(self.y.shape[1]) if self.by_target else 1

    def _values(self, P: Array) -> Array:
        errors = self.y[:, None, :] - P
        errors *= errors
        return errors if self.by_target else errors.mean(axis=2, keepdims=True)


@dataclass(frozen=True, eq=False)
class Hit(Measure):
    """1 where decision values stand for the same class as Y, which is -1 and 1, 0 elsewhere."""

    Y: Array

    def _given(self) -> dict[str, Any]:
        return {"Y": self.Y}

    @property
    def n_values(self) -> int:
        """One."""
        return 1

    def _values(self, P: Array) -> Array:
        hits = _class_numbers(P) == _class_numbers(self.Y)[:, None]
        return np.asarray(hits, dtype=np.float64)[:, :, None]


@dataclass(frozen=True, eq=False)
class Tally(RowSums):
    """Sums over samples of w v, (w v)^2 and w^2 v, v being what their predictions are worth.

    They are (n_splits, n_alphas, s, 3); `mean` and `unit` are those of y.
    """

    measure: Measure
    mean: Array
    unit: Array
    n_alphas: int

    def per_row(self) -> dict[str, Any]:
        """Those of the measure, and all arrays of the kind."""
        return self._given() | named(self.measure)

    def with_rows(self, arrays: dict[str, Any]) -> Self:
        """For some of the rows."""
        mine, theirs = parted(arrays)
        return replace(self, measure=self.measure.with_rows(theirs), **mine)

    @property
    def width(self) -> int:
        """Predictions, and what they are worth."""
        return 3 * self.n_alphas * len(self.unit)

    @abstractmethod
    def _given(self) -> dict[str, Any]:
        """What is known of the rows."""

    def _sums(self, P: Array) -> Array:
        """(n_alphas, s, 3), of predictions of centred y."""
        P *= self.unit
        P += self.mean
        return self.measure.sums(P)


@dataclass(frozen=True, eq=False)
class BySplit(Tally):
    """Predictions X W + constant by the fits of the splits that test a row.

    `W` is (n_splits, p, n_alphas * t), `testing` as `Splits` has it.
    """

    testing: NDArray[Any]
    W: Array
    constant: Array

    def _given(self) -> dict[str, Any]:
        return {"testing": self.testing}

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """What these rows add."""
        n_splits, numbers = len(self.W), np.arange(len(self.W))
        if self.testing.ndim == 1:
            numbers = np.unique(self.testing)
        found = np.zeros((n_splits, self.n_alphas, self.measure.n_values, 3))
        for number in numbers[numbers >= 0]:
            mine = self.testing == number if self.testing.ndim == 1 else self.testing[:, number]
            P = X[mine] @ self.W[number] + self.constant[number]
            found[number] = self.cut(mine)._sums(P.reshape(-1, self.n_alphas, len(self.unit)))
        return (found,)

    @property
    def row_flops(self) -> float:
        """Of predictions."""
        return 2.0 * float(self.W[0].size)


@dataclass(frozen=True, eq=False)
class Generalised(Tally):
    """Residuals of predictions X W + constant, divided by `kept`, alpha by alpha."""

    Y: Array
    W: Array
    constant: Array
    kept: Array

    def _given(self) -> dict[str, Any]:
        return {"Y": self.Y}

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """What these rows add."""
        P = (X @ self.W + self.constant).reshape(len(X), self.n_alphas, len(self.unit))
        Y = self.Y[:, None, :]
        return (self._sums(Y - (Y - P) / self.kept[:, None])[None],)

    @property
    def row_flops(self) -> float:
        """Of predictions."""
        return 2.0 * self.W.size


@dataclass(frozen=True, eq=False)
class LeftOut(Tally):
    """Each row's residual, divided by 1 - h: h = w (z'(T + alpha I)^-1 z + share), z = Q'x.

    `W` is (p, n_alphas * t), the coefficients in the coordinates of z.
    """

    form: Tridiagonal | Graded
    Q: Array
    W: Array
    alphas: Array
    share: float
    Y: Array
    weights: Array

    def _given(self) -> dict[str, Any]:
        return {"Y": self.Y, "weights": self.weights}

    @property
    def width(self) -> int:
        """Rows in the coordinates of z as well."""
        return super().width + len(self.Q) + self.n_alphas

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """What these rows add."""
        Z = X @ self.Q
        leverages = self.form.forms(Z, self.alphas, often=True) + self.share
        kept = 1 - self.weights[:, None] * leverages
        P = (Z @ self.W).reshape(len(X), self.n_alphas, len(self.unit))
        Y = self.Y[:, None, :]
        return (self._sums(Y - (Y - P) / kept[:, :, None])[None],)

    @property
    def row_flops(self) -> float:
        """Of z, of predictions and of leverages."""
        return 2.0 * (self.Q.size + self.W.size + 2 * len(self.Q) * self.n_alphas)


def _class_numbers(values: Array) -> Any:
    """The column that is largest; for one column, whether it is above 0."""
    return values[..., 0] > 0 if values.shape[-1] == 1 else values.argmax(axis=-1)
