"""Sparse storage: CSR, and every other SciPy format by one conversion to it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from ling._typing import Array
from ling.design.affine_map import AffineMap
from ling.design.arrays import FLOAT64_MAX, float_dtype, scale_rows
from ling.design.base import Storage
from ling.design.row_transform import AffineRowTransform, RowTransform
from ling.errors import WrongShape
from ling.linalg import threads
from ling.linalg.gram import mirror_upper_triangle

# A block of this many stored entries (12 bytes each) stays in a core's second-level cache.
BLOCK_ENTRIES = 2**15
# Below this many stored entries starting threads costs more than it saves.
MIN_PARALLEL_ENTRIES = 2**16
# Up to this many bytes each thread may have a Gram matrix of its own.
MAX_THREAD_GRAM_BYTES = 2**25


class SparseStorage(Storage):
    """Compressed sparse rows, read once per product by compiled loops, side by side over rows."""

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2:
            raise WrongShape(
                f"X is sparse with shape {matrix.shape}; pass two dimensions, "
                "(n_samples, n_features): X.reshape(1, -1) for one sample."
            )
        self.dtype = float_dtype(matrix.dtype)
        if matrix.format != "csr":
            # Converted first, so that entries stored twice are not added up as small integers.
            matrix = matrix.astype(self.dtype, copy=False)
        csr = sparse.csr_array(matrix)
        if csr.dtype != self.dtype:
            # Only the values are converted; the index arrays stay shared with the input.
            values = csr.data.astype(self.dtype)
            csr = sparse.csr_array((values, csr.indices, csr.indptr), shape=csr.shape)
        self.csr = csr
        self.shape = csr.shape

    @property
    def centers_rows(self) -> bool:
        """Not without making X dense."""
        return False

    def matmat(self, V: Array) -> Array:
        """X V, one pass."""
        V, _ = self._check_right_operand(V)
        return np.concatenate(
            threads.parallel_map(lambda part: self._matmat_rows(V, part), self._thread_slices())
        )

    def rmatmat(self, U: Array) -> Array:
        """X'U, one pass."""
        U, _ = self._check_left_operand(U)

        def sweep(part: slice) -> Array:
            out = np.zeros((self.shape[1], *U.shape[1:]), U.dtype)
            self._add_rmatmat(U[part], part, out)
            return out

        return threads.parallel_sum(sweep, self._thread_slices())

    def gram_matmat(self, V: Array, transform: RowTransform | None = None) -> Array:
        """X' between(X V), one pass."""
        V, _ = self._check_right_operand(V)
        V = np.ascontiguousarray(V)
        row_map = self._check_affine_transform(V, transform)
        if transform is row_map and (V.ndim == 1 or V.shape[1] == 1):
            return self._gram_matvec(V.reshape(-1), row_map).reshape(V.shape)

        def sweep(part: slice) -> Array:
            out = np.zeros_like(V, order="C")
            for rows in self._split_by_entries(part, BLOCK_ENTRIES):
                U = self._matmat_rows(V, rows)
                self._add_rmatmat(U if transform is None else transform(U, rows), rows, out)
            return out

        return threads.parallel_sum(sweep, self._thread_slices())

    def affine_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """X~'X~ from X'X and rank-one terms, X never densified.

        Where a column's mean is far above its spread, centring this way cancels: the relative error
        grows like (mean / spread)^2 times the rounding unit.
        """
        from ling.design.kernels import csr_gram_matrix

        n, p = self.shape
        wanted = self.dtype if dtype is None else np.dtype(dtype)
        left = (
            np.zeros((n, 0)) if affine.left is None else scale_rows(affine.left, affine.row_scale)
        )
        left = np.ascontiguousarray(left)

        def sweep(part: slice) -> Array:
            # X'X and, beside it, X'L: one array, so that the parts can be added up.
            out = np.zeros((p, p + left.shape[1]), wanted)
            where = part.start, part.stop
            csr_gram_matrix(*self._csr_arrays(), affine.row_scale, left, *where, out)
            return out

        # Every thread needs a Gram matrix of its own; a large one is left to a single thread.
        parts = (
            self._thread_slices()
            if p * p * wanted.itemsize <= MAX_THREAD_GRAM_BYTES
            else [slice(0, n)]
        )
        both = threads.parallel_sum(sweep, parts)
        G, XtL = mirror_upper_triangle(both[:, :p]), both[:, p:]
        if affine.left is None or affine.right is None:
            return _scale_symmetric(G, affine.col_scale)
        return _apply_low_rank_correction(G, XtL, affine.col_scale, affine.left, affine.right)

    def affine_row_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """X~X~' likewise; SciPy transposes X for it, which copies its stored entries."""
        csr: Any = self.csr if dtype is None else self.csr.astype(dtype, copy=False)
        if affine.col_scale is not None:
            csr = csr @ sparse.diags_array(affine.col_scale.astype(csr.dtype, copy=False)).tocsr()
        G = (csr @ csr.T).toarray()
        if affine.left is None or affine.right is None:
            return _scale_symmetric(G, affine.row_scale)
        return _apply_low_rank_correction(
            G, csr @ affine.right, affine.row_scale, affine.right, affine.left
        )

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows of X, dense and in float64."""
        return np.asarray(self.csr[rows].toarray(), dtype=np.float64)

    def subset(self, rows: NDArray[np.intp]) -> SparseStorage:
        """Some rows of X, copied."""
        return SparseStorage(self.csr[rows])

    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Column sums of weights x, X'U, and column sums of weights x^2, in float64; one pass."""
        sums = self.rmatmat(np.ones(self.shape[0]) if weights is None else weights)
        # One column at a time is faster here than a block whose rows lie apart.
        products = np.column_stack([self.rmatmat(np.ascontiguousarray(u)) for u in U.T])
        csr = self.csr
        if not csr.has_canonical_format:  # the square of a sum is not the sum of squares
            csr = csr.copy()
            csr.sum_duplicates()
        values = csr.data.astype(np.float64, copy=False) ** 2
        if weights is not None:
            values *= np.repeat(weights, np.diff(csr.indptr))
        squares: Array = np.bincount(csr.indices, values, self.shape[1]).astype(np.float64)
        return sums, products, squares

    def find_nonfinite(self, limit: float = FLOAT64_MAX) -> tuple[int, int] | None:
        """Row and column of the first stored number that is NaN or, in size, above `limit`."""
        bad = np.flatnonzero(~(np.abs(self.csr.data) <= np.float64(limit)))
        if not bad.size:
            return None
        row = int(np.searchsorted(self.csr.indptr, bad[0], side="right")) - 1
        return row, int(self.csr.indices[bad[0]])

    @property
    def is_dense(self) -> bool:
        """No."""
        return False

    @property
    def n_stored(self) -> int:
        """Entries that are not left out."""
        return int(self.csr.nnz)

    @property
    def matvec_flops(self) -> float:
        """2 FLOPs per stored entry."""
        return 2.0 * self.csr.nnz

    def affine_gram_flops(self, affine: AffineMap) -> float:
        """The sum of c (c + 1) over the rows, c being the stored entries of each, and the map."""
        return _triangle_flops(np.diff(self.csr.indptr)) + self._map_flops(affine, self.shape[1])

    def affine_row_gram_flops(self, affine: AffineMap) -> float:
        """The sum of c (c + 1) over the columns, and the map."""
        counts = np.bincount(self.csr.indices, minlength=self.shape[1])
        return _triangle_flops(counts) + self._map_flops(affine, self.shape[0])

    def _map_flops(self, affine: AffineMap, size: int) -> float:
        """X'L, and L R' in its two places on a Gram matrix of that size."""
        rank, scales = affine.rank, affine.n_scales
        return 2.0 * rank * self.csr.nnz + scales * self.csr.nnz + 4.0 * rank * size**2

    def _csr_arrays(self) -> tuple[Any, Any, Any]:
        return self.csr.indptr, self.csr.indices, self.csr.data

    def _gram_matvec(self, v: Array, rows: AffineRowTransform | None) -> Array:
        from ling.design.kernels import csr_gram_matvec

        mapped = [None] * 4 if rows is None else [a.reshape(-1) for a in rows.kernel_arguments]

        def sweep(part: slice) -> Array:
            out = np.zeros_like(v)
            csr_gram_matvec(*self._csr_arrays(), v, *mapped, part.start, part.stop, out)
            return out

        return threads.parallel_sum(sweep, self._thread_slices(threads.n_slices(v.nbytes)))

    def _matmat_rows(self, V: Array, rows: slice) -> Array:
        from ling.design.kernels import csr_matmat, csr_matvec

        U = np.zeros((rows.stop - rows.start, *V.shape[1:]), V.dtype)
        kernel = csr_matvec if V.ndim == 1 else csr_matmat
        kernel(*self._csr_arrays(), np.ascontiguousarray(V), rows.start, rows.stop, U)
        return U

    def _add_rmatmat(self, U: Array, rows: slice, out: Array) -> None:
        from ling.design.kernels import csr_rmatmat, csr_rmatvec

        kernel = csr_rmatvec if U.ndim == 1 else csr_rmatmat
        kernel(*self._csr_arrays(), np.ascontiguousarray(U), rows.start, rows.stop, out)

    def _thread_slices(self, n_parts: int | None = None) -> list[slice]:
        """Ranges of rows (default: one per thread) with about as many stored entries each."""
        if self.csr.nnz <= MIN_PARALLEL_ENTRIES:
            n_parts = 1
        elif n_parts is None:
            n_parts = threads.n_threads()
        return self._split_by_entries(slice(0, self.shape[0]), -(-self.csr.nnz // n_parts))

    def _split_by_entries(self, part: slice, entries: int) -> list[slice]:
        """`part` in consecutive ranges of about `entries` stored entries."""
        indptr = self.csr.indptr
        first, last = int(indptr[part.start]), int(indptr[part.stop])
        marks = np.arange(first + entries, last, max(1, entries))
        inner = np.searchsorted(indptr[part.start : part.stop + 1], marks) + part.start
        bounds = np.unique([part.start, *inner, part.stop])
        if len(bounds) == 1:
            return [part]
        return [slice(int(a), int(b)) for a, b in pairwise(bounds)]


def _triangle_flops(counts: Any) -> float:
    return float((counts.astype(np.float64) * (counts + 1)).sum())


def _scale_symmetric(G: Array, scale: Array | None) -> Array:
    """diag(scale) G diag(scale)."""
    return G if scale is None else scale_rows(scale_rows(G, scale).T, scale)


def _apply_low_rank_correction(
    G: Array, AL: Array, scale: Array | None, left: Array, right: Array
) -> Array:
    """(diag(scale) A - right left')(diag(scale) A - right left')' from G = A A' and AL = A left."""
    G = _scale_symmetric(G, scale)
    low = scale_rows(AL, scale) - right @ (left.T @ left) / 2
    # In place, some rows at a time: G may be most of the memory that there is.
    for a in range(0, len(G), 512):
        rows = slice(a, min(a + 512, len(G)))
        G[rows] -= low[rows] @ right.T
        G[rows] -= right[rows] @ low.T
    return G
