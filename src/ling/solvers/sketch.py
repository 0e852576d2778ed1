"""Stage 1: low-rank sketches of X'X, and the Nyström approximation from products with X'X.

Sketches are computed for columns scaled to equal norms, D^-1/2 X'X D^-1/2 with
D = diag(X'X) + alpha, so that they do not depend on the units of the features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from ling._typing import Array
from ling.linalg.gram import form_gram
from ling.linalg.orthogonalize import thin_svd
from ling.linalg.rounding import EPS, product_noise
from ling.solvers.minorant import LowRankMinorant, Minorant, ZeroMinorant, nystrom_slack
from ling.solvers.problem import Problem

FLOAT64_TINY = float(np.finfo(np.float64).tiny)
# Columns up to which passes are done by compiled loops.
MAX_COMPILED_COLUMNS = 32


@dataclass(frozen=True, eq=False)
class Sketch:
    """Low-rank sketch B (p, rank) with B B' close to X'X in its leading directions.

    All fields are in the units of the features. `residual_diagonal` (p,) approximates the diagonal
    of X'X - B B'. B diag(1 / weights) B' <= X'X + slack I is proven. With fewer rows than columns,
    also B = X[rows]' dual_factor.
    """

    B: Array
    residual_diagonal: Array
    weights: Array
    slack: float
    rows: NDArray[np.intp] | None = None
    dual_factor: Array | None = None

    @property
    def rank(self) -> int:
        """Number of columns of B."""
        return int(self.B.shape[1])

    def minorant(self) -> Minorant:
        """The minorant B diag(1 / weights) B', with orthonormal factors."""
        if not self.rank:
            return ZeroMinorant()
        U, S = thin_svd(self.B / np.sqrt(self.weights))
        return LowRankMinorant(U, S**2, self.slack)


@dataclass(frozen=True)
class Forecast:
    """A rank, the iterations expected with it, and the remaining cost of both in passes."""

    rank: int
    iterations: float
    cost: float


def column_scales(problem: Problem) -> Array:
    """The diagonal (p,) of D^1/2, D = diag(X'X) + alpha for the smallest alpha.

    A lower limit keeps columns that are constant up to rounding from being scaled up to the norm of
    the others.
    """
    alpha = float(problem.alphas.min())
    min_scale = EPS * problem.raw_column_norms.max(initial=0.0)
    scale = np.maximum(np.sqrt(problem.column_norms**2 + alpha), min_scale)
    scale[scale == 0] = 1.0
    return np.asarray(scale)


def scaled_gram_matmat(problem: Problem, scale: Array, directions: Array) -> Array:
    """D^-1/2 X'X D^-1/2 Q for directions Q (p, k), with scale the diagonal of D^1/2; one pass."""
    V = np.ascontiguousarray(directions / scale[:, None])
    return np.asarray(problem.design.gram_matmat(V) / scale[:, None])


def nystrom_sketch(
    problem: Problem, scale: Array, directions: Array, products: Array, seen: Array | None = None
) -> tuple[Sketch, Array]:
    """Nyström sketch A Q (Q'A Q)^-1 Q'A, and its eigenvalues, for A = D^-1/2 X'X D^-1/2.

    `directions` is Q (p, k), with orthonormal columns, and `products` is A Q (p, k). `seen` (n, k)
    is X D^-1/2 Q, if the sketch needs its dual factor. The sketch is returned in the units of the
    features, the eigenvalues in scaled units, largest first.
    """
    core = directions.T @ products
    theta, Z = linalg.eigh((core + core.T) / 2, check_finite=False)
    # Directions far below alpha do not improve the preconditioner, and amplify rounding.
    floor = 0.1 * alpha_in_scaled_units(problem, scale)
    retained = theta > max(1e-13 * theta[-1], floor) if len(theta) else np.zeros(0, dtype=bool)
    B = products @ (Z[:, retained] / np.sqrt(theta[retained]))
    eigenvalues = np.maximum(linalg.eigvalsh(form_gram(B), check_finite=False)[::-1], 0.0)
    largest = max(
        eigenvalues[:1].max(initial=0.0), float((problem.raw_column_norms**2 / scale**2).max())
    )
    slack = nystrom_slack(B, theta[retained], product_noise(problem.shape) * largest)
    F = scale[:, None] * B
    rest = np.maximum(problem.column_norms**2 - np.einsum("ij,ij->i", F, F), 0.0)
    sketch = Sketch(F, rest, np.ones(F.shape[1]), slack * float((scale**2).max()))
    if seen is not None:
        # With p > n the residual of X'X lies in n directions.
        n, p = problem.shape
        dual_factor = seen @ (Z[:, retained] / np.sqrt(theta[retained]))
        sketch = replace(
            sketch, residual_diagonal=rest * p / n, rows=np.arange(n), dual_factor=dual_factor
        )
    return sketch, eigenvalues


def alpha_in_scaled_units(problem: Problem, scale: Array) -> float:
    """The smallest alpha in the units of the scaled matrix, averaged over the columns."""
    return max(float(problem.alphas.min()) * float(np.mean(1 / scale**2)), FLOAT64_TINY)


def cheapest_forecast(options: list[Forecast]) -> Forecast:
    """The forecast with the lowest cost."""
    return min(options, key=lambda option: option.cost)


def forecast_iterations(condition: float, least: float, tol: float, most: int) -> float:
    """Iterations that conjugate gradients need until the bound is within tol, at most 2 `most`.

    `condition` is the condition number after preconditioning. `least` is the proven lower ratio of
    the preconditioner; a smaller one makes the bound larger and takes more iterations.
    """
    digits = np.log(2 / max(tol, EPS)) + 0.5 * np.log(1 / least)
    # 0.35 instead of the worst-case 0.5, because most of y lies in few directions.
    return min(float(0.35 * np.sqrt(condition) * digits) + 1, 2.0 * most)
