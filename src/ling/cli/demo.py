"""`ling demo`: a file of houses from beginning to end, and scikit-learn on the same file."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ling.atomic_write import atomic_write
from ling.cli import fit, predict
from ling.cli.console import CommandOutput, make_table
from ling.cli.demo_data import make_houses
from ling.cli.options import DataOptions
from ling.estimators import RidgeCV
from ling.io.tables import check_pyarrow_installed
from ling.model_file import load
from ling.progress_bar import format_duration

# Largest number of rounds of a timing, and seconds after which no further round begins.
MAX_ROUNDS, ROUNDS_BUDGET_SECONDS = 3, 8.0
TARGET_COLUMN, ID_COLUMN = "price", "house_id"
# Both get the same: scikit-learn has no grid of its own that suits the data.
FILE_ALPHAS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
REPORT_PATH = Path("demo-report.html")
# The data and the grid of the comparison of `RidgeCV`; fewer rows and columns for a small --rows.
# One turn of all three models takes about 6 s on two cores: the demo stays within a minute.
MAX_CV_ROWS, MAX_CV_COLUMNS = 5_000, 1_000
CV_ALPHAS = np.logspace(-3, 4, 20)


@dataclass(frozen=True, eq=False)
class SklearnFit:
    """What scikit-learn made of the same file."""

    alpha: float
    predictions: Any
    seconds: float


@dataclass(frozen=True)
class CVTiming:
    """One `RidgeCV` in the comparison; `bound` is ling's certificate, None for scikit-learn."""

    name: str
    seconds: float
    alpha: float
    bound: float | None = None


def run(folder: Path, rows: int, seed: int, out: CommandOutput) -> None:
    """Write the file, fit, predict, compare."""
    check_pyarrow_installed()
    folder.mkdir(parents=True, exist_ok=True)
    sold, new = folder / "houses.parquet", folder / "new-houses.parquet"
    held_out = max(1, rows // 10)
    with out.show_status(f"making up {rows + held_out:,} houses"):
        _write_parquet(sold, make_houses(rows, seed))
        _write_parquet(new, make_houses(held_out, seed, first=rows))
    model, predictions = folder / "model.ling", folder / "predictions.parquet"
    report = REPORT_PATH if find_spec("matplotlib") else None
    alphas = ",".join(f"{alpha:g}" for alpha in FILE_ALPHAS)
    columns = f"--target {TARGET_COLUMN} --drop {ID_COLUMN}"
    command = f"ling fit {sold} {columns} --alphas {alphas} --out {model}"
    _show_command(out, command, report)
    wanted = DataOptions(str(sold), TARGET_COLUMN, drop=(ID_COLUMN,))
    done = fit.run(
        wanted, fit.FitCommandOptions(FILE_ALPHAS, seed=seed), model, report, _without_json(out)
    )
    _show_command(out, f"ling predict {model} {new} --keep {ID_COLUMN} --out {predictions}")
    options = predict.PredictCommandOptions(keep=(ID_COLUMN,))
    predict.run(model, str(new), predictions, options, _without_json(out))
    with out.show_status("the same with scikit-learn"):
        theirs = _fit_sklearn(sold, new)
    found = _show_comparison(model, predictions, new, done.seconds, theirs, out)
    shape = min(MAX_CV_ROWS, rows // 20), min(MAX_CV_COLUMNS, rows // 100)
    with out.show_status(f"choosing alpha on {shape[0]:,} x {shape[1]:,} numbers"):
        timings = _time_ridge_cv(*shape, seed)
    _show_ridge_cv(shape, timings, out)
    if report is None:
        out.note("the HTML report needs matplotlib: pip install 'ling[plot]'")
    else:
        out.show()
        out.show(f"Look at {report}")
    out.print_json(
        {
            **found,
            "ridge_cv": {"shape": shape, "results": [asdict(timing) for timing in timings]},
            "model": str(model),
            "predictions": str(predictions),
            "report": report and str(report),
        }
    )


def _without_json(out: CommandOutput) -> CommandOutput:
    """The page of a command, and no JSON of its own."""
    return CommandOutput(quiet=out.as_json or out.quiet)


def _show_command(out: CommandOutput, command: str, report: Path | None = None) -> None:
    out.show()
    out.show(f"$ {command}{'' if report is None else f' --report {report}'}", style="bold cyan")


def _write_parquet(path: Path, table: Any) -> None:
    from pyarrow.parquet import write_table

    with atomic_write(path) as part:
        write_table(table, part)


def _fit_sklearn(sold: Path, new: Path) -> SklearnFit:
    """One-hot columns and RidgeCV of scikit-learn, with the same alphas and folds."""
    from sklearn.linear_model import RidgeCV

    started = time.perf_counter()
    encode, X, y = _one_hot_reader(sold)
    model = RidgeCV(FILE_ALPHAS, cv=5).fit(X, y)
    seconds = time.perf_counter() - started
    return SklearnFit(float(model.alpha_), model.predict(encode(new)[0]), seconds)


def _one_hot_reader(path: Path) -> tuple[Any, Any, Any]:
    """A function that reads a file as numbers, and X and y of this one."""
    from pyarrow.parquet import read_table
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(sparse_output=False)

    def read(file: Path, fits: bool = False) -> tuple[Any, Any]:
        table = read_table(file).drop_columns([ID_COLUMN])
        y = table.column(TARGET_COLUMN).to_numpy()
        columns = {
            name: table.column(name).to_numpy()
            for name in table.column_names
            if name != TARGET_COLUMN
        }
        texts = np.column_stack([c for c in columns.values() if c.dtype.kind == "O"])
        rest = np.column_stack([c for c in columns.values() if c.dtype.kind != "O"])
        hot = encoder.fit_transform(texts) if fits else encoder.transform(texts)
        return np.hstack([rest.astype(np.float64), hot]), y

    X, y = read(path, fits=True)
    return read, X, y


def _show_comparison(
    model: Path, predictions: Path, new: Path, ours: float, theirs: SklearnFit, out: CommandOutput
) -> dict[str, Any]:
    """Show both fits of the file side by side; the same as data."""
    from pyarrow.parquet import read_table

    mine = read_table(predictions).column("prediction").to_numpy()
    y = read_table(new).column(TARGET_COLUMN).to_numpy()
    apart = float(np.abs(mine - theirs.predictions).max() / y.std())
    fitted = load(model)
    out.show()
    out.show("The same file, the same alphas, the same folds", style="bold")
    table = make_table("", ">file to model", ">alpha", ">R² on new houses")
    for name, seconds, alpha, found in (
        ("ling fit", ours, fitted.alpha_, mine),
        ("scikit-learn", theirs.seconds, theirs.alpha, theirs.predictions),
    ):
        table.add_row(name, format_duration(seconds), f"{alpha:.4g}", f"{_r2(y, found):.6f}")
    out.show(table)
    out.show()
    out.show(
        "file to model: reading, choosing alpha, fitting; not the report. scikit-learn: "
        "OneHotEncoder and RidgeCV(cv=5)",
        style="dim",
    )
    out.show(f"Their predictions differ by at most {apart:.1e} of the prices' spread.")
    return {
        "ling": {"seconds": ours, "alpha": fitted.alpha_, "score": _r2(y, mine)},
        "scikit-learn": {
            "seconds": theirs.seconds, "alpha": theirs.alpha, "score": _r2(y, theirs.predictions),
        },
        "difference": apart,
    }  # fmt: skip


def _time_ridge_cv(n: int, p: int, seed: int) -> list[CVTiming]:
    """Exact leave-one-out over the same alphas: ling, and scikit-learn with two of its modes."""
    from sklearn import linear_model

    X, y = correlated_data(n, p, seed)
    RidgeCV(CV_ALPHAS).fit(X[:50, :5], y[:50])  # load and compile before anything is timed
    models: dict[str, Any] = {
        "ling RidgeCV()": RidgeCV(CV_ALPHAS),
        "scikit-learn RidgeCV()": linear_model.RidgeCV(CV_ALPHAS),
        'scikit-learn RidgeCV(gcv_mode="svd")': linear_model.RidgeCV(CV_ALPHAS, gcv_mode="svd"),
    }
    seconds, fitted = time_interleaved(
        {name: partial(fit_without_warnings, model, X, y) for name, model in models.items()}
    )
    bounds = {"ling RidgeCV()": fitted["ling RidgeCV()"].report_.certificate.bound}
    return [
        CVTiming(name, seconds[name], float(fitted[name].alpha_), bounds.get(name))
        for name in models
    ]


def _show_ridge_cv(shape: tuple[int, int], timings: list[CVTiming], out: CommandOutput) -> None:
    ours, *others = timings
    out.show()
    out.show(
        f"Choosing among {len(CV_ALPHAS)} alphas by exact leave-one-out, made-up data in memory, "
        f"{shape[0]:,} x {shape[1]:,}",
        style="bold",
    )
    table = make_table("", ">time", ">time / ling's", ">alpha")
    for timing in timings:
        ratio = f"{timing.seconds / ours.seconds:.1f}"
        table.add_row(timing.name, f"{timing.seconds:.3g} s", ratio, f"{timing.alpha:.4g}")
    out.show(table)
    out.show()
    out.show(
        "time: the fastest of up to three turns; in each turn every model is fitted once. Loading "
        "and compiling are not included",
        style="dim",
    )
    same = all(np.isclose(timing.alpha, ours.alpha, rtol=1e-9, atol=0) for timing in others)
    agree = "All choose the same alpha." if same else "They do not choose the same alpha."
    out.show(
        f"{agree} ling's certificate: training predictions within {ours.bound:.1e} of the exact "
        "ones, relative to the spread of y."
    )


def _r2(y: Any, found: Any) -> float:
    return float(1 - ((y - found) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def correlated_data(n: int, p: int, seed: int) -> tuple[Any, Any]:
    """X (n, p) with correlated columns whose singular values decay like 1 / sqrt(i), and y."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((p, p)))[0]
    X = (rng.standard_normal((n, p)) / np.arange(1, p + 1) ** 0.5) @ rotation
    return X, X @ rng.standard_normal(p) + rng.standard_normal(n)


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
