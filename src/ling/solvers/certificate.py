"""The bound: how far a candidate's predictions are from those of the exact ridge solution."""

from __future__ import annotations

import numpy as np

from ling._typing import Array
from ling.results import Certificate, Status
from ling.solvers.engine import Candidate, error_bound
from ling.solvers.gradient_rounding import gradient_rounding
from ling.solvers.problem import Problem


@np.errstate(over="ignore", invalid="ignore")  # a bound may be infinite
def certify(
    problem: Problem, candidate: Candidate, tol: float, positive: bool = False
) -> tuple[Certificate, Status]:
    """What is proved of `candidate`; one pass, unless its engine has proved enough without one.

    `positive` says that both the candidate and the exact solution are >= 0.
    """
    bounds = _absolute_bounds(problem, candidate, tol, positive)
    if (problem.alphas == 0).any():
        bounds = np.where(problem.alphas == 0, np.inf, bounds)
        return Certificate(_relative_bounds(problem, bounds), tol), Status.UNCERTIFIED
    certificate = Certificate(_relative_bounds(problem, bounds), tol)
    return certificate, Status.CERTIFIED if certificate.holds else Status.NOT_REACHED


def _absolute_bounds(problem: Problem, candidate: Candidate, tol: float, positive: bool) -> Array:
    known = candidate.bound
    if known is not None and (candidate.gave_up or problem.is_within_tol(known, tol)):
        return known
    if not np.isfinite(candidate.coef).all():
        return np.full(problem.n_targets, np.inf)
    gradient, residual = problem.gradient(candidate.coef)
    if positive:
        gradient = _projected_gradient(gradient, candidate.coef)
    found = error_bound(problem, candidate, gradient)
    found += gradient_rounding(problem, candidate.minorant, candidate.coef, residual)
    return found if known is None else np.minimum(found, known)


def _projected_gradient(gradient: Array, W: Array) -> Array:
    """rho: the gradient g, without what would push coefficients that are 0 below 0.

    With e = w - w* and H = X'X + alpha I: e'He <= -g'e, since w* is optimal among all w >= 0, and
    -g'e <= -rho'e, since -e_j >= 0 where w_j = 0. By Cauchy-Schwarz e'He <= rho'H^-1 rho; rounding
    in g adds to it as it does without the constraint, because g'e is linear in g.
    """
    return np.where(W > 0, gradient, np.maximum(gradient, 0.0))


def _relative_bounds(problem: Problem, bounds: Array) -> Array:
    """Of predictions, in units of the spread of y; a y without any is fitted exactly by 0."""
    unit = problem.error_scale
    relative = np.divide(bounds, unit, out=np.zeros_like(bounds), where=unit > 0)
    # What has underflowed to 0 is not 0.
    relative = np.maximum(relative, np.where(unit > 0, np.finfo(np.float64).tiny, 0.0))
    return np.where(np.isnan(relative), np.inf, relative)
