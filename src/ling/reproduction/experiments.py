"""Section 4 of the paper: five experiments as data, and how one repeat of each is run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

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
from ling.paper.models import Model, model1, model2, model3
from ling.paper.results import Fit
from ling.paper.svrg_solver import TUNING_PASSES, svrg
from ling.reproduction.datasets import (
    Dataset,
    DownloadProgress,
    load_buzz,
    load_gisette,
    quadratic_features,
)

RR, PCR, GD, SVRG = "RR", "PCR", "GD", "SVRG"
Rng = np.random.Generator
DatasetLoader = Callable[[DownloadProgress | None], Dataset]


@dataclass(frozen=True)
class ParameterGrid:
    """The parameters tried: Table 1 and the lists of section 4.2, under the paper's letters."""

    k1: tuple[int, ...]
    n1: tuple[int, ...]
    k2: tuple[int, ...]
    n2: tuple[int, ...]
    n_svrg: tuple[int, ...]


@dataclass(frozen=True)
class Choices:
    """What the paper leaves open. The defaults were set on ridge's own results alone.

    `noise` and `tail` belong to the models (see `ling.paper.models`). `lam_factor` multiplies the
    default lambda, `step` is SVRG's step in units of 1 / max ||x_i||^2 (None: cross-validation),
    `centre` centres Gisette on its training rows, `log` takes logarithms of Buzz's counts.
    """

    noise: float = 1.0
    tail: float = 0.1
    lam_factor: float = 1.0
    step: float | None = None
    centre: bool = False
    log: bool = True


@dataclass(frozen=True, eq=False)
class ExperimentProblem:
    """One repeat's training data, and how a fit to it is judged; `data` says what exactly it is."""

    data: str
    X: Array
    y: Array
    lam: float
    evaluate: Callable[[Fit], float]
    null: float
    model: Model | None = None


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper; `load` gets its data, if they are real ones."""

    name: str
    title: str
    measure: str
    repeats: int
    grid: ParameterGrid
    make_problem: Callable[[Dataset | None, Rng, Choices, bool], ExperimentProblem]
    load: DatasetLoader | None = None


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
    """What the theory predicts for one draw of a model, and what was measured on it."""

    ridge_risk: float
    ling_risk: float
    risk_deviation: float
    ling_solved: float
    gd_bound: float
    gd_rate: float
    ling_bound: float
    ling_rate: float


@dataclass(frozen=True)
class Repeat:
    """All that one repeat produced."""

    data: str
    shape: tuple[int, int]
    lam: float
    null: float
    points: list[Point]
    theory: TheoryCheck | None = None
    spectrum: list[float] = field(default_factory=list)


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
        name = f"LING+SVRG k={k}"
        return [
            *fits(f"LING k={k}", grid.n2, lambda n, rng: ling(X, y, lam, k, n, 1, False, rng)),
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
    spectrum = _singular_values(problem) if repeat == 0 else []
    advance()
    shape = (problem.X.shape[0], problem.X.shape[1])
    return Repeat(problem.data, shape, problem.lam, problem.null, points, measured, spectrum)


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
    passes = min(max(experiment.grid.n_svrg), TUNING_PASSES)
    if choices.step is not None:
        fixed = choices.step / float(np.einsum("ij,ij->i", X, X).max())
        return {SVRG: fixed} | {f"LING+SVRG k={k}": fixed for k in experiment.grid.k2}
    # One short fit is made to have its step; fits of the curve then reuse it.
    rng = _rng(seed, experiment, repeat, "step", 0)
    found = {SVRG: svrg(X, y, lam, passes, random_state=rng).step}
    for k in experiment.grid.k2:
        rng = _rng(seed, experiment, repeat, "step", k)
        fit = ling_svrg(X, y, lam, k, passes, random_state=rng, shrink=False)
        found[f"LING+SVRG k={k}"] = fit.step
    return found


def _check_theory(
    experiment: Experiment, problem: ExperimentProblem, last: dict[str, Fit]
) -> TheoryCheck:
    """What Theorem 2 and equations (3) and (4) assume: exact U1, and stage 2 solved to the end.

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
        _worst_rate(stage2.objective, _objective(best2, stage1.y_residual, n * lam)),
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
        return [float(d) for d in problem.model.spectrum]
    design = as_design(problem.X)
    n, p = design.shape
    gram = design.gram() if p <= n else design.row_gram()
    last = min(n, p) - 1
    squares = linalg.eigvalsh(gram, subset_by_index=[max(0, last - top + 1), last])
    return [float(d) for d in np.sqrt(np.maximum(squares, 0.0))[::-1]]


# The models ------------------------------------------------------------------------------------


def _simulated_problem(
    draw: Callable[..., Model], data: Dataset | None, rng: Rng, choices: Choices, quick: bool
) -> ExperimentProblem:
    n, p = (1000, 750) if quick else (2000, 1500)
    options: dict[str, Any] = {"tail": choices.tail} if draw is model1 else {}
    model = draw(rng, n=n, p=p, noise=choices.noise, **options)
    name = f"{model.name}, {n} x {p}"
    lam = model.lam * choices.lam_factor
    null = float(np.mean(model.mean**2))
    return ExperimentProblem(
        name, model.X, model.y, lam, lambda fit: model.risk(fit.fitted), null, model
    )


# The real data ---------------------------------------------------------------------------------

# The decade in which ridge's own error is smallest; docs/reproduction.md has the tables.
GISETTE_LAM = 1e-2
BUZZ_LAM = {"log counts": 0.3, "raw counts": 3.0}
# The paper takes one subset of Buzz for all of its splits.
BUZZ_ROWS = 8000


def _gisette_problem(
    data: Dataset | None, rng: Rng, choices: Choices, quick: bool
) -> ExperimentProblem:
    assert data is not None
    train, test = _train_test_split(len(data.y), *((1500, 500) if quick else (5000, 1000)), rng)
    X, X_new = (data.X[rows].astype(np.float64) / 999 for rows in (train, test))
    y, y_new = (data.y[rows].astype(np.float64) for rows in (train, test))
    if choices.centre:
        mean = X.mean(axis=0)
        X, X_new = X - mean, X_new - mean
    shift = y.mean() if choices.centre else 0.0

    def error(fit: Fit) -> float:
        return float(np.mean(np.where(fit.predict(X_new) + shift > 0, 1, -1) != y_new))

    name = f"{data.name}, {len(train)} training rows"
    return ExperimentProblem(name, X, y - shift, GISETTE_LAM * choices.lam_factor, error, 0.5)


def _buzz_problem(
    data: Dataset | None, rng: Rng, choices: Choices, quick: bool
) -> ExperimentProblem:
    assert data is not None
    subset = np.random.default_rng(0).permutation(len(data.y))[:BUZZ_ROWS]
    train, test = _train_test_split(len(subset), *((2000, 1000) if quick else (6000, 2000)), rng)
    n_train = len(train)
    rows = subset[np.concatenate([train, test])]
    X, y = data.X[rows].astype(np.float64), data.y[rows].astype(np.float64)
    if choices.log:
        X, y = np.log1p(X), np.log1p(y)
    X = _standardize(quadratic_features(_standardize(X, n_train)), n_train)
    mean = y[:n_train].mean()

    def mse(fit: Fit) -> float:
        return float(np.mean((fit.predict(X[n_train:]) + mean - y[n_train:]) ** 2))

    scale = "log counts" if choices.log else "raw counts"
    name = f"{data.name}, {scale}, {X.shape[1]} features, {n_train} training rows"
    null = float(np.mean((y[n_train:] - mean) ** 2))
    lam = BUZZ_LAM[scale] * choices.lam_factor
    return ExperimentProblem(name, X[:n_train], y[:n_train] - mean, lam, mse, null)


def _train_test_split(
    n: int, n_train: int, n_test: int, rng: Rng
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    order = rng.permutation(n)
    n_train = min(n_train, n * n_train // (n_train + n_test))
    return order[:n_train], order[n_train : n_train + n_test]


def _standardize(X: Array, n_train: int) -> Array:
    """Columns with mean 0 and deviation 1 over the training rows, which come first; in place."""
    mean, deviation = X[:n_train].mean(axis=0), X[:n_train].std(axis=0)
    X -= mean
    X /= np.where(deviation > 0, deviation, 1.0)
    return X


def _define_experiments() -> Iterator[Experiment]:
    yield Experiment(
        "model1", "Model 1: a steep spectrum", "risk", 20,
        ParameterGrid(
            k1=(21, 22, 23, 26, 30, 50, 100), n1=(10, 20, 30, 50, 80, 100, 150, 200), k2=(20,),
            n2=(1, 2, 3, 5, 8, 13, 20), n_svrg=(30, 50, 80, 120, 150),
        ),
        partial(_simulated_problem, model1),
    )  # fmt: skip
    yield Experiment(
        "model2", "Model 2: a flat spectrum", "risk", 20,
        ParameterGrid(
            k1=(20, 30, 50, 100, 150, 400), n1=(2, 4, 6, 8, 10, 15, 20, 30), k2=(20,),
            n2=(2, 4, 6, 8, 10, 15, 20, 30), n_svrg=(5, 10, 20, 30, 50),
        ),
        partial(_simulated_problem, model2),
    )  # fmt: skip
    yield Experiment(
        "model3", "Model 3: strong directions above a flat spectrum", "risk", 20,
        ParameterGrid(
            k1=(20, 30, 50, 100, 150, 400), n1=(6, 10, 15, 20, 30, 50, 80, 120, 180, 250),
            k2=(20,), n2=(2, 4, 6, 8, 10, 15, 30), n_svrg=(5, 10, 15, 25, 40, 60, 90),
        ),
        partial(_simulated_problem, model3),
    )  # fmt: skip
    gisette = Experiment(
        "gisette", "Gisette", "classification error", 6,
        ParameterGrid(
            k1=(10, 20, 40, 80, 150, 300, 400), n1=(2, 5, 10, 15, 20, 30, 50, 100, 150),
            k2=(5, 15), n2=(1, 2, 4, 8, 10, 15, 20, 30, 50),
            n_svrg=(1, 2, 3, 5, 10, 20, 40, 80),
        ),
        _gisette_problem, partial(load_gisette, "auto"),
    )  # fmt: skip
    yield gisette
    yield Experiment(
        "buzz", "Buzz in social media", "test MSE", 5,
        ParameterGrid(
            k1=(10, 20, 30, 50, 100, 150), n1=(1, 2, 4, 6, 8, 10, 15, 20, 30, 40, 60, 100),
            k2=(5, 15), n2=(0, 1, 2, 4, 6, 8, 10, 15, 20, 25),
            n_svrg=(1, 2, 3, 5, 10, 15, 20, 40, 80),
        ),
        _buzz_problem, partial(load_buzz, "auto"),
    )  # fmt: skip
    yield replace(
        gisette,
        name="gisette-surrogate",
        title="Gisette-style surrogate",
        load=partial(load_gisette, "surrogate"),
    )


EXPERIMENTS = {experiment.name: experiment for experiment in _define_experiments()}
