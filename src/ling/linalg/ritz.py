"""Orthonormal bases with few columns, and the Rayleigh-Ritz projection of a matrix onto them."""

from __future__ import annotations

import numpy as np

from ling._typing import Array
from ling.linalg.decompositions import eigh, qr, svd
from ling.linalg.rounding import EPS

# Ritz vectors whose Ritz value is below this fraction of the largest one are left out of Nyström
# approximations, because dividing by their Ritz values amplifies rounding.
RITZ_VALUE_RTOL = 1e-11
# Factor by which the memory of a basis grows. Copying takes about four times as long as appending,
# which is nothing beside orthogonalisation, and at most a quarter of the memory is unused.
GROWTH_FACTOR = 1.25


def orthonormalize(A: Array) -> Array:
    """Orthonormal basis (m, k) of the columns of A (m, k), by QR."""
    return qr(A)[0]


def orthonormalize_against(A: Array, basis: Array) -> tuple[Array, Array]:
    """Q (m, k) and R (k, k) with Q R = A - basis basis'A, for A (m, k) and an orthonormal basis.

    One projection only: Q is orthogonal to the basis up to the rounding error of A, divided by what
    the projection leaves of A.
    """
    return qr(A - basis @ (basis.T @ A))


def thin_svd(A: Array, overwrite: bool = False) -> tuple[Array, Array]:
    """U (m, k) and the singular values (k,) of A (m, k), k small, by QR and an SVD of R.

    With `overwrite`, A in Fortran order is overwritten, which saves as much memory.
    """
    Q, R = qr(A, overwrite)
    U, S, _ = svd(R)
    return np.asarray(Q @ U), S


class ColumnBuffer:
    """A matrix (m, k) in Fortran order to which columns are appended.

    Memory grows by GROWTH_FACTOR.
    """

    def __init__(self, n_rows: int, capacity: int) -> None:
        self._buffer: Array = np.empty((n_rows, max(1, capacity)), order="F")
        self._n_columns = 0

    @property
    def columns(self) -> Array:
        """The columns so far (m, k); a view."""
        return self._buffer[:, : self._n_columns]

    def append(self, block: Array) -> None:
        """Append the columns of `block` (m, width)."""
        n_columns = self._n_columns + block.shape[1]
        n_rows, capacity = self._buffer.shape
        if n_columns > capacity:
            larger = np.empty((n_rows, max(n_columns, int(GROWTH_FACTOR * capacity))), order="F")
            larger[:, : self._n_columns] = self.columns
            self._buffer = larger
        self._buffer[:, self._n_columns : n_columns] = block
        self._n_columns = n_columns


class RitzSpace:
    """A growing orthonormal basis V (m, k), and T = V'A V (k, k) for a symmetric A (m, m).

    It grows in two steps: `append_basis(block)`, then `append_projection(V'A block)`. `capacity` is
    the number of columns for which memory is allocated at first.
    """

    def __init__(self, n_rows: int, capacity: int) -> None:
        self.T: Array = np.zeros((0, 0))
        self._basis = ColumnBuffer(n_rows, capacity)
        self._ritz_cache: tuple[Array, Array] | None = None

    @property
    def basis(self) -> Array:
        """V, the orthonormal basis (m, dimension)."""
        return self._basis.columns

    @property
    def dimension(self) -> int:
        """Number of columns of V."""
        return int(self.basis.shape[1])

    def append_basis(self, block: Array) -> None:
        """Append `block` (m, width), orthonormal and orthogonal to V, to V."""
        self._basis.append(block)

    def append_projection(self, columns: Array) -> None:
        """Append `columns` (dimension, width) to T: V'A block, for the block that V ends with."""
        size, width = columns.shape
        m = size - width
        T = np.empty((size, size))
        T[:m, :m] = self.T
        T[:, m:] = columns
        T[m:, :m] = columns[:m].T
        T[m:, m:] = (columns[m:] + columns[m:].T) / 2
        self.T, self._ritz_cache = T, None

    def ritz_pairs(self) -> tuple[Array, Array]:
        """Ritz values theta (k,), smallest first, and Z (k, k) with T = Z diag(theta) Z'."""
        if self._ritz_cache is None:
            empty = np.zeros(0), np.zeros((0, 0))
            self._ritz_cache = eigh(self.T) if len(self.T) else empty
        return self._ritz_cache

    def significant_ritz_pairs(self) -> tuple[Array, Array]:
        """The Ritz values above RITZ_VALUE_RTOL times the largest, and their columns of Z."""
        theta, Z = self.ritz_pairs()
        is_significant = theta > RITZ_VALUE_RTOL * theta.max(initial=0.0)
        return theta[is_significant], Z[:, is_significant]

    def shifted_ritz_values(self, alphas: Array) -> Array:
        """theta + alpha (k, n_alphas), the eigenvalues of T + alpha I, to divide Z'c by.

        It is infinite where theta and alpha are both below rounding: there Z'c is rounding error,
        too, and the quotient becomes 0.
        """
        theta = np.maximum(self.ritz_pairs()[0], 0.0)
        shifted = theta[:, None] + alphas
        return np.where(shifted > EPS * theta.max(initial=0.0), shifted, np.inf)
