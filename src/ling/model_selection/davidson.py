"""A space that is near the solutions for all alphas, grown where it is worst.

Solutions for all alphas are sought in one space V, and what is multiplied with X'X next are the
residuals of those alphas that are farthest off, each divided by what X'X + alpha I has on its
diagonal (generalised Davidson). Where that diagonal is constant this is a Krylov space; where
columns are of very different sizes, as those of text are, it needs a fraction of the passes.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ling._typing import Array
from ling.linalg.orthogonalize import thin_svd
from ling.linalg.rounding import EPS
from ling.solvers.minorant import LowRankMinorant, Minorant, ZeroMinorant, nystrom_slack

# Alphas whose residuals point elsewhere are at least this many apart.
MIN_ALPHA_SEPARATION = 3
# Columns whose squares differ by less than this leave the diagonal alone: it would only disturb.
DIAGONAL_PRECONDITIONER_RATIO = 3.0
# Below this share of the largest eigenvalue a direction amplifies rounding.
MIN_EIGENVALUE_RATIO = 1e-11
# A new direction of which less than this is left has nothing new.
DEPENDENCE_TOL = 1e-10
# Numbers in the residuals that are looked at at once.
RESIDUAL_BATCH_ELEMENTS = 2**23


class DavidsonSubspace:
    """V, X'X V and V'X'X V for right-hand sides `rhs`, (p, t); `gram_diagonal` is X'X's diagonal.

    `product_error` is how far products with X'X may be off, by rounding.
    """

    def __init__(self, rhs: Array, gram_diagonal: Array, product_error: float) -> None:
        self.rhs = rhs
        self.product_error = product_error
        self.dimension = 0
        self.exhausted = not rhs.any()
        low, high = (
            np.quantile(gram_diagonal[gram_diagonal > 0], [0.1, 0.9])
            if gram_diagonal.any()
            else (1.0, 1.0)
        )
        self.preconditioner_diagonal = (
            gram_diagonal
            if high > DIAGONAL_PRECONDITIONER_RATIO * low
            else np.zeros(len(gram_diagonal))
        )
        self._buffers = [np.empty((len(rhs), 32), order="F") for _ in range(2)]
        self._projected_gram: Array = np.zeros((0, 0))
        self._projected_rhs: Array = np.zeros((0, rhs.shape[1]))
        self._ritz_cache: tuple[Array, Array] | None = None

    @property
    def basis(self) -> Array:
        """V, (p, dimension), orthonormal."""
        return self._buffers[0][:, : self.dimension]

    @property
    def gram_basis(self) -> Array:
        """X'X V."""
        return self._buffers[1][:, : self.dimension]

    def solution_coordinates(self, alphas: Array) -> Array:
        """Coordinates in V of the solutions, (dimension, n_alphas, t)."""
        theta, Z = self._ritz_pairs()
        C = Z.T @ self._projected_rhs
        shifted = np.maximum(theta, 0.0)[:, None] + alphas
        # Where both are below rounding, what C has in that direction is rounding too.
        real = shifted > EPS * theta.max(initial=0.0)
        inverse = np.divide(1.0, shifted, out=np.zeros_like(shifted), where=real)
        shape = self.dimension, len(alphas), C.shape[1]
        flat = (inverse[:, :, None] * C[:, None, :]).reshape(shape[0], shape[1] * shape[2])
        return np.asarray((Z @ flat).reshape(shape))

    def residuals(self, alphas: Array) -> Array:
        """wanted - (X'X + alpha I) w, (p, n_alphas, t)."""
        p, t = self.rhs.shape
        Y = self.solution_coordinates(alphas)
        found = np.broadcast_to(self.rhs[:, None, :], (p, len(alphas), t)).copy()
        if self.dimension:
            flat = found.reshape(p, -1)
            flat -= self.gram_basis @ Y.reshape(self.dimension, -1)
            flat -= self.basis @ (Y * alphas[:, None]).reshape(self.dimension, -1)
        return found

    def bounds(self, alphas: Array) -> Array:
        """Bounds on ||X(w - w*)||, (n_alphas, t): Nyström's approximation lies below X'X."""
        t = self.rhs.shape[1]
        minorant: Minorant = ZeroMinorant()
        if self.dimension:
            theta, Z = self._ritz_pairs()
            kept = theta > MIN_EIGENVALUE_RATIO * theta[-1]
            tall = self.gram_basis @ (Z[:, kept] / np.sqrt(theta[kept]))
            U, S = thin_svd(tall)
            minorant = LowRankMinorant(
                U, S**2, nystrom_slack(tall, theta[kept], self.product_error)
            )
        found = []
        for some in self._alpha_batches(alphas):
            R = self.residuals(some).reshape(len(self.rhs), -1)
            bound = np.sqrt(minorant.quadratic_form(R, np.repeat(some, t))).reshape(len(some), t)
            lengths = np.linalg.norm(self.solution_coordinates(some), axis=0)
            found.append(bound + self.product_error * lengths / np.sqrt(some[:, None]))
        return np.concatenate(found)

    def propose_directions(self, alphas: Array, tols: Array, width: int) -> Array:
        """Up to `width` new directions, orthonormal; none if there is nothing to be gained.

        `tols` are the errors that are good enough, target by target.
        """
        sizes = np.concatenate(
            [self._error_estimates(some) for some in self._alpha_batches(alphas)]
        )
        sizes /= np.where(tols > 0, tols, np.inf)
        picked: list[tuple[int, int]] = []
        for at in np.argsort(-sizes, axis=None):
            alpha, target = (int(i) for i in np.unravel_index(at, sizes.shape))
            if sizes[alpha, target] == 0 or len(picked) == width:
                break
            if all(target != t or abs(alpha - a) >= MIN_ALPHA_SEPARATION for a, t in picked):
                picked.append((alpha, target))
        if not picked:
            return np.zeros((len(self.rhs), 0))
        block = [
            self.residuals(alphas[a : a + 1])[:, 0, t] / (self.preconditioner_diagonal + alphas[a])
            for a, t in picked
        ]
        return self._orthogonalize(np.stack(block, axis=1))

    def _error_estimates(self, alphas: Array) -> Array:
        """About how far off solutions are, (n_alphas, t)."""
        R = self.residuals(alphas)
        R *= R
        return np.asarray(
            np.sqrt(
                np.einsum("pat,pa->at", R, 1 / (self.preconditioner_diagonal[:, None] + alphas))
            )
        )

    def _alpha_batches(self, alphas: Array) -> list[Array]:
        """Alphas whose residuals fit at once."""
        step = max(1, RESIDUAL_BATCH_ELEMENTS // max(1, self.rhs.size))
        return [alphas[start : start + step] for start in range(0, len(alphas), step)]

    def extend(self, block: Array, product: Array) -> None:
        """Add the directions of `block`, orthonormal to V; `product` is X'X times them."""
        if not block.shape[1]:
            self.exhausted = True
            return
        m, size = self.dimension, self.dimension + block.shape[1]
        for at, new in enumerate((block, product)):
            if size > self._buffers[at].shape[1]:
                room = np.empty((len(block), 2 * size), order="F")
                room[:, :m] = self._buffers[at][:, :m]
                self._buffers[at] = room
            self._buffers[at][:, m:size] = new
        self.dimension = size
        column = self.basis.T @ product
        inner = np.empty((size, size))
        inner[:m, :m] = self._projected_gram
        inner[:, m:] = column
        inner[m:, :m] = column[:m].T
        inner[m:, m:] = (column[m:] + column[m:].T) / 2
        self._projected_gram = inner
        self._projected_rhs = np.vstack([self._projected_rhs, block.T @ self.rhs])
        self._ritz_cache = None

    def _orthogonalize(self, block: Array) -> Array:
        """The part of `block` that V does not have, orthonormal."""
        V = self.basis
        block = block / np.linalg.norm(block, axis=0)
        for _ in range(2):  # twice is enough
            block = block - V @ (V.T @ block)
        U, S = thin_svd(block)
        U = U[:, S > DEPENDENCE_TOL]
        U = U - V @ (V.T @ U)
        return np.asarray(linalg.qr(U, mode="economic", check_finite=False)[0])

    def _ritz_pairs(self) -> tuple[Array, Array]:
        if self._ritz_cache is None:
            empty = np.zeros(0), np.zeros((0, 0))
            self._ritz_cache = (
                linalg.eigh(self._projected_gram, check_finite=False) if self.dimension else empty
            )
        return self._ritz_cache
