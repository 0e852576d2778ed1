"""Writes the figures and the table of docs/from-ling-to-two-stage.md.

It needs $LING_DATA for the real data, and takes about two minutes on one core. two_stage plans for
the machine of `make_planner`, not for that which runs this, so the counts are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path

import matplotlib

matplotlib.use("svg")
# The same picture gives the same bytes.
matplotlib.rcParams["svg.hashsalt"] = "ling"

import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from make_planner import MACHINE  # noqa: E402
from matplotlib.ticker import LogLocator, NullFormatter  # noqa: E402

from ling import Ridge, paper  # noqa: E402
from ling.paper.algorithm1 import first_stage  # noqa: E402
from ling.paper.inputs import check_design  # noqa: E402
from ling.reproduction.experiments import EXPERIMENTS, Choices, ExperimentProblem  # noqa: E402
from ling.results import Cost  # noqa: E402
from ling.solvers import row_sampling  # noqa: E402

DOCS = Path(__file__).parent
PAGE = DOCS / "from-ling-to-two-stage.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
NAMES = "model1", "model2", "model3", "gisette", "buzz"
SEED = 0
K = 20
N_ITER = 0, 1, 2, 3, 5, 8, 13, 20, 30, 50, 80
TOLERANCES = 1e-1, 1e-2, 1e-3, 1e-4, 1e-5
N_STEPS = 160
LING, TWO_STAGE, ROTATED = "LING, k = 20", "two_stage", "two_stage, columns rotated"
SOLVED = "its limit"
DEFLATED, PRECONDITIONED = (
    "deflation, conjugate gradients",
    "preconditioning, conjugate gradients",
)
# Okabe and Ito's colours, which people of any colour vision can tell apart.
STEPS = {LING: "#0072B2", DEFLATED: "#E69F00", PRECONDITIONED: "#CC79A7"}
MARKERS = {
    LING: {"color": "#0072B2", "marker": "o", "markersize": 4},
    TWO_STAGE: {"color": "#009E73", "marker": "D", "markersize": 5, "linestyle": ""},
    ROTATED: {
        "color": "#009E73", "marker": "D", "markersize": 5, "linestyle": "",
        "markerfacecolor": "white",
    },
}  # fmt: skip
LABELS = {
    LING: "LING, k = 20, n2 from 0 to 80",
    TWO_STAGE: "two_stage, tol from 0.1 to 0.00001",
    ROTATED: "two_stage, columns rotated",
}


@dataclass(frozen=True)
class Point:
    """A fit: its setting, risk or test error, cost, and distance from ridge's predictions."""

    setting: str
    value: float
    cost: Cost
    distance: float
    n_iter: int | None = None


@dataclass(frozen=True)
class Measured:
    """All points of one problem by method; `steps` has distances after 0, 1, ... iterations."""

    title: str
    data: str
    measure: str
    exact: Point
    curves: dict[str, list[Point]]
    steps: dict[str, list[float]]


@contextmanager
def sampling_recorded() -> Iterator[list[float]]:
    """FLOPs that two_stage spends on row samples; `report_.cost` leaves them out."""
    flops: list[float] = []
    draw = row_sampling.draw_row_sample

    def recorded(problem, scale, size, rng):
        # Kernel matrix of the rows, one triangle, and its eigenvectors.
        flops.append(size**2 * problem.shape[1] + 9.0 * size**3)
        return draw(problem, scale, size, rng)

    row_sampling.draw_row_sample = recorded
    try:
        yield flops
    finally:
        row_sampling.draw_row_sample = draw


def measure(name: str) -> Measured:
    experiment = EXPERIMENTS[name]
    data = experiment.load(None) if experiment.load else None
    rng = np.random.default_rng(SEED)
    problem = experiment.make_problem(data, rng, Choices(), False)
    exact = paper.ridge(problem.X, problem.y, problem.lam)
    scale = np.linalg.norm(problem.y)

    def point(setting: str, fit: paper.Fit, n_iter: int | None = None) -> Point:
        distance = float(np.linalg.norm(fit.fitted - exact.fitted) / scale)
        return Point(setting, problem.evaluate(fit), fit.cost, distance, n_iter)

    curves = {
        LING: [
            point(
                f"n2 = {t}", paper.ling(problem.X, problem.y, problem.lam, K, t, random_state=SEED)
            )
            for t in N_ITER
        ],
        SOLVED: [point("", ling_limit(problem))],
        TWO_STAGE: list(two_stage(problem, point)),
    }
    if name == "model3":
        curves[ROTATED] = list(two_stage(problem, point, rotate=True))
    title = experiment.title if data is None else data.name
    return Measured(
        title, problem.data, experiment.measure, point("", exact), curves,
        steps_between(problem, exact.fitted),
    )  # fmt: skip


def two_stage(
    problem: ExperimentProblem, point: Callable[..., Point], rotate: bool = False
) -> Iterator[Point]:
    """`two_stage` at several tolerances, on X or on X with its columns rotated."""
    X, (n, p) = problem.X, problem.X.shape
    Q = np.linalg.qr(np.random.default_rng(SEED).standard_normal((p, p)))[0] if rotate else None
    X = X if Q is None else X @ Q
    for tol in TOLERANCES:
        with sampling_recorded() as sampling:
            model = Ridge(
                n * problem.lam, fit_intercept=False, solver="two_stage", tol=tol,
                random_state=SEED, speeds=asdict(MACHINE),
            ).fit(X, problem.y)  # fmt: skip
        report = model.report_
        # The preconditioner takes two thin products in every iteration.
        more = sum(sampling) + 4.0 * p * (report.rank or 0) * (report.n_iter or 0)
        coef = model.coef_ if Q is None else Q @ model.coef_
        cost = replace(report.cost, flops=report.cost.flops + more)
        yield point(f"tol = {tol:g}", paper.Fit(coef, X @ model.coef_, cost), report.n_iter)


def ling_limit(problem: ExperimentProblem) -> paper.Fit:
    """LING with Algorithm 2 as in the curve, and stage 2 solved exactly; its cost is not known."""
    n = len(problem.y)
    stage1 = first_stage(check_design(problem.X), problem.y, n * problem.lam, K, random_state=SEED)
    stage2 = paper.ridge(stage1.X_residual, stage1.y_residual, problem.lam)
    return paper.Fit(stage1.coef(stage2.coef), stage1.U @ stage1.gamma1 + stage2.fitted, Cost())


def steps_between(problem: ExperimentProblem, exact: np.ndarray) -> dict[str, list[float]]:
    """Distance from ridge's predictions after every iteration, one change at a time.

    All methods use the same components from Algorithm 2. Preconditioning divides the residual in
    component i by (d_i^2 + alpha) / (d_k^2 + alpha).
    """
    X, y, alpha = problem.X, problem.y, len(problem.y) * problem.lam
    svd = paper.random_svd(X, K, random_state=SEED)
    stage1 = first_stage(check_design(X), y, alpha, K, svd=svd)
    X_r, start = stage1.X_residual, stage1.U @ stage1.gamma1
    scale = np.linalg.norm(y)

    def distance(fitted: np.ndarray) -> float:
        return float(np.linalg.norm(fitted - exact) / scale)

    def precondition(r: np.ndarray) -> np.ndarray:
        share = (svd.d[-1] ** 2 + alpha) / (svd.d**2 + alpha) - 1
        return r + svd.Vt.T @ (share * (svd.Vt @ r))

    def deflated(v: np.ndarray) -> np.ndarray:
        return X_r.rmatmat(X_r.matmat(v)) + alpha * v

    descent = _descent(deflated, X_r.rmatmat(stage1.y_residual))
    gradients = _conjugate_gradients(deflated, X_r.rmatmat(stage1.y_residual), lambda r: r)
    whole = _conjugate_gradients(lambda v: X.T @ (X @ v) + alpha * v, X.T @ y, precondition)
    return {
        LING: [distance(start + X_r.matmat(gamma)) for gamma in descent],
        DEFLATED: [distance(start + X_r.matmat(gamma)) for gamma in gradients],
        PRECONDITIONED: [distance(X @ coef) for coef in whole],
    }


def _descent(apply: Callable[[np.ndarray], np.ndarray], b: np.ndarray) -> Iterator[np.ndarray]:
    """Algorithm 3 for A x = b, from 0."""
    x, r = np.zeros_like(b), b.copy()
    for _ in range(N_STEPS + 1):
        yield x
        Ar = apply(r)
        step = (r @ r) / (r @ Ar)
        x, r = x + step * r, r - step * Ar


def _conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray],
    b: np.ndarray,
    precondition: Callable[[np.ndarray], np.ndarray],
) -> Iterator[np.ndarray]:
    """Preconditioned conjugate gradients for A x = b, from 0."""
    x, r = np.zeros_like(b), b.copy()
    z = precondition(r)
    direction, rz = z, r @ z
    first = rz
    for _ in range(N_STEPS + 1):
        yield x
        if rz <= 1e-30 * first:  # converged to rounding
            return
        Ad = apply(direction)
        step = rz / (direction @ Ad)
        x, r = x + step * direction, r - step * Ad
        z = precondition(r)
        rz, last = r @ z, rz
        direction = z + rz / last * direction


def draw_costs(results: list[Measured]) -> plt.Figure:
    """Risk or test error against passes and against GFLOP."""
    figure, axes = plt.subplots(
        len(results), 2, figsize=(8.4, 2.5 * len(results)), sharey="row", layout="constrained"
    )
    for row, result in zip(axes, results, strict=True):
        for ax, unit, scale in zip(row, ("passes", "flops"), (1, 1e9), strict=True):
            for name, style in MARKERS.items():
                points = result.curves.get(name, [])
                costs = [getattr(point.cost, unit) / scale for point in points]
                ax.loglog(costs, [point.value for point in points], **style)
            ax.axhline(result.exact.value, color="0.3", linestyle=":", zorder=0)
            ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.spines[["top", "right"]].set_visible(False)
        row[1].plot(result.exact.cost.flops / 1e9, result.exact.value, "*", color="0.2", ms=9)
        row[0].set_ylabel(result.measure)
        row[0].set_title(result.title, loc="left", fontsize=10, fontweight="bold")
        if result.measure != "risk":
            row[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 4, 6, 8)))
            row[0].yaxis.set_major_formatter("{x:g}")
            row[0].yaxis.set_minor_formatter(NullFormatter())
    axes[-1, 0].set_xlabel("passes over X")
    axes[-1, 1].set_xlabel("GFLOP")
    handles = [plt.Line2D([], [], label=LABELS[name], **MARKERS[name]) for name in MARKERS]
    handles += [
        plt.Line2D([], [], color="0.3", linestyle=":", label="exact ridge regression"),
        plt.Line2D([], [], color="0.2", marker="*", markersize=9, linestyle="", label="its cost"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def draw_steps(results: list[Measured]) -> plt.Figure:
    """Distance from ridge's predictions against iterations, one change at a time."""
    figure, axes = plt.subplots(
        2, 3, figsize=(8.4, 6.2), sharex="row", sharey=True, layout="constrained"
    )
    axes[1, 2].axis("off")
    for ax, result in zip(axes.flat, results, strict=False):
        for name, distances in result.steps.items():
            ax.semilogy(distances, color=STEPS[name], linewidth=1.8)
        for name in (TWO_STAGE, ROTATED):
            points = result.curves.get(name, [])
            ax.semilogy(
                [point.n_iter for point in points],
                [point.distance for point in points],
                **MARKERS[name],
            )
        ax.axhline(
            result.curves[SOLVED][0].distance, color=STEPS[LING], linestyle=":", linewidth=1.2
        )
        title = result.title.split(":")[0].replace(", ", ",\n")
        ax.set_title(title, loc="left", fontsize=9, fontweight="bold")
        ax.spines[["top", "right"]].set_visible(False)
        ax.set_xlabel("iterations")
    axes[0, 0].set(xlim=(0, 40), ylim=(1e-9, 2))
    axes[1, 0].set_xlim(0, N_STEPS)
    for ax in axes[:, 0]:
        ax.set_ylabel("distance from ridge regression")
    handles = [
        plt.Line2D([], [], color=colour, linewidth=1.8, label=name.replace(", ", ",\n", 1))
        for name, colour in STEPS.items()
    ]
    handles[1:1] = [plt.Line2D([], [], color=STEPS[LING], linestyle=":", label="limit of LING")]
    handles += [
        plt.Line2D([], [], label=name.replace(", ", ",\n", 1), **MARKERS[name])
        for name in (TWO_STAGE, ROTATED)
    ]
    axes[1, 2].legend(handles=handles, frameon=False, loc="center", fontsize=9)
    return figure


def table(results: list[Measured]) -> str:
    """A line for ridge, two_stage, LING and the limit of LING on every problem."""
    lines = [
        f"Measured on {date.today():%d %B %Y}, one draw or split of each:".replace(" 0", " "),
        "",
        "| problem | method | risk or test error | passes | GFLOP | distance from ridge |",
        "| --- | --- | --: | --: | --: | --: |",
    ]
    for result in results:
        rows = [("exact ridge", result.exact)]
        for name in (TWO_STAGE, ROTATED):
            points = {point.setting: point for point in result.curves.get(name, [])}
            rows += [
                (f"{name}, {setting}", points[setting])
                for setting in ("tol = 0.01", "tol = 0.0001")
                if setting in points
            ]
        points = {point.setting: point for point in result.curves[LING]}
        rows += [(f"LING, k2 = {K}, {s}", points[s]) for s in ("n2 = 5", "n2 = 20", "n2 = 80")]
        rows.append(("LING, stage 2 solved exactly", result.curves[SOLVED][0]))
        for i, (method, point) in enumerate(rows):
            cost = point.cost
            spent = f"{cost.passes:.0f} | {cost.flops / 1e9:.2f}" if cost.flops else "- | -"
            distance = "0" if i == 0 else f"{point.distance:.1e}"
            problem = result.data if i == 0 else ""
            lines.append(f"| {problem} | {method} | {point.value:.4g} | {spent} | {distance} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    results = []
    for name in NAMES:
        results.append(measure(name))
        print(results[-1].data)
    for name, draw in (("two-stage", draw_costs), ("two-stage-steps", draw_steps)):
        draw(results).savefig(DOCS / "figures" / f"{name}.svg", metadata={"Date": None})
    measured = table(results)
    print(measured)
    if PAGE.exists():
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + "\n" + measured + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
