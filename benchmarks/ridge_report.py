"""What a race was: its record, its two tables, its figure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from benchmarks import harness

RESULTS = Path(__file__).with_name("ridge.json")
SPREAD = "median / fastest turn"
HEADS = [
    *("cell", "ling", "engine", "best peer", "its time", "ratio", "wanted", SPREAD),
    *("error", "bound", "passes", "x physical limit"),
]
PEER_HEADS = ["cell", "peer", "time", "ratio to ling", "tol", "error", SPREAD, "note"]
# Okabe and Ito's colours, which people of any colour vision can tell apart.
COLOURS = {
    "scikit-learn": "#0072B2",
    "scikit-learn-intelex": "#56B4E9",
    "glum": "#E69F00",
    "rlaopt": "#009E73",
}


@dataclass(frozen=True)
class Score:
    """Seconds of every turn (none: it did not run), and the error that was measured."""

    name: str
    turns: list[float]
    error: float | None
    tol: float | None = None
    note: str = ""

    @property
    def seconds(self) -> float:
        return min(self.turns, default=math.inf)

    @property
    def spread(self) -> float:
        return harness.spread(self.turns) if self.turns else math.nan


@dataclass(frozen=True)
class Outcome:
    """One cell. `read` is the seconds of one X @ v, `bound` what ling's certificate promises."""

    cell: str
    shape: list[int]
    entries: int
    dtype: str
    alpha: float
    target: float
    wanted: float
    against: str
    in_mean: bool
    ling: Score
    engine: str
    bound: float
    passes: float
    read: float
    peers: list[Score]

    def reached(self, score: Score) -> bool:
        return score.error is not None and score.error <= self.target

    @property
    def best(self) -> Score | None:
        able = [peer for peer in self.peers if self.reached(peer)]
        return min(able, key=lambda peer: peer.seconds, default=None)

    @property
    def judge(self) -> Score | None:
        """The peer that the wanted ratio is about."""
        named = [peer for peer in self.peers if peer.name == self.against and self.reached(peer)]
        return named[0] if named else None if self.against else self.best

    @property
    def ratio(self) -> float:
        return math.nan if self.judge is None else self.judge.seconds / self.ling.seconds

    @property
    def faults(self) -> list[str]:
        found = [] if self.ratio >= self.wanted else ["missed"]
        if not self.reached(self.ling):
            found.append("ling does not reach the error")
        if not self.bound >= self.ling.error:
            found.append("the bound is below the error")
        return found

    @property
    def times_limit(self) -> float:
        """ling's seconds over those of reading X as often as it says it did."""
        return self.ling.seconds / (self.passes * self.read) if self.passes else math.nan


def brief(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"


def rows(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    ruled = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in ruled)


def table(outcomes: Sequence[Outcome]) -> str:
    lines = [summary(outcome) for outcome in outcomes]
    return f"{rows(HEADS, lines)}\n\n{mean_line(outcomes)}"


def summary(o: Outcome) -> list[str]:
    name, seconds = (o.best.name, brief(o.best.seconds)) if o.best else ("none", "")
    against = f" against {o.against}" if o.against else ""
    faults = f" ({', '.join(o.faults)})" if o.faults else ""
    sides = [o.ling, *([o.judge] if o.judge else [])]
    return [
        o.cell,
        brief(o.ling.seconds),
        o.engine,
        name,
        seconds,
        f"{o.ratio:.2f}",
        f">= {o.wanted:.2f}{against}{faults}",
        ", ".join(f"{side.spread:.2f}" for side in sides),
        f"{o.ling.error:.1e}",
        f"{o.bound:.1e}",
        f"{o.passes:.1f}",
        f"{o.times_limit:.2f}",
    ]


def mean_line(outcomes: Sequence[Outcome]) -> str:
    """The geometric mean; a cell without a peer, or where ling misses the error, has no part."""
    meant = [o for o in outcomes if o.in_mean]
    known = [o.ratio for o in meant if math.isfinite(o.ratio) and o.reached(o.ling)]
    if not known:
        return "No ratio to take a mean of."
    mean = math.exp(sum(map(math.log, known)) / len(known))
    return f"Geometric mean of the ratio over {len(known)} of {len(meant)} cells: {mean:.2f}"


def peer_table(outcomes: Sequence[Outcome]) -> str:
    return rows(PEER_HEADS, [peer_row(o, peer) for o in outcomes for peer in o.peers])


def peer_row(o: Outcome, peer: Score) -> list[str]:
    ran = bool(peer.turns)
    return [
        o.cell,
        peer.name,
        brief(peer.seconds) if ran else "",
        f"{peer.seconds / o.ling.seconds:.2f}" if ran else "",
        f"{peer.tol:.0e}" if peer.tol else "",
        "" if peer.error is None else f"{peer.error:.1e}",
        f"{peer.spread:.2f}" if len(peer.turns) > 1 else "",
        peer.note,
    ]


def merge(outcome: Outcome, options: Any, path: Path) -> None:
    """Replace the cell in the file. Each cell keeps the machine, date and seed it was run with."""
    cells = json.loads(path.read_text())["cells"] if path.exists() else {}
    derived = {"ratio": finite(outcome.ratio), "times_limit": finite(outcome.times_limit)}
    cells[outcome.cell] = {
        "machine": {**harness.machine(), **versions()},
        "options": asdict(options),
        "outcome": asdict(outcome),
        **derived,
    }
    harness.write({"cells": cells}, path)


def versions() -> dict[str, str]:
    """Of the packages that race and are installed."""
    racers = ["ling", "scipy", "scikit-learn", "scikit-learn-intelex", "glum", "rlaopt", "torch"]
    found = {dist.metadata["Name"].lower(): dist.version for dist in distributions()}
    return {name: found[name] for name in racers if name in found}


def finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def load(path: Path) -> list[Outcome]:
    return [outcome(cell["outcome"]) for cell in json.loads(path.read_text())["cells"].values()]


def outcome(record: dict[str, Any]) -> Outcome:
    peers = [Score(**peer) for peer in record["peers"]]
    return Outcome(**{**record, "ling": Score(**record["ling"]), "peers": peers})


def figure(path: Path, source: Path = RESULTS) -> None:
    """One panel a cell, one bar a peer: how many times ling's seconds it takes."""
    import matplotlib.pyplot as plt

    panels = [o for o in load(source) if any(peer.turns for peer in o.peers)]
    heights = [1.5 + sum(bool(peer.turns) for peer in o.peers) for o in panels]
    fig, axes = plt.subplots(
        len(panels),
        1,
        sharex=True,
        squeeze=False,
        figsize=(9, 0.2 * sum(heights) + 1.2),
        gridspec_kw={"height_ratios": heights},
        layout="constrained",
    )
    for ax, o in zip(axes.flat, panels, strict=True):
        panel(ax, o)
    low, high = axes.flat[0].get_xlim()
    axes.flat[0].set_xlim(low / 2, high * 4)  # room for the words beside the bars
    fig.suptitle("Seconds of each peer over those of ling, to the same measured error")
    last = axes.flat[len(panels) - 1]
    last.set_xlabel("times ling's seconds (log); dotted: wanted; hatched: error not reached")
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in COLOURS.values()]
    fig.legend(handles, COLOURS, loc="outside lower center", ncols=len(COLOURS), frameon=False)
    fig.savefig(path, dpi=150)
    plt.close(fig)


def panel(ax: Any, o: Outcome) -> None:
    ran = sorted((peer for peer in o.peers if peer.turns), key=lambda peer: -peer.seconds)
    for place, peer in enumerate(ran):
        ratio, reached = peer.seconds / o.ling.seconds, o.reached(peer)
        colour = COLOURS[peer.name.split()[0]]
        # A bar starts at 1, on the side of whoever is slower.
        ax.barh(
            place,
            ratio - 1,
            left=1,
            color=colour if reached else "none",
            edgecolor=colour,
            hatch=None if reached else "////",
        )
        words = f"{ratio:.3g}" if reached else f"{ratio:.3g} (error {peer.error:.0e})"
        ax.annotate(
            words,
            (ratio, place),
            xytext=(4 if ratio >= 1 else -4, 0),
            textcoords="offset points",
            va="center",
            ha="left" if ratio >= 1 else "right",
            fontsize=7,
        )
    ax.set_xscale("log")
    ax.set_yticks(range(len(ran)), [peer.name for peer in ran], fontsize=7)
    ax.set_title(o.cell, fontsize=9, loc="left", pad=2)
    ax.axvline(1, color="black", linewidth=0.8)
    ax.axvline(o.wanted, color="black", linewidth=0.8, linestyle=":", zorder=0)
    ax.spines[["top", "right"]].set_visible(False)
