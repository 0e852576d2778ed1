"""Engine for n >> p: factor the Gram matrix of a row sample, then iterate on all rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.linalg.gram import diagonal_view
from ling.linalg.rounding import EPS
from ling.solvers.certificate import BestOf, CholeskyMinorant
from ling.solvers.conjugate_gradients import Preconditioner, conjugate_gradients
from ling.solvers.engine import Candidate, EngineBudget, as_generator
from ling.solvers.inverse_factor import InverseFactor
from ling.solvers.options import FitOptions
from ling.solvers.problem import Problem

# Sampled rows per feature.
SAMPLE_ROWS_PER_FEATURE = 4


@np.errstate(over="ignore")  # where alpha is 1e-308 times squares of X, bounds are infinite
def row_sketch(
    problem: Problem, options: FitOptions, budget: EngineBudget, start: Array | None = None
) -> Candidate:
    """Conjugate gradients preconditioned by the Cholesky factor of a sample's Gram matrix.

    The Gram matrix of a subset of the rows lies below X'X, so the factor also bounds the error.
    About 10 passes; p^2 numbers of memory for each distinct alpha, and 4 p^2 for the rows.
    """
    parts = sample_factors(problem, options)
    if parts is None:
        return Candidate(np.zeros_like(problem.moments), gave_up=True, note="singular sample")

    def apply(R: Array, targets: NDArray[np.intp]) -> Array:
        Z = np.empty_like(R)
        for inverse, minorant in parts:
            same_alpha = problem.alphas[targets] == minorant.alpha
            if same_alpha.any():
                Z[:, same_alpha] = inverse.apply(R[:, same_alpha])
        return Z

    lower_ratios = {minorant.alpha: minorant.lower_ratio for _, minorant in parts}
    lower_ratio = np.array([lower_ratios[float(alpha)] for alpha in problem.alphas])
    candidate = conjugate_gradients(
        problem,
        Preconditioner(apply, lower_ratio),
        BestOf([minorant for _, minorant in parts]),
        tol=options.tol,
        max_iter=budget.max_iter,
        iter_budget=budget.iterations_affordable(problem.n_targets),
        start=start,
    )
    return replace(candidate, rank=sample_size(problem.shape))


def sample_size(shape: tuple[int, int]) -> int:
    """Number of rows in the sample of X (n, p)."""
    n, p = shape
    return min(n, SAMPLE_ROWS_PER_FEATURE * p + 50)


def sample_factors(
    problem: Problem, options: FitOptions
) -> list[tuple[InverseFactor, CholeskyMinorant]] | None:
    """For each distinct alpha, the factor of a row sample's Gram matrix and the minorant it proves.

    None if the Gram matrix is singular up to rounding. No pass over X.
    """
    n, p = problem.shape
    n_sampled = sample_size(problem.shape)
    rows = np.sort(as_generator(options.random_state).choice(n, n_sampled, replace=False))
    G = problem.design.subset(rows).gram(np.float64)
    parts = []
    for alpha in problem.distinct_alphas:
        scale = np.sqrt(n / n_sampled * np.diag(G) + alpha)
        H = G / scale[:, None] / scale  # 1 / scale^2 alone may overflow
        H *= n / n_sampled
        diagonal_view(H)[:] = 1.0
        inverse = InverseFactor.from_scaled(H, scale, problem.uses_compiled_loops)
        if inverse is None:
            return None
        # Bound on the rounding error of the scaled G.
        noise = EPS * (10 + np.sqrt(n)) * float((problem.raw_column_norms**2 / scale**2).sum() + p)
        min_eigenvalue = float(alpha) / float((scale**2).max())
        minorant = inverse.minorant(float(alpha), noise, min_eigenvalue, n / n_sampled)
        parts.append((inverse, minorant))
    return parts
