"""A benchmark cell is data; this file times cells and prints ratios.

The machine may be shared and noisy, so the contestants of a cell take turns, each is judged by its
fastest turn, and the spread over the turns is shown beside the ratio.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from importlib import import_module
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

Contest = dict[str, Callable[[], object]]

# A peer whose first fit is slower than the best so far by this factor takes no further turn.
HOPELESS = 3.0
# Calls shorter than this are repeated within a turn, which otherwise times the clock.
SHORTEST = 0.05
SPREAD = "median / fastest turn"
RACERS = (
    *("ling", "scipy", "scikit-learn", "scikit-learn-intelex"),
    *("glum", "rlaopt", "torch", "himalaya"),
)


@dataclass(frozen=True)
class Figure:
    """Seconds of `of` over those of `to` (a contestant, or a number).

    `most` is the developers' goal; no table shows it.
    """

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


def timed(call: Callable[[], object]) -> tuple[Any, float]:
    """Result and seconds; what is short runs twice, since the first call loads and compiles."""
    for _ in range(2):
        started = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - started
        if seconds > 1:
            break
    return result, seconds


def race(contest: Contest, first: dict[str, float], turns: int) -> dict[str, list[float]]:
    """Seconds a call in every turn, where a turn holds as many calls as it takes to be timed.

    `first` has seconds of a call, from which their number follows.
    """
    counts = {name: math.ceil(SHORTEST / max(first[name], 1e-5)) for name in contest}
    taken = take_turns({n: partial(repeat, contest[n], counts[n]) for n in contest}, turns)
    return {name: [s / counts[name] for s in seconds] for name, seconds in taken.items()}


def repeat(call: Callable[[], object], count: int) -> None:
    for _ in range(count):
        call()


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
    lines = []
    for o in outcomes:
        spread = ", ".join(f"{value:.2f}" for value in o.spread)
        lines.append([o.cell, o.figure, f"{o.ratio:.2f}", spread])
    return rows(["cell", "figure", "ratio", SPREAD], lines)


def rows(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    ruled = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in ruled)


def brief(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"


def finite(number: float) -> float | None:
    """JSON has no other numbers."""
    return number if math.isfinite(number) else None


def save(outcomes: Sequence[Outcome], path: Path) -> None:
    write({"machine": machine(), "outcomes": [asdict(outcome) for outcome in outcomes]}, path)


def write(record: object, path: Path) -> None:
    """All or nothing: a reader never sees half a file."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record, indent=2) + "\n")
    part.replace(path)


# Races: what ling's estimators and their peers have in common


@dataclass(frozen=True)
class Options:
    turns: int = 5
    scale: float = 1.0
    seed: int = 0
    threads: int = os.cpu_count() or 1

    def shrunk(self, size: int) -> int:
        """Small sizes are left alone."""
        return max(min(size, 100), round(size * self.scale))


@dataclass(frozen=True)
class Racer:
    """Whoever takes part, and the modules that it needs."""

    name: str
    modules: tuple[str, ...]

    @property
    def installed(self) -> bool:
        return all(find_spec(module.split(".")[0]) for module in self.modules)

    def load(self) -> None:
        """Import beforehand, outside of all timing."""
        if self.installed:
            for module in self.modules:
                import_module(module)


@dataclass(frozen=True)
class Timed:
    """Seconds of every turn; none: it did not run."""

    name: str
    turns: list[float]

    @property
    def seconds(self) -> float:
        return min(self.turns, default=math.inf)

    @property
    def spread(self) -> float:
        return spread(self.turns) if self.turns else math.nan


def peak_memory(call: Callable[[], object]) -> int | None:
    """Bytes by which the process grows at most while `call()` runs; None where nobody tells.

    What the system has handed out counts, whoever asked for it: tracemalloc would not see BLAS.
    """
    status, clear = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not clear.exists():
        return None
    gc.collect()
    clear.write_text("5")  # forgets the peak so far
    before = resident(status, "VmRSS")
    call()
    return resident(status, "VmHWM") - before


def resident(status: Path, key: str) -> int:
    line = next(line for line in status.read_text().splitlines() if line.startswith(key))
    return 1024 * int(line.split()[1])


def failed(failure: Exception) -> str:
    """What a racer died of, in a line."""
    return f"failed: {type(failure).__name__}: {failure}".splitlines()[0][:100]


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def arguments(module: str, about: str, results: Path, line: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(f"python -m {module}", description=about)
    parser.add_argument("words", nargs="*", metavar="WORD", help="run the cells that hold all")
    parser.add_argument("--turns", type=int, default=Options.turns)
    parser.add_argument("--scale", type=float, default=Options.scale, help="shrink n and p")
    parser.add_argument("--seed", type=int, default=Options.seed, help="of data and solvers")
    parser.add_argument("--threads", type=int, default=Options.threads)
    parser.add_argument(
        "--json", type=Path, help=f"where to write (default {results.name}, at scale 1 only)"
    )
    parser.add_argument("--figure", type=Path, help="draw what the JSON file holds")
    asked = parser.parse_args(line)
    if asked.json is None and asked.scale == 1:
        asked.json = results
    return asked


def options_of(asked: argparse.Namespace) -> Options:
    return Options(asked.turns, asked.scale, asked.seed, asked.threads)


def matching(cells: Sequence[Any], words: Sequence[str]) -> list[Any]:
    """The cells whose name holds all words; says so if there are none."""
    chosen = [cell for cell in cells if all(word in cell.name for word in words)]
    if not chosen:
        say(f"No cell is called {' '.join(words)!r}; there are: {[c.name for c in cells]}")
    return chosen


def run_each(
    cells: Sequence[Any],
    run: Callable[[Any, Options], Any],
    options: Options,
    keep: Callable[[Any], None],
) -> list[Any]:
    """The outcomes of all cells, each kept as soon as it is there."""
    outcomes = []
    with threadpool_limits(options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # results are checked, whatever a solver says of them
        for cell in cells:
            say(f"{cell.name} ...")
            outcomes.append(run(cell, options))
            gc.collect()
            keep(outcomes[-1])
    return outcomes


def merge(cell: str, outcome: Any, derived: dict[str, Any], options: Options, path: Path) -> None:
    """Replace the cell in the file. Each cell keeps the machine, date and seed it was run with."""
    cells = json.loads(path.read_text())["cells"] if path.exists() else {}
    cells[cell] = {
        "machine": {**machine(), **versions()},
        "options": asdict(options),
        "outcome": asdict(outcome),
        **derived,
    }
    write({"cells": cells}, path)


def versions() -> dict[str, str]:
    """Of the packages that race and are installed."""
    found = {dist.metadata["Name"].lower(): dist.version for dist in distributions()}
    return {name: found[name] for name in RACERS if name in found}


def outcomes_in(path: Path) -> list[dict[str, Any]]:
    """The outcomes that `merge` wrote, as records."""
    return [cell["outcome"] for cell in json.loads(path.read_text())["cells"].values()]
