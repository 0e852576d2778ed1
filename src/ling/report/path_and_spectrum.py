"""The path and the spectrum of a report: both from one factorisation, where that is soon done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ling._typing import Array
from ling.errors import LingError
from ling.estimators.out_of_sample import FittedProblem
from ling.linalg.tridiagonal import HouseholderTridiagonal, tridiagonalize
from ling.model_selection import CVProblem, default_alpha_grid
from ling.model_selection.path import expected_path_cost, solution_path
from ling.report.path_display import N_PATH_ALPHAS, refine_alpha_grid
from ling.report.plot_style import LOG_AXIS_LIMITS
from ling.report.spectrum_display import MAX_EXACT_SIZE, full_spectrum
from ling.solvers.cost_model import eigenvalue_bytes, gram_seconds, pass_seconds
from ling.solvers.cv_cost import tridiagonal_seconds
from ling.solvers.direct import solve_with_refinement
from ling.wording import format_bytes, format_seconds

# Of the memory budget, for the coefficients of a path.
PATH_MEMORY_SHARE = 0.2
# Arrays of the size of a path's coefficients that are there at the same time.
PATH_COEF_COPIES = 4
# Where nothing can be factored, a path goes down to this part of the model's alpha.
MIN_ALPHA_RATIO = 1 / 30
# Predicted seconds that a path or a spectrum may take after any fit; after a fit that is predicted
# to take longer, as long as that.
MIN_ALLOWED_SECONDS = 3.0
# Alphas below which a path is no line.
MIN_PATH_ALPHAS = 12
# Sweeps over X'X for the coefficients of one alpha: two solutions of two products, two residuals.
GRAM_PRODUCTS_PER_ALPHA = 6.0
# What is iterated takes another subspace, for degrees of freedom.
EDF_SUBSPACE_FACTOR = 2.0


class OmittedError(LingError):
    """Why something is left out of a page."""


ALPHA_TOO_LARGE = "The model's alpha is too large to be drawn."


@dataclass(frozen=True, eq=False)
class PathData:
    """Coefficients (n_alphas, p, n_shown), per spread of the column, and degrees of freedom."""

    alphas: Array
    coef: Array
    effective_dof: Array


@dataclass(frozen=True, eq=False)
class SpectrumData:
    """What `SpectrumDisplay` draws."""

    eigenvalues: Array
    edf: tuple[float, float]
    note: str


def tridiagonal_form(
    again: FittedProblem,
    form: HouseholderTridiagonal | None = None,
    max_exact_size: int = MAX_EXACT_SIZE,
) -> HouseholderTridiagonal:
    """X'X, or X X' if that is smaller, in tridiagonal form; `form` if that is it already."""
    if form is not None:
        return form
    if getattr(again.model, "positive", False):
        raise OmittedError("The coefficients are kept at or above 0, to which this does not apply.")
    problem, (n, p) = again.cv_problem.problem, again.cv_problem.shape
    m = min(n, p)
    kind = f"a matrix of {m:,} x {m:,} numbers"
    if m > max_exact_size or not again.plan.memory.allows(eigenvalue_bytes(m, m)):
        raise OmittedError(f"Factoring {kind} would take too long, or too much memory.")
    _check_seconds(again, _factorization_seconds(again), f"Factoring {kind}")
    problem.design.meter.add(4 / 3 * float(m) ** 3)
    return tridiagonalize(problem.gram() if p <= n else problem.row_gram())


def compute_spectrum(again: FittedProblem, form: HouseholderTridiagonal | str) -> SpectrumData:
    """All eigenvalues."""
    if isinstance(form, str):
        raise OmittedError(form)
    problem, unit = again.cv_problem.problem, again.cv_problem.standardization.x_scale**2
    if again.alphas.max() > LOG_AXIS_LIMITS[1]:
        raise OmittedError(ALPHA_TOO_LARGE)
    alpha = float(np.median(problem.alphas))
    values, edf, note = full_spectrum(form.eigenvalues, problem.shape, alpha, None)
    return SpectrumData(values * unit, edf, note)


def compute_path(
    again: FittedProblem, shown: Sequence[int], form: HouseholderTridiagonal | str
) -> PathData:
    """Coefficients of the shown targets over all alphas."""
    samples = again.select_targets(shown)
    if not samples.problem.column_norms.any():
        raise OmittedError("The columns do not vary.")
    alpha = float(np.median(again.alphas[list(shown)]))
    if alpha > LOG_AXIS_LIMITS[1]:
        raise OmittedError(ALPHA_TOO_LARGE)
    if isinstance(form, str):
        return _krylov_path(again, samples, alpha, form)
    n_alphas = min(N_PATH_ALPHAS, int(allowed_seconds(again) / _seconds_per_alpha(again, samples)))
    if n_alphas < MIN_PATH_ALPHAS:
        raise OmittedError(f"It would take longer than the fit, {_format_fit_seconds(again)}.")
    _check_memory(again, n_alphas, samples)
    alphas = refine_alpha_grid(_cv_alphas(again), alpha, n_alphas)
    unit = samples.standardization.x_scale**2
    coef = _path_coefficients(samples, form, alphas / unit)
    return _path_data(again, samples, alphas, coef, form.effective_dof(alphas / unit))


def allowed_seconds(again: FittedProblem) -> float:
    """Seconds that each of them may take."""
    return max(MIN_ALLOWED_SECONDS, _fit_seconds(again))


def _fit_seconds(again: FittedProblem) -> float:
    """Predicted seconds of the passes and FLOPs that the fit has counted.

    What a page shows depends on them. Measured seconds would make it depend on how busy the machine
    was.
    """
    cost, shape, machine = again.model.report_.cost, again.plan.dimensions, again.plan.machine
    return float(cost.passes * pass_seconds(shape, machine) + cost.flops / machine.gemm_rate)


def _path_coefficients(samples: CVProblem, form: HouseholderTridiagonal, alphas: Array) -> Array:
    """(n_alphas, p, t), without the bounds that a fit has: nobody sees them in a picture."""
    problem, wide = samples.problem, samples.shape[1] > samples.shape[0]
    each = np.repeat(alphas, samples.n_targets)
    A = problem.row_gram() if wide else problem.gram()
    right = problem.targets if wide else problem.moments
    W = solve_with_refinement(form, A, np.tile(right, len(alphas)), each)[0]
    return np.stack(np.split(problem.design.rmatmat(W) if wide else W, len(alphas), axis=1))


def _krylov_path(again: FittedProblem, samples: CVProblem, alpha: float, why: str) -> PathData:
    """A shorter path, from one subspace; `why` nothing is factored."""
    if getattr(again.model, "positive", False):
        raise OmittedError(why)
    if again.is_out_of_core:
        raise OmittedError(f"{why} Otherwise it takes many passes; ling.ridge_path computes it.")
    n_alphas = N_PATH_ALPHAS // 3
    plan = again.plan
    plan = replace(plan, dimensions=replace(plan.dimensions, n_targets=samples.n_targets))
    _check_seconds(
        again, EDF_SUBSPACE_FACTOR * (expected_path_cost(plan, n_alphas)[1] or np.inf), "It"
    )
    _check_memory(again, n_alphas, samples)
    tried = _cv_alphas(again)
    alphas = refine_alpha_grid(tried[tried >= MIN_ALPHA_RATIO * alpha], alpha, n_alphas)
    rng, unit = np.random.default_rng(0), samples.standardization.x_scale**2
    found = solution_path(samples, alphas / unit, plan, float(again.model.tol), rng)
    return _path_data(again, samples, alphas, found.coef, found.effective_dof()[0])


def _path_data(
    again: FittedProblem, samples: CVProblem, alphas: Array, W: Array, effective_dof: Array
) -> PathData:
    coef = np.stack([samples.standardization.coef(one) for one in W])
    return PathData(alphas, coef * again.spread[:, None], effective_dof)


def _cv_alphas(again: FittedProblem) -> Array:
    alphas = getattr(again.model, "alphas_", None)
    if alphas is not None and np.ptp(alphas) > 0:
        return np.asarray(alphas)
    return np.asarray(
        default_alpha_grid(again.cv_problem.problem) * again.cv_problem.standardization.x_scale**2
    )


def _factorization_seconds(again: FittedProblem) -> float:
    """To make X'X or X X', if held-out predictions did not, and to bring it to its form."""
    shape, machine = again.plan.dimensions, again.plan.machine
    form = tridiagonal_seconds(min(shape.n, shape.p), machine)
    cache = again.cv_problem.problem.gram_cache
    if (cache.formed_gram if shape.p <= shape.n else cache.formed_kernel) is not None:
        return form
    return form + max(gram_seconds(shape, machine), pass_seconds(shape, machine))


def _seconds_per_alpha(again: FittedProblem, samples: CVProblem) -> float:
    """For the coefficients of one alpha."""
    n, p = samples.shape
    m, t = min(n, p), samples.n_targets
    one = GRAM_PRODUCTS_PER_ALPHA * 2.0 * float(m) ** 2 + (2.0 * n * p if p > n else 0.0)
    return t * one / again.plan.machine.gemm_rate


def _check_seconds(again: FittedProblem, expected: float, what: str) -> None:
    if expected > allowed_seconds(again):
        time = f"about {format_seconds(expected)}" if np.isfinite(expected) else "very long"
        raise OmittedError(
            f"{what} would take {time}, and the fit takes {_format_fit_seconds(again)}."
        )


def _check_memory(again: FittedProblem, n_alphas: int, samples: CVProblem) -> None:
    size = 8.0 * PATH_COEF_COPIES * n_alphas * samples.shape[1] * samples.n_targets
    if not again.plan.memory.allows(size, PATH_MEMORY_SHARE):
        raise OmittedError(
            f"Its coefficients would take {format_bytes(size)}; raise the model's memory_budget."
        )


def _format_fit_seconds(again: FittedProblem) -> str:
    return f"about {format_seconds(_fit_seconds(again))}"
