"""Loops over dense X for which there is no BLAS routine, compiled by numba on first use.

Each kernel works on one range of rows and releases the GIL; `ling.linalg.threads` runs several at
once. They may reorder sums and fuse multiply-adds, so that they can be vectorised. Compiled code is
cached on disk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, njit

from ling.design.row_kernels import add4, transform_row
from ling.linalg.compiled import compiled

# Columns that the register tiles of `dense_gram_matmat` process together.
BLOCK_COLUMNS = 4
# Rows of X that `dense_gram_matmat` keeps in cache for all columns and both products.
TILE_ROWS = 8
_jit_dense = compiled(fastmath={"reassoc", "contract"})


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
            s0 = transform_row(scale, shift, post, row_output, i, s0, out)
            s1 = transform_row(scale, shift, post, row_output, i + 1, s1, out)
            s2 = transform_row(scale, shift, post, row_output, i + 2, s2, out)
            s3 = transform_row(scale, shift, post, row_output, i + 3, s3, out)
            s4 = transform_row(scale, shift, post, row_output, i + 4, s4, out)
            s5 = transform_row(scale, shift, post, row_output, i + 5, s5, out)
            s6 = transform_row(scale, shift, post, row_output, i + 6, s6, out)
            s7 = transform_row(scale, shift, post, row_output, i + 7, s7, out)
        for j in range(p):
            out[j] += (s0 * x0[j] + s1 * x1[j] + s2 * x2[j] + s3 * x3[j]) + (
                s4 * x4[j] + s5 * x5[j] + s6 * x6[j] + s7 * x7[j]
            )
    for i in range(unrolled_end, hi):
        s0 = zero
        for j in range(p):
            s0 += X[i, j] * v[j]
        if scale is not None:
            s0 = transform_row(scale, shift, post, row_output, i, s0, out)
        for j in range(p):
            out[j] += s0 * X[i, j]


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
            add4(u, i - start, c, a0, a1, a2, a3)
            add4(u, i - start + 1, c, b0, b1, b2, b3)
            add4(u, i - start + 2, c, c0, c1, c2, c3)
            add4(u, i - start + 3, c, d0, d1, d2, d3)
        for i in range(unrolled_end, stop):
            x0 = X[i, first:last]
            a0 = a1 = a2 = a3 = zero
            for j in range(width):
                a0 += x0[j] * v0[j]
                a1 += x0[j] * v1[j]
                a2 += x0[j] * v2[j]
                a3 += x0[j] * v3[j]
            add4(u, i - start, c, a0, a1, a2, a3)


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
def fortran_moments(X: Any, weights: Any, lo: int, hi: int, height: int, out: Any) -> None:
    """Add [column sums of weights x; column sums of weights x^2] over rows lo:hi to `out`.

    X is in Fortran order. `weights` of None means weights of 1. Sums of `height` rows each are
    added up.
    """
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
            out[1, j] += squares


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
