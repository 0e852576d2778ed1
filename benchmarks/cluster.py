"""`python -m benchmarks.cluster`: X on two workers against the same X in one process.

Both have two threads and the same numbers. A pass is X'(X v) of the centred X with a fresh v, as an
iteration does it. Another X, of next to no rows, shows what a pass costs beside its products. A fit
is one of the same engine, in float64 throughout, to the same y.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import Figure, brief, judge, say, table, take_turns
from ling import Ridge
from ling.design import DenseStorage, Design, as_design
from ling.design.dask import DaskStorage

WORKERS = 2
HERE, THERE, EMPTY = "in process", "cluster", "cluster, nothing to do"
FIT_HERE, FIT_THERE = "a fit in process", "a fit on the cluster"
FIGURES = (Figure(THERE, HERE, 1.5), Figure(EMPTY, HERE, 0.5))
FIT = Figure(FIT_THERE, FIT_HERE, 1.5)


@dataclass(frozen=True)
class Shape:
    """n rows in blocks, p columns whose sizes fall like 1 / sqrt(i)."""

    n: int
    p: int
    blocks: int

    @property
    def height(self) -> int:
        return self.n // self.blocks


def block(shape: Shape, number: int) -> np.ndarray[Any, Any]:
    """The same numbers, wherever they are made."""
    rng = np.random.default_rng((7, number))
    return rng.standard_normal((shape.height, shape.p)) / np.sqrt(np.arange(1, shape.p + 1))


def in_process(shape: Shape) -> np.ndarray[Any, Any]:
    return np.concatenate([block(shape, number) for number in range(shape.blocks)])


def on_workers(shape: Shape) -> Any:
    import dask.array as da

    numbers = da.arange(shape.blocks, chunks=1)[:, None]
    return numbers.map_blocks(
        lambda number: block(shape, int(number[0, 0])),
        chunks=((shape.height,) * shape.blocks, (shape.p,)), dtype=np.float64,
        meta=np.empty((0, 0)),
    )  # fmt: skip


@contextmanager
def cluster() -> Iterator[Any]:
    """Workers with one thread each, on this machine."""
    from distributed import Client, LocalCluster

    options = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": ":0"}
    with LocalCluster(WORKERS, **options) as made, Client(made) as client:
        yield client


def passes(design: Design, vectors: np.ndarray[Any, Any]) -> None:
    for v in vectors:
        design.gram_matmat(v)


def fit(X: Any, y: Any) -> Ridge:
    return Ridge(10.0, solver="two_stage", precision="float64", random_state=0).fit(X, y)


def moved(call: Callable[[], None]) -> float:
    """Bytes over the loopback device, the scheduler's messages among them."""
    import psutil

    before = psutil.net_io_counters(pernic=True)["lo"].bytes_sent
    call()
    return float(psutil.net_io_counters(pernic=True)["lo"].bytes_sent - before)


def main(line: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.cluster", description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--passes", type=int, default=20)
    parser.add_argument("--scale", type=float, default=1.0, help="shrink n and p")
    parser.add_argument("--blocks", type=int, default=2 * WORKERS)
    asked = parser.parse_args(line)
    shape = Shape(round(20_000 * asked.scale), round(4_000 * asked.scale), asked.blocks)
    say(f"{shape} ...")
    vectors = np.random.default_rng(0).standard_normal((asked.passes, shape.p))
    with threadpool_limits(WORKERS), cluster():
        tiny = on_workers(Shape(2 * WORKERS, 4, WORKERS))
        here, there = in_process(shape), on_workers(shape).persist()
        y = here @ vectors[0] + np.random.default_rng(1).standard_normal(shape.n)
        contest = {
            HERE: partial(passes, as_design(DenseStorage(here)).centered(), vectors),
            THERE: partial(passes, as_design(DaskStorage.from_array(there)).centered(), vectors),
            EMPTY: partial(
                passes, as_design(DaskStorage.from_array(tiny)).centered(), vectors[:, :4]
            ),
            FIT_HERE: partial(fit, here, y),
            FIT_THERE: partial(fit, there, y),
        }
        for call in contest.values():
            call()  # compiles, and sends what is sent once
        seconds = take_turns(contest, asked.turns)
        counted = {name: contest[name]().report_.cost.passes for name in (FIT_HERE, FIT_THERE)}
        traffic = moved(contest[THERE]) / asked.passes
    rows = [judge("one pass", figure, seconds) for figure in FIGURES]
    print(table([*rows, judge("a fit", FIT, seconds)]))
    one = {name: brief(min(seconds[name]) / asked.passes) for name in (HERE, THERE, EMPTY)}
    print(f"\nSeconds of a pass: {one}; {traffic / 1e3:.0f} kB moved in one.")
    print(f"Passes of a fit: {counted}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
