"""The loops of the engines that BLAS and LAPACK cannot do, compiled by numba."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = np.ndarray[Any, Any]


@numba.njit(nogil=True, cache=True, fastmath={"contract"})
def tridiagonal_forms(Z: Array, inverse: Array, ratios: Array, out: Array) -> None:
    """out[i, l] = sum_j u_j^2 inverse[j, l], u_j = Z[i, j] - ratios[j, l] u_{j-1}.

    All alphas l side by side, so that what is read of Z is used while it is at hand.
    """
    n, m = Z.shape
    lanes = inverse.shape[1]
    u = np.empty(lanes)
    for i in range(n):
        for lane in range(lanes):
            u[lane] = 0.0
            out[i, lane] = 0.0
        for j in range(m):
            z = Z[i, j]
            for lane in range(lanes):
                u[lane] = z - ratios[j, lane] * u[lane]
                out[i, lane] += u[lane] * u[lane] * inverse[j, lane]
