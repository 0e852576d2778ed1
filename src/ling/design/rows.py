"""Arrays with one row per sample, and functions of the rows of X that carry such arrays.

A dataclass declares its per-sample arrays with `per_row()`. `row_arrays`, `with_row_arrays` and
`take_rows` then work on it, however deeply it is nested. A storage uses them to slice the arguments
of a call for one block of rows, and to send the slices to where the block is stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.arrays import broadcast_scalar, constant_array, scale_rows
from ling.linalg.gram import form_gram

PER_ROW = "per_row"
T = TypeVar("T")


def per_row(default: Any = MISSING) -> Any:
    """Declare a dataclass field whose array, or tuple of arrays, has one row per sample."""
    return field(default=default, metadata={PER_ROW: True})


def row_arrays(value: Any) -> dict[str, NDArray[Any]]:
    """Return all arrays within `value` that have one row per sample, by the path to them.

    `value` is a dataclass, or a tuple of dataclasses and other values.
    """
    found: dict[str, NDArray[Any]] = {}
    for name, part, is_per_row in _parts(value):
        if is_per_row and isinstance(part, np.ndarray):
            found[name] = part
        elif is_per_row and isinstance(part, tuple):
            arrays = ((f"{name}.{i}", array) for i, array in enumerate(part))
            found.update((path, array) for path, array in arrays if array is not None)
        else:
            nested = row_arrays(part)
            found.update((f"{name}.{path}", array) for path, array in nested.items())
    return found


def with_row_arrays(value: T, arrays: Mapping[str, NDArray[Any]]) -> T:
    """Return a copy of `value` with other per-sample arrays, named as by `row_arrays`."""
    changed: dict[str, Any] = {}
    for name, part, is_per_row in _parts(value):
        prefix = f"{name}."
        nested = {
            path.removeprefix(prefix): a for path, a in arrays.items() if path.startswith(prefix)
        }
        if name in arrays:
            changed[name] = arrays[name]
        elif nested and is_per_row:
            changed[name] = tuple(nested.get(str(i)) for i in range(len(part)))
        elif nested:
            changed[name] = with_row_arrays(part, nested)
    if not changed:
        return value
    if isinstance(value, tuple):
        return tuple(changed.get(str(i), part) for i, part in enumerate(value))  # type: ignore[return-value]
    return replace(value, **changed)  # type: ignore[type-var]


def take_rows(value: T, rows: slice | NDArray[Any]) -> T:
    """Return `value` for some of its rows, given as a slice, indices or a mask.

    `value` is an array or anything that `row_arrays` accepts. An array that repeats one row without
    storing it again stays so.
    """
    if isinstance(value, np.ndarray):
        if value.strides[0] == 0 and not isinstance(rows, slice):
            count = int(np.count_nonzero(rows)) if rows.dtype == np.bool_ else len(rows)
            return np.broadcast_to(value[:1], (count, *value.shape[1:]))  # type: ignore[return-value]
        return value[rows]  # type: ignore[return-value]
    return with_row_arrays(
        value, {name: take_rows(array, rows) for name, array in row_arrays(value).items()}
    )


def _parts(value: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield (name, value, whether it is declared by `per_row`) for fields or items of `value`."""
    if isinstance(value, tuple):
        yield from ((str(i), item, False) for i, item in enumerate(value))
    elif is_dataclass(value):
        for item in fields(value):
            yield item.name, getattr(value, item.name), bool(item.metadata.get(PER_ROW))


class RowTransform(ABC):
    """A function that is applied to the rows of U = X V inside X' transform(X V).

    Implementations are dataclasses, with per-sample arrays declared by `per_row`.
    """

    @abstractmethod
    def __call__(self, U: Array) -> Array:
        """Return the transformed rows; U may be modified. Several threads call it at once."""


@dataclass(frozen=True, eq=False)
class AffineRowTransform(RowTransform):
    """The row transform u -> post (scale u - shift), which compiled loops apply themselves.

    Weights, centring and residuals have this form, and need no Python call from inside a pass.
    `scale` and `post` have shape (n,). `shift` has the shape of U: (n,) for one column, (n, k) for
    k columns.
    """

    scale: Array = per_row()
    shift: Array = per_row()
    post: Array = per_row()

    @classmethod
    def from_values(
        cls, scale: Array | float, shift: Array, post: Array | float
    ) -> AffineRowTransform:
        """Build the transform in float64; a scalar `scale` or `post` applies to all rows."""
        n = len(shift)
        return cls(
            _broadcast_rows(scale, n), np.asarray(shift, np.float64), _broadcast_rows(post, n)
        )

    @classmethod
    def identity(cls, shape: tuple[int, ...]) -> AffineRowTransform:
        """Return the transform u -> u, for U of the given shape."""
        return cls.from_values(1.0, constant_array(shape, 0.0), 1.0)

    @classmethod
    def negative_residual(cls, Y: Array) -> AffineRowTransform:
        """Return the transform u -> -(u - y), whose X' transform(X W) is X'(Y - X W)."""
        return cls.from_values(1.0, Y, -1.0)

    def before_post(self, U: Array) -> Array:
        """Return scale u - shift, with the shape of `shift`."""
        rows = scale_rows(U, self.scale).astype(np.float64, copy=False).reshape(self.shift.shape)
        return np.asarray(rows - self.shift)

    def __call__(self, U: Array) -> Array:
        """Return post (scale u - shift)."""
        transformed = scale_rows(self.before_post(U), self.post)
        return transformed.astype(U.dtype, copy=False).reshape(U.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldMask(RowTransform):
    """The row transform u -> mask (u - shift), where each column of U belongs to one split.

    `membership` describes the training sets, as small integers: (n,), the split that holds the row
    out; or (n, n_splits), the multiplicity of the row in each training set. The mask is this
    multiplicity times the weight of the row. `column_splits`, (k,), is the split of each column of
    U, and `column_shifts` its shift.
    """

    membership: NDArray[Any] = per_row()
    weights: Array = per_row()
    column_splits: NDArray[np.intp]
    column_shifts: Array

    def __call__(self, U: Array) -> Array:
        """Return mask (U - shift)."""
        U = U - self.column_shifts
        U *= training_multiplicity(self.membership, self.column_splits)
        U *= self.weights[:, None]
        return U


def training_multiplicity(training: NDArray[Any], splits: NDArray[np.intp]) -> Array:
    """Return the multiplicity of each row in the training sets of `splits`, (n_rows, len(splits)).

    `training` has the format of `FoldMask.membership`.
    """
    if training.ndim == 1:
        return np.asarray(training[:, None] != splits)
    return np.asarray(training[:, splits])


class GeneratedColumns(ABC):
    """The columns C of X'C, computed block by block from arrays that take less memory than C.

    Implementations are dataclasses, with per-sample arrays declared by `per_row`.
    """

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Number of columns of C."""

    @abstractmethod
    def __call__(self) -> Array:
        """Return C for all rows of this object, (n_rows, n_columns)."""


class RowReduction(ABC):
    """A tuple of sums over the rows of X, in which each row is one independent term.

    Implementations are dataclasses, with per-sample arrays declared by `per_row`.
    """

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


@dataclass(frozen=True)
class GramSum(RowReduction):
    """The Gram matrix of the rows."""

    def reduced_size(self, p: int) -> int:
        """Entries of the Gram matrix."""
        return p * p

    def __call__(self, X: Array) -> tuple[Array, ...]:
        """Return X'X of the block, (p, p)."""
        return (form_gram(X),)


def _broadcast_rows(values: Array | float, n: int) -> Array:
    if isinstance(values, float):
        return broadcast_scalar(n, values)
    return np.asarray(values, np.float64)
