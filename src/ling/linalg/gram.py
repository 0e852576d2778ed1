"""Gram matrices A'A of any size, at the FLOPs of one triangle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import blas

from ling._typing import Array
from ling.linalg import threads

# Columns of a tile. Gram matrices of more than SYRK_TILES tiles a side are formed tile by tile with
# gemm, smaller ones with syrk. The reason is a buffer overrun in OpenBLAS: its threaded syrk (which
# NumPy also uses for `A.T @ A`) and its potrf pack size / sqrt(threads) columns, GEMM_Q rows each,
# into a buffer of fixed size, 32 MB in the wheels of NumPy and SciPy. Beyond that the process ends
# with SIGSEGV. Two threads are the worst case. Measured with 2 threads on SkylakeX kernels
# (GEMM_Q = 384 in float64, 448 in float32), OpenBLAS 0.3.30 (SciPy 1.17) and 0.3.31 (NumPy 2.4), in
# C and in Fortran order:
#     float64, 800 and more rows: 15,000 columns pass, 15,500 crash
#     float64, 200 rows: 19,500 columns pass, 20,000 crash
#     float32, 1000 rows: 25,000 columns pass, 27,000 crash
#     potrf: float64 crashes with 17,000 columns; float32 passes with 21,000, crashes with 27,000
# 8192 columns are safe for every GEMM_Q up to 700 in float64 and up to 1400 in float32. Other
# routines do not pack that way: trtri of 20,500 columns passes, and sytrd and orgqr of that size
# ran for 90 seconds without a crash.
TILE = 4096
SYRK_TILES = 2
# Gram matrices up to this order are summed by NumPy, which calls syrk and copies a triangle in C,
# and runs in several threads at once. For larger ones, adding up matrices of blocks would take a
# visible part of the time.
MAX_MATMUL_SIZE = 1024
# Least number of rows of which a thread sums up a Gram matrix of its own.
MIN_PART_ROWS = 256
# Entries of the blocks, times 1 + size / PRODUCTS_PER_ENTRY for their products, from which two
# threads are faster than one: passing work to them takes about 0.2 ms. (With 8 to 300 columns.)
MIN_PARALLEL_WORK = 1e6
# Products with an entry that take as long as preparing it, such as subtracting a mean.
PRODUCTS_PER_ENTRY = 40

#: Called with a range of rows and the number of ranges, which share the memory for blocks; yields
#: blocks of these rows.
GramBlocks: TypeAlias = Callable[[slice, int], Iterator[Array]]


def form_gram(A: Array, *, out: Array | None = None, tile: int = TILE) -> Array:
    """Gram matrix A'A (p, p) of A (n, p), both triangles, written to a C-ordered `out` if given.

    n p^2 FLOPs and, apart from the result, almost no memory. One of the strides of A has to be its
    itemsize, so that BLAS can read A without a copy.
    """
    size = A.shape[1]
    if size <= SYRK_TILES * tile:
        return np.matmul(A.T, A, out=out)
    G = np.empty((size, size), A.dtype) if out is None else out
    for rows, columns in _upper_tiles(size, tile):
        np.matmul(A[:, rows].T, A[:, columns], out=G[rows, columns])
    return mirror_upper_triangle(G)


def add_gram(total: Array, A: Array, *, tile: int = TILE) -> None:
    """Add A'A to `total` (p, p) in place, both triangles.

    Above the size that is safe for syrk, no (p, p) temporary is made.
    """
    size = A.shape[1]
    if size <= SYRK_TILES * tile:
        total += A.T @ A
        return
    for rows, columns in _upper_tiles(size, tile):
        product = A[:, rows].T @ A[:, columns]
        total[rows, columns] += product
        if rows != columns:
            total[columns, rows] += product.T


def sum_of_grams(
    blocks: Iterable[Array], size: int, dtype: np.dtype[Any], *, tile: int = TILE
) -> Array:
    """Sum of B'B (size, size) over blocks of rows B, both triangles.

    The blocks may share their memory: each is used before the next is requested.
    """
    if size <= min(MAX_MATMUL_SIZE, SYRK_TILES * tile):
        summed: Array | None = None
        for block in blocks:
            if summed is None:
                summed = (block.T @ block).astype(dtype, copy=False)
            else:
                summed += block.T @ block
        return np.zeros((size, size), dtype) if summed is None else summed
    if size <= SYRK_TILES * tile:
        return _sum_by_syrk(blocks, np.zeros((size, size), dtype, order="F"))
    total = np.zeros((size, size), dtype)
    buffer = np.empty((tile, tile), dtype)
    first = True
    for block in blocks:
        if not block.size:
            continue
        A = block if _has_unit_stride(block) else np.ascontiguousarray(block)
        for rows, columns in _upper_tiles(size, tile):
            left, right, out_tile = A[:, rows].T, A[:, columns], total[rows, columns]
            if first:
                np.matmul(left, right, out=out_tile)
            else:
                out_tile += np.matmul(left, right, out=buffer[: left.shape[0], : right.shape[1]])
        first = False
    return mirror_upper_triangle(total)


def can_sum_in_threads(
    length: int, size: int, dtype: np.dtype[Any], workspace_bytes: float
) -> bool:
    """Whether each thread can sum up a Gram matrix (size, size) of its own, over `length` rows.

    Each holds two matrices, all of which together may take `workspace_bytes`. A thread has to have
    so many rows that adding up matrices takes a small part of the time.
    """
    n_threads = threads.n_threads()
    is_tall = length >= n_threads * max(MIN_PART_ROWS, size)
    return is_tall and 2 * n_threads * size * size * dtype.itemsize <= workspace_bytes


def parallel_sum_of_grams(
    blocks: GramBlocks, length: int, size: int, dtype: np.dtype[Any], workspace_bytes: float
) -> Array:
    """Sum of B'B (size, size) over all blocks B of `length` rows, by several threads if they pay.

    See `can_sum_in_threads`.
    """
    is_long = length * size * (1 + size / PRODUCTS_PER_ENTRY) >= MIN_PARALLEL_WORK
    can_split = size <= MAX_MATMUL_SIZE and is_long
    if not (can_split and can_sum_in_threads(length, size, dtype, workspace_bytes)):
        return sum_of_grams(blocks(slice(0, length), 1), size, dtype)
    n_parts = threads.n_threads()

    def sweep(part: slice) -> Array:
        return sum_of_grams(blocks(part, n_parts), size, dtype)

    # Threads of BLAS would wait in a loop while the next block is made, on the same cores.
    with threads.single_threaded_blas():
        return threads.parallel_sum(sweep, threads.split_rows(slice(0, length), n_parts))


def _sum_by_syrk(blocks: Iterable[Array], total: Array) -> Array:
    """`sum_of_grams` by symmetric rank-k updates (BLAS syrk) of `total`, in Fortran order."""
    syrk = blas.ssyrk if total.dtype == np.float32 else blas.dsyrk
    for block in blocks:
        if not block.size:
            continue
        # syrk reads Fortran order; a C-ordered block is the transpose of one.
        is_transposed = not block.flags.f_contiguous
        A = np.ascontiguousarray(block).T if is_transposed else block
        total = syrk(1.0, A, trans=not is_transposed, beta=1.0, c=total, overwrite_c=True)
    return mirror_upper_triangle(total)


def _upper_tiles(size: int, tile: int) -> Iterator[tuple[slice, slice]]:
    """Tiles (rows, columns) of the upper triangle with its diagonal, of about equal size."""
    cuts = tile_slices(size, tile)
    for index, rows in enumerate(cuts):
        for columns in cuts[index:]:
            yield rows, columns


def tile_slices(size: int, tile: int) -> list[slice]:
    """Split range(size) into the fewest slices of at most `tile`, of about equal lengths."""
    bounds = np.linspace(0, size, -(-size // tile) + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in pairwise(bounds)]


def _has_unit_stride(A: Array) -> bool:
    return A.flags.aligned and A.itemsize in A.strides


def diagonal_view(A: Array) -> Array:
    """The diagonal (m,) of A (m, m), which can be written to."""
    view: Array = np.einsum("ii->i", A)
    return view


def mirror_upper_triangle(G: Array) -> Array:
    """Copy the upper triangle of G onto the lower one, in place and block by block; returns G."""
    size, step = len(G), 512
    for a in range(0, size, step):
        b = min(a + step, size)
        diagonal_block = G[a:b, a:b]
        np.copyto(diagonal_block, diagonal_block.T.copy(), where=np.tri(b - a, k=-1, dtype=bool))
        G[b:, a:b] = G[a:b, b:].T
    return G
