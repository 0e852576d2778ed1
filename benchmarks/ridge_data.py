"""Ridge problems to race on, their reference solutions, and the error that every racer must reach.

The reference uses nothing of ling: it judges ling too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import fft, linalg, sparse
from scipy.sparse.linalg import LinearOperator, cg

from benchmarks.foundation import random_csr

Array = np.ndarray
Data = tuple[Any, Array]

# The paper draws coefficients from [-REACH, REACH].
MAX_COEF = 2.5
INTERCEPT = 3.0
BLOCK = 2**24
# Rows or columns up to which the reference forms a Gram matrix of sparse X.
MAX_SPARSE_GRAM = 6000


@dataclass(frozen=True, eq=False)
class Problem:
    """Minimise ||y - Xw - b||^2 + alpha ||w||^2. y has one column a target, or one dimension."""

    X: Any = field(repr=False)
    y: Array = field(repr=False)
    alpha: float
    threads: int
    seed: int

    @property
    def is_sparse(self) -> bool:
        return sparse.issparse(self.X)

    @property
    def n_entries(self) -> int:
        return int(self.X.nnz if self.is_sparse else self.X.size)

    @property
    def n_targets(self) -> int:
        return 1 if self.y.ndim == 1 else self.y.shape[1]

    @cached_property
    def offset(self) -> Array:
        # SciPy takes the mean of sparse X in its own dtype, whatever is passed as `dtype`.
        X = self.X.astype(np.float64) if self.is_sparse else self.X
        return np.asarray(X.mean(axis=0, dtype=np.float64)).ravel()

    @cached_property
    def targets(self) -> Array:
        """y - mean(y) in float64, always with two dimensions."""
        y = self.y.reshape(len(self.y), -1).astype(np.float64)
        return y - y.mean(axis=0)


@dataclass(frozen=True, eq=False)
class Fit:
    """`coef` has a row a feature and a column a target."""

    coef: Array
    intercept: Array

    @staticmethod
    def of(estimator: Any) -> Fit:
        """From an estimator that follows scikit-learn, whose `coef_` lies the other way round."""
        intercept = np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
        coef = np.asarray(estimator.coef_, dtype=np.float64).reshape(len(intercept), -1).T
        return Fit(coef, intercept)


# Data


def steep(n: int, p: int) -> Array:
    """The singular values of the paper's Model 1."""
    d = np.full(p, 0.1)
    d[:30] = 1.3 ** np.arange(40.0, 10.0, -1.0)
    return d


def flat_with_spikes(n: int, p: int) -> Array:
    """The singular values of the paper's Model 3, evenly spaced instead of drawn."""
    d = np.linspace(np.sqrt(n), np.sqrt(n) / 2, p)
    d[:15] *= 10
    return d


def power_law(n: int, p: int) -> Array:
    """sqrt(n) / i: the singular values of X / sqrt(n), which lambda is compared with, are 1/i."""
    return np.sqrt(n) / np.arange(1, p + 1)


def slow_power_law(n: int, p: int) -> Array:
    """1/i, scaled so that the entries of X have mean square 1: over a thousand of them matter."""
    d = 1.0 / np.arange(1, p + 1)
    return np.asarray(d * np.sqrt(n * p / np.sum(d**2)))


def everywhere(p: int) -> Array:
    return np.ones(p, dtype=bool)


def ends(p: int) -> Array:
    """Where Model 3's coefficients are not zero: the first 15 and the last two thirds."""
    mask = everywhere(p)
    mask[15 : p - (2 * p) // 3] = False
    return mask


def spectral(
    rng: Generator,
    n: int,
    p: int,
    spectrum: Callable[[int, int], Array],
    support: Callable[[int], Array] = everywhere,
    noise: float | None = None,
    n_targets: int | None = None,
    dtype: str = "float64",
) -> Data:
    """X = Z diag(d) C' with Gaussian Z and a cosine transform C, of randomly ordered frequencies.

    C is orthogonal and costs n p log p. A QR factorisation instead would give other features, but
    to every rotation-invariant algorithm the same problem.
    """
    order = rng.permutation(p)
    X = rng.standard_normal((n, p))
    X *= spectrum(n, p)[order] / np.sqrt(n)
    shape = (p,) if n_targets is None else (p, n_targets)
    gamma = rng.uniform(-MAX_COEF, MAX_COEF, shape)
    gamma[~support(p)] = 0.0
    y = noisy(rng, X @ gamma[order], noise)
    X = fft.dct(X, axis=1, norm="ortho", overwrite_x=True)
    X += rng.standard_normal(p) * np.sqrt(np.mean(np.square(X[:1000])))
    return X.astype(dtype, copy=False), y.astype(dtype, copy=False)


def noisy(rng: Generator, mean: Array, noise: float | None) -> Array:
    """With an intercept, and half as much noise as signal if `noise` is not given."""
    level = np.std(mean) / 2 if noise is None else noise
    return mean + INTERCEPT * level + level * rng.standard_normal(mean.shape)


def linear(rng: Generator, X: Any) -> Data:
    return X, noisy(rng, X @ rng.uniform(-MAX_COEF, MAX_COEF, X.shape[1]), None)


def correlated(rng: Generator, n: int, p: int) -> Data:
    """Standard normal numbers through a random mixing of the columns."""
    X = rng.standard_normal((n, p)) @ (np.eye(p) + rng.standard_normal((p, p)) / np.sqrt(p))
    X += rng.standard_normal(p)
    return linear(rng, X)


def factors(rng: Generator, n: int, p: int, rank: int = 5) -> Data:
    """Standard normal numbers and a few strong factors."""
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    X += rng.standard_normal((n, p))
    X += rng.standard_normal(p)
    return linear(rng, X)


def zipf(rng: Generator, n: int, p: int, per_row: int) -> Data:
    """Like text: the columns are drawn by Zipf's law. Draws that coincide become one entry."""
    X = random_csr(rng, n, p, per_row, zipf=True)
    X.sum_duplicates()
    return linear(rng, X)


MODEL_1 = partial(spectral, spectrum=steep, noise=1.0)
MODEL_3 = partial(spectral, spectrum=flat_with_spikes, support=ends, noise=1.0)
POWER_LAW = partial(spectral, spectrum=power_law)


# Reference and error


def blocks(length: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK // width)
    return (slice(start, start + step) for start in range(0, length, step))


def product(problem: Problem, V: Array) -> Array:
    """(X - 1 offset') V in float64, whatever the dtype of X, without a second X."""
    X, shift = problem.X, problem.offset @ V
    if problem.is_sparse:
        return X @ V - shift
    rows = blocks(*X.shape)
    return np.concatenate([X[part].astype(np.float64, copy=False) @ V - shift for part in rows])


def adjoint(problem: Problem, U: Array) -> Array:
    """(X - 1 offset')' U in float64."""
    X, shift = problem.X, np.outer(problem.offset, U.sum(axis=0))
    if problem.is_sparse:
        return X.T @ U - shift
    rows = blocks(*X.shape)
    return sum(X[part].astype(np.float64, copy=False).T @ U[part] for part in rows) - shift


def gradient(problem: Problem, coef: Array) -> Array:
    residual = problem.targets - product(problem, coef)
    return adjoint(problem, residual) - problem.alpha * coef


def dense_gram(problem: Problem) -> Array:
    """X'X of the centred X."""
    X, p = problem.X, problem.X.shape[1]
    gram = np.zeros((p, p))
    for rows in blocks(*X.shape):
        block = X[rows] - problem.offset
        gram += block.T @ block
    return gram


def sparse_gram(problem: Problem) -> Array:
    """X'X of the centred X, which is X'X less n times the product of the means."""
    X = problem.X.astype(np.float64)
    return (X.T @ X).toarray() - X.shape[0] * np.outer(problem.offset, problem.offset)


def dense_kernel(problem: Problem) -> Array:
    """XX' of the centred X."""
    X, n = problem.X, problem.X.shape[0]
    kernel = np.zeros((n, n))
    for columns in blocks(*X.shape[::-1]):
        block = X[:, columns] - problem.offset[columns]
        kernel += block @ block.T
    return kernel


def sparse_kernel(problem: Problem) -> Array:
    """XX' of the centred X."""
    X, mean = problem.X.astype(np.float64), problem.offset
    shift = X @ mean
    return (X @ X.T).toarray() - shift[:, None] - shift + mean @ mean


def primal(problem: Problem) -> Callable[[Array], Array]:
    """(X'X + alpha I)^{-1}, X centred."""
    gram = sparse_gram(problem) if problem.is_sparse else dense_gram(problem)
    np.fill_diagonal(gram, gram.diagonal() + problem.alpha)
    factor = linalg.cho_factor(gram, overwrite_a=True)
    return lambda g: linalg.cho_solve(factor, g)


def dual(problem: Problem) -> Callable[[Array], Array]:
    """The same inverse as (I - X'(XX' + alpha I)^{-1} X) / alpha, for fewer rows than columns."""
    kernel = sparse_kernel(problem) if problem.is_sparse else dense_kernel(problem)
    np.fill_diagonal(kernel, kernel.diagonal() + problem.alpha)
    factor = linalg.cho_factor(kernel, overwrite_a=True)

    def inverse(g: Array) -> Array:
        inner = linalg.cho_solve(factor, product(problem, g))
        return (g - adjoint(problem, inner)) / problem.alpha

    return inverse


def iterated(problem: Problem) -> Callable[[Array], Array]:
    """The same inverse by conjugate gradients, one target after the other, for sparse X."""
    X, p = problem.X, problem.X.shape[1]
    squares = np.asarray(X.multiply(X).sum(axis=0), dtype=np.float64).ravel()
    diagonal = squares - X.shape[0] * problem.offset**2 + problem.alpha

    def normal(v: Array) -> Array:
        v = v.reshape(-1, 1)
        return (adjoint(problem, product(problem, v)) + problem.alpha * v).ravel()

    operator = LinearOperator((p, p), matvec=normal, dtype=np.float64)
    scaling = LinearOperator((p, p), matvec=lambda v: v.ravel() / diagonal, dtype=np.float64)
    return lambda g: np.column_stack([cg(operator, v, rtol=1e-8, M=scaling)[0] for v in g.T])


def reference(problem: Problem, max_bound: float = 1e-7) -> Fit:
    """The exact solution: solved, refined twice against X itself, and proved.

    ||X (w - w*)|| <= ||gradient|| / sqrt(alpha) whatever w is, so a bad reference cannot pass.
    """
    n, p = problem.X.shape
    iterate = problem.is_sparse and min(n, p) > MAX_SPARSE_GRAM
    inverse = (iterated if iterate else primal if p <= n else dual)(problem)
    coef = np.zeros((p, problem.n_targets))
    for _ in range(3):
        step = gradient(problem, coef)
        if _relative_bound(problem, step) <= max_bound / 100:
            break
        coef += inverse(step)
    bound = error_bound(problem, coef)
    if not bound <= max_bound:
        raise ArithmeticError(f"The reference is proved to {bound:.1e}; {max_bound:g} is needed.")
    mean = problem.y.reshape(n, -1).mean(axis=0, dtype=np.float64)
    return Fit(coef, mean - problem.offset @ coef)


def error_bound(problem: Problem, coef: Array) -> float:
    """A bound of the error of coefficients (p, t), up to rounding: ||gradient|| / sqrt(alpha)."""
    return _relative_bound(problem, gradient(problem, coef))


def _relative_bound(problem: Problem, gradient: Array) -> float:
    scale = linalg.norm(problem.targets, axis=0) * np.sqrt(problem.alpha)
    return float(np.max(linalg.norm(gradient, axis=0) / scale))


def error(problem: Problem, exact: Fit, fit: Fit) -> float:
    """||X (w - w*) + b - b*|| / ||y - mean(y)||, the largest over the targets."""
    difference = fit.coef - exact.coef
    shift = problem.offset @ difference + fit.intercept - exact.intercept
    distance = linalg.norm(product(problem, difference) + shift, axis=0)
    return float(np.max(distance / linalg.norm(problem.targets, axis=0)))
