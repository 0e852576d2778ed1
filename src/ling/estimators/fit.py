"""Steps shared by all estimators: plan, solve and certify a problem, then set the fit attributes.

Also predictions from fitted coefficients, the fit report and the convergence warning.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning

from ling._typing import Array
from ling.design import Design, Storage, as_design
from ling.design.row_source import verify_memmaps_unchanged
from ling.errors import BadOption, NotFinite
from ling.estimators.open_data import is_dask_collection, map_dask_blocks
from ling.estimators.validation import (
    check_prediction_rows,
    check_same_columns,
    open_prediction_data,
)
from ling.progress import RemainingWork
from ling.results import Certificate, FitReport, Status
from ling.solvers.engines import ENGINES
from ling.solvers.machine import Machine, parse_memory_budget
from ling.solvers.planning import Plan, ProblemDimensions, plan_solve
from ling.solvers.problem import Problem, Standardization, intercept_error, relative_to_target_norm
from ling.solvers.solve import Solution, SolveOptions, solve

log = logging.getLogger("ling")
PredictionTransform: TypeAlias = Callable[[Array], Any] | None
Method = TypeVar("Method", bound=Callable[..., Any])
SOLVERS = ("auto", *ENGINES)
#: scikit-learn's solver names, and the solver of ling that is used for each.
SKLEARN_SOLVERS = {
    "svd": "direct",
    "cholesky": "direct",
    "lsqr": "krylov",
    "sparse_cg": "two_stage",
    "sag": "auto",
    "saga": "auto",
    "lbfgs": "auto",
}
#: Solvers that support positive=True, i.e. the constraint that all coefficients are >= 0.
POSITIVE_SOLVERS = ("auto", "lbfgs")
#: Advice when rounding `coef_` and `intercept_` to float32 alone exceeds tol.
FLOAT32_ADVICE = (
    "coef_ and intercept_ are in float32 because X is, which alone costs more than tol; raise tol, "
    "or pass X in float64."
)
# A mean of so many standard deviations of y costs float64 ten of its sixteen digits.
LARGE_MEAN_RATIO = 1e10
#: Advice when rounding to float64 alone exceeds tol. This happens if the mean of y or of columns of
#: X is large compared with the standard deviation of y.
LARGE_MEAN_ADVICE = (
    "float64 cannot hold the intercept more exactly, because the mean of y (or of columns of X) is "
    "too large beside the spread of y; subtract a constant from y (or from those columns)."
)


def fit_context(method: Method) -> Method:
    """Apply scikit-learn's untyped `_fit_context` decorator without losing the method's type."""
    return cast(Method, _fit_context(prefer_skip_nested_validation=True)(method))


@dataclass(frozen=True)
class FitOptions:
    """Options of a fit: the parameters of an estimator that control how it is solved."""

    tol: float = 1e-4
    max_iter: int | None = None
    solver: str = "auto"
    positive: bool = False
    random_state: Any = None
    precision: str = "auto"
    memory_budget: float | str | None = None
    # Machine speeds that the plan uses; None for the measured speeds of this machine.
    machine: Machine | None = None
    # Set by estimators that choose the solver themselves: the reason that the report shows, and the
    # name of the stage before the solve.
    reason: str = ""
    preparation_stage: str = "prepare"

    @classmethod
    def from_estimator(cls, model: Any) -> FitOptions:
        """Options read from the attributes of `model`; defaults for those that it does not have."""
        values = {name: getattr(model, name) for name in cls.__dataclass_fields__
                 if hasattr(model, name)}  # fmt: skip
        return cls(**values)

    def check_solver(self) -> None:
        """Raise if `solver` cannot do positive=True; log what replaces a scikit-learn solver."""
        if self.positive and self.solver not in POSITIVE_SOLVERS:
            raise BadOption(
                f"solver={self.solver!r} does not support positive=True; pass solver='auto', or "
                "positive=False."
            )
        if self.solver in SKLEARN_SOLVERS:
            log.info(
                "solver=%r is one of scikit-learn's; ling uses %r for it.",
                self.solver, SKLEARN_SOLVERS[self.solver],
            )  # fmt: skip


@dataclass(frozen=True, eq=False)
class FitResult:
    """Coefficients (p, t) and intercepts (t,) in the units of the data, with solution and report.

    `intercept` is None without an intercept. `dtype` is the dtype of X, in which `coef_` and
    `intercept_` are stored. `column_stds` (p,) are the standard deviations of the columns of X:
    coefficients times these are comparable.
    """

    coef: Array
    intercept: Array | None
    solution: Solution
    report: FitReport
    dtype: np.dtype[Any]
    column_stds: Array


def solve_problem(
    problem: Problem,
    standardization: Standardization,
    X: Any,
    fit_intercept: bool,
    settings: FitOptions,
    started: float,
    notes: tuple[str, ...] = (),
    start: Array | None = None,
) -> FitResult:
    """Plan and solve `problem`; return coefficients in the units of the data, and the report.

    X is the data that `problem` was built from. `started` is the `time.perf_counter()` at the start
    of the fit. `notes` come first in the report. `start` (p, t) are initial coefficients in the
    units of the problem, or None.
    """
    plan = plan_for(as_design(X), problem.n_targets, len(problem.distinct_alphas), settings)
    prepared = time.perf_counter()
    round_coef = (
        None if X.dtype == np.float64 else partial(_round_to_dtype, standardization, X.dtype)
    )
    solution = solve(problem, plan, solver_options(settings, round_coef, start))
    coef = standardization.coef(solution.coef)
    _check_finite_coef(coef, X.dtype)
    intercept = None
    if fit_intercept:
        intercept, solution = _add_intercept(problem, solution, standardization, coef, X.dtype)
    report = _make_report(settings, problem, solution, plan, prepared - started, notes, X.dtype)
    log.info("%s", report)
    column_stds = problem.column_norms * (
        standardization.x_scale / np.sqrt(standardization.total_weight)
    )
    return FitResult(coef, intercept, solution, report, X.dtype, column_stds)


def checked_x_and_predictions(
    model: Any, X: Any, coef: Array, finish: PredictionTransform = None
) -> tuple[Any, Any]:
    """Validated X, and the predictions finish(X coef + intercept_) in the dtype of X.

    `coef` has shape (p, t). The sums are computed in float64.
    """
    storage = open_prediction_data(model, X)
    if storage is not None:
        predicted = as_design(storage).predictions(
            coef.astype(np.float64), model.intercept_, finish
        )
        return storage, predicted
    with verify_memmaps_unchanged(X):
        X = check_prediction_rows(model, X)
        # The sums are in float64 for float32 X too: the certificate bounds errors of predictions.
        return X, as_design(X).predictions(coef.astype(np.float64), model.intercept_, finish)


def predictions(model: Any, X: Any, coef: Array, finish: PredictionTransform = None) -> Any:
    """Predictions finish(X coef + intercept_) for X (n, p) and coef (p, t).

    For a Dask collection the result is a lazy Dask array.
    """
    if not is_dask_collection(X):
        return checked_x_and_predictions(model, X, coef, finish)[1]
    columns = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
    check_same_columns(model, len(columns) if columns else X.shape[1], columns)
    V, constant = coef.astype(np.float64), model.intercept_

    def of_block(block: Any) -> Any:
        return as_design(np.asarray(block)).predictions(V, constant, finish)

    return map_dask_blocks(X, of_block, model.n_features_in_)


def set_fit_attributes(model: Any, fit: FitResult, n_dim: int) -> None:
    """Set the attributes of a fitted model; `n_dim` is the number of dimensions of y."""
    coef, intercept, solution = fit.coef, fit.intercept, fit.solution
    # As in scikit-learn, coef_ is one-dimensional for one target, even if y has shape (n, 1).
    coef_rows = coef[:, 0] if coef.shape[1] == 1 else coef.T
    model.coef_ = np.ascontiguousarray(coef_rows.astype(fit.dtype, copy=False))
    model.intercept_ = 0.0
    if intercept is not None:
        model.intercept_ = intercept[0] if n_dim == 1 else intercept
    n_iter = solution.candidate.n_iter
    model.n_iter_ = None if n_iter is None else np.full(coef.shape[1], n_iter, np.int32)
    model.solver_ = solution.estimate.engine
    model.report_ = fit.report
    model._column_stds = fit.column_stds


def warn_unless_certified(model: Any, fit: FitResult, settings: FitOptions) -> None:
    """Warn (ConvergenceWarning) if the error bound of the fit exceeds tol.

    `fit` has to call this directly: `stacklevel` makes the warning point at the caller of `fit`.
    """
    solution = fit.solution
    if solution.status is not Status.NOT_REACHED:
        return
    bound = fit.report.certificate.bound
    proved = f"the predictions are proved to be within {bound:.2e} of the exact ones"
    if bound > 1:
        proved = "nothing could be proved of the predictions"
    warnings.warn(
        f"{type(model).__name__}: {proved}, not within tol={settings.tol:g}: "
        f"{_convergence_advice(model, fit)}",
        ConvergenceWarning,
        stacklevel=4,
    )


def plan_for(
    design: Design, n_targets: int, n_alphas: int, settings: FitOptions, kept: bool = False
) -> Plan:
    """Predicted cost of every engine for a design (n, p), as a `Plan`.

    `kept` is True if data from files will have been read into memory before the fit; the plan then
    does not count the time for reading it.
    """
    n, p = design.shape
    storage = design.storage
    dimensions = ProblemDimensions(
        n,
        p,
        storage.n_stored,
        storage.dtype.itemsize,
        storage.is_dense,
        n_targets,
        n_alphas,
        None if kept else storage.read_bandwidth,
        storage.is_out_of_core and not kept,
        storage.block_bytes,
        design.can_quantize,
    )
    budget = fit_budget_bytes(storage, settings)
    return plan_solve(dimensions, budget, settings.precision, settings.tol, settings.machine)


def expected_fit_cost(X: Any, alphas: Array, settings: FitOptions) -> RemainingWork:
    """Predicted passes and seconds of a fit to X; `alphas` (t,) has one value per target."""
    plan = plan_for(as_design(X), len(alphas), len(np.unique(alphas)), settings)
    solver = SKLEARN_SOLVERS.get(settings.solver, settings.solver)
    step = plan.steps[0] if solver == "auto" else plan.estimate_for(solver)
    return step.passes, step.seconds


def fit_budget_bytes(storage: Storage, settings: FitOptions) -> float:
    """Bytes that a fit may use: `memory_budget` minus what the storage itself holds in memory."""
    budget = parse_memory_budget(settings.memory_budget, of_total_memory=storage.resident_bytes > 0)
    return max(1.0, budget - storage.resident_bytes)


def solver_options(
    settings: FitOptions, stored: Callable[[Array], Array] | None = None, start: Array | None = None
) -> SolveOptions:
    """Options of `solve`.

    `stored` maps coefficients (p, t) to what is left of them after rounding to the dtype of X; None
    if they are stored in float64. `start` (p, t) are initial coefficients.
    """
    solver = SKLEARN_SOLVERS.get(settings.solver, settings.solver)
    return SolveOptions(
        float(settings.tol), settings.max_iter, solver, settings.random_state,
        bool(settings.positive), stored, start,
    )  # fmt: skip


def _rounding_advice(dtype: np.dtype[Any]) -> str:
    """Advice when rounding coefficients and intercept to `dtype` alone exceeds tol."""
    return LARGE_MEAN_ADVICE if dtype == np.float64 else FLOAT32_ADVICE


def _convergence_advice(model: Any, fit: FitResult) -> str:
    """Advice for the warning about a fit that is not certified."""
    solution = fit.solution
    if solution.limited_by_dtype:
        return _rounding_advice(fit.dtype)
    if not hasattr(model, "solver"):
        return "raise tol or memory_budget, or scale X (StandardScaler)."
    if model.positive or "direct" in (solution.estimate.engine, *solution.abandoned_engines):
        return (
            "float64 cannot tell more of this X; raise tol or alpha, or scale X (StandardScaler)."
        )
    return (
        "raise tol or max_iter, or pass solver='direct' if n_features^2 or n_samples^2 numbers "
        "fit in memory."
    )


def _engine_reason(settings: FitOptions, solution: Solution) -> str:
    """Why this engine solved the problem, as shown in the report."""
    if settings.reason:
        return settings.reason
    if settings.positive:
        return "for coefficients >= 0"
    if solution.status is Status.UNCERTIFIED:
        return "alpha is 0, where iterations cannot tell when to stop"
    if settings.solver not in ("auto", "sag", "saga", "lbfgs"):
        return "as asked for"
    if solution.abandoned_engines:
        return "as others did not get there, or would have taken longer"
    if not solution.estimate.fits:
        return "which needs the least memory; nothing fits memory_budget"
    return "first choice of the plan"


def _round_to_dtype(standardization: Standardization, dtype: np.dtype[Any], W: Array) -> Array:
    """W (p, t), in the units of the problem, with the error of storing `coef_` in `dtype`.

    `coef_` is rounded in the units of the data, so W is converted, rounded and converted back.
    """
    coef_scale = standardization.y_scale / standardization.x_scale
    with np.errstate(over="ignore"):
        rounded = standardization.coef(W).astype(dtype).astype(np.float64)
    if not np.isfinite(rounded[np.isfinite(W)]).all():
        raise NotFinite(f"the coefficients leave the range of {dtype}; pass X in float64.")
    return np.asarray(rounded / coef_scale)


def _add_intercept(
    problem: Problem,
    solution: Solution,
    standardization: Standardization,
    coef: Array,
    dtype: np.dtype[Any],
) -> tuple[Array, Solution]:
    """Intercepts (t,) in the units of the data, and the solution with their error in its bounds.

    The error is that of float64 arithmetic plus that of rounding the intercepts to `dtype`. A
    certified solution whose bounds exceed tol with it becomes `NOT_REACHED`.
    """
    exact = standardization.intercept(coef)
    with np.errstate(over="ignore"):
        intercept = exact.astype(dtype)
    _check_finite_coef(exact, dtype, intercept)
    rounding_error = np.abs(exact - intercept.astype(np.float64)) / standardization.y_scale
    error = intercept_error(problem, standardization, solution.coef)
    error += relative_to_target_norm(
        problem, rounding_error * np.sqrt(standardization.total_weight)
    )
    certificate = Certificate(solution.certificate.bounds + error, solution.certificate.tol)
    exceeds_tol = solution.status is Status.CERTIFIED and not certificate.holds
    status = Status.NOT_REACHED if exceeds_tol else solution.status
    limited_by_dtype = (
        solution.limited_by_dtype or exceeds_tol or _has_large_mean(problem, solution)
    )
    return intercept, replace(
        solution, certificate=certificate, status=status, limited_by_dtype=limited_by_dtype
    )


def _has_large_mean(problem: Problem, solution: Solution) -> bool:
    """Whether a fit is not certified because a mean is large beside the spread of y."""
    offsets = problem.raw_target_norms + problem.raw_column_norms @ np.abs(solution.coef)
    is_large = (offsets > LARGE_MEAN_RATIO * problem.target_norms).any()
    return solution.status is Status.NOT_REACHED and bool(is_large)


def _check_finite_coef(exact: Array, dtype: np.dtype[Any], *stored: Array) -> None:
    """Raise NotFinite if coefficients or intercepts are not finite, before or after rounding."""
    if not all(np.isfinite(values).all() for values in (exact, *stored)):
        remedy = "divide y by a constant" if dtype == np.float64 else "pass X in float64"
        raise NotFinite(f"the coefficients leave the range of {dtype}; {remedy}.")


def _make_report(
    settings: FitOptions,
    problem: Problem,
    solution: Solution,
    plan: Plan,
    preparing: float,
    before: tuple[str, ...],
    dtype: np.dtype[Any],
) -> FitReport:
    """Build the report of a fit; `preparing` is in seconds, `before` are the notes to put first."""
    step = solution.estimate
    notes = [*before, *problem.design.storage.notes]
    if settings.solver in SKLEARN_SOLVERS:
        notes.append(
            f"solver={settings.solver!r} is scikit-learn's; ling uses {step.engine} for it."
        )
    if solution.candidate.note:
        notes.append(f"{solution.candidate.note[0].upper()}{solution.candidate.note[1:]}.")
    if solution.limited_by_dtype:
        advice = _rounding_advice(dtype)
        notes.append(f"{advice[0].upper()}{advice[1:]}")
    if not step.fits:
        notes.append(f"It takes about {step.n_bytes / 1e6:.3g} MB, more than memory_budget.")
    if solution.abandoned_engines:
        notes.append(f"Given up before: {', '.join(solution.abandoned_engines)}.")
    return FitReport(
        engine=step.engine,
        reason=_engine_reason(settings, solution),
        status=solution.status,
        certificate=solution.certificate,
        cost=problem.design.cost,
        seconds={settings.preparation_stage: preparing, **solution.seconds},
        predicted_seconds=step.seconds if settings.preparation_stage == "prepare" else None,
        predicted_bytes=step.n_bytes,
        rank=solution.candidate.rank,
        n_iter=solution.candidate.n_iter,
        shape=problem.shape,
        notes=tuple(notes),
    )
