"""Centring, scaling, weighting and low-rank corrections, never materialised."""

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

# Up to this many products of columns are cheap enough to do without BLAS.
MAX_EINSUM_PRODUCTS = 8


class AffineDesign(Design):
    """X~ = diag(row_scale) X diag(col_scale) - left right', as arithmetic around the products of X.

    An affine design over an affine design is folded into one, so `storage` always holds numbers.
    A product with X~ costs one pass over X and O(rank (n + p)) on top.
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
        """sqrt(weights) * (X - 1 shift') * diag(scale)."""
        design = as_design(design)
        n, p = design.shape
        root = None if weights is None else np.sqrt(_check_weights(weights, n))
        columns = _check_vector(scale, "scale", p)
        shifts = _check_vector(shift, "shift", p)
        if shifts is None:
            return cls(design, AffineMap(root, columns))
        left = broadcast_scalar(n) if root is None else root
        return cls(
            design, AffineMap(root, columns, left[:, None], scale_rows(shifts, columns)[:, None])
        )

    @classmethod
    def centered(cls, design: Any, weights: ArrayLike | None = None) -> AffineDesign:
        """sqrt(weights) * (X - the weighted mean of its rows); one pass for the mean."""
        design = as_design(design)
        w = (
            np.ones(design.shape[0])
            if weights is None
            else _check_weights(weights, design.shape[0])
        )
        return cls.standardized(design, shift=design.rmatmat(w / w.sum()), weights=weights)

    @classmethod
    def low_rank_corrected(cls, design: Any, left: Any, right: Any) -> AffineDesign:
        """X - left right', a low-rank correction."""
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
        """X~ V, one pass."""
        V, dtype = self._check_right_operand(V)
        U = self.storage.matmat(scale_rows(V, self.affine.col_scale))
        return self._finish_rows(U, slice(None), self._right_product(V)).astype(dtype, copy=False)

    def rmatmat(self, U: Array) -> Array:
        """X~'U, one pass."""
        U, dtype = self._check_left_operand(U)
        sums = None if self.affine.left is None else self.affine.left.T @ U
        V = self.storage.rmatmat(scale_rows(U, self.affine.row_scale))
        return self._finish_columns(V, sums).astype(dtype, copy=False)

    def gram_matmat(self, V: Array, transform: RowTransform | None = None) -> Array:
        """X~' between(X~ V), one pass: the map is applied to U = X V inside the sweep."""
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
        # Blocks may arrive from several threads; summing by row keeps the result reproducible.
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
        """X~' outer(X~ V): the map of this design and the one asked for, made one."""
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
        """Some rows of X~, dense and in float64."""
        block = self.storage.take(rows)
        return self.affine.apply(block, rows, out=block)

    def subset(self, rows: NDArray[np.intp]) -> AffineDesign:
        """Some rows of X~."""
        return AffineDesign(self.storage.subset(rows), self.affine.subset(rows))

    def map_rows(self, function: Callable[[Array], Array]) -> Array:
        """function(rows of X~), one pass."""
        if self.storage.is_out_of_core:
            return self.storage.affine_map_rows(self.affine, function)
        return super().map_rows(function)

    def reduce_rows(self, sums: RowReduction) -> tuple[Array, ...]:
        """What all rows of X~ add up to, one pass."""
        if self.storage.is_out_of_core:
            return self.storage.affine_reduce_rows(self.affine, sums)
        return super().reduce_rows(sums)

    def gram(self, dtype: DTypeLike | None = None) -> Array:
        """X~'X~, one pass."""
        return self.storage.affine_gram(self.affine, dtype)

    def row_gram(self, dtype: DTypeLike | None = None) -> Array:
        """X~X~', one pass."""
        return self.storage.affine_row_gram(self.affine, dtype)

    @property
    def row_gram_passes(self) -> float:
        """As the storage's."""
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
        """right' V."""
        right = self.affine.right
        return np.zeros((0, *V.shape[1:]), V.dtype) if right is None else _inner(right, V)

    def _finish_rows(self, U: Array, rows: slice, low: Array) -> Array:
        """diag(row_scale) U - left low, on `rows`."""
        U = scale_rows(U, _slice_scale(self.affine.row_scale, rows))
        return U if self.affine.left is None else U - self.affine.left[rows] @ low

    def _finish_columns(self, V: Array, sums: Array | None) -> Array:
        """diag(col_scale) V - right sums."""
        V = scale_rows(V, self.affine.col_scale)
        if self.affine.right is None or sums is None:
            return V
        return V - _outer(self.affine.right, sums)


def _inner(A: Array, B: Array) -> Array:
    """A'B. For thin factors not by BLAS: its threads would spin on, on the cores of our loops."""
    thin = A.shape[1] * (B.shape[1] if B.ndim == 2 else 1) <= MAX_EINSUM_PRODUCTS
    return np.einsum("ik,i...->k...", A, B) if thin else A.T @ B


def _outer(A: Array, B: Array) -> Array:
    """A B, likewise."""
    thin = A.shape[1] == 1
    return A * B if thin and B.ndim == 2 else A[:, 0] * B[0] if thin else A @ B


def storage_and_map(design: Design) -> tuple[Storage, AffineMap]:
    """The storage under `design`, and the one affine map laid over it."""
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
