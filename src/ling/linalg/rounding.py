"""Rounding errors of sums, which every bound includes."""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(np.float64).eps)
EPS32 = float(np.finfo(np.float32).eps)


def sum_noise(*lengths: int, eps: float = EPS) -> float:
    """Relative error of sums with so many terms: a few eps, growing like a random walk."""
    return float(eps * (2 + sum(np.sqrt(length) for length in lengths) / 2))


def product_noise(shape: tuple[int, int]) -> float:
    """Relative error of X'(X v): a few eps, more with the length of the sums.

    Sums are made in blocks and by several threads, so that the chains in which errors add up, like
    a random walk, are much shorter than n and p.
    """
    n, p = shape
    return float(EPS * (4 + (np.sqrt(n) + np.sqrt(p)) / 8))
