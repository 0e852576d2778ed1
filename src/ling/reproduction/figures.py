"""The paper's figures, redrawn: value against cost for every algorithm, and the spectrum of X."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from ling._typing import Array
from ling.atomic_write import atomic_write
from ling.reproduction.claims import HEADLINE
from ling.reproduction.experiments import LING_SVRG, RR, SVRG
from ling.reproduction.outcomes import standard_error
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
# Inches: the width of a text block, so that a figure is printed at the size it is drawn for.
FIGURE_SIZE = (7.2, 3.5)
# Values above so many times "predicting nothing" have diverged and are left out.
DIVERGED = 3.0


def draw_figures(summary: ExperimentSummary, quick: bool) -> dict[str, Figure]:
    """All figures of an experiment, by the stem of their files.

    Parameters
    ----------
    summary : ExperimentSummary
    quick : bool
        Whether to say on each figure that it comes from a quick run.

    Returns
    -------
    dict
        "figure-N" for the paper's figure N, and "ling-svrg".
    """
    numbers = summary.experiment.figures
    return {
        f"figure-{numbers.curves}": cost_figure(summary, quick),
        f"figure-{numbers.spectrum}": spectrum_figure(summary, quick),
        "ling-svrg": ling_svrg_figure(summary, quick),
    }


def captions(summary: ExperimentSummary) -> dict[str, str]:
    """The captions of `draw_figures`, by the same stems.

    Parameters
    ----------
    summary : ExperimentSummary

    Returns
    -------
    dict
    """
    experiment, numbers = summary.experiment, summary.experiment.figures
    measure, title = experiment.measure, experiment.title.split(":")[0]
    top = "All" if numbers.top is None else f"The top {numbers.top}"
    curves = (
        f"{title}: {measure} against FLOPs, means over {summary.n_repeats} repeats with one "
        f"standard error. Left: the {measure} on a linear axis, from 0 to the largest mean. Right: "
        "the same points on a logarithmic axis; the grey band is what counts as close to RR. The "
        "star is RR, dotted lines carry its cost and its value across."
    )
    conjecture = (
        f"{title}: SVRG with and without LING's first stage, which the paper conjectures but does "
        "not plot. Left: against passes of SVRG. Right: against FLOPs, stage 1 charged."
    )
    spectrum = f"{top} singular values of X, on a linear and on a logarithmic axis."
    redrawn = f"of the paper, on {summary.data}" if experiment.load else "of the paper, redrawn"
    return {
        f"figure-{numbers.curves}": f"Figure {numbers.curves} {redrawn}. {curves}",
        f"figure-{numbers.spectrum}": f"Figure {numbers.spectrum} {redrawn}. {spectrum}",
        "ling-svrg": f"Not in the paper. {conjecture}",
    }


def cost_figure(summary: ExperimentSummary, quick: bool) -> Figure:
    """Value against cost, linear and logarithmic, with RR as lines of both.

    Parameters
    ----------
    summary : ExperimentSummary
    quick : bool

    Returns
    -------
    Figure
    """
    figure, (linear, logarithmic) = _make_panels()
    names = [n for n in summary.curves if n != RR and not n.startswith(LING_SVRG)]
    for axes in (linear, logarithmic):
        diverged = _draw_curves(axes, summary, names, _gigaflops)
        _draw_rr(axes, summary)
        _set_log_costs(axes)
        _note_diverged(axes, diverged)
    linear.set(ylim=(0.0, 1.04 * summary.axis_top), ylabel=summary.experiment.measure)
    close = summary.rr.best + summary.close_excess(HEADLINE)
    logarithmic.axhspan(0.0, close, color="0.88", zorder=0, linewidth=0)
    _set_log_values(logarithmic)
    _finish(figure, summary, quick, f"Figure {summary.experiment.figures.curves}, redrawn")
    return figure


def ling_svrg_figure(summary: ExperimentSummary, quick: bool) -> Figure:
    """SVRG with and without LING's first stage, by passes of SVRG and by FLOPs.

    Parameters
    ----------
    summary : ExperimentSummary
    quick : bool

    Returns
    -------
    Figure
    """
    figure, panels = _make_panels()
    names = [n for n in summary.curves if n == SVRG or n.startswith(LING_SVRG)]
    for axes, x in zip(panels, (_passes, _gigaflops), strict=True):
        diverged = _draw_curves(axes, summary, names, x)
        axes.axhline(summary.rr.best, color="0.35", linewidth=1, linestyle=":")
        _set_log_values(axes)
        _note_diverged(axes, diverged)
    panels[0].set(xlabel="passes of SVRG", xlim=(0.0, None), ylabel=summary.experiment.measure)
    _set_log_costs(panels[1])
    _finish(figure, summary, quick, "LING's first stage before SVRG")
    return figure


def spectrum_figure(summary: ExperimentSummary, quick: bool) -> Figure:
    """The singular values: as many as the paper shows, linear and logarithmic.

    Parameters
    ----------
    summary : ExperimentSummary
    quick : bool

    Returns
    -------
    Figure
    """
    values = np.array(summary.spectrum)[: summary.experiment.figures.top]
    figure, (linear, logarithmic) = _make_panels()
    for axes in (linear, logarithmic):
        axes.plot(np.arange(1, len(values) + 1), values, ".", color="#0072B2", markersize=3)
        axes.set(xlabel="index")
    linear.set(ylabel="singular value of X", ylim=(0.0, None))
    _set_log_values(logarithmic)
    _finish(figure, summary, quick, f"Figure {summary.experiment.figures.spectrum}, redrawn")
    return figure


def save_figure(figure: Figure, stem: Path) -> None:
    """Write `stem`.svg and `stem`.pdf; a reader never sees half a file.

    Parameters
    ----------
    figure : Figure
    stem : Path
    """
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    for kind, metadata in dates.items():
        with atomic_write(stem.with_name(f"{stem.name}.{kind}")) as part:
            figure.savefig(part, format=kind, metadata=metadata)


def _make_panels() -> tuple[Figure, tuple[Axes, Axes]]:
    figure = Figure(figsize=FIGURE_SIZE, layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, which="major", color="0.92", linewidth=0.6)
        axes.tick_params(labelsize=8)
    return figure, (left, right)


def _finish(figure: Figure, summary: ExperimentSummary, quick: bool, title: str) -> None:
    """Say what data these are, and whether they are to be taken seriously."""
    lines = wrap(f"{title}: {summary.data}", 90)
    if quick:
        lines.append(f"quick run: smaller data, {summary.n_repeats} repeats")
    figure.suptitle("\n".join(lines), fontsize=9, color="#A00000" if quick else "black")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if handles:
        figure.legend(
            handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=8
        )


def _gigaflops(curve: Curve) -> Array:
    return curve.flops / 1e9


def _passes(curve: Curve) -> Array:
    return np.array(curve.parameters, dtype=float)


def _draw_curves(
    axes: Axes, summary: ExperimentSummary, names: list[str], x: Callable[[Curve], Array]
) -> list[str]:
    """Draw the curves without their diverged points; the names of those that have some."""
    seen: dict[str, int] = {}
    diverged = []
    for name in names:
        curve, family = summary.curves[name], name.split(" ")[0]
        colour, marker = FAMILY_STYLES[family]
        line = LINE_STYLES[seen.get(family, 0) % 2]
        seen[family] = seen.get(family, 0) + 1
        shown = curve.value <= DIVERGED * summary.null
        if not shown.all():
            diverged.append(name)
        _draw_curve(axes, curve, x(curve), shown, (colour, marker, line))
    return diverged


def _draw_curve(
    axes: Axes, curve: Curve, x: Array, shown: NDArray[np.bool_], style: tuple[str, str, str]
) -> None:
    colour, marker, line = style
    mean = np.where(shown, curve.value, np.nan)
    error = np.where(np.isfinite(e := standard_error(curve.values)), e, 0.0)
    axes.plot(
        x, mean, line, color=colour, marker=marker, markersize=3.5, linewidth=1.2,
        label=curve.algorithm, markerfacecolor=colour if line == "-" else "white",
    )  # fmt: skip
    # A band below zero cannot be drawn on a logarithmic axis.
    low = np.maximum(mean - error, mean / 5)
    axes.fill_between(x, low, mean + error, color=colour, alpha=0.15, linewidth=0)


def _draw_rr(axes: Axes, summary: ExperimentSummary) -> None:
    cost, value = float(summary.rr.flops[0]) / 1e9, summary.rr.best
    axes.axhline(value, color="0.35", linewidth=0.8, linestyle=":")
    axes.axvline(cost, color="0.35", linewidth=0.8, linestyle=":")
    axes.plot(cost, value, "*", color="black", markersize=9, label="RR", zorder=5, clip_on=False)


def _note_diverged(axes: Axes, names: list[str]) -> None:
    if names:
        axes.text(
            0.98, 0.98, f"diverges, not shown: {', '.join(names)}", transform=axes.transAxes,
            ha="right", va="top", fontsize=7, bbox={"color": "white", "pad": 1}, zorder=6,
        )  # fmt: skip


def _set_log_values(axes: Axes) -> None:
    """A logarithmic value axis around the curves; plain labels where it spans under two decades."""
    low, high = _drawn_limits(axes)
    axes.set(yscale="log", ylim=(low / 1.4, high * 1.4))
    if high / low < 100:
        _label_plainly(axes.yaxis, (1.0, 2.0, 5.0))


def _set_log_costs(axes: Axes) -> None:
    """A logarithmic axis of cost with plain labels: 0.1, 1, 10."""
    axes.set(xscale="log", xlabel="GFLOPs")
    low, high = axes.get_xlim()
    _label_plainly(axes.xaxis, (1.0, 2.0, 5.0) if high / low < 50 else (1.0,))


def _label_plainly(axis: Axis, subs: tuple[float, ...]) -> None:
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _drawn_limits(axes: Axes) -> tuple[float, float]:
    """The smallest and largest positive value of the curves with markers."""
    lines = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in lines])
    values = values[np.isfinite(values) & (values > 0)]
    return float(values.min()), float(values.max())
