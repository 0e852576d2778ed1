"""What is known of w after a fit: (X'X + alpha I)^-1, exactly or from random draws.

Under the Gaussian model y ~ N(Xw, s^2 I), w ~ N(0, s^2 / alpha I), ridge regression is the mean of
w given y, and s^2 (X'X + alpha I)^-1 its covariance. Its trace with X'X is the effective number of
degrees of freedom.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy import linalg

from ling._typing import Array
from ling.design import Design
from ling.linalg.gram import form_gram
from ling.linalg.potrf import potrf
from ling.linalg.rounding import EPS
from ling.solvers.problem import Problem

# Draws of w for each alpha: variances from them have a relative standard error of sqrt(2 / draws).
N_POSTERIOR_DRAWS = 128
# Up to this many bytes are kept without being asked for.
MAX_FREE_POSTERIOR_BYTES = 2**23


class Posterior(ABC):
    """(X'X + alpha I)^-1, for the alpha of every target."""

    alphas: Array

    @property
    @abstractmethod
    def effective_dof(self) -> Array:
        """trace X'X (X'X + alpha I)^-1, target by target."""

    @property
    @abstractmethod
    def inverse_diagonal(self) -> Array:
        """The diagonal of the inverse, (p, t)."""

    @abstractmethod
    def quadratic_forms(self, rows: Design) -> Array:
        """x'(X'X + alpha I)^-1 x for each row x, (n_rows, t)."""

    @property
    def method(self) -> str:
        """How it was found."""
        return "exact"


@dataclass(frozen=True, eq=False)
class FromGram(Posterior):
    """By the Cholesky factor of X'X + alpha I, made when it is asked for; p^2 numbers."""

    gram: Array
    alphas: Array

    @cached_property
    def _inverse_factors(self) -> dict[float, Array]:
        """L^-1 for each alpha: the inverse is L^-T L^-1."""
        return {
            float(alpha): _inverse_cholesky(self.gram, alpha) for alpha in np.unique(self.alphas)
        }

    @cached_property
    def inverse_diagonal(self) -> Array:
        """Sums of squares of the columns of L^-1."""
        found = {a: np.einsum("ij,ij->j", M, M) for a, M in self._inverse_factors.items()}
        return np.column_stack([found[float(alpha)] for alpha in self.alphas])

    @property
    def effective_dof(self) -> Array:
        """p - alpha trace (X'X + alpha I)^-1."""
        return np.asarray(len(self.gram) - self.alphas * self.inverse_diagonal.sum(axis=0))

    def quadratic_forms(self, rows: Design) -> Array:
        """||L^-1 x||^2."""
        found = {}
        for alpha, M in self._inverse_factors.items():
            found[alpha] = rows.map_rows(partial(_mapped_row_squares, M))
        return np.column_stack([found[float(alpha)] for alpha in self.alphas])


@dataclass(frozen=True, eq=False)
class FromRows(Posterior):
    """For p > n: (I - X'(X X' + alpha I)^-1 X) / alpha; n p numbers."""

    rows: Array
    alphas: Array

    @cached_property
    def _whitened_rows(self) -> dict[float, Array]:
        """L^-1 X for each alpha, L L' = X X' + alpha I."""
        K = form_gram(self.rows.T)
        return {float(a): _inverse_cholesky(K, a) @ self.rows for a in np.unique(self.alphas)}

    @cached_property
    def inverse_diagonal(self) -> Array:
        """What is left of 1 / alpha, but not less than each feature alone would leave."""
        squares = np.einsum("ij,ij->j", self.rows, self.rows)
        found = {}
        for alpha, half in self._whitened_rows.items():
            left = (1 - np.einsum("ij,ij->j", half, half)) / alpha
            found[alpha] = np.maximum(left, 1 / (squares + alpha))
        return np.column_stack([found[float(alpha)] for alpha in self.alphas])

    @property
    def effective_dof(self) -> Array:
        """trace X'(X X' + alpha I)^-1 X."""
        found = {alpha: float((half**2).sum()) for alpha, half in self._whitened_rows.items()}
        return np.array([found[float(alpha)] for alpha in self.alphas])

    def quadratic_forms(self, rows: Design) -> Array:
        """(||x||^2 - ||L^-1 X x||^2) / alpha."""
        squares = rows.map_rows(_row_squares)
        found = {}
        for alpha, half in self._whitened_rows.items():
            left = squares - rows.map_rows(partial(_mapped_row_squares, half))
            found[alpha] = np.maximum(left, EPS * squares) / alpha
        return np.column_stack([found[float(alpha)] for alpha in self.alphas])


@dataclass(frozen=True, eq=False)
class FromDraws(Posterior):
    """From draws d with covariance (X'X + alpha I)^-1; `draws` is (p, n_draws) for each alpha.

    `sizes` are ||X d||^2, whose mean is the trace.
    """

    draws: dict[float, Array]
    sizes: dict[float, Array]
    alphas: Array

    @property
    def inverse_diagonal(self) -> Array:
        """Mean squares of the draws."""
        return np.column_stack([(self.draws[float(a)] ** 2).mean(axis=1) for a in self.alphas])

    @property
    def effective_dof(self) -> Array:
        """The mean of ||X d||^2."""
        return np.array([self.sizes[float(alpha)].mean() for alpha in self.alphas])

    def quadratic_forms(self, rows: Design) -> Array:
        """The mean of (x'd)^2."""
        found = {a: (rows.matmat(D) ** 2).mean(axis=1) for a, D in self.draws.items()}
        return np.column_stack([found[float(alpha)] for alpha in self.alphas])

    @property
    def method(self) -> str:
        """With its relative standard error."""
        n_draws = next(iter(self.draws.values())).shape[1]
        return f"from {n_draws} random draws: variances have {np.sqrt(2 / n_draws):.0%} error"


def cheap_posterior(problem: Problem) -> Posterior | None:
    """What can be kept for next to nothing: None if it would take much, or alpha is 0."""
    n, p = problem.shape
    if (problem.alphas == 0).any() or 8 * p * min(n, p) > MAX_FREE_POSTERIOR_BYTES:
        return None
    if p <= n and problem.gram_cache.gram is not None:
        return FromGram(problem.gram_cache.gram, problem.alphas)
    return FromRows(problem.design.take(np.arange(n)), problem.alphas) if p > n else None


def compute_posterior(
    problem: Problem, budget: float, solve: Callable[[Problem], Array], rng: np.random.Generator
) -> Posterior:
    """Exactly where memory allows a factorisation, and from draws otherwise.

    `solve` gives the coefficients of a problem like this one.
    """
    n, p = problem.shape
    copies = 2 + len(problem.distinct_alphas)
    if 8.0 * copies * p * min(n, p) <= budget:
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
    """d = w + b: b ~ N(0, I / alpha), w the ridge fit to e - X b, e ~ N(0, I).

    Then (X'X + alpha I) d = X'e + alpha b, whose covariance is X'X + alpha I. That is one fit with
    a target for each draw.
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


def _inverse_cholesky(A: Array, alpha: float) -> Array:
    """L^-1 with L L' = A + alpha I."""
    H = A.copy()
    H[np.diag_indices_from(H)] += max(float(alpha), EPS * float(np.trace(A)))
    factor, info = potrf(H, lower=True, clean=True, overwrite=True)
    if info:
        raise linalg.LinAlgError(f"the leading minor of order {info} is not positive")
    found: Array = linalg.lapack.dtrtri(factor, lower=True)[0]
    return found


def _row_squares(rows: Array) -> Array:
    """||x||^2 for each row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _mapped_row_squares(M: Array, rows: Array) -> Array:
    """||M x||^2 for each row."""
    return _row_squares(rows @ M.T)
