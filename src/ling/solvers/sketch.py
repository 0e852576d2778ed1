"""Stage 1: what a sketch knows of X'X, and Nyström's approximation from products with X'X.

Sketches are of columns of equal length, D^-1/2 X'X D^-1/2, D = diag(X'X) + alpha, so that the units
of the features do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ling._typing import Array
from ling.design import AffineRowTransform
from ling.linalg.gram import form_gram
from ling.linalg.orthogonalize import thin_svd
from ling.linalg.rounding import EPS, product_noise
from ling.solvers.minorant import LowRankMinorant, Minorant, ZeroMinorant, nystrom_slack
from ling.solvers.problem import Problem

FLOAT64_TINY = float(np.finfo(np.float64).tiny)
# Up to this many columns, passes are done by compiled loops.
MAX_COMPILED_COLUMNS = 32


@dataclass(frozen=True, eq=False)
class Sketch:
    """B B' is about X'X where that is strong; in the units of the features, like all of this.

    `rest` is about the diagonal of what is left, and B diag(1 / weights) B' <= X'X + slack I.
    Also B = X[rows]' lifted, where there are fewer rows than columns.
    """

    B: Array
    residual_diagonal: Array
    weights: Array
    slack: float
    rows: NDArray[np.intp] | None = None
    dual_factor: Array | None = None

    @property
    def rank(self) -> int:
        """Directions kept."""
        return int(self.B.shape[1])

    def minorant(self) -> Minorant:
        """What is proved to lie below X'X, with orthonormal factors."""
        if not self.rank:
            return ZeroMinorant()
        U, S = thin_svd(self.B / np.sqrt(self.weights))
        return LowRankMinorant(U, S**2, self.slack)


@dataclass(frozen=True)
class Forecast:
    """A rank, the iterations that remain then, and what both cost from here on, in passes."""

    rank: int
    iterations: float
    cost: float


def column_scales(problem: Problem) -> Array:
    """The diagonal of D^1/2. A constant column, but for rounding, is not made like the others."""
    alpha = float(problem.alphas.min())
    least = EPS * problem.raw_column_norms.max(initial=0.0)
    scale = np.maximum(np.sqrt(problem.column_norms**2 + alpha), least)
    scale[scale == 0] = 1.0
    return np.asarray(scale)


def scaled_gram_matmat(
    problem: Problem, scale: Array, directions: Array, transform: AffineRowTransform | None = None
) -> Array:
    """D^-1/2 X'X D^-1/2 Q for directions Q; one pass."""
    V = np.ascontiguousarray(directions / scale[:, None])
    return np.asarray(problem.design.gram_matmat(V, transform) / scale[:, None])


def nystrom_sketch(
    problem: Problem, scale: Array, directions: Array, products: Array, seen: Array | None = None
) -> tuple[Sketch, Array]:
    """X'X Q (Q'X'X Q)^-1 Q'X'X from products X'X Q in units of `scale`, and its eigenvalues.

    Q, the directions, are orthonormal; `seen` is X D^-1/2 Q, where it is wanted.
    """
    core = directions.T @ products
    theta, Z = linalg.eigh((core + core.T) / 2, check_finite=False)
    # Directions below alpha help nobody, and would only amplify rounding.
    floor = 0.1 * alpha_in_scaled_units(problem, scale)
    kept = theta > max(1e-13 * theta[-1], floor) if len(theta) else np.zeros(0, dtype=bool)
    B = products @ (Z[:, kept] / np.sqrt(theta[kept]))
    values = np.maximum(linalg.eigvalsh(form_gram(B), check_finite=False)[::-1], 0.0)
    largest = max(
        values[:1].max(initial=0.0), float((problem.raw_column_norms**2 / scale**2).max())
    )
    slack = nystrom_slack(B, theta[kept], product_noise(problem.shape) * largest)
    F = scale[:, None] * B
    rest = np.maximum(problem.column_norms**2 - np.einsum("ij,ij->i", F, F), 0.0)
    sketch = Sketch(F, rest, np.ones(F.shape[1]), slack * float((scale**2).max()))
    if seen is not None:
        # With p > n all that is left lies in n directions.
        n, p = problem.shape
        lifted = seen @ (Z[:, kept] / np.sqrt(theta[kept]))
        sketch = replace(
            sketch, residual_diagonal=rest * p / n, rows=np.arange(n), dual_factor=lifted
        )
    return sketch, values


def alpha_in_scaled_units(problem: Problem, scale: Array) -> float:
    """alpha in units of the scaled matrix, in the mean."""
    return max(float(problem.alphas.min()) * float(np.mean(1 / scale**2)), FLOAT64_TINY)


def cheapest_forecast(options: list[Forecast]) -> Forecast:
    """The one that costs least."""
    return min(options, key=lambda option: option.cost)


def forecast_iterations(condition: float, least: float, tol: float, most: int) -> float:
    """Of conjugate gradients, to a proved error: a smaller `least` makes the proof take longer."""
    digits = np.log(2 / max(tol, EPS)) + 0.5 * np.log(1 / least)
    # Most of y is in few directions; the usual bound, 0.5, is for the worst.
    return min(float(0.35 * np.sqrt(condition) * digits) + 1, 2.0 * most)
