"""`ling plan`: what a fit would cost, before any of it is done."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from ling.cli.fit import FOLDS
from ling.cli.out import Out, grid
from ling.cli.reading import understand
from ling.cli.wanted import Wanted
from ling.estimators import plan
from ling.planning import Plan
from ling.progress_bar import duration
from ling.selection.grid import N_ALPHAS
from ling.selection.route import expectation

# What takes less is lost among what is not counted.
AT_ONCE = 0.1


def run(wanted: Wanted, memory_budget: str | None, tol: float, out: Out) -> None:
    """Look at the data, and predict."""
    started = time.perf_counter()
    with out.doing(f"looking at {wanted.path}"):
        found = understand(wanted)
        looking = time.perf_counter() - started
        planned = plan(found.data.X, found.data.y, memory_budget=memory_budget, tol=tol)
    out.show("What was understood", style="bold")
    out.facts(found.facts)
    for note in found.notes:
        out.note(note)
    out.show()
    out.show(f"One fit, with {planned.memory_budget / 1e6:,.0f} MB for its own work", style="bold")
    out.show(_engines(planned))
    out.show()
    passes, seconds = expectation(planned, FOLDS, N_ALPHAS)
    out.show("From file to model", style="bold")
    out.facts(
        [
            ("looking at the file", f"{duration(looking)}, as now"),
            (
                "choosing alpha, and the fit",
                f"{_about(seconds)}, {passes:.0f} passes ({FOLDS} folds, {N_ALPHAS} alphas)",
            ),
        ]
    )  # fmt: skip
    out.show()
    out.show(
        "Seconds are those of reading and arithmetic; starting up, a second or so, is not in them. "
        "The engine that is tried first is dropped if the data turn out harder than assumed.",
        style="dim",
    )
    out.result(
        {
            "rows": found.data.shape[0],
            "columns": found.data.shape[1],
            "memory_budget": planned.memory_budget,
            "first": planned.steps[0].engine,
            "seconds_looking": looking,
            "choosing": {"seconds": seconds, "passes": passes},
            "engines": [asdict(step) for step in planned.predictions],
            "understood": dict(found.facts),
        }
    )


def _engines(planned: Plan) -> Any:
    """What each would take."""
    table = grid("engine", ">seconds", ">memory", ">passes", "")
    first = planned.steps[0]
    for step in planned.predictions:
        words = "first choice" if step is first else "" if step.fits else "does not fit in memory"
        table.add_row(
            step.engine, duration(step.seconds), f"{step.n_bytes / 1e6:,.0f} MB",
            f"{step.passes:.0f}", words,
        )  # fmt: skip
    return table


def _about(seconds: float | None) -> str:
    if seconds is None:
        return "nobody can tell how long"
    return f"about {duration(seconds)}" if seconds >= AT_ONCE else "less than a second"
