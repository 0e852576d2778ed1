"""`python -m benchmarks.ling_parameters`: the number of components that LingRegressor chooses.

For the paper's five data sets (LING_DATA names the folder of the real ones), the FLOPs of both
stages with n_components="auto" beside those with every number of a grid. All fits have to reach the
same error bound: tol or, if "auto" stops above tol because its limit is higher, the bound of "auto"
and 2 % more. Writes `ling_parameters.json`, the figure docs/figures/ling-parameters.svg and the
table of docs/paper.md.
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
from ling.estimators.ling_fit import STOP_FRACTION  # noqa: E402
from ling.reproduction.experiments import EXPERIMENTS  # noqa: E402
from ling.reproduction.problems import Choices, ExperimentProblem  # noqa: E402

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
SEEDS = range(11, 17)
# Of the bound of "auto", by which the grid may exceed it where "auto" does not reach tol.
BOUND_SLACK = 1.02


@dataclass(frozen=True)
class Run:
    """One fit; `requested` is None for "auto", and `target` the bound that all have to reach."""

    data: str
    tol: float
    seed: int
    target: float
    requested: int | None
    n_components: int
    n_iter: int
    gflop: float
    bound: float

    @property
    def reached(self) -> bool:
        return self.bound <= self.target


def measure(name: str) -> list[Run]:
    """All fits to one data set; each seed draws new data, or a new split, and new components."""
    experiment = EXPERIMENTS[name]
    data = None if experiment.load is None else experiment.load()
    runs = []
    for seed in SEEDS:
        problem = experiment.make_problem(data, np.random.default_rng(seed), Choices(), False)
        for tol in TOLERANCES:
            auto = fit(problem, seed, "auto", tol)
            bound, target, stop = auto.report_.certificate.bound, tol, tol
            if bound > tol:
                target = BOUND_SLACK * bound
                stop = target / STOP_FRACTION  # a fit stops at STOP_FRACTION of its tol
            for k, model in ((None, auto), *((k, fit(problem, seed, k, stop)) for k in GRID)):
                runs.append(
                    Run(
                        name, tol, seed, target, k, model.n_components_, int(model.n_iter_[0]),
                        model.cost_.flops / 1e9, model.report_.certificate.bound,
                    )
                )  # fmt: skip
    return runs


def fit(
    problem: ExperimentProblem, seed: int, n_components: int | str, tol: float
) -> LingRegressor:
    """LING with n_iter="auto", as the paper has it: without an intercept."""
    model = LingRegressor(
        len(problem.y) * problem.lam, n_components=n_components, tol=tol, fit_intercept=False,
        random_state=seed,
    )  # fmt: skip
    return model.fit(problem.X, problem.y)


def select(runs: list[Run], name: str, tol: float, seed: int) -> tuple[Run, list[Run]]:
    """The fit with "auto", and those of the grid."""
    chosen = [run for run in runs if (run.data, run.tol, run.seed) == (name, tol, seed)]
    (auto,) = (run for run in chosen if run.requested is None)
    return auto, [run for run in chosen if run.requested is not None]


def ratio(auto: Run, grid: list[Run]) -> float:
    """Cost of "auto" over the cheapest of the grid that reaches the same bound."""
    return auto.gflop / min(run.gflop for run in grid if run.reached)


def ratios(runs: list[Run], name: str, tol: float) -> list[float]:
    """The ratio of every draw."""
    return [ratio(*select(runs, name, tol, seed)) for seed in SEEDS]


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
                face = "#D55E00" if auto.bound <= tol else "white"
                ax.scatter(
                    auto.n_components, auto.gflop, 70, face, marker="*", edgecolor="#D55E00",
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
    """What "auto" chooses on every data set, and what that costs beside the best of the grid."""
    lines = [
        f"`python -m benchmarks.ling_parameters` ({day}), {len(SEEDS)} draws of each data set, "
        f"grid of {', '.join(map(str, GRID))} components:",
        "",
        "| data | tol | components | iterations | error bound | cost / best of the grid: median | "
        "worst |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, title in TITLES.items():
        for tol in TOLERANCES:
            autos = [select(runs, name, tol, seed)[0] for seed in SEEDS]
            found = ratios(runs, name, tol)
            cells = (
                title,
                f"{tol:g}",
                value_range([run.n_components for run in autos]),
                value_range([run.n_iter for run in autos]),
                value_range([run.bound for run in autos]),
                f"{np.median(found):.2f}",
                f"{max(found):.2f}",
            )
            lines.append(f"| {' | '.join(cells)} |")
    everything = [r for name in TITLES for tol in TOLERANCES for r in ratios(runs, name, tol)]
    middle, high = np.quantile(everything, [0.5, 0.9])
    lines += [
        "",
        f"Over all {len(everything)} of them, the median is {middle:.2f}, the 90 % quantile "
        f"{high:.2f} and the worst {max(everything):.2f}.",
    ]
    return "\n".join(lines) + "\n"


def value_range(values: list[float]) -> str:
    """The smallest and the largest of the values."""
    low, high = f"{min(values):.2g}", f"{max(values):.2g}"
    return low if low == high else f"{low} to {high}"


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
            shown = ", ".join(f"{r:.2f}" for r in ratios(runs, name, tol))
            print(f"{TITLES[name]:<8} tol {tol:<5g} cost of auto / best of the grid: {shown}")
    day = str(date.today())
    lines = ",\n".join(json.dumps(asdict(run)) for run in runs)
    RECORD.write_text(f'{{"date": "{day}", "runs": [\n{lines}\n]}}\n')
    draw(runs)
    write_table(table(runs, day))


if __name__ == "__main__":
    main()
