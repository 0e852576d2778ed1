"""Randomised block Krylov method: one subspace for all targets and all alphas.

Krylov spaces of X'X do not depend on alpha. The space grown from [X'Y, random directions] also
finds the leading directions of X, and so acts like a preconditioned method without a preconditioner
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

# Directions of a new block with singular values below this fraction of the largest entry of T (of 1
# in the first block, whose columns are normalised) are dropped as linearly dependent.
DEPENDENT_RTOL = 1e-12
# Ritz directions below this fraction of the largest Ritz value amplify rounding, and are dropped.
RITZ_VALUE_RTOL = 1e-11


class KrylovSpace:
    """Orthonormal basis of a block Krylov space, and the projection of X'X onto it.

    X'X basis = [basis, next_block] [T; (0 .. 0 B)]. The caller multiplies X'X with `next_block`,
    which takes one pass, and passes the product to `extend`.
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
        """The orthonormal basis (p, dimension)."""
        return self._buffer[:, : self.dimension]

    @property
    def is_invariant(self) -> bool:
        """True if there is no next block: X'X maps the basis into itself."""
        return int(self.next_block.shape[1]) == 0

    def extend(self, product: Array) -> None:
        """Append `next_block` to the basis; `product` is X'X next_block (p, width)."""
        m, width = self.dimension, self.next_block.shape[1]
        self._append_block(self.next_block)
        basis = self.basis
        # Two projections are enough: after the second, V is orthogonal to the basis up to rounding.
        column = basis.T @ product
        V = product - basis @ column
        correction = basis.T @ V
        V -= basis @ correction
        column += correction
        T = np.zeros((m + width, m + width))
        T[:m, :m] = self.T
        T[:, m:] = column
        T[m:, :m] = column[:m].T
        T[m:, m:] = (column[m:] + column[m:].T) / 2
        next_block, B = _orthonormalize(V, float(np.abs(T).max()))
        # The remainder V may be small. Normalising it amplifies its components along the basis, so
        # the new block is projected once more.
        next_block -= basis @ (basis.T @ next_block)
        next_block, R = linalg.qr(next_block, mode="economic", check_finite=False)
        n_left = self.n_features - basis.shape[1]
        self.T, self.next_block, self.B = T, next_block[:, :n_left], (R @ B)[:n_left]
        self._ritz_cache = None

    def solve_projected(self, wanted: Array, alphas: Array) -> tuple[Array, Array]:
        """Solution of (T + alpha I) y = `wanted` for each column and its alpha, and the gradient.

        `wanted` (dimension, t) is the projected right-hand side. The solution is (dimension, t).
        The gradient is in the coordinates of [basis, next_block] and is 0 in the basis.
        """
        theta, Z = self._ritz_pairs()
        theta = np.maximum(theta, 0.0)
        C = Z.T @ wanted
        shifted = theta[:, None] + alphas
        # If theta and alpha are both below rounding, the entry of C in that direction is too.
        above_noise = shifted > EPS * theta[-1]
        Y: Array = Z @ np.divide(C, shifted, out=np.zeros_like(C), where=above_noise)
        residual = self.B @ Y[len(Y) - self.B.shape[1] :]
        return Y, np.vstack([np.zeros_like(Y), residual])

    def projected_minorant(self, noise: float = 0.0) -> Minorant:
        """Nyström minorant of X'X from the basis, in the coordinates of [basis, next_block].

        It is M T^-1 M' with M = [T; (0 .. 0 B)], and lies below X'X. `noise` is the error of the
        products with X'X, which the slack covers.
        """
        m, b = self.dimension, self.B.shape[1]
        if not m:
            return ZeroMinorant()
        theta, Z = self._ritz_pairs()
        retained = theta > RITZ_VALUE_RTOL * theta[-1]
        if not retained.any():
            return ZeroMinorant()
        factor = np.vstack([self.T @ Z[:, retained], self.B @ Z[m - b :, retained]]) / np.sqrt(
            theta[retained]
        )
        U, S = thin_svd(factor)
        return LowRankMinorant(
            U, S**2, nystrom_slack(factor, theta[retained], noise) if noise else 0.0
        )

    def _ritz_pairs(self) -> tuple[Array, Array]:
        if self._ritz_cache is None:
            self._ritz_cache = linalg.eigh(self.T, check_finite=False)
        return self._ritz_cache

    def _append_block(self, block: Array) -> None:
        dimension = self.dimension + block.shape[1]
        if dimension > self._buffer.shape[1]:
            buffer = np.empty(
                (self.n_features, max(dimension, 2 * self._buffer.shape[1])), order="F"
            )
            buffer[:, : self.dimension] = self.basis
            self._buffer = buffer
        self._buffer[:, self.dimension : dimension] = block
        self.dimension = dimension


def krylov(problem: Problem, budget: EngineBudget) -> Candidate:
    """Grow a block Krylov space until the error bound of every target is within tol.

    One pass per block. The bound is checked whenever the dimension has grown by 10 %.
    """
    p = problem.shape[1]
    start = np.zeros_like(problem.moments) if budget.start is None else budget.start
    rhs = problem.moments if budget.start is None else problem.gradient(start)[0]
    # Compiled loops process four columns at a time, so the block is padded with random directions.
    # These are taken from the range of X', which contains the solution; outside of it X'X is 0 and
    # only alpha is left.
    n_random = -problem.n_targets % 4 if budget.column_cost < 1 else 0
    block = rhs
    if n_random:
        random_block = problem.design.gram_matmat(budget.rng.standard_normal((p, n_random)))
        block = np.hstack([rhs, random_block])
    space = KrylovSpace(block)
    limit = p if budget.max_iter is None else budget.max_iter
    n_iter, checked_dimension, gave_up = 0, 0, False
    Y: Array = np.zeros((0, problem.n_targets))
    while not space.is_invariant and n_iter < limit:
        with attach_partial_solution(partial(_partial_solution, start, space, Y)):
            product = problem.design.gram_matmat(space.next_block)
        with single_threaded_blas():
            space.extend(product)
        n_iter += 1
        last = n_iter == limit or space.is_invariant
        if space.dimension < 1.1 * checked_dimension and not last:
            continue
        checked_dimension = space.dimension
        with single_threaded_blas():
            Y, residual = space.solve_projected(space.basis.T @ rhs, problem.alphas)
            bound = np.sqrt(space.projected_minorant().quadratic_form(residual, problem.alphas))
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
    """The coefficients (p, t) when the bound was last checked."""
    return np.asarray(start + space.basis[:, : len(Y)] @ Y)


def _orthonormalize(V: Array, size: float = 1.0) -> tuple[Array, Array]:
    """Q and B with V = Q B, Q orthonormal; directions below DEPENDENT_RTOL * `size` are dropped."""
    U, S, Wt = linalg.svd(V, full_matrices=False, check_finite=False)
    retained = DEPENDENT_RTOL * size < S
    return U[:, retained], S[retained, None] * Wt[retained]


def _lifted_minorant(problem: Problem, space: KrylovSpace) -> Minorant:
    """The Nyström minorant lifted to feature space; its slack covers the rounding of products."""
    # DEPENDENT_RTOL accounts for the dropped directions, which are missing in
    # X'X basis = [basis, next_block] [T; (0 .. 0 B)].
    largest = max(
        float(np.abs(space.T).max(initial=0.0)), float((problem.raw_column_norms**2).max())
    )
    projected = space.projected_minorant((product_noise(problem.shape) + DEPENDENT_RTOL) * largest)
    if not isinstance(projected, LowRankMinorant):
        return projected
    vectors = np.hstack([space.basis, space.next_block]) @ projected.vectors
    return LowRankMinorant(vectors, projected.values, projected.slack)
