"""Section 2.2: how many components stage 1 should have, given what each saves in iterations."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from ling._typing import Array

# Columns of Algorithm 2 beyond the directions that they are to capture: Halko, Martinsson & Tropp
# (2011, section 4.2) recommend 5 or 10, and fewer do if the spectrum falls steeply.
OVERSAMPLING = 2, 3, 5, 10
# The most components that are considered; a direct solver is cheaper than more of them.
MAX_COMPONENTS = 512
# Iterations that are considered: four a factor of two, up to a million.
ITERATION_COUNTS = np.unique(np.round(2.0 ** np.arange(0.0, 20.25, 0.25)))
# Groups of weak directions that the forecast treats as one.
TAIL_GROUPS = 64


def residual_eigenvalues(eigenvalues: Array, power: int) -> Array:
    """The largest eigenvalue of X_r'X_r after Algorithm 2 with k = 0, 1, ... columns, estimated.

    `eigenvalues` are those of X'X, largest first. Exact components would leave the (k + 1)-th. The
    k columns of Algorithm 2 capture j < k directions well; of direction j they miss the fraction
    sum_{i > j} (l_i / l_j)^(2 power + 1) / (k - j - 1) on average (Halko, Martinsson & Tropp 2011,
    theorem 10.5, for one direction). The result is the smallest over several k - j.
    """
    n_columns = len(eigenvalues)
    residual = np.full(n_columns, eigenvalues[0])
    exponent = 2 * power + 1
    ratios = eigenvalues / max(float(eigenvalues[0]), np.finfo(np.float64).tiny)
    tails = np.append(np.cumsum((ratios**exponent)[::-1])[::-1], 0.0)
    for extra in OVERSAMPLING:
        k = np.arange(extra + 1, n_columns)
        captured = k - extra
        last = ratios[captured - 1]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            missed = tails[captured] / last ** (exponent - 1) / (extra - 1) * eigenvalues[0]
        missed = np.where(tails[captured] > 0, missed, 0.0)  # not 0 / 0
        residual[k] = np.minimum(residual[k], np.maximum(eigenvalues[captured], missed))
    return np.minimum.accumulate(residual)


def expected_iterations(
    eigenvalues: Array, squared_bounds: Array, largest: float, alpha: float, tol: float
) -> float:
    """Iterations of stage 2 if these eigenvalues of X'X are left, with `largest` the first.

    A step of length s multiplies the error in a direction with eigenvalue l by 1 - s (l + alpha).
    The best step of every iteration is expected to do as well as two fixed ones: 1 / (d + alpha)
    and 2 / (d + m + 2 alpha), where d is the largest eigenvalue left and m the smallest. For l = d
    and l = m the second step has the rate of equation (5) with m in place of 0. This is allowed
    because stage 2, which starts at zero, never visits the directions that stage 1 has removed.

    `squared_bounds` are error bounds relative to ||y||, squared, for each direction at the start.
    Iterations end when their sum is at most tol^2.
    """
    if squared_bounds.sum() <= tol**2:
        return 0.0
    tiny = np.finfo(np.float64).tiny
    steps = 1 / max(largest + alpha, tiny), 2 / max(largest + eigenvalues[-1] + 2 * alpha, tiny)
    shifted = np.minimum(eigenvalues, largest) + alpha
    factors = [np.abs(1 - step * shifted) for step in steps]

    def reaches_tol(count: float) -> bool:
        return bool(min(factor ** (2 * count) @ squared_bounds for factor in factors) <= tol**2)

    first = bisect_left(ITERATION_COUNTS, True, key=reaches_tol)
    return float(ITERATION_COUNTS[min(first, len(ITERATION_COUNTS) - 1)])


@dataclass(frozen=True)
class StageCosts:
    """FLOPs of both stages.

    Attributes
    ----------
    product_flops : float
        FLOPs of X v: 2 n p if X is dense.
    shape : tuple of two ints
        n and p.
    power : int
        Powers of XX' in Algorithm 2.
    n_targets : int
        Targets of stage 2, which share the components of stage 1.
    """

    product_flops: float
    shape: tuple[int, int]
    power: int = 1
    n_targets: int = 1

    def components(self, k: int) -> float:
        """Stage 1: 2 power + 2 products for each component, and factorisations of n and p by k."""
        return (2 * self.power + 2) * self.product_flops * k + 4.0 * sum(self.shape) * k**2

    def iteration(self, k: int) -> float:
        """One iteration of stage 2: two products, corrected by k components, for each target."""
        return self.n_targets * (2 * self.product_flops + 4.0 * sum(self.shape) * k)


def cheapest_n_components(
    eigenvalues: Array, squared_bounds: Array, alpha: float, tol: float, costs: StageCosts
) -> int:
    """The number of components k >= 1 with the fewest FLOPs in both stages.

    Parameters
    ----------
    eigenvalues : array
        Estimates of the eigenvalues of X'X, largest first.
    squared_bounds : array
        For each of them, the squared error bound of the predictions if the direction is left out,
        relative to ||y||^2.
    alpha : float
        n lam, > 0.
    tol : float
        Accuracy of the predictions at which stage 2 ends.
    costs : StageCosts

    Returns
    -------
    int

    Examples
    --------
    >>> import numpy as np
    >>> three_strong = np.append([1e6, 1e6, 1e6], np.ones(97))
    >>> costs = StageCosts(product_flops=2e6, shape=(10_000, 100))
    >>> cheapest_n_components(three_strong, np.full(100, 0.01), 1.0, 1e-2, costs)
    5
    """
    # With as many components as directions nothing is left for stage 2.
    residual = np.append(residual_eigenvalues(eigenvalues, costs.power), 0.0)[: MAX_COMPONENTS + 1]
    eigenvalues, squared_bounds = _group_tail(eigenvalues, squared_bounds, len(residual))
    best, fewest = 1, np.inf
    for k in range(1, len(residual)):
        flops = costs.components(k)
        if flops >= fewest:
            break
        left = eigenvalues[k:], squared_bounds[k:]
        flops += costs.iteration(k) * expected_iterations(*left, residual[k], alpha, tol)
        if flops < fewest:
            best, fewest = k, flops
    return best


def _group_tail(eigenvalues: Array, squared_bounds: Array, start: int) -> tuple[Array, Array]:
    """Both arrays with the entries from `start` on joined in at most TAIL_GROUPS groups.

    A group has the mean of its eigenvalues and the sum of its bounds.
    """
    tail = len(eigenvalues) - start
    if tail <= TAIL_GROUPS:
        return eigenvalues, squared_bounds
    edges = start + np.unique(np.geomspace(1, tail, TAIL_GROUPS).astype(np.intp)) - 1
    sizes = np.diff(np.append(edges, len(eigenvalues)))
    means = np.add.reduceat(eigenvalues, edges) / sizes
    sums = np.add.reduceat(squared_bounds, edges)
    return np.append(eigenvalues[:start], means), np.append(squared_bounds[:start], sums)
