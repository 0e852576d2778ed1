"""The paper's figures: value against cost for every algorithm, and the spectrum of X."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ling.atomic_write import atomic_write
from ling.reproduction.summary import Curve, ExperimentSummary

# One colour and marker per family, distinct to colour-blind eyes (Okabe & Ito); a second k is
# dashed and hollow.
FAMILY_STYLES = {
    "PCR": ("#009E73", "s"),
    "GD": ("#0072B2", "v"),
    "SVRG": ("#CC79A7", "D"),
    "LING": ("#D55E00", "o"),
    "LING+SVRG": ("#7A6A00", "^"),
}
LINE_STYLES = ("-", "--")


def cost_figure(summary: ExperimentSummary, quick: bool) -> Figure:
    """The risk-versus-cost plot: mean curves with their spread, RR as lines of both."""
    figure, axes = _make_axes()
    seen: dict[str, int] = {}
    for name, curve in summary.curves.items():
        if name != "RR":
            family = name.split(" ")[0]
            _draw_curve(axes, curve, *FAMILY_STYLES[family], LINE_STYLES[seen.get(family, 0) % 2])
            seen[family] = seen.get(family, 0) + 1
    rr_cost, rr = float(summary.rr.flops[0]), summary.rr.best
    axes.axhline(rr, color="0.35", linewidth=1, linestyle=":")
    axes.axvline(rr_cost, color="0.35", linewidth=1, linestyle=":")
    axes.plot(rr_cost, rr, "*", color="black", markersize=12, label="RR, exact", zorder=5)
    axes.set(xscale="log", yscale="log", xlabel="FLOPs", ylabel=summary.experiment.measure)
    _clip_diverging(axes, summary)
    _decorate_axes(axes, summary, quick)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def spectrum_figure(summary: ExperimentSummary, quick: bool) -> Figure:
    """The singular values: all of Model 2, the top 100 of Models 1 and 3, the top 150 otherwise."""
    top = {"model1": 100, "model2": None, "model3": 100}.get(summary.experiment.name, 150)
    values = np.array(summary.spectrum)[:top]
    figure, axes = _make_axes()
    axes.plot(np.arange(1, len(values) + 1), values, ".", color="#0072B2", markersize=4)
    axes.set(yscale="log", xlabel="index", ylabel="singular value of X")
    _decorate_axes(axes, summary, quick)
    return figure


def save_figure(figure: Figure, stem: Path) -> None:
    """Write `stem`.svg and `stem`.png; a reader never sees half a file."""
    for kind in ("svg", "png"):
        metadata = {"Date": None} if kind == "svg" else None
        with atomic_write(stem.with_suffix(f".{kind}")) as part:
            figure.savefig(part, format=kind, dpi=150, metadata=metadata, bbox_inches="tight")


def _make_axes() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.0, 5.0), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _decorate_axes(axes: Axes, summary: ExperimentSummary, quick: bool) -> None:
    """Say what data these are, and whether they are to be taken seriously."""
    title = "\n".join(wrap(summary.data, 62))
    if quick:
        title += f"\nquick run: smaller data, {summary.n_repeats} repeats"
    axes.set_title(title, fontsize=10, color="#A00000" if quick else "black")
    axes.grid(True, which="major", color="0.9", linewidth=0.8)
    _plain_ticks(axes)


def _draw_curve(axes: Axes, curve: Curve, colour: str, marker: str, line: str) -> None:
    mean, deviation = curve.value, curve.deviation
    axes.plot(
        curve.flops, mean, line, color=colour, marker=marker, markersize=4, linewidth=1.4,
        label=curve.algorithm, markerfacecolor=colour if line == "-" else "white",
    )  # fmt: skip
    # A band below zero cannot be drawn on a logarithmic axis.
    low = np.maximum(mean - deviation, mean / 5)
    axes.fill_between(curve.flops, low, mean + deviation, color=colour, alpha=0.07, linewidth=0)


def _clip_diverging(axes: Axes, summary: ExperimentSummary) -> None:
    """What is far worse than predicting nothing leaves the picture, rather than flattening it."""
    top = 3 * summary.null
    gone = [name for name, curve in summary.curves.items() if curve.value.max() > top]
    if gone:
        lowest = min(curve.best for curve in summary.curves.values())
        axes.set_ylim(0.8 * lowest, top)
        axes.text(
            0.98, 0.98, f"diverges, off the chart: {', '.join(gone)}", transform=axes.transAxes,
            ha="right", va="top", fontsize=8, bbox={"color": "white"}, zorder=6,
        )  # fmt: skip


def _plain_ticks(axes: Axes) -> None:
    """Within two decades, label ticks 0.02, 0.05, 0.1 rather than as powers of ten."""
    low, high = axes.get_ylim()
    if high / low < 100:
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
