"""Stage 1 from products of X'X with random directions: one pass for some more of them."""

from __future__ import annotations

import numpy as np

from ling.design import Array
from ling.engines.base import Effort
from ling.engines.sketch import (
    Expected,
    Sketch,
    cheapest,
    in_units,
    iterations,
    nystrom,
    products_with,
    scale_of,
)
from ling.engines.thin import orthonormal
from ling.problem import Problem

FIRST = 16
# The share of a sketch's directions that it holds well.
CAUGHT = 0.7


def sketch_from_products(problem: Problem, effort: Effort) -> tuple[Sketch, Expected]:
    """Double the rank for as long as fewer iterations are expected to pay for it."""
    n, p = problem.shape
    scale = scale_of(problem)
    directions = products = np.zeros((p, 0))
    first = FIRST if effort.column_cost < 1 else FIRST // 2
    expected = Expected(min(first, p, n), 0.0, 0.0)
    sketch, values = nystrom(problem, scale, directions, products)
    while expected.rank > directions.shape[1]:
        have = directions.shape[1]
        fresh = _fresh(effort.rng, directions, min(expected.rank, max(2 * have, first)) - have)
        directions = np.hstack([directions, fresh])
        products = np.hstack([products, products_with(problem, scale, fresh)])
        sketch, values = nystrom(problem, scale, directions, products)
        expected = _expected(problem, effort, scale, values, directions.shape[1])
    return sketch, expected


def _fresh(rng: np.random.Generator, directions: Array, more: int) -> Array:
    """Random directions, orthonormal and orthogonal to those that there are."""
    fresh: Array = rng.standard_normal((len(directions), more))
    fresh -= directions @ (directions.T @ fresh)
    return orthonormal(fresh)


def _expected(problem: Problem, effort: Effort, scale: Array, values: Array, have: int) -> Expected:
    """The rank at which sketching and iterating together are expected to cost least.

    Beyond the sketch the eigenvalues are taken to fall like a power of their index, such that they
    add up to what is left of the trace.
    """
    n, p = problem.shape
    if not values.size or len(values) < have:  # more directions would find nothing above alpha
        return Expected(have, 0.0, 0.0)
    least = in_units(problem, scale)
    trace = float((problem.column_norms**2 / scale**2).sum())
    # The first half of the values is right; the second half suffers from what is not in the sketch.
    half, count = max(1, len(values) // 2), min(n, p)
    last = values[half - 1]
    decay = _decay((trace - values[:half].sum()) / last, half, count)
    end = last * (half / count) ** decay
    # Even a flat spectrum is not flat in a sample (Marchenko & Pastur).
    aspect = np.sqrt(count / max(n, p))
    blur = ((1 + aspect) / max(1 - aspect, 0.1)) ** 2

    def at(rank: int) -> Expected:
        tail = last * (half / max(half, CAUGHT * rank)) ** decay
        condition = min(blur * (tail + least) / (end + least), (tail + least) / least)
        needed = iterations(condition, least / (tail + least), effort.tol, count)
        cost = effort.column_cost * (rank - have)
        return Expected(rank, needed, cost + needed * effort.iteration_cost(problem.n_targets))

    largest = min(effort.most, p // 2, n)
    return cheapest(
        [at(r) for r in (have, 2 * have, 4 * have, 8 * have) if r <= max(largest, have)]
    )


def _decay(left: float, first: int, count: int) -> float:
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
