"""Sparse storage in CSR format; other SciPy formats are converted to CSR once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from ling._typing import Array
from ling.design.affine import AffineMap, scale_symmetric
from ling.design.arrays import FLOAT64_MAX, dimensions_error, float_dtype, row_slices, scale_rows
from ling.design.cg_state import DiagonalCGState
from ling.design.rows import AffineRowTransform
from ling.design.storage import BlockFunction, MemoryStorage, kernel_arguments
from ling.design.tuning import DEFAULT_TUNING, Tuning
from ling.linalg import threads
from ling.linalg.gram import mirror_upper_triangle, parallel_sum_of_grams

# Stored entries that are copied at a time to add up duplicates. With fewer, adding up the columns
# of wide X would take longer than squaring.
MOMENT_BATCH_ENTRIES = 2**18
# Bytes of a dense block of rows in float64; it stays in cache.
DENSE_BLOCK_BYTES = 2**20


class SparseStorage(MemoryStorage):
    """A CSR matrix; compiled loops, parallel over rows, read it once per product."""

    def __init__(self, matrix: Any, *, tuning: Tuning = DEFAULT_TUNING) -> None:
        if matrix.ndim != 2:
            raise dimensions_error(matrix.shape)
        self.dtype = float_dtype(matrix.dtype)
        if matrix.format != "csr":
            # Converted before the change of format, which adds up duplicate entries: sums of small
            # integers could overflow.
            matrix = matrix.astype(self.dtype, copy=False)
        csr = sparse.csr_array(matrix)
        if csr.dtype != self.dtype:
            # Only the values are converted; the index arrays stay shared with the input.
            values = csr.data.astype(self.dtype)
            csr = sparse.csr_array((values, csr.indices, csr.indptr), shape=csr.shape)
        self.csr = csr
        self._tuning = tuning
        self.workspace_bytes = tuning.workspace_bytes
        self.shape = csr.shape
        # Ranges of rows, by their number.
        self._slices: dict[int, list[slice]] = {}

    @property
    def centers_rows(self) -> bool:
        """False: centred rows would make X dense."""
        return False

    def matmat(self, V: Array) -> Array:
        """Return X V; one pass."""
        U = np.zeros((self.shape[0], *V.shape[1:]), V.dtype)
        threads.parallel_map(lambda part: self._add_matmat(V, part, U[part]), self._thread_slices())
        return U

    def rmatmat(self, U: Array) -> Array:
        """Return X'U; one pass."""

        def sweep(part: slice) -> Array:
            out = np.zeros((self.shape[1], *U.shape[1:]), U.dtype)
            self._add_rmatmat(U[part], part, out)
            return out

        return threads.parallel_sum(sweep, self._thread_slices())

    def _gram_in_blocks(self, V: Array, function: BlockFunction | None) -> Array:
        """Return X' function(X V); one pass."""
        V = np.ascontiguousarray(V)

        def sweep(part: slice) -> Array:
            out = np.zeros_like(V, order="C")
            for rows in self._split_by_entries(part, self._tuning.block_entries):
                U = self._matmat_rows(V, rows)
                self._add_rmatmat(U if function is None else function(U, rows), rows, out)
            return out

        return threads.parallel_sum(sweep, self._thread_slices())

    def gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return A'A from X'X and low-rank terms, without making X dense.

        Centring this way cancels digits where the mean of a column is far above its spread: the
        relative error grows like (mean / spread)^2 times the unit roundoff. If few entries are
        zeros, blocks of rows are made dense, because BLAS is faster then.
        """
        from ling.design.sparse_kernels import csr_gram_matrix

        n, p = self.shape
        out_dtype = self.dtype if dtype is None else np.dtype(dtype)
        if self.n_stored > self._tuning.min_blas_density * n * p:
            blocks = partial(self._dense_blocks, affine, out_dtype)
            return parallel_sum_of_grams(blocks, n, p, out_dtype, self.workspace_bytes)
        left = (
            np.zeros((n, 0)) if affine.left is None else scale_rows(affine.left, affine.row_scale)
        )
        left = np.ascontiguousarray(left)
        # Contiguous: a kernel is compiled again for arrays with other strides.
        scale = None if affine.row_scale is None else np.ascontiguousarray(affine.row_scale)

        def sweep(part: slice) -> Array:
            # [X'X, X'L] in one array, so that the results of the threads can be added up.
            out = np.zeros((p, p + left.shape[1]), out_dtype)
            bounds = part.start, part.stop
            csr_gram_matrix(*self._csr_arrays(), scale, left, *bounds, out)
            return out

        # Every thread needs a Gram matrix of its own; if it is large, a single thread is used.
        parts = (
            self._thread_slices()
            if p * p * out_dtype.itemsize <= self._tuning.max_thread_gram_bytes
            else [slice(0, n)]
        )
        stacked = threads.parallel_sum(sweep, parts)
        G, XtL = mirror_upper_triangle(stacked[:, :p]), stacked[:, p:]
        if affine.left is None or affine.right is None:
            return G
        return _apply_low_rank_correction(G, XtL, None, affine.left, affine.right)

    def _dense_blocks(
        self, affine: AffineMap, dtype: np.dtype[Any], part: slice, n_parts: int
    ) -> Iterator[Array]:
        """Yield consecutive blocks of the rows `part` of A, dense and in `dtype`.

        They take one of `n_parts` of the memory for blocks.
        """
        p = max(1, self.shape[1])
        n_bytes = min(DENSE_BLOCK_BYTES, self.workspace_bytes / n_parts)
        height = max(256, p // 8, int(n_bytes / (8 * p)))
        for start in range(part.start, part.stop, height):
            rows = slice(start, min(start + height, part.stop))
            block = np.asarray(self.csr[rows].astype(np.float64).toarray())
            yield affine.apply(block, rows, out=block).astype(dtype, copy=False)

    def row_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return A C^2 A' from X C^2 X' and low-rank terms.

        It is the Gram matrix of the transpose of X, which is a copy of the stored entries.
        """
        csr: Any = self.csr if dtype is None else self.csr.astype(dtype, copy=False)
        scale = affine.column_scale
        if scale is not None:
            csr = csr @ sparse.diags_array(scale.astype(csr.dtype, copy=False)).tocsr()
        G = SparseStorage(csr.T, tuning=self._tuning).gram(AffineMap(), csr.dtype)
        if affine.left is None or affine.right is None:
            return scale_symmetric(G, affine.row_scale)
        right = scale_rows(affine.right, scale)
        return _apply_low_rank_correction(G, csr @ right, affine.row_scale, right, affine.left)

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return the given rows of X as a dense float64 array."""
        return np.asarray(self.csr[rows].toarray(), dtype=np.float64)

    def subset(self, rows: NDArray[np.intp]) -> SparseStorage:
        """Return the storage of a copy of the given rows of X."""
        return SparseStorage(self.csr[rows], tuning=self._tuning)

    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Return column sums of weights x, X'U, column sums of weights x^2; float64, one pass."""
        # A vector is faster than a block of one column.
        products = self.rmatmat(U[:, 0])[:, None] if U.shape[1] == 1 else self.rmatmat(U)
        if self.csr.has_canonical_format:
            shape = 3, self.shape[1]
            parts = self._thread_slices(8 * shape[0] * shape[1])
            moments = threads.parallel_sum(partial(_row_moments, self.csr, weights, shape), parts)
        else:
            moments = self._moments_of_duplicates(weights)
        return moments[0] + moments[1], products, moments[2]

    def _moments_of_duplicates(self, weights: Array | None) -> Array:
        """Return the sums of `csr_moments` where rows list entries more than once.

        Duplicates are added up before squaring, in copies of a few rows at a time.
        """
        out = np.zeros((3, self.shape[1]))
        for rows in self._split_by_entries(slice(0, self.shape[0]), MOMENT_BATCH_ENTRIES):
            part = self.csr[rows]
            part.sum_duplicates()
            part_weights = None if weights is None else weights[rows]
            out += _row_moments(part, part_weights, out.shape, slice(0, part.shape[0]))
        return out

    def find_nonfinite(self, limit: float = FLOAT64_MAX) -> tuple[int, int] | None:
        """Return (row, column) of the first stored entry that is NaN or above `limit` in size."""
        bad = np.flatnonzero(~(np.abs(self.csr.data) <= np.float64(limit)))
        if not bad.size:
            return None
        row = int(np.searchsorted(self.csr.indptr, bad[0], side="right")) - 1
        return row, int(self.csr.indices[bad[0]])

    @property
    def is_dense(self) -> bool:
        """False: zeros are not stored."""
        return False

    @property
    def n_stored(self) -> int:
        """Number of stored entries."""
        return int(self.csr.nnz)

    def gram_flops(self, affine: AffineMap) -> float:
        """FLOPs of A'A: the sum of c (c + 1) over rows with c stored entries, plus the map."""
        return _triangle_flops(np.diff(self.csr.indptr)) + self._map_flops(affine, self.shape[1])

    def row_gram_flops(self, affine: AffineMap) -> float:
        """FLOPs of A C^2 A': c (c + 1) for each column with c stored entries, plus the map."""
        return self._column_triangle_flops + self._map_flops(affine, self.shape[0])

    @cached_property
    def _column_triangle_flops(self) -> float:
        """Sum of c (c + 1) over columns with c stored entries."""
        counts = np.zeros(self.shape[1], np.intp)
        # A few at a time: NumPy copies indices to 64 bits.
        for part in row_slices(self.csr.nnz, max(MOMENT_BATCH_ENTRIES, self.shape[1])):
            counts += np.bincount(self.csr.indices[part], minlength=self.shape[1])
        return _triangle_flops(counts)

    def _map_flops(self, affine: AffineMap, size: int) -> float:
        """FLOPs of the scales, X'L, and two low-rank updates of a (size, size) Gram matrix."""
        rank, scales = affine.rank, float(affine.row_scale is not None)
        return 2.0 * rank * self.csr.nnz + scales * self.csr.nnz + 4.0 * rank * size**2

    def _csr_arrays(self) -> tuple[Any, Any, Any]:
        return self.csr.indptr, self.csr.indices, self.csr.data

    def _gram_by_kernel(
        self, V: Array, transform: AffineRowTransform | None, row_output: Array | None
    ) -> Array:
        from ling.design.sparse_kernels import csr_gram_matvec

        v = np.ascontiguousarray(V).reshape(-1)
        arrays = kernel_arguments(transform, row_output)
        transform_arrays = [a if a is None else a.reshape(-1) for a in arrays]

        def sweep(part: slice) -> Array:
            out = np.zeros_like(v)
            csr_gram_matvec(*self._csr_arrays(), v, *transform_arrays, part.start, part.stop, out)
            return out

        return threads.parallel_sum(sweep, self._thread_slices(v.nbytes)).reshape(V.shape)

    @property
    def can_iterate(self) -> bool:
        """Whether `cg_steps` is faster than passes of several threads with vector work between."""
        return self.csr.nnz + sum(self.shape) <= self._tuning.max_iterated_entries

    def cg_steps(
        self, affine: AffineMap, state: DiagonalCGState, max_steps: int
    ) -> tuple[DiagonalCGState, Array]:
        """Return the state after up to `max_steps` steps, and the squared bound after each."""
        from ling.design.sparse_kernels import csr_cg_steps

        p = self.shape[1]
        scale, left, right = affine.as_vectors(self.shape)
        column_scale = np.ones(p) if affine.column_scale is None else affine.column_scale
        vectors = np.stack([state.solution, state.residual, state.direction])
        numbers, bounds = np.array([state.rz, state.radau_factor]), np.empty(max_steps)
        count = csr_cg_steps(
            *self._csr_arrays(), scale, left, right, np.ascontiguousarray(column_scale),
            state.alpha, state.inverse_diagonal, vectors, numbers, state.radau_constants,
            state.goal, bounds,
        )  # fmt: skip
        state = replace(
            state, solution=vectors[0], residual=vectors[1], direction=vectors[2],
            rz=float(numbers[0]), radau_factor=float(numbers[1]),
        )  # fmt: skip
        return state, bounds[:count]

    def _matmat_rows(self, V: Array, rows: slice) -> Array:
        U = np.zeros((rows.stop - rows.start, *V.shape[1:]), V.dtype)
        self._add_matmat(V, rows, U)
        return U

    def _add_matmat(self, V: Array, rows: slice, out: Array) -> None:
        """Add the given rows of X V to `out`."""
        from ling.design.sparse_kernels import csr_matmat, csr_matvec

        kernel = csr_matvec if V.ndim == 1 else csr_matmat
        kernel(*self._csr_arrays(), np.ascontiguousarray(V), rows.start, rows.stop, out)

    def _add_rmatmat(self, U: Array, rows: slice, out: Array) -> None:
        from ling.design.sparse_kernels import csr_rmatmat, csr_rmatvec

        kernel = csr_rmatvec if U.ndim == 1 else csr_rmatmat
        kernel(*self._csr_arrays(), np.ascontiguousarray(U), rows.start, rows.stop, out)

    def _thread_slices(self, partial_bytes: int | None = None) -> list[slice]:
        """Return ranges of rows with similar entry counts: one per thread.

        With `partial_bytes`, the size of the partial result of each range, there may be more, or
        fewer if adding the results up would take too long.
        """
        if self.csr.nnz <= self._tuning.min_parallel_entries:
            n_parts = 1
        elif partial_bytes is None:
            n_parts = threads.n_threads()
        else:
            entry_bytes = self.csr.data.itemsize + self.csr.indices.itemsize
            n_parts = threads.n_slices(float(self.csr.nnz) * entry_bytes, partial_bytes)
        if n_parts not in self._slices:  # every pass of an iteration has the same
            entries = -(-self.csr.nnz // n_parts)
            self._slices[n_parts] = self._split_by_entries(slice(0, self.shape[0]), entries)
        return self._slices[n_parts]

    def _split_by_entries(self, part: slice, entries: int) -> list[slice]:
        """Split the rows `part` into consecutive ranges of about `entries` stored entries each."""
        indptr = self.csr.indptr
        first, last = int(indptr[part.start]), int(indptr[part.stop])
        targets = np.arange(first + entries, last, max(1, entries))
        inner = np.searchsorted(indptr[part.start : part.stop + 1], targets) + part.start
        bounds = np.unique([part.start, *inner, part.stop])
        if len(bounds) == 1:
            return [part]
        return [slice(int(a), int(b)) for a, b in pairwise(bounds)]


def _row_moments(csr: Any, weights: Array | None, shape: tuple[int, int], rows: slice) -> Array:
    """Return the sums of `csr_moments` over some rows of a matrix without duplicate entries."""
    from ling.design.sparse_kernels import csr_moments

    out = np.zeros(shape)
    # Contiguous: a kernel is compiled again for arrays with other strides.
    weights = None if weights is None else np.ascontiguousarray(weights)
    csr_moments(csr.indptr, csr.indices, csr.data, weights, rows.start, rows.stop, out)
    return out


def _triangle_flops(counts: Any) -> float:
    return float((counts.astype(np.float64) * (counts + 1)).sum())


def _apply_low_rank_correction(
    G: Array, AL: Array, scale: Array | None, left: Array, right: Array
) -> Array:
    """Return B B' for B = diag(scale) A - right left', from G = A A' and AL = A left."""
    G = scale_symmetric(G, scale)
    low = scale_rows(AL, scale) - right @ (left.T @ left) / 2
    # In place, 512 rows at a time, because G may take up most of the memory.
    for a in range(0, len(G), 512):
        rows = slice(a, min(a + 512, len(G)))
        G[rows] -= low[rows] @ right.T
        G[rows] -= right[rows] @ low.T
    return G
