"""Stage 1 from products of X'X with random directions: one pass for some more of them."""

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

INITIAL_RANK = 16
# The share of a sketch's directions that it holds well.
CAPTURED_FRACTION = 0.7


def randomized_nystrom_sketch(problem: Problem, budget: EngineBudget) -> tuple[Sketch, Forecast]:
    """Double the rank for as long as fewer iterations are expected to pay for it."""
    n, p = problem.shape
    scale = column_scales(problem)
    directions = products = np.zeros((p, 0))
    first = INITIAL_RANK if budget.column_cost < 1 else INITIAL_RANK // 2
    expected = Forecast(min(first, p, n), 0.0, 0.0)
    sketch, values = nystrom_sketch(problem, scale, directions, products)
    while expected.rank > directions.shape[1]:
        have = directions.shape[1]
        fresh = _draw_orthogonal_directions(
            budget.rng, directions, min(expected.rank, max(2 * have, first)) - have
        )
        directions = np.hstack([directions, fresh])
        products = np.hstack([products, scaled_gram_matmat(problem, scale, fresh)])
        sketch, values = nystrom_sketch(problem, scale, directions, products)
        expected = _forecast_best_rank(problem, budget, scale, values, directions.shape[1])
    return sketch, expected


def _draw_orthogonal_directions(rng: np.random.Generator, directions: Array, more: int) -> Array:
    """Random directions, orthonormal and orthogonal to those that there are."""
    fresh: Array = rng.standard_normal((len(directions), more))
    fresh -= directions @ (directions.T @ fresh)
    return orthonormalize(fresh)


def _forecast_best_rank(
    problem: Problem, budget: EngineBudget, scale: Array, values: Array, have: int
) -> Forecast:
    """The rank at which sketching and iterating together are expected to cost least.

    Beyond the sketch the eigenvalues are taken to fall like a power of their index, such that they
    add up to what is left of the trace.
    """
    n, p = problem.shape
    if not values.size or len(values) < have:  # more directions would find nothing above alpha
        return Forecast(have, 0.0, 0.0)
    least = alpha_in_scaled_units(problem, scale)
    trace = float((problem.column_norms**2 / scale**2).sum())
    # The first half of the values is right; the second half suffers from what is not in the sketch.
    half, count = max(1, len(values) // 2), min(n, p)
    last = values[half - 1]
    decay = _fit_power_law_exponent((trace - values[:half].sum()) / last, half, count)
    end = last * (half / count) ** decay
    # Even a flat spectrum is not flat in a sample (Marchenko & Pastur).
    aspect = np.sqrt(count / max(n, p))
    blur = ((1 + aspect) / max(1 - aspect, 0.1)) ** 2

    def at(rank: int) -> Forecast:
        tail = last * (half / max(half, CAPTURED_FRACTION * rank)) ** decay
        condition = min(blur * (tail + least) / (end + least), (tail + least) / least)
        needed = forecast_iterations(condition, least / (tail + least), budget.tol, count)
        cost = budget.column_cost * (rank - have)
        return Forecast(rank, needed, cost + needed * budget.iteration_cost(problem.n_targets))

    largest = min(budget.max_rank, p // 2, n)
    return cheapest_forecast(
        [at(r) for r in (have, 2 * have, 4 * have, 8 * have) if r <= max(largest, have)]
    )


def _fit_power_law_exponent(left: float, first: int, count: int) -> float:
    """s such that (first / i)^s sums to `left` over first < i <= count; by bisection."""
    i = np.arange(first + 1, count + 1)
    low, high = 0.0, 12.0
    if not i.size or left >= i.size:
        return low
    for _ in range(20):
        middle = (low + high) / 2
        if np.sum((first / i) ** middle) > left:
            low = middle
        else:
            high = middle
    return low
