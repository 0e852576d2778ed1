"""Gram matrices in float32, which take half the time, with refinement and proof in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack

from ling._typing import Array
from ling.design.affine import subtract_outer
from ling.linalg.cholesky import potrf, proven_min_eigenvalue
from ling.linalg.decompositions import eigvalsh
from ling.linalg.gram import diagonal_view, form_gram
from ling.linalg.rounding import EPS, EPS32, sum_noise
from ling.solvers.certificate import (
    CholeskyMinorant,
    ZeroMinorant,
    dual_rounding,
    evaluate_bound,
)
from ling.solvers.coef_bounds import is_inverse_cheap
from ling.solvers.conjugate_gradients import Preconditioner, conjugate_gradients
from ling.solvers.engine import Candidate
from ling.solvers.inverse_factor import InverseFactor
from ling.solvers.problem import Problem

# The float32 path is used only if column norms and sqrt(alpha) lie between 1 / this and this, so
# that their squares, and products of a square with a norm, stay within the range of float32 (3e38).
FLOAT32_SAFE_MAX = 1e12
# Iterations on X that correct a solution from the float32 Gram matrix. Each reduces the error by a
# constant factor; if so many do not reach tol, float32 is too coarse, and float64 is used.
MAX_REFINEMENT_STEPS = 30
# A step of refinement has to reduce the error bound by this factor. With a matrix of condition k in
# float32 it multiplies the error by about k EPS32; above 1/4, more steps cost more than float64.
MIN_REDUCTION = 4.0
# Rows whose kernel matrix shows whether X'X or X X' is too ill-conditioned for float32, before it
# is formed, and the largest fraction of all rows that may be used for it.
PROBE_ROWS, MAX_PROBE_FRACTION = 96, 1 / 16
# Number of rows of wide X from which PROBE_ROWS of them are a small fraction.
MIN_DUAL_PROBED_ROWS = 4 * PROBE_ROWS
# FLOPs of a Gram matrix, about 20 ms, from which such a look at rows, 1 to 2 ms, is worthwhile.
# For smaller ones, alpha alone has to show that float32 is accurate enough.
MIN_PROBED_FLOPS = 1e9
FLOAT32_NOTE = "Gram matrix in float32, proved and refined in float64"


def solve_primal_float32(problem: Problem, tol: float, max_passes: float) -> Candidate | None:
    """Factor X'X + alpha I in float32, then refine by conjugate gradients in float64 on X.

    All targets have the same alpha. None if numbers are out of float32's range, if the float32
    matrix is not positive definite, if the refinement is expected to take more than `max_passes`,
    or if it does not reach tol.
    """
    if not _is_in_float32_range(problem) or not _is_well_conditioned(problem, tol, max_passes):
        return None
    alpha = float(problem.distinct_alphas[0])
    factor = Float32Cholesky.from_gram(problem.design.gram(np.float32), alpha)
    if factor is None:
        return None
    W = factor.solve(problem.moments)
    proven = None
    if is_inverse_cheap(problem):  # and it bounds coefficients
        proven = _inverse_with_minorant(problem, factor, alpha)
    candidate = Candidate(W, proven[1] if proven else ZeroMinorant(), note=FLOAT32_NOTE)
    candidate, gradient = evaluate_bound(problem, candidate)
    if candidate.bound is not None and problem.is_within_tol(candidate.bound, tol):
        return candidate
    proven = proven or _inverse_with_minorant(problem, factor, alpha)
    if proven is None:
        return None
    inverse, minorant = proven
    candidate = conjugate_gradients(
        problem,
        Preconditioner(
            lambda R, _: inverse.apply(R), np.full(problem.n_targets, minorant.lower_ratio)
        ),
        minorant,
        tol=tol,
        max_iter=int(min(MAX_REFINEMENT_STEPS, 1 + 2 * max_passes)),
        start=W,
        residual=gradient,
    )
    has_converged = candidate.squared_bound is not None and problem.is_within_tol(
        np.sqrt(candidate.squared_bound), tol
    )
    if not has_converged or not np.isfinite(candidate.coef).all():
        return None
    return replace(candidate, n_iter=None, note=FLOAT32_NOTE)


def solve_dual_float32(problem: Problem, tol: float, max_passes: float) -> Candidate | None:
    """Factor X X' + alpha I in float32, then refine the dual coefficients in float64 on X.

    The error of w = X'c is at most ||rho||, rho = y - X w - alpha c, whatever c is. Each step takes
    two passes. The matrix is that of the smallest alpha. None if numbers are out of float32's
    range, if the steps are expected to take more than `max_passes`, or if they reduce the error too
    slowly, because X X' + alpha I is ill-conditioned or alphas differ.
    """
    if not _is_in_float32_range(problem) or not _is_well_conditioned(problem, tol, max_passes / 2):
        return None
    alpha = float(problem.distinct_alphas[0])
    null, K = _null_direction(problem), problem.design.row_gram(np.float32)
    if null.size:
        # In float32, rounding errors along this direction may be far above alpha. Neither y nor the
        # solution has a part along it, so that what is added does not change the solution.
        added, by_rows = np.diag(K).mean() * null, K if K.flags.c_contiguous else K.T  # symmetric
        subtract_outer(by_rows, -added.astype(K.dtype), null.T.astype(K.dtype))
    factor = Float32Cholesky.from_gram(K, alpha)
    if factor is None:
        return None

    def solve(R: Array) -> Array:
        C = factor.solve(R)
        return C - null @ (null.T @ C)

    Y = problem.targets
    C, smallest = solve(Y), np.inf
    for _ in range(MAX_REFINEMENT_STEPS):
        W = problem.design.rmatmat(C)
        rho = Y - problem.design.matmat(W) - problem.alphas * C
        bound = np.linalg.norm(rho, axis=0) + dual_rounding(problem, C)
        if problem.is_within_tol(bound, tol):
            return Candidate(W, ZeroMinorant(), bound, note=FLOAT32_NOTE)
        largest = float(bound.max())
        if not largest < smallest / MIN_REDUCTION:
            return None
        smallest = largest
        C += solve(rho)
    return None


def _null_direction(problem: Problem) -> Array:
    """The unit vector u (n, 1) with X'u = 0 that centring by means leaves; (n, 0) without it."""
    left = problem.design.affine.left
    if left is None or left.shape[1] != 1:
        return np.zeros((problem.shape[0], 0))
    return left / np.linalg.norm(left)


def _is_in_float32_range(problem: Problem) -> bool:
    """Whether column norms and sqrt(alpha) are far from the limits of float32."""
    norms = np.append(problem.raw_column_norms, np.sqrt(problem.distinct_alphas[0]))
    return bool(norms.max() <= FLOAT32_SAFE_MAX and norms[norms > 0].min() >= 1 / FLOAT32_SAFE_MAX)


@dataclass(frozen=True, eq=False)
class Float32Cholesky:
    """The factorisation A + alpha I = D^1/2 H D^1/2, H = U'U, in float32; H has a unit diagonal.

    `upper` is in Fortran order, with U in its upper triangle and the entries of H below. `scale` is
    the diagonal of D^1/2.
    """

    upper: Array
    scale: Array

    @classmethod
    def from_gram(cls, A: Array, alpha: float) -> Float32Cholesky | None:
        """Factor A + alpha I, for A in float32, which is overwritten; None if it is not possible.

        p^3 / 3 FLOPs.
        """
        scale = np.sqrt(np.diag(A).astype(np.float64) + alpha)
        inverse_scale = (1 / scale).astype(np.float32)
        A *= inverse_scale[:, None]
        A *= inverse_scale
        diagonal_view(A)[:] = 1.0
        fortran = A if A.flags.f_contiguous else A.T  # A is symmetric
        upper, info = potrf(fortran, lower=False, overwrite=True)
        return None if info else cls(upper, scale)

    def solve(self, R: Array) -> Array:
        """(A + alpha I)^-1 R in float64, for R (p, k); accurate to the digits of float32."""
        # Scaled to unit columns: residuals may be too small for float32.
        norms = np.linalg.norm(R, axis=0)
        norms[norms == 0] = 1.0
        inner = lapack.spotrs(self.upper, R / norms / self.scale[:, None], lower=False)[0]
        return np.asarray(inner.astype(np.float64) * norms / self.scale[:, None])

    def proves_min_eigenvalue(self, wanted: float, noise: float) -> bool:
        """Whether H >= wanted I is proved, for factorisations with errors of at most `noise`."""
        H = self.upper.T  # its upper triangle has the entries of H
        diagonal = np.diag(H).copy()
        diagonal_view(H)[:] = 1.0
        try:
            return bool(proven_min_eigenvalue(H, wanted, noise))
        finally:
            diagonal_view(H)[:] = diagonal


def _inverse_with_minorant(
    problem: Problem, factor: Float32Cholesky, alpha: float
) -> tuple[InverseFactor, CholeskyMinorant] | None:
    """The inverse of a factor of X'X + alpha I, and the minorant it proves; None if singular.

    At most 2 p^3 / 3 FLOPs.
    """
    n, p = problem.shape
    # Rounding errors of the factorisation and of the scaled G, as in `cholesky_with_minorant`.
    factor_noise = sum_noise(p, eps=EPS32) * p
    noise = factor_noise + sum_noise(n, eps=EPS32) * float(
        ((problem.safe_column_norms / factor.scale) ** 2).sum()
    )
    min_eigenvalue = alpha / float((factor.scale**2).max())
    if noise >= min_eigenvalue / 2 and factor.proves_min_eigenvalue(1.2 * noise, factor_noise):
        min_eigenvalue = max(min_eigenvalue, 1.2 * noise)
    upper = np.tril(factor.upper.T).T  # in Fortran order
    inverse = InverseFactor.from_factor(upper, factor.scale, problem.uses_compiled_loops)
    return None if inverse is None else (inverse, inverse.minorant(alpha, noise, min_eigenvalue))


def _is_well_conditioned(problem: Problem, tol: float, n_steps: float) -> bool:
    """Whether `n_steps` solves with the float32 matrix are expected to reduce the error to tol.

    With a matrix of condition k in float32, each multiplies it by about k EPS32. alpha alone may
    show that the condition is low; if not, it is estimated from a few rows.
    """
    limit = min(tol ** (1 / max(n_steps, 1.0)), 1 / MIN_REDUCTION) / EPS32
    trace = float((problem.safe_column_norms**2).sum())
    if trace / float(problem.distinct_alphas[0]) < limit:
        return True
    n, p = problem.shape
    return n * p * min(n, p) >= MIN_PROBED_FLOPS and _estimated_condition(problem) < limit


def _estimated_condition(problem: Problem) -> float:
    """Condition of X'X + alpha I, scaled to a unit diagonal, or of X X' + alpha I if p > n.

    Estimated from the eigenvalues of the kernel matrix of a few rows; a fraction of a pass. There
    are min(n, p) eigenvalues. The smallest is extrapolated by the power law that the smaller three
    quarters of the rows' eigenvalues follow.

    For p <= n the eigenvalues of a sample are too small if it has about as many rows as columns
    (Marchenko & Pastur). For few columns 4 p rows are taken, and the result is infinite if these
    are more than MAX_PROBE_FRACTION of all rows, because that would take too long; as it is for
    p > n if there are few rows.
    """
    n, p = problem.shape
    alpha = float(problem.distinct_alphas[0])
    n_rows = min(n, PROBE_ROWS)
    if p > n and n < MIN_DUAL_PROBED_ROWS:
        return np.inf
    if p <= n and p < 4 * n_rows:
        n_rows = 4 * p
        if n_rows > MAX_PROBE_FRACTION * n:
            return np.inf
    rows = problem.design.take(np.unique(np.linspace(0, n - 1, n_rows).astype(np.intp)))
    if p <= n:
        rows *= np.sqrt(n / n_rows) / np.sqrt(problem.safe_column_norms**2 + alpha)
        shift = alpha / float(problem.safe_column_norms.max() ** 2 + alpha)
        kernel = form_gram(rows if n_rows > p else rows.T)
    else:
        kernel = form_gram(rows.T)
        scale = np.sqrt(np.diag(kernel) + alpha)
        kernel /= scale
        kernel /= scale[:, None]
        shift = alpha / float((scale**2).max())
    values = np.maximum(eigvalsh(kernel), EPS)
    exponent = np.log(values[-len(values) // 4] / values[0]) / np.log(4)
    smallest = values[0] * (len(values) / min(n, p)) ** exponent + shift
    return float(values[-1] / smallest)
