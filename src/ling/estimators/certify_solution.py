"""`certify`: the certificate of a fit, for a ridge solution that anyone has computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from ling._typing import Array, MatrixLike, RandomState
from ling.errors import Change, InputTypeError, NonFiniteError, OptionError, ShapeError
from ling.estimators.fit_session import fit_session
from ling.estimators.memory_checks import check_row_memory, plan_training
from ling.estimators.open_data import as_numpy
from ling.estimators.parameter_validation import check_alpha_per_target, check_tol
from ling.estimators.validation import (
    ValidationEstimator,
    check_not_sparse,
    name_argument_in_errors,
    training_data,
)
from ling.results import Certificate
from ling.solvers.certify_coef import bound_coef
from ling.solvers.coef_bounds import error_region
from ling.solvers.fingerprint import DataFingerprint, is_fingerprint_of
from ling.solvers.options import FitOptions
from ling.solvers.problem import (
    Problem,
    Standardization,
    TermSizes,
    TrainingData,
    build_problem,
    intercept_error,
    relative_to_target_norm,
)

# From this ratio of the two errors on, the intercept counts as what is wrong with a solution.
MIN_INTERCEPT_RATIO = 10.0
OTHER_DATA_NOTE = (
    "these are not the data of the fit, so that the bound is about another problem; pass the rows, "
    "the target and the weights that the model was fitted with"
)


def certify(
    coef: ArrayLike, X: MatrixLike, y: ArrayLike | None = None,
    alpha: float | ArrayLike | None = None, *, intercept: float | ArrayLike = 0.0,
    sample_weight: ArrayLike | None = None, fit_intercept: bool = True, tol: float = 1e-4,
    random_state: RandomState = None, memory_budget: float | str | None = None,
) -> Certificate:  # fmt: skip
    """Prove how far a ridge solution, whoever computed it, is from the exact one.

    The exact solution (w*, b*) minimises ||y - Xw - b||^2 + alpha ||w||^2; b* is 0 without an
    intercept, and squares are weighted by `sample_weight`. The certificate bounds the distance
    between the predictions X coef + intercept and X w* + b*, relative to ||y - mean(y)||, or to
    ||y|| without an intercept. Rounding errors are included. It is the certificate that every fit
    of ling has in `report_.certificate`.

    One pass over X prepares the problem, and one to three more prove the bound. It is tight, within
    a small factor of the error itself, if X'X or X X' is cheap to form and fits into
    `memory_budget`. Otherwise it comes from a sample of the rows or from a sketch of X'X, and may
    be much larger than the error.

    Parameters
    ----------
    coef : array of shape (n_features,) or (n_targets, n_features)
        The coefficients, as `coef_` of scikit-learn.
    X : array, sparse matrix, Dask collection or Dataset of shape (n_samples, n_features)
        Anything that `Ridge.fit` takes.
    y : array of shape (n_samples,) or (n_samples, n_targets), default=None
        None for the target of a Dataset.
    alpha : float or array of shape (n_targets,)
        The penalty of the problem that `coef` should solve; it has to be passed. For alpha = 0 no
        bound exists, and the certificate is infinite. Solvers that divide the sum of squares by
        n_samples, such as those of glmnet and Spark, have a penalty that has to be multiplied by
        n_samples.
    intercept : float or array of shape (n_targets,), default=0.0
        As `intercept_` of scikit-learn. With `fit_intercept`, 0.0 is compared with the intercept of
        the exact solution like any other number.
    sample_weight : array of shape (n_samples,), default=None
    fit_intercept : bool, default=True
        Whether the problem has an intercept, which is not penalised. Pass False for a solution of
        the problem without one.
    tol : float, default=1e-4
        `holds` of the certificate says whether the bound is within it.
    random_state : int, RandomState instance or None, default=None
        Seed of random directions and samples, as for `Ridge`: None is the same as 0.
    memory_budget : float or str, default=None
        As for `Ridge`.

    Returns
    -------
    Certificate
        `bounds` has the bound of every target, and `bound` the largest one. `coef_norm_bounds` and
        `coef_bounds()` bound the error of the coefficients. If most of the bound is the error of
        the intercept, `note` says so, and `print` shows it.

    Examples
    --------
    >>> import numpy as np
    >>> from ling import certify
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> y = X @ np.arange(5.0)
    >>> model = Ridge(alpha=2.0).fit(X, y)
    >>> certify(model.coef_, X, y, alpha=2.0, intercept=model.intercept_).holds
    True
    >>> certify(model.coef_, X, y, alpha=3.0, intercept=model.intercept_).holds
    False
    """
    check_tol(tol)
    options = FitOptions(
        tol=tol, precision="float64", random_state=random_state, memory_budget=memory_budget
    )
    estimator = ValidationEstimator("certify", memory_budget)
    with fit_session(estimator, X, y, sample_weight) as progress:
        data, _ = training_data(
            estimator, X, y, sample_weight, progress, y_numeric=True,
            estimator_name=estimator.estimator_name,
        )  # fmt: skip
        return certify_solution(data, coef, intercept, alpha, bool(fit_intercept), options)


def certify_solution(
    data: TrainingData,
    coef: ArrayLike,
    intercept: ArrayLike,
    alpha: ArrayLike | None,
    fit_intercept: bool,
    options: FitOptions,
    fingerprint: DataFingerprint | None = None,
) -> Certificate:
    """The certificate of a solution for validated data; arguments are those of `certify`.

    With the `fingerprint` of the data that the solution is for, a note says if these are others.
    """
    W = _check_coef(coef, data.design.shape[1], data.n_targets)
    b = _check_intercept(intercept, data.n_targets, fit_intercept)
    if alpha is None:
        raise OptionError("alpha", "is not given", "pass the alpha that the solution is for")
    alphas = check_alpha_per_target(alpha, data.n_targets)
    plan = plan_training(data, len(np.unique(alphas)), options)
    check_row_memory(data, plan, options)
    meter = data.design.meter
    meter.begin_stage("prepare")
    problem, standardization = build_problem(data, alphas, fit_intercept)
    meter.begin_stage("certify")
    with np.errstate(over="ignore"):
        scaled = W * (standardization.x_scale / standardization.y_scale)
    bounds, minorant = bound_coef(problem, scaled, plan, options)
    shifts = np.abs(b - standardization.intercept(W)) if fit_intercept else None
    sizes = TermSizes.of(problem, standardization, scaled)
    region = error_region(problem, standardization, minorant, scaled, bounds, shifts, sizes)
    note = ""
    if fit_intercept:
        mean_errors = _mean_error(problem, standardization, sizes, W, b)
        note = _intercept_note(float(bounds.max()), float(mean_errors.max()), b, options.tol)
        bounds = np.hypot(bounds, mean_errors)
    if fingerprint is not None and not is_fingerprint_of(fingerprint, problem, standardization):
        note = OTHER_DATA_NOTE
    if (problem.target_norms == 0).any():
        is_exact = ~W.any(axis=0) & (b == standardization.y_mean)
        constant_bounds = np.where(is_exact, 0.0, np.inf)
        bounds = np.where(problem.target_norms == 0, constant_bounds, bounds)
    return Certificate(np.where(np.isnan(bounds), np.inf, bounds), float(options.tol), region, note)


def _intercept_note(coef_bound: float, mean_error: float, b: Array, tol: float) -> str:
    """What a certificate says if the error of the mean prediction is nearly all of its bound.

    `mean_error`, and the bound of `coef`, are relative to the spread of y. They may be NaN.
    """
    if not mean_error > max(MIN_INTERCEPT_RATIO * coef_bound, tol):
        return ""
    which = "is" if b.any() else "is 0, and the exact solution has one; this is"
    return (
        f"the intercept {which} most of the error, and with the right one for these coefficients "
        f"the bound would be {coef_bound:.1e}"
    )


@np.errstate(over="ignore", invalid="ignore")  # errors may be infinite
def _mean_error(
    problem: Problem, standardization: Standardization, sizes: TermSizes, W: Array, b: Array
) -> Array:
    """Bound (t,) on the error of the mean prediction, times sqrt(total weight), over ||y||.

    The predictions of (W, b) and the exact ones differ by the centred X(w - w*) and by the constant
    b - (y_mean - x_mean'w), as b* = y_mean - x_mean'w*. Both parts are orthogonal in the weighted
    inner product, so that the squares of their norms add up.
    """
    shift = np.abs(b - standardization.intercept(W)) / standardization.y_scale
    error = relative_to_target_norm(problem, shift * np.sqrt(standardization.total_weight))
    return error + intercept_error(problem, standardization, sizes)


def _check_coef(coef: Any, p: int, n_targets: int) -> Array:
    """Validated coefficients as (p, n_targets), in float64."""
    if isinstance(coef, BaseEstimator):
        raise InputTypeError(
            "coef",
            f"is an estimator, {type(coef).__name__}",
            "pass its coefficients, as in certify(model.coef_, X, y, alpha=model.alpha, "
            "intercept=model.intercept_)",
        )
    values = _as_finite_floats(coef, "coef")
    expected = f"({n_targets}, {p})" if n_targets > 1 else f"({p},)"
    if values.shape not in ((n_targets, p), (p,) if n_targets == 1 else None):
        raise ShapeError(
            "coef",
            f"has shape {values.shape}, not {expected}",
            "pass a coefficient for every column of `X`, in a row for every target",
        )
    return values.reshape(n_targets, p).T


def _check_intercept(intercept: Any, n_targets: int, fit_intercept: bool) -> Array:
    """Validated intercepts (n_targets,), in float64; all 0 unless `fit_intercept`."""
    values = _as_finite_floats(intercept, "intercept")
    if values.ndim > 1 or values.size not in (1, n_targets):
        raise ShapeError(
            "intercept",
            f"has shape {values.shape}, not ({n_targets},)",
            "pass one number, or one for each target",
        )
    if values.any() and not fit_intercept:
        raise OptionError(
            "intercept",
            f"is {intercept}, and the problem has no intercept (`fit_intercept`=False)",
            Change("fit_intercept", True, "to compare with the exact solution with an intercept"),
            Change("intercept", 0.0),
        )
    return np.broadcast_to(values.reshape(-1), (n_targets,))


def _as_finite_floats(values: Any, name: str) -> Array:
    """The argument `name` as an array of finite numbers in float64."""
    values = as_numpy(values, name)
    check_not_sparse(**{name: values})
    with name_argument_in_errors(**{name: values}):
        array = np.asarray(values)
        numbers = check_array(
            array.reshape(-1), ensure_2d=False, dtype=np.float64, ensure_all_finite=False,
            ensure_min_samples=0, input_name=name,
        ).reshape(array.shape)  # fmt: skip
    positions = np.argwhere(~np.isfinite(numbers))
    if len(positions):
        at = tuple(map(int, positions[0]))
        index = f"[{', '.join(map(str, at))}]" if at else ""
        raise NonFiniteError(
            name,
            f"`{name}`{index} is {numbers[at]}",
            "pass the numbers of a solver that has converged to finite ones",
        )
    return np.asarray(numbers)
