"""Gram matrices by a compiled loop: when it is faster than BLAS, and how its work is divided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ling._typing import Array
from ling.design.arrays import row_slices
from ling.design.products import chain_length
from ling.linalg import threads
from ling.linalg.gram import can_sum_in_threads, mirror_upper_triangle
from ling.linalg.vector_width import has_wider_vectors_than_blas

# Order of a Gram matrix up to which the loop is faster than any BLAS. With 48 columns it takes a
# third less time than OpenBLAS; with 64 it takes more, if both use AVX2. With AVX-512, where
# OpenBLAS uses AVX2, one thread does 42e9 multiply-adds per second, and OpenBLAS 28e9 (order 300).
MAX_NARROW_ORDER = 48
# Bytes of a Gram matrix up to which a sweep has several parts for each thread, each with its own.
MAX_SMALL_BYTES = 2**20
# Least number of rows whose products are summed up before they are added to those of others.
MIN_CHAIN_ROWS = 2048
# Multiply-adds that take as long as reading an entry.
PRODUCTS_PER_READ_ENTRY = 16


@dataclass(frozen=True, eq=False)
class MappedMatrix:
    """M = diag(post_scale) (diag(row_scale) A diag(column_scale) - left right').

    A is (n, p) in C or Fortran order. `row_scale`, `left` and `post_scale` are (n,), `column_scale`
    and `right` (p,); a `post_scale` of None is 1 in all rows.
    """

    A: np.ndarray[Any, Any]
    row_scale: Array
    column_scale: Array
    left: Array
    right: Array
    post_scale: Array | None


def is_compiled_gram_faster(
    shape: tuple[int, int], dtype: np.dtype[Any], workspace_bytes: float
) -> bool:
    """Whether M'M of M (n, p), in `dtype`, is formed faster by the compiled loop than by BLAS."""
    n, order = shape
    if order <= MAX_NARROW_ORDER:
        return True
    can_split = can_sum_in_threads(n, order, dtype, workspace_bytes)
    return can_split and has_wider_vectors_than_blas()


def compiled_gram(matrix: MappedMatrix, dtype: np.dtype[Any], workspace_bytes: float) -> Array:
    """M'M (p, p) in `dtype`, both triangles.

    The matrices of all parts take at most `workspace_bytes`, or two of them for each thread.
    """
    from ling.design.gram_kernels import TILE_LINES, mapped_gram

    A = matrix.A
    n, order = A.shape
    size = -(-order // TILE_LINES) * TILE_LINES
    n_bytes = size * size * dtype.itemsize

    def sweep(part: slice) -> Array:
        total = np.zeros((size, size), dtype)
        chain = total if part.stop - part.start <= height else np.empty_like(total)
        for rows in row_slices(part.stop - part.start, height):
            chain[...] = 0
            mapped_gram(
                A, matrix.row_scale, matrix.column_scale, matrix.left, matrix.right,
                matrix.post_scale, part.start + rows.start, part.start + rows.stop, chain,
            )  # fmt: skip
            if chain is not total:
                total += chain
        return total

    height = max(MIN_CHAIN_ROWS, chain_length(n))
    n_threads = threads.n_threads()
    n_parts = n_threads
    if n_bytes <= MAX_SMALL_BYTES:
        n_parts = threads.n_slices((1 + order / PRODUCTS_PER_READ_ENTRY) * A.nbytes, n_bytes)
        n_parts = min(n_parts, max(n_threads, int(workspace_bytes / (2 * n_bytes))))
    gram = threads.parallel_sum(sweep, threads.split_rows(slice(0, n), n_parts))
    return mirror_upper_triangle(np.ascontiguousarray(gram[:order, :order]))
