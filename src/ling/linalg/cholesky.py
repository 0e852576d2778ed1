"""Scaled Cholesky factors, for Gram matrices whose columns have very different norms.

Rounding in a tridiagonal form is relative to the largest entry, and may exceed the entries of small
columns. A Cholesky factor of the matrix scaled to a unit diagonal does not have this problem, but
is computed for one alpha at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from ling._typing import Array
from ling.linalg.rounding import EPS
from ling.linalg.tridiagonal import EIGENVALUE_NOISE, HouseholderTridiagonal, tridiagonalize

# The tridiagonal form is used only if the smallest squared column norm plus alpha exceeds the noise
# of its eigenvalues by this factor ...
MIN_COLUMN_TO_NOISE_RATIO = 1e5
# ... or if the matrix has more columns than this, as a factor for every alpha would take too long.
MAX_CHOLESKY_SIZE = 3000


@dataclass(frozen=True, eq=False)
class ScaledCholesky:
    """Same interface as `HouseholderTridiagonal`, for a symmetric A (m, m) with Q = I."""

    A: Array

    def __len__(self) -> int:
        return len(self.A)

    @property
    def Q(self) -> Array:  # noqa: N802  (a matrix)
        """The identity."""
        return np.eye(len(self))

    def rotate(self, C: Array) -> Array:
        """C."""
        return np.array(C, dtype=np.float64)

    def unrotate(self, C: Array) -> Array:
        """C."""
        return C

    def solve(self, C: Array, alpha: float) -> Array:
        """(A + alpha I)^-1 C for C (m, k), by a Cholesky factorisation: m^3 / 3 FLOPs."""
        factor, scale = self._factorize(alpha)
        inner, _ = lapack.dpotrs(factor, C / scale[:, None], lower=True)
        return np.asarray(inner / scale[:, None])

    def quadratic_forms(self, Z: Array, alphas: Array, *, reuse_kernel: bool = False) -> Array:
        """z'(A + alpha I)^-1 z (n, n_alphas) for every row z of Z (n, m) and every alpha."""
        forms = np.empty((len(Z), len(alphas)))
        for column, alpha in enumerate(alphas):
            factor, scale = self._factorize(float(alpha))
            half_solution = linalg.solve_triangular(
                factor, (Z / scale).T, lower=True, check_finite=False
            )
            forms[:, column] = np.einsum("ij,ij->j", half_solution, half_solution)
        return forms

    def effective_dof(self, alphas: Array) -> Array:
        """Effective degrees of freedom for each alpha.

        trace A (A + alpha I)^-1 = m - alpha trace (A + alpha I)^-1.
        """
        dof = np.empty(len(alphas))
        for index, alpha in enumerate(alphas):
            factor, scale = self._factorize(float(alpha))
            inverse_factor = lapack.dtrtri(factor, lower=True)[0] / scale
            dof[index] = len(self) - alpha * float((inverse_factor**2).sum())
        return dof

    def relative_error(self, alphas: Array) -> Array:
        """Estimated relative error of solutions for each alpha: negligible, so 0."""
        return np.zeros(len(alphas))

    def _factorize(self, alpha: float) -> tuple[Array, Array]:
        """L and the diagonal of D^1/2 with D^1/2 L L' D^1/2 = A + alpha I.

        If rounding makes the scaled matrix indefinite, its diagonal is raised by a small multiple
        of EPS.
        """
        scale = np.sqrt(np.diag(self.A) + max(alpha, np.finfo(np.float64).tiny))
        H = self.A / scale / scale[:, None]
        lift = 0.0
        while True:
            np.fill_diagonal(H, 1.0 + lift)
            factor, info = lapack.dpotrf(H, lower=True, clean=True)
            if not info:
                return factor, scale
            lift = max(8 * EPS * len(H), 4 * lift)


def symmetric_form(A: Array, least: float) -> HouseholderTridiagonal | ScaledCholesky:
    """Tridiagonal form of A, or `ScaledCholesky` where it is too inaccurate for alphas >= least."""
    squares = np.diag(A)
    smallest = float(squares[squares > 0].min(initial=np.inf))
    too_inaccurate = (
        MIN_COLUMN_TO_NOISE_RATIO * EIGENVALUE_NOISE * float(squares.sum()) > smallest + least
    )
    return (
        ScaledCholesky(A) if too_inaccurate and len(A) <= MAX_CHOLESKY_SIZE else tridiagonalize(A)
    )
