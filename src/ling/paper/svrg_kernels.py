"""The row loops of SVRG, compiled by numba on first use and cached on disk.

A row of the design is x~_i = s_i (d * x_i) - R L_i: a stored row, scaled, and a low-rank correction
(none for plain data, U1 U1'X for LING's X_r). The iterate is kept as delta = v - R c together with
z = R'delta, so that one step costs O(stored entries + rank) and R itself is never touched:

    x~_i'delta = s_i (x_i'(d * v) - P_i'c) - L_i'z          P = X (d * R)
    delta <- decay delta - b x~_i - h                        T = s * P - L R'R, so z stays R'delta
"""

from __future__ import annotations

from typing import Any

from ling.linalg.compiled import compiled

_compiled = compiled(fastmath={"reassoc", "contract"})


@_compiled
def _correction(i: int, s: float, L: Any, P: Any, c: Any, z: Any) -> float:
    total = 0.0
    for q in range(c.shape[0]):
        total += s * P[i, q] * c[q] + L[i, q] * z[q]
    return total


@_compiled
def _step_correction(
    i: int, b: float, decay: float, L: Any, T: Any, Rh: Any, c: Any, z: Any
) -> None:
    for q in range(c.shape[0]):
        c[q] = decay * c[q] - b * L[i, q]
        z[q] = decay * z[q] - b * T[i, q] - Rh[q]


@_compiled
def dense_epoch(
    X: Any, s: Any, d: Any, L: Any, P: Any, T: Any,
    order: Any, step: float, decay: float, h: Any, Rh: Any, v: Any, c: Any, z: Any,
) -> None:  # fmt: skip
    """One inner loop over dense rows; `d` is None when columns are not scaled."""
    p = X.shape[1]
    for i in order:
        x = X[i]
        dot = 0.0
        for j in range(p):
            dot += (x[j] if d is None else x[j] * d[j]) * v[j]
        b = step * (s[i] * dot - _correction(i, s[i], L, P, c, z))
        bs = b * s[i]
        for j in range(p):
            v[j] = decay * v[j] - bs * (x[j] if d is None else x[j] * d[j]) - h[j]
        _step_correction(i, b, decay, L, T, Rh, c, z)


@_compiled
def csr_epoch(
    indptr: Any, indices: Any, data: Any, s: Any, d: Any, L: Any, P: Any, T: Any,
    order: Any, step: float, powers: Any, sums: Any, h: Any, Rh: Any, v: Any, c: Any, z: Any,
    seen: Any,
) -> None:  # fmt: skip
    """The same over sparse rows: v_j is brought up to date only when a row stores column j.

    m steps without column j take v_j to powers[m] v_j - sums[m] h_j; `seen` is v_j's last step.
    """
    decay = powers[1]
    for t in range(order.shape[0]):
        i = order[t]
        dot = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            lag = t - seen[j]
            v[j] = powers[lag] * v[j] - sums[lag] * h[j]
            dot += (data[e] if d is None else data[e] * d[j]) * v[j]
        b = step * (s[i] * dot - _correction(i, s[i], L, P, c, z))
        bs = b * s[i]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            v[j] = decay * v[j] - bs * (data[e] if d is None else data[e] * d[j]) - h[j]
            seen[j] = t + 1
        _step_correction(i, b, decay, L, T, Rh, c, z)
    for j in range(v.shape[0]):
        lag = order.shape[0] - seen[j]
        v[j] = powers[lag] * v[j] - sums[lag] * h[j]


@_compiled
def dense_norms(X: Any, d: Any, squares: Any) -> None:
    """squares[i] = ||d * x_i||^2, in float64."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = 1.0 * X[i, j] if d is None else X[i, j] * d[j]
            squares[i] += x * x


@_compiled
def csr_norms(indptr: Any, indices: Any, data: Any, d: Any, squares: Any) -> None:
    """The same for sparse rows."""
    for i in range(squares.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            x = 1.0 * data[e] if d is None else data[e] * d[indices[e]]
            squares[i] += x * x
