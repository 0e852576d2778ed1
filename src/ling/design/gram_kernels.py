"""The compiled loop for Gram matrices of dense X, for the sizes at which it is faster than BLAS."""

from __future__ import annotations

from typing import Any

import numpy as np

from ling.design.row_kernels import add4
from ling.linalg.compiled import compiled

# Bytes of a line: rows of A that are kept in cache for all products, and padding. Without padding,
# entries of a row would lie a power of two apart, where caches keep only a few of them.
LINE_BYTES, PADDING_BYTES = 1024, 64
# Lines whose products with all others are formed together; they stay in first-level cache.
GROUP_LINES = 32
# Lines of a register tile; the order of a Gram matrix is rounded up to a multiple of it.
TILE_LINES = 4
_jit_gram = compiled(fastmath={"reassoc", "contract"})


@_jit_gram
def mapped_gram(
    A: Any, row_scale: Any, column_scale: Any, left: Any, right: Any, post_scale: Any,
    lo: int, hi: int, out: Any,
) -> None:  # fmt: skip
    """Add the upper triangle of M'M to `out`, for the rows lo:hi of the mapped matrix M.

    M = diag(post_scale) (diag(row_scale) A diag(column_scale) - left right'), in the dtype of
    `out`; a `post_scale` of None is 1. The order of `out` is the number of columns of A, rounded up
    to a multiple of TILE_LINES. The entries of some rows are copied into lines, one for each
    column, and inner products of lines are formed in tiles of four by four.
    """
    p, size = A.shape[1], out.shape[0]
    to_dtype = out.dtype.type
    zero = to_dtype(0)
    height = LINE_BYTES // out.itemsize
    lines = np.zeros((size, height + PADDING_BYTES // out.itemsize), out.dtype)
    for start in range(lo, hi, height):
        stop = min(start + height, hi)
        for i in range(start, stop):
            s, shift = row_scale[i], left[i]
            for j in range(p):
                value = s * column_scale[j] * A[i, j] - shift * right[j]
                if post_scale is not None:
                    value *= post_scale[i]
                lines[j, i - start] = to_dtype(value)
        lines[:, stop - start :] = zero
        for first in range(0, size, GROUP_LINES):
            last = min(first + GROUP_LINES, size)
            for a in range(0, last, TILE_LINES):
                a0, a1, a2, a3 = lines[a], lines[a + 1], lines[a + 2], lines[a + 3]
                for b in range(max(a, first), last, TILE_LINES):
                    b0, b1, b2, b3 = lines[b], lines[b + 1], lines[b + 2], lines[b + 3]
                    s00 = s01 = s02 = s03 = zero
                    s10 = s11 = s12 = s13 = zero
                    s20 = s21 = s22 = s23 = zero
                    s30 = s31 = s32 = s33 = zero
                    for t in range(height):
                        s00 += a0[t] * b0[t]
                        s01 += a0[t] * b1[t]
                        s02 += a0[t] * b2[t]
                        s03 += a0[t] * b3[t]
                        s10 += a1[t] * b0[t]
                        s11 += a1[t] * b1[t]
                        s12 += a1[t] * b2[t]
                        s13 += a1[t] * b3[t]
                        s20 += a2[t] * b0[t]
                        s21 += a2[t] * b1[t]
                        s22 += a2[t] * b2[t]
                        s23 += a2[t] * b3[t]
                        s30 += a3[t] * b0[t]
                        s31 += a3[t] * b1[t]
                        s32 += a3[t] * b2[t]
                        s33 += a3[t] * b3[t]
                    add4(out, a, b, s00, s01, s02, s03)
                    add4(out, a + 1, b, s10, s11, s12, s13)
                    add4(out, a + 2, b, s20, s21, s22, s23)
                    add4(out, a + 3, b, s30, s31, s32, s33)
