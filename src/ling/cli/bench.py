"""`ling bench`: Ridge and RidgeCV beside scikit-learn's, on this machine."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn import linear_model as theirs

from ling.cli.console import CommandOutput, make_table
from ling.cli.options import DataOptions
from ling.cli.training_table import read_training_table
from ling.design.chunked import read_all
from ling.errors import WrongType
from ling.estimators import Ridge, RidgeCV
from ling.solvers.machine import measured_machine

# What everybody has to reach, measured: the error of the training predictions.
TARGET_ERROR = 1e-4
TOLERANCES = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8)
# Turns, and seconds after which there is no further one.
MAX_ROUNDS, ROUNDS_BUDGET_SECONDS = 3, 8.0
ALPHAS = np.logspace(-2, 5, 10)
N_FOLDS = 5
SYNTHETIC_SHAPE = (8_000, 400)
# Seconds that all fits of a cross-validation may take, as predicted from one fit.
MAX_CV_SECONDS = 20.0


@dataclass(frozen=True)
class TimedFit:
    """A contestant; `error` is that of its training predictions, or its alpha of a choice."""

    task: str
    name: str
    seconds: float
    error: float | None = None
    alpha: float | None = None


def run(wanted: DataOptions | None, seed: int, out: CommandOutput) -> None:
    """Make or read the data, time, tell."""
    with out.show_status("making the data" if wanted is None else f"reading {wanted.path}"):
        X, y = _synthetic_data(seed) if wanted is None else _read_data(wanted)
        measured_machine()
        RidgeCV(cv=2).fit(X[:50, :5], y[:50])  # what a first call loads and compiles is no fit
    with out.show_status("one fit"):
        fits = _time_fits(X, y)
    n, p = X.shape
    rows = _rows_within_budget(n, fits)
    with out.show_status("choosing alpha"):
        choices = _time_alpha_choice(X[:rows], y[:rows])
    out.show(
        f"{n:,} x {p:,}, {os.cpu_count()} cores; fastest of up to {MAX_ROUNDS} turns", style="bold"
    )
    table = make_table("", "", ">seconds", ">ling is", ">error", ">alpha")
    for results in (fits, choices):
        for result in results:
            ratio = result.seconds / results[0].seconds
            table.add_row(
                result.task if result is results[0] else "",
                result.name,
                f"{result.seconds:.3f}",
                "" if result is results[0] else f"{ratio:.1f} x",
                "" if result.error is None else f"{result.error:.0e}",
                "" if result.alpha is None else f"{result.alpha:.4g}",
            )
    out.show(table)
    out.show()
    out.show(
        f"error: of the training predictions, measured against a float64 solution, in units of y's "
        f"spread. lsqr has the loosest tolerance that reaches {TARGET_ERROR:g}; ling proves that "
        f"it does. "
        "ling is: so many times faster (below 1: slower).",
        style="dim",
    )
    if rows < n:
        out.note(
            f"alphas were chosen with the first {rows:,} rows: with all it would take minutes."
        )
    out.print_json(
        {
            "shape": [n, p],
            "rows_for_choice": rows,
            "results": [asdict(result) for result in (*fits, *choices)],
        }
    )


def _synthetic_data(seed: int) -> tuple[Any, Any]:
    return correlated_data(*SYNTHETIC_SHAPE, seed)


def correlated_data(n: int, p: int, seed: int) -> tuple[Any, Any]:
    """X (n, p) with correlated columns whose singular values decay like 1 / sqrt(i), and y."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((p, p)))[0]
    X = (rng.standard_normal((n, p)) / np.arange(1, p + 1) ** 0.5) @ rotation
    return X, X @ rng.standard_normal(p) + rng.standard_normal(n)


def _read_data(wanted: DataOptions) -> tuple[Any, Any]:
    found = read_training_table(wanted)
    if found.data.y.dtype.kind in "US":
        raise WrongType(f"the target {wanted.target!r} is text; pass a target of numbers.")
    return read_all(found.data.X).array, np.asarray(found.data.y, np.float64)


def _time_fits(X: Any, y: Any) -> list[TimedFit]:
    """One alpha: everybody to the same measured error."""
    alpha = 1e-3 * len(y)
    exact = theirs.Ridge(alpha, solver="svd" if min(X.shape) < 1000 else "cholesky").fit(X, y)
    known, spread = exact.predict(X), float(np.linalg.norm(y - y.mean()))

    def error(model: Any) -> float:
        return float(np.linalg.norm(model.predict(X) - known)) / spread

    contestants: dict[str, Callable[[], Any]] = {
        "ling Ridge()": partial(fit_without_warnings, Ridge(alpha, random_state=0), X, y),
        "scikit-learn Ridge()": partial(fit_without_warnings, theirs.Ridge(alpha), X, y),
    }
    for tol in TOLERANCES:
        model = theirs.Ridge(alpha, solver="lsqr", tol=tol)
        if error(fit_without_warnings(model, X, y)) <= TARGET_ERROR:
            contestants[f"scikit-learn lsqr, tol={tol:g}"] = partial(
                fit_without_warnings, model, X, y
            )
            break
    times, models = time_interleaved(contestants)
    return [TimedFit("one fit", name, times[name], error(models[name])) for name in contestants]


def _rows_within_budget(n: int, fits: list[TimedFit]) -> int:
    """Rows with which scikit-learn's cross-validation takes seconds, not minutes."""
    predicted = len(ALPHAS) * N_FOLDS * fits[1].seconds
    return min(n, max(N_FOLDS * 20, int(n * MAX_CV_SECONDS / predicted)))


def _time_alpha_choice(X: Any, y: Any) -> list[TimedFit]:
    """The same ten alphas and five folds."""
    contestants: dict[str, Callable[[], Any]] = {
        "ling RidgeCV(cv=5)": partial(
            fit_without_warnings, RidgeCV(ALPHAS, cv=N_FOLDS, random_state=0), X, y
        ),
        "scikit-learn RidgeCV(cv=5)": partial(
            fit_without_warnings, theirs.RidgeCV(ALPHAS, cv=N_FOLDS), X, y
        ),
    }
    times, models = time_interleaved(contestants)
    return [
        TimedFit("ten alphas", name, times[name], alpha=float(models[name].alpha_))
        for name in contestants
    ]


def fit_without_warnings(model: Any, X: Any, y: Any) -> Any:
    """Fit without warnings."""
    with warnings.catch_warnings(action="ignore"):
        return model.fit(X, y)


def time_interleaved(
    contestants: dict[str, Callable[[], Any]],
) -> tuple[dict[str, float], dict[str, Any]]:
    """Seconds of the fastest of a few turns, and the models; in each turn all are run once."""
    times = dict.fromkeys(contestants, float("inf"))
    models: dict[str, Any] = {}
    begun = time.perf_counter()
    for _ in range(MAX_ROUNDS):
        for name, contestant in contestants.items():
            started = time.perf_counter()
            models[name] = contestant()
            times[name] = min(times[name], time.perf_counter() - started)
        if time.perf_counter() - begun > ROUNDS_BUDGET_SECONDS:
            break
    return times, models
