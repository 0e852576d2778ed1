"""Section 4 of the paper as data: five experiments with their grids, repeats and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from ling.paper.models import model1, model2, model3
from ling.reproduction.datasets import Dataset, DownloadProgress, load_buzz, load_gisette
from ling.reproduction.problems import (
    Choices,
    ExperimentProblem,
    Rng,
    buzz_problem,
    gisette_problem,
    simulated_problem,
)

RR, PCR, GD, SVRG = "RR", "PCR", "GD", "SVRG"
#: The curves of LING, and of LING with SVRG as its second stage, are named after their k2.
LING, LING_SVRG = "LING k=", "LING+SVRG k="
DatasetLoader = Callable[[DownloadProgress | None], Dataset]


@dataclass(frozen=True)
class ParameterGrid:
    """The parameters tried: Table 1 and the lists of section 4.2, under the paper's letters."""

    k1: tuple[int, ...]
    n1: tuple[int, ...]
    k2: tuple[int, ...]
    n2: tuple[int, ...]
    n_svrg: tuple[int, ...]


@dataclass(frozen=True)
class PaperFigures:
    """The paper's numbers of the two figures of an experiment: its curves, and its spectrum.

    `top` is how many singular values the paper shows; None for all.
    """

    curves: int
    spectrum: int
    top: int | None


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper; `load` gets its data, if they are real ones.

    `stands_for` names the experiment whose figure and claims this one stands in for.
    """

    name: str
    title: str
    measure: str
    repeats: int
    figures: PaperFigures
    grid: ParameterGrid
    make_problem: Callable[[Dataset | None, Rng, Choices, bool], ExperimentProblem]
    load: DatasetLoader | None = None
    stands_for: str = ""

    @property
    def claims_of(self) -> str:
        """The name under which the paper's claims are listed."""
        return self.stands_for or self.name


def _simulated_experiments() -> Iterator[Experiment]:
    """Section 4.1."""
    yield Experiment(
        "model1", "Model 1: a steep spectrum", "risk", 20, PaperFigures(1, 4, 100),
        ParameterGrid(
            k1=(21, 22, 23, 26, 30, 50, 100), n1=(10, 20, 30, 50, 80, 100, 150, 200), k2=(20,),
            n2=(1, 2, 3, 5, 8, 13, 20), n_svrg=(30, 50, 80, 120, 150),
        ),
        partial(simulated_problem, model1),
    )  # fmt: skip
    yield Experiment(
        "model2", "Model 2: a flat spectrum", "risk", 20, PaperFigures(2, 5, None),
        ParameterGrid(
            k1=(20, 30, 50, 100, 150, 400), n1=(2, 4, 6, 8, 10, 15, 20, 30), k2=(20,),
            n2=(2, 4, 6, 8, 10, 15, 20, 30), n_svrg=(5, 10, 20, 30, 50),
        ),
        partial(simulated_problem, model2),
    )  # fmt: skip
    yield Experiment(
        "model3", "Model 3: strong directions above a flat spectrum", "risk", 20,
        PaperFigures(3, 6, 100),
        ParameterGrid(
            k1=(20, 30, 50, 100, 150, 400), n1=(6, 10, 15, 20, 30, 50, 80, 120, 180, 250),
            k2=(20,), n2=(2, 4, 6, 8, 10, 15, 30), n_svrg=(5, 10, 15, 25, 40, 60, 90),
        ),
        partial(simulated_problem, model3),
    )  # fmt: skip


def _real_experiments() -> Iterator[Experiment]:
    """Section 4.2, and a surrogate for Gisette."""
    gisette = Experiment(
        "gisette", "Gisette", "classification error", 6, PaperFigures(7, 9, 150),
        ParameterGrid(
            k1=(10, 20, 40, 80, 150, 300, 400), n1=(2, 5, 10, 15, 20, 30, 50, 100, 150),
            k2=(5, 15), n2=(1, 2, 4, 8, 10, 15, 20, 30, 50),
            n_svrg=(1, 2, 3, 5, 10, 20, 40, 80),
        ),
        gisette_problem, partial(load_gisette, "auto"),
    )  # fmt: skip
    yield gisette
    yield Experiment(
        "buzz", "Buzz in social media", "test MSE", 5, PaperFigures(8, 10, 150),
        ParameterGrid(
            k1=(10, 20, 30, 50, 100, 150), n1=(1, 2, 4, 6, 8, 10, 15, 20, 30, 40, 60, 100),
            k2=(5, 15), n2=(0, 1, 2, 4, 6, 8, 10, 15, 20, 25),
            n_svrg=(1, 2, 3, 5, 10, 15, 20, 40, 80),
        ),
        buzz_problem, partial(load_buzz, "auto"),
    )  # fmt: skip
    yield replace(
        gisette,
        name="gisette-surrogate",
        title="Gisette-style surrogate",
        load=partial(load_gisette, "surrogate"),
        stands_for="gisette",
    )


EXPERIMENTS = {
    experiment.name: experiment for experiment in (*_simulated_experiments(), *_real_experiments())
}
