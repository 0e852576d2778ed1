"""`ridge_path`: coefficients for a grid of alphas, from one factorisation or one subspace."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from ling._typing import Array
from ling.design import as_design
from ling.design.row_source import verify_memmaps_unchanged
from ling.errors import BadOption
from ling.estimators.fit import FitOptions, plan_for
from ling.estimators.session import rollback_on_error
from ling.estimators.validation import (
    as_target_matrix,
    check_same_columns,
    check_sample_weight,
    check_training_data,
    open_prediction_data,
)
from ling.model_selection import CVProblem, check_alphas, default_alpha_grid
from ling.model_selection.alpha_grid import DEFAULT_N_ALPHAS
from ling.model_selection.path import expected_path_cost, solution_path
from ling.progress import stage
from ling.results import Cost
from ling.solvers import problem as problems
from ling.solvers.engine import as_generator


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Ridge regression coefficients for every alpha of a grid; `print` it for a summary.

    All arrays are float64, whatever the dtype of X. With several targets the axis of targets
    follows the axis of alphas.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
    coef : array of shape (n_alphas, n_features) or (n_alphas, n_targets, n_features)
    intercept : array of shape (n_alphas,) or (n_alphas, n_targets)
    bounds : array of the shape of `intercept`
        Proven upper bounds of the errors of the training predictions, relative to
        the norm of y about its mean, as for `tol` of `Ridge`.
    training_error : array of the shape of `intercept`
        Mean weighted squared error on the training data: the sum of weight times squared residual,
        divided by the number of samples with a weight above 0.
    tol : float
        The requested accuracy: `bounds` should be at most this.
    method : str
        How the path was computed: by one factorisation, or by iterating on one subspace.
    seconds : float
        Wall time.
    cost : Cost
        Passes over X and FLOPs.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,) or None
    encoding_ : Encoding or None
        How the columns of a table are encoded as numbers.
    """

    alphas: Array
    coef: Array
    intercept: Array
    bounds: Array
    training_error: Array
    tol: float
    method: str
    seconds: float
    cost: Cost
    n_features_in_: int
    feature_names_in_: Any = field(repr=False)
    encoding_: Any = field(repr=False)
    _compute_edf: Callable[[], tuple[Array, Array]] = field(repr=False)

    @property
    def edf(self) -> Array:
        """Effective degrees of freedom (n_alphas,), not counting the intercept.

        They are exact if X'X was factored. Otherwise they are estimated from X on first access.
        """
        return self._edf_and_std_error[0]

    @property
    def edf_error(self) -> Array:
        """Standard errors (n_alphas,) of `edf`; 0 where it is exact."""
        return self._edf_and_std_error[1]

    @cached_property
    def _edf_and_std_error(self) -> tuple[Array, Array]:
        return self._compute_edf()

    def __getstate__(self) -> dict[str, Any]:
        _ = self._edf_and_std_error  # computed now, because X is not pickled
        return {name: value for name, value in self.__dict__.items() if name != "_compute_edf"}

    @property
    def certified(self) -> Array:
        """Booleans (n_alphas,): True if the bounds of all targets are at most tol."""
        bounds = self.bounds.reshape(len(self.alphas), -1)
        return np.asarray((bounds <= self.tol).all(axis=1))

    def predict(self, X: Any) -> Array:
        """Predictions for all alphas: (n_samples, n_alphas) or (n_samples, n_alphas, n_targets)."""
        coef_rows = self.coef.reshape(-1, self.coef.shape[-1])
        design = open_prediction_data(self, X) or as_design(X)
        check_same_columns(self, design.shape[1], None)
        with verify_memmaps_unchanged(X):
            products = design.matmat(coef_rows.T.astype(np.float64))
        return np.asarray(products.reshape(len(products), *self.coef.shape[:-1]) + self.intercept)

    def __str__(self) -> str:
        low, high = self.alphas.min(), self.alphas.max()
        n_certified = int(np.count_nonzero(self.certified))
        return (
            f"{len(self.alphas)} alphas from {low:.3g} to {high:.3g} by {self.method} in "
            f"{self.cost.passes:.3g} passes over X, {self.cost.flops / 1e9:.3g} GFLOPs, "
            f"{self.seconds:.3g} s. {n_certified} of them are certified within {self.tol:g}."
        )


class _ValidationEstimator(BaseEstimator):
    """Stand-in for the estimator that scikit-learn's validation needs; its messages name it."""

    def __init__(self, memory_budget: float | str | None = None, verbose: int = 0) -> None:
        self.memory_budget = memory_budget
        self.verbose = verbose


_ValidationEstimator.__name__ = "ridge_path"


def ridge_path(
    X: Any, y: Any, alphas: Any = None, *, sample_weight: Any = None, fit_intercept: bool = True,
    tol: float = 1e-4, random_state: Any = None, memory_budget: float | str | None = None,
    verbose: int = 0,
) -> RidgePath:  # fmt: skip
    """Minimise ||y - Xw - b||^2 + alpha ||w||^2 for every alpha, each to a proven accuracy.

    All alphas share one Gram matrix and its tridiagonal form, or one subspace.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)
    y : array of shape (n_samples,) or (n_samples, n_targets)
    alphas : array of shape (n_alphas,), default=None
        The penalties, all above 0. None for 30 values over 9 decades below the trace of X'X.
    sample_weight : array of shape (n_samples,), default=None
    fit_intercept, tol, random_state, memory_budget, verbose
        As for `Ridge`.

    Returns
    -------
    RidgePath
        `alphas`, `coef`, `intercept`, `bounds`, `edf` and more; `print` it for a summary.

    Examples
    --------
    >>> import numpy as np
    >>> from ling import ridge_path
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> path = ridge_path(X, X @ np.arange(5.0), alphas=[0.1, 1.0, 10.0])
    >>> path.coef.shape
    (3, 5)
    """
    if isinstance(tol, bool) or not isinstance(tol, Real) or not tol >= 0:
        raise BadOption(f"tol is {tol!r}; pass a number >= 0.")
    if not isinstance(verbose, Integral) or verbose < 0:
        raise BadOption(f"verbose is {verbose!r}; pass 0, 1 or 2.")
    user_alphas = (
        None
        if alphas is None
        else check_alphas(alphas, allow_zero=False, hint="; for alpha = 0 use Ridge(alpha=0)")
    )
    settings = FitOptions(tol=tol, random_state=random_state, memory_budget=memory_budget)
    estimator = _ValidationEstimator(memory_budget, int(verbose))
    with rollback_on_error(estimator, X, y, sample_weight):
        path = _compute_path(
            estimator, X, y, sample_weight, user_alphas, bool(fit_intercept), settings
        )
        estimator.report_ = path
    _warn_unless_certified(path)
    return path


def _compute_path(
    inputs: _ValidationEstimator,
    X: Any,
    y: Any,
    sample_weight: Any,
    given: Array | None,
    fit_intercept: bool,
    settings: FitOptions,
) -> RidgePath:
    """Validate the data, solve for all alphas and return the path in the units of the data."""
    started = time.perf_counter()
    X, y = check_training_data(inputs, X, y, sample_weight, y_numeric=True)
    weights, Y = check_sample_weight(sample_weight, X), as_target_matrix(y)
    n_targets = Y.shape[1]
    n_alphas = DEFAULT_N_ALPHAS if given is None else len(given)
    plan = plan_for(as_design(X), n_targets, 1, settings)
    stage("prepare", lambda: expected_path_cost(plan, n_alphas))
    problem, standardization = problems.build_problem(
        X, Y, np.ones(n_targets), weights, fit_intercept
    )
    samples = CVProblem.from_problem(
        problem, standardization, Y, weights, fit_intercept, plan.memory_budget
    )
    scaled_alphas = (
        default_alpha_grid(problem) if given is None else given / standardization.x_scale**2
    )
    stage("solve for all alphas")
    path = solution_path(
        samples, scaled_alphas, plan, settings.tol, as_generator(settings.random_state)
    )
    coef = np.stack([standardization.coef(W) for W in path.coef])
    intercept = np.zeros((len(scaled_alphas), n_targets))
    bounds = path.bounds
    if fit_intercept:
        intercept = np.stack([standardization.intercept(W) for W in coef])
        bounds = bounds + [problems.intercept_error(problem, standardization, W) for W in path.coef]
    error = path.residual_squares * standardization.y_scale**2 / standardization.n_counted
    is_single_target = y.ndim == 1
    return RidgePath(
        alphas=scaled_alphas * standardization.x_scale**2 if given is None else given,
        coef=coef[:, :, 0] if is_single_target else coef.transpose(0, 2, 1),
        intercept=intercept[:, 0] if is_single_target else intercept,
        bounds=bounds[:, 0] if is_single_target else bounds,
        training_error=error[:, 0] if is_single_target else error,
        tol=settings.tol,
        method=path.method,
        seconds=time.perf_counter() - started,
        cost=problem.design.cost,
        n_features_in_=X.shape[1],
        feature_names_in_=getattr(inputs, "feature_names_in_", None),
        encoding_=getattr(inputs, "encoding_", None),
        _compute_edf=path.effective_dof,
    )


def _warn_unless_certified(path: RidgePath) -> None:
    """Warn (ConvergenceWarning) if the bound of an alpha exceeds tol."""
    uncertified = path.alphas[np.logical_not(path.certified)]
    if uncertified.size:
        warnings.warn(
            f"ridge_path: {uncertified.size} of {len(path.alphas)} alphas, "
            f"up to {uncertified.max():g}, "
            f"are not certified within tol={path.tol:g}; raise tol or memory_budget, or pass "
            "larger alphas.",
            ConvergenceWarning,
            stacklevel=3,
        )
