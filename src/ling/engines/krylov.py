"""Randomised block Krylov: one subspace for all targets and all alphas.

Krylov spaces of X'X do not depend on alpha. The space grown from [X'Y, random directions] finds the
strong directions of X on the way, and so acts like a preconditioned method without a preconditioner
(Chen, Musco & others 2025, arXiv 2501.18717).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ling.design import Array
from ling.engines.base import Candidate, Effort
from ling.engines.conjugate import MARGIN
from ling.engines.thin import thin_svd
from ling.minorant import EPS, LowRank, Minorant, Nothing, nystrom_slack, product_noise
from ling.problem import Problem

DEPENDENT = 1e-12
# Below this share of the largest eigenvalue a Ritz direction amplifies rounding, and is left out.
RELIABLE = 1e-11


@dataclass(eq=False)
class Space:
    """X'X basis = [basis, following] [T; (0 .. 0 B)], with an orthonormal [basis, following]."""

    basis: Array
    T: Array
    following: Array
    B: Array

    @property
    def dimension(self) -> int:
        """Columns of the basis."""
        return int(self.basis.shape[1])


def krylov(problem: Problem, effort: Effort) -> Candidate:
    """Grow the space until every target's error is within tol; one pass a block."""
    n, p = problem.shape
    start = np.zeros_like(problem.moments) if effort.start is None else effort.start
    wanted = problem.moments if effort.start is None else problem.gradient(start)[0]
    # Compiled loops take four columns at a time; a block is filled up with random directions, in
    # the range of X', where the solution is: outside of it only alpha would hold them down.
    extra = -problem.n_targets % 4 if effort.column_cost < 1 else 0
    block = wanted
    if extra:
        strong = problem.design.rmatmat(effort.rng.standard_normal((n, extra)))
        block = np.hstack([wanted, strong])
    lengths = np.linalg.norm(block, axis=0)
    first = _orthonormal(block / np.where(lengths > 0, lengths, 1.0))[0]
    space = Space(np.zeros((p, 0)), np.zeros((0, 0)), first, np.zeros((first.shape[1], 0)))
    limit = p if effort.max_iter is None else effort.max_iter
    n_iter, checked, gave_up = 0, 0, False
    Y: Array = np.zeros((0, problem.n_targets))
    while space.following.shape[1] and n_iter < limit:
        space = _extend(problem, space)
        n_iter += 1
        last = n_iter == limit or not space.following.shape[1]
        if space.dimension < 1.1 * checked and not last:
            continue
        checked = space.dimension
        Y, bound = _project(problem, space, wanted)
        if problem.within(bound, MARGIN * effort.tol):
            break
        full = space.dimension + space.following.shape[1] > max(effort.most, block.shape[1])
        if full or n_iter * effort.iteration_cost(block.shape[1]) > 1.5 * effort.worth:
            gave_up = True
            break
    return Candidate(
        start + space.basis @ Y, _minorant(problem, space), None, n_iter, space.dimension, gave_up
    )


def _extend(problem: Problem, space: Space) -> Space:
    """Move the block that follows into the basis, and find the next; one pass."""
    Q = space.following
    V = problem.design.gram_matmat(Q)
    basis = np.hstack([space.basis, Q])
    # Twice is enough: after the second projection V is orthogonal to rounding.
    column = basis.T @ V
    V = V - basis @ column
    again = basis.T @ V
    V -= basis @ again
    column += again
    m = space.dimension
    T = np.zeros((basis.shape[1], basis.shape[1]))
    T[:m, :m] = space.T
    T[:, m:] = column
    T[m:, :m] = column[:m].T
    T[m:, m:] = (column[m:] + column[m:].T) / 2
    following, B = _orthonormal(V, float(np.abs(T).max()))
    # What is left of V may be small; its directions, made unit vectors, lean on the basis again.
    following -= basis @ (basis.T @ following)
    following, R = linalg.qr(following, mode="economic", check_finite=False)
    room = problem.shape[1] - basis.shape[1]
    return Space(basis, T, following[:, :room], (R @ B)[:room])


def _orthonormal(V: Array, size: float = 1.0) -> tuple[Array, Array]:
    """Q, B with V = Q B; directions below rounding of `size` are dropped."""
    U, S, Wt = linalg.svd(V, full_matrices=False, check_finite=False)
    kept = DEPENDENT * size < S
    return U[:, kept], S[kept, None] * Wt[kept]


def _project(problem: Problem, space: Space, wanted: Array) -> tuple[Array, Array]:
    """Coordinates of the solution in the basis, and a bound on each target's error."""
    theta, Z = linalg.eigh(space.T, check_finite=False)
    theta = np.maximum(theta, 0.0)
    C = Z.T @ (space.basis.T @ wanted)
    shifted = theta[:, None] + problem.alphas
    # Where both are below rounding, what C has in that direction is rounding too.
    real = shifted > EPS * theta[-1]
    Y = Z @ np.divide(C, shifted, out=np.zeros_like(C), where=real)
    b = space.B.shape[1]
    residual = space.B @ Y[len(Y) - b :]
    inner = _small_minorant(space)
    whole = np.vstack([np.zeros_like(Y), residual])
    return Y, np.sqrt(inner.quadratic(whole, problem.alphas))


def _small_minorant(space: Space, noise: float = 0.0) -> Minorant:
    """Nyström's approximation from the basis, in the coordinates of [basis, following].

    T T^-1 T' with T = [T; (0 .. 0 B)]: it lies below X'X.
    """
    m, b = space.dimension, space.B.shape[1]
    if not m:
        return Nothing()
    theta, Z = linalg.eigh(space.T, check_finite=False)
    kept = theta > RELIABLE * theta[-1]
    if not kept.any():
        return Nothing()
    tall = np.vstack([space.T @ Z[:, kept], space.B @ Z[m - b :, kept]]) / np.sqrt(theta[kept])
    U, S = thin_svd(tall)
    return LowRank(U, S**2, nystrom_slack(tall, theta[kept], noise) if noise else 0.0)


def _minorant(problem: Problem, space: Space) -> Minorant:
    """The same in the coordinates of the features, with room for rounding."""
    # Directions that were dropped are missing in X'X basis = [basis, following] ...
    largest = max(float(np.abs(space.T).max(initial=0.0)), float((problem.raw_norms**2).max()))
    small = _small_minorant(space, (product_noise(problem.shape) + DEPENDENT) * largest)
    if not isinstance(small, LowRank):
        return small
    vectors = np.hstack([space.basis, space.following]) @ small.vectors
    return LowRank(vectors, small.values, small.slack)
