"""Inverse Cholesky factors, which apply an inverse in one sweep and prove an error bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from ling._typing import Array
from ling.design import DenseStorage, Design
from ling.solvers.certificate import CholeskyMinorant


@dataclass(frozen=True, eq=False)
class InverseFactor:
    """M D^-1/2, where M'M = H^-1 and P = D^1/2 H D^1/2 is close to X'X + alpha I.

    `M` is a design, so that P^-1 R is one fused sweep over it. Solving with the Cholesky factor
    itself would be as fast, but by BLAS, whose threads slow down the compiled loops. `scale` is the
    diagonal of D^1/2.
    """

    M: Design
    scale: Array

    @classmethod
    def from_factor(cls, upper: Array, scale: Array, compiled: bool) -> InverseFactor | None:
        """From U with U'U = H, in Fortran order with zeros below, which is overwritten.

        None if it is singular. `compiled` says whether sweeps are done by compiled loops.
        """
        trtri: Any = linalg.get_lapack_funcs("trtri", (upper,))
        inverse, info = trtri(upper, lower=False, overwrite_c=True)
        if info:
            return None
        # The upper triangle in Fortran order is its transpose in C order.
        M = Design(DenseStorage(np.ascontiguousarray(inverse.T), compiled=compiled))
        return cls(M, scale)

    def apply(self, R: Array) -> Array:
        """P^-1 R, for R (p, k)."""
        scale = self.scale[:, None]
        return np.asarray(self.M.gram_matmat(R / scale) / scale)

    def half_solve(self, G: Array) -> Array:
        """M D^-1/2 G: the squared norm of a column is g'P^-1 g."""
        return self.M.matmat(G / self.scale[:, None])

    def inverse_squares(self) -> Array:
        """The diagonal (p,) of P^-1: the squared column norms of M D^-1/2; p^2 FLOPs."""
        p = len(self.scale)
        squares = self.M.storage.moments(None, np.zeros((p, 1)))[2]
        return np.asarray(squares / self.scale**2)

    def minorant(self, alpha: float, noise: float, least: float) -> CholeskyMinorant:
        """The minorant that P proves, where P is X'X + alpha I but for rounding.

        H is known up to `noise`, and H >= least I. If `noise` is not small compared with `least`,
        nothing is proved.
        """
        inflation = 1 / (1 - noise / least) if 1.1 * noise < least else np.inf
        return CholeskyMinorant(
            self.half_solve, self.scale, alpha, float(inflation), 0.0, self.inverse_squares, True
        )
