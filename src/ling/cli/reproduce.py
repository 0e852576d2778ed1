"""`ling reproduce`: the paper's experiments, with a progress bar, into a folder."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ling.paper.claims import Verdict
from ling.paper.experiments import EXPERIMENTS, Choices, Experiment, n_tasks
from ling.paper.page import render
from ling.paper.reproduction import (
    Outcome,
    Run,
    chosen,
    finished,
    run_experiment,
    why_not,
    write,
)


def run(name: str, settings: Run, *, as_json: bool) -> None:
    """Run, write, and say where to look."""
    console = Console(stderr=True)
    if name != "all" and name not in EXPERIMENTS:
        names = ", ".join([*EXPERIMENTS, "all"])
        raise typer.BadParameter(f"{name!r} is none of {names}", param_hint="EXPERIMENT")
    missing = _missing(console, chosen(name))
    wanted = [e for e in chosen(name) if e.name not in missing]
    for absent, why in missing.items():
        console.print(f"[yellow]{absent} is left out:[/yellow] {why}", highlight=False)
    if not wanted:
        raise typer.Exit(1)
    try:
        outcomes = _run_all(console, wanted, settings)
    except KeyboardInterrupt:
        console.print("Stopped. The same command continues from the finished repeats.")
        raise typer.Exit(130) from None
    write(settings.out / "index.html", render(outcomes, missing, settings))
    verdicts = [verdict for outcome in outcomes for verdict in outcome.verdicts]
    if as_json:
        typer.echo(json.dumps([vars(verdict) for verdict in verdicts], indent=2))
    else:
        _print(verdicts, settings.out)


def _missing(console: Console, experiments: list[Experiment]) -> dict[str, str]:
    """The experiments whose data cannot be had, and why; downloads are shown."""
    columns = TextColumn("fetching {task.description}"), BarColumn(), DownloadColumn()
    missing = {}
    with Progress(*columns, console=console, transient=True) as progress:
        for experiment in experiments:
            bar = progress.add_task(experiment.name, total=None, visible=False)

            def show(done: int, size: int, bar: TaskID = bar) -> None:
                progress.update(bar, completed=done, total=size, visible=True)

            why = why_not(experiment, show)
            if why is not None:
                missing[experiment.name] = why
    return missing


def _run_all(console: Console, wanted: list[Experiment], settings: Run) -> list[Outcome]:
    columns = (
        TextColumn("{task.description:18}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    outcomes = []
    with Progress(*columns, console=console, speed_estimate_period=300) as progress:
        bars = {
            e.name: progress.add_task(
                e.name, total=settings.repeats_of(e) * n_tasks(e), start=False
            )
            for e in wanted
        }
        for experiment in wanted:
            bar = bars[experiment.name]
            progress.start_task(bar)
            progress.update(bar, completed=finished(experiment, settings) * n_tasks(experiment))
            outcomes.append(run_experiment(experiment, settings, partial(progress.advance, bar)))
            progress.update(bar, completed=settings.repeats_of(experiment) * n_tasks(experiment))
    return outcomes


def _print(verdicts: list[Verdict], out: Path) -> None:
    console = Console()
    marks = {True: "[green]holds[/green]", False: "[red]does not hold[/red]", None: "cannot tell"}
    for verdict in verdicts:
        console.print(f"{verdict.experiment:18} {marks[verdict.holds]:24} {verdict.claim}")
    console.print(f"\nLook at {out / 'index.html'}", highlight=False, soft_wrap=True)


def parse_choices(pairs: list[str]) -> Choices:
    """Choices from NAME=VALUE pairs."""
    known = {field.name: field for field in fields(Choices)}
    values: dict[str, Any] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name not in known:
            raise typer.BadParameter(
                f"{name!r} is none of {', '.join(known)}", param_hint="--choice"
            )
        try:
            values[name] = json.loads(text.lower())
        except json.JSONDecodeError:
            values[name] = text
        wanted = bool if name in ("centre", "log") else (int, float)
        if isinstance(values[name], bool) != (wanted is bool) or not isinstance(
            values[name], wanted
        ):
            kind = "true or false" if wanted is bool else "a number"
            raise typer.BadParameter(f"{pair!r}: {name} is {kind}", param_hint="--choice")
    return Choices(**values)
