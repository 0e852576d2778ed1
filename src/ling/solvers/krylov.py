"""Randomised block Krylov: one subspace for all targets and all alphas.

Krylov spaces of X'X do not depend on alpha. The space grown from [X'Y, random directions] finds the
strong directions of X on the way, and so acts like a preconditioned method without a preconditioner
(Chen, Musco & others 2025, arXiv 2501.18717).
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import linalg

from ling._typing import Array
from ling.linalg.orthogonalize import thin_svd
from ling.linalg.rounding import EPS, product_noise
from ling.linalg.threads import single_threaded_blas
from ling.solvers.conjugate_gradients import TOL_SAFETY_FACTOR
from ling.solvers.engine import Candidate, EngineBudget, attach_partial_solution
from ling.solvers.minorant import LowRankMinorant, Minorant, ZeroMinorant, nystrom_slack
from ling.solvers.problem import Problem

DEPENDENT_RTOL = 1e-12
# Below this share of the largest eigenvalue a Ritz direction amplifies rounding, and is left out.
RITZ_VALUE_RTOL = 1e-11


class KrylovSpace:
    """An orthonormal basis that grows by a block a pass, and X'X in it.

    X'X basis = [basis, following] [T; (0 .. 0 B)]. Whoever holds it multiplies X'X with `following`
    and passes the product to `extend`.
    """

    def __init__(self, block: Array) -> None:
        self.n_features = len(block)
        lengths = np.linalg.norm(block, axis=0)
        self.next_block = _orthonormalize(block / np.where(lengths > 0, lengths, 1.0))[0]
        self.dimension = 0
        self.T: Array = np.zeros((0, 0))
        self.B: Array = np.zeros((self.next_block.shape[1], 0))
        self._buffer: Array = np.empty(
            (self.n_features, 8 * max(1, self.next_block.shape[1])), order="F"
        )
        self._ritz_cache: tuple[Array, Array] | None = None

    @property
    def basis(self) -> Array:
        """(p, dimension)."""
        return self._buffer[:, : self.dimension]

    @property
    def is_invariant(self) -> bool:
        """Whether nothing follows: X'X maps the basis into itself."""
        return int(self.next_block.shape[1]) == 0

    def extend(self, product: Array) -> None:
        """Move the block that follows into the basis; `product` is X'X times it."""
        m, block = self.dimension, self.next_block.shape[1]
        self._append_block(self.next_block)
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
        following, B = _orthonormalize(V, float(np.abs(T).max()))
        # What is left of V may be small; its directions, as unit vectors, lean on the basis again.
        following -= basis @ (basis.T @ following)
        following, R = linalg.qr(following, mode="economic", check_finite=False)
        room = self.n_features - basis.shape[1]
        self.T, self.next_block, self.B = T, following[:, :room], (R @ B)[:room]
        self._ritz_cache = None

    def solve_projected(self, wanted: Array, alphas: Array) -> tuple[Array, Array]:
        """The solution in the basis, column by column, and what is left: the gradient's own."""
        theta, Z = self._ritz_pairs()
        theta = np.maximum(theta, 0.0)
        C = Z.T @ wanted
        shifted = theta[:, None] + alphas
        # Where both are below rounding, what C has in that direction is rounding too.
        real = shifted > EPS * theta[-1]
        Y: Array = Z @ np.divide(C, shifted, out=np.zeros_like(C), where=real)
        residual = self.B @ Y[len(Y) - self.B.shape[1] :]
        return Y, np.vstack([np.zeros_like(Y), residual])

    def projected_minorant(self, noise: float = 0.0) -> Minorant:
        """Nyström's approximation from the basis, in the coordinates of [basis, following].

        T T^-1 T' with T = [T; (0 .. 0 B)]: it lies below X'X.
        """
        m, b = self.dimension, self.B.shape[1]
        if not m:
            return ZeroMinorant()
        theta, Z = self._ritz_pairs()
        kept = theta > RITZ_VALUE_RTOL * theta[-1]
        if not kept.any():
            return ZeroMinorant()
        tall = np.vstack([self.T @ Z[:, kept], self.B @ Z[m - b :, kept]]) / np.sqrt(theta[kept])
        U, S = thin_svd(tall)
        return LowRankMinorant(U, S**2, nystrom_slack(tall, theta[kept], noise) if noise else 0.0)

    def _ritz_pairs(self) -> tuple[Array, Array]:
        if self._ritz_cache is None:
            self._ritz_cache = linalg.eigh(self.T, check_finite=False)
        return self._ritz_cache

    def _append_block(self, block: Array) -> None:
        size = self.dimension + block.shape[1]
        if size > self._buffer.shape[1]:
            room = np.empty((self.n_features, max(size, 2 * self._buffer.shape[1])), order="F")
            room[:, : self.dimension] = self.basis
            self._buffer = room
        self._buffer[:, self.dimension : size] = block
        self.dimension = size


def krylov(problem: Problem, budget: EngineBudget) -> Candidate:
    """Grow the space until every target's error is within tol; one pass a block."""
    p = problem.shape[1]
    start = np.zeros_like(problem.moments) if budget.start is None else budget.start
    wanted = problem.moments if budget.start is None else problem.gradient(start)[0]
    # Compiled loops take four columns at a time; a block is filled up with random directions, in
    # the range of X', where the solution is: outside of it only alpha would hold them down.
    extra = -problem.n_targets % 4 if budget.column_cost < 1 else 0
    block = wanted
    if extra:
        strong = problem.design.gram_matmat(budget.rng.standard_normal((p, extra)))
        block = np.hstack([wanted, strong])
    space = KrylovSpace(block)
    limit = p if budget.max_iter is None else budget.max_iter
    n_iter, checked, gave_up = 0, 0, False
    Y: Array = np.zeros((0, problem.n_targets))
    while not space.is_invariant and n_iter < limit:
        with attach_partial_solution(partial(_partial_solution, start, space, Y)):
            product = problem.design.gram_matmat(space.next_block)
        with single_threaded_blas():
            space.extend(product)
        n_iter += 1
        last = n_iter == limit or space.is_invariant
        if space.dimension < 1.1 * checked and not last:
            continue
        checked = space.dimension
        with single_threaded_blas():
            Y, left = space.solve_projected(space.basis.T @ wanted, problem.alphas)
            bound = np.sqrt(space.projected_minorant().quadratic_form(left, problem.alphas))
        if problem.is_within_tol(bound, TOL_SAFETY_FACTOR * budget.tol):
            break
        full = space.dimension + space.next_block.shape[1] > max(budget.max_rank, block.shape[1])
        if full or n_iter * budget.iteration_cost(block.shape[1]) > 1.5 * budget.max_passes:
            gave_up = True
            break
    return Candidate(
        start + space.basis @ Y,
        _lifted_minorant(problem, space),
        None,
        n_iter,
        space.dimension,
        gave_up,
    )


def _partial_solution(start: Array, space: KrylovSpace, Y: Array) -> Array:
    """The solution when the space was last looked at."""
    return np.asarray(start + space.basis[:, : len(Y)] @ Y)


def _orthonormalize(V: Array, size: float = 1.0) -> tuple[Array, Array]:
    """Q, B with V = Q B; directions below rounding of `size` are dropped."""
    U, S, Wt = linalg.svd(V, full_matrices=False, check_finite=False)
    kept = DEPENDENT_RTOL * size < S
    return U[:, kept], S[kept, None] * Wt[kept]


def _lifted_minorant(problem: Problem, space: KrylovSpace) -> Minorant:
    """The same in the coordinates of the features, with room for rounding."""
    # Directions that were dropped are missing in X'X basis = [basis, following] ...
    largest = max(
        float(np.abs(space.T).max(initial=0.0)), float((problem.raw_column_norms**2).max())
    )
    small = space.projected_minorant((product_noise(problem.shape) + DEPENDENT_RTOL) * largest)
    if not isinstance(small, LowRankMinorant):
        return small
    vectors = np.hstack([space.basis, space.next_block]) @ small.vectors
    return LowRankMinorant(vectors, small.values, small.slack)
