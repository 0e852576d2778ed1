"""Draws docs/figures/planner.svg: which engine the plan picks for which shape. A few seconds.

The machine is a stated one, not that which draws, so the picture is the same everywhere.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
# The same picture gives the same bytes.
matplotlib.rcParams["svg.hashsalt"] = "ling"

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from matplotlib.colors import ListedColormap  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

from ling.solvers.dimensions import ProblemDimensions  # noqa: E402
from ling.solvers.machine import Machine  # noqa: E402
from ling.solvers.options import FitOptions  # noqa: E402
from ling.solvers.planning import Plan, plan_solve  # noqa: E402

FIGURES = Path(__file__).parent / "figures"
# Two cores of a server: 30 GB/s, 95 GFLOP/s in float64.
MACHINE = Machine(
    stream_bandwidth=3e10, thin_gemm_rate=5e10, gemm_rate=9.5e10, gemm32=1.9e11, potrf_rate=5e10,
    sparse=6e8, sparse_column=4e8, threads=2,
)  # fmt: skip
BUDGET, MEMORY = 8e9, 64e9
ROWS = np.geomspace(1e2, 1e8, 145)
COLUMNS = np.geomspace(1e1, 1e5, 121)
# Okabe and Ito's colours, which people of any colour vision can tell apart.
COLOURS = {"direct": "#56B4E9", "two_stage": "#E69F00"}
TOO_LARGE = "X is larger than 64 GB"


def dense(n: int, p: int, **more) -> ProblemDimensions:
    return ProblemDimensions(n, p, n * p, 8, True, more.pop("n_targets", 1), 1, **more)


def sparse(n: int, p: int) -> ProblemDimensions:
    """Forty entries a row, as in text."""
    return ProblemDimensions(n, p, n * min(40, p), 8, False, 1, 1)


PANELS = {
    "an array in memory, one target": dense,
    "the same, 100 targets": lambda n, p: dense(n, p, n_targets=100),
    "sparse, 40 entries a row": sparse,
    "a file, read at 1 GB/s": lambda n, p: dense(n, p, read_bandwidth=1e9, is_out_of_core=True),
}


def planned(shape: ProblemDimensions) -> Plan:
    return plan_solve(shape, FitOptions(memory_budget=BUDGET, machine=MACHINE))


def panel_of(shapes) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the engines, rows of X to the right, columns upwards; and where none fits."""
    names = [*COLOURS]
    engine = np.full((len(COLUMNS), len(ROWS)), len(names))
    tight = np.zeros(engine.shape)
    for i, p in enumerate(COLUMNS):
        for j, n in enumerate(ROWS):
            shape = shapes(int(n), int(p))
            if shape.read_bandwidth is not None or shape.n_bytes <= MEMORY:
                first = planned(shape).steps[0]
                engine[i, j], tight[i, j] = names.index(first.engine), not first.fits
    return engine, tight


def draw() -> plt.Figure:
    figure, axes = plt.subplots(
        2, 2, figsize=(8.4, 7), sharex=True, sharey=True, layout="constrained"
    )
    colours = ListedColormap([*COLOURS.values(), "0.92"])
    for ax, (title, shapes) in zip(axes.flat, PANELS.items(), strict=True):
        engine, tight = panel_of(shapes)
        ax.pcolormesh(
            ROWS, COLUMNS, engine, cmap=colours, vmin=0, vmax=len(COLOURS), rasterized=True
        )
        ax.contourf(ROWS, COLUMNS, tight, levels=[0.5, 1.5], colors="none", hatches=["///"])
        ax.plot(COLUMNS, COLUMNS, color="black", linewidth=0.8, linestyle=":")
        ax.set(xscale="log", yscale="log", title=title)
        ax.set_xlim(ROWS[0], ROWS[-1])
        ax.set_ylim(COLUMNS[0], COLUMNS[-1])
    axes[0, 0].annotate("as many columns\nas rows", (3e3, 3e3), (1.6e2, 1.5e4), fontsize=8)
    for ax in axes[1]:
        ax.set_xlabel("rows of X")
    for ax in axes[:, 0]:
        ax.set_ylabel("columns of X")
    names = {**COLOURS, TOO_LARGE: "0.92"}
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in names.values()]
    hatched = plt.Rectangle((0, 0), 1, 1, facecolor="white", edgecolor="black", hatch="///")
    figure.legend(
        [*handles, hatched], [*names, "none fits: least memory"], loc="outside lower center",
        ncols=2, frameon=False,
    )  # fmt: skip
    return figure


def main() -> None:
    with threadpool_limits(MACHINE.threads):
        draw().savefig(FIGURES / "planner.svg", metadata={"Date": None}, dpi=150)


if __name__ == "__main__":
    main()
