"""The affine map X -> (diag(row_scale) X - left right') diag(column_scale) of a design."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.arrays import (
    CACHED_ELEMENTS,
    FLOAT64_MAX,
    broadcast_scalar,
    n_columns,
    row_slices,
    scale_rows,
    subtract_row,
)
from ling.design.rows import per_row
from ling.errors import OptionError, Where
from ling.linalg import threads

# `inner` uses einsum instead of BLAS up to this many pairs of columns.
MAX_EINSUM_PRODUCTS = 8


@dataclass(frozen=True, eq=False)
class AffineMap:
    """The map X -> (diag(row_scale) X - left right') diag(column_scale); None means no change.

    `row_scale` is (n,), `column_scale` (p,), `left` (n, rank) and `right` (p, rank).

    With A = diag(row_scale) X - left right' and C = diag(column_scale), products and Gram matrices
    of the mapped X follow from those of A: A C V = A (C V) and (A C)'(A C) = C A'A C. A storage
    therefore never sees a column scale in `gram_matmat`, `gram` and `quantize`.
    """

    row_scale: Array | None = per_row(None)
    column_scale: Array | None = None
    left: Array | None = per_row(None)
    right: Array | None = None

    @property
    def is_identity(self) -> bool:
        """Whether the map leaves X unchanged."""
        return self.row_scale is None and self.column_scale is None and self.left is None

    @property
    def rank(self) -> int:
        """Number of columns of `left`."""
        return 0 if self.left is None else self.left.shape[1]

    @property
    def without_column_scale(self) -> AffineMap:
        """The map X -> A = diag(row_scale) X - left right'."""
        return self if self.column_scale is None else replace(self, column_scale=None)

    def as_vectors(self, shape: tuple[int, int]) -> tuple[Array, Array, Array]:
        """(row_scale, left, right) of shapes (n,), (n,) and (p,), for a map of rank 1 at most."""
        n, p = shape
        # Contiguous: a kernel is compiled again for arrays with other strides.
        scale = np.ones(n) if self.row_scale is None else np.ascontiguousarray(self.row_scale)
        if self.left is None or self.right is None:
            return scale, np.zeros(n), np.zeros(p)
        return scale, np.ascontiguousarray(self.left[:, 0]), self.right[:, 0].copy()

    @property
    def column_scale_exponents(self) -> int:
        """The ratio of the largest column scale to the smallest above 0, as a power of two."""
        if self.column_scale is None or not self.column_scale.any():
            return 0
        sizes = np.abs(self.column_scale[self.column_scale != 0])
        return int(np.frexp(sizes.max())[1] - np.frexp(sizes.min())[1])

    def split_column_scale(self, n: int) -> tuple[AffineMap, Array | None]:
        """Return a map B and scales c, between -2 and 2, with A C = B diag(c), for n rows.

        B is A times the power of two that is closest below the largest column scale. If all scales
        are of similar size, the entries of B'B are in the range of float64 wherever those of
        C A'A C are; see `column_scale_exponents`.
        """
        if self.column_scale is None:
            return self, None
        largest = float(np.abs(self.column_scale).max(initial=0.0))
        if largest == 0:
            return self.without_column_scale, self.column_scale
        unit = float(np.ldexp(1.0, int(np.frexp(largest)[1]) - 1))
        scaled = self.without_column_scale
        if unit != 1.0:
            units = broadcast_scalar(n, unit)
            scaled = replace(
                scaled,
                row_scale=_multiply_scales(self.row_scale, units),
                right=None if self.right is None else self.right * unit,
            )
        rest = self.column_scale / unit
        return scaled, None if (rest == 1.0).all() else rest

    def compose(self, after: AffineMap) -> AffineMap:
        """Return the single map that applies this map first and then `after`.

        Raises OptionError if a column has scale 0 and `after` subtracts something else than 0 from
        it: (A - left right') diag(column_scale) cannot express that.
        """
        left, right = after.left, after.right
        if left is not None and right is not None and self.column_scale is not None:
            right = _divide_rows(right, self.column_scale)
        if self.left is not None and self.right is not None:
            own_left = scale_rows(self.left, after.row_scale)
            left = own_left if left is None else np.hstack([own_left, left])
            right = self.right if right is None else np.hstack([self.right, right])
        return AffineMap(
            _multiply_scales(self.row_scale, after.row_scale),
            _multiply_scales(self.column_scale, after.column_scale),
            left,
            right,
        )

    def apply(
        self,
        block: np.ndarray[Any, Any],
        rows: slice | NDArray[np.intp],
        cols: slice = slice(None),
        out: Array | None = None,
    ) -> Array:
        """Return the mapped dense block X[rows, cols].

        The result is written to `out`, which may be `block` itself, or to a new float64 array. It
        is computed in float64, whatever the dtype of `out`: in float32 large means would cancel all
        digits.
        """
        if out is None:
            out = np.empty(block.shape)
        has_scales = self.row_scale is not None or self.column_scale is not None
        mapped = np.empty(block.shape) if has_scales and out.dtype != np.float64 else out
        if self.left is not None and self.right is not None and self.row_scale is None:
            low = self._low_rank_term(rows, cols)
            if len(low) == 1:
                subtract_row(block, low[0], mapped)
            else:
                np.subtract(block, low, out=mapped, casting="same_kind")
        else:
            if mapped is not block:
                mapped[...] = block
            if self.row_scale is not None:
                mapped *= self.row_scale[rows, None]
            if self.left is not None and self.right is not None:
                mapped -= self._low_rank_term(rows, cols)
        if self.column_scale is not None:
            mapped *= self.column_scale[cols]
        if mapped is not out:
            out[...] = mapped
        return out

    def _low_rank_term(self, rows: slice | NDArray[np.intp], cols: slice) -> Array:
        """Return (left right')[rows, cols], or its first row only if all its rows are equal."""
        assert self.left is not None
        assert self.right is not None
        left, right = self.left[rows], self.right[cols]
        if left.shape[1] == 1 and (left == left[:1]).all():
            left = left[:1]
        return left @ right.T

    def finish_rows(self, U: Array, low: Array, rows: slice = slice(None)) -> Array:
        """Return A V for some rows, from U = X V and low = `right_product(V)`."""
        scale = None if self.row_scale is None else self.row_scale[rows]
        U = scale_rows(U, scale)
        return U if self.left is None else U - self.left[rows] @ low

    def finish_columns(self, V: Array, sums: Array | None) -> Array:
        """Return A'U, from V = X' diag(row_scale) U and sums = left'U, None if `left` is None.

        V is overwritten if it is a matrix.
        """
        if self.right is None or sums is None:
            return V
        if V.ndim == 1:
            return V - outer(self.right, sums)
        return subtract_outer(V, self.right, sums)

    def right_product(self, V: Array) -> Array:
        """Return right'V, (rank,) or (rank, k); empty if there is no low-rank part."""
        return np.zeros((0, *V.shape[1:]), V.dtype) if self.right is None else inner(self.right, V)


def inner(A: Array, B: Array) -> Array:
    """Return A'B; for thin factors without BLAS.

    The threads of BLAS keep spinning after a call, and would compete with the compiled loops.
    """
    thin = A.shape[1] * n_columns(B) <= MAX_EINSUM_PRODUCTS
    return np.einsum("ik,i...->k...", A, B) if thin else A.T @ B


def outer(A: Array, B: Array) -> Array:
    """Return A B, without BLAS if A has one column (see `inner`)."""
    thin = A.shape[1] == 1
    return A * B if thin and B.ndim == 2 else A[:, 0] * B[0] if thin else A @ B


def subtract_outer(V: Array, A: Array, B: Array) -> Array:
    """Return V - A B for V (p, t), in place, in blocks of rows that stay in cache."""
    V = np.require(V, requirements="W")  # what another process has sent may be read-only
    height = max(1, CACHED_ELEMENTS // max(1, V.shape[1]))

    def sweep(part: slice) -> None:
        rows_of_V, rows_of_A = V[part], A[part]
        for rows in row_slices(len(rows_of_V), height):
            rows_of_V[rows] -= outer(rows_of_A[rows], B)

    threads.parallel_map(sweep, threads.row_parts(V))
    return V


def scale_symmetric(G: Array, scale: Array | None) -> Array:
    """Return diag(scale) G diag(scale)."""
    return G if scale is None else scale_rows(scale_rows(G, scale).T, scale)


def column_magnitudes(sizes: Array, column_scale: Array | None) -> Array:
    """Return the magnitudes of the columns of A, from those of A diag(column_scale)."""
    if column_scale is None:
        return sizes
    unused = np.full(len(sizes), FLOAT64_MAX)  # columns of scale 0 are quantised to 0
    with np.errstate(over="ignore"):
        ratio = np.divide(sizes, np.abs(column_scale), out=unused, where=column_scale != 0)
    return np.asarray(np.clip(ratio, np.finfo(np.float64).tiny, FLOAT64_MAX))


def _divide_rows(right: Array, scale: Array) -> Array:
    """Return diag(1 / scale) right; rows where both are 0 stay 0."""
    is_zero = scale == 0
    if right[is_zero].any():
        column = int(np.flatnonzero(is_zero & right.any(axis=1))[0])
        raise OptionError(
            "X",
            "was multiplied by 0, so that nothing can be subtracted from it any more",
            "shift it first",
            "leave the column out",
            where=Where(column=column),
        )
    with np.errstate(over="ignore"):
        quotient = np.asarray(right / np.where(is_zero, 1.0, scale)[:, None])
    if not np.isfinite(quotient).all():
        column = int(np.flatnonzero(~np.isfinite(quotient).all(axis=1))[0])
        raise OptionError(
            "X",
            f"was multiplied by {scale[column]:.3g}, so that a shift of the original column would "
            "overflow float64",
            "shift the column first",
            "scale it less",
            where=Where(column=column),
        )
    return quotient


def _multiply_scales(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return a * b
