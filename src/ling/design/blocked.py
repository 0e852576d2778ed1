"""Storages whose rows lie in blocks: on disk, or on other machines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ling._typing import Array
from ling.design.affine_map import AffineMap
from ling.design.arrays import FLOAT64_MAX
from ling.design.base import DenseDefaults
from ling.design.block_operations import (
    BlockOperation,
    BlockResult,
    CopyRows,
    FindNonfinite,
    Gram,
    GramMatmat,
    KernelBlock,
    MapRows,
    Matmat,
    Moments,
    ReduceRows,
    Rmatmat,
)
from ling.design.row_transform import AffineRowTransform, RowReduction, RowTransform
from ling.linalg.gram import form_gram

# Rows that are multiplied with all others at a time, in bytes.
ROW_GRAM_BLOCK_BYTES = 2**27


class BlockedStorage(DenseDefaults):
    """Every product is an operation on blocks of rows, done where they lie; one pass each."""

    @property
    def fingerprint(self) -> str:
        """Something that is another if the data is, as far as that can be told."""
        return ""

    @abstractmethod
    def run(self, operation: BlockOperation) -> BlockResult:
        """What all blocks give together."""

    @abstractmethod
    def subset(self, rows: NDArray[np.intp]) -> BlockedStorage:
        """Some rows, in ascending order."""

    def matmat(self, V: Array) -> Array:
        """X V, one pass."""
        V, dtype = self._check_right_operand(V)
        found = self.run(Matmat(V)).per_row
        return found[0] if found else np.zeros((0, *V.shape[1:]), dtype)

    def predictions(
        self, V: Array, constant: Any, finish: Callable[[Array], Any] | None = None
    ) -> Any:
        """finish(X V + constant), one pass; an error where numbers are not finite."""
        found = super().predictions(V, constant)
        if not np.isfinite(found).all():
            self.check_finite()
        return found if finish is None else finish(found)

    def rmatmat(self, U: Array) -> Array:
        """X'U, one pass."""
        U, dtype = self._check_left_operand(U)
        return self._run_reduced(Rmatmat(U), (self.shape[1], *U.shape[1:]), dtype)

    def gram_matmat(self, V: Array, transform: RowTransform | None = None) -> Array:
        """X' between(X V), one pass."""
        V, _ = self._check_right_operand(V)
        self._check_affine_transform(V, transform)
        return self.affine_gram_matmat(AffineMap(), V, transform)

    def affine_gram_matmat(
        self, affine: AffineMap, V: Array, transform: RowTransform | None
    ) -> Array:
        """X~' between(X~ V), one pass: the map and `transform` go to where the rows are."""
        found = self.run(GramMatmat(affine, V, transform))
        if isinstance(transform, AffineRowTransform) and found.reduced:
            transform.set_row_output(
                found.reduced[1], found.per_row[0] if transform.keep_rows else None
            )
        return found.reduced[0] if found.reduced else np.zeros_like(V)

    def affine_map_rows(self, affine: AffineMap, function: Callable[[Array], Array]) -> Array:
        """function(rows of X~), one pass."""
        found = self.run(MapRows(affine, function)).per_row
        return found[0] if found else function(np.zeros((0, self.shape[1])))

    def map_rows(self, function: Callable[[Array], Array]) -> Array:
        """function(rows), one pass."""
        return self.affine_map_rows(AffineMap(), function)

    def affine_reduce_rows(self, affine: AffineMap, sums: RowReduction) -> tuple[Array, ...]:
        """What all rows of X~ add up to, one pass: `sums` goes to where they are."""
        found = self.run(ReduceRows(affine, sums)).reduced
        return found or sums.take_rows(slice(0, 0))(np.zeros((0, self.shape[1])))

    def reduce_rows(self, sums: RowReduction) -> tuple[Array, ...]:
        """What all rows add up to, one pass."""
        return self.affine_reduce_rows(AffineMap(), sums)

    def affine_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """X~'X~, one pass."""
        p = self.shape[1]
        wanted = self.dtype if dtype is None else np.dtype(dtype)
        return self._run_reduced(Gram(affine, wanted), (p, p), wanted)

    @property
    def row_gram_passes(self) -> float:
        """One to hold all rows or, if they are too many, one more for each part of them."""
        n, p = self.shape
        times = float(np.ceil(8.0 * n * p / ROW_GRAM_BLOCK_BYTES))
        return 1.0 if times <= 1 else 1.0 + times

    def affine_row_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """X~X~', as many rows at a time as can be held, against all: a pass for each time."""
        n, p = self.shape
        wanted = self.dtype if dtype is None else np.dtype(dtype)
        step = max(1, ROW_GRAM_BLOCK_BYTES // (8 * max(1, p)))
        K = np.empty((n, n), wanted)
        for first in range(0, n, step):
            held = np.arange(first, min(first + step, n))
            rows = affine.apply(self.take(held), held).astype(wanted, copy=False)
            if len(held) == n:
                return form_gram(rows.T)
            K[:, held] = self.run(KernelBlock(affine, rows, wanted)).per_row[0]
        return (K + K.T) / 2

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows, in float64."""
        if not len(rows):
            return np.zeros((0, self.shape[1]))
        distinct, back = np.unique(rows, return_inverse=True)
        return self.subset(distinct).run(CopyRows()).per_row[0][back]

    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Column sums of weights x, X'U, and column sums of weights x^2; one pass."""
        found = self.run(Moments(weights, U)).reduced
        if not found:
            p = self.shape[1]
            return np.zeros(p), np.zeros((p, U.shape[1])), np.zeros(p)
        sums, products, squares = found
        return sums, products, squares

    def find_nonfinite(self, limit: float = FLOAT64_MAX) -> tuple[int, int] | None:
        """Row and column of the first number that is NaN or, in size, above `limit`."""
        found = self.run(FindNonfinite(limit)).per_row
        if not found or not len(found[0]):
            return None
        return int(found[0][0, 0]), int(found[0][0, 1])

    @property
    def is_out_of_core(self) -> bool:
        """That is what it is."""
        return True

    @property
    def max_compiled_columns(self) -> int:
        """Blocks are swept by compiled loops, as large arrays are."""
        return 32

    def _run_reduced(
        self, operation: BlockOperation, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Array:
        found = self.run(operation).reduced
        return found[0] if found else np.zeros(shape, dtype)
