"""Base class of storages whose rows are stored in blocks, on disk or on other machines."""

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

# Bytes of the float64 rows that `affine_row_gram` holds and multiplies with all rows in one pass.
ROW_GRAM_BLOCK_BYTES = 2**27


class BlockedStorage(DenseDefaults):
    """A storage that computes each product by running an operation on every block of rows.

    An operation runs where the block is stored, and takes one pass.
    """

    @property
    def fingerprint(self) -> str:
        """A fingerprint that changes if the data changes, as far as that can be detected."""
        return ""

    @abstractmethod
    def run(self, operation: BlockOperation) -> BlockResult:
        """Run the operation on all blocks and return the merged result; one pass."""

    @abstractmethod
    def subset(self, rows: NDArray[np.intp]) -> BlockedStorage:
        """Return the storage of the given rows, which are in ascending order."""

    def matmat(self, V: Array) -> Array:
        """Return X V; one pass."""
        V, dtype = self._check_right_operand(V)
        blocks = self.run(Matmat(V)).per_row
        return blocks[0] if blocks else np.zeros((0, *V.shape[1:]), dtype)

    def predictions(
        self, V: Array, constant: Any, finish: Callable[[Array], Any] | None = None
    ) -> Any:
        """Return finish(X V + constant); one pass.

        If a prediction is not finite, X is checked and NotFinite names the first bad entry.
        """
        predicted = super().predictions(V, constant)
        if not np.isfinite(predicted).all():
            self.check_finite()
        return predicted if finish is None else finish(predicted)

    def rmatmat(self, U: Array) -> Array:
        """Return X'U; one pass."""
        U, dtype = self._check_left_operand(U)
        return self._run_reduced(Rmatmat(U), (self.shape[1], *U.shape[1:]), dtype)

    def gram_matmat(self, V: Array, transform: RowTransform | None = None) -> Array:
        """Return X' transform(X V); one pass."""
        V, _ = self._check_right_operand(V)
        self._check_affine_transform(V, transform)
        return self.affine_gram_matmat(AffineMap(), V, transform)

    def affine_gram_matmat(
        self, affine: AffineMap, V: Array, transform: RowTransform | None
    ) -> Array:
        """Return X~' transform(X~ V); one pass. Map and transform are sent to the blocks."""
        result = self.run(GramMatmat(affine, V, transform))
        if isinstance(transform, AffineRowTransform) and result.reduced:
            transform.set_row_output(
                result.reduced[1], result.per_row[0] if transform.keep_rows else None
            )
        return result.reduced[0] if result.reduced else np.zeros_like(V)

    def affine_map_rows(self, affine: AffineMap, function: Callable[[Array], Array]) -> Array:
        """Apply `function` to blocks of rows of X~ and concatenate the results; one pass."""
        mapped = self.run(MapRows(affine, function)).per_row
        return mapped[0] if mapped else function(np.zeros((0, self.shape[1])))

    def map_rows(self, function: Callable[[Array], Array]) -> Array:
        """Apply `function` to blocks of rows and concatenate the results; one pass."""
        return self.affine_map_rows(AffineMap(), function)

    def affine_reduce_rows(self, affine: AffineMap, sums: RowReduction) -> tuple[Array, ...]:
        """Return `sums` added up over all rows of X~; one pass. `sums` is sent to the blocks."""
        totals = self.run(ReduceRows(affine, sums)).reduced
        return totals or sums.take_rows(slice(0, 0))(np.zeros((0, self.shape[1])))

    def reduce_rows(self, sums: RowReduction) -> tuple[Array, ...]:
        """Return the arrays of `sums`, added up over all rows; one pass."""
        return self.affine_reduce_rows(AffineMap(), sums)

    def affine_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return X~'X~, (p, p); one pass."""
        p = self.shape[1]
        out_dtype = self.dtype if dtype is None else np.dtype(dtype)
        return self._run_reduced(Gram(affine, out_dtype), (p, p), out_dtype)

    @property
    def row_gram_passes(self) -> float:
        """One if all rows fit into ROW_GRAM_BLOCK_BYTES, else one plus one per group of rows."""
        n, p = self.shape
        n_groups = float(np.ceil(8.0 * n * p / ROW_GRAM_BLOCK_BYTES))
        return 1.0 if n_groups <= 1 else 1.0 + n_groups

    def affine_row_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return X~X~', (n, n): groups of rows are multiplied with all rows, a pass per group."""
        n, p = self.shape
        out_dtype = self.dtype if dtype is None else np.dtype(dtype)
        step = max(1, ROW_GRAM_BLOCK_BYTES // (8 * max(1, p)))
        K = np.empty((n, n), out_dtype)
        for first in range(0, n, step):
            indices = np.arange(first, min(first + step, n))
            rows = affine.apply(self.take(indices), indices).astype(out_dtype, copy=False)
            if len(indices) == n:
                return form_gram(rows.T)
            K[:, indices] = self.run(KernelBlock(affine, rows, out_dtype)).per_row[0]
        return (K + K.T) / 2

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return the given rows in float64; they may repeat and be in any order."""
        if not len(rows):
            return np.zeros((0, self.shape[1]))
        distinct, inverse = np.unique(rows, return_inverse=True)
        return self.subset(distinct).run(CopyRows()).per_row[0][inverse]

    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Return column sums of weights x, X'U, and column sums of weights x^2; one pass."""
        reduced = self.run(Moments(weights, U)).reduced
        if not reduced:
            p = self.shape[1]
            return np.zeros(p), np.zeros((p, U.shape[1])), np.zeros(p)
        sums, products, squares = reduced
        return sums, products, squares

    def find_nonfinite(self, limit: float = FLOAT64_MAX) -> tuple[int, int] | None:
        """Return (row, column) of the first entry that is NaN or exceeds `limit` in magnitude."""
        positions = self.run(FindNonfinite(limit)).per_row
        if not positions or not len(positions[0]):
            return None
        return int(positions[0][0, 0]), int(positions[0][0, 1])

    @property
    def is_out_of_core(self) -> bool:
        """True: X is stored in blocks."""
        return True

    @property
    def max_compiled_columns(self) -> int:
        """32, as for large dense arrays, because blocks are processed by compiled loops."""
        return 32

    def _run_reduced(
        self, operation: BlockOperation, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> Array:
        totals = self.run(operation).reduced
        return totals[0] if totals else np.zeros(shape, dtype)
