"""One fit, and `warm_start=`: where it starts from, and where it was when it could not go on."""

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
    """The problem that data and alphas stand for, solved from where the model says."""
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
    """Coefficients to start from, if asked for; those of a fit that is lost are kept for that."""
    try:
        yield _initial_coef(model, problem, standardization) if model.warm_start else None
    except ClusterLost as error:
        if error.iterate is not None:
            model._partial_coef = standardization.coef(error.iterate)
        raise
    vars(model).pop("_partial_coef", None)


def _initial_coef(model: Any, problem: Problem, standardization: Standardization) -> Array | None:
    """In the units of the problem; None if there is nothing, or it is of other data."""
    known = getattr(model, "_partial_coef", None)
    if known is None and hasattr(model, "coef_"):
        known = np.atleast_2d(model.coef_).T
    if known is None or known.shape != problem.moments.shape or not np.isfinite(known).all():
        return None
    return np.asarray(
        known.astype(np.float64) * (standardization.x_scale / standardization.y_scale)
    )
