"""SciPy's decompositions, on one BLAS thread where the matrix is too small for more."""

from __future__ import annotations

from typing import Literal

from scipy import linalg

from ling._typing import Array
from ling.linalg.threads import blas_threads_for


def eigh(A: Array) -> tuple[Array, Array]:
    """Eigenvalues (m,), smallest first, and eigenvectors (m, m) of a symmetric A (m, m)."""
    with blas_threads_for(9.0 * len(A) ** 3):
        values, vectors = linalg.eigh(A, check_finite=False)
    return values, vectors


def eigvalsh(A: Array) -> Array:
    """Eigenvalues (m,), smallest first, of a symmetric A (m, m)."""
    with blas_threads_for(4.0 / 3 * len(A) ** 3):
        values: Array = linalg.eigvalsh(A, check_finite=False)
    return values


def qr(A: Array, overwrite: bool = False) -> tuple[Array, Array]:
    """Q (m, k) with orthonormal columns and R (k, k), Q R = A (m, k); may overwrite A."""
    with blas_threads_for(4.0 * A.shape[0] * A.shape[1] ** 2):
        Q, R = linalg.qr(A, mode="economic", check_finite=False, overwrite_a=overwrite)
    return Q, R


def svd(A: Array, driver: Literal["gesdd", "gesvd"] = "gesdd") -> tuple[Array, Array, Array]:
    """U (n, k), d (k,) and V' (k, p), k = min(n, p), with U diag(d) V' = A (n, p)."""
    n, p = A.shape
    with blas_threads_for(6.0 * n * p * min(n, p)):
        U, d, Vt = linalg.svd(A, full_matrices=False, check_finite=False, lapack_driver=driver)
    return U, d, Vt
