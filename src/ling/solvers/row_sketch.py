"""n >> p: factor the Gram matrix of some rows, iterate on all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.linalg.rounding import EPS
from ling.solvers.conjugate_gradients import Preconditioner, conjugate_gradients
from ling.solvers.engine import Candidate, EngineBudget
from ling.solvers.gram_cholesky import apply_inverse, cholesky_minorant, inverse_cholesky
from ling.solvers.minorant import BestOf, Minorant
from ling.solvers.problem import Problem

SAMPLE_ROWS_PER_FEATURE = 4


def row_sketch(problem: Problem, budget: EngineBudget) -> Candidate:
    """Conjugate gradients preconditioned by the Cholesky factor of a sample's Gram matrix.

    The Gram matrix of any rows lies below that of all, so the factor also bounds the error. About
    10 passes; p^2 numbers for each distinct alpha, and 4 p^2 for the rows.
    """
    n, p = problem.shape
    s = min(n, SAMPLE_ROWS_PER_FEATURE * p + 50)
    rows = np.sort(budget.rng.choice(n, s, replace=False))
    G = problem.design.subset(rows).gram(np.float64)
    parts = []
    for alpha in problem.distinct_alphas:
        scale = np.sqrt(n / s * np.diag(G) + alpha)
        H = (n / s / scale[:, None] / scale) * G
        H[np.diag_indices_from(H)] = 1.0
        inverse = inverse_cholesky(H, problem.uses_compiled_loops)
        if inverse is None:
            return Candidate(np.zeros_like(problem.moments), gave_up=True, note="singular sample")
        # G is right to rounding.
        noise = EPS * (10 + np.sqrt(n)) * float((problem.raw_column_norms**2 / scale**2).sum() + p)
        low = float(alpha) / float((scale**2).max())
        parts.append((inverse, cholesky_minorant(inverse, scale, float(alpha), noise, low, n / s)))
    minorant: Minorant = BestOf([part for _, part in parts])

    def apply(R: Array, targets: NDArray[np.intp]) -> Array:
        Z = np.empty_like(R)
        for inverse, part in parts:
            mine = problem.alphas[targets] == part.alpha
            if mine.any():
                Z[:, mine] = apply_inverse(inverse, part.scale, R[:, mine])
        return Z

    shares = {part.alpha: part.lower_ratio for _, part in parts}
    least = np.array([shares[float(alpha)] for alpha in problem.alphas])
    found = conjugate_gradients(
        problem,
        Preconditioner(apply, least),
        minorant,
        tol=budget.tol,
        max_iter=budget.max_iter,
        iter_budget=budget.max_passes / budget.iteration_cost(problem.n_targets),
        start=budget.start,
    )
    return replace(found, rank=s)
