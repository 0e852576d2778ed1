"""Certify a candidate: bound how far its predictions are from the exact ridge solution's."""

from __future__ import annotations

import numpy as np

from ling._typing import Array
from ling.results import Certificate, Status
from ling.solvers.engine import Candidate, error_bound
from ling.solvers.gradient_rounding import gradient_rounding
from ling.solvers.problem import Problem


@np.errstate(over="ignore", invalid="ignore")  # bounds may be infinite
def certify(
    problem: Problem, candidate: Candidate, tol: float, positive: bool = False
) -> tuple[Certificate, Status]:
    """Certificate of the relative error bounds (t,) of `candidate`, and the resulting status.

    One pass for the gradient, which is skipped if the engine has already proved a bound within tol
    or has given up. Where alpha is 0 no bound exists: it is infinite, and the status is
    UNCERTIFIED. `positive` says that both the candidate and the exact solution are >= 0.
    """
    bounds = _absolute_bounds(problem, candidate, tol, positive)
    if (problem.alphas == 0).any():
        bounds = np.where(problem.alphas == 0, np.inf, bounds)
        return Certificate(_relative_bounds(problem, bounds), tol), Status.UNCERTIFIED
    certificate = Certificate(_relative_bounds(problem, bounds), tol)
    return certificate, Status.CERTIFIED if certificate.holds else Status.NOT_REACHED


def _absolute_bounds(problem: Problem, candidate: Candidate, tol: float, positive: bool) -> Array:
    engine_bounds = candidate.bound
    if engine_bounds is not None and (
        candidate.gave_up or problem.is_within_tol(engine_bounds, tol)
    ):
        return engine_bounds
    if not np.isfinite(candidate.coef).all():
        return np.full(problem.n_targets, np.inf)
    gradient, residual = problem.gradient(candidate.coef)
    if positive:
        gradient = _projected_gradient(gradient, candidate.coef)
    bounds = error_bound(problem, candidate, gradient)
    bounds += gradient_rounding(problem, candidate.minorant, candidate.coef, residual)
    return bounds if engine_bounds is None else np.minimum(bounds, engine_bounds)


def _projected_gradient(gradient: Array, W: Array) -> Array:
    """Projected gradient rho for w >= 0: g with negative entries set to 0 wherever w_j = 0.

    With e = w - w* and H = X'X + alpha I: e'He <= -g'e, since w* is optimal among all w >= 0, and
    -g'e <= -rho'e, since -e_j >= 0 where w_j = 0. By Cauchy-Schwarz e'He <= rho'H^-1 rho. Rounding
    in g adds to the bound as it does without the constraint, because g'e is linear in g.
    """
    return np.where(W > 0, gradient, np.maximum(gradient, 0.0))


def _relative_bounds(problem: Problem, bounds: Array) -> Array:
    """Bounds on the predictions relative to ||y||; 0 for a zero y, which W = 0 fits exactly."""
    scale = problem.error_scale
    relative = np.divide(bounds, scale, out=np.zeros_like(bounds), where=scale > 0)
    # A bound that underflowed to 0 is not a proof of an exact solution.
    relative = np.maximum(relative, np.where(scale > 0, np.finfo(np.float64).tiny, 0.0))
    return np.where(np.isnan(relative), np.inf, relative)
