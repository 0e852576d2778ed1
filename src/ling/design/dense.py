"""Dense storage: C and Fortran order, strided views, read-only memory maps, any real dtype."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ling._typing import Array
from ling.design.affine import AffineMap
from ling.design.arrays import (
    FLOAT64_MAX,
    as_slice,
    dimensions_error,
    float_dtype,
    n_columns,
    row_slices,
)
from ling.design.compiled_gram import MappedMatrix, compiled_gram, is_compiled_gram_faster
from ling.design.products import chain_length, column_sums, row_products, sum_in_short_chains
from ling.design.quantized import QuantizedMatrix, quantize
from ling.design.rows import AffineRowTransform
from ling.design.storage import (
    IDENTITY,
    MAX_THIN_COLUMNS,
    BlockFunction,
    MemoryStorage,
    kernel_arguments,
    may_hold_rows,
)
from ling.design.tuning import DEFAULT_TUNING, Tuning
from ling.linalg import threads
from ling.linalg.gram import form_gram, parallel_sum_of_grams

# Size of the blocks of rows, or columns, of a Gram matrix, in units of `Tuning.block_bytes`.
GRAM_BLOCK_SIZE = 32
# Bytes of the blocks of rows of a Gram matrix that NumPy maps; they stay in cache.
CACHED_BLOCK_BYTES = 2**21
# Bytes of the rows of X in Fortran order that a compiled loop keeps in cache, and least number of
# bytes of each column in them. (1 to 4 MiB are equally fast with 2 MiB of second-level cache, and
# pieces of less than 1 KiB are slow to read.)
TILE_BYTES, MIN_TILE_BYTES = 2**21, 2**10
# Least number of rows of a block of X in Fortran order: shorter pieces of columns are slow to read.
MIN_FORTRAN_ROWS = 64
# Number of columns of V up to which a compiled loop forms X'(X V); above, BLAS is faster.
MAX_COMPILED_COLUMNS = 32
# Number of columns of V up to which compiled loops form X V and X'V of float32 X: BLAS is faster
# above, though it needs a copy of X in float64.
MAX_PRODUCT_COLUMNS = 32
# Bytes of V in X'(X V) up to which V and a few rows of X stay in cache for both products, by the
# order of X. Above, it is faster to form X V of all rows first and read X again.
MAX_FUSED_BYTES = {"C": 3 * 2**20, "F": 2**17}
# Least number of columns of a tile that is converted for BLAS.
MIN_TILE_COLUMNS = 512
# Number of columns of U up to which the loop that sums x and x^2 also forms X'U, by the order of X;
# above, X'U is a product of its own. (Measured with 118,333 x 74 and 20,000 x 900.)
MAX_MOMENT_COLUMNS = {"C": 16, "F": 0}
# MAX_COMPILED_COLUMNS of X in Fortran order, by the bytes of a number.
MAX_FORTRAN_COLUMNS = {4: 16, 8: 4}


class DenseStorage(MemoryStorage):
    """A two-dimensional array of real numbers, used in place.

    `compiled` selects compiled loops instead of BLAS for products with few columns; None selects
    them for arrays that do not stay in cache, by `tuning`.

    Integers, booleans, float16 and arrays with unusual strides are converted one block of rows at a
    time, never as a whole.
    """

    def __init__(
        self,
        array: np.ndarray[Any, Any],
        *,
        compiled: bool | None = None,
        feature_names: tuple[str, ...] | None = None,
        tuning: Tuning = DEFAULT_TUNING,
    ) -> None:
        if array.ndim != 2:
            raise dimensions_error(array.shape)
        self.dtype = float_dtype(array.dtype)
        self.array = array
        self.shape = array.shape
        self.feature_names = feature_names
        self._compiled = compiled
        self._tuning = tuning
        self.workspace_bytes = tuning.workspace_bytes

    def matmat(self, V: Array) -> Array:
        """Return X V; one pass."""
        if self._is_blas_ready(V.dtype):
            return np.asarray(self.array @ V)
        if self._can_compile_products(V):
            by_rows = self.array.flags.c_contiguous
            return row_products(self.array, V) if by_rows else column_sums(self.array.T, V)
        U = np.zeros((self.shape[0], *V.shape[1:]), V.dtype)
        for rows, columns, tile in self._tiles(V.dtype):
            U[rows] += tile @ V[columns]
        return U

    def rmatmat(self, U: Array) -> Array:
        """Return X'U; one pass."""
        if self._is_blas_ready(U.dtype):
            return np.asarray(self.array.T @ U)
        if self._can_compile_products(U):
            by_rows = self.array.flags.c_contiguous
            return column_sums(self.array, U) if by_rows else row_products(self.array.T, U)
        V = np.empty((self.shape[1], *U.shape[1:]), U.dtype)
        for rows, columns, tile in self._tiles(U.dtype):
            if rows.start == 0:
                np.matmul(tile.T, U[rows], out=V[columns])
            else:
                V[columns] += tile.T @ U[rows]
        return V

    def _can_compile_products(self, V: Array) -> bool:
        """Whether compiled loops form products with V faster than BLAS with a converted copy."""
        is_mixed = self.dtype == np.float32 and V.dtype == np.float64
        is_thin = 1 <= n_columns(V) <= MAX_PRODUCT_COLUMNS
        return is_mixed and is_thin and self._can_use_kernels

    def _gram_in_blocks(self, V: Array, function: BlockFunction | None) -> Array:
        """Return X' function(X V); one pass over blocks of rows that stay in cache."""
        columns = n_columns(V)
        n = self.shape[0]
        if columns > self._max_fused_columns and may_hold_rows(n, columns, self.workspace_bytes):
            U = self.matmat(V)
            return self.rmatmat(U if function is None else function(U, slice(0, n)))
        out = np.zeros_like(V)
        # With many columns, adding to `out` takes time too; larger blocks do it less often.
        size: float = min(max(2, columns // 8), 16) if self._is_by_rows else max(4, columns)
        size = min(size, self._tuning.workspace_bytes / self._tuning.block_bytes)
        # The block of U has to stay in cache too, so blocks shrink where U is wider than X.
        p = max(1, self.shape[1])
        for rows, block in self._row_blocks(V.dtype, size * p / max(p, columns)):
            U = block @ V
            out += block.T @ (U if function is None else function(U, rows))
        return out

    def gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return A'A by symmetric rank-k updates, one block of rows of A at a time."""
        out_dtype = self.dtype if dtype is None else np.dtype(dtype)
        if self._can_compile_gram(affine, self.shape, out_dtype):
            scale, left, right = affine.as_vectors(self.shape)
            mapped = MappedMatrix(self.array, scale, np.ones(self.shape[1]), left, right, None)
            return compiled_gram(mapped, out_dtype, self._gram_block_bytes)
        if affine.is_identity and self._is_blas_ready(out_dtype):
            return form_gram(self.array)
        blocks = partial(self._mapped_row_blocks, affine, out_dtype)
        return parallel_sum_of_grams(blocks, *self.shape, out_dtype, self.workspace_bytes)

    def can_quantize(self, affine: AffineMap) -> bool:
        """Whether compiled loops can quantise A."""
        return self._can_compile_map(affine)

    def quantize(self, affine: AffineMap, column_scales: Array) -> QuantizedMatrix:
        """Return A quantised to 16-bit integers; one pass."""
        return quantize(self.array, affine.as_vectors(self.shape), column_scales)

    @property
    def _gram_block_bytes(self) -> int:
        return min(GRAM_BLOCK_SIZE * self._tuning.block_bytes, self._tuning.workspace_bytes)

    def _mapped_row_blocks(
        self, affine: AffineMap, dtype: np.dtype[Any], part: slice, n_parts: int
    ) -> Iterator[Array]:
        """Yield blocks of the rows `part` of A in `dtype`; each may overwrite the last one.

        They take one of `n_parts` of the memory for blocks.
        """
        n, p = part.stop - part.start, self.shape[1]
        is_compiled = self._can_compile_map(affine)
        limit = self._gram_block_bytes // n_parts
        n_bytes = limit if is_compiled else min(CACHED_BLOCK_BYTES, limit)
        height = max(1, min(n, max(_least_rows(p), n_bytes // max(1, p * dtype.itemsize))))
        buffer = np.empty((height, p), dtype, order="C" if self._is_by_rows else "F")
        vectors = affine.as_vectors(self.shape) if is_compiled else None
        for start in range(part.start, part.stop, height):
            rows = slice(start, min(start + height, part.stop))
            mapped = buffer[: rows.stop - rows.start]
            if vectors is None:
                affine.apply(self.array[rows], rows, out=mapped)
            else:
                self._apply_map(mapped, vectors, rows)
            yield mapped

    def _apply_map(self, out: Array, vectors: tuple[Array, Array, Array], rows: slice) -> None:
        from ling.design.dense_kernels import dense_affine_map

        def sweep(part: slice) -> None:
            dense_affine_map(self.array, *vectors, part.start, part.stop, rows.start, out)

        threads.parallel_map(sweep, threads.split_rows(rows, threads.n_slices(out.nbytes)))

    def _can_compile_map(self, affine: AffineMap) -> bool:
        """Whether compiled loops can apply the map: row scales and a correction of rank 1."""
        return self._can_use_kernels and self.array.flags.c_contiguous and affine.rank <= 1

    def _can_compile_gram(
        self, affine: AffineMap, shape: tuple[int, int], dtype: np.dtype[Any]
    ) -> bool:
        """Whether a compiled loop forms the Gram matrix of an affine map of X or X', of `shape`."""
        can_compile = self._can_use_kernels and affine.rank <= 1
        return can_compile and is_compiled_gram_faster(shape, dtype, self._gram_block_bytes)

    def row_gram(self, affine: AffineMap, dtype: DTypeLike | None = None) -> Array:
        """Return A C^2 A' by symmetric rank-k updates, one block of columns at a time."""
        out_dtype = self.dtype if dtype is None else np.dtype(dtype)
        if self._can_compile_gram(affine, self.shape[::-1], out_dtype):
            scale, left, right = affine.as_vectors(self.shape)
            ones, column_scale = np.ones(self.shape[1]), affine.column_scale
            if column_scale is not None:  # a kernel is compiled again for arrays with other strides
                column_scale = np.ascontiguousarray(column_scale)
            mapped = MappedMatrix(self.array.T, ones, scale, right, left, column_scale)
            return compiled_gram(mapped, out_dtype, self._gram_block_bytes)
        if affine.is_identity and self._is_blas_ready(out_dtype):
            return form_gram(self.array.T)
        blocks = partial(self._mapped_column_blocks, affine, out_dtype)
        n, p = self.shape
        return parallel_sum_of_grams(blocks, p, n, out_dtype, self.workspace_bytes)

    def _mapped_column_blocks(
        self, affine: AffineMap, dtype: np.dtype[Any], part: slice, n_parts: int
    ) -> Iterator[Array]:
        """Yield transposed blocks of the columns `part` of A C, as `_mapped_row_blocks` does."""
        n, p = self.shape[0], part.stop - part.start
        n_bytes = self._gram_block_bytes // n_parts
        width = max(1, min(p, max(_least_rows(n), n_bytes // max(1, dtype.itemsize * n))))
        buffer = np.empty(n * width, dtype)
        order: Literal["C", "F"] = "C" if self._is_by_rows else "F"  # a transposition is slow
        is_small = n * width <= self._tuning.min_parallel_entries
        row_parts = threads.split_rows(slice(0, n), 1 if is_small else threads.n_threads())
        for start in range(part.start, part.stop, width):
            cols = slice(start, min(start + width, part.stop))
            # The last block may be narrower; this view of the buffer is contiguous for it too.
            size = n, cols.stop - start
            mapped = buffer[: size[0] * size[1]].reshape(size, order=order)
            threads.parallel_map(
                partial(_apply_to_rows, affine, self.array, cols, mapped), row_parts
            )
            yield mapped.T

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Return the given rows of X in float64."""
        return np.ascontiguousarray(self.array[rows], np.float64)

    def subset(self, rows: NDArray[np.intp]) -> DenseStorage:
        """Return the storage of the given rows of X: a view if they are contiguous, else a copy."""
        row_slice = as_slice(rows)
        row_block = self.array[rows] if row_slice is None else self.array[row_slice]
        return DenseStorage(
            row_block,
            compiled=self._compiled,
            feature_names=self.feature_names,
            tuning=self._tuning,
        )

    def moments(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        """Return column sums of weights x, X'U, column sums of weights x^2, in float64.

        One pass, or two where X'U is faster by itself.
        """
        k = U.shape[1]
        if self._can_use_kernels and k <= self._max_moment_columns:
            return self._moments_by_kernel(weights, U)
        has_large_product = k > MAX_THIN_COLUMNS and self._is_blas_ready(U.dtype)
        if has_large_product or self._can_use_kernels:  # faster than many small ones
            sums, products, squares = self.moments(weights, U[:, :0])
            return sums, self.rmatmat(U), squares
        p = self.shape[1]
        sums, products, squares = np.zeros(p), np.zeros((p, U.shape[1])), np.zeros(p)
        for rows, block in self._row_blocks(np.dtype(np.float64), 2):
            w = np.ones(len(block)) if weights is None else weights[rows]
            sums += sum_in_short_chains(w, block)
            products += block.T @ U[rows]
            squares += np.einsum(
                "ij,ij->j", block, block if weights is None else w[:, None] * block
            )
        return sums, products, squares

    def find_nonfinite(self, limit: float = FLOAT64_MAX) -> tuple[int, int] | None:
        """Return (row, column) of the first entry that is NaN or exceeds `limit` in magnitude."""
        if self.array.dtype.kind != "f":
            return None
        for rows, block in self._row_blocks(self.dtype, 4):
            bad = ~(np.abs(block) <= np.float64(limit))
            if bad.any():
                i, j = np.argwhere(bad)[0]
                return rows.start + int(i), int(j)
        return None

    def _gram_by_kernel(
        self, V: Array, transform: AffineRowTransform | None, row_output: Array | None
    ) -> Array:
        # A compiled loop is used because BLAS starts and stops its threads twice per block.
        # That takes as long as reading X twice. With few columns BLAS also copies all of X.
        from ling.design.dense_kernels import BLOCK_COLUMNS, dense_gram_matmat, dense_gram_matvec

        if not self.array.flags.c_contiguous:
            return self._fortran_gram_by_kernel(V, transform, row_output)
        mapped = kernel_arguments(transform, row_output)
        if V.size == self.shape[1]:
            v = np.ascontiguousarray(V).reshape(-1)
            mapped = [a if a is None else a.reshape(-1) for a in mapped]
            kernel = dense_gram_matvec
        else:
            k = V.shape[1]
            v = np.zeros((-(-k // BLOCK_COLUMNS) * BLOCK_COLUMNS, self.shape[1]), V.dtype)
            v[:k] = V.T
            kernel = dense_gram_matmat

        def sweep(part: slice) -> Array:
            out = np.zeros_like(v)
            kernel(self.array, v, *mapped, part.start, part.stop, out)
            return out

        product = threads.parallel_sum(sweep, self._thread_slices(v.nbytes))
        return product.reshape(V.shape) if product.ndim == 1 else product[: V.shape[1]].T

    def _fortran_gram_by_kernel(
        self, V: Array, transform: AffineRowTransform | None, row_output: Array | None
    ) -> Array:
        from ling.design.dense_kernels import fortran_gram_matmat

        n, p = self.shape
        columns = np.ascontiguousarray(V.reshape(p, -1).T)
        scale, shift, post, _ = kernel_arguments(transform, row_output)
        shift, rows = (a if a is None else a.reshape(n, -1) for a in (shift, row_output))
        height = max(MIN_TILE_BYTES, TILE_BYTES // max(1, p)) // self.array.itemsize

        def sweep(part: slice) -> Array:
            out = np.zeros_like(columns)
            bounds = part.start, part.stop
            fortran_gram_matmat(self.array, columns, scale, shift, post, rows, *bounds, height, out)
            return out

        product = threads.parallel_sum(sweep, self._thread_slices(columns.nbytes))
        return product.T.reshape(V.shape)

    def _moments_by_kernel(self, weights: Array | None, U: Array) -> tuple[Array, Array, Array]:
        from ling.design.dense_kernels import dense_moments, fortran_moments

        shape = U.shape[1] + 2, self.shape[1]

        def sweep(part: slice) -> Array:
            out = np.zeros(shape)
            if not self.array.flags.c_contiguous:
                fortran_moments(self.array, weights, part.start, part.stop, height, out)
                return out
            partial_sums = np.empty(shape)
            for rows in row_slices(part.stop - part.start, height):
                partial_sums[...] = 0.0
                first, last = part.start + rows.start, part.start + rows.stop
                dense_moments(self.array, weights, U, first, last, partial_sums)
                out += partial_sums
            return out

        height = chain_length(self.shape[0])
        stacked = threads.parallel_sum(sweep, self._thread_slices(8 * shape[0] * shape[1]))
        return stacked[0], stacked[1:-1].T, stacked[-1]

    def _thread_slices(self, n_bytes: int) -> list[slice]:
        """Return one range of rows per task; each task accumulates a result of `n_bytes`."""
        n_parts = threads.n_slices(self.array.nbytes, n_bytes)
        return threads.split_rows(slice(0, self.shape[0]), n_parts)

    @property
    def has_compiled_gram(self) -> bool:
        """Whether a compiled loop forms the smaller Gram matrix of X, because BLAS is slower."""
        tall_shape = max(self.shape), min(self.shape)
        return self._can_compile_gram(IDENTITY, tall_shape, np.dtype(np.float64))

    @property
    def max_compiled_columns(self) -> int:
        """Number of columns above which BLAS is faster; 0 if the kernels cannot be used."""
        if not self._can_use_kernels:
            return 0
        is_by_rows = self.array.flags.c_contiguous
        most = MAX_COMPILED_COLUMNS if is_by_rows else MAX_FORTRAN_COLUMNS[self.dtype.itemsize]
        return min(most, self._max_fused_columns)

    @property
    def _max_moment_columns(self) -> int:
        """Number of columns of U up to which one compiled loop forms X'U and sums of x and x^2."""
        return MAX_MOMENT_COLUMNS["C" if self.array.flags.c_contiguous else "F"]

    @property
    def _max_fused_columns(self) -> int:
        """Number of columns of V up to which X'(X V) is formed from blocks of rows."""
        order = "C" if self._is_by_rows else "F"
        return MAX_FUSED_BYTES[order] // (8 * max(1, self.shape[1]))

    @property
    def _can_use_kernels(self) -> bool:
        enabled = self._compiled
        if enabled is None:
            limit = self._tuning.max_cached_bytes
            enabled = self.array.nbytes > (limit if self.dtype == np.float64 else limit // 4)
        enabled = enabled and self.array.size > 0
        return enabled and self.array.dtype == self.dtype and self.array.flags.forc

    @property
    def _is_by_rows(self) -> bool:
        """Whether the entries of a row are next to each other, rather than those of a column."""
        return abs(self.array.strides[0]) >= abs(self.array.strides[1])

    def _is_blas_ready(self, dtype: np.dtype[Any]) -> bool:
        """Whether `array` can be passed to BLAS in `dtype` without a copy."""
        a = self.array
        if a.dtype != dtype or not a.flags.aligned or a.size == 0:
            return False
        n, p = a.shape
        by_rows = a.strides[1] == a.itemsize and a.strides[0] >= p * a.itemsize
        by_columns = a.strides[0] == a.itemsize and a.strides[1] >= n * a.itemsize
        return by_rows or by_columns

    def _tiles(self, dtype: np.dtype[Any]) -> Iterator[tuple[slice, slice, Array]]:
        """Yield tiles of X in `dtype` with their rows and columns, row after row of tiles.

        A tile has about four times `Tuning.block_bytes`.
        """
        n, p = self.shape
        size = 4 * self._tuning.block_bytes // dtype.itemsize
        width = max(1, min(p, max(MIN_TILE_COLUMNS, size // max(1, n))))
        order: Literal["C", "F"] = "C" if self._is_by_rows else "F"  # a transposition is slow
        for rows in row_slices(n, max(4, size // width)):
            for columns in row_slices(p, width):
                yield rows, columns, np.asarray(self.array[rows, columns], dtype, order=order)

    def _row_blocks(
        self, dtype: np.dtype[Any], size: float, least: int = 4
    ) -> Iterator[tuple[slice, Array]]:
        """Yield consecutive blocks of at least `least` rows, ready for BLAS.

        A block has about `size` times `Tuning.block_bytes`.
        """
        n, p = self.shape
        n_bytes = int(size * self._tuning.block_bytes)
        ready = self._is_blas_ready(dtype)
        if ready and not self._is_by_rows:
            most = int(self.workspace_bytes) // max(1, p * dtype.itemsize)
            least = max(least, min(MIN_FORTRAN_ROWS, most))
        height = max(least, n_bytes // max(1, p * dtype.itemsize))
        order: Literal["C", "F"] = "C" if self._is_by_rows else "F"  # a transposition is slow
        for start in range(0, n, height):
            rows = slice(start, min(start + height, n))
            block = self.array[rows]
            yield rows, block if ready else np.asarray(block, dtype, order=order)


def _apply_to_rows(affine: AffineMap, array: Array, cols: slice, out: Array, rows: slice) -> None:
    """Write the mapped rows of array[:, cols] to `out`."""
    affine.apply(array[rows, cols], rows, cols, out[rows])


def _least_rows(size: int) -> int:
    """Return the smallest block for which forming its Gram matrix costs much more than adding it.

    `size` is the order of the Gram matrix. If that is large, the block has an eighth as many
    entries as the Gram matrix.
    """
    return max(256, size // 8)
