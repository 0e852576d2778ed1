"""The certificate: a proven bound on how far predictions are from the exact ridge solution's.

With A = X'X, w any candidate and g = X'(y - Xw) - alpha w, the exact solution w* obeys

    ||X(w - w*)||^2 + alpha ||w - w*||^2 = g'(A + alpha I)^-1 g <= g'(B + alpha I)^-1 g

for every B with 0 <= B <= A (positive semidefinite order). The equation holds because
X'y = (A + alpha I) w*, so that g = -(A + alpha I)(w - w*). The inequality holds because inversion
reverses the order of positive definite matrices. A larger B gives a tighter bound; B = 0 gives
||g||^2 / alpha.

Minorants are such matrices B: zero, of low rank, or from a Cholesky factor that is proved to be
accurate. `gradient_rounding` and `dual_rounding` bound what the rounding of a computed gradient
adds to the bound. `error_bound` and `evaluate_bound` put both together for a candidate. `certify`
compares the result with tol and gives the status.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.linalg.cholesky import (
    FLOAT64_TINY,
    ScaledCholesky,
    proven_min_eigenvalue,
    scaled_cholesky,
    scaled_to_unit_diagonal,
)
from ling.linalg.ritz import thin_svd
from ling.linalg.rounding import EPS, sum_noise
from ling.results import Certificate, Status
from ling.solvers.problem import Problem

if TYPE_CHECKING:
    from ling.solvers.engine import Candidate

# Relative error of variances from an explicit inverse of a Cholesky factor in float32, at most.
INVERSE_FACTOR_ERROR = 0.05


class Minorant(ABC):
    """A matrix B with 0 <= B <= X'X, up to rounding errors that its quadratic form accounts for."""

    @abstractmethod
    def quadratic_form(self, G: Array, alphas: Array) -> Array:
        """An upper bound on g'(B + alpha I)^-1 g for each column g of G (p, t); returns (t,)."""

    def diagonal_floor(self, alpha: float) -> Array | float:
        """Vector (p,) or scalar d >= alpha with X'X + alpha I >= diag(d)."""
        return alpha

    def inverse_diagonal(self, alpha: float, may_invert: bool) -> Array | None:
        """Upper bounds (p,) of the diagonal of (X'X + alpha I)^-1; None if 1 / alpha is the best.

        They hold for larger alphas too. `may_invert` allows p^3 / 3 FLOPs; without it only what
        takes O(p rank) or O(p^2) is computed.
        """
        return None


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

    def inverse_diagonal(self, alpha: float, may_invert: bool) -> Array | None:
        """The diagonal of (B + (alpha - slack) I)^-1; 2 p rank FLOPs.

        Subtracting the part of U from 1 / shift loses digits where U has almost all of a column.
        The part is therefore reduced by the rounding of U, whose columns are not quite orthonormal.
        """
        # The decomposition has a backward error of a few eps of the largest value.
        shift = alpha - self.slack - 16 * EPS * float(self.values.max(initial=0.0))
        if shift <= alpha / 2:
            return None
        reduction = self.values / (self.values + shift)
        captured = (self.vectors**2) @ reduction
        noise = sum_noise(*self.vectors.shape) * (1 + self.vectors.shape[1])
        return np.asarray((np.maximum(1 - captured, 0.0) + noise) / shift)


def nystrom_slack(B: Array, theta: Array, noise: float) -> float:
    """Slack s with B B' <= X'X + s I, for a Nyström factor B computed from rounded products.

    Without rounding s is 0: with A = X'X and P the orthogonal projector onto the range of A^1/2 Q,
    (AQ)(Q'AQ)^-1(AQ)' = A^1/2 P A^1/2 <= A.

    B = Y Z theta^-1/2 is (p, rank), where Y = X'X Q has an error of at most `noise` in norm, and
    the core Q'Y = Z diag(theta) Z' has the same error. To first order the errors of Y and of the
    core are multiplied by ||b_j||^2 / theta_j, with b_j the columns of B.
    """
    ratio = np.einsum("ij,ij->j", B, B) / theta
    first = 2 * np.sqrt(ratio.sum()) + ratio.max(initial=0.0)
    return float(noise * first + noise**2 * (1 / theta).sum())


def nystrom_minorant(factor: Array, theta: Array, noise: float) -> Minorant:
    """The minorant B B' for a Nyström factor B (p, rank); see `nystrom_slack` for the arguments.

    `factor` may be overwritten.
    """
    if not theta.size:
        return ZeroMinorant()
    slack = nystrom_slack(factor, theta, noise) if noise else 0.0
    U, S = thin_svd(factor, overwrite=True)
    return LowRankMinorant(U, S**2, slack)


def singular_minorant(d: Array, V: Array, x_error: float) -> LowRankMinorant:
    """A minorant of X'X from the computed singular values d (k,) and vectors V (p, k).

    They are those of X + dX, where ||dX|| <= x_error is a few eps ||X||. For every c > 0,
    (X + dX)'(X + dX) <= (1 + c) X'X + (1 + 1 / c) ||dX||^2 I. With c = 0.1 the values are divided
    by 1.1, and the slack is 10 ||dX||^2.
    """
    return LowRankMinorant(V, d**2 / 1.1, 10 * x_error**2)


@dataclass(frozen=True, eq=False)
class CholeskyMinorant(Minorant):
    """Minorant from a Cholesky factor: X'X + alpha I >= D^1/2 L L' D^1/2 / inflation.

    It holds only for the `alpha` that L was computed for. `half_solve(V)` is L^-1 D^-1/2 V, D is
    diag(scale)^2, and L L' >= min_eigenvalue I. `inverse_squares` returns the diagonal of
    (D^1/2 L L' D^1/2)^-1, which costs p^3 / 3 FLOPs unless `is_inverted`.
    """

    half_solve: Callable[[Array], Array]
    scale: Array
    alpha: float
    inflation: float
    min_eigenvalue: float
    inverse_squares: Callable[[], Array]
    is_inverted: bool = False

    def quadratic_form(self, G: Array, alphas: Array) -> Array:
        """inflation ||L^-1 D^-1/2 g||^2 for columns with this alpha, ||g||^2 / alpha for others."""
        forms = ZeroMinorant().quadratic_form(G, alphas)
        same_alpha = alphas == self.alpha
        if not math.isfinite(self.inflation) or not same_alpha.any():
            return forms
        half_solution = self.half_solve(G if same_alpha.all() else G[:, same_alpha])
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

    def inverse_diagonal(self, alpha: float, may_invert: bool) -> Array | None:
        """inflation times the diagonal of the factor's inverse, at most 1 / alpha."""
        if alpha < self.alpha or not np.isfinite(self.inflation):
            return None
        if not (may_invert or self.is_inverted):
            return None
        # A column of L^-1 is off by p eps times the condition of L (Higham 2002, theorem 14.5). For
        # factors in float32, which have no proven eigenvalue, `inflation` is finite only if the
        # condition is below about 1e3.
        p = len(self.scale)
        error = INVERSE_FACTOR_ERROR
        if not self.is_inverted:
            error = min(error, 4 * p * EPS * np.sqrt(p / self.min_eigenvalue))
        diagonal = self.inflation * (1 + error) * self.inverse_squares()
        return np.asarray(np.minimum(diagonal, 1 / alpha))


def cholesky_with_minorant(
    G: Array, alpha: float, n: int, gram_error_scale: Array
) -> tuple[ScaledCholesky, CholeskyMinorant] | None:
    """Factor G + alpha I, for the computed G = X'X (p, p), and prove how far to trust the factor.

    None if G + alpha I is not positive definite, up to rounding. The rounding error of row and
    column j of G, sums of `n` products, is proportional to `gram_error_scale` (p,). p^3 / 3 FLOPs,
    and as many for the proof where alpha alone does not exceed the rounding error.
    """
    factor = scaled_cholesky(G, alpha)
    if factor is None:
        return None
    p, diagonal = len(G), G.diagonal() + alpha
    # Errors of eps sqrt(s_i s_j) in the entries of G become an error of at most eps sum(s_j / d_j)
    # in the norm of H = D^-1/2 (G + alpha I) D^-1/2. The factorisation adds at most eps trace(H),
    # which is eps p (Higham 2002, theorem 10.3). Both grow with the lengths of the sums.
    noise = sum_noise(n) * float((gram_error_scale / diagonal).sum() + p)
    min_eigenvalue = alpha / float(diagonal.max())  # H >= alpha D^-1
    if noise >= min_eigenvalue / 3:
        # alpha alone does not carry G above its rounding; G itself may. The factor has overwritten
        # H, which is formed again, so that no third matrix is needed where alpha is sufficient.
        scaled = scaled_to_unit_diagonal(G, alpha)
        assert scaled is not None  # as for the factor
        min_eigenvalue = proven_min_eigenvalue(scaled[0], 8 * noise, 2 * noise, overwrite=True)
    inflation = 1 / (1 - noise / min_eigenvalue) if min_eigenvalue else np.inf
    return factor, CholeskyMinorant(
        factor.half_solve, factor.scale, alpha, inflation, min_eigenvalue,
        lambda: factor.inverse_diagonal,
    )  # fmt: skip


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

    def inverse_diagonal(self, alpha: float, may_invert: bool) -> Array | None:
        """The elementwise smallest of the minorants' bounds."""
        known = (part.inverse_diagonal(alpha, may_invert) for part in self.minorants)
        diagonals = [diagonal for diagonal in known if diagonal is not None]
        return np.min(diagonals, axis=0) if diagonals else None


def gradient_rounding(problem: Problem, minorant: Minorant, W: Array, residual: Array) -> Array:
    """Bound (t,) on what gradient rounding adds to the error bound of W (p, t).

    `residual` (t,) holds the norms ||y - Xw||. The computed gradient X'r - alpha w has two sources
    of error:

    - An error d in r = y - Xw adds at most ||d|| to the bound, since X(X'X + alpha I)^-1 X' <= I.
      |d| is a few eps (|y| + |X||w|).
    - The sums X'r have an error of a few eps ||x_j|| ||r|| in entry j. In the bound it is divided
      by sqrt(floor_j), because X'X + alpha I >= diag(floor).

    "A few" grows like the square root of the number of terms (Higham & Mary 2019).
    """
    n, p = problem.shape
    noise_p, noise_n = sum_noise(p), sum_noise(n)
    bounds = noise_p * (problem.raw_target_norms + problem.fitted_norm_bounds(W))
    for t, alpha in enumerate(problem.alphas):
        if residual[t] or W[:, t].any():
            with np.errstate(divide="ignore"):
                gradient_factor = np.sqrt(
                    (problem.raw_column_norms**2 / minorant.diagonal_floor(float(alpha))).sum()
                )
            penalty_error = noise_p * np.sqrt(alpha) * np.linalg.norm(W[:, t])
            bounds[t] += noise_n * gradient_factor * residual[t] + penalty_error
    return np.asarray(bounds)


def dual_rounding(
    problem: Problem,
    C: Array,
    targets: slice | NDArray[np.bool_] = slice(None),
    *,
    from_kernel_matrix: bool = False,
) -> Array:
    """Bound (k,) on the rounding error of rho = y - X X'c - alpha c, for C (n, k) of k `targets`.

    The errors of X'c and X(X'c) are a few eps times the norms of X before and after centring.
    `from_kernel_matrix` says that rho was computed with an explicit X X'. Its error is as large if
    X X' was formed from centred rows, and larger if it was not.
    """
    raw_norm = float(np.linalg.norm(problem.raw_column_norms))
    centered_norm = float(np.linalg.norm(problem.safe_column_norms))
    if from_kernel_matrix and not problem.centers_rows:
        centered_norm = raw_norm
    coef_norms, alphas = np.linalg.norm(C, axis=0), problem.alphas[targets]
    product_norms = (raw_norm * (2 * centered_norm + np.sqrt(alphas)) + alphas) * coef_norms
    target_norms = problem.raw_target_norms[targets]
    return np.asarray(sum_noise(*problem.shape) * (target_norms + product_norms))


def error_bound(problem: Problem, candidate: Candidate, gradient: Array) -> Array:
    """Error bound (t,) that follows from the gradient (p, t), without the rounding terms.

    A candidate with a residual r has a second bound. Let w' be the point whose gradient is exactly
    r: its error has the bound that the engine proved, and by the triangle inequality that of w is
    larger by at most the bound for the gradient g - r.
    """
    minorant, alphas = candidate.minorant, problem.alphas
    bound: Array = np.sqrt(minorant.quadratic_form(gradient, alphas))
    if candidate.residual is None or candidate.squared_bound is None:
        return bound
    drift = minorant.quadratic_form(gradient - candidate.residual, alphas)
    return np.asarray(np.minimum(bound, np.sqrt(candidate.squared_bound) + np.sqrt(drift)))


def evaluate_bound(problem: Problem, candidate: Candidate) -> tuple[Candidate, Array]:
    """The candidate with its error bound (t,), and its gradient (p, t); one pass."""
    gradient, residual = problem.gradient(candidate.coef)
    bound = error_bound(problem, candidate, gradient) + gradient_rounding(
        problem, candidate.minorant, candidate.coef, residual
    )
    return replace(candidate, bound=bound), gradient


@np.errstate(over="ignore", invalid="ignore")  # bounds may be infinite
def certify(
    problem: Problem, candidate: Candidate, tol: float, positive: bool = False
) -> tuple[Certificate, Status]:
    """Certificate of the relative error bounds (t,) of `candidate`, and the resulting status.

    One pass for the gradient, which is skipped if the engine has already proved a bound within tol
    or has given up. Where alpha is 0 no bound exists: it is infinite, and the status is
    UNCERTIFIED. `positive` says that both the candidate and the exact solution are >= 0.
    """
    bounds = _absolute_bounds(problem, candidate, tol, positive)
    if (problem.alphas == 0).any():
        bounds = np.where(problem.alphas == 0, np.inf, bounds)
        return Certificate(relative_bounds(problem, bounds), tol), Status.UNCERTIFIED
    certificate = Certificate(relative_bounds(problem, bounds), tol)
    return certificate, Status.CERTIFIED if certificate.holds else Status.NOT_REACHED


def _absolute_bounds(problem: Problem, candidate: Candidate, tol: float, positive: bool) -> Array:
    engine_bounds = candidate.bound
    if engine_bounds is not None and (
        candidate.gave_up or problem.is_within_tol(engine_bounds, tol)
    ):
        return engine_bounds
    if not np.isfinite(candidate.coef).all():
        return np.full(problem.n_targets, np.inf)
    gradient, residual = problem.gradient(candidate.coef)
    if positive:
        gradient = _projected_gradient(gradient, candidate.coef)
    bounds = error_bound(problem, candidate, gradient)
    bounds += gradient_rounding(problem, candidate.minorant, candidate.coef, residual)
    return bounds if engine_bounds is None else np.minimum(bounds, engine_bounds)


def _projected_gradient(gradient: Array, W: Array) -> Array:
    """Projected gradient rho for w >= 0: g with negative entries set to 0 wherever w_j = 0.

    With e = w - w* and H = X'X + alpha I: e'He <= -g'e, since w* is optimal among all w >= 0, and
    -g'e <= -rho'e, since -e_j >= 0 where w_j = 0. By Cauchy-Schwarz e'He <= rho'H^-1 rho. Rounding
    in g adds to the bound as it does without the constraint, because g'e is linear in g.
    """
    return np.where(W > 0, gradient, np.maximum(gradient, 0.0))


def relative_bounds(problem: Problem, bounds: Array) -> Array:
    """Bounds on the predictions relative to ||y||; 0 for a zero y, which W = 0 fits exactly."""
    scale = problem.error_scale
    positive = scale > 0
    relative = np.divide(bounds, scale, out=np.zeros_like(bounds), where=positive)
    # A bound that underflowed to 0 is not a proof of an exact solution.
    relative = np.maximum(relative, FLOAT64_TINY * positive)
    return np.where(np.isnan(relative), np.inf, relative)
