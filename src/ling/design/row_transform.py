"""What happens to U = X V between the two halves of X'(X V): weights, centring, masks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.arrays import broadcast_scalar, scale_rows

#: Called with a block of U and its rows.
RowTransform: TypeAlias = Callable[[Array, slice], Array]


class HasRowArrays(ABC):
    """Says which of its arrays have a row for each of X's.

    So these can be cut and, where rows of X lie elsewhere, sent there.
    """

    @abstractmethod
    def row_arrays(self) -> dict[str, Any]:
        """Those arrays by name."""

    @abstractmethod
    def with_row_arrays(self, arrays: dict[str, Any]) -> Self:
        """The same for some of the rows, whose arrays these are."""

    def take_rows(self, rows: slice | NDArray[Any]) -> Self:
        """The same for some of the rows, by their numbers or a mask."""
        return self.with_row_arrays(
            {name: array[rows] for name, array in self.row_arrays().items()}
        )


# Before the names of arrays that are not of the thing itself, but of what goes with it.
NESTED_PREFIX = "with "


def nested_row_arrays(part: Any) -> dict[str, Any]:
    """The arrays of what goes with something, under names of their own; none, if it has none."""
    if not isinstance(part, HasRowArrays):
        return {}
    return {f"{NESTED_PREFIX}{name}": array for name, array in part.row_arrays().items()}


def split_nested_row_arrays(arrays: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those of the thing itself, and those of what goes with it."""
    theirs = {name: array for name, array in arrays.items() if name.startswith(NESTED_PREFIX)}
    mine = {name: array for name, array in arrays.items() if name not in theirs}
    return mine, {name.removeprefix(NESTED_PREFIX): array for name, array in theirs.items()}


class SliceableRowTransform(HasRowArrays):
    """A `transform` that knows its rows."""

    @abstractmethod
    def __call__(self, U: Array, rows: slice) -> Array:
        """What becomes of U = X V, on these rows."""


class RowReduction(HasRowArrays):
    """Sums over rows of X, to which every row adds on its own."""

    @property
    def workspace_per_row(self) -> int:
        """Numbers that it needs room for, for each row."""
        return 1

    @property
    def flops_per_row(self) -> float:
        """FLOPs that a row takes."""
        return 0.0

    def reduced_size(self, p: int) -> int:
        """About how many numbers there are to be added up, for p features."""
        return 0

    @property
    def min_block_rows(self) -> int:
        """Rows from which on a call is worth adding up what it gives."""
        return 256

    @abstractmethod
    def __call__(self, X: Array) -> tuple[Array, ...]:
        """What these rows, dense and in float64, add; its arrays are new."""


@dataclass(eq=False)
class AffineRowTransform(SliceableRowTransform):
    """The `transform` that storages know by heart: u -> post (scale u - shift), row by row.

    Weights, centring and residuals are of this kind, and need no call from inside the sweep.
    `shift` has the shape of U: (n,) for one column, (n, k) for k. On the way `row_output` is filled
    with scale u - shift, so that sums over it fit what was summed. A storage whose rows lie
    elsewhere fills in only the sums of its `squares`, unless it is wanted `keep_rows`.
    """

    scale: Array
    shift: Array
    post: Array
    keep_rows: bool = True
    _row_output: Array | None = None
    _squared_norms: Array | None = None

    @classmethod
    def from_values(
        cls, scale: Array | float, shift: Array, post: Array | float, keep_rows: bool = True
    ) -> AffineRowTransform:
        """In float64; a number stands for one that all rows share."""
        n = len(shift)
        return cls(
            _broadcast_rows(scale, n),
            np.asarray(shift, np.float64),
            _broadcast_rows(post, n),
            keep_rows,
        )

    @classmethod
    def identity(cls, shape: tuple[int, ...]) -> AffineRowTransform:
        """u -> u, for U of that shape."""
        return cls.from_values(1.0, np.broadcast_to(np.float64(0.0), shape), 1.0)

    @property
    def row_output(self) -> Array:
        """scale u - shift, for all rows."""
        if self._row_output is None and self._squared_norms is not None:
            raise AssertionError("rows lie elsewhere, and only sums of squares were asked for")
        if self._row_output is None:
            self._row_output = np.empty(self.shift.shape)
        return self._row_output

    @property
    def squared_norms(self) -> Array:
        """The sums of squares of what was seen, column by column."""
        if self._squared_norms is None:
            self._squared_norms = np.einsum("i...,i...->...", self.row_output, self.row_output)
        return self._squared_norms

    def set_row_output(self, squares: Array, row_output: Array | None) -> None:
        """What was seen elsewhere."""
        self._squared_norms, self._row_output = squares, row_output

    @property
    def kernel_arguments(self) -> tuple[Array, Array, Array, Array]:
        """As the kernels take them."""
        self._squared_norms = None
        found = (np.ascontiguousarray(a) for a in (self.scale, self.shift, self.post))
        return *found, self.row_output  # type: ignore[return-value]

    def row_arrays(self) -> dict[str, Any]:
        """Scale, shift and post."""
        return {"scale": self.scale, "shift": self.shift, "post": self.post}

    def with_row_arrays(self, arrays: dict[str, Any]) -> Self:
        """Some of the rows."""
        return type(self)(**arrays, keep_rows=self.keep_rows)

    def __call__(self, U: Array, rows: slice) -> Array:
        """The same, as any other `transform`."""
        self._squared_norms = None
        self.row_output[rows] = scale_rows(U, self.scale[rows]).reshape(self.shift[rows].shape)
        self.row_output[rows] -= self.shift[rows]
        return (
            scale_rows(self.row_output[rows], self.post[rows])
            .astype(U.dtype, copy=False)
            .reshape(U.shape)
        )


@dataclass(frozen=True, eq=False)
class FoldMask(SliceableRowTransform):
    """u -> mask (u - shift), where each column of U belongs to the training set of a split.

    `training` says which rows these have, as small integers: (n,), the split that leaves a row out,
    or (n, n_splits), how often each has it. A mask is that, times the weights of the rows.
    """

    membership: NDArray[Any]
    weights: Array
    column_splits: NDArray[np.intp]
    column_shifts: Array

    def row_arrays(self) -> dict[str, Any]:
        """Who has the rows, and their weights."""
        return {"membership": self.membership, "weights": self.weights}

    def with_row_arrays(self, arrays: dict[str, Any]) -> Self:
        """Some of the rows."""
        return replace(self, **arrays)

    def __call__(self, U: Array, rows: slice) -> Array:
        """On these rows."""
        U = U - self.column_shifts
        U *= training_multiplicity(self.membership[rows], self.column_splits)
        U *= self.weights[rows, None]
        return U


def training_multiplicity(training: NDArray[Any], splits: NDArray[np.intp]) -> Array:
    """(n_rows, n): how often each of these splits has the rows in its training set."""
    if training.ndim == 1:
        return np.asarray(training[:, None] != splits)
    return np.asarray(training[:, splits])


def _broadcast_rows(values: Array | float, n: int) -> Array:
    if isinstance(values, float):
        return broadcast_scalar(n, values)
    return np.asarray(values, np.float64)
