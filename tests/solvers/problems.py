"""Ridge problems of every kind that could make a bound lie, as hypothesis strategies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st


@dataclass(frozen=True)
class Case:
    """Data as a user would pass it."""

    X: np.ndarray
    y: np.ndarray
    alpha: float
    weights: np.ndarray | None
    fit_intercept: bool


def exponents(low: float, high: float):
    return st.floats(low, high).map(lambda e: float(10.0**e))


@st.composite
def ridge_cases(draw, largest_scale: float = 150.0) -> Case:
    """Condition to 1e14, alpha 1e-12..1e12, p > n, copies, zeros, all scales, uneven weights."""
    n, p = draw(st.integers(1, 10)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    U = np.linalg.qr(rng.standard_normal((n, n)))[0]
    V = np.linalg.qr(rng.standard_normal((p, p)))[0]
    k = min(n, p)
    d = draw(exponents(0, 14)) ** -np.linspace(0, 1, k)
    X = (U[:, :k] * d) @ V[:, :k].T
    if draw(st.booleans()):
        X = X + draw(exponents(-2, 6)) * rng.standard_normal(p)  # means far from zero
    kind = draw(st.sampled_from(["as it is", "duplicated", "zero", "units"]))
    if kind == "duplicated":
        X[:, -1] = X[:, 0]
    elif kind == "zero":
        X[:, rng.integers(p)] = 0.0
    elif kind == "units":
        X = X * 10.0 ** rng.uniform(-6, 6, p)
    X = X / max(np.abs(X).max(), 1e-300)
    y = X @ rng.standard_normal(p) + draw(exponents(-8, 2)) * rng.standard_normal(n)
    y = y * draw(exponents(-3, 3)) + draw(st.sampled_from([0.0, 1.0, 1e4]))
    alpha = draw(st.one_of(exponents(-12, 12), st.just(1.0)))
    weights = None
    if draw(st.booleans()):
        weights = np.exp(3 * rng.standard_normal(n)) * (rng.random(n) < 0.8)
        weights = weights if weights.any() else None
    if draw(st.integers(0, 3)) == 0:
        scale = draw(exponents(-largest_scale, largest_scale))
        X, y = X * scale, y * draw(st.sampled_from([1.0, scale]))
    elif draw(st.booleans()):
        scale = draw(exponents(-40, 40))
        X, alpha = X * scale, alpha * scale**2
    return Case(X, y, alpha, weights, draw(st.booleans()))
