"""Row transforms of U = X V within X' transform(X V): weights, centring and fold masks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.arrays import broadcast_scalar, scale_rows

#: Called with a block of U and the slice of its rows; returns the transformed block.
RowTransform: TypeAlias = Callable[[Array, slice], Array]


class HasRowArrays(ABC):
    """An object that declares which of its arrays have one row per row of X.

    These arrays can be sliced and, if X is stored elsewhere, sent to where its rows are.
    """

    @abstractmethod
    def row_arrays(self) -> dict[str, Any]:
        """Return the arrays with one row per row of X, by name."""

    @abstractmethod
    def with_row_arrays(self, arrays: dict[str, Any]) -> Self:
        """Return a copy for a subset of the rows, with `arrays` as the row arrays of the subset."""

    def take_rows(self, rows: slice | NDArray[Any]) -> Self:
        """Return a copy for a subset of the rows, given as a slice, indices or a mask."""
        return self.with_row_arrays(
            {name: array[rows] for name, array in self.row_arrays().items()}
        )


# Prefix of the names of row arrays that belong to a component of an object, not to the object.
NESTED_PREFIX = "with "


def nested_row_arrays(part: Any) -> dict[str, Any]:
    """Return the row arrays of a component, with prefixed names; empty if it has no row arrays."""
    if not isinstance(part, HasRowArrays):
        return {}
    return {f"{NESTED_PREFIX}{name}": array for name, array in part.row_arrays().items()}


def split_nested_row_arrays(arrays: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split `arrays` into those of the object itself and those of its component, unprefixed."""
    nested = {name: array for name, array in arrays.items() if name.startswith(NESTED_PREFIX)}
    own = {name: array for name, array in arrays.items() if name not in nested}
    return own, {name.removeprefix(NESTED_PREFIX): array for name, array in nested.items()}


class SliceableRowTransform(HasRowArrays):
    """A row transform that can be sliced and sent to where rows of X are stored."""

    @abstractmethod
    def __call__(self, U: Array, rows: slice) -> Array:
        """Return the transformed block U = (X V)[rows]."""


class RowReduction(HasRowArrays):
    """A tuple of sums over the rows of X, in which each row is one independent term."""

    @property
    def workspace_per_row(self) -> int:
        """Numbers of workspace needed per row of a block."""
        return 1

    @property
    def flops_per_row(self) -> float:
        """FLOPs per row."""
        return 0.0

    def reduced_size(self, p: int) -> int:
        """Approximate number of entries of the sums, for p features."""
        return 0

    @property
    def min_block_rows(self) -> int:
        """Smallest block for which a call costs much more than adding its result to the total."""
        return 256

    @abstractmethod
    def __call__(self, X: Array) -> tuple[Array, ...]:
        """Return the sums over a dense float64 block of rows, in newly allocated arrays."""


@dataclass(eq=False)
class AffineRowTransform(SliceableRowTransform):
    """The row transform u -> post (scale u - shift), which compiled loops apply themselves.

    Weights, centring and residuals have this form, and need no Python call from inside a pass.
    `scale` and `post` have shape (n,). `shift` has the shape of U: (n,) for one column, (n, k) for
    k. The pass fills `row_output` with scale u - shift, so that sums over it are consistent with
    the product that the pass returns. An out-of-core storage fills in `squared_norms` only, the
    column sums of squares of `row_output`, unless `keep_rows` is true.
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
        """Build the transform in float64; a scalar `scale` or `post` applies to all rows."""
        n = len(shift)
        return cls(
            _broadcast_rows(scale, n),
            np.asarray(shift, np.float64),
            _broadcast_rows(post, n),
            keep_rows,
        )

    @classmethod
    def identity(cls, shape: tuple[int, ...]) -> AffineRowTransform:
        """Return the transform u -> u, for U of the given shape."""
        return cls.from_values(1.0, np.broadcast_to(np.float64(0.0), shape), 1.0)

    @property
    def row_output(self) -> Array:
        """The values scale u - shift of the last pass, with the shape of U."""
        if self._row_output is None and self._squared_norms is not None:
            raise AssertionError("rows lie elsewhere, and only sums of squares were asked for")
        if self._row_output is None:
            self._row_output = np.empty(self.shift.shape)
        return self._row_output

    @property
    def squared_norms(self) -> Array:
        """Column sums of the squares of `row_output`."""
        if self._squared_norms is None:
            self._squared_norms = np.einsum("i...,i...->...", self.row_output, self.row_output)
        return self._squared_norms

    def set_row_output(self, squares: Array, row_output: Array | None) -> None:
        """Set the results of a pass that ran elsewhere: squared norms and, if kept, the rows."""
        self._squared_norms, self._row_output = squares, row_output

    @property
    def kernel_arguments(self) -> tuple[Array, Array, Array, Array]:
        """Contiguous (scale, shift, post, row_output), as the compiled kernels expect them."""
        self._squared_norms = None
        inputs = (np.ascontiguousarray(a) for a in (self.scale, self.shift, self.post))
        return *inputs, self.row_output  # type: ignore[return-value]

    def row_arrays(self) -> dict[str, Any]:
        """Return scale, shift and post."""
        return {"scale": self.scale, "shift": self.shift, "post": self.post}

    def with_row_arrays(self, arrays: dict[str, Any]) -> Self:
        """Return the transform of a subset of the rows."""
        return type(self)(**arrays, keep_rows=self.keep_rows)

    def __call__(self, U: Array, rows: slice) -> Array:
        """Transform the block U of `rows`, and store scale u - shift in `row_output`."""
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
    """The row transform u -> mask (u - shift), where each column of U belongs to one split.

    `membership` describes the training sets, as small integers: (n,), the split that holds the row
    out; or (n, n_splits), the multiplicity of the row in each training set. The mask is this
    multiplicity times the weight of the row. `column_splits`, (k,), is the split of each column of
    U, and `column_shifts` its shift.
    """

    membership: NDArray[Any]
    weights: Array
    column_splits: NDArray[np.intp]
    column_shifts: Array

    def row_arrays(self) -> dict[str, Any]:
        """Return the membership and the weights."""
        return {"membership": self.membership, "weights": self.weights}

    def with_row_arrays(self, arrays: dict[str, Any]) -> Self:
        """Return the mask of a subset of the rows."""
        return replace(self, **arrays)

    def __call__(self, U: Array, rows: slice) -> Array:
        """Return mask (U - shift) for the block U of `rows`."""
        U = U - self.column_shifts
        U *= training_multiplicity(self.membership[rows], self.column_splits)
        U *= self.weights[rows, None]
        return U


def training_multiplicity(training: NDArray[Any], splits: NDArray[np.intp]) -> Array:
    """Return the multiplicity of each row in the training sets of `splits`, (n_rows, len(splits)).

    `training` has the format of `FoldMask.membership`.
    """
    if training.ndim == 1:
        return np.asarray(training[:, None] != splits)
    return np.asarray(training[:, splits])


def _broadcast_rows(values: Array | float, n: int) -> Array:
    if isinstance(values, float):
        return broadcast_scalar(n, values)
    return np.asarray(values, np.float64)
