"""`python -m benchmarks.wild`: ling on problems that are drawn at random, beside scikit-learn.

Nobody can tune to these problems: a run without --seed draws a new one. Every problem is fitted by
ling's default, by scikit-learn's default, by other solvers at the loosest tolerance that reaches
the error of ling's default tol, and by every engine of ling alone. Results are appended to a file,
so that a run that was interrupted goes on where it stopped:

    python -m benchmarks.wild --problems 200               # new seed, or the rest of the last run
    python -m benchmarks.wild --task choosing              # RidgeCV and RidgeClassifierCV
    python -m benchmarks.wild --report                     # tables of the last run
"""

from __future__ import annotations

import argparse
import gc
import json
import secrets
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from benchmarks import harness, wild_choosing, wild_report, wild_ridge
from benchmarks.wild_problems import Draw

TASKS = {"ridge": wild_ridge, "choosing": wild_choosing}
# Problems with the smallest ratios are measured again, with more turns.
N_RERUNS, RERUN_TURNS = 10, 5


@dataclass(frozen=True)
class Run:
    """The file of a run: a line about the run, then one for each problem."""

    path: Path
    seed: int
    task: str

    @classmethod
    def open(cls, path: Path, task: str, seed: int | None) -> Run:
        """The run in this file if it has the seed and no other was asked for; else a new one."""
        if path.exists():
            first = json.loads(path.read_text().splitlines()[0])
            if seed in (None, first["seed"]) and first["task"] == task:
                return cls(path, first["seed"], task)
        seed = secrets.randbelow(10**6) if seed is None else seed
        head = {"seed": seed, "task": task, "machine": {**harness.machine(), **harness.versions()}}
        path.write_text(json.dumps(head) + "\n")
        return cls(path, seed, task)

    def records(self) -> list[wild_report.Record]:
        """The newest record of every problem, in the order of their numbers."""
        return wild_report.read_run(self.path)[1]

    def append(self, record: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def run_problems(run: Run, count: int, threads: int) -> None:
    """Run the problems of 0 to `count` that have no record yet."""
    task = TASKS[run.task]
    done = {record["draw"]["number"] for record in run.records()}
    started = time.perf_counter()
    for number in range(count):
        if number not in done:
            run.append(measure(task, task.draw(run.seed, number), threads, None))
            harness.say(f"  {time.perf_counter() - started:.0f} s so far")


def rerun_worst(run: Run, threads: int) -> None:
    """Measure the problems with the smallest ratios again."""
    task = TASKS[run.task]
    records = [record for record in run.records() if "failure" not in record]
    for record in sorted(records, key=wild_report.ratio_to_default)[:N_RERUNS]:
        if not record.get("rerun"):
            draw = task.draw(run.seed, record["draw"]["number"])
            run.append({**measure(task, draw, threads, RERUN_TURNS), "rerun": True})


def measure(task: Any, draw: Draw, threads: int, turns: int | None) -> dict[str, Any]:
    """The record of a problem; a failure is recorded too."""
    harness.say(f"{draw.number}: {draw.name}, alpha {draw.relative_alpha:.1e}")
    try:
        record = task.measure(draw, threads, turns)
        harness.say(f"  {wild_report.summary_line(record)}")
    except Exception as failure:  # the other problems go on
        record = {"failure": harness.failed(failure)}
        harness.say(f"  {record['failure']}")
    gc.collect()
    return {"draw": asdict(draw), **record}


def parse(line: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks.wild", description=__doc__)
    parser.add_argument("--task", choices=TASKS, default="ridge")
    parser.add_argument("--seed", type=int, help="default: the last run's, or a new one")
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--threads", type=int, default=harness.Options.threads)
    parser.add_argument("--out", type=Path, help="default: wild-TASK.jsonl in this folder")
    parser.add_argument("--report", action="store_true", help="only print tables of the last run")
    parser.add_argument("--figure", type=Path, help="draw the sorted ratios")
    return parser.parse_args(line)


def main(line: Sequence[str]) -> int:
    asked = parse(line)
    path = asked.out or Path(f"wild-{asked.task}.jsonl")
    run = Run.open(path, asked.task, asked.seed)
    if not asked.report:
        harness.say(f"seed {run.seed}, {asked.problems} problems, results in {path}")
        TASKS[run.task].load()
        with threadpool_limits(asked.threads), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # results are checked, whatever a solver says of them
            run_problems(run, asked.problems, asked.threads)
            rerun_worst(run, asked.threads)
    print(wild_report.report(run.task, run.seed, run.records()))
    if asked.figure is not None:
        wild_report.draw_ratios(run.records(), asked.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
