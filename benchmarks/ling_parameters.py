"""`python -m benchmarks.ling_parameters`: the number of components that LingRegressor chooses.

For the paper's five data sets (LING_DATA names the folder of the real ones), the FLOPs of both
stages with n_components="auto" beside those with every number of a grid. n_iter is "auto" in both,
so that every fit stops when its error bound reaches tol. Writes `ling_parameters.json` and the
figure docs/figures/ling-parameters.svg.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "ling"

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.ticker import LogLocator  # noqa: E402
from sklearn.exceptions import ConvergenceWarning  # noqa: E402

from ling import LingRegressor  # noqa: E402
from ling.reproduction.experiments import EXPERIMENTS  # noqa: E402
from ling.reproduction.problems import Choices  # noqa: E402

RECORD = Path(__file__).with_suffix(".json")
DOCS = Path(__file__).parent.parent / "docs"
FIGURE, PAGE = DOCS / "figures" / "ling-parameters.svg", DOCS / "paper.md"
MARKERS = "<!-- ling parameters -->\n\n", "\n<!-- end -->"
TITLES = {
    "model1": "Model 1", "model2": "Model 2", "model3": "Model 3", "gisette": "Gisette",
    "buzz": "Buzz",
}  # fmt: skip
GRID = 1, 5, 10, 15, 20, 25, 30, 45, 70
TOLERANCES = 0.1, 0.01
SEEDS = 11, 12


@dataclass(frozen=True)
class Run:
    """One fit; `requested` is None for "auto"."""

    data: str
    tol: float
    seed: int
    requested: int | None
    n_components: int
    n_iter: int
    gflop: float
    bound: float

    @property
    def reached(self) -> bool:
        return self.bound <= self.tol


def measure(name: str) -> list[Run]:
    """All fits to one data set; each seed draws new data, or a new split, and new components."""
    experiment = EXPERIMENTS[name]
    data = None if experiment.load is None else experiment.load()
    runs = []
    for seed in SEEDS:
        problem = experiment.make_problem(data, np.random.default_rng(seed), Choices(), False)
        alpha = len(problem.y) * problem.lam
        for tol in TOLERANCES:
            for k in (None, *GRID):
                n_components = "auto" if k is None else k
                model = LingRegressor(
                    alpha, n_components=n_components, tol=tol, fit_intercept=False,
                    random_state=seed,
                ).fit(problem.X, problem.y)  # fmt: skip
                runs.append(
                    Run(
                        name, tol, seed, k, model.n_components_, int(model.n_iter_[0]),
                        model.cost_.flops / 1e9, model.report_.certificate.bound,
                    )
                )  # fmt: skip
    return runs


def select(runs: list[Run], name: str, tol: float, seed: int) -> tuple[Run, list[Run]]:
    """The fit with "auto", and those of the grid."""
    chosen = [run for run in runs if (run.data, run.tol, run.seed) == (name, tol, seed)]
    (auto,) = (run for run in chosen if run.requested is None)
    return auto, [run for run in chosen if run.requested is not None]


def ratio(auto: Run, grid: list[Run]) -> float | None:
    """Cost of "auto" over the cheapest of the grid that reaches tol; None unless "auto" does."""
    costs = [run.gflop for run in grid if run.reached]
    return auto.gflop / min(costs) if costs and auto.reached else None


def draw(runs: list[Run]) -> None:
    """GFLOP against the number of components: the grid as a line, "auto" as a star."""
    figure, axes = plt.subplots(
        len(TOLERANCES), len(TITLES), figsize=(11, 4.8), layout="constrained", sharex=True
    )
    for row, tol in zip(axes, TOLERANCES, strict=True):
        for ax, (name, title) in zip(row, TITLES.items(), strict=True):
            for seed in SEEDS:
                auto, grid = select(runs, name, tol, seed)
                cost = [run.gflop for run in grid]
                ax.loglog([run.n_components for run in grid], cost, color="0.75", zorder=1)
                for run in grid:
                    face = "0.45" if run.reached else "white"
                    ax.scatter(run.n_components, run.gflop, 14, face, edgecolor="0.45", zorder=2)
                face = "#D55E00" if auto.reached else "white"
                ax.scatter(
                    auto.n_components, auto.gflop, 110, face, marker="*", edgecolor="#D55E00",
                    zorder=3,
                )  # fmt: skip
            ax.set_title(f"{title}, tol = {tol:g}", fontsize=10)
            ax.xaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_formatter("")
            ax.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("number of components")
    figure.supylabel("GFLOP of both stages")
    figure.savefig(FIGURE, metadata={"Date": None})


def table(runs: list[Run], day: str) -> str:
    """The chosen parameters of every draw, and what they cost beside the best of the grid."""
    lines = [
        f"`python -m benchmarks.ling_parameters` ({day}), {len(SEEDS)} draws of each data set, "
        f"grid of {', '.join(map(str, GRID))} components:",
        "",
        "| data | tol | components | iterations | error bound | cost / best of the grid |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, title in TITLES.items():
        for tol in TOLERANCES:
            pairs = [select(runs, name, tol, seed) for seed in SEEDS]
            autos = [auto for auto, _ in pairs]
            ratios = [ratio(*pair) for pair in pairs]
            cells = (
                title,
                f"{tol:g}",
                ", ".join(str(run.n_components) for run in autos),
                ", ".join(str(run.n_iter) for run in autos),
                ", ".join(f"{run.bound:.2g}" for run in autos),
                ", ".join("tol not reached" if r is None else f"{r:.2f}" for r in ratios),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write_table(text: str) -> None:
    """Put the table between the markers of the page."""
    page = PAGE.read_text()
    before, rest = page.split(MARKERS[0])
    after = rest.partition(MARKERS[1].lstrip("\n"))[2]
    PAGE.write_text(f"{before}{MARKERS[0]}{text}{MARKERS[1]}{after}")


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    runs: list[Run] = []
    for name in TITLES:
        runs += measure(name)
        for tol in TOLERANCES:
            ratios = [ratio(*select(runs, name, tol, seed)) for seed in SEEDS]
            shown = ", ".join("tol not reached" if r is None else f"{r:.2f}" for r in ratios)
            print(f"{TITLES[name]:<8} tol {tol:<5g} cost of auto / best of the grid: {shown}")
    day = str(date.today())
    record = {"date": day, "runs": [asdict(run) for run in runs]}
    RECORD.write_text(json.dumps(record, indent=1) + "\n")
    draw(runs)
    write_table(table(runs, day))


if __name__ == "__main__":
    main()
