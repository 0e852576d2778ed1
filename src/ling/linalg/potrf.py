"""Cholesky factorisation of matrices of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from ling._typing import Array
from ling.linalg.gram import SYRK_TILES, TILE, tile_slices


def potrf(
    H: Array, *, lower: bool, clean: bool = False, overwrite: bool = False, tile: int = TILE
) -> tuple[Array, int]:
    """Cholesky factor of H (p, p) and LAPACK's info, as LAPACK's potrf returns them.

    info is 0, or the order of a leading minor that is not positive. `lower` gives L with L L' = H,
    otherwise U with U'U = H. The other triangle is 0 with `clean`, and undefined without. With
    `overwrite`, H is overwritten only if it is in Fortran order. p^3 / 3 FLOPs.

    Large matrices are factored tile by tile, because OpenBLAS's own potrf overruns a buffer there
    and crashes the process, as its syrk does; see `ling.linalg.gram`. This takes four tiles of
    memory.
    """
    if len(H) <= SYRK_TILES * tile:
        routine: Any = linalg.get_lapack_funcs("potrf", (H,))
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
                out_tile -= np.matmul(left, right, out=buffer[: left.shape[0], : right.shape[1]])
    return 0


def _clear_upper(A: Array, tile: int) -> None:
    """Set the strict upper triangle of A to 0, in place."""
    for rows in tile_slices(len(A), tile):
        A[rows, rows.stop :] = 0.0
        A[rows, rows] = np.tril(A[rows, rows])
