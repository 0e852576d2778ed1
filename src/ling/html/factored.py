"""The path and the spectrum of a report: both from one factorisation, where that is soon done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ling.design import Array
from ling.display.drawing import DRAWN
from ling.display.path import N_PATH, smoothly
from ling.display.spectrum import EXACT, all_of
from ling.engines.direct import refined
from ling.engines.tridiagonal import FORM, Tridiagonal, tridiagonal
from ling.errors import LingError
from ling.estimators.revisited import Revisited
from ling.html.words import n_bytes, seconds
from ling.planning import pass_seconds
from ling.selection import Samples, default_grid
from ling.selection.path import path_expectation, solution_path
from ling.selection.route import LARGE, SLOWER, SLOWEST

# Of the memory budget, for the coefficients of a path.
SHARE = 0.2
# Arrays of the size of a path's coefficients that are there at the same time.
COPIES = 4
# Where nothing can be factored, a path goes down to this part of the model's alpha.
BELOW = 1 / 30
# Seconds that a path or a spectrum may take after any fit; after a longer one, as long as that.
PATIENCE = 3.0
# Alphas below which a path is no line.
FEWEST = 12
# Sweeps over X'X for the coefficients of one alpha: two solutions of two products, two residuals.
SWEEPS = 6.0
# What is iterated takes another subspace, for degrees of freedom.
TWICE = 2.0


class NotShown(LingError):
    """Why something is left out of a page."""


TOO_LARGE = "The model's alpha is too large to be drawn."


@dataclass(frozen=True, eq=False)
class PathFacts:
    """Coefficients (n_alphas, p, n_shown), per spread of the column, and degrees of freedom."""

    alphas: Array
    coef: Array
    degrees: Array


@dataclass(frozen=True, eq=False)
class SpectrumFacts:
    """What `SpectrumDisplay` draws."""

    eigenvalues: Array
    edf: tuple[float, float]
    note: str


def form_of(again: Revisited) -> Tridiagonal:
    """X'X, or X X' if that is smaller, in tridiagonal form."""
    if getattr(again.model, "positive", False):
        raise NotShown("The coefficients are kept at or above 0, to which this does not apply.")
    problem, (n, p) = again.samples.problem, again.samples.shape
    m = min(n, p)
    kind = f"a matrix of {m:,} x {m:,} numbers"
    if m > EXACT or 32.0 * m * m > again.plan.memory_budget:
        raise NotShown(f"Factoring {kind} would take too long, or too much memory.")
    # The form that leave-one-out makes of X X' has a direction too many.
    form = problem.made.get(FORM) if p <= n else None
    if form is None:
        _refuse_long(again, _form_seconds(again), f"Factoring {kind}")
        form = tridiagonal(problem.gram() if p <= n else problem.row_gram())
        problem.design.meter.add(4 / 3 * float(m) ** 3)
    found: Tridiagonal = form
    return found


def spectrum_of(again: Revisited, form: Tridiagonal | str) -> SpectrumFacts:
    """All eigenvalues."""
    if isinstance(form, str):
        raise NotShown(form)
    problem, unit = again.samples.problem, again.samples.centring.x_unit**2
    if again.alphas.max() > DRAWN[1]:
        raise NotShown(TOO_LARGE)
    alpha = float(np.median(problem.alphas))
    values, edf, note = all_of(form.eigenvalues, problem.shape, alpha, None)
    return SpectrumFacts(values * unit, edf, note)


def path_of(again: Revisited, shown: Sequence[int], form: Tridiagonal | str) -> PathFacts:
    """Coefficients of the shown targets over all alphas."""
    samples = again.only(shown)
    if not samples.problem.column_norms.any():
        raise NotShown("The columns do not vary.")
    alpha = float(np.median(again.alphas[list(shown)]))
    if alpha > DRAWN[1]:
        raise NotShown(TOO_LARGE)
    if isinstance(form, str):
        return _iterated(again, samples, alpha, form)
    n_alphas = min(N_PATH, int(allowed(again) / _alpha_seconds(again, samples)))
    if n_alphas < FEWEST:
        raise NotShown(f"It would take longer than the fit, {_took(again)}.")
    _refuse_large(again, n_alphas, samples)
    alphas = smoothly(_tried(again), alpha, n_alphas)
    unit = samples.centring.x_unit**2
    coef = _solutions(samples, form, alphas / unit)
    return _facts(again, samples, alphas, coef, form.degrees(alphas / unit))


def allowed(again: Revisited) -> float:
    """Seconds that each of them may take."""
    return max(PATIENCE, float(again.model.report_.total_seconds))


def _solutions(samples: Samples, form: Tridiagonal, alphas: Array) -> Array:
    """(n_alphas, p, t), without the bounds that a fit has: nobody sees them in a picture."""
    problem, wide = samples.problem, samples.shape[1] > samples.shape[0]
    each = np.repeat(alphas, samples.n_targets)
    A = problem.row_gram() if wide else problem.gram()
    right = problem.targets if wide else problem.moments
    W = refined(form, A, np.tile(right, len(alphas)), each)[0]
    return np.stack(np.split(problem.design.rmatmat(W) if wide else W, len(alphas), axis=1))


def _iterated(again: Revisited, samples: Samples, alpha: float, why: str) -> PathFacts:
    """A shorter path, from one subspace; `why` nothing is factored."""
    if getattr(again.model, "positive", False):
        raise NotShown(why)
    if again.by_blocks:
        raise NotShown(f"{why} Otherwise it takes many passes; ling.ridge_path computes it.")
    n_alphas = N_PATH // 3
    plan = again.plan
    plan = replace(plan, shape=replace(plan.shape, n_targets=samples.n_targets))
    _refuse_long(again, TWICE * (path_expectation(plan, n_alphas)[1] or np.inf), "It")
    _refuse_large(again, n_alphas, samples)
    tried = _tried(again)
    alphas = smoothly(tried[tried >= BELOW * alpha], alpha, n_alphas)
    rng, unit = np.random.default_rng(0), samples.centring.x_unit**2
    found = solution_path(samples, alphas / unit, plan, float(again.model.tol), rng)
    return _facts(again, samples, alphas, found.coef, found.degrees()[0])


def _facts(
    again: Revisited, samples: Samples, alphas: Array, W: Array, degrees: Array
) -> PathFacts:
    coef = np.stack([samples.centring.coef(one) for one in W])
    return PathFacts(alphas, coef * again.spread[:, None], degrees)


def _tried(again: Revisited) -> Array:
    results: Any = getattr(again.model, "cv_results_", None)
    if results is not None and np.ptp(results.alphas) > 0:
        return np.asarray(results.alphas)
    return np.asarray(default_grid(again.samples.problem) * again.samples.centring.x_unit**2)


def _form_seconds(again: Revisited) -> float:
    """To make X'X or X X', if held-out predictions did not, and to bring it to its form."""
    shape, machine = again.plan.shape, again.plan.machine
    m, longest = min(shape.n, shape.p), max(shape.n, shape.p)
    form = 4 / 3 * float(m) ** 3 * (SLOWER if m < LARGE else SLOWEST) / machine.gemm
    if ("gram" if shape.p <= shape.n else "row gram") in again.samples.problem.made:
        return form
    products = float(longest) * m * m / machine.gemm
    if not shape.dense:
        products = float(shape.nnz) ** 2 / longest / machine.sparse
    return form + max(products, pass_seconds(shape, machine))


def _alpha_seconds(again: Revisited, samples: Samples) -> float:
    """For the coefficients of one alpha."""
    n, p = samples.shape
    m, t = min(n, p), samples.n_targets
    one = SWEEPS * 2.0 * float(m) ** 2 + (2.0 * n * p if p > n else 0.0)
    return t * one / again.plan.machine.gemm


def _refuse_long(again: Revisited, expected: float, what: str) -> None:
    if expected > allowed(again):
        time = f"about {seconds(expected)}" if np.isfinite(expected) else "very long"
        raise NotShown(f"{what} would take {time}, and the fit took {_took(again)}.")


def _refuse_large(again: Revisited, n_alphas: int, samples: Samples) -> None:
    size = 8.0 * COPIES * n_alphas * samples.shape[1] * samples.n_targets
    if size > SHARE * again.plan.memory_budget:
        raise NotShown(
            f"Its coefficients would take {n_bytes(size)}; raise the model's memory_budget."
        )


def _took(again: Revisited) -> str:
    return seconds(float(again.model.report_.total_seconds))
