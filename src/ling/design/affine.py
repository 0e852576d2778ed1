"""Designs with centring, scaling, weighting and low-rank corrections that are not materialised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ling._typing import Array
from ling.design.affine_map import AffineMap
from ling.design.arrays import as_numeric_array, broadcast_scalar, scale_rows
from ling.design.base import Design, Storage, as_design
from ling.design.row_transform import AffineRowTransform, RowReduction, RowTransform
from ling.errors import BadOption, NegativeWeight, NotFinite, WrongShape, WrongType

# `_inner` uses einsum instead of BLAS up to this many pairs of columns.
MAX_EINSUM_PRODUCTS = 8


class AffineDesign(Design):
    """The design X~ = diag(row_scale) X diag(col_scale) - left right', computed from products of X.

    An affine design of an affine design is composed into one, so `storage` is always a Storage.
    A product with X~ costs one pass over X plus O(rank (n + p)) FLOPs.
    """

    def __init__(self, design: Any, affine: AffineMap) -> None:
        storage, inner = storage_and_map(as_design(design))
        self.storage = storage
        self.affine = inner.compose(affine)
        self.shape = storage.shape
        self.dtype = storage.dtype

    @classmethod
    def standardized(
        cls,
        design: Any,
        shift: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> AffineDesign:
        """Return the design diag(sqrt(weights)) (X - 1 shift') diag(scale).

        `shift` and `scale` have shape (p,), `weights` has shape (n,); None leaves the step out.
        """
        design = as_design(design)
        n, p = design.shape
        root_weights = None if weights is None else np.sqrt(_check_weights(weights, n))
        col_scale = _check_vector(scale, "scale", p)
        col_shift = _check_vector(shift, "shift", p)
        if col_shift is None:
            return cls(design, AffineMap(root_weights, col_scale))
        left = broadcast_scalar(n) if root_weights is None else root_weights
        return cls(
            design,
            AffineMap(
                root_weights, col_scale, left[:, None], scale_rows(col_shift, col_scale)[:, None]
            ),
        )

    @classmethod
    def centered(cls, design: Any, weights: ArrayLike | None = None) -> AffineDesign:
        """Return the design diag(sqrt(weights)) (X - 1 mean'), with the weighted mean of the rows.

        Computing the mean takes one pass.
        """
        design = as_design(design)
        w = (
            np.ones(design.shape[0])
            if weights is None
            else _check_weights(weights, design.shape[0])
        )
        return cls.standardized(design, shift=design.rmatmat(w / w.sum()), weights=weights)

    @classmethod
    def low_rank_corrected(cls, design: Any, left: Any, right: Any) -> AffineDesign:
        """Return the design X - left right', with left (n, rank) and right (p, rank)."""
        design = as_design(design)
        left, right = as_numeric_array(left, "left"), as_numeric_array(right, "right")
        for name, factor, rows in zip(("left", "right"), (left, right), design.shape, strict=True):
            if factor.ndim != 2 or factor.shape != (rows, left.shape[-1] if left.ndim else 0):
                raise WrongShape(
                    f"{name} has shape {factor.shape}; for a design of shape {design.shape} pass "
                    f"({rows}, rank), with the same rank for left and right."
                )
        return cls(design, AffineMap(left=left, right=right))

    def matmat(self, V: Array) -> Array:
        """Return X~ V; one pass."""
        V, dtype = self._check_right_operand(V)
        U = self.storage.matmat(scale_rows(V, self.affine.col_scale))
        return self._finish_rows(U, slice(None), self._right_product(V)).astype(dtype, copy=False)

    def rmatmat(self, U: Array) -> Array:
        """Return X~'U; one pass."""
        U, dtype = self._check_left_operand(U)
        sums = None if self.affine.left is None else self.affine.left.T @ U
        V = self.storage.rmatmat(scale_rows(U, self.affine.row_scale))
        return self._finish_columns(V, sums).astype(dtype, copy=False)

    def gram_matmat(self, V: Array, transform: RowTransform | None = None) -> Array:
        """Return X~' transform(X~ V); one pass, which applies the map to blocks of U = X V."""
        V, dtype = self._check_right_operand(V)
        row_map = self._check_affine_transform(V, transform)
        if self.storage.is_out_of_core:
            return self.storage.affine_gram_matmat(self.affine, V, transform)
        columns = 1 if V.ndim == 1 else V.shape[1]
        if transform is row_map and columns <= max(V.ndim == 1, self.storage.max_compiled_columns):
            shape = (self.shape[0], *V.shape[1:])
            return self._gram_with_transform(V, row_map or AffineRowTransform.identity(shape))
        low = self._right_product(V)
        left = self.affine.left
        # Blocks may arrive from several threads in any order. Adding them up in the order of their
        # rows makes the result reproducible.
        partial: dict[int, Array] = {}

        def inner(U: Array, rows: slice) -> Array:
            U = self._finish_rows(U, rows, low).astype(dtype, copy=False)
            if transform is not None:
                U = transform(U, rows)
            if left is not None:
                partial[rows.start] = left[rows].T @ U
            return scale_rows(U, _slice_scale(self.affine.row_scale, rows))

        out = self.storage.gram_matmat(scale_rows(V, self.affine.col_scale), inner)
        sums = sum((partial[start] for start in sorted(partial)), np.zeros_like(low))
        return self._finish_columns(out, sums).astype(dtype, copy=False)

    def _gram_with_transform(self, V: Array, outer: AffineRowTransform) -> Array:
        """Return X~' outer(X~ V), with `outer` and this design's map merged into one transform."""
        low, s = self._right_product(V), self.affine.row_scale
        left = self.affine.left
        shift = outer.shift
        if left is not None:
            shift = shift + _outer(scale_rows(left, outer.scale), low).reshape(shift.shape)
        inner = AffineRowTransform(
            scale_rows(outer.scale, s),
            shift,
            scale_rows(outer.post, s),
            _row_output=outer.row_output,
        )
        out = self.storage.gram_matmat(scale_rows(V, self.affine.col_scale), inner)
        sums = None
        if left is not None:
            sums = _inner(left, scale_rows(outer.row_output, outer.post)).reshape(low.shape)
        return self._finish_columns(out, sums).astype(V.dtype, copy=False)

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return the given rows of X~ as a dense float64 array."""
        block = self.storage.take(rows)
        return self.affine.apply(block, rows, out=block)

    def subset(self, rows: NDArray[np.intp]) -> AffineDesign:
        """Return the design of the given rows of X~."""
        return AffineDesign(self.storage.subset(rows), self.affine.subset(rows))

    def map_rows(self, function: Callable[[Array], Array]) -> Array:
        """Apply `function` to blocks of rows of X~ and concatenate the results; one pass."""
        if self.storage.is_out_of_core:
            return self.storage.affine_map_rows(self.affine, function)
        return super().map_rows(function)

    def reduce_rows(self, sums: RowReduction) -> tuple[Array, ...]:
        """Return the arrays of `sums`, added up over all rows of X~; one pass."""
        if self.storage.is_out_of_core:
            return self.storage.affine_reduce_rows(self.affine, sums)
        return super().reduce_rows(sums)

    def gram(self, dtype: DTypeLike | None = None) -> Array:
        """Return X~'X~, (p, p); one pass."""
        return self.storage.affine_gram(self.affine, dtype)

    def row_gram(self, dtype: DTypeLike | None = None) -> Array:
        """Return X~X~', (n, n); one pass."""
        return self.storage.affine_row_gram(self.affine, dtype)

    @property
    def row_gram_passes(self) -> float:
        """Number of passes that the storage needs for X~X~'."""
        return self.storage.row_gram_passes

    @property
    def matvec_flops(self) -> float:
        """FLOPs of X~ v."""
        n, p = self.shape
        scales = n * (self.affine.row_scale is not None) + p * (self.affine.col_scale is not None)
        return self.storage.matvec_flops + scales + 2.0 * self.affine.rank * (n + p)

    @property
    def gram_flops(self) -> float:
        """FLOPs of X~'X~."""
        return self.storage.affine_gram_flops(self.affine)

    @property
    def row_gram_flops(self) -> float:
        """FLOPs of X~X~'."""
        return self.storage.affine_row_gram_flops(self.affine)

    def _right_product(self, V: Array) -> Array:
        """Return right' V, (rank,) or (rank, k); empty if there is no low-rank part."""
        right = self.affine.right
        return np.zeros((0, *V.shape[1:]), V.dtype) if right is None else _inner(right, V)

    def _finish_rows(self, U: Array, rows: slice, low: Array) -> Array:
        """Return diag(row_scale) U - left low for the given rows, with low = right' V."""
        U = scale_rows(U, _slice_scale(self.affine.row_scale, rows))
        return U if self.affine.left is None else U - self.affine.left[rows] @ low

    def _finish_columns(self, V: Array, sums: Array | None) -> Array:
        """Return diag(col_scale) V - right sums, with sums = left' U."""
        V = scale_rows(V, self.affine.col_scale)
        if self.affine.right is None or sums is None:
            return V
        return V - _outer(self.affine.right, sums)


def _inner(A: Array, B: Array) -> Array:
    """Return A'B; for thin factors without BLAS.

    The threads of BLAS keep spinning after a call, and would compete with the compiled loops.
    """
    thin = A.shape[1] * (B.shape[1] if B.ndim == 2 else 1) <= MAX_EINSUM_PRODUCTS
    return np.einsum("ik,i...->k...", A, B) if thin else A.T @ B


def _outer(A: Array, B: Array) -> Array:
    """Return A B, without BLAS if A has one column (see `_inner`)."""
    thin = A.shape[1] == 1
    return A * B if thin and B.ndim == 2 else A[:, 0] * B[0] if thin else A @ B


def storage_and_map(design: Design) -> tuple[Storage, AffineMap]:
    """Return the storage that `design` wraps and the affine map that is applied to it."""
    if isinstance(design, AffineDesign):
        return design.storage, design.affine
    if isinstance(design, Storage):
        return design, AffineMap()
    raise WrongType(
        f"{type(design).__name__} cannot be centred, scaled or corrected; "
        "wrap the array, sparse matrix or storage that it holds, and put the wrapper around that."
    )


def _slice_scale(scale: Array | None, rows: slice) -> Array | None:
    return None if scale is None else scale[rows]


def _check_vector(values: ArrayLike | None, name: str, length: int) -> Array | None:
    if values is None:
        return None
    vector: Array = as_numeric_array(values, name).astype(np.float64)
    if vector.shape != (length,):
        raise WrongShape(f"{name} has shape {vector.shape}; pass one number each, ({length},).")
    if not np.isfinite(vector).all():
        at = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise NotFinite(f"{name}[{at}] is {vector[at]}; pass finite numbers only.")
    return vector


def _check_weights(values: Any, length: int) -> Array:
    weights = _check_vector(values, "weights", length)
    assert weights is not None
    if (weights < 0).any():
        at = int(np.flatnonzero(weights < 0)[0])
        raise NegativeWeight(
            f"weights[{at}] is {weights[at]}; weights must be >= 0. "
            "To leave a row out, give it weight 0."
        )
    if not weights.any():
        raise BadOption("weights are all 0; give at least one row a weight above 0.")
    return weights
