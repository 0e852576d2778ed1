"""`ling fit`: a model from a file."""

from __future__ import annotations

import os
import shlex
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import KFold, StratifiedKFold

from ling.cli import words
from ling.cli.answers import in_its_words
from ling.cli.out import Out
from ling.cli.places import check_no_data, check_places
from ling.cli.progress import shown
from ling.cli.reading import Understood, files_of, understand
from ling.cli.wanted import Wanted
from ling.errors import BadOption, LingError, WrongType
from ling.estimators import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from ling.progress_bar import duration
from ling.report import Status
from ling.saving import save

# Whole numbers of so many values are often classes.
FEW_VALUES = 20
MOST_CLASSES = 1000
# Share of y's variance between folds from which rows seem to be in order.
IN_ORDER = 0.05
# Folds if nothing is said of them, and rows of each that R^2 takes.
FOLDS, ROWS_OF_FOLD = 5, 2


@dataclass(frozen=True)
class FitOptions:
    """How to fit, as the command line says."""

    alphas: tuple[float, ...] | None = None
    alpha: float | None = None
    cv: int | None = None
    shuffle: bool = False
    memory_budget: str | None = None
    tol: float = 1e-4
    seed: int = 0


@dataclass(frozen=True)
class Done:
    """What came of it; `seconds` are from the file to the model, and the report comes after."""

    certified: bool
    seconds: float
    report_seconds: float | None


def run(wanted: Wanted, options: FitOptions, path: Path, report: Path | None, out: Out) -> Done:
    """Read, fit, write, tell."""
    check_no_data("--out", path)
    check_places({"--out": path, "--report": report}, _read_by(wanted))
    write_report = None if report is None else import_module("ling.html").write_report
    started = time.perf_counter()
    with out.doing(f"looking at {wanted.path}"):
        found = understand(wanted)
        _check_target(found.data.y, wanted)
        options, fewer = _with_folds(found.data.y, wanted, options)
    out.show("What was understood", style="bold")
    out.facts(found.facts)
    for note in (*found.notes, *fewer, *_hints(found.data.y, wanted, options)):
        out.note(note)
    model, said = fitted(found, make_model(options, wanted.classify), out)
    about = _about(wanted, found, options)
    save(model, path, about=about)
    said = [in_its_words(note) for note in said] + _doubts(model, found.data.y, wanted.target)
    for note in said:
        out.note(note)
    seconds = time.perf_counter() - started
    _show(model, wanted, path, seconds, out)
    report_seconds = None
    if report is not None and write_report is not None:
        started = time.perf_counter()
        with out.doing(f"writing {report}"), _model_is_there(path, report):
            write_report(
                report, model, found.data.X, found.data.y, sample_weight=found.weights,
                title=f"{wanted.target} from {Path(wanted.path).name}", target=wanted.target,
                source=wanted.path, about=_told(found),
            )  # fmt: skip
        report_seconds = time.perf_counter() - started
        out.show(f"Report: {report}, in another {duration(report_seconds)}")
    out.result(
        {
            **words.as_data(model), "written": str(path), "report": report and str(report),
            "seconds_in_all": seconds, "seconds_of_report": report_seconds, "about": about,
            "warnings": said,
        }
    )  # fmt: skip
    return Done(model.report_.status is not Status.NOT_REACHED, seconds, report_seconds)


def _read_by(wanted: Wanted) -> list[str]:
    """All files that a fit reads."""
    beside = [name for name in (wanted.target, wanted.weights) if name and os.path.isfile(name)]
    return [*files_of(wanted.path), *beside]


@contextmanager
def _model_is_there(path: Path, report: Path) -> Iterator[None]:
    """Says so if an interrupt comes after it was written."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{path} is written, {report} is not.") from None


def fitted(found: Understood, model: Any, out: Out) -> tuple[Any, list[str]]:
    """The model, fitted, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught, shown(out):
        warnings.simplefilter("always")
        try:
            model.fit(found.data.X, found.data.y, found.weights)
        except LingError:
            raise
        except ValueError as error:  # scikit-learn's, of splits and classes
            raise BadOption(str(error)) from error
    return model, list(dict.fromkeys(str(warning.message) for warning in caught))


def make_model(options: FitOptions, classify: bool = False) -> Any:
    """The estimator that was asked for."""
    common: dict[str, Any] = {
        "tol": options.tol, "random_state": options.seed, "memory_budget": options.memory_budget,
    }  # fmt: skip
    if options.alpha is not None:
        one: Any = RidgeClassifier if classify else Ridge
        return one(options.alpha, **common)
    alphas = None if options.alphas is None else list(options.alphas)
    cv: Any = options.cv
    if options.shuffle:
        splitter = StratifiedKFold if classify else KFold
        cv = splitter(options.cv, shuffle=True, random_state=options.seed)
    choosing: Any = RidgeClassifierCV if classify else RidgeCV
    return choosing(alphas, cv=cv, **common)


def _check_target(y: Any, wanted: Wanted) -> None:
    name = wanted.target
    if y.ndim > 1:
        raise BadOption(f"the target {name!r} has {y.shape[1]} columns; pass one of them.")
    if y.dtype.kind in "US" and not wanted.classify:
        raise WrongType(
            f"the target {name!r} is text ({str(y[0])!r} in the first row); pass --classify to "
            "predict which of its values a row has, or name a target of numbers."
        )
    values = len(np.unique(y))
    if values == 1:
        raise BadOption(f"the target {name!r} is {y[0]} in every row: there is nothing to predict.")
    if wanted.classify and (values > MOST_CLASSES or (y.dtype.kind == "f" and values > FEW_VALUES)):
        raise BadOption(
            f"the target {name!r} has {values:,} different values, too many for classes; leave "
            "out --classify to predict a number."
        )


def _with_folds(y: Any, wanted: Wanted, options: FitOptions) -> tuple[FitOptions, list[str]]:
    """As many folds as there are rows for, and a note if these are fewer than usual."""
    if options.alpha is not None:
        return options, []
    if wanted.classify:
        counts = np.unique(y, return_counts=True)[1]
        # Of fewer rows than folds in some class only a warning is due, of all classes no fold.
        most, usual = int(counts.max()), max(int(counts.min()), 2)
        need, of = options.cv or 2, "rows of some class"
    else:
        most = usual = len(y) // ROWS_OF_FOLD
        need, of = ROWS_OF_FOLD * (options.cv or 2), "rows"
    if most < (options.cv or 2):
        have = most if wanted.classify else len(y)
        asked = "choosing alpha" if options.cv is None else f"--cv {options.cv}"
        smaller = f"--cv {most}, or " if options.cv is not None and most >= 2 else ""
        raise BadOption(
            f"{asked} needs at least {need} {of}, and there are {have}; pass {smaller}--alpha 1, "
            "say, to choose nothing."
        )
    folds = options.cv or min(FOLDS, usual)
    few = [] if options.cv or folds == FOLDS else [f"so few rows allow {folds} folds, not {FOLDS}."]
    return replace(options, cv=folds), few


def _hints(y: Any, wanted: Wanted, options: FitOptions) -> list[str]:
    hints, name = [], wanted.target
    if not wanted.classify and len(y) > FEW_VALUES:
        values = np.unique(y)
        if y.dtype.kind in "iub" and len(values) <= FEW_VALUES:
            hints.append(
                f"{name!r} has only {len(values)} different values; if they are classes rather "
                "than amounts, pass --classify."
            )
    ordered = options.cv is not None and not wanted.classify and not options.shuffle
    if ordered and _share_between(np.asarray(y, np.float64), options.cv or FOLDS) > IN_ORDER:
        hints.append(
            f"{name!r} differs a lot between the first and the last rows. Folds are rows that lie "
            "together; if the order of rows means nothing, pass --shuffle."
        )
    return hints


def _doubts(model: Any, y: Any, name: str) -> list[str]:
    """A model that is no better than none."""
    score = words.chosen_score(model)
    if score is None:
        return []
    least, without = score[0] - score[1], 0.0
    if is_classifier(model):
        without = float(np.unique(y, return_counts=True)[1].max() / len(y))
    if least > without:
        return []
    instead = "its most frequent class" if is_classifier(model) else "its mean"
    return [f"these columns tell little or nothing of {name!r}: {instead} predicts it as well."]


def _share_between(y: Any, n_folds: int) -> float:
    """Of y's variance, the share that is between folds of consecutive rows, but for chance."""
    if len(y) < 20 * n_folds:
        return 0.0
    means = [fold.mean() for fold in np.array_split(y, n_folds)]
    return float(np.var(means) / np.var(y) - n_folds / len(y))


def _about(wanted: Wanted, found: Understood, options: FitOptions) -> dict[str, Any]:
    return {
        "source": wanted.path,
        "target": wanted.target,
        "weights": wanted.weights,
        "left_out": list(found.dropped),
        "missing": found.missing,
        "understood": dict(found.facts),
        "shuffled": options.shuffle,
        "fitted": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _told(found: Understood) -> dict[str, str]:
    """Of what was understood, what a report cannot see in the model."""
    told = {name: what for name, what in found.facts if name in ("missing", "weights", "left out")}
    if "weights" in told:
        told["weights"] = f"column {told['weights']}"
    return told


def _show(model: Any, wanted: Wanted, path: Path, seconds: float, out: Out) -> None:
    out.show()
    out.show("The model", style="bold")
    out.facts(
        [
            ("alpha", words.alpha_words(model)),
            ("score", words.score_words(model)),
            ("proof", words.certificate(model.report_)),
            ("work", f"{words.work(model.report_)}; {duration(seconds)} from file to model"),
        ]
    )
    out.show()
    strongest = words.effects(model)
    out.show(words.effects_table(strongest, Path(wanted.target).name))
    out.show()
    out.show(words.effects_explained(strongest), style="dim")
    out.show()
    name = shlex.quote(str(path))
    out.show(f"Written to {name}. Next: ling predict {name} new-data --out predictions.csv")
