"""`python -m benchmarks.cold_start`: what the first fit takes more than the second.

Each measurement is a process of its own: first one with empty caches of compiled loops and machine
speeds, as in a fresh installation, then others that find what the first has left there, and one
that has nowhere to write its caches to.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import harness

RECORD = Path(__file__).with_name("cold_start.json")
SHAPES = (2_000, 300), (20_000, 2_000)
# Processes that find filled caches; the fastest counts, since the machine may be shared.
N_WARM = 3
CACHES = ("NUMBA_CACHE_DIR", "LING_CACHE")
CODE = """
import json, sys, time
import numpy as np
from ling import Ridge
n, p = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
X = rng.standard_normal((n, p))
y = X[:, 0] + rng.standard_normal(n)
seconds = []
for _ in range(4):
    started = time.perf_counter()
    Ridge().fit(X, y)
    seconds.append(time.perf_counter() - started)
print(json.dumps(seconds))
"""


def first_fits(shape: tuple[int, int], caches: Path) -> list[float]:
    """Seconds of the first fits in a process that keeps its caches in this folder."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CODE, json.dumps(shape)],
        env={**os.environ, **dict.fromkeys(CACHES, str(caches))},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return list(json.loads(done.stdout))


def excess(seconds: Sequence[float]) -> float:
    """Seconds of the first fit above those of the fastest later one."""
    return seconds[0] - min(seconds[1:])


def measure(shape: tuple[int, int]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        fresh = first_fits(shape, Path(folder))
        warm = [first_fits(shape, Path(folder)) for _ in range(N_WARM)]
        unwritable = first_fits(shape, Path(os.devnull) / "caches")
    return {
        "later fits": min(min(seconds[1:]) for seconds in (fresh, *warm)),
        "fresh installation": excess(fresh),
        "further process": min(map(excess, warm)),
        "nowhere to cache": excess(unwritable),
    }


def table(seconds: Mapping[str, Mapping[str, float]]) -> str:
    """Seconds by the shape of X and by what was measured."""
    heads = list(next(iter(seconds.values())))
    lines = [[shape, *map(harness.brief, each.values())] for shape, each in seconds.items()]
    return (
        f"{harness.rows(['X', *heads], lines)}\n\n"
        "Time of a later fit, and what the first fit of a process takes more than that."
    )


def published_table() -> str:
    """The table of the last run."""
    return table(json.loads(RECORD.read_text())["seconds"])


def main(line: Sequence[str]) -> int:
    argparse.ArgumentParser("python -m benchmarks.cold_start", description=__doc__).parse_args(line)
    seconds = {" x ".join(f"{size:,}" for size in shape): measure(shape) for shape in SHAPES}
    print(table(seconds))
    machine = {**harness.machine(), **harness.versions()}
    harness.write({"machine": machine, "seconds": seconds}, RECORD)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
