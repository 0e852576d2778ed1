"""Writes docs/reproduction.md and docs/errata.md: the full reproduction, and its other readings.

`make reproduction` runs it. It needs $LING_DATA for the real data and continues where it was
interrupted. `python docs/make_reproduction.py FOLDER [NAME ...]` runs only the named experiments,
so that two cores can share the work, and leaves the pages alone; with REPEATS=N in the environment
it makes N repeats instead of the paper's.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from reproduction_page import ExperimentReport, errata_page, reproduction_page

from ling.errors import DataFileError
from ling.paper import models, ridge
from ling.reproduction.datasets import Dataset
from ling.reproduction.errata import lemma2_numbers
from ling.reproduction.experiments import EXPERIMENTS, Experiment
from ling.reproduction.figures import draw_figures
from ling.reproduction.problems import Choices
from ling.reproduction.runner import ReproductionSettings, run_experiment, write_text_atomically

DOCS = Path(__file__).parent
LAM = {"lambda / 10": Choices(lam_factor=0.1), "lambda x 10": Choices(lam_factor=10.0)}
NOISE = {"noise a tenth of the signal": Choices(noise_ratio=0.1)}
READINGS = {
    "model1": LAM | NOISE | {"tail 1": Choices(tail=1.0)},
    "model2": LAM | NOISE,
    "model3": LAM | NOISE | {"first 15 drawn": Choices(first_drawn=True)},
    "gisette": LAM | {"centred": Choices(centre=True)},
    "buzz": LAM | {"raw counts": Choices(log=False)},
    "gisette-surrogate": {},
}
# Enough for a standard error; the headline reading has the paper's number.
READING_REPEATS = 3
LAM_FACTORS = (0.01, 0.1, 1.0, 10.0, 100.0)


def main(out: Path, names: list[str]) -> None:
    """Run everything and write the pages; or, with `names`, only run those."""
    n_repeats = int(os.environ["REPEATS"]) if "REPEATS" in os.environ else None
    reports, missing = [], {}
    for name, experiment in EXPERIMENTS.items():
        if names and name not in names:
            continue
        try:
            data = experiment.load(None) if experiment.load else None
        except DataFileError as error:
            missing[experiment.title] = str(error)
            continue
        reports.append(run_readings(out, experiment, data, n_repeats))
    if names:
        return
    for report in reports:
        copy_figures(out, report)
    made = f"{date.today()} on one core of {platform.machine()}"
    write_text_atomically(DOCS / "reproduction.md", reproduction_page(reports, missing, made))
    write_text_atomically(DOCS / "errata.md", errata_page(measure_lemma2()))


def run_readings(
    out: Path, experiment: Experiment, data: Dataset | None, n_repeats: int | None
) -> ExperimentReport:
    """One experiment under the headline reading and under the others."""
    name = experiment.name
    full = ReproductionSettings(out / "full", repeats=n_repeats)
    headline = run_experiment(experiment, data, full, progress(name, "headline")).summary
    few = READING_REPEATS if n_repeats is None else min(n_repeats, READING_REPEATS)
    others = {}
    for number, (label, choices) in enumerate(READINGS[name].items()):
        settings = ReproductionSettings(out / f"reading-{number}", repeats=few, choices=choices)
        others[label] = run_experiment(experiment, data, settings, progress(name, label)).summary
    return ExperimentReport(headline, others, ridge_by_lambda(experiment, data))


def progress(*words: str) -> Callable[[], None]:
    """A line a minute on how far it is."""
    done, last = [0], [time.monotonic()]

    def advance() -> None:
        done[0] += 1
        if time.monotonic() - last[0] > 60:
            last[0] = time.monotonic()
            print(*words, f"{done[0]} steps", file=sys.stderr, flush=True)

    return advance


def ridge_by_lambda(experiment: Experiment, data: Dataset | None) -> dict[float, float]:
    """Ridge's own value for multiples of the default lambda, on one more draw."""
    found = {}
    for factor in LAM_FACTORS:
        rng = np.random.default_rng(1000)
        problem = experiment.make_problem(data, rng, Choices(lam_factor=factor), False)
        found[factor] = problem.evaluate(ridge(problem.X, problem.y, problem.lam))
    return found


def copy_figures(out: Path, report: ExperimentReport) -> None:
    """The figures and the points of the headline run, where the page expects them."""
    name = report.headline.experiment.name
    folder = DOCS / "figures"
    folder.mkdir(exist_ok=True)
    for stem in draw_figures(report.headline, quick=False):
        shutil.copyfile(out / "full" / name / f"{stem}.svg", folder / f"{name}-{stem}.svg")
    shutil.copyfile(out / "full" / name / "points.csv", folder / f"{name}-points.csv")


def measure_lemma2() -> list:
    """Lemma 2 on small draws of the three models, with 15 components removed."""
    rng = np.random.default_rng(0)
    draws = (models.model1, models.model2, models.model3)
    return [lemma2_numbers(draw(1, n=200, p=150), 15, 2000, rng) for draw in draws]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "reproduction"), sys.argv[2:])
