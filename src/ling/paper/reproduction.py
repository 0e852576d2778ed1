"""Runs experiments into a folder, from where it was interrupted, and writes what came out."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from ling import __version__
from ling.datasets import Dataset
from ling.errors import MissingData
from ling.files import whole
from ling.paper.claims import Summary, Verdict, judge, summarise
from ling.paper.experiments import Choices, Experiment, Point, Repeat, Theory, run_repeat

QUICK_REPEATS = 2
THREADS = 1


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
    experiment: Experiment,
    data: Dataset | None,
    run: Run,
    advance: Callable[[], None] = lambda: None,
) -> Outcome:
    """All repeats, those already in the folder read instead of run, and the files they give.

    A repeat is one file, which appears at once and whole, so a run can be killed at any moment and
    started again. Repeats made with another seed, size, grid, choice or data lie in other folders.
    """
    _require_matplotlib()
    folder = run.out / experiment.name
    repeats = []
    for file in _files(experiment, data, run):
        repeat = _read(file)
        if repeat is None:
            number = int(file.stem)
            # On one thread: BLAS gains little from more at these sizes, and on a busy machine its
            # threads wait for each other so long that seconds would say nothing.
            with threadpool_limits(THREADS):
                repeat = run_repeat(
                    experiment, data, number, run.seed, run.choices, run.quick, advance
                )
            file.parent.mkdir(parents=True, exist_ok=True)
            write(file, json.dumps(asdict(repeat)))
        repeats.append(repeat)
    summary = summarise(experiment, repeats)
    verdicts = judge(summary)
    write(folder / "points.csv", _points_csv(summary, repeats))
    write(folder / "claims.json", json.dumps([asdict(v) for v in verdicts], indent=2) + "\n")
    _write_figures(summary, folder, run.quick)
    return Outcome(summary, verdicts)


def finished(experiment: Experiment, data: Dataset | None, run: Run) -> int:
    """Repeats of this very run that are in the folder already."""
    return sum(_read(file) is not None for file in _files(experiment, data, run))


def write(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    with whole(path) as part:
        part.write_text(text, encoding="utf-8")


def _require_matplotlib() -> None:
    """Say so before the first hour of work, not after it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingData("The figures need matplotlib: pip install 'ling[plot]'")


def _files(experiment: Experiment, data: Dataset | None, run: Run) -> list[Path]:
    """The files of a run's repeats, in a folder named after all that their numbers depend on."""
    made_with = {
        "version": __version__,
        "seed": run.seed,
        "quick": run.quick,
        "threads": THREADS,
        "choices": asdict(run.choices),
        "grid": asdict(experiment.grid),
        "data": None if data is None else [data.name, *data.X.shape],
        "kept": [f.name for kind in (Repeat, Point, Theory) for f in fields(kind)],
    }
    name = hashlib.sha256(json.dumps(made_with).encode()).hexdigest()[:12]
    folder = run.out / experiment.name / "repeats" / name
    return [folder / f"{number:03d}.json" for number in range(run.repeats_of(experiment))]


def _read(file: Path) -> Repeat | None:
    """A finished repeat, or None if there is none that can be read."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
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
