"""`ling reproduce`: the paper's experiments, with a progress bar, into a folder."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ling.cli.error_wording import to_cli_wording
from ling.errors import DataFileError
from ling.reproduction.claims import Verdict, judge_all
from ling.reproduction.datasets import Dataset
from ling.reproduction.experiments import EXPERIMENTS, Experiment
from ling.reproduction.outcomes import Outcome
from ling.reproduction.pages import render_page
from ling.reproduction.paper_claims import JOINT_CLAIMS
from ling.reproduction.problems import Choices
from ling.reproduction.repeats import n_progress_steps
from ling.reproduction.runner import (
    ExperimentResult,
    ReproductionSettings,
    count_finished,
    run_experiment,
    write_text_atomically,
)


def run(name: str, settings: ReproductionSettings, *, as_json: bool) -> None:
    """Run, write, and say where to look."""
    if name != "all" and name not in EXPERIMENTS:
        names = ", ".join([*EXPERIMENTS, "all"])
        raise typer.BadParameter(f"{name!r} is none of {names}", param_hint="EXPERIMENT")
    wanted = list(EXPERIMENTS.values()) if name == "all" else [EXPERIMENTS[name]]
    console = Console(stderr=True)
    earlier = _load_finished([e for e in EXPERIMENTS.values() if e not in wanted], settings)
    outcomes: list[ExperimentResult] = []
    missing: dict[str, str] = {}
    try:
        for experiment in wanted:
            outcome = _run_with_progress(console, experiment, settings, missing)
            if outcome is not None:
                outcomes.append(outcome)
                page = render_page(_in_paper_order(earlier + outcomes), missing, settings)
                write_text_atomically(settings.out / "index.html", page)
    except KeyboardInterrupt:
        console.print("Stopped. The same command continues from the finished repeats.")
        raise typer.Exit(130) from None
    if not outcomes:
        raise typer.Exit(1)
    together = judge_all(JOINT_CLAIMS, [outcome.summary for outcome in earlier + outcomes])
    if as_json:
        verdicts = [verdict for outcome in outcomes for verdict in outcome.verdicts] + together
        typer.echo(json.dumps([asdict(verdict) for verdict in verdicts], indent=2))
    else:
        _print_verdicts(outcomes, together, settings.out)


def _run_with_progress(
    console: Console,
    experiment: Experiment,
    settings: ReproductionSettings,
    missing: dict[str, str],
) -> ExperimentResult | None:
    """One experiment with its bar, or None (and the reason in `missing`) without its data."""
    try:
        data = _load_data(console, experiment)
    except DataFileError as error:
        missing[experiment.name] = to_cli_wording(error)
        console.print(
            f"[yellow]{experiment.name} is left out:[/yellow] {missing[experiment.name]}",
            highlight=False,
            soft_wrap=True,
        )
        return None
    columns = (
        TextColumn("{task.description:18}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, speed_estimate_period=300) as progress:
        steps = n_progress_steps(experiment)
        bar = progress.add_task(experiment.name, total=settings.n_repeats_of(experiment) * steps)
        progress.update(bar, completed=count_finished(experiment, data, settings) * steps)
        return run_experiment(experiment, data, settings, partial(progress.advance, bar))


def _load_data(console: Console, experiment: Experiment) -> Dataset | None:
    """The data of an experiment on real ones; a download is shown."""
    if experiment.load is None:
        return None
    columns = TextColumn("fetching {task.description}"), BarColumn(), DownloadColumn()
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task(experiment.name, total=None, visible=False)
        return experiment.load(
            lambda done, size: progress.update(bar, completed=done, total=size, visible=True)
        )


def _load_finished(
    others: list[Experiment], settings: ReproductionSettings
) -> list[ExperimentResult]:
    """What the same settings left of other experiments in the folder: the page shows them too."""
    found = []
    for experiment in others:
        if not (settings.out / experiment.name).is_dir():
            continue
        try:
            data = None if experiment.load is None else experiment.load(None)
        except DataFileError:
            continue  # without its data an earlier run cannot be told from one on other data
        if count_finished(experiment, data, settings) == settings.n_repeats_of(experiment):
            found.append(run_experiment(experiment, data, settings))
    return found


def _in_paper_order(outcomes: list[ExperimentResult]) -> list[ExperimentResult]:
    """As the paper has them."""
    names = list(EXPERIMENTS)
    return sorted(outcomes, key=lambda outcome: names.index(outcome.summary.experiment.name))


def _print_verdicts(outcomes: list[ExperimentResult], together: list[Verdict], out: Path) -> None:
    console = Console()
    groups = [(outcome.summary.data, outcome.verdicts) for outcome in outcomes]
    for title, verdicts in [*groups, ("Several experiments together", together)]:
        if not verdicts:
            continue
        console.print(f"\n[bold]{title}[/bold]", highlight=False, soft_wrap=True)
        for verdict in verdicts:
            console.print(
                f"  {_verdict_mark(verdict)} [dim]{verdict.source}:[/dim] {escape(verdict.quote)}",
                highlight=False,
                soft_wrap=True,
            )
    console.print(f"\nLook at {out / 'index.html'}", highlight=False, soft_wrap=True)


def _verdict_mark(verdict: Verdict) -> str:
    colours = {Outcome.HOLDS: "green", Outcome.TIE: "yellow", Outcome.FAILS: "red"}
    colour = colours.get(verdict.outcome, "dim")
    return f"[{colour}]{verdict.outcome:10}[/{colour}]"


def parse_choices(pairs: list[str]) -> Choices:
    """Choices from NAME=VALUE pairs, each value of the type of the default."""
    defaults = asdict(Choices())
    values: dict[str, Any] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name not in defaults:
            names = ", ".join(field.name for field in fields(Choices))
            raise typer.BadParameter(f"{name!r} is none of {names}", param_hint="--choice")
        try:
            values[name] = json.loads(text.lower())
        except json.JSONDecodeError:
            values[name] = text
        _check_choice(pair, values[name], defaults[name])
    return Choices(**values)


def _check_choice(pair: str, value: Any, default: Any) -> None:
    if isinstance(default, bool):
        fits, kind = isinstance(value, bool), "true or false"
    else:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        fits = (number and value >= 0) or (default is None and value is None)
        kind = "a number >= 0" + (" or null" if default is None else "")
    if not fits:
        raise typer.BadParameter(f"{pair!r}: pass {kind}", param_hint="--choice")
