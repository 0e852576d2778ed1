"""Gram matrices by a compiled loop: when it is faster than BLAS, and how its work is divided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ling._typing import Array
from ling.linalg import threads
from ling.linalg.gram import MIN_PART_ROWS, mirror_upper_triangle
from ling.linalg.vector_width import has_wider_vectors_than_blas

# Order of a Gram matrix up to which the loop is faster than any BLAS: a third less time than
# OpenBLAS with 48, and more than it with 64 if both use AVX2. With AVX-512, and OpenBLAS without
# it, the loop does 42e9 multiply-adds per second in the place of 28e9, for orders from 300 on.
MAX_NARROW_ORDER = 48
# Bytes of a Gram matrix up to which a thread may sum up several: clearing and adding them is fast.
MAX_SMALL_BYTES = 2**20
# Multiply-adds that take as long as reading an entry.
PRODUCTS_PER_READ_ENTRY = 16


@dataclass(frozen=True, eq=False)
class MappedMatrix:
    """M = diag(post_scale) (diag(row_scale) A diag(column_scale) - left right').

    A is (n, p) in C or Fortran order. `row_scale`, `left` and `post_scale` are (n,), `column_scale`
    and `right` (p,).
    """

    A: np.ndarray[Any, Any]
    row_scale: Array
    column_scale: Array
    left: Array
    right: Array
    post_scale: Array


def is_compiled_gram_faster(
    shape: tuple[int, int], dtype: np.dtype[Any], workspace_bytes: float
) -> bool:
    """Whether M'M of M (n, p), in `dtype`, is formed faster by the compiled loop than by BLAS.

    Each thread sums up a matrix of its own; all of them may take `workspace_bytes`.
    """
    n, order = shape
    if order <= MAX_NARROW_ORDER:
        return True
    n_threads = threads.n_threads()
    has_memory = n_threads * order**2 * dtype.itemsize <= workspace_bytes
    is_tall = n >= n_threads * max(MIN_PART_ROWS, order)
    return has_memory and is_tall and has_wider_vectors_than_blas()


def compiled_gram(matrix: MappedMatrix, dtype: np.dtype[Any]) -> Array:
    """M'M (p, p) in `dtype`, both triangles."""
    from ling.design.gram_kernels import TILE_LINES, mapped_gram

    A = matrix.A
    n, order = A.shape
    size = -(-order // TILE_LINES) * TILE_LINES
    n_bytes = size * size * dtype.itemsize

    def sweep(part: slice) -> Array:
        out = np.zeros((size, size), dtype)
        mapped_gram(
            A, matrix.row_scale, matrix.column_scale, matrix.left, matrix.right,
            matrix.post_scale, part.start, part.stop, out,
        )  # fmt: skip
        return out

    n_parts = threads.n_threads()
    if n_bytes <= MAX_SMALL_BYTES:
        n_parts = threads.n_slices((1 + order / PRODUCTS_PER_READ_ENTRY) * A.nbytes, n_bytes)
    gram = threads.parallel_sum(sweep, threads.split_rows(slice(0, n), n_parts))
    return mirror_upper_triangle(np.ascontiguousarray(gram[:order, :order]))
