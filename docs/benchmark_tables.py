"""The directive `benchmark`: a table or a text made from the record of the last full run."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from benchmarks import (
    choosing_report,
    cold_start,
    harness,
    paths,
    published,
    ridge_report,
    scaling,
    wild_report,
)
from benchmarks.published import RECORDS, choosing, machine, ridge


def cells() -> str:
    """What the names of the cells stand for."""
    heads = ["cell", "X", "entries stored", "dtype", "alpha"]
    lines = [
        [o.cell, " x ".join(map(str, o.shape)), f"{o.entries:.3g}", o.dtype, f"{o.alpha:.3g}"]
        for o in ridge()
    ]
    return harness.rows(heads, lines)


def foundation() -> str:
    record = json.loads(RECORDS["foundation"].read_text())
    return harness.table([harness.Outcome(**outcome) for outcome in record["outcomes"]])


def wild(table: Callable[[list[wild_report.Record]], str], task: str = "ridge") -> str:
    """A table of the last run of `benchmarks.wild`, without problems that have no reference."""
    records = published.wild(f"wild {task}")[1]
    return table([record for record in records if "failure" not in record])


TABLES = {
    "wild": published.wild_block,
    "wild families": lambda: wild(wild_report.family_table),
    "wild worst": lambda: wild(partial(wild_report.worst_table, "ridge")),
    "wild regret": lambda: wild(wild_report.regret_table),
    "wild bounds": lambda: wild(wild_report.honesty),
    "wild choosing kinds": lambda: wild(wild_report.kind_table, "choosing"),
    "wild choosing worst": lambda: wild(partial(wild_report.worst_table, "choosing"), "choosing"),
    "wild choosing agreement": lambda: wild(wild_report.agreement, "choosing"),
    "wild machine": lambda: machine("wild ridge"),
    "scaling": lambda: scaling.table(scaling.load()[1]),
    "scaling machine": lambda: machine("scaling"),
    "paths": paths.published_table,
    "paths machine": lambda: machine("paths"),
    "cold start": cold_start.published_table,
    "cold start machine": lambda: machine("cold start"),
    "ridge": lambda: ridge_report.table(ridge()),
    "ridge peers": lambda: ridge_report.peer_table(ridge()),
    "ridge cells": cells,
    "choosing": lambda: choosing_report.table(choosing()),
    "choosing memory": lambda: choosing_report.memory_table(choosing()),
    "path": published.path_block,
    "slower": published.BLOCKS["slower"],
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
        for source in RECORDS.values():
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
