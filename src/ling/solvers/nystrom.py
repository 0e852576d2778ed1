"""Stage 1: low-rank sketches of X'X, and the Nyström approximation from products with X'X.

Sketches are computed for columns scaled to equal norms, D^-1/2 X'X D^-1/2 with
D = diag(X'X) + alpha, so that they do not depend on the units of the features. This module makes
them from products of X'X with random directions, which take one pass for each block of directions;
`ling.solvers.row_sampling` makes them from a sample of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.linalg.decompositions import eigh, eigvalsh
from ling.linalg.gram import form_gram
from ling.linalg.ritz import orthonormalize_against, thin_svd
from ling.linalg.rounding import EPS, product_noise
from ling.solvers.certificate import LowRankMinorant, Minorant, ZeroMinorant, nystrom_slack
from ling.solvers.conjugate_gradients import MIN_LOWER_RATIO
from ling.solvers.engine import EngineBudget, as_generator
from ling.solvers.options import FitOptions
from ling.solvers.problem import Problem

FLOAT64_TINY = float(np.finfo(np.float64).tiny)
# Rank of the first sketch; half of it where columns are expensive (column_cost >= 1).
INITIAL_RANK = 16
# The fraction of a sketch's directions that it captures well.
CAPTURED_FRACTION = 0.7
# The largest eigenvalue of sparse X, scaled to columns of equal norms, over that of random columns.
TYPICAL_EIGENVALUE_EXCESS = 4.0


@dataclass(frozen=True, eq=False)
class Sketch:
    """Low-rank sketch F F' of X'X, accurate in its leading directions; `factor` is F (p, rank).

    All fields are in the units of the features. `residual_diagonal` (p,) approximates the diagonal
    of X'X - F F'. F diag(1 / weights) F' <= X'X + slack I is proven. With fewer rows than columns,
    also F = X[rows]' dual_factor.
    """

    factor: Array
    residual_diagonal: Array
    weights: Array
    slack: float
    rows: NDArray[np.intp] | None = None
    dual_factor: Array | None = None

    @property
    def rank(self) -> int:
        """Number of columns of F."""
        return int(self.factor.shape[1])

    def minorant(self) -> Minorant:
        """The minorant F diag(1 / weights) F', with orthonormal factors."""
        if not self.rank:
            return ZeroMinorant()
        U, S = thin_svd(self.factor / np.sqrt(self.weights))
        return LowRankMinorant(U, S**2, self.slack)


@dataclass(frozen=True)
class Forecast:
    """A rank, the iterations expected with it, and the remaining cost of both in passes."""

    rank: int
    iterations: float
    cost: float


def column_scales(problem: Problem) -> Array:
    """The diagonal (p,) of D^1/2, D = diag(X'X) + alpha for the smallest alpha.

    A lower limit keeps columns that are constant up to rounding from being scaled up to the norm of
    the others.
    """
    alpha = float(problem.alphas.min())
    min_scale = EPS * problem.raw_column_norms.max(initial=0.0)
    scale = np.maximum(np.sqrt(problem.column_norms**2 + alpha), min_scale)
    scale[scale == 0] = 1.0
    return np.asarray(scale)


def scaled_gram_matmat(problem: Problem, scale: Array, directions: Array) -> Array:
    """D^-1/2 X'X D^-1/2 Q for directions Q (p, k), with scale the diagonal of D^1/2; one pass."""
    V = np.ascontiguousarray(directions / scale[:, None])
    return np.asarray(problem.design.gram_matmat(V) / scale[:, None])


def alpha_in_scaled_units(problem: Problem, scale: Array) -> float:
    """The smallest alpha in the units of the scaled matrix, averaged over the columns."""
    return max(float(problem.alphas.min()) * float(np.mean(1 / scale**2)), FLOAT64_TINY)


def nystrom_sketch(
    problem: Problem, scale: Array, directions: Array, products: Array, seen: Array | None = None
) -> tuple[Sketch, Array]:
    """Nyström sketch A Q (Q'A Q)^-1 Q'A, and its eigenvalues, for A = D^-1/2 X'X D^-1/2.

    `directions` is Q (p, k), with orthonormal columns, and `products` is A Q (p, k). `seen` (n, k)
    is X D^-1/2 Q, if the sketch needs its dual factor. The sketch is returned in the units of the
    features, the eigenvalues in scaled units, largest first.
    """
    core = directions.T @ products
    theta, Z = eigh((core + core.T) / 2)
    # Directions far below alpha do not improve the preconditioner, and amplify rounding.
    floor = 0.1 * alpha_in_scaled_units(problem, scale)
    retained = theta > max(1e-13 * theta[-1], floor) if len(theta) else np.zeros(0, dtype=bool)
    B = products @ (Z[:, retained] / np.sqrt(theta[retained]))
    eigenvalues = np.maximum(eigvalsh(form_gram(B))[::-1], 0.0)
    largest = max(
        eigenvalues[:1].max(initial=0.0), float((problem.raw_column_norms**2 / scale**2).max())
    )
    slack = nystrom_slack(B, theta[retained], product_noise(problem.shape) * largest)
    F = scale[:, None] * B
    rest = np.maximum(problem.column_norms**2 - np.einsum("ij,ij->i", F, F), 0.0)
    sketch = Sketch(F, rest, np.ones(F.shape[1]), slack * float((scale**2).max()))
    if seen is not None:
        # With p > n the residual of X'X lies in n directions.
        n, p = problem.shape
        dual_factor = seen @ (Z[:, retained] / np.sqrt(theta[retained]))
        sketch = replace(
            sketch, residual_diagonal=rest * p / n, rows=np.arange(n), dual_factor=dual_factor
        )
    return sketch, eigenvalues


def randomized_nystrom_sketch(
    problem: Problem, options: FitOptions, budget: EngineBudget
) -> tuple[Sketch, Forecast]:
    """Nyström sketch of X'X from random directions, and the forecast for its iterations.

    The rank is doubled for as long as the forecast saves more in iterations than the directions
    cost. One pass per doubling.
    """
    n, p = problem.shape
    scale = column_scales(problem)
    directions = products = np.zeros((p, 0))
    initial_rank = INITIAL_RANK if budget.costs.column_cost < 1 else INITIAL_RANK // 2
    rng = as_generator(options.random_state)
    expected = Forecast(min(initial_rank, p, n), 0.0, 0.0)
    sketch, eigenvalues = nystrom_sketch(problem, scale, directions, products)
    while expected.rank > directions.shape[1]:
        rank = directions.shape[1]
        new_directions = _draw_orthogonal_directions(
            rng, directions, min(expected.rank, max(2 * rank, initial_rank)) - rank
        )
        directions = np.hstack([directions, new_directions])
        products = np.hstack([products, scaled_gram_matmat(problem, scale, new_directions)])
        sketch, eigenvalues = nystrom_sketch(problem, scale, directions, products)
        expected = _forecast_best_rank(
            problem, options.tol, budget, scale, eigenvalues, directions.shape[1]
        )
    return sketch, expected


def _draw_orthogonal_directions(rng: np.random.Generator, directions: Array, more: int) -> Array:
    """Random directions (p, more), orthonormal and orthogonal to the given `directions`."""
    return orthonormalize_against(rng.standard_normal((len(directions), more)), directions)[0]


def _forecast_best_rank(
    problem: Problem, tol: float, budget: EngineBudget, scale: Array, values: Array, have: int
) -> Forecast:
    """Forecast for the rank at which sketching and iterating together cost least.

    `values` are the eigenvalues of the current sketch, of rank `have`. Beyond the sketch the
    eigenvalues are assumed to follow a power law in their index that sums to the rest of the trace.
    """
    n, p = problem.shape
    if not values.size or len(values) < have:  # further directions would find nothing above alpha
        return Forecast(have, 0.0, 0.0)
    scaled_alpha = alpha_in_scaled_units(problem, scale)
    trace = float((problem.column_norms**2 / scale**2).sum())
    # The first half of the eigenvalues is accurate. The second half is distorted by the directions
    # that are not in the sketch.
    half, count = max(1, len(values) // 2), min(n, p)
    reference = values[half - 1]
    decay = _fit_power_law_exponent((trace - values[:half].sum()) / reference, half, count)
    smallest = reference * (half / count) ** decay
    # The eigenvalues of n samples spread even if the true spectrum is flat (Marchenko & Pastur).
    root_aspect = np.sqrt(count / max(n, p))
    blur = ((1 + root_aspect) / max(1 - root_aspect, 0.1)) ** 2

    def at(rank: int) -> Forecast:
        tail = reference * (half / max(half, CAPTURED_FRACTION * rank)) ** decay
        condition = min(
            blur * (tail + scaled_alpha) / (smallest + scaled_alpha),
            (tail + scaled_alpha) / scaled_alpha,
        )
        iterations = forecast_iterations(
            condition, scaled_alpha / (tail + scaled_alpha), tol, count
        )
        cost = budget.costs.column_cost * (rank - have)
        return Forecast(
            rank, iterations, cost + iterations * budget.costs.iteration_cost(problem.n_targets)
        )

    max_rank = min(budget.max_rank, p // 2, n)
    return cheapest_forecast(
        [at(r) for r in (have, 2 * have, 4 * have, 8 * have) if r <= max(max_rank, have)]
    )


def _fit_power_law_exponent(left: float, first: int, count: int) -> float:
    """Exponent s for which (first / i)^s sums to `left` over first < i <= count, by bisection."""
    i = np.arange(first + 1, count + 1)
    low, high = 0.0, 12.0
    if not i.size or left >= i.size:
        return low
    for _ in range(20):
        exponent = (low + high) / 2
        if np.sum((first / i) ** exponent) > left:
            low = exponent
        else:
            high = exponent
    return low


def cheapest_forecast(options: list[Forecast]) -> Forecast:
    """The forecast with the lowest cost."""
    return min(options, key=lambda option: option.cost)


def forecast_iterations(condition: float, least: float, tol: float, most: int) -> float:
    """Iterations that conjugate gradients need until the bound is within tol, at most 2 `most`.

    `condition` is the condition number after preconditioning. `least` is the proven lower ratio of
    the preconditioner; a smaller one makes the bound larger and takes more iterations.
    """
    digits = np.log(2 / max(tol, EPS)) + 0.5 * np.log(1 / least)
    # 0.35 instead of the worst-case 0.5, because most of y lies in few directions.
    return min(float(0.35 * np.sqrt(condition) * digits) + 1, 2.0 * most)


def forecast_without_sketch(problem: Problem, tol: float) -> float:
    """Iterations that conjugate gradients with a diagonal preconditioner are expected to need.

    Nothing is known of the spectrum of X but its trace: the largest eigenvalue is taken to be a few
    times that of random columns (Marchenko & Pastur).
    """
    n, p = problem.shape
    alpha, square = float(problem.alphas.min()), float(np.mean(problem.column_norms**2))
    lower_ratio = max(alpha / (square + alpha), MIN_LOWER_RATIO)
    largest = 1 + TYPICAL_EIGENVALUE_EXCESS * (1 + math.sqrt(p / n)) ** 2 * (1 - lower_ratio)
    return forecast_iterations(largest / lower_ratio, lower_ratio, tol, min(n, p))
