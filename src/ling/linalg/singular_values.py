"""Singular values of X in the place of the eigenvalues of X'X, whose condition is the square.

Rounding in a Gram matrix is relative to its largest eigenvalue, so that directions of X below
1e-8 of the largest are lost. A singular value decomposition loses those below 1e-16, but takes
about ten times as long and needs X as a dense array.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ling._typing import Array
from ling.linalg.decompositions import svd


@dataclass(frozen=True, eq=False)
class SingularForm:
    """X'X = V diag(d^2) V' from X = U diag(d) V'; the interface of `HouseholderTridiagonal`.

    `values` is d (k,) in descending order, `Q` is V (p, k), k = min(n, p), and `n_rows` is n.
    """

    values: Array
    Q: Array
    n_rows: int

    def __len__(self) -> int:
        return len(self.values)

    @property
    def eigenvalues(self) -> Array:
        """The squares of the singular values, (k,), in descending order."""
        return np.asarray(self.values**2)

    def rotate(self, C: Array) -> Array:
        """V'C."""
        return np.asarray(self.Q.T @ C)

    def unrotate(self, C: Array) -> Array:
        """V C."""
        return np.asarray(self.Q @ C)

    def solve(self, C: Array, alpha: float) -> Array:
        """diag(d^2 + alpha)^-1 C for C (k, t); with alpha = 0 directions below rounding are 0."""
        shifted = self.eigenvalues + alpha
        rounding = max(self.n_rows, len(self.Q)) * np.finfo(np.float64).eps
        usable = (self.values > rounding * self.values.max(initial=0.0)) | (alpha > 0)
        inverse = np.divide(1.0, shifted, out=np.zeros_like(shifted), where=usable & (shifted > 0))
        return np.asarray(inverse[:, None] * C)

    def quadratic_forms(self, Z: Array, alphas: Array, *, reuse_kernel: bool = False) -> Array:
        """z'(diag(d^2) + alpha I)^-1 z (n, n_alphas) for every row z of Z (n, k) and alpha."""
        return np.asarray(Z**2 @ (1 / (self.eigenvalues[:, None] + alphas)))

    def effective_dof(self, alphas: Array) -> Array:
        """Effective degrees of freedom, the sum of d^2 / (d^2 + alpha), for each alpha."""
        theta = self.eigenvalues[:, None]
        return np.asarray((theta / (theta + alphas)).sum(axis=0))


def singular_form(X: Array, Y: Array) -> tuple[SingularForm, Array]:
    """The form of X'X from the singular values of X (n, p), and V'X'Y (k, t) for Y (n, t).

    V'X'Y is computed as diag(d) U'Y, without X'Y.
    """
    U, d, Vt = thin_svd_with_fallback(X)
    return SingularForm(d, Vt.T, len(X)), d[:, None] * (U.T @ Y)


def thin_svd_with_fallback(X: Array) -> tuple[Array, Array, Array]:
    """U (n, k), d (k,) and V' (k, p), k = min(n, p), by LAPACK's gesdd, or by gesvd if it fails."""
    try:
        return svd(X)
    except linalg.LinAlgError:  # divide and conquer (gesdd) does not always converge; QR does
        return svd(X, "gesvd")
