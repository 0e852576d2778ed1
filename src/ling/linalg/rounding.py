"""Estimates of the rounding errors of sums, which are part of every error bound."""

from __future__ import annotations

import math

import numpy as np

EPS = float(np.finfo(np.float64).eps)
EPS32 = float(np.finfo(np.float32).eps)


def sum_noise(*lengths: int, eps: float = EPS) -> float:
    """Relative error of sums of `lengths` terms: a few eps, growing like sqrt(length)."""
    return eps * (2 + sum(map(math.sqrt, lengths)) / 2)


def product_noise(shape: tuple[int, int]) -> float:
    """Relative error of X'(X v) for X of this shape: a few eps, growing with sqrt(n) and sqrt(p).

    Sums are formed in blocks and by several threads, so that the chains in which errors accumulate,
    like a random walk, are much shorter than n and p.
    """
    n, p = shape
    return EPS * (4 + (math.sqrt(n) + math.sqrt(p)) / 8)
