"""What happens to U = X V between the two halves of X'(X V): weights, centring, masks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ling.design.arrays import Array, constant, scaled

#: Called with a block of U and its rows.
Between: TypeAlias = Callable[[Array, slice], Array]


class PerRow(ABC):
    """Says which of its arrays have a row for each of X's.

    So these can be cut and, where rows of X lie elsewhere, sent there.
    """

    @abstractmethod
    def per_row(self) -> dict[str, Any]:
        """Those arrays by name."""

    @abstractmethod
    def with_rows(self, arrays: dict[str, Any]) -> Self:
        """The same for some of the rows, whose arrays these are."""

    def cut(self, rows: slice | NDArray[Any]) -> Self:
        """The same for some of the rows, by their numbers or a mask."""
        return self.with_rows({name: array[rows] for name, array in self.per_row().items()})


# Before the names of arrays that are not of the thing itself, but of what goes with it.
THEIRS = "with "


def named(part: Any) -> dict[str, Any]:
    """The arrays of what goes with something, under names of their own; none, if it has none."""
    if not isinstance(part, PerRow):
        return {}
    return {f"{THEIRS}{name}": array for name, array in part.per_row().items()}


def parted(arrays: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of the thing itself, and those of what goes with it."""
    theirs = {name: array for name, array in arrays.items() if name.startswith(THEIRS)}
    mine = {name: array for name, array in arrays.items() if name not in theirs}
    return mine, {name.removeprefix(THEIRS): array for name, array in theirs.items()}


class RowWise(PerRow):
    """A `between` that knows its rows."""

    @abstractmethod
    def __call__(self, U: Array, rows: slice) -> Array:
        """What becomes of U = X V, on these rows."""


class RowSums(PerRow):
    """Sums over rows of X, to which every row adds on its own."""

    @property
    def width(self) -> int:
        """Numbers that it needs room for, for each row."""
        return 1

    @property
    def row_flops(self) -> float:
        """FLOPs that a row takes."""
        return 0.0

    def n_summed(self, p: int) -> int:
        """About how many numbers there are to be added up, for p features."""
        return 0

    @property
    def least_rows(self) -> int:
        """Rows from which on a call is worth adding up what it gives."""
        return 256

    @abstractmethod
    def __call__(self, X: Array) -> tuple[Array, ...]:
        """What these rows, dense and in float64, add; its arrays are new."""


@dataclass(eq=False)
class RowMap(RowWise):
    """The `between` that storages know by heart: u -> post (scale u - shift), row by row.

    Weights, centring and residuals are of this kind, and need no call from inside the sweep.
    `shift` has the shape of U: (n,) for one column, (n, k) for k. On the way `seen` is filled with
    scale u - shift, so that sums over it fit what was summed. A storage whose rows lie elsewhere
    fills in only the sums of its `squares`, unless it is wanted `whole`.
    """

    scale: Array
    shift: Array
    post: Array
    whole: bool = True
    _seen: Array | None = None
    _squares: Array | None = None

    @classmethod
    def of(
        cls, scale: Array | float, shift: Array, post: Array | float, whole: bool = True
    ) -> RowMap:
        """In float64; a number stands for one that all rows share."""
        n = len(shift)
        return cls(_rows(scale, n), np.asarray(shift, np.float64), _rows(post, n), whole)

    @classmethod
    def identity(cls, shape: tuple[int, ...]) -> RowMap:
        """u -> u, for U of that shape."""
        return cls.of(1.0, np.broadcast_to(np.float64(0.0), shape), 1.0)

    @property
    def seen(self) -> Array:
        """scale u - shift, for all rows."""
        if self._seen is None and self._squares is not None:
            raise AssertionError("rows lie elsewhere, and only sums of squares were asked for")
        if self._seen is None:
            self._seen = np.empty(self.shift.shape)
        return self._seen

    @property
    def squares(self) -> Array:
        """The sums of squares of what was seen, column by column."""
        if self._squares is None:
            self._squares = np.einsum("i...,i...->...", self.seen, self.seen)
        return self._squares

    def learn(self, squares: Array, seen: Array | None) -> None:
        """What was seen elsewhere."""
        self._squares, self._seen = squares, seen

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """As the kernels take them."""
        self._squares = None
        found = (np.ascontiguousarray(a) for a in (self.scale, self.shift, self.post))
        return *found, self.seen  # type: ignore[return-value]

    def per_row(self) -> dict[str, Any]:
        """Scale, shift and post."""
        return {"scale": self.scale, "shift": self.shift, "post": self.post}

    def with_rows(self, arrays: dict[str, Any]) -> Self:
        """Some of the rows."""
        return type(self)(**arrays, whole=self.whole)

    def __call__(self, U: Array, rows: slice) -> Array:
        """The same, as any other `between`."""
        self._squares = None
        self.seen[rows] = scaled(U, self.scale[rows]).reshape(self.shift[rows].shape)
        self.seen[rows] -= self.shift[rows]
        return scaled(self.seen[rows], self.post[rows]).astype(U.dtype, copy=False).reshape(U.shape)


@dataclass(frozen=True, eq=False)
class Masked(RowWise):
    """u -> mask (u - shift), where each column of U belongs to the training set of a split.

    `training` says which rows these have, as small integers: (n,), the split that leaves a row out,
    or (n, n_splits), how often each has it. A mask is that, times the weights of the rows.
    """

    training: NDArray[Any]
    weights: Array
    owner: NDArray[np.intp]
    shifts: Array

    def per_row(self) -> dict[str, Any]:
        """Who has the rows, and their weights."""
        return {"training": self.training, "weights": self.weights}

    def with_rows(self, arrays: dict[str, Any]) -> Self:
        """Some of the rows."""
        return replace(self, **arrays)

    def __call__(self, U: Array, rows: slice) -> Array:
        """On these rows."""
        U = U - self.shifts
        U *= times_trained(self.training[rows], self.owner)
        U *= self.weights[rows, None]
        return U


def times_trained(training: NDArray[Any], splits: NDArray[np.intp]) -> Array:
    """(n_rows, n): how often each of these splits has the rows in its training set."""
    if training.ndim == 1:
        return np.asarray(training[:, None] != splits)
    return np.asarray(training[:, splits])


def _rows(values: Array | float, n: int) -> Array:
    if isinstance(values, float):
        return constant(n, values)
    return np.asarray(values, np.float64)
