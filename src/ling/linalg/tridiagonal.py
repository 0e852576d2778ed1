"""Tridiagonal form of a Gram matrix, with which every further alpha costs very little.

A = Q T Q' is computed once, for 4/3 m^3 FLOPs and without eigenvectors. After that, a system with
A + alpha I takes two short recurrences for any alpha.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from ling._typing import Array
from ling.linalg import threads
from ling.linalg.rounding import EPS
from ling.linalg.threads import single_threaded_blas

# Eigenvalues below this fraction of their sum may be rounding errors.
EIGENVALUE_NOISE = 8 * EPS
# Block size for LAPACK's workspaces. Larger blocks are faster up to here, and take more
# memory.
LAPACK_BLOCK_SIZE = 64
# Matrix size up to which one thread is about as fast as several, without waiting for others.
MAX_SINGLE_THREAD_SIZE = 400
# Matrix size up to which all eigenvalues are computed where one is asked for: others will be too.
MAX_ALL_EIGENVALUES_SIZE = 400
# Quadratic forms come from eigenvectors of T up to this number of eigenvectors for each alpha. With
# 500 x 30 entries of Z and 20 alphas they take 0.08 ms, and LAPACK's recurrences 1.1 ms; with
# 1000 x 300 entries and 4 alphas both take 10 ms.
MAX_EIGENVECTORS_PER_ALPHA = 32
# Steps of the recurrences (entries of Z times alphas) above which loading a compiled loop pays.
MIN_COMPILED_STEPS = 2**22
# Alphas that a compiled loop processes side by side.
ALPHAS_PER_LOOP = 4


@dataclass(frozen=True, eq=False)
class HouseholderTridiagonal:
    """A = Q T Q' (m, m), with T tridiagonal and Q a product of Householder reflections.

    `diagonal` (m,) and `off_diagonal` (m - 1,) are those of T. Q does not change the first
    coordinate; `reflectors` and `tau` are for the others, as LAPACK's QR factorisation stores them.
    """

    diagonal: Array
    off_diagonal: Array
    reflectors: Array
    tau: Array

    def __len__(self) -> int:
        return len(self.diagonal)

    @cached_property
    def eigenvalues(self) -> Array:
        """Eigenvalues of A in ascending order; those that rounding made negative are set to 0."""
        return np.maximum(self._computed_eigenvalues, 0.0)

    @cached_property
    def _computed_eigenvalues(self) -> Array:
        """Eigenvalues of A in ascending order, as LAPACK computes them."""
        if len(self) == 1:
            return self.diagonal
        # SciPy's own function takes five times as long for small matrices.
        values, info = lapack.dsterf(self.diagonal, self.off_diagonal)
        if info:
            raise linalg.LinAlgError("the eigenvalues of a tridiagonal matrix did not converge")
        return np.asarray(values)

    @cached_property
    def Q(self) -> Array:  # noqa: N802  (a matrix)
        """Q as an explicit matrix: m^2 numbers."""
        m = len(self)
        Q = np.zeros((m, m), order="F")
        Q[0, 0] = 1.0
        if m > 1:
            Q[1:, 1:] = lapack.dorgqr(self.reflectors, self.tau, lwork=LAPACK_BLOCK_SIZE * m)[0]
        return Q

    @cached_property
    def min_eigenvalue(self) -> float:
        """The smallest eigenvalue of A; a negative value is a rounding error."""
        if len(self) <= MAX_ALL_EIGENVALUES_SIZE:
            return float(self._computed_eigenvalues[0])
        return self._eigenvalue(0)

    @property
    def eigenvalue_noise(self) -> float:
        """Eigenvalues up to this may be rounding errors.

        With a larger alpha, A + alpha I is positive definite.
        """
        return EIGENVALUE_NOISE * float(self.diagonal.sum())

    def effective_dof(self, alphas: Array) -> Array:
        """Effective degrees of freedom, trace A (A + alpha I)^-1, for each alpha."""
        theta = self.eigenvalues[self.eigenvalues > self.eigenvalue_noise, None]
        return np.asarray((theta / (theta + alphas)).sum(axis=0))

    def smallest_significant(self) -> float:
        """The smallest eigenvalue above rounding; the sum of all if there is none."""
        low, high = 0, len(self)
        while low < high:  # bisection over the number of eigenvalues that may be rounding errors
            middle = (low + high) // 2
            if self._eigenvalue(middle) > self.eigenvalue_noise:
                high = middle
            else:
                low = middle + 1
        return self._eigenvalue(low) if low < len(self) else float(self.diagonal.sum())

    def _eigenvalue(self, index: int) -> float:
        """Eigenvalue number `index` in ascending order."""
        value = linalg.eigvalsh_tridiagonal(
            self.diagonal, self.off_diagonal, select="i", select_range=(index, index)
        )
        return float(value[0])

    def rotate(self, C: Array) -> Array:
        """Q'C."""
        return self._rotated(C, "T")

    def unrotate(self, C: Array) -> Array:
        """Q C."""
        return self._rotated(C, "N")

    def solve(self, C: Array, alpha: float) -> Array:
        """(T + alpha I)^-1 C for C (m, k); for alpha = 0 the minimum-norm solution."""
        if alpha == 0:
            return self._solve_min_norm(C)
        pivots, ratios = self._ldl_factors(alpha)
        if len(self) == 1:  # SciPy's wrapper of dpttrs rejects size 1
            return C / pivots
        solution: Array = lapack.dpttrs(pivots, ratios, C)[0]
        return solution

    def _solve_min_norm(self, C: Array) -> Array:
        theta, Z = linalg.eigh_tridiagonal(self.diagonal, self.off_diagonal)
        nonzero = theta > len(self) * EPS * theta[-1]
        return np.asarray(Z[:, nonzero] @ ((Z[:, nonzero].T @ C) / theta[nonzero, None]))

    def solve_columns(self, C: Array, alphas: Array) -> Array:
        """(A + alphas[t] I)^-1 c_t for each column c_t of C (m, t)."""
        rotated = self.rotate(C)
        for alpha in np.unique(alphas):
            same_alpha = alphas == alpha
            rotated[:, same_alpha] = self.solve(rotated[:, same_alpha], float(alpha))
        return self.unrotate(rotated)

    def quadratic_forms(self, Z: Array, alphas: Array, *, reuse_kernel: bool = False) -> Array:
        """z'(T + alpha I)^-1 z (n, n_alphas) for every row z of Z (n, m) and every alpha.

        `reuse_kernel` says that many calls follow, so that loading the compiled loop pays.
        """
        if not reuse_kernel and Z.size * len(alphas) <= MIN_COMPILED_STEPS:
            if len(self) <= MAX_EIGENVECTORS_PER_ALPHA * len(alphas):
                theta, V = self._positive_eigenpairs
                return np.asarray((Z @ V) ** 2 @ (1 / (theta[:, None] + alphas)))
            columns = [np.einsum("ji,ji->i", Z.T, self.solve(Z.T, a)) for a in alphas]
            return np.stack(columns, axis=1)
        from ling.linalg.kernels import tridiagonal_quadratic_forms

        inverse, ratios = self._ldl_recurrences(alphas)
        forms = np.empty((len(Z), inverse.shape[1]))

        def sweep(part: slice) -> None:
            tridiagonal_quadratic_forms(Z[part], inverse, ratios, forms[part])

        work = float(Z.nbytes) * len(alphas)
        threads.parallel_map(sweep, threads.split_rows(slice(0, len(Z)), threads.n_slices(work)))
        return forms[:, : len(alphas)]

    def _ldl_recurrences(self, alphas: Array) -> tuple[Array, Array]:
        """1 / pivots of T + alpha I = L D L', and the subdiagonal of L, one column per alpha.

        The columns are padded to a multiple of ALPHAS_PER_LOOP by repeating the last alpha.
        """
        width = -(-len(alphas) // ALPHAS_PER_LOOP) * ALPHAS_PER_LOOP
        padded = np.full(width, alphas[-1])
        padded[: len(alphas)] = alphas
        inverse = np.empty((len(self), width))
        ratios = np.zeros((len(self), width))
        for column, alpha in enumerate(padded):
            pivots, ratios[1:, column] = self._ldl_factors(float(alpha))
            inverse[:, column] = 1 / pivots
        return inverse, ratios

    def _ldl_factors(self, alpha: float) -> tuple[Array, Array]:
        """The diagonal of D and the subdiagonal of L in L D L' = T + alpha I."""
        if len(self) == 1:
            return self._positive_diagonal + alpha, self.off_diagonal
        pivots, ratios, info = lapack.dpttrf(self._positive_diagonal + alpha, self.off_diagonal)
        if info:
            raise linalg.LinAlgError(f"X'X + {alpha:g} I is not positive, but for rounding")
        return pivots, ratios

    @cached_property
    def diagonal_raise(self) -> float:
        """The number added to the diagonal of T to make it positive definite despite rounding."""
        tiny = 16 * EPS * float(np.abs(self.diagonal).max())
        return max(0.0, tiny - self.min_eigenvalue)

    @cached_property
    def _positive_diagonal(self) -> Array:
        return np.asarray(self.diagonal + self.diagonal_raise)

    @cached_property
    def _positive_eigenpairs(self) -> tuple[Array, Array]:
        """Eigenvalues (m,) and eigenvectors (m, m) of T with `_positive_diagonal`."""
        if len(self) == 1:
            return self._positive_diagonal, np.ones((1, 1))
        theta, V = linalg.eigh_tridiagonal(self._positive_diagonal, self.off_diagonal)
        return np.maximum(theta, 0.0), V

    def _rotated(self, C: Array, transposed: str) -> Array:
        if "Q" in self.__dict__:  # Q is already formed; multiplying with it is faster
            return np.asarray((self.Q.T if transposed == "T" else self.Q) @ C)
        product = np.array(C, dtype=np.float64, order="F")
        if len(self) > 1:
            rest = np.asfortranarray(product[1:])
            product[1:] = lapack.dormqr(
                "L", transposed, self.reflectors, self.tau, rest,
                lwork=max(1, LAPACK_BLOCK_SIZE * C.shape[1]), overwrite_c=True,
            )[0]  # fmt: skip
        return product


def tridiagonalize(A: Array, overwrite: bool = False) -> HouseholderTridiagonal:
    """Tridiagonal form of a symmetric A (m, m); 4/3 m^3 FLOPs.

    Only the lower triangle is read, or for C-ordered A the upper one. A copy of A is needed unless
    `overwrite` allows to use its memory.
    """
    m = len(A)
    if m == 1:
        no_reflectors = np.zeros((0, 0))
        return HouseholderTridiagonal(np.diag(A).copy(), np.zeros(0), no_reflectors, np.zeros(0))
    # The transpose of a symmetric C-ordered array is the same matrix in Fortran order.
    fortran_A = A if A.flags.f_contiguous else A.T
    with single_threaded_blas() if m <= MAX_SINGLE_THREAD_SIZE else nullcontext():
        packed, diagonal, off_diagonal, tau, _ = lapack.dsytrd(
            fortran_A, lower=True, lwork=LAPACK_BLOCK_SIZE * m, overwrite_a=overwrite
        )
    return HouseholderTridiagonal(diagonal, off_diagonal, np.asfortranarray(packed[1:, :-1]), tau)
