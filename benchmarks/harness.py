"""A benchmark cell is data; this file times cells and prints ratios.

The machine may be shared and noisy, so the contestants of a cell take turns, each is judged by its
fastest turn, and the spread over the turns is shown beside the ratio.
"""

from __future__ import annotations

import gc
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

import numpy as np

Contest = dict[str, Callable[[], object]]


@dataclass(frozen=True)
class Figure:
    """Seconds of `of` over those of `to` (a contestant, or a number), wanted <= `most`."""

    of: str
    to: str | float
    most: float

    def __str__(self) -> str:
        return f"{self.of} / {self.to if isinstance(self.to, str) else f'{self.to:g} s'}"


@dataclass(frozen=True)
class Cell:
    """`make()` builds the data and gives the contestants by name."""

    name: str
    make: Callable[[], Contest]
    figures: tuple[Figure, ...]
    turns: int = 9


@dataclass(frozen=True)
class Outcome:
    """`spread` is the median turn over the fastest, of both sides of the figure."""

    cell: str
    figure: str
    ratio: float
    most: float
    spread: list[float]
    seconds: list[float]

    @property
    def held(self) -> bool:
        return self.ratio <= self.most


def run(cell: Cell) -> list[Outcome]:
    contest = cell.make()
    for contestant in contest.values():
        contestant()  # compiles, allocates, warms the caches
    turns = take_turns(contest, cell.turns)
    return [judge(cell.name, figure, turns) for figure in cell.figures]


def take_turns(contest: Contest, turns: int) -> dict[str, list[float]]:
    """Seconds of every turn, by contestant."""
    seconds: dict[str, list[float]] = {name: [] for name in contest}
    for _ in range(turns):
        for name, contestant in contest.items():
            gc.collect()  # a peer's cycles of references can hold a copy of the data
            started = time.perf_counter()
            contestant()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def spread(seconds: Sequence[float]) -> float:
    """The median turn over the fastest."""
    return float(np.median(seconds)) / min(seconds)


def judge(cell: str, figure: Figure, turns: dict[str, list[float]]) -> Outcome:
    to = turns[figure.to] if isinstance(figure.to, str) else [figure.to]
    sides = [turns[figure.of], to]
    best = [min(times) for times in sides]
    spreads = [spread(times) for times in sides]
    return Outcome(cell, str(figure), best[0] / best[1], figure.most, spreads, best)


def machine() -> dict[str, object]:
    return {
        "date": date.today().isoformat(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def table(outcomes: Sequence[Outcome]) -> str:
    lines = ["| cell | figure | ratio | wanted | median / fastest turn |", "|---|---|---|---|---|"]
    for o in outcomes:
        wanted = f"<= {o.most:.2f}" + ("" if o.held else " (missed)")
        spread = ", ".join(f"{value:.2f}" for value in o.spread)
        lines.append(f"| {o.cell} | {o.figure} | {o.ratio:.2f} | {wanted} | {spread} |")
    return "\n".join(lines)


def save(outcomes: Sequence[Outcome], path: Path) -> None:
    write({"machine": machine(), "outcomes": [asdict(outcome) for outcome in outcomes]}, path)


def write(record: object, path: Path) -> None:
    """All or nothing: a reader never sees half a file."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=2) + "\n")
    part.replace(path)
