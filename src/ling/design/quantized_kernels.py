"""Loops that quantise X to 16-bit integers and multiply with the copy, compiled by numba.

Each kernel works on one range of rows and releases the GIL, as in `ling.design.dense_kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32

from ling.design.quantized import GROUP_SIZE
from ling.linalg.compiled import compiled

# Columns of a group of rows that `dense_quantize` keeps in cache for both of its sweeps.
QUANTIZE_TILE_COLUMNS = 2048
INT16_MAX = 32767
# Kernels may reorder sums and fuse multiply-adds. `_jit_max` also ignores NaN and the sign of
# zeros, so that a maximum can be vectorised.
_jit_dense = compiled(fastmath={"reassoc", "contract"})
_jit_max = compiled(fastmath={"reassoc", "contract", "nnan", "nsz"})


@_jit_max
def dense_quantize(
    X: Any,
    scale: Any,
    left: Any,
    right: Any,
    column_scales: Any,
    lo: int,
    hi: int,
    codes: Any,
    scales: Any,
) -> None:
    """Quantise rows lo:hi of X~ = diag(scale) X - left right' to 16-bit integers.

    codes[i, j] = X~[i, j] / (scales[i // GROUP_SIZE, j] column_scales[j]), rounded. Each scale maps
    the largest of the GROUP_SIZE magnitudes of a column and group to INT16_MAX. GROUP_SIZE rows by
    QUANTIZE_TILE_COLUMNS columns stay in cache for both sweeps. Both `codes` and `scales` are
    filled in.
    """
    # The largest magnitude of each column, and then the inverse of its quantisation step.
    inverse = np.empty(QUANTIZE_TILE_COLUMNS)
    for start in range(lo, hi, GROUP_SIZE):
        stop = min(start + GROUP_SIZE, hi)
        for first in range(0, X.shape[1], QUANTIZE_TILE_COLUMNS):
            tile = slice(first, first + QUANTIZE_TILE_COLUMNS)
            step, shift, unit = scales[start // GROUP_SIZE, tile], right[tile], column_scales[tile]
            inverse[:] = 0.0
            for i in range(start, stop):
                x, s, a = X[i, tile], scale[i], left[i]
                for j in range(len(x)):
                    inverse[j] = max(inverse[j], abs(s * x[j] - a * shift[j]))
            for j in range(len(step)):
                step[j] = inverse[j] / (INT16_MAX * unit[j])
                inverse[j] = 1.0 / (step[j] * unit[j]) if step[j] > 0 else 0.0
            for i in range(start, stop):
                x, row, s, a = X[i, tile], codes[i, tile], scale[i], left[i]
                for j in range(len(x)):
                    row[j] = np.int16(np.rint((s * x[j] - a * shift[j]) * inverse[j]))


@_jit_dense
def quantized_gram_matvec(codes: Any, scales: Any, v: Any, lo: int, hi: int, out: Any) -> None:
    """Add Z'(Z v) over groups lo:hi of GROUP_SIZE rows to `out`; Z = scales * codes is read once.

    Sums within a group are in float32, sums over groups in the dtype of `out`.
    """
    p = codes.shape[1]
    scaled_v, sums = np.empty(p, np.float32), np.empty(p, np.float32)
    zero = np.float32(0)
    for block in range(lo, hi):
        step = scales[block]
        for j in range(p):
            scaled_v[j] = step[j] * v[j]
            sums[j] = zero
        for i in range(block * GROUP_SIZE, (block + 1) * GROUP_SIZE, 8):
            x0, x1, x2, x3 = codes[i], codes[i + 1], codes[i + 2], codes[i + 3]
            x4, x5, x6, x7 = codes[i + 4], codes[i + 5], codes[i + 6], codes[i + 7]
            s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = zero
            for j in range(p):
                s0 += float32(x0[j]) * scaled_v[j]
                s1 += float32(x1[j]) * scaled_v[j]
                s2 += float32(x2[j]) * scaled_v[j]
                s3 += float32(x3[j]) * scaled_v[j]
                s4 += float32(x4[j]) * scaled_v[j]
                s5 += float32(x5[j]) * scaled_v[j]
                s6 += float32(x6[j]) * scaled_v[j]
                s7 += float32(x7[j]) * scaled_v[j]
            for j in range(p):
                first = s0 * float32(x0[j]) + s1 * float32(x1[j])
                second = s2 * float32(x2[j]) + s3 * float32(x3[j])
                third = s4 * float32(x4[j]) + s5 * float32(x5[j])
                fourth = s6 * float32(x6[j]) + s7 * float32(x7[j])
                sums[j] += (first + second) + (third + fourth)
        for j in range(p):
            out[j] += step[j] * sums[j]
