"""Randomised block Krylov: one subspace for all targets and all alphas.

Krylov spaces of X'X do not depend on alpha. The space grown from [X'Y, random directions] finds the
strong directions of X on the way, and so acts like a preconditioned method without a preconditioner
(Chen, Musco & others 2025, arXiv 2501.18717).
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import linalg

from ling.design import Array
from ling.design.threads import quiet_blas
from ling.engines.base import Candidate, Effort, keeping
from ling.engines.conjugate import MARGIN
from ling.engines.thin import thin_svd
from ling.minorant import EPS, LowRank, Minorant, Nothing, nystrom_slack, product_noise
from ling.problem import Problem

DEPENDENT = 1e-12
# Below this share of the largest eigenvalue a Ritz direction amplifies rounding, and is left out.
RELIABLE = 1e-11


class Space:
    """An orthonormal basis that grows by a block a pass, and X'X in it.

    X'X basis = [basis, following] [T; (0 .. 0 B)]. Whoever holds it multiplies X'X with `following`
    and passes the product to `extend`.
    """

    def __init__(self, block: Array) -> None:
        self.p = len(block)
        lengths = np.linalg.norm(block, axis=0)
        self.following = _orthonormal(block / np.where(lengths > 0, lengths, 1.0))[0]
        self.dimension = 0
        self.T: Array = np.zeros((0, 0))
        self.B: Array = np.zeros((self.following.shape[1], 0))
        self._room: Array = np.empty((self.p, 8 * max(1, self.following.shape[1])), order="F")
        self._eigen: tuple[Array, Array] | None = None

    @property
    def basis(self) -> Array:
        """(p, dimension)."""
        return self._room[:, : self.dimension]

    @property
    def complete(self) -> bool:
        """Whether nothing follows: X'X maps the basis into itself."""
        return int(self.following.shape[1]) == 0

    def extend(self, product: Array) -> None:
        """Move the block that follows into the basis; `product` is X'X times it."""
        m, block = self.dimension, self.following.shape[1]
        self._append(self.following)
        basis = self.basis
        # Twice is enough: after the second projection V is orthogonal to rounding.
        column = basis.T @ product
        V = product - basis @ column
        again = basis.T @ V
        V -= basis @ again
        column += again
        T = np.zeros((m + block, m + block))
        T[:m, :m] = self.T
        T[:, m:] = column
        T[m:, :m] = column[:m].T
        T[m:, m:] = (column[m:] + column[m:].T) / 2
        following, B = _orthonormal(V, float(np.abs(T).max()))
        # What is left of V may be small; its directions, as unit vectors, lean on the basis again.
        following -= basis @ (basis.T @ following)
        following, R = linalg.qr(following, mode="economic", check_finite=False)
        room = self.p - basis.shape[1]
        self.T, self.following, self.B = T, following[:, :room], (R @ B)[:room]
        self._eigen = None

    def coordinates(self, wanted: Array, alphas: Array) -> tuple[Array, Array]:
        """The solution in the basis, column by column, and what is left: the gradient's own."""
        theta, Z = self._eigenvectors()
        theta = np.maximum(theta, 0.0)
        C = Z.T @ wanted
        shifted = theta[:, None] + alphas
        # Where both are below rounding, what C has in that direction is rounding too.
        real = shifted > EPS * theta[-1]
        Y: Array = Z @ np.divide(C, shifted, out=np.zeros_like(C), where=real)
        residual = self.B @ Y[len(Y) - self.B.shape[1] :]
        return Y, np.vstack([np.zeros_like(Y), residual])

    def small_minorant(self, noise: float = 0.0) -> Minorant:
        """Nyström's approximation from the basis, in the coordinates of [basis, following].

        T T^-1 T' with T = [T; (0 .. 0 B)]: it lies below X'X.
        """
        m, b = self.dimension, self.B.shape[1]
        if not m:
            return Nothing()
        theta, Z = self._eigenvectors()
        kept = theta > RELIABLE * theta[-1]
        if not kept.any():
            return Nothing()
        tall = np.vstack([self.T @ Z[:, kept], self.B @ Z[m - b :, kept]]) / np.sqrt(theta[kept])
        U, S = thin_svd(tall)
        return LowRank(U, S**2, nystrom_slack(tall, theta[kept], noise) if noise else 0.0)

    def _eigenvectors(self) -> tuple[Array, Array]:
        if self._eigen is None:
            self._eigen = linalg.eigh(self.T, check_finite=False)
        return self._eigen

    def _append(self, block: Array) -> None:
        size = self.dimension + block.shape[1]
        if size > self._room.shape[1]:
            room = np.empty((self.p, max(size, 2 * self._room.shape[1])), order="F")
            room[:, : self.dimension] = self.basis
            self._room = room
        self._room[:, self.dimension : size] = block
        self.dimension = size


def krylov(problem: Problem, effort: Effort) -> Candidate:
    """Grow the space until every target's error is within tol; one pass a block."""
    p = problem.shape[1]
    start = np.zeros_like(problem.moments) if effort.start is None else effort.start
    wanted = problem.moments if effort.start is None else problem.gradient(start)[0]
    # Compiled loops take four columns at a time; a block is filled up with random directions, in
    # the range of X', where the solution is: outside of it only alpha would hold them down.
    extra = -problem.n_targets % 4 if effort.column_cost < 1 else 0
    block = wanted
    if extra:
        strong = problem.design.gram_matmat(effort.rng.standard_normal((p, extra)))
        block = np.hstack([wanted, strong])
    space = Space(block)
    limit = p if effort.max_iter is None else effort.max_iter
    n_iter, checked, gave_up = 0, 0, False
    Y: Array = np.zeros((0, problem.n_targets))
    while not space.complete and n_iter < limit:
        with keeping(partial(_so_far, start, space, Y)):
            product = problem.design.gram_matmat(space.following)
        with quiet_blas():
            space.extend(product)
        n_iter += 1
        last = n_iter == limit or space.complete
        if space.dimension < 1.1 * checked and not last:
            continue
        checked = space.dimension
        with quiet_blas():
            Y, left = space.coordinates(space.basis.T @ wanted, problem.alphas)
            bound = np.sqrt(space.small_minorant().quadratic(left, problem.alphas))
        if problem.within(bound, MARGIN * effort.tol):
            break
        full = space.dimension + space.following.shape[1] > max(effort.most, block.shape[1])
        if full or n_iter * effort.iteration_cost(block.shape[1]) > 1.5 * effort.worth:
            gave_up = True
            break
    return Candidate(
        start + space.basis @ Y, _minorant(problem, space), None, n_iter, space.dimension, gave_up
    )


def _so_far(start: Array, space: Space, Y: Array) -> Array:
    """The solution when the space was last looked at."""
    return np.asarray(start + space.basis[:, : len(Y)] @ Y)


def _orthonormal(V: Array, size: float = 1.0) -> tuple[Array, Array]:
    """Q, B with V = Q B; directions below rounding of `size` are dropped."""
    U, S, Wt = linalg.svd(V, full_matrices=False, check_finite=False)
    kept = DEPENDENT * size < S
    return U[:, kept], S[kept, None] * Wt[kept]


def _minorant(problem: Problem, space: Space) -> Minorant:
    """The same in the coordinates of the features, with room for rounding."""
    # Directions that were dropped are missing in X'X basis = [basis, following] ...
    largest = max(float(np.abs(space.T).max(initial=0.0)), float((problem.raw_norms**2).max()))
    small = space.small_minorant((product_noise(problem.shape) + DEPENDENT) * largest)
    if not isinstance(small, LowRank):
        return small
    vectors = np.hstack([space.basis, space.following]) @ small.vectors
    return LowRank(vectors, small.values, small.slack)
