"""The only oracle: ridge regression computed in other ways than anywhere in ling.

minimise  ||y - X w||^2 + alpha ||w||^2          alpha = n lam of the paper
"""

from __future__ import annotations

import mpmath
import numpy as np
from scipy import linalg


def ridge(X, y, alpha):
    """R w = Q'[y; 0] with QR = [X; sqrt(alpha) I]; for alpha = 0 the minimum-norm solution.

    X'X is never formed, so the condition of X enters the fitted values as it is, not squared.
    """
    if alpha == 0:
        return minimum_norm(X, y)
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    p = X.shape[1]
    Q, R = linalg.qr(np.vstack([X, np.sqrt(alpha) * np.eye(p)]), mode="economic")
    return linalg.solve_triangular(R, Q.T @ np.concatenate([y, np.zeros(p)]))


def minimum_norm(X, y):
    """V diag(1 / d) U'y: of all w with the least ||y - X w||, the one with the least ||w||.

    Singular values below max(n, p) eps d_1 count as zero.
    """
    U, d, Vt = linalg.svd(np.asarray(X, dtype=np.float64), full_matrices=False)
    kept = d > max(np.shape(X)) * np.finfo(np.float64).eps * d[0]
    return Vt[kept].T @ ((U[:, kept].T @ y) / d[kept])


def extreme_ridge(X, y, alpha, digits=80):
    """X'(XX' + alpha I)^-1 y or (X'X + alpha I)^-1 X'y in `digits` decimal digits, then rounded.

    For tiny problems whose condition leaves float64 nothing; alpha = 0 needs X of full rank.
    """
    with mpmath.workdps(digits):
        A = mpmath.matrix(np.asarray(X, dtype=np.float64).tolist())
        b = mpmath.matrix(np.asarray(y, dtype=np.float64).tolist())
        return np.array([float(value) for value in _solve(A, b, mpmath.mpf(float(alpha)))])


def _solve(A, b, alpha):
    """(A'A + alpha I)^-1 A'b by the smaller of A'A and A A', in the digits of mpmath's context."""
    if A.rows >= A.cols:
        return mpmath.lu_solve(A.T * A + alpha * mpmath.eye(A.cols), A.T * b)
    return A.T * mpmath.lu_solve(A * A.T + alpha * mpmath.eye(A.rows), b)


def inverse_diagonal(X, alpha, digits=80):
    """The diagonal of (X'X + alpha I)^-1 in `digits` decimal digits, then rounded; for tiny X."""
    with mpmath.workdps(digits):
        A = mpmath.matrix(np.asarray(X, dtype=np.float64).tolist())
        inverse = (A.T * A + mpmath.mpf(float(alpha)) * mpmath.eye(A.cols)) ** -1
        return np.array([float(inverse[j, j]) for j in range(A.cols)])


def prediction_error(
    X, y, alpha, coef, weights=None, fit_intercept=True, digits=700, intercept=None
):
    """||sqrt(W) X~ (coef - w*)|| / ||sqrt(W) y~||, w* exact, X~ and y~ exactly centred.

    With `intercept`, the error of X coef + intercept, so that the intercept's error counts as well.
    In so many digits that nothing of it is rounding, for tiny problems of any condition and scale.
    alpha = 0 needs X~ of full rank. 0 / 0 is 0.
    """
    with mpmath.workdps(digits):
        A = mpmath.matrix(np.asarray(X, dtype=np.float64).tolist())
        b = mpmath.matrix(np.asarray(y, dtype=np.float64).tolist())
        w = [mpmath.mpf(1)] * A.rows if weights is None else [mpmath.mpf(v) for v in weights]
        total_weight = mpmath.fsum(w)
        roots = [mpmath.sqrt(v) for v in w]
        found = mpmath.matrix([mpmath.mpf(float(v)) for v in coef])
        shift_of_all = mpmath.mpf(0 if intercept is None else float(intercept))
        if fit_intercept:
            for column in (*range(A.cols),):
                mean = mpmath.fsum(w[i] * A[i, column] for i in range(A.rows)) / total_weight
                shift_of_all += mean * found[column]
                for i in range(A.rows):
                    A[i, column] -= mean
            mean = mpmath.fsum(w[i] * b[i] for i in range(A.rows)) / total_weight
            shift_of_all -= mean
            for i in range(A.rows):
                b[i] -= mean
        for i in range(A.rows):
            b[i] *= roots[i]
            for j in range(A.cols):
                A[i, j] *= roots[i]
        off = A * (found - _solve(A, b, mpmath.mpf(float(alpha))))
        if intercept is not None:
            off += shift_of_all * mpmath.matrix(roots)
        error, spread = mpmath.norm(off), mpmath.norm(b)
        return float(error / spread) if spread else float(error > 0)


def objective(X, y, alpha, w):
    """||y - X w||^2 + alpha ||w||^2."""
    residual = y - X @ w
    return residual @ residual + alpha * (w @ w)
