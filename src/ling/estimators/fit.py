"""Steps shared by all estimators: plan, solve, attributes and report of a fit."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ling._typing import Array
from ling.design.arrays import CACHED_ELEMENTS, row_slices
from ling.errors import Change, ClusterLostError, NonFiniteError, OptionError
from ling.estimators.memory_checks import check_fit_memory, memory_notes, plan_training
from ling.linalg import threads
from ling.progress import RemainingWork
from ling.results import FitReport, Status
from ling.solvers.coef_bounds import error_region
from ling.solvers.cost_model import lacks_memory_for_svd
from ling.solvers.engine import integer_seed
from ling.solvers.engines import ENGINES
from ling.solvers.fingerprint import DataFingerprint, data_fingerprint
from ling.solvers.machine import parse_speeds
from ling.solvers.memory_budget import MemoryBudget
from ling.solvers.observed_speeds import check_cached_speeds
from ling.solvers.options import FitOptions
from ling.solvers.planning import Plan, plan_as_dict
from ling.solvers.problem import (
    Problem,
    Standardization,
    TermSizes,
    TrainingData,
    build_problem,
    intercept_error,
    relative_to_target_norm,
)
from ling.solvers.solve import CastCoef, FindCandidate, Solution, solve

log = logging.getLogger("ling")
SOLVERS = ("auto", *ENGINES)
#: scikit-learn's solver names, and the solver of ling that is used for each.
SKLEARN_SOLVERS = {
    "svd": "direct",
    "cholesky": "direct",
    "lsqr": "two_stage",
    "sparse_cg": "two_stage",
    "sag": "auto",
    "saga": "auto",
    "lbfgs": "auto",
}
#: Options of a fit that are parameters of estimators; `speeds` has the others.
OPTION_NAMES = tuple(
    field.name for field in fields(FitOptions) if field.name not in ("machine", "read_bandwidth")
)
#: Solvers that support positive=True, i.e. the constraint that all coefficients are >= 0.
POSITIVE_SOLVERS = ("auto", "lbfgs")
#: Note when rounding `coef_` and `intercept_` to float32 alone exceeds tol.
FLOAT32_NOTE = (
    "coef_ and intercept_ are in float32 because X is, and rounding them costs more than tol; if "
    "that matters, convert X to float64."
)
# A mean of so many standard deviations of y costs float64 ten of its sixteen digits.
LARGE_MEAN_RATIO = 1e10
#: Advice when rounding to float64 alone exceeds tol. This happens if the mean of y or of columns of
#: X is large compared with the standard deviation of y.
LARGE_MEAN_ADVICE = (
    "float64 cannot hold the intercept more exactly, because the mean of y (or of columns of X) is "
    "too large beside the spread of y; subtract a constant from y (or from those columns)."
)


def fit_options(model: Any) -> FitOptions:
    """Options read from the parameters of `model`; defaults for those that it does not have.

    A solver of scikit-learn is replaced by the one that ling uses for it.
    """
    values = {name: getattr(model, name) for name in OPTION_NAMES if hasattr(model, name)}
    if values.get("solver") in SKLEARN_SOLVERS:
        values["solver"] = SKLEARN_SOLVERS[values["solver"]]
    machine, read_bandwidth = parse_speeds(getattr(model, "speeds", None))
    return FitOptions(**values, machine=machine, read_bandwidth=read_bandwidth)


def check_solver(model: Any) -> None:
    """Raise if `solver` cannot do positive=True; log what replaces a scikit-learn solver."""
    if model.positive and model.solver not in POSITIVE_SOLVERS:
        raise OptionError(
            "solver",
            f"is {model.solver!r}, which does not support positive coefficients",
            Change("solver", "auto"),
            Change("positive", False),
        )
    if model.solver in SKLEARN_SOLVERS:
        log.info(
            "solver=%r is one of scikit-learn's; ling uses %r for it.",
            model.solver, SKLEARN_SOLVERS[model.solver],
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class FitResult:
    """Coefficients (p, t) and intercepts (t,) in the units of the data, with solution and report.

    `intercept` is None without an intercept. `memory` is the memory budget of the fit. `dtype` is
    the dtype of X, in which `coef_` and `intercept_` are stored. `column_stds` (p,) are the
    standard deviations of the columns of X: coefficients times these are comparable. `fingerprint`
    identifies the data.
    """

    coef: Array
    intercept: Array | None
    solution: Solution
    report: FitReport
    memory: MemoryBudget
    dtype: np.dtype[Any]
    column_stds: Array
    fingerprint: DataFingerprint


@dataclass(frozen=True)
class FitContext:
    """What the report of a fit says beyond the solution.

    Attributes
    ----------
    started : float
        `time.perf_counter()` at the start of the fit.
    notes : tuple of str
        Notes that come first in the report.
    preparation_stage : str
        Name of what comes before the solve.
    reason : str
        Why the engine was chosen; "" if the plan chose it.
    requested_solver : str
        The user's `solver`, which may be one of scikit-learn's.
    preparation_bytes : float
        Predicted bytes of what comes before the solve.
    """

    started: float
    notes: tuple[str, ...] = ()
    preparation_stage: str = "prepare"
    reason: str = ""
    requested_solver: str = "auto"
    preparation_bytes: float = 0.0


def solve_problem(
    problem: Problem,
    standardization: Standardization,
    plan: Plan,
    options: FitOptions,
    context: FitContext,
    fit_intercept: bool,
    start: Array | None = None,
    find_candidate: FindCandidate | None = None,
) -> FitResult:
    """Solve `problem`; return coefficients in the units of the data, and the report.

    `start` (p, t) are initial coefficients in the units of the problem, or None. For
    `find_candidate` see `solve`.
    """
    prepared = time.perf_counter()
    cast_coef = coef_rounding(problem, standardization)
    solution = solve(problem, plan, options, start, cast_coef, find_candidate)
    make_report = partial(_make_report, options, context, problem, plan, prepared - context.started)
    return complete_fit(problem, standardization, solution, fit_intercept, make_report, plan.memory)


def coef_rounding(problem: Problem, standardization: Standardization) -> CastCoef | None:
    """Function that rounds coefficients to the dtype of X; None for float64."""
    dtype = problem.design.dtype
    return None if dtype == np.float64 else partial(_round_to_dtype, standardization, dtype)


def complete_fit(
    problem: Problem,
    standardization: Standardization,
    solution: Solution,
    fit_intercept: bool,
    make_report: Callable[[Solution], FitReport],
    memory: MemoryBudget,
) -> FitResult:
    """Convert a solution to the units of the data, add the intercept, and report the fit."""
    dtype = problem.design.dtype
    coef = standardization.coef(solution.coef)
    _check_finite_coef(coef, dtype)
    sizes = TermSizes.of(problem, standardization, solution.coef)
    intercept = shifts = None
    relative_bounds = solution.certificate.bounds
    if fit_intercept:
        intercept, shifts, solution = _add_intercept(
            problem, solution, standardization, coef, dtype, sizes
        )
    region = error_region(
        problem, standardization, solution.candidate.minorant, solution.coef, relative_bounds,
        shifts, sizes,
    )  # fmt: skip
    solution = replace(solution, certificate=replace(solution.certificate, region=region))
    column_stds = problem.column_norms * (
        standardization.x_scale / np.sqrt(standardization.total_weight)
    )
    fingerprint = data_fingerprint(problem, standardization)
    report = make_report(solution)
    log.info("%s", report)
    return FitResult(coef, intercept, solution, report, memory, dtype, column_stds, fingerprint)


def solve_warm_started(
    model: Any, data: TrainingData, alphas: Array, options: FitOptions, started: float
) -> tuple[Problem, Standardization, FitResult]:
    """Build the ridge problem of the data with alphas (t,), and solve it.

    With `model.warm_start` the iterations start from the coefficients of an earlier fit. `started`
    is the `time.perf_counter()` at the start of the fit.
    """
    fit_intercept = bool(model.fit_intercept)
    plan = plan_training(data, len(set(alphas.tolist())), options)
    check_fit_memory(data, plan, options, alphas)
    data.design.meter.begin_stage("prepare", lambda: expected_cost(plan, options))
    context = FitContext(started, data.notes, requested_solver=model.solver)
    with threads.blas_threads_for(plan.dimensions.max_blas_flops):
        problem, standardization = build_problem(data, alphas, fit_intercept)
        with _warm_start(model, problem, standardization) as start:
            fit = solve_problem(
                problem, standardization, plan, options, context, fit_intercept, start
            )
    if options.machine is None:  # it is given with a checkpoint, which may replay passes
        check_cached_speeds(plan, fit.solution.estimate, fit.report.seconds)
    return problem, standardization, fit


@contextmanager
def _warm_start(
    model: Any, problem: Problem, standardization: Standardization
) -> Iterator[Array | None]:
    """Context manager that yields initial coefficients (p, t) for warm_start=True, else None.

    If the cluster is lost during the fit, the coefficients reached so far are stored in
    `model._partial_coef`, from which the next warm start continues.
    """
    try:
        yield _initial_coef(model, problem, standardization) if model.warm_start else None
    except ClusterLostError as error:
        if error.partial_coef is not None:
            model._partial_coef = standardization.coef(error.partial_coef)
        raise
    vars(model).pop("_partial_coef", None)


def _initial_coef(model: Any, problem: Problem, standardization: Standardization) -> Array | None:
    """Initial coefficients (p, t) in the units of the problem.

    They are those of an interrupted fit, or else `coef_`. None if there are none, if they have
    another shape, or if they are not finite.
    """
    coef = getattr(model, "_partial_coef", None)
    if coef is None and hasattr(model, "coef_"):
        coef = np.atleast_2d(model.coef_).T
    shape = problem.shape[1], problem.n_targets
    if coef is None or coef.shape != shape or not np.isfinite(coef).all():
        return None
    return np.asarray(coef.astype(np.float64) * (standardization.x_scale / standardization.y_scale))


def set_fit_attributes(model: Any, fit: FitResult, n_dim: int) -> None:
    """Set the attributes of a fitted model; `n_dim` is the number of dimensions of y."""
    coef, intercept, solution = fit.coef, fit.intercept, fit.solution
    # As in scikit-learn, coef_ is one-dimensional for one target, even if y has shape (n, 1).
    coef_rows = coef[:, 0] if coef.shape[1] == 1 else coef.T
    model.coef_ = coef_rows.astype(fit.dtype, copy=False)
    model.intercept_ = 0.0
    if intercept is not None:
        model.intercept_ = intercept[0] if n_dim == 1 else intercept
    n_iter = solution.candidate.n_iter
    model.n_iter_ = None if n_iter is None else np.full(coef.shape[1], n_iter, np.int32)
    model.solver_ = solution.estimate.engine
    model.report_ = fit.report
    model._column_stds = fit.column_stds
    model._data_fingerprint = fit.fingerprint


def warn_unless_certified(model: Any, fit: FitResult, advice: str = "") -> None:
    """Warn (ConvergenceWarning) if the error bound of the fit exceeds tol.

    Not if that is only due to rounding to the dtype of X: nothing could converge any further, and a
    note in the report says so.

    `advice` says what to do, if it is not that for the engines of `Ridge`. `fit` has to call this
    directly: `stacklevel` makes the warning point at the caller of `fit`.
    """
    solution = fit.solution
    if solution.status is not Status.NOT_REACHED:
        return
    bound = fit.report.certificate.bound
    proved = f"the predictions are proved to be within {bound:.2e} of the exact ones,"
    if bound > 1:
        proved = "the predictions are not proved to be near the exact ones, and so"
    warnings.warn(
        f"{type(model).__name__}: {proved} not within tol={model.tol:g}: "
        f"{_convergence_advice(model, fit, advice)}",
        ConvergenceWarning,
        stacklevel=5,
    )


def expected_cost(plan: Plan, options: FitOptions) -> RemainingWork:
    """Predicted passes and seconds of a fit with this plan."""
    step = plan.steps[0] if options.solver == "auto" else plan.estimate_for(options.solver)
    return step.passes, step.seconds


def rounding_notes(solution: Solution) -> list[str]:
    """The note of a report if rounding alone exceeds tol."""
    if solution.status is Status.ROUNDED:
        return [FLOAT32_NOTE]
    return [LARGE_MEAN_ADVICE] if solution.limited_by_mean else []


def _convergence_advice(model: Any, fit: FitResult, advice: str = "") -> str:
    """Advice for the warning about a fit that is not certified; `advice` unless rounding is why."""
    solution = fit.solution
    if solution.limited_by_mean:
        return LARGE_MEAN_ADVICE
    if advice:
        return advice
    used_direct = "direct" in (solution.estimate.engine, *solution.abandoned_engines)
    if used_direct and lacks_memory_for_svd(*fit.report.shape, fit.memory):
        return "raise memory_budget, for singular values of X, or scale X (StandardScaler)."
    if used_direct or getattr(model, "positive", False):
        return (
            "float64 cannot tell more of this X; raise tol or alpha, or scale X (StandardScaler)."
        )
    if not hasattr(model, "solver"):  # factorisations do not fit in memory
        return "raise memory_budget, or scale X (StandardScaler)."
    return (
        "raise tol or max_iter, or pass solver='direct' if n_features^2 or n_samples^2 numbers "
        "fit in memory."
    )


def _engine_reason(options: FitOptions, context: FitContext, plan: Plan, solution: Solution) -> str:
    """Why this engine solved the problem, as shown in the report."""
    if context.reason:
        return context.reason
    if options.positive:
        return "for coefficients >= 0"
    if solution.status is Status.UNCERTIFIED:
        return "alpha is 0, where iterations cannot tell when to stop"
    if options.solver != "auto":
        return "as asked for"
    if solution.abandoned_engines:
        return "engines tried before did not converge, or would have taken longer"
    if not solution.estimate.fits:
        return "which needs little memory; nothing fits memory_budget"
    if solution.estimate.engine != plan.steps[0].engine:
        few = "few" if solution.estimate.engine == "two_stage" else "too many"
        return f"{few} iterations are expected for this alpha and spectrum"
    return "first choice of the plan"


def _round_to_dtype(standardization: Standardization, dtype: np.dtype[Any], W: Array) -> Array:
    """W (p, t), in the units of the problem, with the error of storing `coef_` in `dtype`.

    `coef_` is rounded in the units of the data, so W is converted, rounded and converted back.
    """
    coef_scale = standardization.y_scale / standardization.x_scale
    out = np.empty_like(W)
    height = max(1, CACHED_ELEMENTS // W.shape[1])

    def sweep(part: slice) -> None:
        part_of_W, part_of_out = W[part], out[part]
        for rows in row_slices(len(part_of_W), height):
            block = part_of_W[rows]
            with np.errstate(over="ignore"):
                rounded = standardization.coef(block).astype(dtype)
            if not np.isfinite(rounded).all() and np.isfinite(block[~np.isfinite(rounded)]).any():
                raise _coef_range_error(dtype)
            np.divide(rounded, coef_scale, out=part_of_out[rows])

    threads.parallel_map(sweep, threads.row_parts(W))
    return out


def _add_intercept(
    problem: Problem,
    solution: Solution,
    standardization: Standardization,
    coef: Array,
    dtype: np.dtype[Any],
    sizes: TermSizes,
) -> tuple[Array, Array, Solution]:
    """Intercepts (t,) in the units of the data, their rounding errors (t,), and the solution.

    The bounds of the solution include the error of the intercepts: that of float64 arithmetic plus
    that of rounding them to `dtype`.
    """
    exact = standardization.intercept(coef)
    intercept, rounding = exact, np.zeros(len(exact))
    if dtype != np.float64:
        with np.errstate(over="ignore"):
            intercept = exact.astype(dtype)
        rounding = np.abs(exact - intercept.astype(np.float64))
    _check_finite_coef(exact, dtype, intercept)
    relative = _relative_shift(problem, standardization, rounding) if rounding.any() else rounding
    error = intercept_error(problem, standardization, sizes)
    with_intercept = solution.with_added_error(error, relative)
    limited_by_mean = with_intercept.status is Status.NOT_REACHED and (
        solution.status.is_final or _has_large_mean(problem, sizes)
    )
    if limited_by_mean:
        with_intercept = replace(with_intercept, limited_by_mean=True)
    return intercept, rounding, with_intercept


def _relative_shift(problem: Problem, standardization: Standardization, rounding: Array) -> Array:
    """What rounding errors (t,) of the intercepts add to the relative bounds (t,)."""
    shifts = rounding / standardization.y_scale
    relative = relative_to_target_norm(problem, shifts * np.sqrt(standardization.total_weight))
    # Beside a target without spread, any error is infinitely large.
    relative[(problem.target_norms == 0) & (shifts > 0)] = np.inf
    return relative


def _has_large_mean(problem: Problem, sizes: TermSizes) -> bool:
    """Whether a mean is so large beside the spread of y that rounding in float64 matters."""
    offsets = problem.raw_target_norms + sizes.fitted_norms
    return bool((offsets > LARGE_MEAN_RATIO * problem.target_norms).any())


def _check_finite_coef(exact: Array, dtype: np.dtype[Any], *stored: Array) -> None:
    """Raise NonFiniteError unless coefficients or intercepts are finite, also once rounded."""
    if not all(np.isfinite(values).all() for values in (exact, *stored)):
        raise _coef_range_error(dtype)


def _coef_range_error(dtype: np.dtype[Any]) -> NonFiniteError:
    """Error about coefficients that cannot be stored in `dtype`."""
    if dtype == np.float64:
        return NonFiniteError(
            "y",
            "is so large that the coefficients overflow float64",
            "divide `y` by a constant",
        )
    return NonFiniteError(
        "X", f"is {dtype}, and the coefficients leave its range", "pass `X` in float64"
    )


def _make_report(
    options: FitOptions,
    context: FitContext,
    problem: Problem,
    plan: Plan,
    preparation_seconds: float,
    solution: Solution,
) -> FitReport:
    """Build the report of a fit."""
    step = solution.estimate
    notes = list(context.notes)
    if context.requested_solver in SKLEARN_SOLVERS:
        notes.append(
            f"solver={context.requested_solver!r} is scikit-learn's; ling uses {step.engine} for "
            "it."
        )
    if solution.candidate.note:
        notes.append(f"{solution.candidate.note[0].upper()}{solution.candidate.note[1:]}.")
    notes += rounding_notes(solution)
    notes += memory_notes(plan, step, context.preparation_stage, context.preparation_bytes)
    if solution.abandoned_engines:
        notes.append(f"Given up before: {', '.join(solution.abandoned_engines)}.")
    return FitReport(
        engine=step.engine,
        reason=_engine_reason(options, context, plan, solution),
        status=solution.status,
        certificate=solution.certificate,
        cost=problem.design.cost,
        seconds={context.preparation_stage: preparation_seconds, **solution.seconds},
        predicted_seconds=step.seconds if context.preparation_stage == "prepare" else None,
        predicted_bytes=max(step.n_bytes, context.preparation_bytes),
        rank=solution.candidate.rank,
        n_iter=solution.candidate.n_iter,
        shape=problem.shape,
        notes=tuple(notes),
        seed=integer_seed(options.random_state),
        plan=plan_as_dict(plan, options),
    )
