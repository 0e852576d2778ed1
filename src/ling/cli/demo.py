"""`ling demo`: a file of houses from beginning to end, and scikit-learn on the same file."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ling.cli import bench, fit, predict
from ling.cli.houses import houses
from ling.cli.out import Out, grid
from ling.cli.wanted import Wanted
from ling.estimators import RidgeCV
from ling.files import whole
from ling.progress_bar import duration
from ling.saving import load
from ling.scan.files import need_pyarrow

TARGET, NUMBER = "price", "house_id"
# Both get the same: scikit-learn has no grid of its own that suits the data.
ALPHAS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)
REPORT = Path("demo-report.html")
# The data and the grid of the comparison of `RidgeCV`; fewer rows and columns for a small --rows.
# One turn of all three models takes about 6 s on two cores: the demo stays within a minute.
MAX_ROWS, MAX_COLUMNS = 5_000, 1_000
CV_ALPHAS = np.logspace(-3, 4, 20)


@dataclass(frozen=True, eq=False)
class Theirs:
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


def run(folder: Path, rows: int, seed: int, out: Out) -> None:
    """Write the file, fit, predict, compare."""
    need_pyarrow()
    folder.mkdir(parents=True, exist_ok=True)
    sold, new = folder / "houses.parquet", folder / "new-houses.parquet"
    held_out = max(1, rows // 10)
    with out.doing(f"making up {rows + held_out:,} houses"):
        _write(sold, houses(rows, seed))
        _write(new, houses(held_out, seed, first=rows))
    model, predictions = folder / "model.ling", folder / "predictions.parquet"
    report = REPORT if find_spec("matplotlib") else None
    alphas = ",".join(f"{alpha:g}" for alpha in ALPHAS)
    command = f"ling fit {sold} --target {TARGET} --drop {NUMBER} --alphas {alphas} --out {model}"
    _step(out, command, report)
    wanted = Wanted(str(sold), TARGET, drop=(NUMBER,))
    done = fit.run(wanted, fit.FitOptions(ALPHAS, seed=seed), model, report, _silent(out))
    _step(out, f"ling predict {model} {new} --keep {NUMBER} --out {predictions}")
    options = predict.PredictOptions(keep=(NUMBER,))
    predict.run(model, str(new), predictions, options, _silent(out))
    with out.doing("the same with scikit-learn"):
        theirs = _theirs(sold, new)
    found = _compare(model, predictions, new, done.seconds, theirs, out)
    shape = min(MAX_ROWS, rows // 20), min(MAX_COLUMNS, rows // 100)
    with out.doing(f"choosing alpha on {shape[0]:,} x {shape[1]:,} numbers"):
        timings = _time_ridge_cv(*shape, seed)
    _show_ridge_cv(shape, timings, out)
    if report is None:
        out.note("the HTML report needs matplotlib: pip install 'ling[plot]'")
    else:
        out.show()
        out.show(f"Look at {report}")
    out.result(
        {
            **found,
            "ridge_cv": {"shape": shape, "results": [asdict(timing) for timing in timings]},
            "model": str(model),
            "predictions": str(predictions),
            "report": report and str(report),
        }
    )


def _silent(out: Out) -> Out:
    """The page of a command, and no JSON of its own."""
    return Out(quiet=out.as_json or out.quiet)


def _step(out: Out, command: str, report: Path | None = None) -> None:
    out.show()
    out.show(f"$ {command}{'' if report is None else f' --report {report}'}", style="bold cyan")


def _write(path: Path, table: Any) -> None:
    from pyarrow.parquet import write_table

    with whole(path) as part:
        write_table(table, part)


def _theirs(sold: Path, new: Path) -> Theirs:
    """One-hot columns and RidgeCV of scikit-learn, with the same alphas and folds."""
    from sklearn.linear_model import RidgeCV

    started = time.perf_counter()
    encode, X, y = _encoded(sold)
    model = RidgeCV(ALPHAS, cv=5).fit(X, y)
    seconds = time.perf_counter() - started
    return Theirs(float(model.alpha_), model.predict(encode(new)[0]), seconds)


def _encoded(path: Path) -> tuple[Any, Any, Any]:
    """A function that reads a file as numbers, and X and y of this one."""
    from pyarrow.parquet import read_table
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(sparse_output=False)

    def read(file: Path, fits: bool = False) -> tuple[Any, Any]:
        table = read_table(file).drop_columns([NUMBER])
        y = table.column(TARGET).to_numpy()
        columns = {
            name: table.column(name).to_numpy() for name in table.column_names if name != TARGET
        }
        texts = np.column_stack([c for c in columns.values() if c.dtype.kind == "O"])
        rest = np.column_stack([c for c in columns.values() if c.dtype.kind != "O"])
        hot = encoder.fit_transform(texts) if fits else encoder.transform(texts)
        return np.hstack([rest.astype(np.float64), hot]), y

    X, y = read(path, fits=True)
    return read, X, y


def _compare(
    model: Path, predictions: Path, new: Path, ours: float, theirs: Theirs, out: Out
) -> dict[str, Any]:
    """Show both fits of the file side by side; the same as data."""
    from pyarrow.parquet import read_table

    mine = read_table(predictions).column("prediction").to_numpy()
    y = read_table(new).column(TARGET).to_numpy()
    apart = float(np.abs(mine - theirs.predictions).max() / y.std())
    fitted = load(model)
    out.show()
    out.show("The same file, the same alphas, the same folds", style="bold")
    table = grid("", ">file to model", ">alpha", ">R² on new houses")
    for name, seconds, alpha, found in (
        ("ling fit", ours, fitted.alpha_, mine),
        ("scikit-learn", theirs.seconds, theirs.alpha, theirs.predictions),
    ):
        table.add_row(name, duration(seconds), f"{alpha:.4g}", f"{_r2(y, found):.6f}")
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

    X, y = bench.correlated_data(n, p, seed)
    RidgeCV(CV_ALPHAS).fit(X[:50, :5], y[:50])  # load and compile before anything is timed
    models: dict[str, Any] = {
        "ling RidgeCV()": RidgeCV(CV_ALPHAS),
        "scikit-learn RidgeCV()": linear_model.RidgeCV(CV_ALPHAS),
        'scikit-learn RidgeCV(gcv_mode="svd")': linear_model.RidgeCV(CV_ALPHAS, gcv_mode="svd"),
    }
    seconds, fitted = bench.take_turns(
        {name: partial(bench.fit_quietly, model, X, y) for name, model in models.items()}
    )
    bounds = {"ling RidgeCV()": fitted["ling RidgeCV()"].report_.certificate.bound}
    return [
        CVTiming(name, seconds[name], float(fitted[name].alpha_), bounds.get(name))
        for name in models
    ]


def _show_ridge_cv(shape: tuple[int, int], timings: list[CVTiming], out: Out) -> None:
    ours, *others = timings
    out.show()
    out.show(
        f"Choosing among {len(CV_ALPHAS)} alphas by exact leave-one-out, made-up data in memory, "
        f"{shape[0]:,} x {shape[1]:,}",
        style="bold",
    )
    table = grid("", ">time", ">time / ling's", ">alpha")
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
