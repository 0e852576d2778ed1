"""A fit with `warm_start=`: initial coefficients, and those that an interrupted fit has reached."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ling._typing import Array
from ling.errors import ClusterLost
from ling.estimators.fit import FitOptions, FitResult, expected_fit_cost, solve_problem
from ling.progress import stage
from ling.solvers.problem import Problem, Standardization, build_problem


def solve_warm_started(
    model: Any, X: Any, Y: Array, alphas: Array, weights: Array | None, settings: FitOptions,
    started: float,
) -> tuple[Problem, Standardization, FitResult]:  # fmt: skip
    """Build the ridge problem of X (n, p), Y (n, t) and alphas (t,), and solve it.

    With `model.warm_start` the iterations start from the coefficients of an earlier fit. `started`
    is the `time.perf_counter()` at the start of the fit.
    """
    fit_intercept = bool(model.fit_intercept)
    stage("prepare", lambda: expected_fit_cost(X, alphas, settings))
    problem, standardization = build_problem(X, Y, alphas, weights, fit_intercept)
    with _warm_start(model, problem, standardization) as start:
        fit = solve_problem(
            problem, standardization, X, fit_intercept, settings, started, start=start
        )
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
        if error.iterate is not None:
            model._partial_coef = standardization.coef(error.iterate)
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
