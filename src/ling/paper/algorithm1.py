"""Algorithm 1 of the paper, LING, and its closing conjecture, LING with SVRG."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ling._typing import Array, MatrixLike, Seed
from ling.design import Design
from ling.errors import InputTypeError, ShapeError
from ling.paper.algorithm2 import PartialSVD, find_range, randomized_svd
from ling.paper.algorithm3 import run_gradient_descent
from ling.paper.inputs import (
    as_generator,
    check_alpha,
    check_count,
    check_design,
    check_rank,
    check_start,
    check_target,
)
from ling.paper.results import Fit
from ling.paper.svrg_solver import run_svrg
from ling.results import Cost


@dataclass(frozen=True, eq=False)
class LingFit(Fit):
    """`gamma1` (shrunk) and `gamma2`, the output of Algorithm 1: fitted = U1 gamma1 + X_r gamma2.

    `objective[t]` is that of stage 2 after t iterations.
    """

    gamma1: Array = field(repr=False)
    gamma2: Array = field(repr=False)
    objective: Array = field(repr=False)


@dataclass(frozen=True, eq=False)
class LingSvrgFit(Fit):
    """The same with stage 2 by SVRG: its step, and what choosing it cost, apart from `cost`."""

    gamma1: Array = field(repr=False)
    gamma2: Array = field(repr=False)
    step: float
    tuning_cost: Cost


@dataclass(frozen=True, eq=False)
class FirstStage:
    """Regression of y on U, an orthonormal basis with U = X map, and the residuals of y and X.

    `gamma1` is shrunk, and `gamma1_cut` is what shrinking has removed. For several targets,
    `gamma1`, `gamma1_cut` and `y_residual` have one column per target.
    """

    U: Array
    map: Array
    UtX: Array
    gamma1: Array
    gamma1_cut: Array
    y_residual: Array
    X_residual: Design

    def for_targets(self, targets: slice) -> FirstStage:
        """The first stage of the given targets alone."""
        return replace(
            self,
            gamma1=self.gamma1[:, targets],
            gamma1_cut=self.gamma1_cut[:, targets],
            y_residual=self.y_residual[:, targets],
        )

    def coef(self, gamma2: Array) -> Array:
        """Coefficients of the features for both stages together.

        X_r = X (I - map U'X), so both stages are linear in the features and carry to new rows.
        """
        return self.map @ (self.gamma1 - self.UtX @ gamma2) + gamma2

    def combine(self, gamma2: Array, X_left_gamma2: Array) -> tuple[Array, Array, Array, Array]:
        """coef, fitted, gamma1 and gamma2 of the whole fit."""
        fitted = self.U @ self.gamma1 + X_left_gamma2
        return self.coef(gamma2), fitted, self.gamma1, gamma2

    def ridge_gradient(self, gamma2: Array, gradient2: Array, alpha: float | Array) -> Array:
        """X'(y - Xw) - alpha w for the coefficients w of both stages; no pass.

        `gradient2` is X_r'(y_r - X_r gamma2) - alpha gamma2, which stage 2 computes anyway. The
        residual y - Xw is that of stage 2 plus U gamma1_cut, and U is orthogonal to the former.
        """
        return gradient2 + self.UtX.T @ self.gamma1_cut + alpha * (gamma2 - self.coef(gamma2))


def ling(
    X: MatrixLike,
    y: ArrayLike,
    lam: float,
    k: int,
    n_iter: int,
    power: int = 1,
    shrink: bool = True,
    random_state: Seed = None,
    *,
    svd: PartialSVD | None = None,
    start: ArrayLike | None = None,
) -> LingFit:
    """Algorithm 1: shrunken regression on the top k components, gradient descent on what is left.

    Stage 1 costs Algorithm 2: (4 power + 4) n p k FLOPs in products, power + 2 passes. Stage 2
    costs 4 n p + 4 k (n + p) FLOPs and 2 passes an iteration: X_r = X - U1 U1'X is a rank-k
    correction of X, never stored.

    shrink=False is the simplified version of section 2.1, with Q1 in place of U1. `svd` replaces
    Algorithm 2 (`exact_svd` is what the theorems assume); `start` is stage 2's first gamma2.

    With U1 approximate the limit of LING is near ridge, not equal to it.

    Parameters
    ----------
    X : array, sparse matrix or Design of shape (n, p)
    y : array of shape (n,)
    lam : float
        The paper's lambda, >= 0: scikit-learn's alpha divided by n.
    k : int
        How many components.
    n_iter : int
        Iterations of stage 2.
    power : int, default=1
        Powers of XX' in Algorithm 2: more of them, nearer to the true components.
    shrink : bool, default=True
        False is the simplified version of section 2.1, with Q1 in place of U1.
    random_state : int, Generator or None, default=None
    svd : PartialSVD, default=None
        Components to use instead of those of Algorithm 2; `exact_svd` is what the theorems assume.
    start : array of shape (p,), default=None
        The first gamma2; None for zero.

    Returns
    -------
    LingFit
        A `Fit`, with `gamma1`, `gamma2` and the objective of stage 2.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((50, 10)), rng.standard_normal(50)
    >>> fit = ling(X, y, lam=0.1, k=3, n_iter=20, random_state=0)
    >>> bool(np.allclose(X @ fit.coef, fit.fitted))
    True
    """
    design = check_design(X)
    target = check_target(y, design)
    alpha = check_alpha(lam, design.shape[0])
    n_iter = check_count(n_iter, "n_iter", 0)
    first = check_start(start, design)
    stage1 = first_stage(design, target, alpha, k, power, shrink, random_state, svd)
    end = run_gradient_descent(stage1.X_residual, stage1.y_residual, alpha, n_iter, first)
    coef, fitted, gamma1, gamma2 = stage1.combine(end.gamma, end.fitted)
    return LingFit(coef, fitted, design.cost, gamma1, gamma2, end.objective)


def ling_svrg(
    X: MatrixLike,
    y: ArrayLike,
    lam: float,
    k: int,
    n_passes: int,
    step: float | None = None,
    random_state: Seed = None,
    *,
    power: int = 1,
    shrink: bool = True,
    svd: PartialSVD | None = None,
) -> LingSvrgFit:
    """LING with stage 2 by SVRG: the paper's closing conjecture is that stage 1 speeds SVRG up.

    Arguments and costs as for `ling` and `svrg`; a row of X_r costs O(k) more than a row of X.

    Parameters
    ----------
    X : array, sparse matrix or Design of shape (n, p)
    y : array of shape (n,)
    lam : float
        The paper's lambda, >= 0: scikit-learn's alpha divided by n.
    k : int
        How many components.
    n_passes : int
        Steps, in units of n.
    step : float, default=None
        The length of a step; None has it chosen by cross-validation.
    random_state : int, Generator or None, default=None
    power, shrink, svd
        As for `ling`.

    Returns
    -------
    LingSvrgFit
        A `Fit`, with `gamma1`, `gamma2` and the step of stage 2.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.standard_normal((50, 10)), rng.standard_normal(50)
    >>> ling_svrg(X, y, lam=0.1, k=3, n_passes=5, step=0.02, random_state=0).coef.shape
    (10,)
    """
    design = check_design(X)
    target = check_target(y, design)
    alpha = check_alpha(lam, design.shape[0])
    rng = as_generator(random_state)
    stage1 = first_stage(design, target, alpha, k, power, shrink, rng, svd)
    end = run_svrg(stage1.X_residual, stage1.y_residual, float(lam), n_passes, step, rng)
    coef, fitted, gamma1, gamma2 = stage1.combine(end.gamma, stage1.X_residual.matmat(end.gamma))
    return LingSvrgFit(coef, fitted, design.cost, gamma1, gamma2, end.step, end.tuning_cost)


def first_stage(
    design: Design,
    target: Array,
    alpha: float | Array,
    k: Any,
    power: Any = 1,
    shrink: bool = True,
    random_state: Seed = None,
    svd: PartialSVD | None = None,
) -> FirstStage:
    """Steps 1, 2, 3 and 5 of Algorithm 1.

    `target` is (n,), or (n, t) for several targets; `alpha` is then a number or (t,).
    """
    if not isinstance(shrink, bool | np.bool_):
        raise InputTypeError("shrink", f"is {shrink!r}", "pass True or False")
    share: Array = np.ones(1)
    U: Array
    to_features: Array
    UtX: Array
    if shrink or svd is not None:
        found = randomized_svd(design, k, power, random_state) if svd is None else svd
        _check_svd(found, design, check_rank(k, design))
        U, to_features, UtX = found.U, found.map, found.d[:, None] * found.Vt
        if shrink:
            squares = found.d**2
            share = np.asarray(squares / (squares + np.asarray(alpha)[..., None])).T  # (k,), (k, t)
    else:
        basis = find_range(design, k, power, random_state)
        U, to_features, UtX = basis.Q, basis.map, design.rmatmat(basis.Q).T
    gamma1 = U.T @ target
    shrunk = share * gamma1
    return FirstStage(
        U,
        to_features,
        UtX,
        shrunk,
        gamma1 - shrunk,
        target - U @ gamma1,
        design.low_rank_corrected(U, UtX.T),
    )


def _check_svd(svd: PartialSVD, design: Design, k: int) -> None:
    n, p = design.shape
    if not isinstance(svd, PartialSVD):
        raise InputTypeError(
            "svd",
            f"is a {type(svd).__name__}",
            "pass the result of random_svd(X, k) or exact_svd(X, k)",
        )
    if svd.U.shape[0] != n or svd.Vt.shape[1] != p or svd.d.size > k:
        raise ShapeError(
            "svd",
            f"has U of shape {svd.U.shape} and Vt of shape {svd.Vt.shape}, but `X` and `k` need "
            f"({n}, {k}) and ({k}, {p})",
            "pass the result of random_svd(X, k) or exact_svd(X, k)",
        )
