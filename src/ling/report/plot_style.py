"""Colours with a meaning, axes and legends: what all pictures share."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito's colours, distinct to colour-blind eyes. What is measured is blue, the alpha in use
# vermilion and its more cautious neighbour green; what is only background is grey.
DATA_COLOR, ALPHA_COLOR, ALPHA_1SE_COLOR, BACKGROUND_COLOR = "#0072B2", "#D55E00", "#009E73", "0.75"
# For lines that have names; the colour of the chosen alpha is not among them.
LINE_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9")
# How much of a light line is left.
FAINT_OPACITY = 0.35
SMALL_FONT_SIZE = 8.5
# Points that a letter of a legend's title takes.
TITLE_CHAR_POINTS = 5.2
# A legend may be so many times as wide as its axes will be.
MAX_LEGEND_WIDTH = 0.98
# Whole numbers at the ticks, not a common factor where the legend is.
TICK_FORMAT = "{x:g}"
# What matplotlib's logarithmic axes can show.
LOG_AXIS_LIMITS = 1e-200, 1e200
# Lines or points above which a vector format would be too large.
RASTERIZE_ABOVE = 500


def prepare_axes(ax: Axes | None, display: object) -> tuple[Figure, Axes]:
    """Those given, or new ones, in a figure whose layout leaves room for legends and names."""
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as missing:
        raise ImportError(
            f"{type(display).__name__}.plot needs {missing.name}: pip install 'ling[plot]'"
        ) from missing
    if ax is None:
        _, ax = plt.subplots()
    figure: Any = ax.figure
    if figure.get_layout_engine() is None and hasattr(figure, "set_layout_engine"):
        figure.set_layout_engine("constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def draw_alpha_line(ax: Axes, alpha: float, words: str, colour: str, dashes: str) -> None:
    """A labelled line at alpha; only the label where a logarithmic axis cannot show it."""
    style: dict[str, Any] = {"color": colour, "linestyle": dashes, "linewidth": 1.4}
    if LOG_AXIS_LIMITS[0] < alpha < LOG_AXIS_LIMITS[1]:
        ax.axvline(alpha, label=words.format(format_short(alpha)), **style)
    else:
        ax.plot([], [], label=words.format(format_short(alpha)), **style)


def draw_legend_above(ax: Axes, top: Any = None, title: str = "") -> None:
    """Above the axes, and above the axis on `top` of them: where it covers nothing."""
    from matplotlib.transforms import ScaledTranslation

    if not ax.get_legend_handles_labels()[0]:
        return
    dpi = ax.figure.dpi_scale_trans
    taken = 0.0 if top is None else top.get_tightbbox().height / ax.figure.dpi
    # What names and labels around the axes leave them, once they are laid out.
    box, whole = ax.get_window_extent(), ax.get_tightbbox()
    room = max(1.0, ax.figure.bbox.width - ((whole or box).width - box.width))
    letters = max(20, int(room * 72 / ax.figure.dpi / TITLE_CHAR_POINTS))
    for columns in (2, 1):
        legend = ax.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=columns,
            frameon=False,
            fontsize=SMALL_FONT_SIZE,
            bbox_transform=ax.transAxes + ScaledTranslation(0, taken, dpi),
            borderaxespad=0.3,
            title=fill(title, letters) or None,
            title_fontsize=SMALL_FONT_SIZE + 1,
            alignment="left",
        )
        for text in legend.get_texts():
            text.set_parse_math(False)  # a class may have a dollar in its name
        if legend.get_window_extent().width <= MAX_LEGEND_WIDTH * room:
            break  # or the layout would make the axes narrower, and never end


def format_short(value: float) -> str:
    """Three digits, and no exponent below a million."""
    return f"{float(f'{value:.3g}'):g}"


def format_edf(edf: float) -> str:
    """Three digits, or all of a larger number."""
    return f"{edf:.3g}" if edf < 999.5 else f"{edf:,.0f}"
