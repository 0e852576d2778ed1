"""The posterior covariance of w: (X'X + alpha I)^-1, exactly or from random draws.

Under the Gaussian model y ~ N(Xw, s^2 I), w ~ N(0, s^2 / alpha I), ridge regression is the mean of
w given y, and s^2 (X'X + alpha I)^-1 its covariance. The trace of X'X (X'X + alpha I)^-1 is the
effective number of degrees of freedom.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ling._typing import Array
from ling.design import Design
from ling.errors import InvalidInputError
from ling.linalg.cholesky import scaled_cholesky
from ling.linalg.gram import form_gram
from ling.linalg.rounding import EPS, sum_noise
from ling.linalg.singular_values import thin_svd_with_fallback
from ling.plain_state import register_plain
from ling.solvers.cost_model import posterior_bytes, svd_bytes
from ling.solvers.gram_problem import RowsUnavailableError
from ling.solvers.memory_budget import MemoryBudget
from ling.solvers.problem import Problem

# Relative error of variances up to which a Gram matrix is used. Beyond it rounding in X'X shows in
# the digits that users print, and the singular values of X are used if memory allows it.
MAX_GRAM_ERROR = 1e-7
# Draws of w for each alpha. Variances estimated from them have a relative standard error of
# sqrt(2 / draws), 12.5 %.
N_POSTERIOR_DRAWS = 128


class Posterior(ABC):
    """(X'X + alpha I)^-1 (p, p), for the alpha of each of t targets."""

    alphas: Array

    @property
    @abstractmethod
    def effective_dof(self) -> Array:
        """trace X'X (X'X + alpha I)^-1 for each target, (t,)."""

    @property
    @abstractmethod
    def inverse_diagonal(self) -> Array:
        """The diagonal of (X'X + alpha I)^-1 for each target, (p, t)."""

    @abstractmethod
    def quadratic_forms(self, rows: Design) -> Array:
        """x'(X'X + alpha I)^-1 x for each row x, (n_rows, t)."""

    @property
    @abstractmethod
    def relative_errors(self) -> Array:
        """Relative errors of `inverse_diagonal` for each target, (t,); infinite if unknown.

        A bound on the effect of rounding or, for random draws, a standard error.
        """

    @property
    @abstractmethod
    def effective_dof_error(self) -> Array:
        """Errors of `effective_dof`, (t,): a bound or, for random draws, a standard error."""

    @property
    def is_uniform(self) -> bool:
        """Whether `relative_errors` bounds the error of x'(X'X + alpha I)^-1 x for every x."""
        return False

    @property
    def method(self) -> str:
        """How the posterior was computed, for the user."""
        error = float(self.relative_errors.max(initial=0.0))
        if error <= 1e-6:
            return "exact"
        if not np.isfinite(error):
            return "exact but for rounding, in which the smallest variances may be lost"
        return f"exact but for rounding, which changes variances by at most {error:.1g} of them"

    def _per_target(self, by_alpha: Mapping[float, Array | np.floating[Any]]) -> Array:
        """Stack the arrays (k,) of each alpha into (k, t), or scalars into (t,)."""
        return np.stack([by_alpha[float(alpha)] for alpha in self.alphas], axis=-1)


@register_plain
@dataclass(frozen=True, eq=False)
class FromGram(Posterior):
    """From the Cholesky factor of X'X + alpha I, computed on first use; p^2 numbers per alpha.

    `gram` is X'X (p, p).
    """

    gram: Array
    alphas: Array
    rounding: Array

    @property
    def relative_errors(self) -> Array:
        """The effect of rounding in X'X, (t,)."""
        return self.rounding

    @property
    def is_uniform(self) -> bool:
        """True: the error of X'X + alpha I is relative to itself."""
        return True

    @property
    def effective_dof_error(self) -> Array:
        """The effect of rounding in X'X on alpha trace (X'X + alpha I)^-1, (t,)."""
        return _complement_error(len(self.gram), self.effective_dof, self.rounding)

    @cached_property
    def _inverse_factors(self) -> dict[float, Array]:
        """M (p, p) with M'M = (X'X + alpha I)^-1, for each alpha."""
        # Only M is kept, because the factor itself would double the memory.
        return {float(a): _inverse_factor(self.gram, float(a)) for a in np.unique(self.alphas)}

    @cached_property
    def inverse_diagonal(self) -> Array:
        """Sums of squares of the columns of M, (p, t)."""
        return self._per_target({a: _row_squares(M.T) for a, M in self._inverse_factors.items()})

    @property
    def effective_dof(self) -> Array:
        """p - alpha trace (X'X + alpha I)^-1, (t,)."""
        return np.asarray(len(self.gram) - self.alphas * self.inverse_diagonal.sum(axis=0))

    def quadratic_forms(self, rows: Design) -> Array:
        """||M x||^2 for each row x, (n_rows, t)."""
        return self._per_target(
            {
                alpha: rows.map_rows(partial(_mapped_row_squares, M))
                for alpha, M in self._inverse_factors.items()
            }
        )


@register_plain
@dataclass(frozen=True, eq=False)
class FromRows(Posterior):
    """From (I - X'(X X' + alpha I)^-1 X) / alpha, for p > n; n p numbers of memory per alpha.

    `rows` is X (n, p).
    """

    rows: Array
    alphas: Array
    rounding: Array

    @property
    def relative_errors(self) -> Array:
        """The effect of rounding in X X', and of the difference from 1 / alpha, (t,)."""
        return _difference_error(self.rounding, self.alphas, self.inverse_diagonal)

    @property
    def effective_dof_error(self) -> Array:
        """The relative error times n, as all of ||M X||_F^2 comes from an inverse, (t,)."""
        n = len(self.rows)
        return np.asarray(np.minimum(n * (self.rounding + 8 * EPS), float(n)))

    @cached_property
    def _whitened_rows(self) -> dict[float, Array]:
        """M X (n, p) with M'M = (X X' + alpha I)^-1, for each alpha."""
        K = form_gram(self.rows.T)
        return {float(a): _inverse_factor(K, float(a)) @ self.rows for a in np.unique(self.alphas)}

    @cached_property
    def inverse_diagonal(self) -> Array:
        """(1 - ||M x_j||^2) / alpha for each column x_j of X, (p, t)."""
        squares = _row_squares(self.rows.T)
        diagonals = {}
        for alpha, whitened in self._whitened_rows.items():
            # Rounding may leave too little of the difference. With feature j alone the entry is
            # 1 / (||x_j||^2 + alpha), and other features can only increase it.
            difference = (1 - _row_squares(whitened.T)) / alpha
            diagonals[alpha] = np.maximum(difference, 1 / (squares + alpha))
        return self._per_target(diagonals)

    @property
    def effective_dof(self) -> Array:
        """trace X'(X X' + alpha I)^-1 X = ||M X||_F^2, (t,)."""
        return self._per_target(
            {alpha: (whitened**2).sum() for alpha, whitened in self._whitened_rows.items()}
        )

    def quadratic_forms(self, rows: Design) -> Array:
        """(||x||^2 - ||M X x||^2) / alpha for each row x, (n_rows, t)."""
        squares = rows.map_rows(_row_squares)
        forms = {}
        for alpha, whitened in self._whitened_rows.items():
            difference = squares - rows.map_rows(partial(_mapped_row_squares, whitened))
            # The difference is positive, but rounding may leave 0 or less of it.
            forms[alpha] = np.maximum(difference, EPS * squares) / alpha
        return self._per_target(forms)


@register_plain
@dataclass(frozen=True, eq=False)
class FromSVD(Posterior):
    """From the singular value decomposition X = U diag(d) V', for X that is ill-conditioned.

    Rounding is relative to the norm of X, and not to its square as in a Gram matrix. `values` is d
    (k,), and `vectors` is V' (k, p), with k = min(n, p); k p numbers of memory.
    """

    values: Array
    vectors: Array
    alphas: Array
    rounding: Array

    @property
    def relative_errors(self) -> Array:
        """The effect of rounding in the decomposition, (t,)."""
        k, p = self.vectors.shape
        if k == p:
            return self.rounding
        return _difference_error(self.rounding, self.alphas, self.inverse_diagonal)

    @property
    def is_uniform(self) -> bool:
        """True unless there are directions in which X is 0."""
        k, p = self.vectors.shape
        return bool(k == p)

    @property
    def effective_dof_error(self) -> Array:
        """The effect of rounding on the sum of alpha / (d^2 + alpha), (t,)."""
        return _complement_error(len(self.values), self.effective_dof, self.rounding)

    @cached_property
    def inverse_diagonal(self) -> Array:
        """sum_k V_jk^2 / (d_k^2 + alpha), and the rest of V_j over alpha, (p, t)."""
        return self._forms(self.vectors.T**2, np.ones(self.vectors.shape[1]))

    @property
    def effective_dof(self) -> Array:
        """The sum of d^2 / (d^2 + alpha), (t,)."""
        squares = self.values[:, None] ** 2
        return np.asarray((squares / (squares + self.alphas)).sum(axis=0))

    def quadratic_forms(self, rows: Design) -> Array:
        """x'(X'X + alpha I)^-1 x for each row x, (n_rows, t)."""
        parts = rows.map_rows(partial(_squared_products, self.vectors))
        return self._forms(parts, rows.map_rows(_row_squares))

    def _forms(self, parts: Array, totals: Array) -> Array:
        """Forms (m, t) of vectors with squared norms (m,) and squared products with V (m, k)."""
        variances = 1 / (self.values[:, None] ** 2 + self.alphas)
        forms = parts @ variances
        k, p = self.vectors.shape
        if k < p:  # directions in which X is 0
            outside = np.maximum(totals - parts.sum(axis=1), 0.0)
            forms = forms + outside[:, None] / self.alphas
        return np.asarray(forms)


@register_plain
@dataclass(frozen=True, eq=False)
class FromDraws(Posterior):
    """From random draws d with covariance (X'X + alpha I)^-1.

    `draws` has an array (p, n_draws) for each alpha, and `sizes` an array (n_draws,) of ||X d||^2,
    whose mean estimates the effective degrees of freedom.
    """

    draws: dict[float, Array]
    sizes: dict[float, Array]
    alphas: Array

    @property
    def relative_errors(self) -> Array:
        """The standard error of a variance from so many draws, (t,)."""
        n_draws = next(iter(self.draws.values())).shape[1]
        return np.full(len(self.alphas), np.sqrt(2 / n_draws))

    @property
    def effective_dof_error(self) -> Array:
        """The standard error of the mean of ||X d||^2, (t,)."""
        return self._per_target(
            {
                alpha: np.asarray(sizes.std(ddof=1) / np.sqrt(len(sizes)))
                for alpha, sizes in self.sizes.items()
            }
        )

    @property
    def inverse_diagonal(self) -> Array:
        """Mean squares of the draws, (p, t)."""
        return self._per_target({alpha: (D**2).mean(axis=1) for alpha, D in self.draws.items()})

    @property
    def effective_dof(self) -> Array:
        """The mean of ||X d||^2, (t,)."""
        return self._per_target({alpha: sizes.mean() for alpha, sizes in self.sizes.items()})

    def quadratic_forms(self, rows: Design) -> Array:
        """The mean of (x'd)^2 for each row x, (n_rows, t)."""
        return self._per_target(
            {alpha: (rows.matmat(D) ** 2).mean(axis=1) for alpha, D in self.draws.items()}
        )

    @property
    def method(self) -> str:
        """The number of draws and the relative standard error of variances."""
        n_draws = next(iter(self.draws.values())).shape[1]
        return f"from {n_draws} random draws: variances have {np.sqrt(2 / n_draws):.0%} error"


def compute_posterior(
    problem: Problem,
    memory: MemoryBudget,
    solve: Callable[[Problem], Array],
    rng: np.random.Generator,
) -> Posterior:
    """The exact posterior if its matrices fit into memory, otherwise one from draws.

    `solve(problem)` returns the coefficients (p, t) of a problem with the same X. It is called once
    for each alpha, and only for draws.
    """
    n, p = problem.shape
    if memory.allows(posterior_bytes(n, p, len(problem.distinct_alphas))):
        return _exact_posterior(problem, memory)
    draws, sizes = {}, {}
    for alpha in problem.distinct_alphas:
        draws[float(alpha)], sizes[float(alpha)] = _draw_posterior(
            problem, float(alpha), solve, rng
        )
    return FromDraws(draws, sizes, problem.alphas)


def _exact_posterior(problem: Problem, memory: MemoryBudget) -> Posterior:
    """From a Gram matrix or, if its rounding shows and memory allows it, by singular values."""
    n, p = problem.shape
    rows: Array | None = None
    if p <= n:
        A, n_terms, error_scale = problem.gram(), n, problem.gram_error_scale
    else:
        rows = problem.design.take(np.arange(n))
        A, n_terms = form_gram(rows.T), p
        error_scale = np.diag(A)
    distinct = problem.distinct_alphas
    errors = [_gram_error(A, float(alpha), n_terms, error_scale) for alpha in distinct]
    rounding = np.array(errors)[np.searchsorted(distinct, problem.alphas)]
    by_svd = _svd_error(problem)
    if rows is not None:
        rounding = rounding + by_svd  # the centred rows are rounded too
    if (rounding > MAX_GRAM_ERROR).any() and memory.allows(svd_bytes(n, p)):
        try:
            X = problem.design.take(np.arange(n)) if rows is None else rows
        except RowsUnavailableError:  # nothing but X'X is known
            pass
        else:
            _, d, Vt = thin_svd_with_fallback(X)
            return FromSVD(d, np.ascontiguousarray(Vt), problem.alphas, by_svd)
    if rows is None:
        return FromGram(A, problem.alphas, rounding)
    return FromRows(rows, problem.alphas, rounding)


def _gram_error(A: Array, alpha: float, n_terms: int, error_scale: Array) -> float:
    """Relative error of variances from the Gram matrix A (m, m), whose entries sum `n_terms`.

    H = D^-1/2 (A + alpha I) D^-1/2 is off by `noise`, as in `cholesky_with_minorant`. To first
    order H^-1 is off by noise ||H^-1||, relative to itself. ||H^-1|| is at most the largest
    diagonal entry of D over alpha, and at most the trace of H^-1, which takes m^3 FLOPs.
    """
    diagonal = np.diag(A) + alpha
    noise = 2 * sum_noise(n_terms) * float((error_scale / diagonal).sum() + len(A))
    error = noise * float(diagonal.max(initial=0.0)) / alpha
    if error > MAX_GRAM_ERROR:
        factor = scaled_cholesky(A, alpha)
        if factor is None:
            return np.inf
        error = min(error, noise * float(((factor.inverse_factor * factor.scale) ** 2).sum()))
    return error / (1 - error) if error < 0.5 else np.inf


def dof_rounding(problem: Problem, dof: Array) -> Array:
    """Bounds (t,) on the rounding error of degrees of freedom (t,) from the eigenvalues of X'X.

    If X'X is off by E in norm, the degrees of freedom are off by at most alpha E trace (X'X + alpha
    I)^-2, over the k = min(n, p) eigenvalues, which is at most E (k - dof) / alpha.
    """
    n, p = problem.shape
    noise = 4 * sum_noise(n, p) * float(problem.gram_error_scale.sum())
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        errors = noise * np.maximum(min(n, p) - dof, 0.0) / problem.alphas
    return np.asarray(np.fmin(errors, float(min(n, p))) + 8 * EPS * min(n, p))


def _svd_error(problem: Problem) -> Array:
    """Relative errors of variances from singular values, (t,).

    If X is off by E in norm, H = X'X + alpha I is off by 2 E / sqrt(alpha) + E^2 / alpha, relative
    to itself, because ||X H^-1/2|| <= 1 and ||H^-1/2|| <= 1 / sqrt(alpha). The error of the column
    means is orthogonal to the centred X, so that only its square counts.
    """
    n, p = problem.shape
    raw = float(np.linalg.norm(problem.raw_column_norms))
    rounding = sum_noise(n, p) * float(np.linalg.norm(problem.safe_column_norms)) + EPS * raw
    with np.errstate(over="ignore"):
        mean_error = (rounding + sum_noise(n) * raw) ** 2 / problem.alphas
        errors = 2 * rounding / np.sqrt(problem.alphas) + mean_error
    with np.errstate(divide="ignore"):
        return np.where(errors < 0.5, errors / (1 - np.minimum(errors, 0.5)), np.inf)


def _draw_posterior(
    problem: Problem, alpha: float, solve: Callable[[Problem], Array], rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draws d (p, n_draws) with covariance (X'X + alpha I)^-1, and their ||X d||^2 (n_draws,).

    d = w + b with b ~ N(0, I / alpha), where w is the ridge solution for the target e - X b,
    e ~ N(0, I). Then (X'X + alpha I) d = X'e + alpha b, which has the covariance X'X + alpha I. All
    draws take one fit, with a target for each.
    """
    n, p = problem.shape
    B = rng.standard_normal((p, N_POSTERIOR_DRAWS)) / np.sqrt(alpha)
    targets = rng.standard_normal((n, N_POSTERIOR_DRAWS)) - problem.design.matmat(B)
    drawn = replace(
        problem,
        targets=targets,
        known_moments=None,
        alphas=np.full(N_POSTERIOR_DRAWS, alpha),
        raw_target_norms=np.linalg.norm(targets, axis=0),
    )
    D = solve(drawn) + B
    return D, np.linalg.norm(problem.design.matmat(D), axis=0) ** 2


def _inverse_factor(A: Array, alpha: float) -> Array:
    """M (m, m) with M'M = (A + alpha I)^-1, for a Gram matrix A (m, m)."""
    # Rounding may make A + alpha I indefinite if alpha is very small, and only then is alpha raised
    # to the rounding error of A. For each column this is taken relative to its own square:
    # EPS trace(A) may exceed the squares of small columns, and their variances would be lost.
    by_column = np.maximum(alpha, EPS * len(A) * np.diag(A))
    by_trace = max(alpha, EPS * float(np.trace(A)))
    factor = (
        scaled_cholesky(A, alpha) or scaled_cholesky(A, by_column) or scaled_cholesky(A, by_trace)
    )
    if factor is None:
        raise InvalidInputError(
            "model",
            "has a matrix X'X + alpha I that is not positive definite, so it is damaged",
            "fit the model again",
        )
    return factor.inverse_factor


def _complement_error(k: int, dof: Array, rounding: Array) -> Array:
    """Errors (t,) of degrees of freedom, k - alpha trace H^-1; H^-1 is off by `rounding` (t,)."""
    with np.errstate(invalid="ignore"):
        errors = np.maximum(k - dof, 0.0) * rounding
    return np.fmin(np.where(np.isnan(errors), np.inf, errors) + 8 * EPS * k, float(k))


def _difference_error(rounding: Array, alphas: Array, diagonal: Array) -> Array:
    """Relative errors (t,) of a diagonal (p, t) that was computed as (1 - q_j) / alpha.

    q_j is off by `rounding` (t,), which is large beside 1 - q_j if the entry is far below
    1 / alpha.
    """
    with np.errstate(over="ignore", divide="ignore"):
        errors = (rounding + 8 * EPS) / np.minimum(alphas * diagonal.min(axis=0), 1.0)
    return np.where(errors < 0.5, errors, np.inf)


def _row_squares(rows: Array) -> Array:
    """||x||^2 for each row x of `rows` (k, m), (k,)."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _squared_products(vectors: Array, rows: Array) -> Array:
    """(v'x)^2 for each row x of `rows` (k, m) and each row v of `vectors` (r, m), (k, r)."""
    return np.asarray((rows @ vectors.T) ** 2)


def _mapped_row_squares(M: Array, rows: Array) -> Array:
    """||M x||^2 for each row x of `rows` (k, m), (k,)."""
    return _row_squares(rows @ M.T)
