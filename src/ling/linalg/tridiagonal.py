"""A Gram matrix in tridiagonal form, in which every alpha costs next to nothing.

A = Q T Q' is made once, for 4/3 m^3 FLOPs and without eigenvectors. After that a system with
A + alpha I is two short recurrences, whatever alpha is.
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

# Eigenvalues that are below this share of their sum may be rounding.
EIGENVALUE_NOISE = 8 * EPS
# LAPACK's block size: more makes it faster up to here, and takes more room.
LAPACK_BLOCK_SIZE = 64
# Up to this size one thread is about as fast, and waits for nobody.
MAX_SINGLE_THREAD_SIZE = 400
# Above so many steps of the recurrences a compiled loop is worth loading.
MIN_COMPILED_STEPS = 2**22
# Alphas that a compiled loop does side by side.
ALPHAS_PER_LOOP = 4


@dataclass(frozen=True, eq=False)
class HouseholderTridiagonal:
    """A = Q T Q', T with this diagonal and off-diagonal, Q as a product of reflections.

    Q leaves the first coordinate alone; `reflectors` and `tau` are for the others, as LAPACK's
    QR factorisation stores them.
    """

    diagonal: Array
    off_diagonal: Array
    reflectors: Array
    tau: Array

    def __len__(self) -> int:
        return len(self.diagonal)

    @cached_property
    def eigenvalues(self) -> Array:
        """Of A, those that rounding made negative as 0; ascending."""
        return np.maximum(linalg.eigvalsh_tridiagonal(self.diagonal, self.off_diagonal), 0.0)

    @cached_property
    def Q(self) -> Array:  # noqa: N802  (a matrix)
        """Q itself: m^2 numbers."""
        m = len(self)
        Q = np.zeros((m, m), order="F")
        Q[0, 0] = 1.0
        if m > 1:
            Q[1:, 1:] = lapack.dorgqr(self.reflectors, self.tau, lwork=LAPACK_BLOCK_SIZE * m)[0]
        return Q

    @cached_property
    def min_eigenvalue(self) -> float:
        """The smallest eigenvalue; one below 0 is rounding."""
        lowest = linalg.eigvalsh_tridiagonal(
            self.diagonal, self.off_diagonal, select="i", select_range=(0, 0)
        )
        return float(lowest[0])

    @property
    def eigenvalue_noise(self) -> float:
        """Up to here eigenvalues may be rounding; a larger alpha makes A + alpha I positive."""
        return EIGENVALUE_NOISE * float(self.diagonal.sum())

    def effective_dof(self, alphas: Array) -> Array:
        """trace A (A + alpha I)^-1."""
        theta = self.eigenvalues[self.eigenvalues > self.eigenvalue_noise, None]
        return np.asarray((theta / (theta + alphas)).sum(axis=0))

    def relative_error(self, alphas: Array) -> Array:
        """About the relative error that rounding in T causes; that of alpha = 0 is not known."""
        if self.eigenvalue_noise == 0:
            return np.zeros(len(alphas))
        found = self.eigenvalue_noise / np.maximum(
            self.min_eigenvalue + alphas, self.eigenvalue_noise
        )
        return np.where(alphas == 0, 0.0, found)

    def rotate(self, C: Array) -> Array:
        """Q'C."""
        return self._rotated(C, "T")

    def unrotate(self, C: Array) -> Array:
        """Q C."""
        return self._rotated(C, "N")

    def solve(self, C: Array, alpha: float) -> Array:
        """(T + alpha I)^-1 C; for alpha = 0 the solution of least norm."""
        if alpha == 0:
            return self._solve_min_norm(C)
        pivots, ratios = self._ldl_factors(alpha)
        if len(self) == 1:  # which SciPy's wrapper does not take
            return C / pivots
        found: Array = lapack.dpttrs(pivots, ratios, C)[0]
        return found

    def _solve_min_norm(self, C: Array) -> Array:
        theta, Z = linalg.eigh_tridiagonal(self.diagonal, self.off_diagonal)
        kept = theta > len(self) * EPS * theta[-1]
        return np.asarray(Z[:, kept] @ ((Z[:, kept].T @ C) / theta[kept, None]))

    def solve_columns(self, C: Array, alphas: Array) -> Array:
        """(A + alphas[t] I)^-1 c_t, column by column."""
        turned = self.rotate(C)
        for alpha in np.unique(alphas):
            mine = alphas == alpha
            turned[:, mine] = self.solve(turned[:, mine], float(alpha))
        return self.unrotate(turned)

    def quadratic_forms(self, Z: Array, alphas: Array, *, reuse_kernel: bool = False) -> Array:
        """z'(T + alpha I)^-1 z for every row z of Z and every alpha; `reuse_kernel`: for many Z."""
        if not reuse_kernel and Z.size * len(alphas) <= MIN_COMPILED_STEPS:
            columns = [np.einsum("ji,ji->i", Z.T, self.solve(Z.T, a)) for a in alphas]
            return np.stack(columns, axis=1)
        from ling.linalg.kernels import tridiagonal_quadratic_forms

        inverse, ratios = self._ldl_recurrences(alphas)
        found = np.empty((len(Z), inverse.shape[1]))

        def sweep(part: slice) -> None:
            tridiagonal_quadratic_forms(Z[part], inverse, ratios, found[part])

        threads.parallel_map(sweep, threads.split_rows(slice(0, len(Z)), threads.n_slices(1)))
        return found[:, : len(alphas)]

    def _ldl_recurrences(self, alphas: Array) -> tuple[Array, Array]:
        """1 / pivots of T + alpha I, and what each step takes from the one before."""
        width = -(-len(alphas) // ALPHAS_PER_LOOP) * ALPHAS_PER_LOOP
        padded = np.full(width, alphas[-1])
        padded[: len(alphas)] = alphas
        inverse = np.empty((len(self), width))
        ratios = np.zeros((len(self), width))
        for at, alpha in enumerate(padded):
            pivots, ratios[1:, at] = self._ldl_factors(float(alpha))
            inverse[:, at] = 1 / pivots
        return inverse, ratios

    def _ldl_factors(self, alpha: float) -> tuple[Array, Array]:
        """L D L' = T + alpha I: D, and L below its diagonal of ones."""
        if len(self) == 1:
            return self._positive_diagonal + alpha, self.off_diagonal
        pivots, ratios, info = lapack.dpttrf(self._positive_diagonal + alpha, self.off_diagonal)
        if info:
            raise linalg.LinAlgError(f"X'X + {alpha:g} I is not positive, but for rounding")
        return pivots, ratios

    @cached_property
    def _positive_diagonal(self) -> Array:
        """T's diagonal, raised by as little as makes T positive where rounding left it below."""
        tiny = 16 * EPS * float(np.abs(self.diagonal).max())
        return np.asarray(self.diagonal + max(0.0, tiny - self.min_eigenvalue))

    def _rotated(self, C: Array, transposed: str) -> Array:
        if "Q" in self.__dict__:  # formed already, and faster than its reflections
            return np.asarray((self.Q.T if transposed == "T" else self.Q) @ C)
        found = np.array(C, dtype=np.float64, order="F")
        if len(self) > 1:
            rest = np.asfortranarray(found[1:])
            found[1:] = lapack.dormqr(
                "L", transposed, self.reflectors, self.tau, rest,
                lwork=max(1, LAPACK_BLOCK_SIZE * C.shape[1]), overwrite_c=True,
            )[0]  # fmt: skip
        return found


def tridiagonalize(A: Array) -> HouseholderTridiagonal:
    """The form of a symmetric A, of which the lower triangle is read; 4/3 m^3 FLOPs."""
    m = len(A)
    if m == 1:
        none = np.zeros((0, 0))
        return HouseholderTridiagonal(np.diag(A).copy(), np.zeros(0), none, np.zeros(0))
    # A symmetric array in C order is itself in Fortran order, transposed.
    columns = A if A.flags.f_contiguous else A.T
    with single_threaded_blas() if m <= MAX_SINGLE_THREAD_SIZE else nullcontext():
        packed, diagonal, off, tau, _ = lapack.dsytrd(
            columns, lower=True, lwork=LAPACK_BLOCK_SIZE * m
        )
    return HouseholderTridiagonal(diagonal, off, np.asfortranarray(packed[1:, :-1]), tau)
