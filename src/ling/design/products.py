"""Products of a dense X with few columns in float64, and sums of many rows without large errors."""

from __future__ import annotations

import math

import numpy as np

from ling._typing import Array
from ling.design.arrays import row_slices
from ling.linalg import threads

# Least number of rows that are summed up without an intermediate result.
MIN_SUMMED_ROWS = 256
# Columns of X whose sums stay in first-level cache.
SUMMED_COLUMNS = 512
# Rows of X V for which a compiled loop has a temporary array, up to four times as large.
MAX_TEMPORARY_ROWS = 2**14


def row_products(X: Array, V: Array) -> Array:
    """Return X V in float64, for X (m, q) in C order and few columns of V (q, k) or (q,)."""
    from ling.design.dense_kernels import dense_row_products

    columns = np.ascontiguousarray(V.reshape(len(V), -1).T)
    out: Array = np.empty((len(X), len(columns)))
    width = chain_length(X.shape[1])

    def sweep(part: slice) -> None:
        for rows in row_slices(part.stop - part.start, MAX_TEMPORARY_ROWS):
            first, last = part.start + rows.start, part.start + rows.stop
            dense_row_products(X, columns, first, last, width, out)

    threads.parallel_map(sweep, threads.split_rows(slice(0, len(X)), threads.n_slices(X.nbytes)))
    return out.reshape(len(X), *V.shape[1:])


def column_sums(X: Array, U: Array) -> Array:
    """Return X'U in float64, for X (m, q) in C order and few columns of U (m, k) or (m,)."""
    from ling.design.dense_kernels import dense_column_sums

    columns = np.ascontiguousarray(U.reshape(len(U), -1))
    shape = columns.shape[1], X.shape[1]
    height = chain_length(len(X))

    def sweep(part: slice) -> Array:
        out: Array = np.zeros(shape)
        dense_column_sums(X, columns, part.start, part.stop, SUMMED_COLUMNS, height, out)
        return out

    n_bytes = 8 * shape[0] * shape[1]
    n_parts = threads.n_slices(X.nbytes, n_bytes)
    if threads.n_threads() * n_bytes <= threads.MAX_PARTIAL_BYTES:  # each thread may have one
        n_parts = max(n_parts, min(threads.n_threads(), len(X), threads.n_slices(X.nbytes)))
    total = threads.parallel_sum(sweep, threads.split_rows(slice(0, len(X)), n_parts))
    return np.ascontiguousarray(total.T).reshape(-1, *U.shape[1:])


def chain_length(n: int) -> int:
    """Return the number of rows that are summed up without an intermediate result.

    Equal numbers round in one direction, so that errors of a running sum grow like the number of
    its terms. In chains of sqrt(n) terms they stay below `sum_noise(n)`.
    """
    return max(MIN_SUMMED_ROWS, 4 * math.isqrt(n))


def sum_in_short_chains(weights: Array, block: Array) -> Array:
    """Return weights @ block, with intermediate results after every few rows."""
    n, p = block.shape
    height = chain_length(n)
    if n < 2 * height:
        return np.asarray(weights @ block)
    n_chains = n // height
    end = n_chains * height
    chains = weights[:end].reshape(n_chains, 1, height) @ block[:end].reshape(n_chains, height, p)
    return np.asarray(chains.sum(axis=(0, 1)) + weights[end:] @ block[end:])
