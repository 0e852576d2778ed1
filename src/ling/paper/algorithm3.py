"""Algorithm 3 of the paper: gradient descent with the optimal step size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ling._typing import Array, MatrixLike
from ling.design import Design
from ling.paper.inputs import (
    check_alpha,
    check_count,
    check_design,
    check_start,
    check_target,
)
from ling.paper.results import Fit

#: Whether to stop at `gamma`, given X'(y - X gamma) - n lam gamma, half the negative gradient.
StopTest: TypeAlias = Callable[[Array, Array], bool]


@dataclass(frozen=True, eq=False)
class DescentFit(Fit):
    """`objective[t]` is ||y - X gamma||^2 + n lam ||gamma||^2 after t iterations."""

    objective: Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class DescentResult:
    """Result of gradient descent: gamma, X gamma, and the objective after every iteration.

    For several targets, each array has one column per target.
    """

    gamma: Array
    fitted: Array
    objective: Array

    @property
    def n_iter(self) -> int:
        """The number of iterations."""
        return len(self.objective) - 1


def gradient_descent(
    X: MatrixLike, y: ArrayLike, lam: float, n_iter: int, start: ArrayLike | None = None
) -> DescentFit:
    """Algorithm 3: gamma <- gamma + s w, w the negative gradient and s the best step along it.

    4 n p FLOPs and 2 passes an iteration, one for X'(.) and one for Xw; 2 n p and 1 more if `start`
    is given (default: zero). Q = 2X'X + 2 n lam I is never formed.

    Parameters
    ----------
    X : array, sparse matrix or Design of shape (n, p)
    y : array of shape (n,)
    lam : float
        The paper's lambda, >= 0: scikit-learn's alpha divided by n.
    n_iter : int
        Iterations.
    start : array of shape (p,), default=None
        The first gamma; None for zero.

    Returns
    -------
    DescentFit
        A `Fit`, and the objective after every iteration.

    Examples
    --------
    >>> import numpy as np
    >>> gradient_descent(np.eye(2), np.array([1.0, 3.0]), lam=0.5, n_iter=1).coef
    array([0.5, 1.5])
    """
    design = check_design(X)
    target = check_target(y, design)
    alpha = check_alpha(lam, design.shape[0])
    n_iter = check_count(n_iter, "n_iter", 0)
    end = run_gradient_descent(design, target, alpha, n_iter, check_start(start, design))
    return DescentFit(end.gamma, end.fitted, design.cost, end.objective)


def run_gradient_descent(
    design: Design,
    target: Array,
    alpha: float | Array,
    n_iter: int,
    start: Array,
    should_stop: StopTest | None = None,
) -> DescentResult:
    """Algorithm 3 for ||design gamma - target||^2 + alpha ||gamma||^2, alpha = n lam.

    `target` is (n,), or (n, t) for several targets, each with its own step; `start` is then (p, t),
    and `alpha` a number or (t,). All targets share the passes over X. `should_stop` may end the
    descent before `n_iter` iterations.
    """
    gamma = start.copy()
    residual = target - design.matmat(gamma) if start.any() else target.copy()
    objective = [_objective(residual, gamma, alpha)]
    for _ in range(n_iter):
        w = design.rmatmat(residual) - alpha * gamma  # half of the paper's w_t
        if should_stop is not None and should_stop(gamma, w):
            break
        # w at unit length: the same step, and squares of large or small data stay representable.
        length = _column_norms(w)
        w /= np.where(length > 0, length, 1.0)
        Xw = design.matmat(w)
        curvature = _column_squares(Xw) + alpha
        step = length / np.where(curvature > 0, curvature, 1.0)
        gamma += step * w
        residual -= step * Xw
        objective.append(_objective(residual, gamma, alpha))
    return DescentResult(gamma, target - residual, np.array(objective))


def _objective(residual: Array, gamma: Array, alpha: float | Array) -> Array:
    return np.asarray(_column_squares(residual) + alpha * _column_squares(gamma))


def _column_norms(A: Array) -> Array:
    """The norm of a vector or of each column of a matrix, without overflow or underflow."""
    largest = np.abs(A).max(axis=0, initial=0.0)
    scale = np.where(largest > 0, largest, 1.0)
    return np.asarray(scale * np.sqrt(_column_squares(A / scale)))


def _column_squares(A: Array) -> Array:
    """The sum of squares of a vector, or of each column of a matrix."""
    return np.asarray(np.einsum("i...,i...->...", A, A))
