"""n >> p: factor the Gram matrix of some rows, iterate on all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ling.design import Array, DenseDesign
from ling.engines.base import Candidate, Effort
from ling.engines.conjugate import Preconditioner, conjugate_gradients, inverse_factor
from ling.minorant import EPS, Factored, Minorant, Several
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
    sample = problem.design.take(rows)
    G = np.asarray(sample.T @ sample)
    del sample
    parts = []
    for alpha in problem.distinct_alphas:
        scale = np.sqrt(n / s * np.diag(G) + alpha)
        H = (n / s / scale[:, None] / scale) * G
        H[np.diag_indices_from(H)] = 1.0
        inverse = inverse_factor(H, problem.compiled)
        if inverse is None:
            return Candidate(np.zeros_like(problem.moments), gave_up=True, note="singular sample")
        parts.append((inverse, _bound(problem, inverse, scale, n / s, float(alpha))))
    minorant: Minorant = Several([part for _, part in parts])

    def apply(R: Array, targets: NDArray[np.intp]) -> Array:
        Z = np.empty_like(R)
        for inverse, part in parts:
            mine = problem.alphas[targets] == part.alpha
            if mine.any():
                scale = part.scale[:, None]
                Z[:, mine] = inverse.gram_matmat(R[:, mine] / scale) / scale
        return Z

    shares = {part.alpha: part.share for _, part in parts}
    least = np.array([shares[float(alpha)] for alpha in problem.alphas])
    found = conjugate_gradients(
        problem, Preconditioner(apply, least), minorant, tol=effort.tol, max_iter=effort.max_iter,
        worth=effort.worth / effort.iteration_cost(problem.n_targets), start=effort.start,
    )  # fmt: skip
    return replace(found, rank=s)


def _bound(
    problem: Problem, inverse: DenseDesign, scale: Array, inflation: float, alpha: float
) -> Factored:
    """X'X + alpha I >= (inflation G + alpha I) / inflation, G being the sample's Gram matrix."""
    # G is right to rounding; where that is not small beside alpha, the bound cannot lean on it.
    noise = EPS * (10 + np.sqrt(problem.shape[0]))
    noise *= float((problem.raw_norms**2 / scale**2).sum())
    safe = alpha / float((scale**2).max())
    looseness = inflation / (1 - noise / safe) if noise < safe / 2 else np.inf
    return Factored(inverse.matmat, scale, alpha, float(looseness), 0.0)
