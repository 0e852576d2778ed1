"""n >> p: factor the Gram matrix of some rows, iterate on all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ling.design import Array
from ling.engines.base import Candidate, Effort
from ling.engines.conjugate import Preconditioner, conjugate_gradients
from ling.engines.factor import from_inverse, inverse_factor, solved
from ling.minorant import EPS, Minorant, Several
from ling.problem import Problem

ROWS_PER_FEATURE = 4


def row_sketch(problem: Problem, effort: Effort) -> Candidate:
    """Conjugate gradients preconditioned by the Cholesky factor of a sample's Gram matrix.

    The Gram matrix of any rows lies below that of all, so the factor also bounds the error. About
    10 passes; p^2 numbers for each distinct alpha, and 4 p^2 for the rows.
    """
    n, p = problem.shape
    s = min(n, ROWS_PER_FEATURE * p + 50)
    rows = np.sort(effort.rng.choice(n, s, replace=False))
    G = problem.design.subset(rows).gram(np.float64)
    parts = []
    for alpha in problem.distinct_alphas:
        scale = np.sqrt(n / s * np.diag(G) + alpha)
        H = (n / s / scale[:, None] / scale) * G
        H[np.diag_indices_from(H)] = 1.0
        inverse = inverse_factor(H, problem.compiled)
        if inverse is None:
            return Candidate(np.zeros_like(problem.moments), gave_up=True, note="singular sample")
        # G is right to rounding.
        noise = EPS * (10 + np.sqrt(n)) * float((problem.raw_norms**2 / scale**2).sum() + p)
        low = float(alpha) / float((scale**2).max())
        parts.append((inverse, from_inverse(inverse, scale, float(alpha), noise, low, n / s)))
    minorant: Minorant = Several([part for _, part in parts])

    def apply(R: Array, targets: NDArray[np.intp]) -> Array:
        Z = np.empty_like(R)
        for inverse, part in parts:
            mine = problem.alphas[targets] == part.alpha
            if mine.any():
                Z[:, mine] = solved(inverse, part.scale, R[:, mine])
        return Z

    shares = {part.alpha: part.share for _, part in parts}
    least = np.array([shares[float(alpha)] for alpha in problem.alphas])
    found = conjugate_gradients(
        problem, Preconditioner(apply, least), minorant, tol=effort.tol, max_iter=effort.max_iter,
        worth=effort.worth / effort.iteration_cost(problem.n_targets), start=effort.start,
    )  # fmt: skip
    return replace(found, rank=s)
