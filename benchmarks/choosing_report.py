"""What a race to choose alpha was: its record, its tables, its figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import bars, harness
from benchmarks.harness import SPREAD, Options, Timed, brief, finite, rows

RESULTS = Path(__file__).with_name("choosing.json")
HEADS = [
    *("cell", "ling", "competitor", "its time", "ratio", "alpha, both"),
    *(SPREAD, "how ling did it", "note"),
]
MEMORY_HEADS = ["cell", "contender", "memory beside the data", "ling / competitor"]


@dataclass(frozen=True)
class Score(Timed):
    """`chosen` has pairs: an alpha, and for how many targets; `peak` bytes beside the data."""

    chosen: list[list[float]]
    how: str = ""
    note: str = ""
    peak: int | None = None

    @property
    def alpha(self) -> str:
        """In words."""
        alphas = [alpha for alpha, _ in self.chosen]
        if len(alphas) < 2:
            return "".join(f"{alpha:.3g}" for alpha in alphas)
        return f"{min(alphas):.3g} to {max(alphas):.3g}"


@dataclass(frozen=True)
class Pairing:
    """ling against a peer.

    `wanted` and `most_memory` are the developers' goals for time and memory; no table shows them.
    `differing` counts the targets for which they chose differently; None if the peer does not
    choose, or did not run.
    """

    ling: Score
    peer: Score
    wanted: float | None
    most_memory: float | None
    differing: int | None

    @property
    def ratio(self) -> float:
        return self.peer.seconds / self.ling.seconds if self.peer.turns else math.nan

    @property
    def is_own(self) -> bool:
        """Whether the peer is ling as well, doing less."""
        return self.peer.name.startswith("ling ")

    @property
    def memory(self) -> float:
        """Of ling over that of the peer."""
        if self.ling.peak is None or not self.peer.peak:
            return math.nan
        return self.ling.peak / self.peer.peak


@dataclass(frozen=True)
class Outcome:
    """One cell. The alphas are `n_alphas` from `low` to `high`, evenly in their logarithm."""

    cell: str
    shape: list[int]
    entries: int
    n_targets: int
    low: float
    high: float
    n_alphas: int
    pairings: list[Pairing]

    def wrong(self, pair: Pairing) -> list[str]:
        """What makes the comparison worthless."""
        found = []
        if pair.differing:
            found.append(f"they differ for {pair.differing} of {self.n_targets}")
        if any(alpha in (self.low, self.high) for alpha, _ in pair.ling.chosen):
            found.append("at the edge of the grid")
        return found

    @property
    def sound(self) -> bool:
        return not any(self.wrong(pair) for pair in self.pairings)


def table(outcomes: Sequence[Outcome]) -> str:
    return rows(HEADS, [summary(o, pair) for o in outcomes for pair in o.pairings])


def summary(o: Outcome, pair: Pairing) -> list[str]:
    sides = [side for side in (pair.ling, pair.peer) if side.turns]
    ran = bool(pair.peer.turns)
    return [
        f"{o.cell}, {' x '.join(map(str, o.shape))}",
        brief(pair.ling.seconds),
        pair.peer.name,
        brief(pair.peer.seconds) if ran else "",
        f"{pair.ratio:.3g}" if ran else "",
        "; ".join(filter(None, [pair.ling.alpha, *o.wrong(pair)])),
        ", ".join(f"{side.spread:.2f}" for side in sides if len(side.turns) > 1),
        pair.ling.how,
        pair.peer.note,
    ]


def memory_table(outcomes: Sequence[Outcome]) -> str:
    """Empty, if nobody's memory was asked for."""
    asked = [(o, pair) for o in outcomes for pair in o.pairings if pair.most_memory is not None]
    lines = [line for o, pair in asked for line in memory_lines(o, pair)]
    return rows(MEMORY_HEADS, lines) if lines else ""


def memory_lines(o: Outcome, pair: Pairing) -> list[list[str]]:
    ratio = "" if math.isnan(pair.memory) else f"{pair.memory:.3g}"
    return [
        [o.cell, pair.peer.name, amount(pair.peer.peak), ""],
        [o.cell, pair.ling.name, amount(pair.ling.peak), ratio],
    ]


def amount(peak: int | None) -> str:
    return "not measured" if peak is None else f"{peak / 1e6:.3g} MB"


def merge(outcome: Outcome, options: Options, path: Path | None) -> None:
    if path is not None:
        derived = {"ratios": [finite(pair.ratio) for pair in outcome.pairings]}
        harness.merge(outcome.cell, outcome, derived, options, path)


def outcome(record: dict[str, Any]) -> Outcome:
    pairings = [
        Pairing(**{**pair, "ling": Score(**pair["ling"]), "peer": Score(**pair["peer"])})
        for pair in record["pairings"]
    ]
    return Outcome(**{**record, "pairings": pairings})


def figure(path: Path, source: Path = RESULTS) -> None:
    """One panel a cell, one bar a peer: how many times ling's seconds it takes."""
    bars.draw(
        [panel(outcome(record)) for record in harness.outcomes_in(source)],
        path,
        "Choosing alpha: seconds of each peer over those of ling",
        "times ling's seconds (log); hatched: another alpha was chosen",
    )


def panel(o: Outcome) -> bars.Panel:
    ran = sorted((pair for pair in o.pairings if pair.peer.turns), key=lambda pair: -pair.ratio)
    return bars.Panel(o.cell, [bar(o, pair) for pair in ran])


def bar(o: Outcome, pair: Pairing) -> bars.Bar:
    wrong = o.wrong(pair)
    words = f" ({', '.join(wrong)})" if wrong else ""
    return bars.Bar(pair.peer.name, pair.ratio, words, not wrong)
