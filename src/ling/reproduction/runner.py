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
from ling.atomic_write import atomic_write
from ling.errors import MissingPackageError
from ling.reproduction.claims import Verdict, judge_all
from ling.reproduction.datasets import Dataset
from ling.reproduction.experiments import Experiment
from ling.reproduction.flop_conventions import FlopConvention
from ling.reproduction.paper_claims import EXPERIMENT_CLAIMS
from ling.reproduction.problems import Choices
from ling.reproduction.repeats import Point, Repeat, SubspaceDraw, TheoryCheck, run_repeat
from ling.reproduction.summary import ExperimentSummary, summarize_repeats

QUICK_REPEATS = 2
N_BLAS_THREADS = 1


@dataclass(frozen=True)
class ReproductionSettings:
    """What to run, and where to write; `repeats` None means as many as the paper.

    `flops` says how the cost of a fit is counted; the repeats do not depend on it.
    """

    out: Path
    seed: int = 0
    quick: bool = False
    repeats: int | None = None
    choices: Choices = field(default_factory=Choices)
    flops: FlopConvention = "measured"

    def n_repeats_of(self, experiment: Experiment) -> int:
        """The number of repeats of one experiment."""
        if self.repeats is not None:
            return self.repeats
        return QUICK_REPEATS if self.quick else experiment.repeats


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """One experiment, done."""

    summary: ExperimentSummary
    verdicts: list[Verdict]


def run_experiment(
    experiment: Experiment,
    data: Dataset | None,
    run: ReproductionSettings,
    advance: Callable[[], None] = lambda: None,
) -> ExperimentResult:
    """All repeats, those already in the folder read instead of run, and the files they give.

    A repeat is one file, which appears at once and whole, so a run can be killed at any moment and
    started again. Repeats made with another seed, size, grid, choice or data lie in other folders.
    """
    _check_matplotlib_installed()
    folder = run.out / experiment.name
    repeats = []
    for file in _repeat_files(experiment, data, run):
        repeat = _read_repeat(file)
        if repeat is None:
            number = int(file.stem)
            # On one thread: BLAS gains little from more at these sizes, and on a busy machine its
            # threads wait for each other so long that seconds would say nothing.
            with threadpool_limits(N_BLAS_THREADS):
                repeat = run_repeat(
                    experiment, data, number, run.seed, run.choices, run.quick, advance
                )
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text_atomically(file, json.dumps(asdict(repeat)))
        repeats.append(repeat)
    summary = summarize_repeats(experiment, repeats).with_flops(run.flops)
    verdicts = judge_all(EXPERIMENT_CLAIMS, [summary])
    write_text_atomically(folder / "points.csv", _points_csv(summary, repeats))
    write_text_atomically(
        folder / "claims.json", json.dumps([asdict(v) for v in verdicts], indent=2) + "\n"
    )
    _write_figures(summary, folder, run.quick)
    return ExperimentResult(summary, verdicts)


def count_finished(experiment: Experiment, data: Dataset | None, run: ReproductionSettings) -> int:
    """Repeats of this very run that are in the folder already."""
    return sum(_read_repeat(file) is not None for file in _repeat_files(experiment, data, run))


def write_text_atomically(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


def _check_matplotlib_installed() -> None:
    """Say so before the first hour of work, not after it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingPackageError("The figures need matplotlib: pip install 'ling[plot]'.")


def _repeat_files(
    experiment: Experiment, data: Dataset | None, run: ReproductionSettings
) -> list[Path]:
    """The files of a run's repeats, in a folder named after all that their numbers depend on."""
    made_with = {
        "version": __version__,
        "seed": run.seed,
        "quick": run.quick,
        "threads": N_BLAS_THREADS,
        "choices": asdict(run.choices),
        "grid": asdict(experiment.grid),
        "data": None if data is None else [data.name, *data.X.shape],
        "kept": [
            f.name for kind in (Repeat, Point, TheoryCheck, SubspaceDraw) for f in fields(kind)
        ],
    }
    name = hashlib.sha256(json.dumps(made_with).encode()).hexdigest()[:12]
    folder = run.out / experiment.name / "repeats" / name
    return [folder / f"{number:03d}.json" for number in range(run.n_repeats_of(experiment))]


def _read_repeat(file: Path) -> Repeat | None:
    """A finished repeat, or None if there is none that can be read."""
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    found["points"] = [Point(**point) for point in found["points"]]
    found["theory"] = None if found["theory"] is None else TheoryCheck(**found["theory"])
    found["shape"] = tuple(found["shape"])
    found["draws"] = [SubspaceDraw(**draw) for draw in found["draws"]]
    return Repeat(**found)


def _points_csv(summary: ExperimentSummary, repeats: list[Repeat]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [column.name for column in fields(Point)]
    measure = summary.experiment.measure.replace(" ", "_")
    writer.writerow(["data", *names[:-1], measure])
    for repeat in repeats:
        for point in repeat.points:
            writer.writerow([repeat.data, *asdict(point).values()])
    return text.getvalue()


def _write_figures(summary: ExperimentSummary, folder: Path, quick: bool) -> None:
    from ling.reproduction import figures

    for stem, figure in figures.draw_figures(summary, quick).items():
        figures.save_figure(figure, folder / stem)
