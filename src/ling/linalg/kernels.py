"""Loops of the engines that BLAS and LAPACK do not offer, compiled by numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from ling.linalg.compiled import compiled

Array = np.ndarray[Any, Any]


@compiled(fastmath={"contract"})
def tridiagonal_quadratic_forms(Z: Array, inverse: Array, ratios: Array, out: Array) -> None:
    """Quadratic forms out[i, l] = sum_j u_j^2 inverse[j, l], u_j = Z[i, j] - ratios[j, l] u_{j-1}.

    Z is (n, m); inverse and ratios are (m, n_alphas). All alphas l are processed side by side, for
    four rows at a time, so that values that were read are used several times.
    """
    n, m = Z.shape
    lanes = inverse.shape[1]
    u, h = np.empty((4, lanes)), np.empty((4, lanes))
    for i in range(0, n, 4):
        # If n is not a multiple of four, the last row is computed repeatedly.
        i1, i2, i3 = min(i + 1, n - 1), min(i + 2, n - 1), min(i + 3, n - 1)
        u[:] = 0.0
        h[:] = 0.0
        for j in range(m):
            z0, z1, z2, z3 = Z[i, j], Z[i1, j], Z[i2, j], Z[i3, j]
            for lane in range(lanes):
                ratio, scale = ratios[j, lane], inverse[j, lane]
                u0 = z0 - ratio * u[0, lane]
                u1 = z1 - ratio * u[1, lane]
                u2 = z2 - ratio * u[2, lane]
                u3 = z3 - ratio * u[3, lane]
                u[0, lane], u[1, lane], u[2, lane], u[3, lane] = u0, u1, u2, u3
                h[0, lane] += u0 * u0 * scale
                h[1, lane] += u1 * u1 * scale
                h[2, lane] += u2 * u2 * scale
                h[3, lane] += u3 * u3 * scale
        out[i], out[i1], out[i2], out[i3] = h[0], h[1], h[2], h[3]
