"""Factorisations of matrices with few columns."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ling._typing import Array


def orthonormalize(A: Array) -> Array:
    """An orthonormal basis of the columns of A."""
    return np.asarray(linalg.qr(A, mode="economic", check_finite=False)[0])


def thin_svd(A: Array) -> tuple[Array, Array]:
    """U and the singular values of a matrix with few columns, by way of its QR factorisation."""
    Q, R = linalg.qr(A, mode="economic", check_finite=False)
    U, S, _ = linalg.svd(R, full_matrices=False, check_finite=False)
    return np.asarray(Q @ U), S
