"""Generalised Davidson subspace that contains accurate ridge solutions for all alphas.

The solutions for all alphas are sought in one subspace V (Galerkin). It is extended by the
residuals of the alphas with the largest errors, each preconditioned by the diagonal of
X'X + alpha I (generalised Davidson method). If that diagonal is constant, V is a Krylov subspace.
If the columns of X have very different norms, as with text, the preconditioner reduces the number
of passes to a fraction.
"""

from __future__ import annotations

import numpy as np

from ling._typing import Array
from ling.linalg.ritz import ColumnBuffer, RitzSpace, orthonormalize_against, thin_svd
from ling.solvers.certificate import Minorant, nystrom_minorant

# Minimum distance, in grid positions, between two alphas whose residuals of the same target extend
# the subspace in one step. Residuals of closer alphas have almost the same direction.
MIN_ALPHA_SEPARATION = 3
# The diagonal preconditioner is used only if the 90 % quantile of the squared column norms exceeds
# the 10 % quantile by this factor. Otherwise it would only disturb the Krylov subspace.
DIAGONAL_PRECONDITIONER_RATIO = 3.0
# A normalised new direction counts as linearly dependent on V if less than this length is left
# after orthogonalisation.
DEPENDENCE_TOL = 1e-10
# Columns of V for which memory is allocated at first.
INITIAL_CAPACITY = 32
# Maximum number of elements of the residuals that are computed at once, and how many arrays of this
# size there are at most: residuals, two products, and what the minorant makes of them.
RESIDUAL_BATCH_ELEMENTS, N_RESIDUAL_COPIES = 2**23, 5


class DavidsonSubspace(RitzSpace):
    """Orthonormal basis V with X'X V and T = V'X'X V, for right-hand sides `rhs` of shape (p, t).

    `gram_diagonal`, of shape (p,), is the diagonal of X'X. `product_error` is the
    rounding error that products with X'X may have. `residual_elements` limits the size of the
    residuals that are computed at once.
    """

    def __init__(
        self, rhs: Array, gram_diagonal: Array, product_error: float,
        residual_elements: int = RESIDUAL_BATCH_ELEMENTS,
    ) -> None:  # fmt: skip
        super().__init__(len(rhs), INITIAL_CAPACITY)
        self.residual_elements = residual_elements
        self.rhs = rhs
        self.product_error = product_error
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
        self._gram_basis = ColumnBuffer(len(rhs), INITIAL_CAPACITY)
        self._projected_rhs: Array = np.zeros((0, rhs.shape[1]))
        self._cached_minorant: Minorant | None = None

    @property
    def gram_basis(self) -> Array:
        """X'X V, of shape (p, dimension)."""
        return self._gram_basis.columns

    def solution_coordinates(self, alphas: Array) -> Array:
        """Coordinates of the Galerkin solutions in the basis V, (dimension, n_alphas, t)."""
        Z = self.ritz_pairs()[1]
        C = Z.T @ self._projected_rhs
        inverse = 1.0 / self.shifted_ritz_values(alphas)
        shape = self.dimension, len(alphas), C.shape[1]
        flat_coordinates = (inverse[:, :, None] * C[:, None, :]).reshape(
            shape[0], shape[1] * shape[2]
        )
        return np.asarray((Z @ flat_coordinates).reshape(shape))

    def residuals(self, alphas: Array) -> Array:
        """Residuals rhs - (X'X + alpha I) w of the solutions, (p, n_alphas, t)."""
        p, t = self.rhs.shape
        Y = self.solution_coordinates(alphas)
        R = np.broadcast_to(self.rhs[:, None, :], (p, len(alphas), t)).copy()
        if self.dimension:
            flat_residuals = R.reshape(p, -1)
            flat_residuals -= self.gram_basis @ Y.reshape(self.dimension, -1)
            flat_residuals -= self.basis @ (Y * alphas[:, None]).reshape(self.dimension, -1)
        return R

    def bounds(self, alphas: Array) -> Array:
        """Upper bounds on ||X(w - w*)||, (n_alphas, t).

        They use the Nyström approximation of X'X from V, which is a minorant: it lies below X'X.
        """
        t, minorant = self.rhs.shape[1], self.minorant()
        batch_bounds = []
        for batch in self._alpha_batches(alphas):
            R = self.residuals(batch).reshape(len(self.rhs), -1)
            bound = np.sqrt(minorant.quadratic_form(R, np.repeat(batch, t))).reshape(len(batch), t)
            lengths = np.linalg.norm(self.solution_coordinates(batch), axis=0)
            batch_bounds.append(bound + self.product_error * lengths / np.sqrt(batch[:, None]))
        return np.concatenate(batch_bounds)

    def minorant(self) -> Minorant:
        """The Nyström minorant of X'X from V; cached until V grows."""
        if self._cached_minorant is None:
            theta, Z = self.significant_ritz_pairs()
            # In Fortran's order, in which LAPACK can overwrite it.
            factor = ((Z / np.sqrt(theta)).T @ self.gram_basis.T).T
            self._cached_minorant = nystrom_minorant(factor, theta, self.product_error)
        return self._cached_minorant

    def propose_directions(self, alphas: Array, tols: Array, width: int) -> Array:
        """Up to `width` new directions, orthonormal and orthogonal to V: (p, at most width).

        `tols`, of shape (n_alphas, t), are the errors to be reached. The directions are
        preconditioned residuals of the alphas and targets with the largest errors relative to
        them. The array has no columns if the subspace cannot be improved.
        """
        relative_errors = np.concatenate(
            [self._error_estimates(batch) for batch in self._alpha_batches(alphas)]
        )
        relative_errors /= np.where(tols > 0, tols, np.inf)
        selected: list[tuple[int, int]] = []
        for flat_index in np.argsort(-relative_errors, axis=None):
            alpha, target = (int(i) for i in np.unravel_index(flat_index, relative_errors.shape))
            if relative_errors[alpha, target] == 0 or len(selected) == width:
                break
            if all(target != t or abs(alpha - a) >= MIN_ALPHA_SEPARATION for a, t in selected):
                selected.append((alpha, target))
        if not selected:
            return np.zeros((len(self.rhs), 0))
        block = [
            self.residuals(alphas[a : a + 1])[:, 0, t] / (self.preconditioner_diagonal + alphas[a])
            for a, t in selected
        ]
        return self._orthogonalize(np.stack(block, axis=1))

    def _error_estimates(self, alphas: Array) -> Array:
        """Estimates of the errors of the solutions, (n_alphas, t).

        sqrt(r'(D + alpha I)^-1 r) with the residual r and the preconditioner's diagonal D.
        """
        R = self.residuals(alphas)
        R *= R
        return np.asarray(
            np.sqrt(
                np.einsum("pat,pa->at", R, 1 / (self.preconditioner_diagonal[:, None] + alphas))
            )
        )

    def _alpha_batches(self, alphas: Array) -> list[Array]:
        """Batches of alphas whose residuals have at most `residual_elements` elements."""
        step = max(1, self.residual_elements // max(1, self.rhs.size))
        return [alphas[start : start + step] for start in range(0, len(alphas), step)]

    def extend(self, block: Array, product: Array) -> None:
        """Append `block`, orthonormal and orthogonal to V, to V; `product` is X'X block.

        A block without columns marks the subspace as exhausted.
        """
        if not block.shape[1]:
            self.exhausted = True
            return
        self._cached_minorant = None
        self.append_basis(block)
        self._gram_basis.append(product)
        self.append_projection(self.basis.T @ product)
        self._projected_rhs = np.vstack([self._projected_rhs, block.T @ self.rhs])

    def _orthogonalize(self, block: Array) -> Array:
        """Orthonormal basis of the part of `block` that is orthogonal to V."""
        V = self.basis
        block = block / np.linalg.norm(block, axis=0)
        for _ in range(2):  # a second Gram-Schmidt step is enough
            block = block - V @ (V.T @ block)
        U, S = thin_svd(block)
        # Normalising a small remainder amplifies its components along V, so it is projected again.
        return orthonormalize_against(U[:, S > DEPENDENCE_TOL], V)[0]
