"""`python -m benchmarks [WORD ...]`: run the cells whose name holds every word, print and save.

Those of `benchmarks.foundation`, then those of `benchmarks.choosing`, which take much longer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import choosing, foundation, harness

CELLS = [*foundation.CELLS]


def main(words: list[str]) -> int:
    chosen = harness.matching([*CELLS, *choosing.CELLS], words)
    if not chosen:
        return 2
    run([cell for cell in chosen if cell in CELLS])
    races = any(cell in choosing.CELLS for cell in chosen)
    return choosing.main(words) if races else 0


def run(cells: Sequence[harness.Cell]) -> None:
    outcomes = []
    for cell in cells:
        harness.say(f"{cell.name} ...")
        outcomes += harness.run(cell)
    if outcomes:
        print(harness.table(outcomes), end="\n\n")
    if cells == CELLS:
        path = Path(__file__).with_name("results.json")
        harness.save(outcomes, path)
        print(f"written to {path}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
