"""`ling fit`: a model from a file."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
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
from ling.cli.progress import shown
from ling.cli.reading import Understood, Wanted, understand
from ling.errors import BadOption, LingError, WrongType
from ling.estimators import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from ling.files import check_writable
from ling.progress_bar import duration
from ling.report import Status
from ling.saving import save

# Whole numbers of so many values are often classes.
FEW_VALUES = 20
MOST_CLASSES = 1000
# Share of y's variance between folds from which rows seem to be in order.
IN_ORDER = 0.05


@dataclass(frozen=True)
class FitOptions:
    """How to fit, as the command line says."""

    alphas: tuple[float, ...] | None = None
    alpha: float | None = None
    cv: int = 5
    shuffle: bool = False
    classify: bool = False
    memory_budget: str | None = None
    tol: float = 1e-4
    seed: int = 0


def run(wanted: Wanted, options: FitOptions, path: Path, report: Path | None, out: Out) -> bool:
    """Read, fit, write, tell; whether the fit is certified."""
    for file in (path, report):
        if file is not None:
            check_writable(file)
    write_report = None if report is None else import_module("ling.html").write_report
    started = time.perf_counter()
    with out.doing(f"looking at {wanted.path}"):
        found = understand(wanted)
        _check_target(found.data.y, wanted.target, options)
    out.show("What was understood", style="bold")
    out.facts(found.facts)
    for note in (*found.notes, *_hints(found.data.y, wanted.target, options)):
        out.note(note)
    model, said = fitted(found, options, out)
    about = _about(wanted, found, options)
    save(model, path, about=about)
    said = [in_its_words(note) for note in said] + _doubts(model, found.data.y, wanted.target)
    for note in said:
        out.note(note)
    seconds = time.perf_counter() - started
    _show(model, wanted, path, seconds, out)
    if report is not None and write_report is not None:
        with out.doing(f"writing {report}"):
            write_report(
                report, model, found.data.X, found.data.y, sample_weight=found.weights,
                title=f"{wanted.target} from {Path(wanted.path).name}", target=wanted.target,
                source=wanted.path, about=_told(found),
            )  # fmt: skip
        out.show(f"Report: {report}")
    out.result(
        {
            **words.as_data(model), "written": str(path), "report": report and str(report),
            "seconds_in_all": seconds, "about": about, "warnings": said,
        }
    )  # fmt: skip
    return bool(model.report_.status is not Status.NOT_REACHED)


def fitted(found: Understood, options: FitOptions, out: Out) -> tuple[Any, list[str]]:
    """The model, and what was warned of."""
    model = make_model(options)
    with warnings.catch_warnings(record=True) as caught, shown(out):
        warnings.simplefilter("always")
        try:
            model.fit(found.data.X, found.data.y, found.weights)
        except LingError:
            raise
        except ValueError as error:  # scikit-learn's, of splits and classes
            raise BadOption(str(error)) from error
    return model, list(dict.fromkeys(str(warning.message) for warning in caught))


def make_model(options: FitOptions) -> Any:
    """The estimator that was asked for."""
    common: dict[str, Any] = {
        "tol": options.tol, "random_state": options.seed, "memory_budget": options.memory_budget,
    }  # fmt: skip
    if options.alpha is not None:
        one: Any = RidgeClassifier if options.classify else Ridge
        return one(options.alpha, **common)
    alphas = None if options.alphas is None else list(options.alphas)
    cv: Any = options.cv
    if options.shuffle:
        splitter = StratifiedKFold if options.classify else KFold
        cv = splitter(options.cv, shuffle=True, random_state=options.seed)
    choosing: Any = RidgeClassifierCV if options.classify else RidgeCV
    return choosing(alphas, cv=cv, **common)


def _check_target(y: Any, name: str, options: FitOptions) -> None:
    if y.ndim > 1:
        raise BadOption(f"the target {name!r} has {y.shape[1]} columns; pass one of them.")
    if y.dtype.kind in "US" and not options.classify:
        raise WrongType(
            f"the target {name!r} is text ({str(y[0])!r} in the first row); pass --classify to "
            "predict which of its values a row has, or name a target of numbers."
        )
    values = len(np.unique(y))
    if values == 1:
        raise BadOption(f"the target {name!r} is {y[0]} in every row: there is nothing to predict.")
    if options.classify and (
        values > MOST_CLASSES or (y.dtype.kind == "f" and values > FEW_VALUES)
    ):
        raise BadOption(
            f"the target {name!r} has {values:,} different values, too many for classes; leave "
            "out --classify to predict a number."
        )
    if options.alpha is None and len(y) < options.cv:
        raise BadOption(f"--cv {options.cv} needs as many rows, and there are {len(y)}.")


def _hints(y: Any, name: str, options: FitOptions) -> list[str]:
    hints = []
    if not options.classify and len(y) > FEW_VALUES:
        values = np.unique(y)
        if y.dtype.kind in "iub" and len(values) <= FEW_VALUES:
            hints.append(
                f"{name!r} has only {len(values)} different values; if they are classes rather "
                "than amounts, pass --classify."
            )
    ordered = options.alpha is None and not options.classify and not options.shuffle
    if ordered and _share_between(np.asarray(y, np.float64), options.cv) > IN_ORDER:
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
            ("work", f"{words.work(model.report_)}; {duration(seconds)} in all"),
        ]
    )
    out.show()
    out.show(words.effects_table(words.effects(model), Path(wanted.target).name))
    out.show()
    out.show("effect: of one standard deviation more in that column", style="dim")
    out.show()
    name = path.name if path.parent == Path() else str(path)
    out.show(f"Written to {name}. Next: ling predict {name} new-data --out predictions.csv")
