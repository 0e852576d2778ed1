"""The data of one repeat of an experiment, under one reading of what the paper leaves open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ling._typing import Array
from ling.paper.models import Model, model1, model3
from ling.paper.results import Fit
from ling.reproduction.datasets import Dataset, quadratic_features

Rng = np.random.Generator


@dataclass(frozen=True)
class Choices:
    """What the paper leaves open. The defaults were set on ridge's own results alone.

    `noise` is the standard deviation of the models' noise; `noise_ratio`, if not 0, sets it to that
    share of the root mean square of the signal instead. `tail` is the height of Model 1's singular
    values below the 30th. `first_drawn` takes Model 3's "top 15 sampled values" as the first 15
    drawn, not as the largest. `lam_factor` multiplies the default lambda, `step` is SVRG's step in
    units of 1 / max ||x_i||^2 (None: cross-validation), `centre` centres Gisette on its training
    rows, `log` takes logarithms of Buzz's counts.
    """

    noise: float = 1.0
    noise_ratio: float = 0.0
    tail: float = 0.1
    first_drawn: bool = False
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


# The models ------------------------------------------------------------------------------------


def simulated_problem(
    draw: Callable[..., Model], data: Dataset | None, rng: Rng, choices: Choices, quick: bool
) -> ExperimentProblem:
    """A draw of one of the three models, judged by its risk."""
    n, p = (1000, 750) if quick else (2000, 1500)
    options: dict[str, Any] = {}
    if draw is model1:
        options["tail"] = choices.tail
    if draw is model3:
        options["raised"] = "first" if choices.first_drawn else "largest"
    model = draw(rng, n=n, p=p, noise=choices.noise, **options)
    null = float(np.mean(model.mean**2))
    if choices.noise_ratio:
        model = _scale_noise(model, choices.noise_ratio * float(np.sqrt(null)))
    return ExperimentProblem(
        f"{model.name}, {n} x {p}", model.X, model.y, model.lam * choices.lam_factor,
        lambda fit: model.risk(fit.fitted), null, model,
    )  # fmt: skip


def _scale_noise(model: Model, noise: float) -> Model:
    """The same draw with its noise scaled to the standard deviation `noise`."""
    factor = noise / model.noise
    y = model.mean + factor * (model.y - model.mean)
    return replace(model, y=y, noise=noise, lam=model.lam * factor**2)


# The real data ---------------------------------------------------------------------------------

# The decade in which ridge's own error is smallest; docs/reproduction.md has the tables.
GISETTE_LAM = 1e-2
BUZZ_LAM = {"log counts": 0.3, "raw counts": 3.0}
# The paper takes one subset of Buzz for all of its splits.
BUZZ_ROWS = 8000


def gisette_problem(
    data: Dataset | None, rng: Rng, choices: Choices, quick: bool
) -> ExperimentProblem:
    """A split of Gisette, judged by the classification error."""
    assert data is not None
    train, test = _train_test_split(len(data.y), *((1000, 500) if quick else (5000, 1000)), rng)
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


def buzz_problem(
    data: Dataset | None, rng: Rng, choices: Choices, quick: bool
) -> ExperimentProblem:
    """A split of Buzz with all products of two features, judged by the mean squared error."""
    assert data is not None
    subset = np.random.default_rng(0).permutation(len(data.y))[:BUZZ_ROWS]
    train, test = _train_test_split(len(subset), *((1500, 750) if quick else (6000, 2000)), rng)
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
