"""`ling plan`: what a fit would cost, before any of it is done."""

from __future__ import annotations

from dataclasses import asdict

from ling.cli.out import Out, grid
from ling.cli.reading import Wanted, understand
from ling.estimators import plan
from ling.progress_bar import duration


def run(wanted: Wanted, memory_budget: str | None, tol: float, out: Out) -> None:
    """Look at the data, and predict."""
    with out.doing(f"looking at {wanted.path}"):
        found = understand(wanted)
        planned = plan(found.data.X, found.data.y, memory_budget=memory_budget, tol=tol)
    out.show("What was understood", style="bold")
    out.facts(found.facts)
    for note in found.notes:
        out.note(note)
    out.show()
    out.show(f"One fit, with {planned.memory_budget / 1e6:,.0f} MB for its own work", style="bold")
    table = grid("engine", ">seconds", ">memory", ">passes", "")
    first = planned.steps[0]
    for step in planned.predictions:
        words = "first choice" if step is first else "" if step.fits else "does not fit in memory"
        table.add_row(
            step.engine, duration(step.seconds), f"{step.n_bytes / 1e6:,.0f} MB",
            f"{step.passes:.0f}", words,
        )  # fmt: skip
    out.show(table)
    out.show()
    out.show(
        "Choosing alpha with 5 folds takes about as long as a few fits. The engine that is tried "
        "first is dropped if the data turn out harder than assumed.",
        style="dim",
    )
    out.result(
        {
            "rows": found.data.shape[0],
            "columns": found.data.shape[1],
            "memory_budget": planned.memory_budget,
            "first": first.engine,
            "engines": [asdict(step) for step in planned.predictions],
            "understood": dict(found.facts),
        }
    )
