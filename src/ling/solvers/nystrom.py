"""Stage 1 from products of X'X with random directions; one pass for each block of directions."""

from __future__ import annotations

import numpy as np

from ling._typing import Array
from ling.linalg.orthogonalize import orthonormalize
from ling.solvers.engine import EngineBudget
from ling.solvers.problem import Problem
from ling.solvers.sketch import (
    Forecast,
    Sketch,
    alpha_in_scaled_units,
    cheapest_forecast,
    column_scales,
    forecast_iterations,
    nystrom_sketch,
    scaled_gram_matmat,
)

# Rank of the first sketch; half of it where columns are expensive (column_cost >= 1).
INITIAL_RANK = 16
# The fraction of a sketch's directions that it captures well.
CAPTURED_FRACTION = 0.7


def randomized_nystrom_sketch(problem: Problem, budget: EngineBudget) -> tuple[Sketch, Forecast]:
    """Nyström sketch of X'X from random directions, and the forecast for its iterations.

    The rank is doubled for as long as the forecast saves more in iterations than the directions
    cost. One pass per doubling.
    """
    n, p = problem.shape
    scale = column_scales(problem)
    directions = products = np.zeros((p, 0))
    initial_rank = INITIAL_RANK if budget.column_cost < 1 else INITIAL_RANK // 2
    expected = Forecast(min(initial_rank, p, n), 0.0, 0.0)
    sketch, eigenvalues = nystrom_sketch(problem, scale, directions, products)
    while expected.rank > directions.shape[1]:
        rank = directions.shape[1]
        new_directions = _draw_orthogonal_directions(
            budget.rng, directions, min(expected.rank, max(2 * rank, initial_rank)) - rank
        )
        directions = np.hstack([directions, new_directions])
        products = np.hstack([products, scaled_gram_matmat(problem, scale, new_directions)])
        sketch, eigenvalues = nystrom_sketch(problem, scale, directions, products)
        expected = _forecast_best_rank(problem, budget, scale, eigenvalues, directions.shape[1])
    return sketch, expected


def _draw_orthogonal_directions(rng: np.random.Generator, directions: Array, more: int) -> Array:
    """Random directions (p, more), orthonormal and orthogonal to the given `directions`."""
    new_directions: Array = rng.standard_normal((len(directions), more))
    new_directions -= directions @ (directions.T @ new_directions)
    return orthonormalize(new_directions)


def _forecast_best_rank(
    problem: Problem, budget: EngineBudget, scale: Array, values: Array, have: int
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
            condition, scaled_alpha / (tail + scaled_alpha), budget.tol, count
        )
        cost = budget.column_cost * (rank - have)
        return Forecast(
            rank, iterations, cost + iterations * budget.iteration_cost(problem.n_targets)
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
