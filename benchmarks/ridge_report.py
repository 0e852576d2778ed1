"""What a race was: its record, its two tables, its figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import bars, harness
from benchmarks.harness import SPREAD, Options, Timed, brief, finite, rows

RESULTS = Path(__file__).with_name("ridge.json")
HEADS = [
    *("cell", "ling", "engine", "fastest competitor", "its time", "ratio", SPREAD),
    *("error", "bound", "passes", "x physical limit"),
]
PEER_HEADS = ["cell", "competitor", "time", "ratio to ling", "tol", "error", SPREAD, "note"]


@dataclass(frozen=True)
class Score(Timed):
    """With the error that was measured."""

    error: float | None
    tol: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """One cell. `read` is the seconds of one X @ v, `bound` what ling's certificate promises.

    `wanted` and `against` are the developers' goal for the cell; no table shows them.
    """

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
    def ratio(self) -> float:
        """Seconds of the fastest competitor that reaches the error, over those of ling."""
        return math.nan if self.best is None else self.best.seconds / self.ling.seconds

    @property
    def faults(self) -> list[str]:
        """What makes the comparison worthless."""
        found = []
        if not self.reached(self.ling):
            found.append("ling does not reach the error")
        if not self.bound >= self.ling.error:
            found.append("the bound is below the error")
        return found

    @property
    def times_limit(self) -> float:
        """ling's seconds over those of reading X as often as it says it did."""
        return self.ling.seconds / (self.passes * self.read) if self.passes else math.nan


def table(outcomes: Sequence[Outcome]) -> str:
    lines = [summary(outcome) for outcome in outcomes]
    return f"{rows(HEADS, lines)}\n\n{mean_line(outcomes)}"


def summary(o: Outcome) -> list[str]:
    name, seconds = (named(o.best), brief(o.best.seconds)) if o.best else ("none", "")
    faults = f" ({', '.join(o.faults)})" if o.faults else ""
    sides = [o.ling, *([o.best] if o.best else [])]
    return [
        o.cell,
        brief(o.ling.seconds),
        o.engine,
        name,
        seconds,
        f"{o.ratio:.2f}{faults}",
        ", ".join(f"{side.spread:.2f}" for side in sides),
        f"{o.ling.error:.1e}",
        f"{o.bound:.1e}",
        f"{o.passes:.1f}",
        f"{o.times_limit:.2f}",
    ]


def named(peer: Score) -> str:
    """A competitor with the tolerance that it needs, if it has one."""
    return f"{peer.name}, tol={peer.tol:.0e}" if peer.tol else peer.name


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


def merge(outcome: Outcome, options: Options, path: Path | None) -> None:
    if path is not None:
        derived = {"ratio": finite(outcome.ratio), "times_limit": finite(outcome.times_limit)}
        harness.merge(outcome.cell, outcome, derived, options, path)


def outcome(record: dict[str, Any]) -> Outcome:
    peers = [Score(**peer) for peer in record["peers"]]
    return Outcome(**{**record, "ling": Score(**record["ling"]), "peers": peers})


def figure(path: Path, source: Path = RESULTS) -> None:
    """One panel a cell, one bar a peer: how many times ling's seconds it takes."""
    bars.draw(
        [panel(outcome(record)) for record in harness.outcomes_in(source)],
        path,
        "Seconds of each peer over those of ling, to the same measured error",
        "times ling's seconds (log); hatched: error not reached",
    )


def panel(o: Outcome) -> bars.Panel:
    ran = sorted((peer for peer in o.peers if peer.turns), key=lambda peer: -peer.seconds)
    return bars.Panel(o.cell, [bar(o, peer) for peer in ran])


def bar(o: Outcome, peer: Score) -> bars.Bar:
    reached = o.reached(peer)
    words = "" if reached else f" (error {peer.error:.0e})"
    return bars.Bar(peer.name, peer.seconds / o.ling.seconds, words, reached)
