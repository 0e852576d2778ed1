"""Engine for coefficients >= 0: an active-set method on the Cholesky factor of X'X + alpha I."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.optimize import nnls

from ling._typing import Array
from ling.solvers.certificate import BestOf, Minorant, ZeroMinorant, cholesky_with_minorant
from ling.solvers.engine import Candidate, EngineBudget
from ling.solvers.options import FitOptions
from ling.solvers.problem import Problem

# Iterations of NNLS per feature. Lawson & Hanson's method adds one feature per iteration, and
# seldom removes one again.
MAX_NNLS_ITER_PER_FEATURE = 10


def nonnegative(
    problem: Problem, options: FitOptions, budget: EngineBudget, start: Array | None = None
) -> Candidate:
    """Minimise ||L'w - L^-1 X'y|| over w >= 0 for each target, with L L' = X'X + alpha I.

    One pass, n p^2 FLOPs for X'X and about p^2 times the number of coefficients above 0 for the
    rest; 4 p^2 numbers. If X'X + alpha I is singular, as may be for alpha = 0, X itself is reduced
    to a triangle by QR, which takes a dense copy of X.
    """
    G = problem.design.gram(np.float64)
    W = np.zeros_like(problem.moments)
    minorants: list[Minorant] = [ZeroMinorant()]
    all_converged = True
    for alpha in problem.distinct_alphas:
        same_alpha = np.flatnonzero(problem.alphas == alpha)
        proven = (
            cholesky_with_minorant(G, float(alpha), problem.shape[0], problem.gram_error_scale)
            if alpha > 0
            else None
        )
        if proven is None:
            A, B, scale = _qr_reduce(problem, float(alpha), same_alpha)
        else:
            factor, minorant = proven
            minorants.append(minorant)
            A, scale = factor.factor.T, factor.scale
            B = factor.half_solve(problem.moments[:, same_alpha])
        for t, b in zip(same_alpha, B.T, strict=True):
            v, converged = _nnls(A, b)
            W[:, t] = v / scale
            all_converged = all_converged and converged
    notes = []
    if (problem.alphas == 0).any():
        notes.append("where several coefficients >= 0 fit equally well, one of them is given")
    if not all_converged:
        notes.append("the active set was not found")
    return Candidate(W, BestOf(minorants), note="; ".join(notes))


def _nnls(A: Array, b: Array) -> tuple[Array, bool]:
    """v >= 0 that minimises ||A v - b||, and whether the active-set method converged."""
    try:
        return nnls(A, b, maxiter=MAX_NNLS_ITER_PER_FEATURE * A.shape[1])[0], True
    except RuntimeError:  # rounding made it cycle; the certificate bounds the error
        return np.maximum(linalg.lstsq(A, b, check_finite=False)[0], 0.0), False


def _qr_reduce(
    problem: Problem, alpha: float, targets: NDArray[np.intp]
) -> tuple[Array, Array, Array]:
    """R and Q'[Y; 0] with Q R = [X; sqrt(alpha) I] D^-1/2, and the diagonal of D^1/2.

    D scales the columns to norm 1; `targets` are the indices of the targets in Y.
    """
    n, p = problem.shape
    scale = np.sqrt(problem.column_norms**2 + alpha)
    scale[scale == 0] = 1.0
    X = problem.design.take(np.arange(n)) / scale
    XY = np.hstack([X, problem.targets[:, targets]])
    if alpha > 0:
        penalty_rows = np.hstack([np.diag(np.sqrt(alpha) / scale), np.zeros((p, len(targets)))])
        XY = np.vstack([XY, penalty_rows])
    R = linalg.qr(XY, mode="r", overwrite_a=True, check_finite=False)[0][: p + len(targets)]
    return R[:, :p], R[:, p:], scale
