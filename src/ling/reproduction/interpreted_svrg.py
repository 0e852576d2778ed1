"""SVRG as an interpreter runs it: one row at a time, each operation a call of NumPy.

The paper says that LING is "much faster to run on matlab compared with SVRG which contains a lot of
loops". `ling.paper.svrg` is compiled, so that this loop is what the sentence is judged with.
"""

from __future__ import annotations

import time

import numpy as np

from ling._typing import Array
from ling.paper.svrg_solver import PASSES_PER_SNAPSHOT

# One inner loop and its full gradient. Every pass costs the same, so longer runs say no more.
TIMED_PASSES = PASSES_PER_SNAPSHOT


def interpreted_svrg(
    X: Array, y: Array, lam: float, n_passes: int, step: float, rng: np.random.Generator
) -> Array:
    """Run Johnson & Zhang's SVRG from zero in a plain loop; the coefficients of `ling.paper.svrg`.

    Parameters
    ----------
    X : array of shape (n, p)
    y : array of shape (n,)
    lam : float
    n_passes : int
        Steps, in units of n.
    step : float
    rng : Generator

    Returns
    -------
    array of shape (p,)
    """
    n, p = X.shape
    w = np.zeros(p)
    left = n_passes * n
    while left:
        n_steps = min(left, PASSES_PER_SNAPSHOT * n)
        gradient = X.T @ (X @ w - y) / n + lam * w
        # The difference of the two row gradients needs only w - snapshot: 6 p FLOPs, as compiled.
        change = np.zeros(p)
        for i in rng.integers(n, size=n_steps):
            x = X[i]
            change = (1.0 - step * lam) * change - step * (x * (x @ change) + gradient)
        w = w + change
        left -= n_steps
    return w


def seconds_per_pass(
    X: Array, y: Array, lam: float, step: float, rng: np.random.Generator
) -> float:
    """Seconds that the plain loop takes for one pass, its share of the full gradient included.

    Parameters
    ----------
    X : array of shape (n, p)
    y : array of shape (n,)
    lam, step : float
    rng : Generator

    Returns
    -------
    float
    """
    started = time.perf_counter()
    interpreted_svrg(X, y, lam, TIMED_PASSES, step, rng)
    return (time.perf_counter() - started) / TIMED_PASSES
