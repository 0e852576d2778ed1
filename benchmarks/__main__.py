"""`python -m benchmarks [WORD ...]`: run the cells whose name holds every word, print and save."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks import foundation, harness

CELLS = [*foundation.CELLS]


def main(words: list[str]) -> int:
    chosen = [cell for cell in CELLS if all(word in cell.name for word in words)]
    if not chosen:
        print(f"No cell is called {' '.join(words)!r}; there are: {[c.name for c in CELLS]}")
        return 2
    outcomes = []
    for cell in chosen:
        print(f"{cell.name} ...", file=sys.stderr, flush=True)
        outcomes += harness.run(cell)
    print(harness.table(outcomes))
    path = Path(__file__).with_name("results.json")
    if chosen == CELLS:
        harness.save(outcomes, path)
        print(f"\nwritten to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
