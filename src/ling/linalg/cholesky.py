"""Scaled Cholesky factors, for Gram matrices whose columns have very different norms.

Rounding in a tridiagonal form is relative to the largest entry, and may exceed the entries of small
columns. Rounding in a Cholesky factor is relative to the norms of the columns, so that only the
condition of the matrix scaled to a unit diagonal matters. No diagonal scaling gives a much smaller
one (van der Sluis 1969; Higham 2002, section 10.1). But a factor is computed for one alpha at a
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from ling._typing import Array
from ling.linalg.gram import SYRK_TILES, TILE, diagonal_view, tile_slices
from ling.linalg.rounding import EPS
from ling.linalg.threads import blas_threads_for
from ling.linalg.tridiagonal import EIGENVALUE_NOISE, HouseholderTridiagonal, tridiagonalize

# The tridiagonal form is used only if the smallest squared column norm plus alpha exceeds the noise
# of its eigenvalues by this factor ...
MIN_COLUMN_TO_NOISE_RATIO = 1e5
# ... or if the matrix has more columns than this, as a factor for every alpha would take too long.
MAX_CHOLESKY_SIZE = 3000
# Factorisations that bound the scaled eigenvalues of all alphas. Between them bounds are looser:
# six for 30 alphas over nine decades cost a factor of about 10.
MAX_FLOOR_FACTORS = 6
FLOAT64_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class ScaledCholesky:
    """The factorisation A + alpha I = D^1/2 L L' D^1/2, where L L' has a unit diagonal.

    `factor` is L (m, m), and `scale` (m,) the diagonal of D^1/2.
    """

    factor: Array
    scale: Array

    def solve(self, C: Array) -> Array:
        """(A + alpha I)^-1 C, for C (m, k); 2 m^2 FLOPs per column."""
        inner, _ = lapack.dpotrs(self.factor, C / self.scale[:, None], lower=True)
        return np.asarray(inner / self.scale[:, None])

    def half_solve(self, C: Array) -> Array:
        """L^-1 D^-1/2 C (m, k): the squared norm of a column is c'(A + alpha I)^-1 c."""
        # LAPACK is called directly, because SciPy's checks take longer than a small solve.
        solution: Array = lapack.dtrtrs(self.factor, C / self.scale[:, None], lower=True)[0]
        return solution

    @cached_property
    def inverse_factor(self) -> Array:
        """M = L^-1 D^-1/2 (m, m), for which M'M = (A + alpha I)^-1."""
        with blas_threads_for(len(self.scale) ** 3 / 3):
            inverse: Array = lapack.dtrtri(self.factor, lower=True)[0]
        inverse /= self.scale
        return inverse

    @property
    def inverse_diagonal(self) -> Array:
        """The diagonal (m,) of (A + alpha I)^-1."""
        return np.asarray(np.einsum("ij,ij->j", self.inverse_factor, self.inverse_factor))


def scaled_cholesky(A: Array, alpha: float | Array, lift: float = 0.0) -> ScaledCholesky | None:
    """Factor A + alpha I, for a symmetric A (m, m); m^3 / 3 FLOPs and m^2 numbers of memory.

    None if it is not positive definite, up to rounding. `alpha` may be an array (m,) that is added
    to the diagonal entry by entry. `lift` is added to the unit diagonal of the scaled matrix.
    """
    scaled = scaled_to_unit_diagonal(A, alpha)
    if scaled is None:
        return None
    H, scale = scaled
    if lift:
        diagonal_view(H)[:] += lift
    factor, info = potrf(H, lower=True, clean=True, overwrite=True)
    return None if info else ScaledCholesky(factor, scale)


def scaled_to_unit_diagonal(A: Array, alpha: float | Array) -> tuple[Array, Array] | None:
    """H = D^-1/2 (A + alpha I) D^-1/2, a copy in Fortran order, and the diagonal of D^1/2.

    None if a diagonal entry of A + alpha I is not positive.
    """
    diagonal = A.diagonal() + alpha
    if not (diagonal > 0).all():
        return None
    scale = np.sqrt(diagonal)
    # A is symmetric: its transpose is A in Fortran order, which LAPACK overwrites.
    H = np.array(A.T if A.flags.c_contiguous else A, dtype=np.float64, order="F")
    H /= scale[:, None]
    H /= scale
    diagonal_view(H)[:] = 1.0
    return H, scale


def proven_min_eigenvalue(H: Array, wanted: float, noise: float, overwrite: bool = False) -> float:
    """`wanted` if it is proved that H >= wanted I, otherwise 0; H (m, m) is symmetric.

    The proof is that a factorisation of H - (wanted + noise) I succeeds, where `noise` bounds its
    rounding error (Rump 2006). m^3 / 3 FLOPs.
    """
    shifted = H if overwrite else H.copy(order="F")
    diagonal_view(shifted)[:] -= wanted + noise
    # LAPACK overwrites matrices in Fortran order, and would copy others.
    shifted = shifted if shifted.flags.f_contiguous else shifted.T
    return 0.0 if potrf(shifted, lower=False, overwrite=True)[1] else wanted


@dataclass(frozen=True, eq=False)
class CholeskyForm:
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
        return self._factorize(alpha)[0].solve(C)

    def quadratic_forms(self, Z: Array, alphas: Array, *, reuse_kernel: bool = False) -> Array:
        """z'(A + alpha I)^-1 z (n, n_alphas) for every row z of Z (n, m) and every alpha."""
        forms = np.empty((len(Z), len(alphas)))
        for column, alpha in enumerate(alphas):
            half_solution = self._factorize(float(alpha))[0].half_solve(Z.T)
            forms[:, column] = np.einsum("ij,ij->j", half_solution, half_solution)
        return forms

    def effective_dof(self, alphas: Array) -> Array:
        """Effective degrees of freedom for each alpha.

        trace A (A + alpha I)^-1 = m - alpha trace (A + alpha I)^-1.
        """
        factors = (self._factorize(float(alpha))[0] for alpha in alphas)
        traces = [float(factor.inverse_diagonal.sum()) for factor in factors]
        return np.asarray(len(self) - alphas * traces)

    def scaled_floors(self, alphas: Array) -> Array:
        """Lower bounds (n_alphas,) on the eigenvalues of D^-1/2 (A + alpha I) D^-1/2.

        They hold up to rounding. D is the diagonal of A + alpha I. 1 / ||L^-1||_F^2 is such a
        bound. As the smallest eigenvalue grows with alpha, a few factorisations serve all alphas.
        They are 0 where a factorisation is that of another matrix, with a raised diagonal.
        """
        order = np.argsort(alphas)
        chosen = np.unique(np.linspace(0, len(alphas) - 1, MAX_FLOOR_FACTORS).astype(int))
        floors = np.empty(len(alphas))
        for first, last in pairwise([*chosen, len(alphas)]):
            factor, lift = self._factorize(float(alphas[order[first]]))
            inverse = lapack.dtrtri(factor.factor, lower=True)[0]
            floor = 0.0 if lift else 1 / float(np.einsum("ij,ij->", inverse, inverse))
            floors[order[first:last]] = floor
        return np.where(alphas < -2 * np.diag(self.A).min(initial=0.0), 0.0, floors)

    def _factorize(self, alpha: float) -> tuple[ScaledCholesky, float]:
        """Factor A + alpha I, and by how much its unit diagonal was raised.

        That is 0 unless rounding makes the matrix indefinite.
        """
        # A Gram matrix has a negative diagonal entry only by rounding. Twice its size is added, as
        # no lift of the unit diagonal could help.
        shift = np.maximum(max(alpha, FLOAT64_TINY), -2 * np.diag(self.A))
        lift = 0.0
        while np.isfinite(lift):
            factor = scaled_cholesky(self.A, shift, lift)
            if factor is not None:
                return factor, lift
            lift = max(8 * EPS * len(self), 4 * lift)
        raise linalg.LinAlgError("the matrix is not finite")


def symmetric_form(
    A: Array, least: float, overwrite: bool = False
) -> HouseholderTridiagonal | CholeskyForm:
    """Tridiagonal form of A, or `CholeskyForm` where it is too inaccurate for alphas >= least.

    With `overwrite`, A may be overwritten or kept: callers must not use it afterwards.
    """
    squares = np.diag(A)
    smallest = float(squares[squares > 0].min(initial=np.inf))
    too_inaccurate = (
        MIN_COLUMN_TO_NOISE_RATIO * EIGENVALUE_NOISE * float(squares.sum()) > smallest + least
    )
    if too_inaccurate and len(A) <= MAX_CHOLESKY_SIZE:
        return CholeskyForm(A)
    return tridiagonalize(A, overwrite)


def potrf(
    H: Array, *, lower: bool, clean: bool = False, overwrite: bool = False, tile: int = TILE
) -> tuple[Array, int]:
    """Cholesky factor of H (p, p) and LAPACK's info, as LAPACK's potrf returns them.

    info is 0, or the order of a leading minor that is not positive. `lower` gives L with L L' = H,
    otherwise U with U'U = H. The other triangle is 0 with `clean`, and that of H without. With
    `overwrite`, H is overwritten only if it is in Fortran order. p^3 / 3 FLOPs.

    Large matrices are factored tile by tile, because OpenBLAS's own potrf overruns a buffer there
    and crashes the process, as its syrk does; see `ling.linalg.gram`. This takes four tiles of
    memory.
    """
    if len(H) <= SYRK_TILES * tile:
        routine: Any = lapack.spotrf if H.dtype == np.float32 else lapack.dpotrf
        factor, info = routine(H, lower=lower, clean=clean, overwrite_a=overwrite)
        return factor, int(info)
    factor = H if overwrite and H.flags.f_contiguous else H.copy(order="F")
    # The upper factor is the transpose of the lower one; tiles may be in C or in Fortran order.
    info = _factor_tiles(factor if lower else factor.T, tile)
    if clean:
        _clear_upper(factor if lower else factor.T, tile)
    return factor, info


def _factor_tiles(A: Array, tile: int) -> int:
    """Factor the lower triangle of A in place, one tile column at a time; returns info."""
    routines: Any = linalg.get_lapack_funcs("potrf", (A,)), linalg.get_blas_funcs("trsm", (A,))
    lapack_potrf, trsm = routines
    cuts = tile_slices(len(A), tile)
    buffer = np.empty((tile, tile), A.dtype)
    for index, pivot in enumerate(cuts):
        corner = np.array(A[pivot, pivot], order="F")
        corner, info = lapack_potrf(corner, lower=True, clean=False, overwrite_a=True)
        A[pivot, pivot] = corner
        if info:
            return int(pivot.start + info)
        below = cuts[index + 1 :]
        for rows in below:  # L_ij = A_ij L_jj^-T
            panel = np.array(A[rows, pivot], order="F")
            A[rows, pivot] = trsm(1.0, corner, panel, side=1, lower=1, trans_a=1, overwrite_b=True)
        for offset, columns in enumerate(below):  # A_ik -= L_ij L_kj'
            right = A[columns, pivot].T
            for rows in below[offset:]:
                left, out_tile = A[rows, pivot], A[rows, columns]
                product = np.matmul(left, right, out=buffer[: left.shape[0], : right.shape[1]])
                # The upper triangle of A is kept.
                out_tile -= np.tril(product) if rows is columns else product
    return 0


def _clear_upper(A: Array, tile: int) -> None:
    """Set the strict upper triangle of A to 0, in place."""
    for rows in tile_slices(len(A), tile):
        A[rows, rows.stop :] = 0.0
        A[rows, rows] = np.tril(A[rows, rows])
