"""Factorisations of matrices with few columns."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ling._typing import Array


def orthonormalize(A: Array) -> Array:
    """Orthonormal basis (m, k) of the columns of A (m, k), by QR."""
    return np.asarray(linalg.qr(A, mode="economic", check_finite=False)[0])


def thin_svd(A: Array) -> tuple[Array, Array]:
    """U (m, k) and the singular values (k,) of A (m, k), k small, by QR and an SVD of R."""
    Q, R = linalg.qr(A, mode="economic", check_finite=False)
    U, S, _ = linalg.svd(R, full_matrices=False, check_finite=False)
    return np.asarray(Q @ U), S
