"""`python -m benchmarks.scaling`: seconds of `Ridge` while n or p doubles, for a fixed p or n.

The time should grow as the operation count of the engine that fits, and not jump where the plan
changes the engine. The growth from one size to the next is divided by that of the operations that
the fits have counted. Where the engine changes, it is divided by the larger of that and the growth
of the entries of X.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import ling
from benchmarks import harness
from benchmarks.wild_families import FAMILIES
from benchmarks.wild_problems import largest_eigenvalue

RECORD = Path(__file__).with_name("scaling.json")
FAMILY_NAMES = "flat spectrum", "autocorrelated columns", "factor model"
RELATIVE_ALPHA = 1e-4
# (what doubles, the fixed size, the first size, the last size)
SWEEPS = (
    ("n", 50, 1_000, 1_024_000),
    ("n", 2_000, 500, 64_000),
    ("p", 1_000, 50, 51_200),
    ("p", 20_000, 50, 6_400),
)
MIN_TURNS, MAX_TURNS, SECONDS_PER_SIZE = 3, 25, 1.0
#: The growth of seconds over that of operations that is asked for.
MAX_GROWTH = 1.3


@dataclass(frozen=True)
class Timing:
    """One fit: what doubles in its series, the sizes, and what the fit has taken."""

    family: str
    doubles: str
    n: int
    p: int
    engine: str
    flops: float
    seconds: float

    @property
    def size(self) -> int:
        return self.n if self.doubles == "n" else self.p

    @property
    def series(self) -> tuple[str, str, int]:
        return self.family, self.doubles, self.p if self.doubles == "n" else self.n


def sizes(first: int, last: int) -> Iterator[int]:
    while first <= last:
        yield first
        first *= 2


def measure(family: str, doubles: str, n: int, p: int, seed: int) -> Timing:
    rng = np.random.default_rng([seed, n, p])
    X = np.ascontiguousarray(FAMILIES[family](n, p, rng))
    y = X @ rng.standard_normal(p) + rng.standard_normal(n)
    alpha = RELATIVE_ALPHA * largest_eigenvalue(X)
    seconds, started = [], time.perf_counter()
    while len(seconds) < MIN_TURNS or (
        len(seconds) < MAX_TURNS and time.perf_counter() - started < SECONDS_PER_SIZE
    ):
        model, taken = _timed_fit(alpha, X, y)
        seconds.append(taken)
    cost = model.report_.cost
    return Timing(family, doubles, n, p, model.solver_, cost.flops, min(seconds))


def _timed_fit(alpha: float, X: np.ndarray, y: np.ndarray) -> tuple[ling.Ridge, float]:
    started = time.perf_counter()
    model = ling.Ridge(alpha).fit(X, y)
    return model, time.perf_counter() - started


def growth(before: Timing, after: Timing) -> float:
    """Growth of the seconds over that of the operations."""
    if before.engine == after.engine:
        operations = after.flops / before.flops
    else:
        entries = after.n * after.p / (before.n * before.p)
        operations = max(entries, after.flops / before.flops)
    return after.seconds / before.seconds / operations


def table(timings: Sequence[Timing]) -> str:
    lines = []
    for series in dict.fromkeys(timing.series for timing in timings):
        members = [timing for timing in timings if timing.series == series]
        worst, after = max((growth(a, b), b) for a, b in _pairs(members))
        family, doubles, fixed = series
        other = "p" if doubles == "n" else "n"
        engines = " -> ".join(dict.fromkeys(timing.engine for timing in members))
        lines.append([
            f"{family}, {other} = {fixed:,}",
            f"{doubles} from {members[0].size:,} to {members[-1].size:,}",
            engines,
            f"{harness.brief(members[0].seconds)} to {harness.brief(members[-1].seconds)}",
            f"{worst:.2f} (up to {after.size:,})",
        ])  # fmt: skip
    heads = ["data", "doubles", "engines", "time", "largest growth of time / growth of operations"]
    return harness.rows(heads, lines)


def _pairs(members: Sequence[Timing]) -> Iterator[tuple[Timing, Timing]]:
    return pairwise(sorted(members, key=lambda timing: timing.size))


def draw(timings: Sequence[Timing], path: Path) -> None:
    """Seconds against the size that doubles, a panel for each fixed size."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "ling"
    import matplotlib.pyplot as plt

    from benchmarks.bars import COLOURS

    colours = dict(zip(FAMILY_NAMES, list(COLOURS.values())[:3], strict=True))
    markers = {"direct": "o", "two_stage": "^"}
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
    for ax, (doubles, fixed, _, _) in zip(axes.flat, SWEEPS, strict=True):
        for family, colour in colours.items():
            members = [t for t in timings if t.series == (family, doubles, fixed)]
            ax.plot([t.size for t in members], [t.seconds for t in members], color=colour, lw=1)
            for timing in members:
                ax.plot(timing.size, timing.seconds, markers[timing.engine], color=colour, ms=5)
        other = "p" if doubles == "n" else "n"
        ax.set(xscale="log", yscale="log", xlabel=doubles, ylabel="seconds")
        ax.set_title(f"{other} = {fixed:,}", fontsize=10)
        ax.grid(alpha=0.25)
    used = dict.fromkeys(timing.engine for timing in timings)
    handles = [plt.Line2D([], [], color=colour, label=name) for name, colour in colours.items()]
    handles += [
        plt.Line2D([], [], color="0.4", marker=markers[name], ls="", label=name) for name in used
    ]
    figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=8
    )
    figure.savefig(path, metadata={"Date": None})


def load() -> tuple[dict[str, str], list[Timing]]:
    """Machine and timings of the last full run."""
    record = json.loads(RECORD.read_text())
    return record["machine"], [Timing(**timing) for timing in record["timings"]]


def main(line: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=harness.Options.threads)
    parser.add_argument("--figure", type=Path, help="draw the last full run")
    asked = parser.parse_args(line)
    if asked.figure is not None:
        draw(load()[1], asked.figure)
        return 0
    timings = []
    with threadpool_limits(asked.threads):
        for family in FAMILY_NAMES:
            for doubles, fixed, first, last in SWEEPS:
                for size in sizes(first, last):
                    n, p = (size, fixed) if doubles == "n" else (fixed, size)
                    timings.append(measure(family, doubles, n, p, asked.seed))
                    harness.say(f"{timings[-1]}")
    print(table(timings))
    machine = {**harness.machine(), **harness.versions()}
    harness.write({"machine": machine, "timings": [asdict(t) for t in timings]}, RECORD)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
