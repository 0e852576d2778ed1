"""Runs experiments into a folder, from where it was interrupted, and writes what came out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from ling import __version__
from ling.datasets import Progress
from ling.errors import MissingData
from ling.paper.claims import Summary, Verdict, judge, summarise
from ling.paper.experiments import (
    EXPERIMENTS,
    Choices,
    Experiment,
    Point,
    Repeat,
    Theory,
    run_repeat,
)

QUICK_REPEATS = 2


@dataclass(frozen=True)
class Run:
    """What to run, and where to write; `repeats` None means as many as the paper."""

    out: Path
    seed: int = 0
    quick: bool = False
    repeats: int | None = None
    choices: Choices = field(default_factory=Choices)

    def repeats_of(self, experiment: Experiment) -> int:
        """The number of repeats of one experiment."""
        if self.repeats is not None:
            return self.repeats
        return QUICK_REPEATS if self.quick else experiment.repeats


@dataclass(frozen=True, eq=False)
class Outcome:
    """One experiment, done."""

    summary: Summary
    verdicts: list[Verdict]


def run_experiment(
    experiment: Experiment, run: Run, advance: Callable[[], None] = lambda: None
) -> Outcome:
    """All repeats, those already in the folder read instead of run, and the files they give.

    A repeat is kept only if it was made with the same version, seed, size and choices; its file
    appears at once and whole, so a run can be killed at any moment and started again.
    """
    folder = run.out / experiment.name
    kept = folder / "repeats"
    kept.mkdir(parents=True, exist_ok=True)
    repeats = []
    for number in range(run.repeats_of(experiment)):
        file = kept / f"{number:03d}.json"
        made_with = _made_with(run)
        repeat = _read(file, made_with)
        if repeat is None:
            repeat = run_repeat(experiment, number, run.seed, run.choices, run.quick, advance)
            write(file, json.dumps({"made_with": made_with, "repeat": asdict(repeat)}))
        repeats.append(repeat)
    summary = summarise(experiment, repeats)
    verdicts = judge(summary)
    write(folder / "points.csv", _points_csv(summary, repeats))
    write(folder / "claims.json", json.dumps([asdict(v) for v in verdicts], indent=2) + "\n")
    _write_figures(summary, folder, run.quick)
    return Outcome(summary, verdicts)


def finished(experiment: Experiment, run: Run) -> int:
    """Repeats of this very run that are in the folder already."""
    kept = run.out / experiment.name / "repeats"
    made_with = _made_with(run)
    files = [kept / f"{number:03d}.json" for number in range(run.repeats_of(experiment))]
    return sum(_read(file, made_with) is not None for file in files)


def why_not(experiment: Experiment, progress: Progress | None = None) -> str | None:
    """Why an experiment cannot be run here, or None if it can; its data are fetched if need be."""
    try:
        if experiment.load is not None:
            experiment.load(progress)
    except MissingData as error:
        return str(error)
    return None


def write(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def _made_with(run: Run) -> dict[str, Any]:
    return {
        "version": __version__,
        "seed": run.seed,
        "quick": run.quick,
        "choices": asdict(run.choices),
    }


def _read(file: Path, made_with: dict[str, Any]) -> Repeat | None:
    if not file.is_file():
        return None
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise MissingData(f"{file} is damaged ({error}); delete it and start again.") from error
    if record["made_with"] != made_with:
        return None
    found = record["repeat"]
    found["points"] = [Point(**point) for point in found["points"]]
    found["theory"] = None if found["theory"] is None else Theory(**found["theory"])
    found["shape"] = tuple(found["shape"])
    return Repeat(**found)


def _points_csv(summary: Summary, repeats: list[Repeat]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [column.name for column in fields(Point)]
    measure = summary.experiment.measure.replace(" ", "_")
    writer.writerow(["data", *names[:-1], measure])
    for repeat in repeats:
        for point in repeat.points:
            writer.writerow([repeat.data, *asdict(point).values()])
    return text.getvalue()


def _write_figures(summary: Summary, folder: Path, quick: bool) -> None:
    from ling.paper import figures

    figures.save(figures.cost_figure(summary, quick), folder / "figure")
    figures.save(figures.spectrum_figure(summary, quick), folder / "spectrum")


def chosen(name: str) -> list[Experiment]:
    """The experiments that a name stands for."""
    return list(EXPERIMENTS.values()) if name == "all" else [EXPERIMENTS[name]]
