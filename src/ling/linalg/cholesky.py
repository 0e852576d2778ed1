"""Gram matrices of columns of very different sizes, for which a tridiagonal form is too coarse.

Rounding in a tridiagonal form is relative to the largest entry, and may be larger than all that
small columns have. A Cholesky factor in units of the diagonal has no such trouble, but is made for
one alpha at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from ling._typing import Array
from ling.linalg.rounding import EPS
from ling.linalg.tridiagonal import EIGENVALUE_NOISE, HouseholderTridiagonal, tridiagonalize

# Where rounding may cost so many digits of the smallest column, the form is not used ...
MIN_COLUMN_TO_NOISE_RATIO = 1e5
# ... unless a factor for every alpha would take too long.
MAX_CHOLESKY_SIZE = 3000


@dataclass(frozen=True, eq=False)
class ScaledCholesky:
    """What `HouseholderTridiagonal` offers, for A itself: Q is the identity."""

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
        """(A + alpha I)^-1 C."""
        factor, scale = self._factorize(alpha)
        inner, _ = lapack.dpotrs(factor, C / scale[:, None], lower=True)
        return np.asarray(inner / scale[:, None])

    def quadratic_forms(self, Z: Array, alphas: Array, *, reuse_kernel: bool = False) -> Array:
        """z'(A + alpha I)^-1 z for every row z of Z and every alpha."""
        found = np.empty((len(Z), len(alphas)))
        for at, alpha in enumerate(alphas):
            factor, scale = self._factorize(float(alpha))
            half = linalg.solve_triangular(factor, (Z / scale).T, lower=True, check_finite=False)
            found[:, at] = np.einsum("ij,ij->j", half, half)
        return found

    def effective_dof(self, alphas: Array) -> Array:
        """trace A (A + alpha I)^-1 = m - alpha trace (A + alpha I)^-1."""
        found = np.empty(len(alphas))
        for at, alpha in enumerate(alphas):
            factor, scale = self._factorize(float(alpha))
            half = lapack.dtrtri(factor, lower=True)[0] / scale
            found[at] = len(self) - alpha * float((half**2).sum())
        return found

    def relative_error(self, alphas: Array) -> Array:
        """About the relative error of solutions: none to speak of."""
        return np.zeros(len(alphas))

    def _factorize(self, alpha: float) -> tuple[Array, Array]:
        """L and D^1/2 with D^1/2 L L' D^1/2 = A + alpha I, raised by rounding if it has to be."""
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
    """The tridiagonal form of A, unless that would be too coarse for alphas from `least` on."""
    squares = np.diag(A)
    smallest = float(squares[squares > 0].min(initial=np.inf))
    coarse = MIN_COLUMN_TO_NOISE_RATIO * EIGENVALUE_NOISE * float(squares.sum()) > smallest + least
    return ScaledCholesky(A) if coarse and len(A) <= MAX_CHOLESKY_SIZE else tridiagonalize(A)
