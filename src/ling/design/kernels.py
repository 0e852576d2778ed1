"""The loops that BLAS cannot do, compiled by numba on first use and cached on disk.

Each works on one range of rows and releases the GIL; `ling.design.threads` runs several at once.
Sums over a dense row may be reordered (vectorised); sums over a sparse row keep four running sums
instead, because vectorised gathers are slow. Indices are read as unsigned, which spares numba's
check for negative ones.
"""

from __future__ import annotations

from typing import Any

from numba import njit, uint64

_dense = njit(nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "contract"})
_sparse = njit(nogil=True, cache=True, error_model="numpy")


@_dense
def dense_product(X: Any, v: Any, u: Any) -> None:
    """u = X v, four rows at a time: each element of v is loaded once for four products."""
    n, p = X.shape
    whole = n - n % 4
    for i in range(0, whole, 4):
        a, b, c, d = X[i], X[i + 1], X[i + 2], X[i + 3]
        s0 = s1 = s2 = s3 = X.dtype.type(0)
        for j in range(p):
            s0 += a[j] * v[j]
            s1 += b[j] * v[j]
            s2 += c[j] * v[j]
            s3 += d[j] * v[j]
        u[i], u[i + 1], u[i + 2], u[i + 3] = s0, s1, s2, s3
    for i in range(whole, n):
        s0 = X.dtype.type(0)
        for j in range(p):
            s0 += X[i, j] * v[j]
        u[i] = s0


@_dense
def dense_adjoint(X: Any, u: Any, out: Any) -> None:
    """out += X'u, four rows at a time: `out` is read and written once for four of them."""
    n, p = X.shape
    whole = n - n % 4
    for i in range(0, whole, 4):
        a, b, c, d = X[i], X[i + 1], X[i + 2], X[i + 3]
        s0, s1, s2, s3 = u[i], u[i + 1], u[i + 2], u[i + 3]
        for j in range(p):
            out[j] += s0 * a[j] + s1 * b[j] + s2 * c[j] + s3 * d[j]
    for i in range(whole, n):
        for j in range(p):
            out[j] += u[i] * X[i, j]


@_sparse
def _row_dot(indices: Any, data: Any, start: Any, stop: Any, v: Any) -> Any:
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


@_sparse
def csr_product(indptr: Any, indices: Any, data: Any, v: Any, lo: int, hi: int, u: Any) -> None:
    """u = X[lo:hi] v."""
    for i in range(lo, hi):
        u[i - lo] = _row_dot(indices, data, uint64(indptr[i]), uint64(indptr[i + 1]), v)


@_sparse
def csr_adjoint(indptr: Any, indices: Any, data: Any, u: Any, lo: int, hi: int, out: Any) -> None:
    """out += X[lo:hi]'u."""
    for i in range(lo, hi):
        s = u[i - lo]
        for t in range(uint64(indptr[i]), uint64(indptr[i + 1])):
            out[uint64(indices[t])] += s * data[t]


@_sparse
def csr_gram(indptr: Any, indices: Any, data: Any, v: Any, lo: int, hi: int, out: Any) -> None:
    """out += X[lo:hi]'(X[lo:hi] v), each row read once."""
    for i in range(lo, hi):
        start, stop = uint64(indptr[i]), uint64(indptr[i + 1])
        s = _row_dot(indices, data, start, stop, v)
        for t in range(start, stop):
            out[uint64(indices[t])] += s * data[t]


@_sparse
def csr_gram_matrix(
    indptr: Any, indices: Any, data: Any, scale: Any, lo: int, hi: int, G: Any
) -> None:
    """Upper triangle of G += X[lo:hi]' diag(scale)^2 X[lo:hi]; `scale` may be None."""
    for i in range(lo, hi):
        weight = G.dtype.type(1) if scale is None else scale[i] * scale[i]
        for a in range(indptr[i], indptr[i + 1]):
            j, x = indices[a], weight * data[a]
            G[j, j] += x * data[a]
            for b in range(a + 1, indptr[i + 1]):
                k = indices[b]
                if k == j:  # an entry stored in two parts
                    G[j, j] += 2 * x * data[b]
                else:
                    G[min(j, k), max(j, k)] += x * data[b]


@_sparse
def csr_product_block(
    indptr: Any, indices: Any, data: Any, V: Any, lo: int, hi: int, U: Any
) -> None:
    """U = X[lo:hi] V for several columns."""
    for i in range(lo, hi):
        for t in range(uint64(indptr[i]), uint64(indptr[i + 1])):
            x, row = data[t], V[uint64(indices[t])]
            for j in range(V.shape[1]):
                U[i - lo, j] += x * row[j]


@_sparse
def csr_adjoint_block(
    indptr: Any, indices: Any, data: Any, U: Any, lo: int, hi: int, out: Any
) -> None:
    """out += X[lo:hi]'U for several columns."""
    for i in range(lo, hi):
        for t in range(uint64(indptr[i]), uint64(indptr[i + 1])):
            x, row = data[t], out[uint64(indices[t])]
            for j in range(U.shape[1]):
                row[j] += x * U[i - lo, j]
