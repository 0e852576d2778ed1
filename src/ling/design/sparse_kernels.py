"""Loops over sparse X in CSR format, compiled by numba on first use and cached on disk.

Each kernel works on one range of rows and releases the GIL; `ling.linalg.threads` runs several at
once. Products with rows of X keep four running sums, because vectorised gathers are slow. Indices
are read as unsigned integers, which avoids numba's check for negative indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, njit, uint64

from ling.design.row_kernels import transform_row
from ling.linalg.compiled import compiled
from ling.linalg.gauss_radau import next_radau_factor

# Loops over vectors may reorder sums and fuse multiply-adds, so that they can be vectorised.
_jit_dense = compiled(fastmath={"reassoc", "contract"})
_jit_sparse = compiled()


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
            s = transform_row(scale, shift, post, row_output, i, s, out)
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
