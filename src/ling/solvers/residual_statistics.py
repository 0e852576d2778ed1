"""The norm of the exact solution's residual, with its error, for the noise variance.

||y - Xw|| differs from ||y - Xw*|| by at most ||X(w - w*)||, which the certificate bounds. Its
`tol` is relative to ||y||, and ||y - Xw*|| may be far smaller. Then the solution is refined for the
statistics; the coefficients of the fit stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ling._typing import Array
from ling.solvers.problem import Problem

# Error of the residual norm, relative to it, up to which the coefficients of a fit are good enough.
# Variances have twice this relative error, at most. With tol=1e-4, fits with R^2 < 0.99 are.
RESIDUAL_TOL = 1e-3
# Tolerances below this are out of reach of float64.
MIN_TOL = 1e-13
# A refinement to RESIDUAL_TOL of a residual that was too large is repeated with the smaller one.
MAX_REFINEMENTS = 2

#: Function (problem, tol, start) -> coefficients (p, t) and the bounds (t,) of their certificate.
Refine: TypeAlias = Callable[[Problem, float, Array], tuple[Array, Array]]


@dataclass(frozen=True, eq=False)
class ResidualNorms:
    """Norms (t,) of y - X w, and bounds (t,) of their distance from those of the exact w*."""

    norms: Array
    errors: Array


def exact_residual_norms(
    problem: Problem, W: Array, relative: Array, refine: Refine | None
) -> ResidualNorms:
    """||y - Xw*|| for the exact w*, from coefficients W (p, t) with relative error bounds (t,).

    `refine` computes better coefficients where the error shows; None leaves it at that.
    """
    residual = _residual_norms(problem, W, relative)
    for _ in range(MAX_REFINEMENTS if refine is not None else 0):
        limits = RESIDUAL_TOL * residual.norms
        if (residual.errors <= limits).all():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            tols = np.where(problem.target_norms > 0, 0.5 * limits / problem.target_norms, np.inf)
        tol = max(MIN_TOL, float(tols.min(initial=np.inf)))
        if not np.isfinite(tol):
            break
        assert refine is not None
        W, relative = refine(problem, tol, W)
        residual = _closer(residual, _residual_norms(problem, W, relative))
    return residual


def _residual_norms(problem: Problem, W: Array, relative: Array) -> ResidualNorms:
    norms, rounding = problem.residual_norms(W)
    with np.errstate(over="ignore", invalid="ignore"):
        errors = relative * problem.target_norms + rounding
    return ResidualNorms(norms, np.where(np.isnan(errors), np.inf, errors))


def _closer(a: ResidualNorms, b: ResidualNorms) -> ResidualNorms:
    """Of each target, the norm with the smaller error."""
    better = b.errors < a.errors
    return ResidualNorms(np.where(better, b.norms, a.norms), np.where(better, b.errors, a.errors))
