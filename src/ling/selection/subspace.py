"""A space that is near the solutions for all alphas, grown where it is worst.

Solutions for all alphas are sought in one space V, and what is multiplied with X'X next are the
residuals of those alphas that are farthest off, each divided by what X'X + alpha I has on its
diagonal (generalised Davidson). Where that diagonal is constant this is a Krylov space; where
columns are of very different sizes, as those of text are, it needs a fraction of the passes.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ling.design import Array
from ling.engines.thin import thin_svd
from ling.minorant import EPS, LowRank, Minorant, Nothing, nystrom_slack

# Alphas whose residuals point elsewhere are at least this many apart.
APART = 3
# Columns whose squares differ by less than this leave the diagonal alone: it would only disturb.
UNEVEN = 3.0
# Below this share of the largest eigenvalue a direction amplifies rounding.
RELIABLE = 1e-11
# A new direction of which less than this is left has nothing new.
DEPENDENT = 1e-10
# Numbers in the residuals that are looked at at once.
ROOM = 2**23


class Subspace:
    """V, X'X V and V'X'X V for right-hand sides `wanted`, (p, t); `squares` is X'X's diagonal.

    `noise` is how far products with X'X may be off, by rounding.
    """

    def __init__(self, wanted: Array, squares: Array, noise: float) -> None:
        self.wanted = wanted
        self.noise = noise
        self.dimension = 0
        self.exhausted = not wanted.any()
        low, high = np.quantile(squares[squares > 0], [0.1, 0.9]) if squares.any() else (1.0, 1.0)
        self.diagonal = squares if high > UNEVEN * low else np.zeros(len(squares))
        self._rooms = [np.empty((len(wanted), 32), order="F") for _ in range(2)]
        self._inner: Array = np.zeros((0, 0))
        self._projected: Array = np.zeros((0, wanted.shape[1]))
        self._eigen: tuple[Array, Array] | None = None

    @property
    def basis(self) -> Array:
        """V, (p, dimension), orthonormal."""
        return self._rooms[0][:, : self.dimension]

    @property
    def images(self) -> Array:
        """X'X V."""
        return self._rooms[1][:, : self.dimension]

    def solutions(self, alphas: Array) -> Array:
        """Coordinates in V of the solutions, (dimension, n_alphas, t)."""
        theta, Z = self._eigenvectors()
        C = Z.T @ self._projected
        shifted = np.maximum(theta, 0.0)[:, None] + alphas
        # Where both are below rounding, what C has in that direction is rounding too.
        real = shifted > EPS * theta.max(initial=0.0)
        inverse = np.divide(1.0, shifted, out=np.zeros_like(shifted), where=real)
        shape = self.dimension, len(alphas), C.shape[1]
        flat = (inverse[:, :, None] * C[:, None, :]).reshape(shape[0], shape[1] * shape[2])
        return np.asarray((Z @ flat).reshape(shape))

    def residuals(self, alphas: Array) -> Array:
        """wanted - (X'X + alpha I) w, (p, n_alphas, t)."""
        p, t = self.wanted.shape
        Y = self.solutions(alphas)
        found = np.broadcast_to(self.wanted[:, None, :], (p, len(alphas), t)).copy()
        if self.dimension:
            flat = found.reshape(p, -1)
            flat -= self.images @ Y.reshape(self.dimension, -1)
            flat -= self.basis @ (Y * alphas[:, None]).reshape(self.dimension, -1)
        return found

    def bounds(self, alphas: Array) -> Array:
        """Bounds on ||X(w - w*)||, (n_alphas, t): Nyström's approximation lies below X'X."""
        t = self.wanted.shape[1]
        minorant: Minorant = Nothing()
        if self.dimension:
            theta, Z = self._eigenvectors()
            kept = theta > RELIABLE * theta[-1]
            tall = self.images @ (Z[:, kept] / np.sqrt(theta[kept]))
            U, S = thin_svd(tall)
            minorant = LowRank(U, S**2, nystrom_slack(tall, theta[kept], self.noise))
        found = []
        for some in self._chunks(alphas):
            R = self.residuals(some).reshape(len(self.wanted), -1)
            bound = np.sqrt(minorant.quadratic(R, np.repeat(some, t))).reshape(len(some), t)
            lengths = np.linalg.norm(self.solutions(some), axis=0)
            found.append(bound + self.noise * lengths / np.sqrt(some[:, None]))
        return np.concatenate(found)

    def proposed(self, alphas: Array, tols: Array, width: int) -> Array:
        """Up to `width` new directions, orthonormal; none if there is nothing to be gained.

        `tols` are the errors that are good enough, target by target.
        """
        sizes = np.concatenate([self._sizes(some) for some in self._chunks(alphas)])
        sizes /= np.where(tols > 0, tols, np.inf)
        picked: list[tuple[int, int]] = []
        for at in np.argsort(-sizes, axis=None):
            alpha, target = (int(i) for i in np.unravel_index(at, sizes.shape))
            if sizes[alpha, target] == 0 or len(picked) == width:
                break
            if all(target != t or abs(alpha - a) >= APART for a, t in picked):
                picked.append((alpha, target))
        if not picked:
            return np.zeros((len(self.wanted), 0))
        block = [
            self.residuals(alphas[a : a + 1])[:, 0, t] / (self.diagonal + alphas[a])
            for a, t in picked
        ]
        return self._new(np.stack(block, axis=1))

    def _sizes(self, alphas: Array) -> Array:
        """About how far off solutions are, (n_alphas, t)."""
        R = self.residuals(alphas)
        R *= R
        return np.asarray(
            np.sqrt(np.einsum("pat,pa->at", R, 1 / (self.diagonal[:, None] + alphas)))
        )

    def _chunks(self, alphas: Array) -> list[Array]:
        """Alphas whose residuals fit at once."""
        step = max(1, ROOM // max(1, self.wanted.size))
        return [alphas[start : start + step] for start in range(0, len(alphas), step)]

    def extend(self, block: Array, product: Array) -> None:
        """Add the directions of `block`, orthonormal to V; `product` is X'X times them."""
        if not block.shape[1]:
            self.exhausted = True
            return
        m, size = self.dimension, self.dimension + block.shape[1]
        for at, new in enumerate((block, product)):
            if size > self._rooms[at].shape[1]:
                room = np.empty((len(block), 2 * size), order="F")
                room[:, :m] = self._rooms[at][:, :m]
                self._rooms[at] = room
            self._rooms[at][:, m:size] = new
        self.dimension = size
        column = self.basis.T @ product
        inner = np.empty((size, size))
        inner[:m, :m] = self._inner
        inner[:, m:] = column
        inner[m:, :m] = column[:m].T
        inner[m:, m:] = (column[m:] + column[m:].T) / 2
        self._inner = inner
        self._projected = np.vstack([self._projected, block.T @ self.wanted])
        self._eigen = None

    def _new(self, block: Array) -> Array:
        """The part of `block` that V does not have, orthonormal."""
        V = self.basis
        block = block / np.linalg.norm(block, axis=0)
        for _ in range(2):  # twice is enough
            block = block - V @ (V.T @ block)
        U, S = thin_svd(block)
        U = U[:, S > DEPENDENT]
        U = U - V @ (V.T @ U)
        return np.asarray(linalg.qr(U, mode="economic", check_finite=False)[0])

    def _eigenvectors(self) -> tuple[Array, Array]:
        if self._eigen is None:
            empty = np.zeros(0), np.zeros((0, 0))
            self._eigen = linalg.eigh(self._inner, check_finite=False) if self.dimension else empty
        return self._eigen
