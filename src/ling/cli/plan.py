"""`ling plan`: what a fit would cost, before any of it is done."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

from ling.cli.console import CommandOutput, make_table
from ling.cli.fit import DEFAULT_FOLDS
from ling.cli.options import DataOptions
from ling.cli.training_table import read_training_table
from ling.estimators import plan_fit
from ling.model_selection.alpha_grid import DEFAULT_N_ALPHAS
from ling.model_selection.strategy import expected_cv_cost
from ling.progress_bar import format_duration
from ling.solvers.planning import Plan
from ling.wording import format_bytes

# What takes less is lost among what is not counted.
MIN_SHOWN_SECONDS = 0.1


def run(wanted: DataOptions, memory_budget: str | None, tol: float, out: CommandOutput) -> None:
    """Look at the data, and predict."""
    started = time.perf_counter()
    with out.show_status(f"looking at {wanted.path}"):
        found = read_training_table(wanted)
        looking = time.perf_counter() - started
        planned = plan_fit(found.data, memory_budget=memory_budget, tol=tol)
    out.show("What was understood", style="bold")
    out.show_pairs(found.summary)
    for note in found.notes:
        out.note(note)
    out.show()
    out.show(f"One fit, with {format_bytes(planned.memory_budget)} for its own work", style="bold")
    out.show(_engine_table(planned))
    out.show()
    passes, seconds = expected_cv_cost(planned, DEFAULT_FOLDS, DEFAULT_N_ALPHAS)
    out.show("From file to model", style="bold")
    out.show_pairs(
        [
            ("looking at the file", f"{format_duration(looking)}, as now"),
            (
                "choosing alpha, and the fit",
                f"{_format_estimate(seconds)}, {passes:.0f} passes ({DEFAULT_FOLDS} folds, "
                f"{DEFAULT_N_ALPHAS} alphas)",
            ),
        ]
    )
    out.show()
    out.show(
        "Seconds are those of reading and arithmetic; starting up, a second or so, is not in them. "
        "The engine that is tried first is dropped if the data turn out harder than assumed.",
        style="dim",
    )
    out.print_json(
        {
            "rows": found.data.shape[0],
            "columns": found.data.shape[1],
            "memory_budget": planned.memory_budget,
            "first": planned.steps[0].engine,
            "seconds_looking": looking,
            "choosing": {"seconds": seconds, "passes": passes},
            "engines": [asdict(step) for step in planned.estimates],
            "understood": dict(found.summary),
        }
    )


def _engine_table(planned: Plan) -> Any:
    """What each would take."""
    table = make_table("engine", ">seconds", ">memory", ">passes", "")
    first = planned.steps[0]
    for step in planned.estimates:
        words = "first choice" if step is first else "" if step.fits else "does not fit in memory"
        table.add_row(
            step.engine, format_duration(step.seconds), format_bytes(step.n_bytes),
            f"{step.passes:.0f}", words,
        )  # fmt: skip
    return table


def _format_estimate(seconds: float | None) -> str:
    if seconds is None:
        return "nobody can tell how long"
    return (
        f"about {format_duration(seconds)}"
        if seconds >= MIN_SHOWN_SECONDS
        else "less than a second"
    )
