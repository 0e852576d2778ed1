"""Loops for which there is no BLAS routine, compiled by numba on first use and cached on disk.

Each kernel works on one range of rows and releases the GIL; `ling.linalg.threads` runs several at
once. Sums over a dense row may be reordered, so that they can be vectorised. Products with sparse X
keep four running sums instead, because vectorised gathers are slow. Indices are read as unsigned
integers, which avoids numba's check for negative indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float32, float64, njit, uint64

from ling.design.quantized import GROUP_SIZE
from ling.linalg.compiled import compiled
from ling.linalg.gauss_radau import next_radau_factor

# Columns that the register tiles of `dense_gram_matmat` and `narrow_gram` process together.
BLOCK_COLUMNS = 4
# Rows of X that `dense_gram_matmat` keeps in cache for all columns and both products.
TILE_ROWS = 8
# Rows that `narrow_gram` transposes into cache at a time.
TRANSPOSED_TILE_ROWS = 128
# Columns of a group of rows that `dense_quantize` keeps in cache for both of its sweeps.
QUANTIZE_TILE_COLUMNS = 2048
INT16_MAX = 32767
# Dense kernels may reorder sums and fuse multiply-adds. `_jit_max` also ignores NaN and the sign of
# zeros, so that a maximum can be vectorised.
_jit_dense = compiled(fastmath={"reassoc", "contract"})
_jit_max = compiled(fastmath={"reassoc", "contract", "nnan", "nsz"})
_jit_sparse = compiled()


@njit(nogil=True, error_model="numpy", inline="always")
def _transform_row(
    scale: Any, shift: Any, post: Any, row_output: Any, i: int, u: Any, out: Any
) -> Any:
    """Write scale[i] u - shift[i] to row_output[i]; return post[i] times that."""
    row_output[i] = scale[i] * u - shift[i]
    return out.dtype.type(post[i] * row_output[i])


@_jit_dense
def dense_gram_matvec(
    X: Any, v: Any, scale: Any, shift: Any, post: Any, row_output: Any, lo: int, hi: int, out: Any
) -> None:
    """Add X[lo:hi]'(post * row_output) to `out`, row_output = scale * X[lo:hi] v - shift.

    Each row is read once. If scale, shift, post and row_output are None, X[lo:hi]'(X[lo:hi] v) is
    added. Eight rows are processed at a time: an element of v, and of out, is loaded once for eight
    elements of X, and the eight rows are still in cache for their second use.
    """
    p = X.shape[1]
    zero = v.dtype.type(0)
    unrolled_end = lo + (hi - lo) // 8 * 8
    for i in range(lo, unrolled_end, 8):
        x0, x1, x2, x3 = X[i], X[i + 1], X[i + 2], X[i + 3]
        x4, x5, x6, x7 = X[i + 4], X[i + 5], X[i + 6], X[i + 7]
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = zero
        for j in range(p):
            s0 += x0[j] * v[j]
            s1 += x1[j] * v[j]
            s2 += x2[j] * v[j]
            s3 += x3[j] * v[j]
            s4 += x4[j] * v[j]
            s5 += x5[j] * v[j]
            s6 += x6[j] * v[j]
            s7 += x7[j] * v[j]
        if scale is not None:
            s0 = _transform_row(scale, shift, post, row_output, i, s0, out)
            s1 = _transform_row(scale, shift, post, row_output, i + 1, s1, out)
            s2 = _transform_row(scale, shift, post, row_output, i + 2, s2, out)
            s3 = _transform_row(scale, shift, post, row_output, i + 3, s3, out)
            s4 = _transform_row(scale, shift, post, row_output, i + 4, s4, out)
            s5 = _transform_row(scale, shift, post, row_output, i + 5, s5, out)
            s6 = _transform_row(scale, shift, post, row_output, i + 6, s6, out)
            s7 = _transform_row(scale, shift, post, row_output, i + 7, s7, out)
        for j in range(p):
            out[j] += (s0 * x0[j] + s1 * x1[j] + s2 * x2[j] + s3 * x3[j]) + (
                s4 * x4[j] + s5 * x5[j] + s6 * x6[j] + s7 * x7[j]
            )
    for i in range(unrolled_end, hi):
        s0 = zero
        for j in range(p):
            s0 += X[i, j] * v[j]
        if scale is not None:
            s0 = _transform_row(scale, shift, post, row_output, i, s0, out)
        for j in range(p):
            out[j] += s0 * X[i, j]


@njit(nogil=True, error_model="numpy", inline="always")
def _add4(out: Any, i: int, c: int, s0: Any, s1: Any, s2: Any, s3: Any) -> None:
    out[i, c] += s0
    out[i, c + 1] += s1
    out[i, c + 2] += s2
    out[i, c + 3] += s3


@njit(nogil=True, error_model="numpy", inline="always")
def _load4(u: Any, i: int, c: int) -> Any:
    return u[i, c], u[i, c + 1], u[i, c + 2], u[i, c + 3]


@njit(nogil=True, error_model="numpy", inline="always")
def _add_tile_products(
    X: Any, V: Any, start: int, stop: int, first: int, last: int, u: Any
) -> None:
    """Add X[start:stop, first:last] V[:, first:last]' to `u`.

    Tiles of four rows by four columns are processed at a time, so that a loaded number takes part
    in four products. `u` has a multiple of BLOCK_COLUMNS columns; where V has fewer rows, its last
    one fills the rest.
    """
    width, k = last - first, len(V)
    end = k - 1
    zero = V.dtype.type(0)
    unrolled_end = start + (stop - start) // 4 * 4
    for c in range(0, k, 4):
        v0, v1 = V[c, first:last], V[min(c + 1, end), first:last]
        v2, v3 = V[min(c + 2, end), first:last], V[min(c + 3, end), first:last]
        for i in range(start, unrolled_end, 4):
            x0, x1 = X[i, first:last], X[i + 1, first:last]
            x2, x3 = X[i + 2, first:last], X[i + 3, first:last]
            a0 = a1 = a2 = a3 = zero
            b0 = b1 = b2 = b3 = zero
            c0 = c1 = c2 = c3 = zero
            d0 = d1 = d2 = d3 = zero
            for j in range(width):
                a0 += x0[j] * v0[j]
                a1 += x0[j] * v1[j]
                a2 += x0[j] * v2[j]
                a3 += x0[j] * v3[j]
                b0 += x1[j] * v0[j]
                b1 += x1[j] * v1[j]
                b2 += x1[j] * v2[j]
                b3 += x1[j] * v3[j]
                c0 += x2[j] * v0[j]
                c1 += x2[j] * v1[j]
                c2 += x2[j] * v2[j]
                c3 += x2[j] * v3[j]
                d0 += x3[j] * v0[j]
                d1 += x3[j] * v1[j]
                d2 += x3[j] * v2[j]
                d3 += x3[j] * v3[j]
            _add4(u, i - start, c, a0, a1, a2, a3)
            _add4(u, i - start + 1, c, b0, b1, b2, b3)
            _add4(u, i - start + 2, c, c0, c1, c2, c3)
            _add4(u, i - start + 3, c, d0, d1, d2, d3)
        for i in range(unrolled_end, stop):
            x0 = X[i, first:last]
            a0 = a1 = a2 = a3 = zero
            for j in range(width):
                a0 += x0[j] * v0[j]
                a1 += x0[j] * v1[j]
                a2 += x0[j] * v2[j]
                a3 += x0[j] * v3[j]
            _add4(u, i - start, c, a0, a1, a2, a3)


@njit(nogil=True, error_model="numpy", inline="always")
def _add_tile_sums(X: Any, u: Any, start: int, stop: int, first: int, last: int, out: Any) -> None:
    """Add u'X[start:stop, first:last] to `out`.

    The number of rows of `out` is a multiple of BLOCK_COLUMNS.
    """
    width, k = last - first, out.shape[0]
    unrolled_end = start + (stop - start) // 4 * 4
    for c in range(0, k, 4):
        o0, o1, o2, o3 = out[c], out[c + 1], out[c + 2], out[c + 3]
        for i in range(start, unrolled_end, 4):
            x0, x1 = X[i, first:last], X[i + 1, first:last]
            x2, x3 = X[i + 2, first:last], X[i + 3, first:last]
            a0, a1, a2, a3 = _load4(u, i - start, c)
            b0, b1, b2, b3 = _load4(u, i - start + 1, c)
            c0, c1, c2, c3 = _load4(u, i - start + 2, c)
            d0, d1, d2, d3 = _load4(u, i - start + 3, c)
            for j in range(width):
                o0[j] += (a0 * x0[j] + b0 * x1[j]) + (c0 * x2[j] + d0 * x3[j])
                o1[j] += (a1 * x0[j] + b1 * x1[j]) + (c1 * x2[j] + d1 * x3[j])
                o2[j] += (a2 * x0[j] + b2 * x1[j]) + (c2 * x2[j] + d2 * x3[j])
                o3[j] += (a3 * x0[j] + b3 * x1[j]) + (c3 * x2[j] + d3 * x3[j])
        for i in range(unrolled_end, stop):
            x0 = X[i, first:last]
            a0, a1, a2, a3 = _load4(u, i - start, c)
            for j in range(width):
                o0[j] += a0 * x0[j]
                o1[j] += a1 * x0[j]
                o2[j] += a2 * x0[j]
                o3[j] += a3 * x0[j]


@_jit_dense
def dense_gram_matmat(
    X: Any, V: Any, scale: Any, shift: Any, post: Any, row_output: Any, lo: int, hi: int, out: Any
) -> None:
    """Compute `dense_gram_matvec` for several columns, which are the rows of V and out.

    Their number is a multiple of BLOCK_COLUMNS. TILE_ROWS rows of X stay in cache for all columns
    and for both products.
    """
    u = np.empty((TILE_ROWS, V.shape[0]), V.dtype)
    for start in range(lo, hi, TILE_ROWS):
        stop = min(start + TILE_ROWS, hi)
        u[...] = 0.0
        _add_tile_products(X, V, start, stop, 0, X.shape[1], u)
        if scale is not None:
            for i in range(start, stop):
                for c in range(shift.shape[1]):
                    row_output[i, c] = scale[i] * u[i - start, c] - shift[i, c]
                    u[i - start, c] = post[i] * row_output[i, c]
        _add_tile_sums(X, u, start, stop, 0, X.shape[1], out)


@_jit_dense
def dense_row_products(X: Any, V: Any, lo: int, hi: int, width: int, out: Any) -> None:
    """Write X[lo:hi] V' to out[lo:hi]; sums over `width` columns of X are added up."""
    k = len(V)
    u = np.zeros((hi - lo, -(-k // BLOCK_COLUMNS) * BLOCK_COLUMNS), V.dtype)
    for first in range(0, X.shape[1], width):
        last = min(first + width, X.shape[1])
        for start in range(lo, hi, TILE_ROWS):
            stop = min(start + TILE_ROWS, hi)
            _add_tile_products(X, V, start, stop, first, last, u[start - lo : stop - lo])
    for i in range(lo, hi):
        for c in range(k):
            out[i, c] = u[i - lo, c]


@_jit_dense
def dense_column_sums(X: Any, U: Any, lo: int, hi: int, width: int, height: int, out: Any) -> None:
    """Add U[lo:hi]'X[lo:hi] to `out`; sums over `height` rows, which stay in cache, are added up.

    `width` columns of X are processed at a time.
    """
    k = U.shape[1]
    u = np.zeros((TILE_ROWS, -(-k // BLOCK_COLUMNS) * BLOCK_COLUMNS), out.dtype)
    sums = np.empty((u.shape[1], width), out.dtype)
    for first in range(0, X.shape[1], width):
        last = min(first + width, X.shape[1])
        for begin in range(lo, hi, height):
            end = min(begin + height, hi)
            sums[...] = 0.0
            for start in range(begin, end, TILE_ROWS):
                stop = min(start + TILE_ROWS, end)
                u[: stop - start, :k] = U[start:stop]
                _add_tile_sums(X, u, start, stop, first, last, sums)
            for c in range(k):
                for j in range(first, last):
                    out[c, j] += sums[c, j - first]


@_jit_dense
def fortran_gram_matmat(
    X: Any, V: Any, scale: Any, shift: Any, post: Any, row_output: Any, lo: int, hi: int,
    tile_rows: int, out: Any,
) -> None:  # fmt: skip
    """Compute `dense_gram_matmat` for X in Fortran order and any number of columns.

    `tile_rows` rows of X stay in cache for all columns and for both products. Four columns of X are
    processed at a time, so that a number of X V is loaded once for four of X.
    """
    p, k = X.shape[1], V.shape[0]
    zero = V.dtype.type(0)
    tile_rows = min(tile_rows, hi - lo)
    product = np.empty(tile_rows, V.dtype)
    unrolled_end = p // 4 * 4
    for start in range(lo, hi, tile_rows):
        size = min(tile_rows, hi - start)
        stop = start + size
        for c in range(k):
            v = V[c]
            product[:size] = zero
            for j in range(0, unrolled_end, 4):
                x0, x1 = X[start:stop, j], X[start:stop, j + 1]
                x2, x3 = X[start:stop, j + 2], X[start:stop, j + 3]
                v0, v1, v2, v3 = v[j], v[j + 1], v[j + 2], v[j + 3]
                for i in range(size):
                    product[i] += (v0 * x0[i] + v1 * x1[i]) + (v2 * x2[i] + v3 * x3[i])
            for j in range(unrolled_end, p):
                x0, v0 = X[start:stop, j], v[j]
                for i in range(size):
                    product[i] += v0 * x0[i]
            if scale is not None:
                for i in range(size):
                    row = start + i
                    row_output[row, c] = scale[row] * product[i] - shift[row, c]
                    product[i] = post[row] * row_output[row, c]
            total = out[c]
            for j in range(0, unrolled_end, 4):
                x0, x1 = X[start:stop, j], X[start:stop, j + 1]
                x2, x3 = X[start:stop, j + 2], X[start:stop, j + 3]
                s0 = s1 = s2 = s3 = zero
                for i in range(size):
                    s0 += product[i] * x0[i]
                    s1 += product[i] * x1[i]
                    s2 += product[i] * x2[i]
                    s3 += product[i] * x3[i]
                total[j] += s0
                total[j + 1] += s1
                total[j + 2] += s2
                total[j + 3] += s3
            for j in range(unrolled_end, p):
                x0, s0 = X[start:stop, j], zero
                for i in range(size):
                    s0 += product[i] * x0[i]
                total[j] += s0


@_jit_dense
def fortran_moments(X: Any, weights: Any, U: Any, lo: int, hi: int, height: int, out: Any) -> None:
    """Compute `dense_moments` for X in Fortran order, with partial sums of `height` rows each."""
    k = U.shape[1]
    for j in range(X.shape[1]):
        for start in range(lo, hi, height):
            stop = min(start + height, hi)
            x = X[start:stop, j]
            total = squares = 0.0
            for i in range(stop - start):
                weighted = float64(x[i]) if weights is None else weights[start + i] * float64(x[i])
                total += weighted
                squares += weighted * float64(x[i])
            out[0, j] += total
            out[k + 1, j] += squares
            for q in range(k):
                product = 0.0
                for i in range(stop - start):
                    product += U[start + i, q] * float64(x[i])
                out[q + 1, j] += product


@_jit_dense
def dense_moments(X: Any, weights: Any, U: Any, lo: int, hi: int, out: Any) -> None:
    """Add [column sums of weights x; U'X; column sums of weights x^2] over rows lo:hi to `out`.

    `weights` of None means weights of 1. Four rows are processed at a time, so that `out`, which
    stays in cache, is read and written less often.
    """
    p, k = X.shape[1], U.shape[1]
    sums, squares = out[0], out[k + 1]
    unrolled_end = lo + (hi - lo) // 4 * 4
    for i in range(lo, unrolled_end, 4):
        x0, x1, x2, x3 = X[i], X[i + 1], X[i + 2], X[i + 3]
        w0 = w1 = w2 = w3 = 1.0
        if weights is not None:
            w0, w1, w2, w3 = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(p):
            a, b, c, d = float64(x0[j]), float64(x1[j]), float64(x2[j]), float64(x3[j])
            sums[j] += (w0 * a + w1 * b) + (w2 * c + w3 * d)
            squares[j] += (w0 * a * a + w1 * b * b) + (w2 * c * c + w3 * d * d)
        for q in range(k):
            row, u0, u1, u2, u3 = out[q + 1], U[i, q], U[i + 1, q], U[i + 2, q], U[i + 3, q]
            for j in range(p):
                row[j] += (u0 * x0[j] + u1 * x1[j]) + (u2 * x2[j] + u3 * x3[j])
    for i in range(unrolled_end, hi):
        w = 1.0 if weights is None else weights[i]
        for j in range(p):
            x = float64(X[i, j])
            sums[j] += w * x
            squares[j] += w * x * x
            for q in range(k):
                out[q + 1, j] += U[i, q] * x


@_jit_dense
def dense_affine_map(
    X: Any, scale: Any, left: Any, right: Any, lo: int, hi: int, first: int, out: Any
) -> None:
    """Write diag(scale) X[lo:hi] - left right' to out[lo - first : hi - first], in its dtype."""
    for i in range(lo, hi):
        x, row, s, a = X[i], out[i - first], scale[i], left[i]
        for j in range(X.shape[1]):
            row[j] = out.dtype.type(s * x[j] - a * right[j])


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


@_jit_dense
def narrow_gram(X: Any, scale: Any, left: Any, right: Any, lo: int, hi: int, out: Any) -> None:
    """Add the upper triangle of X~'X~ over rows lo:hi of X~ = diag(scale) X - left right' to `out`.

    This is for few columns, with which BLAS is slow. TRANSPOSED_TILE_ROWS rows at a time are
    transposed into cache, and inner products of the resulting lines are formed in tiles of four by
    four. The order of `out` is p rounded up to a multiple of four.
    """
    p, size = X.shape[1], out.shape[0]
    lines = np.zeros((size, TRANSPOSED_TILE_ROWS))
    for start in range(lo, hi, TRANSPOSED_TILE_ROWS):
        stop = min(start + TRANSPOSED_TILE_ROWS, hi)
        for i in range(start, stop):
            s, shift = scale[i], left[i]
            for j in range(p):
                lines[j, i - start] = s * X[i, j] - shift * right[j]
        for i in range(stop, start + TRANSPOSED_TILE_ROWS):
            for j in range(p):
                lines[j, i - start] = 0.0
        for a in range(0, size, 4):
            a0, a1, a2, a3 = lines[a], lines[a + 1], lines[a + 2], lines[a + 3]
            for b in range(a, size, 4):
                b0, b1, b2, b3 = lines[b], lines[b + 1], lines[b + 2], lines[b + 3]
                s00 = s01 = s02 = s03 = 0.0
                s10 = s11 = s12 = s13 = 0.0
                s20 = s21 = s22 = s23 = 0.0
                s30 = s31 = s32 = s33 = 0.0
                for t in range(TRANSPOSED_TILE_ROWS):
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
                _add4(out, a, b, s00, s01, s02, s03)
                _add4(out, a + 1, b, s10, s11, s12, s13)
                _add4(out, a + 2, b, s20, s21, s22, s23)
                _add4(out, a + 3, b, s30, s31, s32, s33)


# Inlined, because rows may be so short that a call would cost as much as the product itself.
@njit(nogil=True, error_model="numpy", inline="always")
def _row_dot(indices: Any, data: Any, start: Any, stop: Any, v: Any) -> Any:
    """The product with v (p,) of the sparse row in entries start:stop, with four running sums."""
    s0 = s1 = s2 = s3 = v.dtype.type(0)
    t = start
    while t + uint64(4) <= stop:
        s0 += data[t] * v[uint64(indices[t])]
        s1 += data[t + uint64(1)] * v[uint64(indices[t + uint64(1)])]
        s2 += data[t + uint64(2)] * v[uint64(indices[t + uint64(2)])]
        s3 += data[t + uint64(3)] * v[uint64(indices[t + uint64(3)])]
        t += uint64(4)
    while t < stop:
        s0 += data[t] * v[uint64(indices[t])]
        t += uint64(1)
    return (s0 + s1) + (s2 + s3)


@_jit_sparse
def csr_matvec(indptr: Any, indices: Any, data: Any, v: Any, lo: int, hi: int, u: Any) -> None:
    """Write X[lo:hi] v to `u`."""
    for i in range(lo, hi):
        u[i - lo] = _row_dot(indices, data, uint64(indptr[i]), uint64(indptr[i + 1]), v)


@_jit_sparse
def csr_rmatvec(indptr: Any, indices: Any, data: Any, u: Any, lo: int, hi: int, out: Any) -> None:
    """Add X[lo:hi]'u to `out`."""
    for i in range(lo, hi):
        s = u[i - lo]
        for t in range(uint64(indptr[i]), uint64(indptr[i + 1])):
            out[uint64(indices[t])] += s * data[t]


@_jit_sparse
def csr_moments(
    indptr: Any, indices: Any, data: Any, weights: Any, lo: int, hi: int, out: Any
) -> None:
    """Add to the rows of `out`: column sums of weights x, their rounding errors, and squares.

    The squares are column sums of weights x^2. `out` is (3, p); `weights` of None are all 1. The
    sum of the first two rows is as accurate as if it had been rounded once (Ogita, Rump and Oishi
    2005, algorithm Sum2).
    """
    sums, errors, squares = out[0], out[1], out[2]
    for i in range(lo, hi):
        w = 1.0 if weights is None else weights[i]
        for t in range(uint64(indptr[i]), uint64(indptr[i + 1])):
            j = uint64(indices[t])
            x = float64(data[t])
            term, previous = w * x, sums[j]
            total = previous + term
            added = total - previous
            sums[j] = total
            errors[j] += (previous - (total - added)) + (term - added)
            squares[j] += term * x


@_jit_sparse
def csr_gram_matvec(
    indptr: Any,
    indices: Any,
    data: Any,
    v: Any,
    scale: Any,
    shift: Any,
    post: Any,
    row_output: Any,
    lo: int,
    hi: int,
    out: Any,
) -> None:
    """Add X[lo:hi]'(post * row_output) to `out`, row_output = scale * X[lo:hi] v - shift.

    Each row is read once. The four arrays may be None, as in `dense_gram_matvec`.
    """
    for i in range(lo, hi):
        start, stop = uint64(indptr[i]), uint64(indptr[i + 1])
        s = _row_dot(indices, data, start, stop, v)
        if scale is not None:
            s = _transform_row(scale, shift, post, row_output, i, s, out)
        for t in range(start, stop):
            out[uint64(indices[t])] += s * data[t]


@_jit_sparse
def csr_gram_matrix(
    indptr: Any, indices: Any, data: Any, scale: Any, L: Any, lo: int, hi: int, G: Any
) -> None:
    """Add [X' diag(scale)^2 X, X'L] over rows lo:hi to G; each row is read once.

    Only the upper triangle of the first matrix is filled. `scale` of None means scales of 1.
    """
    p = uint64(G.shape[0])
    for i in range(lo, hi):
        start, stop = uint64(indptr[i]), uint64(indptr[i + 1])
        for a in range(start, stop):
            for q in range(uint64(L.shape[1])):
                G[uint64(indices[a]), p + q] += L[i, q] * data[a]
        # Both factors are scaled, because the square of a scale may overflow float64.
        s = G.dtype.type(1) if scale is None else scale[i]
        if _has_increasing_columns(indices, start, stop):
            for a in range(start, stop):
                x, row = s * data[a], G[uint64(indices[a])]
                for b in range(a, stop):
                    row[uint64(indices[b])] += x * (s * data[b])
            continue
        for a in range(start, stop):
            j, x = indices[a], s * data[a]
            G[j, j] += x * x
            for b in range(a + uint64(1), stop):
                k, y = indices[b], s * data[b]
                if k == j:  # a duplicate: one entry of X stored as two terms of a sum
                    G[j, j] += 2 * x * y
                else:
                    G[min(j, k), max(j, k)] += x * y


@_jit_sparse
def _has_increasing_columns(indices: Any, start: int, stop: int) -> bool:
    """Whether the entries of a row are in the order of their columns, without duplicates."""
    for t in range(start + uint64(1), stop):  # noqa: SIM110 (numba compiles no generators in all())
        if indices[t] <= indices[t - uint64(1)]:
            return False
    return True


@_jit_sparse
def csr_matmat(indptr: Any, indices: Any, data: Any, V: Any, lo: int, hi: int, U: Any) -> None:
    """Add X[lo:hi] V to U, for several columns; U is zero on entry."""
    for i in range(lo, hi):
        for t in range(uint64(indptr[i]), uint64(indptr[i + 1])):
            x, row = data[t], V[uint64(indices[t])]
            for j in range(V.shape[1]):
                U[i - lo, j] += x * row[j]


@_jit_sparse
def csr_rmatmat(indptr: Any, indices: Any, data: Any, U: Any, lo: int, hi: int, out: Any) -> None:
    """Add X[lo:hi]'U to `out`, for several columns."""
    for i in range(lo, hi):
        for t in range(uint64(indptr[i]), uint64(indptr[i + 1])):
            x, row = data[t], out[uint64(indices[t])]
            for j in range(U.shape[1]):
                row[j] += x * U[i - lo, j]


_next_radau_factor = njit(nogil=True, error_model="numpy")(next_radau_factor)


@_jit_dense
def _begin_cg_step(
    direction: Any, column_scale: Any, right: Any, scaled: Any, product: Any
) -> float:
    """Set `scaled` to column_scale * direction and `product` to 0; return right'scaled."""
    low = 0.0
    for j in range(len(direction)):
        scaled[j] = direction[j] * column_scale[j]
        product[j] = 0.0
        low += right[j] * scaled[j]
    return low


@_jit_dense
def _finish_product(
    product: Any, right: Any, left_sum: float, column_scale: Any, alpha: float, direction: Any
) -> float:
    """Complete `product` = (A'A + alpha I) direction, from X'(A direction); return its curvature.

    The curvature is direction'product.
    """
    curvature = 0.0
    for j in range(len(product)):
        product[j] = (product[j] - right[j] * left_sum) * column_scale[j] + alpha * direction[j]
        curvature += direction[j] * product[j]
    return curvature


@_jit_dense
def _take_cg_step(
    step: float, direction: Any, product: Any, inverse_diagonal: Any, solution: Any, residual: Any
) -> float:
    """Update the solution and its residual r; return r'P^-1 r."""
    rz = 0.0
    for j in range(len(solution)):
        solution[j] += step * direction[j]
        residual[j] -= step * product[j]
        rz += residual[j] * residual[j] * inverse_diagonal[j]
    return rz


@_jit_sparse
def csr_cg_steps(
    indptr: Any, indices: Any, data: Any, row_scale: Any, left: Any, right: Any,
    column_scale: Any, alpha: float, inverse_diagonal: Any, vectors: Any, numbers: Any,
    constants: Any, goal: float, bounds: Any,
) -> int:  # fmt: skip
    """Steps of conjugate gradients for A = (diag(row_scale) X - left right') diag(column_scale).

    The system is (A'A + alpha I) w = b, with P^-1 = diag(inverse_diagonal). `vectors` (3, p) holds
    w, the residual and the direction, and `numbers` r'P^-1 r and the Gauss-Radau factor; they are
    updated. `constants` are node, lower_ratio, rounding and min_relative_gap of
    `next_radau_factor`. Steps are made until the squared error bound is at most `goal`, or for each
    of `bounds`, which are set. Returns their number.
    """
    solution, residual, direction = vectors[0], vectors[1], vectors[2]
    p, n = len(solution), len(indptr) - 1
    scaled, product = np.empty(p), np.empty(p)
    for number in range(len(bounds)):
        low = _begin_cg_step(direction, column_scale, right, scaled, product)
        left_sum = 0.0
        for i in range(n):
            start, stop = uint64(indptr[i]), uint64(indptr[i + 1])
            u = row_scale[i] * _row_dot(indices, data, start, stop, scaled) - left[i] * low
            left_sum += left[i] * u
            u *= row_scale[i]
            for t in range(start, stop):
                product[uint64(indices[t])] += u * data[t]
        curvature = _finish_product(product, right, left_sum, column_scale, alpha, direction)
        rz = numbers[0]
        step = rz / curvature if curvature > 0 else 0.0
        new_rz = _take_cg_step(step, direction, product, inverse_diagonal, solution, residual)
        beta = new_rz / rz if rz > 0 else 0.0
        for j in range(p):
            direction[j] = residual[j] * inverse_diagonal[j] + beta * direction[j]
        node, lower_ratio, rounding, min_gap = constants
        factor = _next_radau_factor(numbers[1], step, beta, node, lower_ratio, rounding, min_gap)
        numbers[0], numbers[1] = new_rz, factor[0]
        bounds[number] = factor[1] * new_rz
        if not new_rz > 0 and residual.any():  # r'P^-1 r of this residual was lost to rounding
            bounds[number] = np.inf
        if not (step > 0 and new_rz > 0 and bounds[number] > goal):
            return number + 1
    return len(bounds)
