"""`ling compare`: five ways to fit one data set, side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from ling import paper
from ling._typing import Array
from ling.paper.models import Model, model3


@dataclass(frozen=True)
class ComparisonRow:
    """One line of the table; `distance` is that from the fitted values of ridge."""

    algorithm: str
    parameters: str
    flops: float
    passes: float
    seconds: float
    risk: float
    distance: float


def run(seed: int, n: int, p: int, *, as_json: bool) -> None:
    """Make the data, fit, print."""
    console = Console(stderr=as_json)
    with console.status("making the data and compiling SVRG's row loop"):
        model = model3(seed, n=n, p=p)
        paper.svrg(model.X[:30], model.y[:30], model.lam, n_passes=1, step=1e-9)
    with console.status("fitting"):
        rows = list(compare(model, seed))
    if as_json:
        Console().print_json(json.dumps([asdict(row) for row in rows]))
    else:
        _print_table(console, model, rows)


def compare(model: Model, seed: int) -> Iterator[ComparisonRow]:
    """Every algorithm of the paper on one model, ridge first."""
    X, y, lam = model.X, model.y, model.lam
    few, many = min(20, *X.shape), min(100, *X.shape)
    step = paper.svrg(X, y, lam, n_passes=10, random_state=seed).step
    fits: list[tuple[str, str, Callable[[], paper.Fit]]] = [
        ("ridge", "exact", lambda: paper.ridge(X, y, lam)),
        ("PCR", f"k={many}", lambda: paper.pcr(X, y, many, random_state=seed)),
        ("GD", "20 steps", lambda: paper.gradient_descent(X, y, lam, 20)),
        ("GD", "80 steps", lambda: paper.gradient_descent(X, y, lam, 80)),
        ("SVRG", "40 passes", lambda: paper.svrg(X, y, lam, 40, step, random_state=seed)),
        (
            "LING",
            f"k={few}, 4 steps",
            lambda: paper.ling(X, y, lam, few, 4, random_state=seed),
        ),
        (
            "LING",
            f"k={few}, 10 steps",
            lambda: paper.ling(X, y, lam, few, 10, random_state=seed),
        ),
    ]
    exact: Array | None = None
    for algorithm, parameters, fit in fits:
        started = time.perf_counter()
        result = fit()
        seconds = time.perf_counter() - started
        exact = result.fitted if exact is None else exact
        distance = np.linalg.norm(result.fitted - exact) / np.linalg.norm(y - y.mean())
        yield ComparisonRow(
            algorithm, parameters, result.cost.flops, result.cost.passes, seconds,
            model.risk(result.fitted), float(distance),
        )  # fmt: skip


def _print_table(console: Console, model: Model, rows: list[ComparisonRow]) -> None:
    n, p = model.X.shape
    console.print(
        f"\n[bold]{model.name}[/bold] of the LING paper: X is {n} x {p}, "
        f"lambda = {model.lam:.3g}, noise = {model.noise:g}.\n"
        "15 strong directions above a flat spectrum, and signal in both.\n"
    )
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in ("algorithm", "parameters"):
        table.add_column(name, no_wrap=True)
    for name in ("GFLOPs", "passes", "seconds", "risk", "from ridge"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.algorithm,
            row.parameters,
            f"{row.flops / 1e9:.2f}",
            f"{row.passes:.0f}",
            f"{row.seconds:.3f}",
            f"{row.risk:.3f}",
            f"{row.distance:.1e}",
        )
    console.print(table)
    expected = paper.theory.ridge_risk(model.spectrum, model.rotated, model.noise, model.lam, n)
    console.print(
        "passes      sweeps over X, full gradients and fitted values included\n"
        f"risk        ||E(y) - fitted||^2 / n; theory gives {expected:.3f} for ridge and for LING\n"
        "from ridge  distance of the fitted values from ridge's, relative to the spread of y\n"
        "SVRG's step was chosen by cross-validation beforehand, which is not in its cost.\n",
        soft_wrap=True,
    )
