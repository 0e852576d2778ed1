"""Minorants: matrices B <= X'X, which turn a gradient into a bound on the error.

With A = X'X, w any candidate and g = X'(y - Xw) - alpha w, the exact solution w* obeys

    ||X(w - w*)||^2 + alpha ||w - w*||^2 = g'(A + alpha I)^-1 g <= g'(B + alpha I)^-1 g

for every B with 0 <= B <= A (positive semidefinite order). A larger B gives a tighter bound; B = 0
gives ||g||^2 / alpha.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ling._typing import Array


def nystrom_slack(B: Array, theta: Array, noise: float) -> float:
    """Slack s with B B' <= X'X + s I, for a Nyström factor B computed from rounded products.

    B = Y Z theta^-1/2 is (p, rank), where Y = X'X Q has an error of at most `noise` in norm, and
    the core Q'Y = Z diag(theta) Z' has the same error. To first order the errors of Y and of the
    core are multiplied by ||b_j||^2 / theta_j, with b_j the columns of B.
    """
    ratio = np.einsum("ij,ij->j", B, B) / theta
    first = 2 * np.sqrt(ratio.sum()) + ratio.max(initial=0.0)
    return float(noise * first + noise**2 * (1 / theta).sum())


class Minorant(ABC):
    """A matrix B with 0 <= B <= X'X."""

    @abstractmethod
    def quadratic_form(self, G: Array, alphas: Array) -> Array:
        """An upper bound on g'(B + alpha I)^-1 g for each column g of G (p, t); returns (t,)."""

    def diagonal_floor(self, alpha: float) -> Array | float:
        """Vector (p,) or scalar d >= alpha with X'X + alpha I >= diag(d)."""
        return alpha


@dataclass(frozen=True)
class ZeroMinorant(Minorant):
    """The minorant B = 0, which is valid for every X."""

    def quadratic_form(self, G: Array, alphas: Array) -> Array:
        """||g||^2 / alpha."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            forms = np.einsum("ij,ij->j", G, G) / alphas
        return np.where(np.isnan(forms), 0.0, forms)  # 0 / 0: a zero gradient means no error


@dataclass(frozen=True, eq=False)
class LowRankMinorant(Minorant):
    """Low-rank minorant U diag(values) U' <= X'X + slack I, where `slack` covers rounding.

    `vectors` is U (p, rank), with orthonormal columns; `values` is (rank,).
    """

    vectors: Array
    values: Array
    slack: float

    def quadratic_form(self, G: Array, alphas: Array) -> Array:
        """Bound on g'(B + alpha I)^-1 g; 4 p rank FLOPs per column.

        The parts of g inside and outside the span of U are summed separately, which avoids
        cancellation.
        """
        forms = ZeroMinorant().quadratic_form(G, alphas)
        shifts = alphas - self.slack
        usable = shifts > alphas / 2  # otherwise the slack is too large for a useful bound
        if not usable.any():
            return forms
        G, shifts = G[:, usable], shifts[usable]
        inside = self.vectors.T @ G
        outside = G - self.vectors @ inside
        inside_forms = (inside**2 / (self.values[:, None] + shifts)).sum(axis=0)
        forms[usable] = np.minimum(
            forms[usable], inside_forms + np.einsum("ij,ij->j", outside, outside) / shifts
        )
        return forms


@dataclass(frozen=True, eq=False)
class CholeskyMinorant(Minorant):
    """Minorant from a Cholesky factor: X'X + alpha I >= D^1/2 L L' D^1/2 / inflation.

    It holds only for the `alpha` that L was computed for. `half_solve(V)` is L^-1 V, D is
    diag(scale)^2, and L L' >= min_eigenvalue I.
    """

    half_solve: Callable[[Array], Array]
    scale: Array
    alpha: float
    inflation: float
    min_eigenvalue: float

    def quadratic_form(self, G: Array, alphas: Array) -> Array:
        """inflation ||L^-1 D^-1/2 g||^2 for columns with this alpha, ||g||^2 / alpha for others."""
        forms = ZeroMinorant().quadratic_form(G, alphas)
        same_alpha = alphas == self.alpha
        if same_alpha.any() and np.isfinite(self.inflation):
            half_solution = self.half_solve(G[:, same_alpha] / self.scale[:, None])
            cholesky_forms = self.inflation * np.einsum("ij,ij->j", half_solution, half_solution)
            forms[same_alpha] = np.minimum(forms[same_alpha], cholesky_forms)
        return forms

    @property
    def lower_ratio(self) -> float:
        """A constant c > 0 with X'X + alpha I >= c D^1/2 L L' D^1/2."""
        if np.isfinite(self.inflation):
            return 1 / self.inflation
        return self.alpha / float((self.scale**2).sum())  # trace bound: L L' has a unit diagonal

    def diagonal_floor(self, alpha: float) -> Array | float:
        """The proven smallest eigenvalue times scale_j^2, at least alpha, for each column j."""
        if alpha != self.alpha:
            return alpha
        return np.asarray(np.maximum(alpha, self.min_eigenvalue / self.inflation * self.scale**2))


@dataclass(frozen=True, eq=False)
class BestOf(Minorant):
    """The tightest of several minorants, such as one Cholesky factor for each alpha."""

    minorants: Sequence[Minorant]

    def quadratic_form(self, G: Array, alphas: Array) -> Array:
        """The smallest of the minorants' bounds, for each column of G."""
        return np.asarray(
            np.min([minorant.quadratic_form(G, alphas) for minorant in self.minorants], axis=0)
        )

    def diagonal_floor(self, alpha: float) -> Array | float:
        """The elementwise largest of the minorants' floors."""
        floors = [part.diagonal_floor(alpha) for part in self.minorants]
        highest = floors[0]
        for floor in floors[1:]:
            highest = np.maximum(highest, floor)
        return highest
