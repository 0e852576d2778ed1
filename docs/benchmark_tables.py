"""The directive `benchmark`: a table of the last full run, made from its record, never typed."""

from __future__ import annotations

import json
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from benchmarks import choosing_report, harness, ridge_report

RESULTS = Path(harness.__file__).with_name("results.json")
RECORDS = {"ridge": ridge_report.RESULTS, "choosing": choosing_report.RESULTS}


def ridge() -> list[ridge_report.Outcome]:
    return [ridge_report.outcome(record) for record in harness.outcomes_in(RECORDS["ridge"])]


def choosing() -> list[choosing_report.Outcome]:
    found = harness.outcomes_in(RECORDS["choosing"])
    return [choosing_report.outcome(record) for record in found]


def cells() -> str:
    """What the names of the cells stand for."""
    heads = ["cell", "X", "entries stored", "dtype", "alpha"]
    lines = [
        [o.cell, " x ".join(map(str, o.shape)), f"{o.entries:.3g}", o.dtype, f"{o.alpha:.3g}"]
        for o in ridge()
    ]
    return harness.rows(heads, lines)


def foundation() -> str:
    record = json.loads(RESULTS.read_text())
    return harness.table([harness.Outcome(**outcome) for outcome in record["outcomes"]])


def machine(name: str) -> str:
    """When, on what and with what it was run."""
    if name == "foundation":
        found = [json.loads(RESULTS.read_text())["machine"]]
    else:
        stored = json.loads(RECORDS[name].read_text())["cells"].values()
        found = [cell["machine"] for cell in stored]
    dates = sorted({str(run["date"]) for run in found})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    last = max(found, key=lambda run: str(run["date"]))
    versions = [f"{key} {last[key]}" for key in last if key not in ("date", "processor", "cores")]
    return f"Run on {when}; {last['cores']} cores, {last['processor']}; {', '.join(versions)}."


TABLES = {
    "ridge": lambda: ridge_report.table(ridge()),
    "ridge peers": lambda: ridge_report.peer_table(ridge()),
    "ridge cells": cells,
    "choosing": lambda: choosing_report.table(choosing()),
    "choosing memory": lambda: choosing_report.memory_table(choosing()),
    "foundation": foundation,
    "ridge machine": lambda: machine("ridge"),
    "choosing machine": lambda: machine("choosing"),
    "foundation machine": lambda: machine("foundation"),
}


class Benchmark(SphinxDirective):
    """A table by its name, in a page in Markdown."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in TABLES:
            raise self.error(f"there is no table {name!r}; write one of {sorted(TABLES)}.")
        for source in (*RECORDS.values(), RESULTS):
            self.env.note_dependency(str(source))
        holder = nodes.container()
        lines = TABLES[name]().splitlines()
        self.state.nested_parse(StringList(lines, source=name), self.content_offset, holder)
        for table in holder.findall(nodes.table):
            table["classes"].append("numbers")
        return holder.children


def setup(app):
    """Called by Sphinx."""
    app.add_directive("benchmark", Benchmark)
    return {"parallel_read_safe": True}
