"""`python -m benchmarks.ridge [WORD ...]`: ling.Ridge against its peers, each to the same error.

The error is measured against a float64 reference, never taken from the word of a solver. Every
racer starts from raw arrays, fits an intercept, and uses the same number of threads. A peer takes
part with the loosest tolerance at which it reaches the error.
"""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

import ling
from benchmarks import harness, ridge_report
from benchmarks.harness import HOPELESS, Options, say, timed
from benchmarks.ridge_data import (
    MODEL_1,
    MODEL_3,
    POWER_LAW,
    Data,
    Fit,
    Problem,
    correlated,
    error,
    factors,
    reference,
    slow_power_law,
    spectral,
    zipf,
)
from benchmarks.ridge_peers import DEFAULT, INTELEX, PEERS, Peer
from benchmarks.ridge_report import RESULTS, Outcome, Score, figure

__all__ = ["CELLS", "figure", "main", "run"]

TARGET = 1e-4
READ = "X @ v"


@dataclass(frozen=True)
class RidgeCell:
    """`make(rng, n, p)` gives X and y; `wanted` is the least ratio of a peer's seconds to ling's.

    The peer is `against`, or the best that reaches the error.
    """

    name: str
    n: int
    p: int
    make: Callable[..., Data]
    wanted: float
    against: str = ""
    lam: float = 1e-3
    peers: tuple[Peer, ...] = PEERS
    in_mean: bool = True


@dataclass(frozen=True, eq=False)
class Entry:
    """What a peer's first fits say: the tolerance and the error it races with, or why not."""

    peer: Peer
    note: str = ""
    tol: float | None = None
    error: float | None = None
    seconds: float | None = None

    @property
    def reached(self) -> bool:
        return self.error is not None and self.error <= TARGET

    def __str__(self) -> str:
        if self.seconds is None:
            return f"{self.peer.name}: {self.note}"
        return f"{self.peer.name}: {self.seconds:.3g} s, error {self.error:.1e} {self.note}".strip()

    @property
    def races(self) -> bool:
        return self.reached and not self.note


CELLS = (
    RidgeCell("M1", 20_000, 4_000, MODEL_1, 3.5),
    RidgeCell("M3", 20_000, 4_000, MODEL_3, 5.0),
    RidgeCell("power law 1/i", 20_000, 4_000, POWER_LAW, 2.0),
    RidgeCell("slow power law", 20_000, 4_000, partial(spectral, spectrum=slow_power_law), 1.0),
    RidgeCell("large p", 20_000, 10_000, MODEL_1, 8.0),
    RidgeCell("tall", 100_000, 2_000, POWER_LAW, 3.0),
    RidgeCell("very tall", 5_000_000, 28, correlated, 1.2, against=INTELEX.name),
    RidgeCell("wide", 2_000, 50_000, factors, 1.2),
    RidgeCell("sparse", 200_000, 47_000, partial(zipf, per_row=60), 3.0),
    RidgeCell("float32", 20_000, 4_000, partial(MODEL_3, dtype="float32"), 3.0),
    RidgeCell("100 targets", 20_000, 4_000, partial(MODEL_3, n_targets=100), 1.5),
    RidgeCell(
        "small",
        200,
        20,
        correlated,
        1 / 1.5,
        against=DEFAULT.name,
        peers=(DEFAULT, *PEERS),
        in_mean=False,
    ),
)


def problem_of(cell: RidgeCell, options: Options) -> Problem:
    """The cell's data, with n and p shrunk by `options.scale`."""
    n, p = options.shrunk(cell.n), options.shrunk(cell.p)
    X, y = cell.make(np.random.default_rng(options.seed), n, p)
    return Problem(X, y, n * cell.lam, options.threads, options.seed)


def fit_ling(problem: Problem) -> ling.Ridge:
    ridge = ling.Ridge(alpha=problem.alpha, tol=TARGET, random_state=problem.seed)
    return ridge.fit(problem.X, problem.y)


def admit(peer: Peer, problem: Problem, measure: Callable[[Fit], float], best: float) -> Entry:
    """Find the loosest tolerance that reaches the error; give up on one that is far behind."""
    obstacle = peer.obstacle(problem)
    if obstacle:
        return Entry(peer, obstacle)
    for tol in peer.tols:
        gc.collect()
        try:
            fit, seconds = timed(partial(peer.solve, problem, tol))
            entry = Entry(peer, "", tol, measure(fit), seconds)
        except Exception as failure:  # whatever a peer dies of, the others go on
            return Entry(peer, harness.failed(failure))
        if entry.reached or seconds > HOPELESS * best:
            break
    return Entry(peer, remark(entry, best), entry.tol, entry.error, entry.seconds)


def remark(entry: Entry, best: float) -> str:
    words = [] if entry.reached else ["does not reach the error"]
    if entry.seconds > HOPELESS * best:
        words.append(f"over {HOPELESS:g} x the best, one fit only")
    return "; ".join(words)


def admit_all(cell: RidgeCell, problem: Problem, measure: Callable[[Fit], float]) -> list[Entry]:
    entries: list[Entry] = []
    for peer in cell.peers:
        best = min((entry.seconds for entry in entries if entry.reached), default=math.inf)
        entries.append(admit(peer, problem, measure, best))
        say(f"  {entries[-1]}")
    return entries


def run(cell: RidgeCell, options: Options) -> Outcome:
    problem = problem_of(cell, options)
    measure = partial(error, problem, reference(problem))
    v = np.random.default_rng(options.seed).standard_normal(problem.X.shape[1])
    v = v.astype(problem.X.dtype)
    calls = {"ling": partial(fit_ling, problem), READ: lambda: problem.X @ v}
    ridge, ling_first = timed(calls["ling"])
    first = {"ling": ling_first, READ: timed(calls[READ])[1]}
    entries = admit_all(cell, problem, measure)
    for entry in entries:
        if entry.races:
            calls[entry.peer.name] = partial(entry.peer.solve, problem, entry.tol)
            first[entry.peer.name] = entry.seconds
    seconds = harness.race(calls, first, options.turns)
    return Outcome(
        cell=cell.name,
        shape=list(problem.X.shape),
        entries=problem.n_entries,
        dtype=str(problem.X.dtype),
        alpha=problem.alpha,
        target=TARGET,
        wanted=cell.wanted,
        against=cell.against,
        in_mean=cell.in_mean,
        ling=Score("ling", seconds["ling"], measure(Fit.of(ridge)), TARGET),
        engine=str(ridge.solver_),
        bound=float(np.max(ridge.report_.certificate.bound)),
        passes=float(ridge.report_.cost.passes),
        read=min(seconds[READ]),
        peers=[score(entry, seconds) for entry in entries],
    )


def score(entry: Entry, seconds: dict[str, list[float]]) -> Score:
    once = [] if entry.seconds is None else [entry.seconds]
    tol = None if entry.peer.is_direct else entry.tol
    return Score(entry.peer.name, seconds.get(entry.peer.name, once), entry.error, tol, entry.note)


def main(line: Sequence[str]) -> int:
    asked = harness.arguments("benchmarks.ridge", __doc__, RESULTS, line)
    options = harness.options_of(asked)
    chosen = harness.matching(CELLS, asked.words)
    if not chosen:
        return 2
    for peer in {peer for cell in chosen for peer in cell.peers}:
        peer.load()  # before the limits on threads, which hold for libraries that are loaded
    keep = partial(ridge_report.merge, options=options, path=asked.json)
    outcomes = harness.run_each(chosen, run, options, keep)
    print(ridge_report.table(outcomes), ridge_report.peer_table(outcomes), sep="\n\n")
    if asked.figure is not None and asked.json is not None:
        figure(asked.figure, asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
