"""The figure of a race: one panel a cell, one bar a peer, which is longer the more ling gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Okabe and Ito's colours, which people of any colour vision can tell apart, by first word.
COLOURS = {
    "scikit-learn": "#0072B2",
    "scikit-learn-intelex": "#56B4E9",
    "glum": "#E69F00",
    "rlaopt": "#009E73",
    "himalaya": "#D55E00",
    "ling": "#CC79A7",
}


@dataclass(frozen=True)
class Bar:
    """`ratio` of a peer's seconds to ling's; what does not count is hatched."""

    name: str
    ratio: float
    words: str = ""
    counts: bool = True

    @property
    def origin(self) -> str:
        return self.name.split()[0]


@dataclass(frozen=True)
class Panel:
    title: str
    bars: list[Bar]


def draw(panels: Sequence[Panel], path: Path, title: str, axis: str) -> None:
    import matplotlib.pyplot as plt

    panels = [panel for panel in panels if panel.bars]
    heights = [1.5 + len(panel.bars) for panel in panels]
    fig, axes = plt.subplots(
        len(panels),
        1,
        sharex=True,
        squeeze=False,
        figsize=(9, 0.2 * sum(heights) + 1.2),
        gridspec_kw={"height_ratios": heights},
        layout="constrained",
    )
    for ax, panel in zip(axes.flat, panels, strict=True):
        fill(ax, panel)
    low, high = axes.flat[0].get_xlim()
    axes.flat[0].set_xlim(low / 2, high * 4)  # room for the words beside the bars
    fig.suptitle(title)
    axes.flat[len(panels) - 1].set_xlabel(axis)
    seen = {bar.origin for panel in panels for bar in panel.bars}
    colours = {name: colour for name, colour in COLOURS.items() if name in seen}
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in colours.values()]
    fig.legend(handles, colours, loc="outside lower center", ncols=len(colours), frameon=False)
    fig.savefig(path, dpi=150)
    plt.close(fig)


def fill(ax: Any, panel: Panel) -> None:
    for place, bar in enumerate(panel.bars):
        # A bar starts at 1, on the side of whoever is slower.
        ax.barh(
            place,
            bar.ratio - 1,
            left=1,
            color=COLOURS[bar.origin] if bar.counts else "none",
            edgecolor=COLOURS[bar.origin],
            hatch=None if bar.counts else "////",
        )
        ax.annotate(
            f"{bar.ratio:.3g}{bar.words}",
            (bar.ratio, place),
            xytext=(4 if bar.ratio >= 1 else -4, 0),
            textcoords="offset points",
            va="center",
            ha="left" if bar.ratio >= 1 else "right",
            fontsize=7,
        )
    ax.set_xscale("log")
    ax.set_yticks(range(len(panel.bars)), [bar.name for bar in panel.bars], fontsize=7)
    ax.set_title(panel.title, fontsize=9, loc="left", pad=2)
    ax.axvline(1, color="black", linewidth=0.8)
    ax.spines[["top", "right"]].set_visible(False)
