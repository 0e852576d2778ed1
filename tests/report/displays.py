"""What tests of displays share: how to read a picture back."""

import matplotlib

matplotlib.use("Agg")

import numpy as np


def legend(shown) -> list[str]:
    return [text.get_text() for text in shown.ax_.get_legend().get_texts()]


def vertical(shown) -> list[float]:
    lines = [np.asarray(line.get_xdata(), dtype=float) for line in shown.ax_.lines]
    return [x[0] for x in lines if len(x) == 2 and x[0] == x[1]]


def drawn(shown) -> None:
    """Laid out and drawn, which warns of what does not fit."""
    shown.figure_.canvas.draw()
