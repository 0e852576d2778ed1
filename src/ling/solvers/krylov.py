"""Randomised block Krylov method: one subspace for all targets and all alphas.

Krylov spaces of X'X do not depend on alpha. The space grown from [X'Y, random directions] also
finds the leading directions of X, and so acts like a preconditioned method without a preconditioner
(Chen, Musco & others 2025, arXiv 2501.18717).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ling._typing import Array
from ling.linalg.decompositions import svd
from ling.linalg.ritz import RitzSpace, orthonormalize_against
from ling.linalg.rounding import product_noise
from ling.linalg.threads import single_threaded_blas
from ling.solvers.certificate import LowRankMinorant, Minorant, nystrom_minorant
from ling.solvers.conjugate_gradients import TOL_SAFETY_FACTOR
from ling.solvers.engine import Candidate, EngineBudget, as_generator, attach_partial_solution
from ling.solvers.options import FitOptions
from ling.solvers.problem import Problem

# Directions of a new block with singular values below this fraction of the largest entry of T (of 1
# in the first block, whose columns are normalised) are dropped as linearly dependent.
DEPENDENT_RTOL = 1e-12


class KrylovSpace(RitzSpace):
    """Orthonormal basis of a block Krylov space, and the projection T of X'X onto it.

    X'X basis = [basis, next_block] [T; (0 .. 0 B)]. The caller multiplies X'X with `next_block`,
    which takes one pass, and passes the product to `extend`.
    """

    def __init__(self, block: Array) -> None:
        self.n_features = len(block)
        lengths = np.linalg.norm(block, axis=0)
        self.next_block = _orthonormalize(block / np.where(lengths > 0, lengths, 1.0))[0]
        self.B: Array = np.zeros((self.next_block.shape[1], 0))
        super().__init__(self.n_features, 8 * self.next_block.shape[1])

    @property
    def is_invariant(self) -> bool:
        """True if there is no next block: X'X maps the basis into itself."""
        return int(self.next_block.shape[1]) == 0

    def extend(self, product: Array) -> None:
        """Append `next_block` to the basis; `product` is X'X next_block (p, width)."""
        self.append_basis(self.next_block)
        basis = self.basis
        # Two projections are enough: after the second, V is orthogonal to the basis up to rounding.
        columns = basis.T @ product
        V = product - basis @ columns
        correction = basis.T @ V
        V -= basis @ correction
        self.append_projection(columns + correction)
        next_block, B = _orthonormalize(V, float(np.abs(self.T).max()))
        # The remainder V may be small. Normalising it amplifies its components along the basis, so
        # the new block is projected once more.
        next_block, R = orthonormalize_against(next_block, basis)
        n_left = self.n_features - basis.shape[1]
        self.next_block, self.B = next_block[:, :n_left], (R @ B)[:n_left]

    def solve_projected(self, wanted: Array, alphas: Array) -> tuple[Array, Array]:
        """Solution of (T + alpha I) y = `wanted` for each column and its alpha, and the gradient.

        `wanted` (dimension, t) is the projected right-hand side. The solution is (dimension, t).
        The gradient is in the coordinates of [basis, next_block] and is 0 in the basis.
        """
        Z = self.ritz_pairs()[1]
        Y: Array = Z @ (Z.T @ wanted / self.shifted_ritz_values(alphas))
        residual = self.B @ Y[len(Y) - self.B.shape[1] :]
        return Y, np.vstack([np.zeros_like(Y), residual])

    def projected_minorant(self, noise: float = 0.0) -> Minorant:
        """Nyström minorant of X'X from the basis, in the coordinates of [basis, next_block].

        It is M T^-1 M' with M = [T; (0 .. 0 B)], and lies below X'X. `noise` is the error of the
        products with X'X, which the slack covers.
        """
        theta, Z = self.significant_ritz_pairs()
        last_block = slice(len(Z) - self.B.shape[1], None)
        factor = np.vstack([self.T @ Z, self.B @ Z[last_block]]) / np.sqrt(theta)
        return nystrom_minorant(factor, theta, noise)


@np.errstate(over="ignore")  # where alpha is 1e-308 times squares of X, bounds are infinite
def krylov(
    problem: Problem, options: FitOptions, budget: EngineBudget, start: Array | None = None
) -> Candidate:
    """Grow a block Krylov space until the error bound of every target is within tol.

    One pass per block. The bound is checked whenever the dimension has grown by 10 %.
    """
    p = problem.shape[1]
    rhs = problem.moments if start is None else problem.gradient(start)[0]
    start = np.zeros_like(problem.moments) if start is None else start
    # Compiled loops process four columns at a time, so the block is padded with random directions.
    # These are taken from the range of X', which contains the solution; outside of it X'X is 0 and
    # only alpha is left.
    n_random = -problem.n_targets % 4 if budget.costs.column_cost < 1 else 0
    block = rhs
    if n_random:
        random_block = problem.design.gram_matmat(
            as_generator(options.random_state).standard_normal((p, n_random))
        )
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
        if problem.is_within_tol(bound, TOL_SAFETY_FACTOR * options.tol):
            break
        full = space.dimension + space.next_block.shape[1] > max(budget.max_rank, block.shape[1])
        if full or n_iter * budget.costs.iteration_cost(block.shape[1]) > 1.5 * budget.max_passes:
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
    U, S, Wt = svd(V)
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
