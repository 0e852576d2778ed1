"""The cost of cross-validation: predicted seconds, passes and bytes of its strategies."""

from __future__ import annotations

from collections.abc import Sequence

from ling.linalg.ritz import GROWTH_FACTOR
from ling.solvers.cost_model import gram_seconds, pass_seconds
from ling.solvers.dimensions import ProblemDimensions
from ling.solvers.machine import Machine

# Seconds that one subspace of cross-validation spends on its residuals in each pass: a constant,
# and a part per feature.
SECONDS_PER_SPACE, SECONDS_PER_FEATURE = 4e-3, 8e-7
# Numbers that scikit-learn's StratifiedKFold holds for each row, measured for a million rows.
SPLITTER_NUMBERS_PER_ROW = 7
# Time of one FLOP of the tridiagonal reduction relative to one FLOP of a matrix product, below
# and from the given order.
TRIDIAGONAL_SLOWDOWN_SMALL, TRIDIAGONAL_LARGE_ORDER, TRIDIAGONAL_SLOWDOWN_LARGE = 2.0, 4000, 3.5


def cv_vector_bytes(n: int, n_targets: int, is_weighted: bool, sums_scores: bool) -> float:
    """Bytes of arrays with a number for every row, or for every row and target.

    These are the centred targets, with and without weights, and quadratic forms. The predictions of
    one alpha and their squared errors are not in memory all at once if scores are summed in the
    pass that predicts (`sums_scores`). Measured for a million rows.
    """
    per_target = (1 if sums_scores else 3) + is_weighted
    per_row = (3 if sums_scores else 6) + 2 * is_weighted
    return 8.0 * n * (per_target * n_targets + per_row)


def splitter_bytes(n: int) -> float:
    """Bytes that a splitter of scikit-learn's takes while it assigns rows to folds."""
    return 8.0 * n * SPLITTER_NUMBERS_PER_ROW


def fold_factorization_bytes(n: int, p: int) -> float:
    """Bytes of the four m x m float64 matrices that a fold's factorisation needs, m = min(n, p).

    These are X'X (or X X'), the Gram matrix of the held-out rows, that of the training rows, which
    their tridiagonal form overwrites, and the Householder reflections of the form.
    """
    return 8.0 * 4 * float(min(n, p)) ** 2


def fold_factors_bytes(n: int, p: int, n_splits: int) -> float:
    """Bytes of the tridiagonal forms of all training sets, if they are kept for further alphas."""
    return 16.0 * n_splits * min(n, p) ** 2


def rotated_rows_bytes(n: int, p: int) -> float:
    """Bytes of the test rows of all splits in the coordinates of the tridiagonal forms."""
    return 16.0 * n * min(n, p)


def fold_statistics_bytes(p: int, n_targets: int) -> float:
    """Bytes of the sufficient statistics of one fold, and of their partial sums."""
    return 16.0 * p * (p + n_targets)


def subspace_bytes(p: int, dimensions: Sequence[int]) -> float:
    """Bytes of subspaces of the features: their bases, products with X'X, and minorants.

    The first two have room to grow. A minorant is computed from a matrix of the same size.
    """
    kept = (2 * GROWTH_FACTOR + 1) * sum(dimensions)
    return 8.0 * p * (kept + max(dimensions, default=0))


def tridiagonal_seconds(m: int, machine: Machine) -> float:
    """Seconds of the tridiagonal reduction of an m x m matrix."""
    slowdown = (
        TRIDIAGONAL_SLOWDOWN_SMALL if m < TRIDIAGONAL_LARGE_ORDER else TRIDIAGONAL_SLOWDOWN_LARGE
    )
    return 4 / 3 * float(m) ** 3 * slowdown / machine.gemm_rate


def direct_cv_seconds(
    shape: ProblemDimensions, machine: Machine, n_splits: int, n_alphas: int
) -> float:
    """Seconds of cross-validation by factorisations; n_splits is 1 for leave-one-out."""
    m = min(shape.n, shape.p)
    n_grams = 1.0 if n_splits == 1 else 2.0
    # Forming cannot be faster than reading X: for the means, the products and the predictions.
    forming = max(
        n_grams * gram_seconds(shape, machine), (2 + n_grams) * pass_seconds(shape, machine)
    )
    predicting = 2.0 * shape.n * m * shape.n_targets * n_alphas / machine.gemm_rate
    return forming + n_splits * tridiagonal_seconds(m, machine) + predicting


def direct_cv_passes(shape: ProblemDimensions, n_splits: int | None) -> float:
    """Passes over X of cross-validation by factorisations; n_splits is None for leave-one-out.

    For p <= n: X'X, the predictions and, with folds, the Gram matrices and sums of the held-out
    rows. For p > n: X X' and the coefficients.
    """
    if shape.p > shape.n:
        return 2.0
    return 3.0 if n_splits is None else 4.0


def subspace_pass_seconds(
    shape: ProblemDimensions, machine: Machine, n_splits: int, n_directions: int
) -> float:
    """Seconds of one pass that extends the subspace of every split by `n_directions`."""
    return pass_seconds(shape, machine, n_splits * n_directions) + n_splits * (
        SECONDS_PER_SPACE + SECONDS_PER_FEATURE * shape.p
    )
