"""Matrices known to lie below X'X: what turns a gradient into a bound on the error.

With A = X'X, w any candidate and g = X'(y - Xw) - alpha w, the exact solution w* obeys

    ||X(w - w*)||^2 + alpha ||w - w*||^2 = g'(A + alpha I)^-1 g <= g'(B + alpha I)^-1 g

for every B with 0 <= B <= A. The larger B, the closer the bound; B = 0 gives ||g||^2 / alpha.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ling._typing import Array


def nystrom_slack(B: Array, theta: Array, noise: float) -> float:
    """How far B B' may be above X'X, where B = Y Z theta^-1/2 and Y = X'X Q is off by `noise`.

    The core Q'Y = Z diag(theta) Z' is off by as much. To first order the errors of Y and of the
    core enter with sizes / theta, sizes being the squared lengths of B's columns.
    """
    ratio = np.einsum("ij,ij->j", B, B) / theta
    first = 2 * np.sqrt(ratio.sum()) + ratio.max(initial=0.0)
    return float(noise * first + noise**2 * (1 / theta).sum())


class Minorant(ABC):
    """Some B with 0 <= B <= X'X."""

    @abstractmethod
    def quadratic_form(self, G: Array, alphas: Array) -> Array:
        """g'(B + alpha I)^-1 g or more, column by column of G."""

    def diagonal_floor(self, alpha: float) -> Array | float:
        """d >= alpha with X'X + alpha I >= diag(d)."""
        return alpha


@dataclass(frozen=True)
class ZeroMinorant(Minorant):
    """B = 0."""

    def quadratic_form(self, G: Array, alphas: Array) -> Array:
        """||g||^2 / alpha."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = np.einsum("ij,ij->j", G, G) / alphas
        return np.where(np.isnan(found), 0.0, found)  # 0 / 0: no gradient, no error


@dataclass(frozen=True, eq=False)
class LowRankMinorant(Minorant):
    """U diag(values) U', U orthonormal, at most X'X + slack I; slack is for rounding."""

    vectors: Array
    values: Array
    slack: float

    def quadratic_form(self, G: Array, alphas: Array) -> Array:
        """Inside U and outside of it, summed without cancellation; 4 p rank FLOPs a column."""
        found = ZeroMinorant().quadratic_form(G, alphas)
        left = alphas - self.slack
        usable = left > alphas / 2  # otherwise rounding leaves nothing that could be relied on
        if not usable.any():
            return found
        G, left = G[:, usable], left[usable]
        inside = self.vectors.T @ G
        outside = G - self.vectors @ inside
        tight = (inside**2 / (self.values[:, None] + left)).sum(axis=0)
        found[usable] = np.minimum(
            found[usable], tight + np.einsum("ij,ij->j", outside, outside) / left
        )
        return found


@dataclass(frozen=True, eq=False)
class CholeskyMinorant(Minorant):
    """X'X + alpha I >= D^1/2 L L' D^1/2 / looseness, for the one alpha that L was made for.

    `half(V)` is L^-1 V, D is diag(scale)^2, and L L' >= least I.
    """

    half_solve: Callable[[Array], Array]
    scale: Array
    alpha: float
    inflation: float
    min_eigenvalue: float

    def quadratic_form(self, G: Array, alphas: Array) -> Array:
        """Looseness times ||L^-1 D^-1/2 g||^2, for the columns with this alpha."""
        found = ZeroMinorant().quadratic_form(G, alphas)
        mine = alphas == self.alpha
        if mine.any() and np.isfinite(self.inflation):
            half = self.half_solve(G[:, mine] / self.scale[:, None])
            tight = self.inflation * np.einsum("ij,ij->j", half, half)
            found[mine] = np.minimum(found[mine], tight)
        return found

    @property
    def lower_ratio(self) -> float:
        """Some c > 0 with X'X + alpha I >= c D^1/2 L L' D^1/2."""
        if np.isfinite(self.inflation):
            return 1 / self.inflation
        return self.alpha / float((self.scale**2).sum())  # the trace, as L L' has a unit diagonal

    def diagonal_floor(self, alpha: float) -> Array | float:
        """The least eigenvalue that was proved, in every column's own unit."""
        if alpha != self.alpha:
            return alpha
        return np.asarray(np.maximum(alpha, self.min_eigenvalue / self.inflation * self.scale**2))


@dataclass(frozen=True, eq=False)
class BestOf(Minorant):
    """The best of several for each alpha: one factorisation for each."""

    minorants: Sequence[Minorant]

    def quadratic_form(self, G: Array, alphas: Array) -> Array:
        """The least of all bounds."""
        return np.asarray(
            np.min([part.quadratic_form(G, alphas) for part in self.minorants], axis=0)
        )

    def diagonal_floor(self, alpha: float) -> Array | float:
        """The highest of all floors."""
        floors = [part.diagonal_floor(alpha) for part in self.minorants]
        found = floors[0]
        for other in floors[1:]:
            found = np.maximum(found, other)
        return found
