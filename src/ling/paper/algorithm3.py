"""Algorithm 3 of the paper: gradient descent with the optimal step size."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

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


@dataclass(frozen=True, eq=False)
class DescentFit(Fit):
    """`objective[t]` is ||y - X gamma||^2 + n lam ||gamma||^2 after t iterations."""

    objective: Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class DescentResult:
    """Where gradient descent got to: gamma, X gamma, and the objective on the way."""

    gamma: Array
    fitted: Array
    objective: Array


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
    design: Design, target: Array, alpha: float, n_iter: int, start: Array
) -> DescentResult:
    """Algorithm 3 for ||design gamma - target||^2 + alpha ||gamma||^2, alpha = n lam."""
    gamma = start.copy()
    residual = target - design.matmat(gamma) if start.any() else target.copy()
    objective = np.empty(n_iter + 1)
    objective[0] = residual @ residual + alpha * (gamma @ gamma)
    for t in range(n_iter):
        w = 2.0 * (design.rmatmat(residual) - alpha * gamma)
        # w at unit length: the same step, and squares of large or small data stay representable.
        length = linalg.norm(w)
        if length > 0:
            w /= length
            Xw = design.matmat(w)
            step = length / (2.0 * (Xw @ Xw + alpha))
            gamma += step * w
            residual -= step * Xw
        objective[t + 1] = residual @ residual + alpha * (gamma @ gamma)
    return DescentResult(gamma, target - residual, objective)
