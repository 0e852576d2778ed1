"""One fit, and `warm_start=`: where it starts from, and where it was when it could not go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ling.design import Array
from ling.errors import ClusterLost
from ling.estimators.fitting import Fit, Settings, expectation, fitted
from ling.problem import Centring, Problem, build
from ling.progress import stage


def fit_from(
    model: Any, X: Any, Y: Array, alphas: Array, weights: Array | None, settings: Settings,
    started: float,
) -> tuple[Problem, Centring, Fit]:  # fmt: skip
    """The problem that data and alphas stand for, solved from where the model says."""
    fit_intercept = bool(model.fit_intercept)
    stage("prepare", lambda: expectation(X, alphas, settings))
    problem, centring = build(X, Y, alphas, weights, fit_intercept)
    with _resumable(model, problem, centring) as start:
        fit = fitted(problem, centring, X, fit_intercept, settings, started, start=start)
    return problem, centring, fit


@contextmanager
def _resumable(model: Any, problem: Problem, centring: Centring) -> Iterator[Array | None]:
    """Coefficients to start from, if asked for; those of a fit that is lost are kept for that."""
    try:
        yield _start(model, problem, centring) if model.warm_start else None
    except ClusterLost as error:
        if error.iterate is not None:
            model._iterate = centring.coef(error.iterate)
        raise
    vars(model).pop("_iterate", None)


def _start(model: Any, problem: Problem, centring: Centring) -> Array | None:
    """In the units of the problem; None if there is nothing, or it is of other data."""
    known = getattr(model, "_iterate", None)
    if known is None and hasattr(model, "coef_"):
        known = np.atleast_2d(model.coef_).T
    if known is None or known.shape != problem.moments.shape or not np.isfinite(known).all():
        return None
    return np.asarray(known.astype(np.float64) * (centring.x_unit / centring.y_unit))
