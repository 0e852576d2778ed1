"""`ridge_path`: coefficients for a grid of alphas, from one factorisation or one subspace."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from ling._typing import Array, MatrixLike, RandomState
from ling.design import as_design
from ling.design.row_source import verify_memmaps_unchanged
from ling.errors import OptionError
from ling.estimators.fit_session import fit_session
from ling.estimators.memory_checks import check_row_memory, plan_training
from ling.estimators.parameter_validation import check_tol
from ling.estimators.validation import (
    ValidationEstimator,
    check_same_columns,
    open_prediction_data,
    training_data,
)
from ling.html_repr import html_table_of_ends
from ling.model_selection import CVProblem, check_alphas, default_alpha_grid
from ling.model_selection.alpha_grid import DEFAULT_N_ALPHAS
from ling.model_selection.path import expected_path_cost, solution_path
from ling.results import Cost
from ling.solvers.engine import as_generator
from ling.solvers.options import FitOptions
from ling.solvers.problem import TermSizes, TrainingData, build_problem, intercept_error

if TYPE_CHECKING:
    from ling.io import Encoding


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
    feature_names_in_: NDArray[np.object_] | None
    encoding_: Encoding | None
    _compute_edf: Callable[[], tuple[Array, Array]]

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

    def predict(self, X: MatrixLike) -> Array:
        """Predictions for all alphas: (n_samples, n_alphas) or (n_samples, n_alphas, n_targets)."""
        coef_rows = self.coef.reshape(-1, self.coef.shape[-1])
        design = as_design(open_prediction_data(self, X) or X)
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

    def __repr__(self) -> str:
        return f"<RidgePath: {len(self.alphas)} alphas, coef of shape {self.coef.shape}>"

    def _repr_html_(self) -> str:
        n = len(self.alphas)
        bounds, errors = self.bounds.reshape(n, -1), self.training_error.reshape(n, -1)
        norms = np.linalg.norm(self.coef.reshape(n, -1), axis=1)
        columns = zip(self.alphas, norms, errors.mean(axis=1), bounds.max(axis=1), strict=True)
        rows = [
            [*(f"{number:.4g}" for number in row), "certified" if certified else "not certified"]
            for row, certified in zip(columns, self.certified, strict=True)
        ]
        notes = [str(self)]
        if bounds.shape[1] > 1:
            notes.append(
                f"{bounds.shape[1]} targets: training errors are means, error bounds the largest."
            )
        head = ["alpha", "norm of coef", "training error", "error bound", ""]
        return html_table_of_ends(f"Ridge path of {n} alphas", rows, notes, head)


def ridge_path(
    X: MatrixLike, y: ArrayLike | None = None, alphas: ArrayLike | None = None, *,
    sample_weight: ArrayLike | None = None, fit_intercept: bool = True,
    tol: float = 1e-4, random_state: RandomState = None, memory_budget: float | str | None = None,
    verbose: int = 0,
) -> RidgePath:  # fmt: skip
    """Minimise ||y - Xw - b||^2 + alpha ||w||^2 for every alpha, each to a proven accuracy.

    All alphas share one Gram matrix and its tridiagonal form, or one subspace.

    Parameters
    ----------
    X : array, sparse matrix or Dataset of shape (n_samples, n_features)
    y : array of shape (n_samples,) or (n_samples, n_targets), default=None
        None for the target of a Dataset.
    alphas : array of shape (n_alphas,), default=None
        The penalties, all above 0. None for 30 values over 9 decades below the trace of X'X.
    sample_weight : array of shape (n_samples,), default=None
    fit_intercept, tol, memory_budget, verbose
        As for `Ridge`.
    random_state : int, RandomState or Generator instance, or None, default=None
        Seed of the random directions, as for `Ridge`: None is the same as 0. An instance advances
        with every call.

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
    check_tol(tol)
    if not isinstance(verbose, Integral) or verbose < 0:
        raise OptionError("verbose", f"is {verbose!r}", "pass 0, 1 or 2")
    user_alphas = (
        None
        if alphas is None
        else check_alphas(alphas, allow_zero=False, remedy_for_zero="use Ridge(alpha=0)")
    )
    options = FitOptions(tol=tol, random_state=random_state, memory_budget=memory_budget)
    estimator = ValidationEstimator("ridge_path", memory_budget, int(verbose))
    started = time.perf_counter()
    with fit_session(estimator, X, y, sample_weight) as progress:
        data, y = training_data(
            estimator, X, y, sample_weight, progress, y_numeric=True,
            estimator_name=estimator.estimator_name,
        )  # fmt: skip
        names = getattr(estimator, "feature_names_in_", None)
        path = _compute_path(
            data, names, user_alphas, bool(fit_intercept), y.ndim == 1, options, started
        )
        estimator.report_ = path
    _warn_unless_certified(path)
    return path


def _compute_path(
    data: TrainingData,
    feature_names: Any,
    user_alphas: Array | None,
    fit_intercept: bool,
    is_single_target: bool,
    options: FitOptions,
    started: float,
) -> RidgePath:
    """Solve for all alphas and return the path in the units of the data."""
    plan = plan_training(data, 1, options)
    check_row_memory(data, plan, options)
    n_alphas = DEFAULT_N_ALPHAS if user_alphas is None else len(user_alphas)
    meter = data.design.meter
    meter.begin_stage("prepare", lambda: expected_path_cost(plan, n_alphas))
    problem, standardization = build_problem(data, np.ones(data.n_targets), fit_intercept)
    samples = CVProblem.from_problem(problem, standardization, data, fit_intercept, plan.memory)
    scaled_alphas = default_alpha_grid(problem)
    if user_alphas is not None:
        scaled_alphas = user_alphas / standardization.x_scale**2
    meter.begin_stage("solve for all alphas")
    path = solution_path(
        samples, scaled_alphas, plan, options.tol, as_generator(options.random_state)
    )
    coef = standardization.coef(path.coef)
    intercept: Array = np.zeros((len(scaled_alphas), data.n_targets))
    bounds = path.bounds
    if fit_intercept:
        intercept = standardization.intercept(coef)
        bounds = bounds + intercept_error(
            problem, standardization, TermSizes.of(problem, standardization, path.coef)
        )
    error = path.residual_squares * standardization.y_scale**2 / standardization.n_counted
    alphas = scaled_alphas * standardization.x_scale**2
    return RidgePath(
        alphas=alphas if user_alphas is None else user_alphas,
        coef=coef[:, :, 0] if is_single_target else coef.transpose(0, 2, 1),
        intercept=intercept[:, 0] if is_single_target else intercept,
        bounds=bounds[:, 0] if is_single_target else bounds,
        training_error=error[:, 0] if is_single_target else error,
        tol=options.tol,
        method=path.method,
        seconds=time.perf_counter() - started,
        cost=problem.design.cost,
        n_features_in_=problem.shape[1],
        feature_names_in_=feature_names,
        encoding_=data.encoding,
        _compute_edf=path.effective_dof,
    )


def _warn_unless_certified(path: RidgePath) -> None:
    """Warn (ConvergenceWarning) if the bound of an alpha exceeds tol."""
    uncertified = path.alphas[np.logical_not(path.certified)]
    # A subspace grows until all alphas are certified, or memory is exhausted.
    remedy = "memory_budget" if "subspace" in path.method else "tol"
    if uncertified.size:
        warnings.warn(
            f"ridge_path: {uncertified.size} of {len(path.alphas)} alphas, "
            f"up to {uncertified.max():g}, "
            f"are not certified within tol={path.tol:g}; raise {remedy}, or pass larger alphas.",
            ConvergenceWarning,
            stacklevel=3,
        )
