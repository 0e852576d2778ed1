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
from ling.linalg.rounding import EPS
from ling.plain_state import register_plain
from ling.solvers.cost_model import MemoryBudget, posterior_bytes
from ling.solvers.problem import Problem

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
    def method(self) -> str:
        """How the posterior was computed, for the user."""
        return "exact"

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
class FromDraws(Posterior):
    """From random draws d with covariance (X'X + alpha I)^-1.

    `draws` has an array (p, n_draws) for each alpha, and `sizes` an array (n_draws,) of ||X d||^2,
    whose mean estimates the effective degrees of freedom.
    """

    draws: dict[float, Array]
    sizes: dict[float, Array]
    alphas: Array

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
        if p <= n:
            return FromGram(problem.gram(), problem.alphas)
        return FromRows(problem.design.take(np.arange(n)), problem.alphas)
    draws, sizes = {}, {}
    for alpha in problem.distinct_alphas:
        draws[float(alpha)], sizes[float(alpha)] = _draw_posterior(
            problem, float(alpha), solve, rng
        )
    return FromDraws(draws, sizes, problem.alphas)


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
        moments=problem.design.rmatmat(targets),
        alphas=np.full(N_POSTERIOR_DRAWS, alpha),
        raw_target_norms=np.linalg.norm(targets, axis=0),
    )
    D = solve(drawn) + B
    return D, np.linalg.norm(problem.design.matmat(D), axis=0) ** 2


def _inverse_factor(A: Array, alpha: float) -> Array:
    """M (m, m) with M'M = (A + alpha I)^-1, for a Gram matrix A (m, m)."""
    # Rounding may make A + alpha I indefinite if alpha is very small, so alpha is raised to the
    # rounding error of A. For each column this is taken relative to its own square: EPS trace(A)
    # may exceed the squares of small columns, and their variances would be lost. It is used only
    # if rounding has left no positive definite matrix otherwise.
    by_column = np.maximum(alpha, EPS * len(A) * np.diag(A))
    by_trace = max(alpha, EPS * float(np.trace(A)))
    factor = scaled_cholesky(A, by_column) or scaled_cholesky(A, by_trace)
    if factor is None:
        raise InvalidInputError(
            "model",
            "has a matrix X'X + alpha I that is not positive definite, so it is damaged",
            "fit the model again",
        )
    return factor.inverse_factor


def _row_squares(rows: Array) -> Array:
    """||x||^2 for each row x of `rows` (k, m), (k,)."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _mapped_row_squares(M: Array, rows: Array) -> Array:
    """||M x||^2 for each row x of `rows` (k, m), (k,)."""
    return _row_squares(rows @ M.T)
