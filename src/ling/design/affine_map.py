"""The affine map X -> diag(row_scale) X diag(col_scale) - left right' of a design."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.arrays import scale_rows, take_rows


@dataclass(frozen=True, eq=False)
class AffineMap:
    """The map X -> diag(row_scale) X diag(col_scale) - left right'; None stands for no change.

    `row_scale` is (n,), `col_scale` (p,), `left` (n, rank) and `right` (p, rank). This form, with
    the low-rank part outside the scales, is closed under composition. It never divides, so weights
    and scales of zero need no special treatment.
    """

    row_scale: Array | None = None
    col_scale: Array | None = None
    left: Array | None = None
    right: Array | None = None

    @property
    def is_identity(self) -> bool:
        """Whether the map leaves X unchanged."""
        return self.row_scale is None and self.col_scale is None and self.left is None

    @property
    def n_scales(self) -> int:
        """Number of scales that are present, 0 to 2."""
        return (self.row_scale is not None) + (self.col_scale is not None)

    @property
    def rank(self) -> int:
        """Number of columns of `left`."""
        return 0 if self.left is None else self.left.shape[1]

    def compose(self, after: AffineMap) -> AffineMap:
        """Return the single map that applies this map first and then `after`."""
        left, right = after.left, after.right
        if self.left is not None and self.right is not None:
            scaled = scale_rows(self.left, after.row_scale), scale_rows(self.right, after.col_scale)
            left = scaled[0] if left is None else np.hstack([scaled[0], left])
            right = scaled[1] if right is None else np.hstack([scaled[1], right])
        return AffineMap(
            _multiply_scales(self.row_scale, after.row_scale),
            _multiply_scales(self.col_scale, after.col_scale),
            left,
            right,
        )

    def row_arrays(self) -> dict[str, Array]:
        """Return the arrays with one row per row of X, by name."""
        candidates = {"row_scale": self.row_scale, "left": self.left}
        return {name: array for name, array in candidates.items() if array is not None}

    def with_row_arrays(self, arrays: dict[str, Array]) -> AffineMap:
        """Return the map of a subset of the rows of X, with `arrays` as its row arrays."""
        return replace(self, **arrays)

    def subset(self, rows: slice | NDArray[np.intp]) -> AffineMap:
        """Return the map of a subset of the rows of X."""
        return self.with_row_arrays(
            {name: take_rows(a, rows) for name, a in self.row_arrays().items()}
        )

    def apply(
        self,
        block: np.ndarray[Any, Any],
        rows: slice | NDArray[np.intp],
        cols: slice = slice(None),
        out: Array | None = None,
    ) -> Array:
        """Return the mapped dense block X[rows, cols].

        The result is written to `out`, which may be `block` itself, or to a new float64 array.
        """
        if out is None:
            out = np.empty(block.shape)
        if self.left is not None and self.right is not None and self.n_scales == 0:
            np.subtract(block, self._low_rank_term(rows, cols), out=out, casting="same_kind")
            return out
        out[...] = block
        if self.col_scale is not None:
            out *= self.col_scale[cols]
        if self.row_scale is not None:
            out *= self.row_scale[rows, None]
        if self.left is not None and self.right is not None:
            out -= self._low_rank_term(rows, cols)
        return out

    def _low_rank_term(self, rows: slice | NDArray[np.intp], cols: slice) -> Array:
        """Return (left right')[rows, cols], or its first row only if all its rows are equal."""
        assert self.left is not None
        assert self.right is not None
        left, right = self.left[rows], self.right[cols]
        if left.shape[1] == 1 and (left == left[:1]).all():
            left = left[:1]
        return left @ right.T


def _multiply_scales(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return a * b
