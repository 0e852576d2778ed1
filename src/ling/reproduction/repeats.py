"""One repeat of an experiment: every fit of its grid, and what the theory says of its data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy import linalg

from ling._typing import Array
from ling.design import as_design
from ling.paper import theory
from ling.paper.algorithm1 import first_stage, ling, ling_svrg
from ling.paper.algorithm2 import exact_svd, pcr
from ling.paper.algorithm3 import DescentFit, gradient_descent
from ling.paper.baselines import ridge
from ling.paper.inputs import check_design
from ling.paper.results import Fit
from ling.paper.svrg_solver import svrg
from ling.reproduction.datasets import Dataset
from ling.reproduction.experiments import (
    GD,
    LING,
    LING_SVRG,
    PCR,
    RR,
    SVRG,
    Experiment,
    ParameterGrid,
)
from ling.reproduction.interpreted_svrg import seconds_per_pass
from ling.reproduction.problems import Choices, ExperimentProblem, Rng

# Draws of Algorithm 2 on the data of the first repeat. 50 show what happens in 1 draw out of 20
# with probability 0.92; each costs a fit of LING.
N_SUBSPACE_DRAWS = 50
N_QUICK_DRAWS = 10


@dataclass(frozen=True)
class Point:
    """One fit: what it cost and how good it was."""

    algorithm: str
    parameter: int
    repeat: int
    flops: float
    passes: float
    seconds: float
    value: float


@dataclass(frozen=True)
class TheoryCheck:
    """What the theory predicts for one draw of a model, and what was measured on it.

    `*_bound` are the rates C of equations (4) and (5), `ling_bound_from_zero` is (5) with the
    smallest singular value, `*_rate` the largest share of the gap that a step left.
    `prediction_gap` is the distance between the fitted values of LING, with exact U1 and stage 2
    solved, and of ridge, relative to ridge's.
    """

    ridge_risk: float
    ling_risk: float
    risk_deviation: float
    ling_solved: float
    gd_bound: float
    gd_rate: float
    ling_bound: float
    ling_bound_from_zero: float
    ling_rate: float
    prediction_gap: float


@dataclass(frozen=True)
class SubspaceDraw:
    """One draw of Algorithm 2: the values of PCR and of LING with the components it found."""

    pcr: float
    ling: float


@dataclass(frozen=True)
class Repeat:
    """All that one repeat produced.

    `loop_seconds` is the time of one pass of interpreted SVRG. The first repeat also has the
    singular values of X, and many draws of Algorithm 2 on its data.
    """

    data: str
    shape: tuple[int, int]
    lam: float
    null: float
    points: list[Point]
    theory: TheoryCheck | None = None
    spectrum: list[float] = field(default_factory=list)
    draws: list[SubspaceDraw] = field(default_factory=list)
    loop_seconds: float = 0.0


@dataclass(frozen=True)
class FitTask:
    """A fit to be made: a point of a curve."""

    algorithm: str
    parameter: int
    fit: Callable[[Rng], Fit]


def fit_tasks(
    grid: ParameterGrid, problem: ExperimentProblem, step: dict[str, float]
) -> list[FitTask]:
    """Every fit of one repeat; LING in its simplified version, as the paper has it here."""
    X, y, lam = problem.X, problem.y, problem.lam

    def fits(name: str, parameters: Iterable[int], fit: Callable[[int, Rng], Fit]) -> list[FitTask]:
        return [FitTask(name, value, partial(fit, value)) for value in parameters]

    def two_stages(k: int) -> list[FitTask]:
        name = f"{LING_SVRG}{k}"
        return [
            *fits(f"{LING}{k}", grid.n2, lambda n, rng: ling(X, y, lam, k, n, 1, False, rng)),
            *fits(
                name,
                grid.n_svrg,
                lambda n, rng: ling_svrg(X, y, lam, k, n, step[name], rng, shrink=False),
            ),
        ]

    return [
        *fits(RR, [0], lambda _, rng: ridge(X, y, lam)),
        *fits(PCR, (k for k in grid.k1 if k <= min(X.shape)), lambda k, rng: pcr(X, y, k, 1, rng)),
        *fits(GD, grid.n1, lambda n, rng: gradient_descent(X, y, lam, n)),
        *fits(SVRG, grid.n_svrg, lambda n, rng: svrg(X, y, lam, n, step[SVRG], rng)),
        *(task for k in grid.k2 for task in two_stages(k)),
    ]


def run_repeat(
    experiment: Experiment,
    data: Dataset | None,
    repeat: int,
    seed: int,
    choices: Choices,
    quick: bool,
    advance: Callable[[], None] = lambda: None,
) -> Repeat:
    """One repeat, the same whichever others were run before it; `advance` is called per fit."""
    problem = experiment.make_problem(
        data, _rng(seed, experiment, repeat, "data", 0), choices, quick
    )
    step = _tune_steps(experiment, problem, repeat, seed, choices)
    advance()
    points = []
    last: dict[str, Fit] = {}
    for task in fit_tasks(experiment.grid, problem, step):
        rng = _rng(seed, experiment, repeat, task.algorithm, task.parameter)
        started = time.perf_counter()
        fit = task.fit(rng)
        seconds = time.perf_counter() - started
        last[task.algorithm] = fit
        cost = fit.cost.flops, fit.cost.passes, seconds
        points.append(Point(task.algorithm, task.parameter, repeat, *cost, problem.evaluate(fit)))
        advance()
    measured = None if problem.model is None else _check_theory(experiment, problem, last)
    loop_rng = _rng(seed, experiment, repeat, "loop", 0)
    loop = seconds_per_pass(problem.X, problem.y, problem.lam, step[SVRG], loop_rng)
    first = repeat == 0
    spectrum = _singular_values(problem) if first else []
    n_draws = N_QUICK_DRAWS if quick else N_SUBSPACE_DRAWS
    draws = (
        _draw_subspaces(experiment, problem, seed, n_draws)
        if first and not experiment.stands_for
        else []
    )
    advance()
    shape = (problem.X.shape[0], problem.X.shape[1])
    about = problem.data, shape, problem.lam, problem.null
    return Repeat(*about, points, measured, spectrum, draws, loop)


def n_progress_steps(experiment: Experiment) -> int:
    """Calls of `advance` in one repeat: its fits, the choice of steps, and the theory."""
    grid = experiment.grid
    per_k = len(grid.n2) + len(grid.n_svrg)
    return 3 + len(grid.k1) + len(grid.n1) + len(grid.n_svrg) + len(grid.k2) * per_k


def _rng(seed: int, experiment: Experiment, repeat: int, what: str, which: int) -> Rng:
    words = list(f"{experiment.name}/{what}".encode())
    return np.random.default_rng([seed, repeat, which, *words])


def _tune_steps(
    experiment: Experiment, problem: ExperimentProblem, repeat: int, seed: int, choices: Choices
) -> dict[str, float]:
    """The step of each SVRG curve, chosen once per repeat; the paper does not count its cost."""
    X, y, lam = problem.X, problem.y, problem.lam
    k2 = experiment.grid.k2
    if choices.step is not None:
        fixed = choices.step / float(np.einsum("ij,ij->i", X, X).max())
        return {SVRG: fixed} | {f"{LING_SVRG}{k}": fixed for k in k2}
    # The longest fit of the curve is made to have its step; fits of the curve then reuse it.
    passes = max(experiment.grid.n_svrg)
    rng = _rng(seed, experiment, repeat, "step", 0)
    found = {SVRG: svrg(X, y, lam, passes, random_state=rng).step}
    for k in k2:
        rng = _rng(seed, experiment, repeat, "step", k)
        fit = ling_svrg(X, y, lam, k, passes, random_state=rng, shrink=False)
        found[f"{LING_SVRG}{k}"] = fit.step
    return found


def _draw_subspaces(
    experiment: Experiment, problem: ExperimentProblem, seed: int, n_draws: int
) -> list[SubspaceDraw]:
    """Draws of Algorithm 2 on the same data, each used by PCR and by LING with k2 components."""
    X, y, lam = problem.X, problem.y, problem.lam
    k, n_iter = experiment.grid.k2[0], experiment.grid.n2[-1]
    found = []
    for number in range(n_draws):
        # Both begin with the same Gaussian matrix, and so with the same subspace.
        first, second = (_rng(seed, experiment, number, "subspace", k) for _ in range(2))
        components = pcr(X, y, k, 1, first)
        both = ling(X, y, lam, k, n_iter, 1, False, second)
        found.append(SubspaceDraw(problem.evaluate(components), problem.evaluate(both)))
    return found


def _check_theory(
    experiment: Experiment, problem: ExperimentProblem, last: dict[str, Fit]
) -> TheoryCheck:
    """What Theorem 2 and equations (4) and (5) assume: exact U1, and stage 2 solved to the end.

    `last` holds the fit of each algorithm at the end of its grid.
    """
    model, X, y, lam = problem.model, problem.X, problem.y, problem.lam
    assert model is not None
    n, p = X.shape
    d, a, k = model.spectrum, model.rotated, experiment.grid.k2[0]
    svd = exact_svd(X, k)
    stage1 = first_stage(check_design(X), y, n * lam, k, svd=svd)
    stage2 = ling(X, y, lam, k, experiment.grid.n2[-1], svd=svd)
    best, best2 = last[RR], ridge(stage1.X_residual, stage1.y_residual, lam)
    solved = stage1.combine(best2.coef, best2.fitted)[1]
    descent = last[GD]
    assert isinstance(descent, DescentFit)
    return TheoryCheck(
        theory.ridge_risk(d, a, model.noise, lam, n),
        theory.ling_risk(d, a, model.noise, lam, n, k),
        theory.risk_deviation(d, a, model.noise, lam, n),
        model.risk(solved),
        theory.gd_rate(d, lam, n, p),
        _worst_rate(descent.objective, _objective(best, y, n * lam)),
        theory.ling_rate(d, lam, n, k),
        theory.ling_rate_from_zero(d, lam, n, k),
        _worst_rate(stage2.objective, _objective(best2, stage1.y_residual, n * lam)),
        float(linalg.norm(solved - best.fitted) / linalg.norm(best.fitted)),
    )


def _objective(fit: Fit, y: Array, alpha: float) -> float:
    return float(np.sum((y - fit.fitted) ** 2) + alpha * np.sum(fit.coef**2))


def _worst_rate(objective: Array, best: float) -> float:
    """The largest share of the gap that a step left, while the gap is well above rounding."""
    gap = objective - best
    seen = gap[:-1] > 1e-8 * objective[0]
    return float((gap[1:][seen] / gap[:-1][seen]).max(initial=0.0))


def _singular_values(problem: ExperimentProblem, top: int = 150) -> list[float]:
    if problem.model is not None:
        return [float(d) for d in np.sort(problem.model.spectrum)[::-1]]
    design = as_design(problem.X)
    n, p = design.shape
    gram = design.gram() if p <= n else design.row_gram()
    last = min(n, p) - 1
    squares = linalg.eigvalsh(gram, subset_by_index=[max(0, last - top + 1), last])
    return [float(d) for d in np.sqrt(np.maximum(squares, 0.0))[::-1]]
