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

from ling.cli import model_summary
from ling.cli.console import CommandOutput
from ling.cli.error_wording import note_in_cli_wording
from ling.cli.options import DataOptions
from ling.cli.output_paths import check_not_data_file, check_output_paths
from ling.cli.progress import show_progress
from ling.cli.training_table import TrainingTable, expand_path, file_format, read_training_table
from ling.errors import Change, InputTypeError, LingError, OptionError, Where
from ling.estimators import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from ling.estimators.choice_notes import grid_edge_notes
from ling.estimators.fit import FLOAT32_NOTE
from ling.io.table_target import MAX_EXACT_INTEGER
from ling.model_file import save
from ling.progress_bar import format_duration
from ling.results import Status

# Whole numbers of so many values are often classes.
MAX_DISCRETE_VALUES = 20
MAX_CLASSES = 1000
# Columns up to which a model file stores the covariance of the coefficients: at most 8 MB.
MAX_COVARIANCE_FEATURES = 1000
# Share of y's variance between folds from which rows seem to be in order.
ORDERED_ROWS_VARIANCE_SHARE = 0.05
# Folds if nothing is said of them, and rows of each that R^2 takes.
DEFAULT_FOLDS, MIN_ROWS_PER_FOLD = 5, 2


@dataclass(frozen=True)
class FitCommandOptions:
    """How to fit, as the command line says."""

    alphas: tuple[float, ...] | None = None
    alpha: float | None = None
    cv: int | None = None
    shuffle: bool = False
    memory_budget: str | None = None
    tol: float = 1e-4
    seed: int = 0


@dataclass(frozen=True)
class FitOutcome:
    """What came of it; `seconds` are from the file to the model, and the report comes after."""

    certified: bool
    seconds: float
    report_seconds: float | None


def run(
    wanted: DataOptions,
    options: FitCommandOptions,
    path: Path,
    report: Path | None,
    out: CommandOutput,
) -> FitOutcome:
    """Read, fit, write, tell."""
    check_not_data_file("out", path)
    check_output_paths({"--out": path, "--report": report}, _input_files(wanted))
    write_report = None if report is None else import_module("ling.report").write_report
    started = time.perf_counter()
    with out.show_status(f"looking at {wanted.path}"):
        found = read_training_table(wanted)
        _check_target(found.data.y, wanted)
        options, fewer = _resolve_folds(found.data.y, wanted, options)
    out.show("What was understood", style="bold")
    out.show_pairs(found.summary)
    for note in (*found.notes, *fewer, *_target_hints(found.data.y, wanted, options)):
        out.note(note)
    model, said = fit_model(found, make_model(options, wanted.classify, found.data.shape[1]), out)
    about = _model_metadata(wanted, found, options)
    save(model, path, about=about)
    said = [
        *(note_in_cli_wording(note) for note in (*said, *_rounding_notes(model))),
        *_baseline_warnings(model, found.data.y, wanted.target),
    ]
    for note in (*said, *_grid_edge_notes(model)):
        out.note(note)
    seconds = time.perf_counter() - started
    _show_model(model, wanted, path, seconds, out)
    report_seconds = None
    if report is not None and write_report is not None:
        started = time.perf_counter()
        with out.show_status(f"writing {report}"), _tell_model_is_written(path, report):
            write_report(
                report, model, found.data, sample_weight=found.weights,
                title=f"{wanted.target} from {Path(wanted.path).name}", target=wanted.target,
                source=wanted.path, about=_report_metadata(found),
            )  # fmt: skip
        report_seconds = time.perf_counter() - started
        out.show(f"Report: {report}, in another {format_duration(report_seconds)}")
    out.print_json(
        {
            **model_summary.model_as_dict(model),
            "written": str(path),
            "report": report and str(report),
            "seconds_in_all": seconds,
            "seconds_of_report": report_seconds,
            "about": about,
            "warnings": said,
        }
    )
    return FitOutcome(model.report_.status is Status.CERTIFIED, seconds, report_seconds)


def _input_files(wanted: DataOptions) -> list[str]:
    """All files that a fit reads."""
    beside = [name for name in (wanted.target, wanted.weights) if name and os.path.isfile(name)]
    return [*expand_path(wanted.path), *beside]


@contextmanager
def _tell_model_is_written(path: Path, report: Path) -> Iterator[None]:
    """Says so if an interrupt comes after it was written."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{path} is written, {report} is not.") from None


def fit_model(found: TrainingTable, model: Any, out: CommandOutput) -> tuple[Any, list[str]]:
    """The model, fitted, and what was warned of."""
    with warnings.catch_warnings(record=True) as caught, show_progress(out):
        warnings.simplefilter("always")
        try:
            model.fit(found.data, sample_weight=found.weights)
        except LingError:
            raise
        except ValueError as error:  # scikit-learn's, of splits and classes
            raise OptionError("data", f"cannot be fitted: {str(error).rstrip('.')}") from error
    return model, list(dict.fromkeys(str(warning.message) for warning in caught))


def make_model(options: FitCommandOptions, classify: bool, n_features: int) -> Any:
    """The estimator that was asked for."""
    common: dict[str, Any] = {
        "tol": options.tol, "random_state": options.seed, "memory_budget": options.memory_budget,
    }  # fmt: skip
    if not classify:
        common["store_covariance"] = _stores_covariance(options, n_features)
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


def _stores_covariance(options: FitCommandOptions, n_features: int) -> bool:
    """Whether the model stores what standard errors need; at alpha = 0 there are none."""
    alphas = (options.alpha,) if options.alpha is not None else options.alphas or ()
    return n_features <= MAX_COVARIANCE_FEATURES and all(alpha != 0 for alpha in alphas)


def _check_target(y: Any, wanted: DataOptions) -> None:
    if y.ndim > 1:
        raise OptionError(
            "target",
            f"has {y.shape[1]} columns",
            "pass a file of one column",
            where=Where(file=wanted.target),
        )
    if y.dtype.kind in "US" and not wanted.classify:
        raise InputTypeError(
            "target",
            f"is text ({str(y[0])!r} in the first row)",
            Change("classify", True, "to predict which of its values a row has"),
            "name a target of numbers",
            where=_place_of_target(wanted),
        )
    if wanted.classify and y.dtype.kind == "f" and np.abs(y).max() >= MAX_EXACT_INTEGER:
        raise OptionError(
            "target",
            f"has numbers up to {np.abs(y).max():g}, which float64 does not tell apart",
            "write them as text, such as id-1 in place of 1",
            where=_place_of_target(wanted),
        )
    values = len(np.unique(y))
    if values == 1:
        raise OptionError(
            "target",
            f"is {y[0]} in every row, so there is nothing to predict",
            "name another target",
            where=_place_of_target(wanted),
        )
    if wanted.classify and (
        values > MAX_CLASSES or (y.dtype.kind == "f" and values > MAX_DISCRETE_VALUES)
    ):
        raise OptionError(
            "target",
            f"has {values:,} different values, which are too many for classes",
            "leave out `classify` to predict a number",
            where=_place_of_target(wanted),
        )


def _place_of_target(wanted: DataOptions) -> Where:
    """The column, or the .npy file, that --target names."""
    if file_format(wanted.path) == "npy":
        return Where(file=wanted.target)
    return Where(column=wanted.target)


def _resolve_folds(
    y: Any, wanted: DataOptions, options: FitCommandOptions
) -> tuple[FitCommandOptions, list[str]]:
    """As many folds as there are rows for, and a note if these are fewer than usual."""
    if options.alpha is not None:
        return options, []
    if wanted.classify:
        counts = np.unique(y, return_counts=True)[1]
        # Of fewer rows than folds in some class only a warning is due, of all classes no fold.
        most, usual = int(counts.max()), max(int(counts.min()), 2)
        need, of = options.cv or 2, "rows of some class"
    else:
        most = usual = len(y) // MIN_ROWS_PER_FOLD
        need, of = MIN_ROWS_PER_FOLD * (options.cv or 2), "rows"
    if most < (options.cv or 2):
        have = most if wanted.classify else len(y)
        too_few = f"needs at least {need} {of}, but there are {have}"
        fixed = Change("alpha", 1, "(or another number) to skip cross-validation")
        if options.cv is None:
            raise OptionError("alpha", f"the choice of `alpha` {too_few}", fixed)
        smaller = [Change("cv", most)] if most >= 2 else []
        raise OptionError("cv", f"is {options.cv}, which {too_few}", *smaller, fixed)
    folds = options.cv or min(DEFAULT_FOLDS, usual)
    few = (
        []
        if options.cv or folds == DEFAULT_FOLDS
        else [f"so few rows allow {folds} folds, not {DEFAULT_FOLDS}."]
    )
    return replace(options, cv=folds), few


def _target_hints(y: Any, wanted: DataOptions, options: FitCommandOptions) -> list[str]:
    hints, name = [], wanted.target
    if not wanted.classify and len(y) > MAX_DISCRETE_VALUES:
        values = np.unique(y)
        if y.dtype.kind in "iub" and len(values) <= MAX_DISCRETE_VALUES:
            hints.append(
                f"{name!r} has only {len(values)} different values; if they are classes rather "
                "than amounts, pass --classify."
            )
    ordered = options.cv is not None and not wanted.classify and not options.shuffle
    if (
        ordered
        and _between_fold_variance_share(np.asarray(y, np.float64), options.cv or DEFAULT_FOLDS)
        > ORDERED_ROWS_VARIANCE_SHARE
    ):
        hints.append(
            f"{name!r} differs a lot between the first and the last rows. Folds are rows that lie "
            "together; if the order of rows means nothing, pass --shuffle."
        )
    return hints


def _rounding_notes(model: Any) -> list[str]:
    """The note of the report that says that float32 is why tol is not reached."""
    return [note for note in model.report_.notes if note == FLOAT32_NOTE]


def _baseline_warnings(model: Any, y: Any, name: str) -> list[str]:
    """A model that is no better than none."""
    score = model_summary.cv_score(model)
    if score is None:
        return []
    least, without = score[0] - score[1], 0.0
    if is_classifier(model):
        without = float(np.unique(y, return_counts=True)[1].max() / len(y))
    if least > without:
        return []
    instead = "its most frequent class" if is_classifier(model) else "its mean"
    return [f"these columns tell little or nothing of {name!r}: {instead} predicts it as well."]


def _grid_edge_notes(model: Any) -> list[str]:
    """The notes of the report that say that the best alpha is at an end of --alphas."""
    scores = getattr(model, "cv_scores_", None)
    notes = [] if scores is None else grid_edge_notes(model, scores)
    return [note_in_cli_wording(note) for note in notes]


def _between_fold_variance_share(y: Any, n_folds: int) -> float:
    """Of y's variance, the share that is between folds of consecutive rows, but for chance."""
    if len(y) < 20 * n_folds:
        return 0.0
    means = [fold.mean() for fold in np.array_split(y, n_folds)]
    return float(np.var(means) / np.var(y) - n_folds / len(y))


def _model_metadata(
    wanted: DataOptions, found: TrainingTable, options: FitCommandOptions
) -> dict[str, Any]:
    return {
        "source": wanted.path,
        "target": wanted.target,
        "weights": wanted.weights,
        "left_out": list(found.dropped),
        "missing": found.missing,
        "skip_missing_target": wanted.skip_missing_target,
        "understood": dict(found.summary),
        "shuffled": options.shuffle,
        "fitted": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _report_metadata(found: TrainingTable) -> dict[str, str]:
    """Of what was understood, what a report cannot see in the model."""
    told = {
        name: what for name, what in found.summary if name in ("missing", "weights", "left out")
    }
    if "weights" in told:
        told["weights"] = f"column {told['weights']}"
    return told


def _show_model(
    model: Any, wanted: DataOptions, path: Path, seconds: float, out: CommandOutput
) -> None:
    out.show()
    out.show("The model", style="bold")
    out.show_pairs(
        [
            ("alpha", model_summary.describe_alpha(model)),
            ("score", model_summary.describe_score(model)),
            ("proof", model_summary.describe_certificate(model.report_)),
            (
                "work",
                f"{model_summary.describe_work(model.report_)}; {format_duration(seconds)} from "
                f"file to model",
            ),
        ]
    )
    out.show()
    strongest = model_summary.strongest_effects(model)
    out.show(model_summary.effects_table(strongest, Path(wanted.target).name))
    out.show()
    out.show(model_summary.explain_effects(strongest), style="dim")
    out.show()
    name = shlex.quote(str(path))
    out.show(f"Written to {name}. Next: ling predict {name} new-data --out predictions.csv")
