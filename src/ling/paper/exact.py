"""Equation (2) of the paper: the exact solution, in primal or dual form."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from ling.design import Array, Meter
from ling.paper.fit import Fit
from ling.paper.inputs import checked_alpha, checked_design, checked_target


def ridge(X: Any, y: Any, lam: float) -> Fit:
    """coef = (X'X + n lam I)^-1 X'y, or X'(XX' + n lam I)^-1 y when p > n.

    With m = min(n, p) and q = max(n, p): q m (m + 1) FLOPs for the Gram matrix, m^3 / 3 for its
    Cholesky factor, 2 m^2 for solving with it, 2 n p each for X'(.) and the fitted values;
    3 passes.

    lam = 0 gives the minimum-norm least-squares solution. There, and wherever n lam is below the
    rounding errors of the Gram matrix, its eigendecomposition is used instead (9 m^3 FLOPs), and
    directions whose singular value is under sqrt(m eps) of the largest count as absent. Just above
    that limit the Gram matrix is nearly singular, and fitted values may lose most of their digits.

    >>> import numpy as np
    >>> ridge(np.eye(2), np.array([1.0, 3.0]), lam=0.5).coef
    array([0.5, 1.5])
    """
    design = checked_design(X)
    target = checked_target(y, design)
    n, p = design.shape
    alpha = checked_alpha(lam, n)
    if p <= n:
        gram = design.gram(np.float64)
        coef = _solve_shifted(gram, alpha, design.rmatmat(target), design.meter)
    else:
        gram = design.row_gram(np.float64)
        coef = design.rmatmat(_solve_shifted(gram, alpha, target, design.meter))
    return Fit(coef, design.matmat(coef), design.cost)


def _solve_shifted(G: Array, alpha: float, b: Array, meter: Meter) -> Array:
    """(G + alpha I)^-1 b, or its pseudo-inverse where that is singular."""
    m = len(b)
    rounding = m * np.finfo(np.float64).eps * np.trace(G)
    if alpha > rounding:
        G.flat[:: m + 1] += alpha
        meter.add(flops=m**3 / 3 + 2 * m**2)
        return np.asarray(linalg.cho_solve(linalg.cho_factor(G, overwrite_a=True), b))
    d, V = linalg.eigh(G)
    meter.add(flops=9 * m**3 + 4 * m**2)
    seen = d > m * np.finfo(np.float64).eps * d[-1]
    return np.asarray(V[:, seen] @ ((V[:, seen].T @ b) / (d[seen] + alpha)))
