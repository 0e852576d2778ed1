"""Matrices that depend on X alone, each computed once for a problem."""

from __future__ import annotations

from dataclasses import dataclass

from ling._typing import Array
from ling.linalg.tridiagonal import HouseholderTridiagonal


@dataclass(eq=False)
class GramCache:
    """Gram matrices of a problem, each None until it is formed.

    Problems that differ in their alphas or targets share one cache, because X is the same.

    Attributes
    ----------
    gram : array of shape (p, p) or None
        X'X of the centred and weighted rows, in float64.
    kernel : array of shape (n, n) or None
        X X' of the same rows.
    unweighted_kernel : array of shape (n, n) or None
        X X' of the centred rows without their weights.
    form : HouseholderTridiagonal or None
        The tridiagonal form of `gram` if p <= n, and of `kernel` otherwise. It does not depend on
        the targets. Leave-one-out adds the direction of the intercept to `kernel` before the
        reduction.
    """

    gram: Array | None = None
    kernel: Array | None = None
    unweighted_kernel: Array | None = None
    form: HouseholderTridiagonal | None = None
