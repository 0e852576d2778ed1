"""A fit with `warm_start=`: initial coefficients, and those that an interrupted fit has reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ling._typing import Array
from ling.errors import ClusterLost
from ling.estimators.fit import (
    FitContext,
    FitResult,
    expected_cost,
    plan_fit,
    solve_problem,
)
from ling.solvers.options import FitOptions
from ling.solvers.problem import Problem, Standardization, TrainingData, build_problem


def solve_warm_started(
    model: Any, data: TrainingData, alphas: Array, options: FitOptions, started: float
) -> tuple[Problem, Standardization, FitResult]:
    """Build the ridge problem of the data with alphas (t,), and solve it.

    With `model.warm_start` the iterations start from the coefficients of an earlier fit. `started`
    is the `time.perf_counter()` at the start of the fit.
    """
    fit_intercept = bool(model.fit_intercept)
    plan = plan_fit(data, len(np.unique(alphas)), options)
    data.design.meter.begin_stage("prepare", lambda: expected_cost(plan, options))
    problem, standardization = build_problem(data, alphas, fit_intercept)
    context = FitContext(started, data.notes, requested_solver=model.solver)
    with _warm_start(model, problem, standardization) as start:
        fit = solve_problem(problem, standardization, plan, options, context, fit_intercept, start)
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
    except ClusterLost as error:
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
    if coef is None or coef.shape != problem.moments.shape or not np.isfinite(coef).all():
        return None
    return np.asarray(coef.astype(np.float64) * (standardization.x_scale / standardization.y_scale))
