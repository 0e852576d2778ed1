"""What a fitted model has to say, in plain words and as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from rich.table import Table
from sklearn.base import is_classifier

from ling.cli.console import escape_control_characters, make_table
from ling.errors import OptionError
from ling.estimators.fit_session import fitted_alpha
from ling.progress_bar import format_duration
from ling.results import Certificate, FitReport, Status

N_STRONGEST = 10


@dataclass(frozen=True)
class Effect:
    """A coefficient; `effect` is what one standard deviation of its column does to the target."""

    column: str
    coefficient: float
    std_error: float | None
    effect: float
    of: str | None = None


def describe_certificate(report: FitReport) -> str:
    """What was proved of a fit, in words."""
    if report.status is Status.UNCERTIFIED:
        return "none: alpha is 0, where no bound exists"
    return describe_bound(report.certificate)


def describe_bound(certificate: Certificate) -> str:
    """What a certificate proves, in words."""
    if certificate.bound > 1:
        return "nothing could be proved"
    missed = "" if certificate.holds else f" (tol, {certificate.tol:g}, is not reached)"
    return (
        f"predictions are within {certificate.bound:.1e} of the exact solution's, in spreads of "
        f"the target{missed}"
    )


def describe_work(report: FitReport) -> str:
    """What it took."""
    n, p = report.shape
    return (
        f"{report.cost.passes:.3g} passes over {n:,} x {p:,} in "
        f"{format_duration(report.total_seconds)} "
        f"({report.engine})"
    )


def cv_score_name(model: Any) -> str:
    """What the cross-validated score is."""
    scoring = getattr(model, "scoring", None)
    if isinstance(scoring, str):
        return scoring
    return "accuracy" if is_classifier(model) else "R²"


def cv_score(model: Any) -> tuple[float, float] | None:
    """The cross-validated score of the alpha that was chosen, and its standard error."""
    scores = getattr(model, "cv_scores_", None)
    if scores is None or np.ndim(model.best_score_):
        return None
    at = int(np.flatnonzero(scores.alphas == model.alpha_)[0])
    return float(scores.mean_score[at]), float(scores.std_error[at])


def describe_score(model: Any) -> str:
    """The score, or why there is none."""
    found = cv_score(model)
    if found is None:
        return "none: alpha was given, so nothing was cross-validated"
    return (
        f"{cv_score_name(model)} {found[0]:.4f} ± {found[1]:.4f} on rows left out "
        f"({model.cv_scores_.split_scores.shape[1]} folds)"
    )


def describe_alpha(model: Any) -> str:
    """Which alpha, and out of how many."""
    if not hasattr(model, "alpha_"):
        return f"{np.round(fitted_alpha(model), 12)}, as given"
    alphas = model.alphas_
    return (
        f"{model.alpha_:.4g}, the best of {len(alphas)} from {alphas.min():.2g} to "
        f"{alphas.max():.2g}"
    )


def strongest_effects(model: Any, most: int = N_STRONGEST) -> list[Effect]:
    """The strongest coefficients, strongest first; of several classes, where they are strongest."""
    coef = np.atleast_2d(model.coef_)
    spreads = np.asarray(getattr(model, "_column_stds", np.ones(coef.shape[1])))
    errors = _std_errors(model, coef.shape)
    names = getattr(model, "feature_names_in_", None)
    scaled = coef * spreads
    row = np.abs(scaled).argmax(axis=0)
    strength = np.abs(scaled).max(axis=0)
    order = np.argsort(-strength, kind="stable")[:most]
    return [
        Effect(
            f"column {j}" if names is None else str(names[j]),
            float(coef[row[j], j]),
            None if errors is None else float(errors[row[j], j]),
            float(scaled[row[j], j]),
            _class_label(model, int(row[j])),
        )
        for j in order
    ]


def _std_errors(model: Any, shape: tuple[int, ...]) -> Any:
    try:
        return np.reshape(model.coef_std_errors(), shape)
    except (AttributeError, OptionError):  # classifiers have none, and large fits keep none
        return None


def _class_label(model: Any, row: int) -> str | None:
    classes = getattr(model, "classes_", None)
    if classes is None:
        return None
    return str(classes[-1] if len(classes) == 2 else classes[row])


def effects_table(found: list[Effect], target: str) -> Table:
    """To be printed."""
    towards = any(effect.of is not None for effect in found)
    errors = any(effect.std_error is not None for effect in found)
    effect_on = (
        "effect on decision" if towards else f"effect on {escape_control_characters(target)}"
    )
    table = make_table(
        "strongest columns", *(["class"] if towards else []), ">coefficient",
        *([">std error"] if errors else []), f">{effect_on}",
    )  # fmt: skip
    for effect in found:
        table.add_row(
            escape_control_characters(effect.column),
            *([escape_control_characters(effect.of or "")] if towards else []),
            f"{effect.coefficient:.4g}",
            *([f"{effect.std_error:.2g}"] if errors else []),
            f"{effect.effect:+.4g}",
        )
    return table


def explain_effects(found: list[Effect]) -> str:
    """What the numbers of the table are."""
    deviation = "of one standard deviation more in that column"
    if all(effect.of is None for effect in found):
        return f"effect: {deviation}"
    return (
        f"effect: {deviation} on the decision value for that class; the class with the largest "
        "is predicted (of two, this one above 0)"
    )


def model_as_dict(model: Any) -> dict[str, Any]:
    """All of it, for programs."""
    report, score = model.report_, cv_score(model)
    found: dict[str, Any] = {
        "model": type(model).__name__,
        "alpha": fitted_alpha(model),
        "score": None,
        "status": report.status.name.lower(),
        "bound": None if report.status is Status.UNCERTIFIED else report.certificate.bound,
        "tol": report.certificate.tol,
        "engine": report.engine,
        "passes": round(report.cost.passes, 6),
        "seconds": report.total_seconds,
        "shape": report.shape,
        "effects": [asdict(effect) for effect in strongest_effects(model)],
        "notes": report.notes,
    }
    if score is not None:
        found["score"] = {"name": cv_score_name(model), "mean": score[0], "std_error": score[1]}
    if hasattr(model, "classes_"):
        found["classes"] = model.classes_
    return found
