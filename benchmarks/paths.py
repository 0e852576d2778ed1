"""`python -m benchmarks.paths`: `ridge_path` with 100 alphas, in fits of one alpha.

The problems are those of `benchmarks.wild`. A run without --seed draws new ones.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import ling
from benchmarks import harness
from benchmarks.wild_problems import BUDGET_FRACTION, draw_problem, made

RECORD = Path(__file__).with_name("paths.json")
N_ALPHAS, DECADES = 100, 3.0
# Limit on n p min(n, p) of dense problems, and numbers of the coefficients of all alphas.
MAX_FLOPS, MAX_NUMBERS = 1e11, 3e7
TURNS = 3
N_WORST = 5


@dataclass(frozen=True)
class Timing:
    """Seconds of one fit and of a path through its alpha, on one problem."""

    problem: str
    fit_engine: str
    path_method: str
    fit: float
    path: float

    @property
    def ratio(self) -> float:
        return self.path / self.fit


def measure(seed: int, number: int, threads: int) -> Timing | None:
    """The timing of a problem; None if the coefficients of all alphas would be too large."""
    draw = draw_problem(seed, number, MAX_FLOPS)
    if float(N_ALPHAS) * draw.p * draw.n_targets > MAX_NUMBERS:
        return None
    with made(draw, threads) as problem:
        budget = BUDGET_FRACTION * problem.X.nbytes if draw.out_of_core else None
        alphas = problem.alpha * np.geomspace(10.0**-DECADES, 10.0**DECADES, N_ALPHAS)
        one = ling.Ridge(problem.alpha, memory_budget=budget)
        contest = {
            "fit": partial(one.fit, problem.X, problem.y),
            "path": partial(ling.ridge_path, problem.X, problem.y, alphas, memory_budget=budget),
        }
        first, results = {}, {}
        try:
            for name, call in contest.items():
                results[name], first[name] = harness.timed(call)
        except ling.LingError as error:  # a budget that is refused
            harness.say(f"  {error}")
            return None
        seconds = {name: min(s) for name, s in harness.race(contest, first, TURNS).items()}
        return Timing(draw.name, results["fit"].solver_, results["path"].method, **seconds)


def table(timings: Sequence[Timing]) -> str:
    """Quantiles of the ratios, and the largest ones."""
    ratios = np.array([timing.ratio for timing in timings])
    numbers = [f"{np.quantile(ratios, q):.1f}" for q in (0.05, 0.5, 0.95, 1.0)]
    worst = sorted(timings, key=lambda timing: -timing.ratio)[:N_WORST]
    lines = [
        [t.problem, t.fit_engine, harness.brief(t.fit), t.path_method, harness.brief(t.path),
         f"{t.ratio:.1f}"]
        for t in worst
    ]  # fmt: skip
    quantiles = harness.rows(["problems", "5 %", "median", "95 %", "worst"],
                             [[str(len(ratios)), *numbers]])  # fmt: skip
    heads = ["largest ratios", "engine", "one fit", "method", "path", "ratio"]
    return f"{quantiles}\n\n{harness.rows(heads, lines)}"


def published_table() -> str:
    """The tables of the last run."""
    return table([Timing(**timing) for timing in json.loads(RECORD.read_text())["timings"]])


def main(line: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.paths", description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--problems", type=int, default=60)
    parser.add_argument("--threads", type=int, default=harness.Options.threads)
    asked = parser.parse_args(line)
    seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed
    timings = []
    with threadpool_limits(asked.threads):
        for number in range(asked.problems):
            timing = measure(seed, number, asked.threads)
            if timing is not None:
                harness.say(f"{number}: {timing.problem}: {timing.ratio:.1f}")
                timings.append(timing)
    print(table(timings))
    machine = {**harness.machine(), **harness.versions()}
    record = {"machine": machine, "seed": seed, "timings": [asdict(t) for t in timings]}
    harness.write(record, RECORD)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
