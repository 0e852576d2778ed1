"""Section 2.2: how many components stage 1 should have, given what each saves in iterations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ling._typing import Array

# The most components that are considered; a direct solver is cheaper than more of them.
MAX_COMPONENTS = 512
# Numbers of components that are considered: all up to 32, then eight a factor of two. Directions
# between two of them are treated as one group.
GROUP_STARTS = np.unique(np.round(np.append(np.arange(32), 2 ** np.arange(5, 40, 0.125)))).astype(
    np.intp
)
# Strong directions that k columns of Algorithm 2 may miss: Halko, Martinsson & Tropp (2011, theorem
# 10.5) need two columns more than directions. On 360 problems with 6, 15 or 30 strong directions, a
# tenth took at least 2.3 times the FLOPs of the best of a grid; with 1, 3.2 times, and with 0, 3.5.
MAX_MISSED = 2
# Iterations that are forecast; stage 2 with n_iter="auto" makes no more of them.
MAX_ITERATIONS = 1000


def descent_bounds(eigenvalues: Array, squared_bounds: Array, alpha: float) -> Iterator[Array]:
    """Squared error bounds (m,) after 0, 1, 2, ... iterations of Algorithm 3 on m problems.

    Row i of `eigenvalues` (m, g) has the eigenvalues of problem i, and row i of `squared_bounds`
    (m, g) the squared error bound of each direction at the start, which is proportional to its
    squared gradient. The best step has the length s = w'w / w'(X'X + alpha I)w for the gradient w,
    and multiplies the error in a direction with eigenvalue l by 1 - s (l + alpha).

    Nothing but the spectrum enters, so this is what Algorithm 3 does, up to rounding. Its rate may
    be far better than that of equation (5): if the strong eigenvalues are equal, short steps for
    them alternate with long ones for the rest.
    """
    shifted, squares = eigenvalues + alpha, squared_bounds.copy()
    while True:
        sums = squares.sum(axis=1)
        yield sums
        curvatures = np.einsum("ij,ij->i", squares, shifted)
        steps = np.divide(sums, curvatures, out=np.zeros_like(sums), where=curvatures > 0)
        squares *= (1 - steps[:, None] * shifted) ** 2


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

    The iterations of stage 2 are those that Algorithm 3 takes on the given spectrum, without the k
    strongest directions, or without fewer of them if that takes longer. If none of the numbers
    leads to `tol` in 1000 iterations, the most accurate one is returned.

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
    values, squares, tried = _grouped(eigenvalues, squared_bounds)
    is_removed = np.arange(len(values)) <= np.arange(len(tried))[:, None]
    values, squares = (np.where(is_removed, 0.0, each) for each in (values, squares))
    bounds = descent_bounds(values, squares, alpha)
    stage1 = np.array([costs.components(k) for k in tried])
    iteration = np.array([costs.iteration(k) for k in tried])
    totals = np.full(len(tried), np.inf)
    for n_iter, sums in zip(range(MAX_ITERATIONS + 1), bounds, strict=False):
        spent = stage1 + n_iter * iteration
        is_within_tol = np.append(np.full(MAX_MISSED, True), sums <= tol**2)
        is_done = sliding_window_view(is_within_tol, MAX_MISSED + 1).all(axis=1)
        is_done |= tried == len(eigenvalues)  # nothing is left for stage 2
        totals = np.where(is_done, np.minimum(totals, spent), totals)
        if (spent >= totals.min()).all():
            break
    most_accurate = np.isinf(totals).all()
    return int(tried[np.argmin(sums if most_accurate else totals)])


def _grouped(eigenvalues: Array, squared_bounds: Array) -> tuple[Array, Array, NDArray[np.intp]]:
    """Groups of directions: mean eigenvalue, sum of bounds, and the number up to the group's end.

    The numbers are those of components to try, so there are fewer of them than groups if that is
    limited by MAX_COMPONENTS.
    """
    n_directions = len(eigenvalues)
    starts = GROUP_STARTS[: np.searchsorted(GROUP_STARTS, n_directions)]
    ends = np.append(starts[1:], n_directions)
    means = np.add.reduceat(eigenvalues, starts) / (ends - starts)
    return means, np.add.reduceat(squared_bounds, starts), ends[ends <= MAX_COMPONENTS]
