"""The numbers that README.md and the documentation quote, taken from the records.

`python -m benchmarks.published` writes them into README.md, between its markers. The pages of the
site get them from the directive of `docs/benchmark_tables.py`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import choosing_report, harness, ridge_report, wild_choosing, wild_report
from benchmarks.harness import brief, rows

README = Path(__file__).parents[1] / "README.md"
#: The records, by the name of their benchmark.
RECORDS = {
    "ridge": ridge_report.RESULTS,
    "choosing": choosing_report.RESULTS,
    "foundation": Path(__file__).with_name("results.json"),
    "wild ridge": Path(__file__).with_name("wild-ridge.jsonl"),
    "wild choosing": Path(__file__).with_name("wild-choosing.jsonl"),
    "scaling": Path(__file__).with_name("scaling.json"),
    "cold start": Path(__file__).with_name("cold_start.json"),
    "paths": Path(__file__).with_name("paths.json"),
}
MODELS = {"M1": "the paper's Model 1", "M3": "the paper's Model 3"}
RIDGE_HEADS = [
    *("data", "ling", "solver", "fastest competitor", "its time", "ratio"),
    *("ling's error", "ling's bound"),
]
CHOOSING_HEADS = ["task", "alphas", "ling", "competitor", "its time", "ratio", "note"]
NOTHING_SLOWER = "- In no cell of the last full run."
BLOCK = re.compile(r"(<!-- benchmarks: ([a-z ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def ridge() -> list[ridge_report.Outcome]:
    return [ridge_report.outcome(record) for record in harness.outcomes_in(RECORDS["ridge"])]


def choosing() -> list[choosing_report.Outcome]:
    records = harness.outcomes_in(RECORDS["choosing"])
    return [choosing_report.outcome(record) for record in records]


def label(outcome: ridge_report.Outcome | choosing_report.Outcome) -> str:
    """The cell and the shape of its X, in words."""
    names = [MODELS.get(name, name) for name in outcome.cell.split(", ")]
    return f"{', '.join(names)}, {' x '.join(f'{size:,}' for size in outcome.shape)}"


def runs(name: str) -> list[dict[str, Any]]:
    """Machine and options of every run that a record holds."""
    if RECORDS[name].suffix == ".jsonl":
        return [{"machine": wild(name)[0]["machine"], "options": {}}]
    record = json.loads(RECORDS[name].read_text())
    if "cells" in record:
        return list(record["cells"].values())
    return [{"machine": record["machine"], "options": {}}]


def wild(name: str) -> tuple[dict[str, Any], list[wild_report.Record]]:
    """Seed and machine of the last run of `benchmarks.wild`, and its problems."""
    return wild_report.read_run(RECORDS[name])


def span(values: Iterable[Any]) -> str:
    """The only value, or the first and the last."""
    distinct = sorted(set(values))
    first, last = distinct[0], distinct[-1]
    return str(first) if first == last else f"{first} to {last}"


def machine(name: str) -> str:
    """When, on what and with which versions a benchmark was run."""
    machines = [run["machine"] for run in runs(name)]
    last = max(machines, key=lambda machine: str(machine["date"]))
    versions = [f"{key} {last[key]}" for key in last if key not in ("date", "processor", "cores")]
    when = span(str(machine["date"]) for machine in machines)
    return f"Run on {when}; {last['cores']} cores, {last['processor']}; {', '.join(versions)}."


def setting(name: str) -> str:
    """Date, cores and turns of a benchmark, for the line above its table."""
    found = runs(name)
    cores = span(run["machine"]["cores"] for run in found)
    turns = span(run["options"]["turns"] for run in found)
    date = span(str(run["machine"]["date"]) for run in found)
    return f"{date}, {cores} cores, fastest of {turns} turns"


def wild_block() -> str:
    """Quantiles of the ratios over all problems that were drawn at random."""
    lines, commands = [], []
    for task in ("ridge", "choosing"):
        head, records = wild(f"wild {task}")
        lines += wild_report.ratio_rows(task, records)
        count = sum("failure" not in record for record in records)
        n_failed = len(records) - count
        option = "" if task == "ridge" else f" --task {task}"
        commands.append(
            f"`python -m benchmarks.wild{option} --seed {head['seed']}` "
            f"({head['machine']['date']}, {head['machine']['cores']} cores, {count} problems, "
            f"{n_failed} more refused or without a reference)"
        )
    return (
        f"{' and '.join(commands)}. A ratio is the other's time divided by ling's. Problems are "
        f"grouped by whether a library takes {brief(wild_report.SMALL_SECONDS)} or more. In the "
        f"choice of alpha each is stopped after {brief(wild_choosing.MAX_SECONDS)}, which counts "
        f"as its time.\n\n"
        f"{harness.rows(wild_report.RATIO_HEADS, lines)}"
    )


def ridge_block() -> str:
    outcomes = ridge()
    target = span(f"{outcome.target:g}" for outcome in outcomes)
    return "\n\n".join(
        [
            f"`python -m benchmarks.ridge` ({setting('ridge')}). Every solver fits from raw arrays "
            f"to a measured error of the training predictions of at most {target}.",
            rows(RIDGE_HEADS, [ridge_row(outcome) for outcome in outcomes]),
            f"{ridge_report.mean_line(outcomes)}, leaving out "
            f"{' and '.join(repr(o.cell) for o in outcomes if not o.in_mean) or 'none'}.",
        ]
    )


def ridge_row(o: ridge_report.Outcome) -> list[str]:
    best = o.best
    competitor = ["none", "", ""]
    if best is not None:
        ratio = "; ".join([f"{o.ratio:.2g}", *o.faults])
        competitor = [ridge_report.named(best), brief(best.seconds), ratio]
    return [
        *(label(o), brief(o.ling.seconds), o.engine, *competitor),
        *(f"{o.ling.error:.0e}", f"{o.bound:.0e}"),
    ]


def against_others(
    outcomes: Sequence[choosing_report.Outcome],
) -> Iterator[tuple[choosing_report.Outcome, choosing_report.Pairing]]:
    """The pairings with other libraries that ran."""
    for outcome in outcomes:
        for pair in outcome.pairings:
            if pair.peer.turns and not pair.is_own:
                yield outcome, pair


def choosing_block() -> str:
    lines = [choosing_row(o, pair) for o, pair in against_others(choosing())]
    return (
        f"`python -m benchmarks.choosing` ({setting('choosing')}). Both choose from the same grid "
        f"of alphas.\n\n{rows(CHOOSING_HEADS, lines)}"
    )


def choosing_row(o: choosing_report.Outcome, pair: choosing_report.Pairing) -> list[str]:
    note = "; ".join(filter(None, [*o.wrong(pair), pair.peer.note]))
    return [
        *(label(o), str(o.n_alphas), f"{pair.ling.name}, {brief(pair.ling.seconds)}"),
        *(pair.peer.name, brief(pair.peer.seconds), f"{pair.ratio:.2g}", note),
    ]


def path_block() -> str:
    """What all alphas of a path cost, in fits of one alpha."""
    return "\n".join(
        f"- {label(o)}: {1 / pair.ratio:.1f} times as long as one `Ridge` fit "
        f"({brief(pair.ling.seconds)} and {brief(pair.peer.seconds)})."
        for o in choosing()
        for pair in o.pairings
        if pair.peer.turns and pair.is_own
    )


def slower(fits: Sequence[ridge_report.Outcome], choices: Sequence[choosing_report.Outcome]) -> str:
    """A list of the cells where the fastest competitor takes less time than ling."""
    lines = [
        f"- One fit, {label(o)}: ling takes {brief(o.ling.seconds)}, {ridge_report.named(o.best)} "
        f"{brief(o.best.seconds)} (ratio {o.ratio:.2g})."
        for o in fits
        if o.best is not None and o.ratio < 1
    ]
    lines += [
        f"- {label(o)}: {pair.ling.name} takes {brief(pair.ling.seconds)}, {pair.peer.name} "
        f"{brief(pair.peer.seconds)} (ratio {pair.ratio:.2g})."
        for o, pair in against_others(choices)
        if pair.ratio < 1
    ]
    return "\n".join(lines) or NOTHING_SLOWER


#: Text by the name that a marker of README.md, or the directive, asks for.
BLOCKS: dict[str, Callable[[], str]] = {
    "wild": wild_block,
    "ridge": ridge_block,
    "choosing": choosing_block,
    "path": path_block,
    "slower": lambda: slower(ridge(), choosing()),
}


def render(page: str) -> str:
    """The page with every block between markers made anew."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{BLOCKS[found[2]]()}\n\n{found[3]}", page)


def main() -> int:
    README.write_text(render(README.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
