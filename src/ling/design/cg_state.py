"""The state of conjugate gradients with a diagonal preconditioner, which storages can advance."""

from __future__ import annotations

from dataclasses import dataclass

from ling._typing import Array


@dataclass(frozen=True, eq=False)
class DiagonalCGState:
    """Conjugate gradients on (A'A + alpha I) w = b with P = diag(1 / inverse_diagonal).

    Attributes
    ----------
    alpha : float
    inverse_diagonal : array of shape (p,)
    radau_constants : tuple of float
        node, lower_ratio, rounding and min_relative_gap of `next_radau_factor`.
    goal : float
        The squared error bound at which the iteration ends.
    solution, residual, direction : arrays of shape (p,)
    rz, radau_factor : float
        residual'P^-1 residual, and the factor of `next_radau_factor`.
    """

    alpha: float
    inverse_diagonal: Array
    radau_constants: tuple[float, float, float, float]
    goal: float
    solution: Array
    residual: Array
    direction: Array
    rz: float
    radau_factor: float
