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


class ExactRidge:
    """The exact solution of one problem, against which any number of coefficients is measured.

    In so many digits that nothing of it is rounding, for tiny problems of any condition and scale.
    alpha = 0 needs centred X of full rank.
    """

    def __init__(self, X, y, alpha, weights=None, fit_intercept=True, digits=700):
        self.digits = digits
        with mpmath.workdps(digits):
            A = mpmath.matrix(np.asarray(X, dtype=np.float64).tolist())
            b = mpmath.matrix(np.asarray(y, dtype=np.float64).tolist())
            w = [mpmath.mpf(1)] * A.rows if weights is None else [mpmath.mpf(v) for v in weights]
            total_weight = mpmath.fsum(w)
            self.roots = mpmath.matrix([mpmath.sqrt(v) for v in w])
            self.x_mean, self.y_mean = mpmath.zeros(A.cols, 1), mpmath.mpf(0)
            if fit_intercept:
                for j in range(A.cols):
                    self.x_mean[j] = mpmath.fdot(w, A[:, j]) / total_weight
                self.y_mean = mpmath.fdot(w, b) / total_weight
            for i in range(A.rows):
                b[i] = self.roots[i] * (b[i] - self.y_mean)
                for j in range(A.cols):
                    A[i, j] = self.roots[i] * (A[i, j] - self.x_mean[j])
            self.A, self.centred_y, self.spread = A, b, mpmath.norm(b)
            self.coef = _solve(A, b, mpmath.mpf(float(alpha)))

    def coef_errors(self, coef):
        """|coef_j - w*_j| for every j, and the norm of the difference."""
        with mpmath.workdps(self.digits):
            off = mpmath.matrix([mpmath.mpf(float(v)) for v in coef]) - self.coef
            return np.array([float(abs(v)) for v in off]), float(mpmath.norm(off))

    def errors_of_predictions(self, rows, predicted):
        """|predicted_i - x_i'w* - b*| for the rows x_i, with the exact w* and b*."""
        with mpmath.workdps(self.digits):
            intercept = self.y_mean - mpmath.fdot(self.x_mean, self.coef)
            errors = []
            for row, value in zip(rows.tolist(), predicted.tolist(), strict=True):
                exact = mpmath.fdot([mpmath.mpf(v) for v in row], self.coef) + intercept
                errors.append(float(abs(mpmath.mpf(value) - exact)))
            return np.array(errors)

    def prediction_error(self, coef, intercept=None):
        """||sqrt(W) X~ (coef - w*)|| / ||sqrt(W) y~||, w* exact, X~ and y~ exactly centred.

        With `intercept`, the error of X coef + intercept, so that the intercept's error counts as
        well. 0 / 0 is 0.
        """
        with mpmath.workdps(self.digits):
            found = mpmath.matrix([mpmath.mpf(float(v)) for v in coef])
            off = self.A * (found - self.coef)
            if intercept is not None:
                shift = mpmath.mpf(float(intercept)) + mpmath.fdot(self.x_mean, found) - self.y_mean
                off += shift * self.roots
            error = mpmath.norm(off)
            return float(error / self.spread) if self.spread else float(error > 0)


def prediction_error(
    X, y, alpha, coef, weights=None, fit_intercept=True, digits=700, intercept=None
):
    """The error of one vector of coefficients (see `ExactRidge`)."""
    exact = ExactRidge(X, y, alpha, weights, fit_intercept, digits)
    return exact.prediction_error(coef, intercept)


def objective(X, y, alpha, w):
    """||y - X w||^2 + alpha ||w||^2."""
    residual = y - X @ w
    return residual @ residual + alpha * (w @ w)
