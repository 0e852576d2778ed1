"""Equation (2) of the paper: the exact solution, in primal or dual form."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from ling._typing import Array, MatrixLike
from ling.design import Meter
from ling.linalg.cholesky import potrf
from ling.paper.inputs import check_alpha, check_design, check_target
from ling.paper.results import Fit


def ridge(X: MatrixLike, y: ArrayLike, lam: float) -> Fit:
    """coef = (X'X + n lam I)^-1 X'y, or X'(XX' + n lam I)^-1 y when p > n.

    With m = min(n, p) and q = max(n, p): q m (m + 1) FLOPs for the Gram matrix, m^3 / 3 for its
    Cholesky factor, 2 m^2 for solving with it, 2 n p each for X'(.) and the fitted values;
    3 passes.

    lam = 0 gives the minimum-norm least-squares solution. Where the Gram matrix, scaled to a unit
    diagonal, is singular to rounding, its eigendecomposition is used instead (9 m^3 FLOPs more),
    and directions whose singular value is under sqrt(m eps) of the largest count as absent. Near
    that limit fitted values may lose most of their digits, as with every method that forms X'X.

    Parameters
    ----------
    X : array, sparse matrix or Design of shape (n, p)
    y : array of shape (n,)
    lam : float
        The paper's lambda, >= 0: scikit-learn's alpha divided by n.

    Returns
    -------
    Fit
        `coef`, `fitted`, `cost` and `predict`.

    Examples
    --------
    >>> import numpy as np
    >>> ridge(np.eye(2), np.array([1.0, 3.0]), lam=0.5).coef
    array([0.5, 1.5])
    """
    design = check_design(X)
    target = check_target(y, design)
    n, p = design.shape
    alpha = check_alpha(lam, n)
    if p <= n:
        gram = design.gram(np.float64)
        coef = _solve_shifted(gram, alpha, design.rmatmat(target), design.meter)
    else:
        gram = design.row_gram(np.float64)
        coef = design.rmatmat(_solve_shifted(gram, alpha, target, design.meter))
    return Fit(coef, design.matmat(coef), design.cost)


def _solve_shifted(G: Array, alpha: float, b: Array, meter: Meter) -> Array:
    """(G + alpha I)^-1 b, or its pseudo-inverse where that is singular to rounding."""
    m, eps = len(b), np.finfo(np.float64).eps
    # A unit diagonal, so that columns in very different units do not look like rounding errors.
    diagonal = np.diag(G) + alpha
    root = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = (G / root) / root[:, None]
    scaled.flat[:: m + 1] = np.where(diagonal > 0, 1.0, 0.0)
    meter.add(flops=m**3 / 3 + 2 * m**2)
    factor, info = potrf(scaled, lower=False, overwrite=True)
    # Otherwise it is singular, and what follows is made for that.
    if info == 0 and np.diag(factor).min() ** 2 > 10 * m * eps:
        return np.asarray(linalg.cho_solve((factor, False), b / root) / root)
    d, V = linalg.eigh(G)
    meter.add(flops=9 * m**3 + 4 * m**2)
    seen = d > m * eps * d[-1]
    return np.asarray(V[:, seen] @ ((V[:, seen].T @ b) / (d[seen] + alpha)))
