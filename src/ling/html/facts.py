"""Everything that a report tells, found before anything of it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from ling.design import Array, ChunkedDesign
from ling.display.cv import score_name
from ling.errors import BadOption, LingError, MissingData, WrongShape
from ling.estimators.choosing import at_edge, unproved_choice
from ling.estimators.lazy import on_cluster
from ling.estimators.revisited import HeldOut, Revisited, held_out, revisit
from ling.html.factored import (
    NotShown,
    PathFacts,
    SpectrumFacts,
    form_of,
    path_of,
    spectrum_of,
)
from ling.html.scores import Decisions, Errors, decisions_of, errors_of
from ling.html.words import count, sentences
from ling.posterior import SMALL
from ling.report import Cost, FitReport, Status
from ling.selection import CVResults

# Targets, or classes, with pictures of their own.
MOST_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Facts:
    """What a report tells. Where something is text, it says why the thing itself is not there.

    `targets` are the names of the columns of Y: of targets, or of classes; `shown` are the numbers
    of those with pictures of their own. `about` is what else is known of the data.
    """

    again: Revisited
    target: str
    targets: tuple[str, ...]
    features: tuple[str, ...]
    source: str
    held: HeldOut | str
    scores: Errors | Decisions | None
    shown: tuple[int, ...]
    std_errors: Array | str
    path: PathFacts | str
    spectrum: SpectrumFacts | str
    cost: Cost
    about: dict[str, str]

    @property
    def model(self) -> Any:
        """The model that is reported on."""
        return self.again.model

    @property
    def report(self) -> FitReport:
        """What the fit told of itself."""
        found: FitReport = self.model.report_
        return found

    @property
    def results(self) -> CVResults | None:
        """What cross-validation found, if there was one."""
        return getattr(self.model, "cv_results_", None)

    @property
    def classifies(self) -> bool:
        """Whether y is classes."""
        return bool(is_classifier(self.model))

    @property
    def coef(self) -> Array:
        """(n_targets, p)."""
        return np.atleast_2d(np.asarray(self.model.coef_, dtype=np.float64))

    @property
    def degrees(self) -> float | None:
        """Effective degrees of freedom, the mean over targets, where they are known."""
        try:
            return float(np.mean(self.model.edf_))
        except AttributeError:  # classifiers have none, and regressions only if they are cheap
            low, high = self.spectrum.edf if isinstance(self.spectrum, SpectrumFacts) else (0, -1)
            return low if low == high else None

    @property
    def chosen_score(self) -> tuple[str, float, int] | None:
        """What alpha was chosen by, its mean over folds (the median of targets), and how many.

        None for models that did not choose, or where single rows were left out: their mean score
        says no more than those of all rows together.
        """
        results = self.results
        if results is None or results.folds.shape[1] < 2:
            return None
        score = float(np.median(self.model.best_score_))
        return score_name(self.model), score, results.folds.shape[1]

    @property
    def notes(self) -> list[str]:
        """What a reader should know before he believes the rest."""
        found = [] if self.results is None else at_edge(self.model, self.results)
        if self.report.status is not Status.CERTIFIED:
            found.append(f"The fit is {self.report.status.value}")
        doubts = "" if self.results is None else unproved_choice(self.results)
        if doubts:
            found.append(f"{doubts[0].upper()}{doubts[1:].rstrip('.')}")
        if isinstance(self.held, HeldOut):
            found += self.held.notes
            left = self.again.samples.shape[0] - len(self.held.rows)
            if left:
                found.append(f"{left:,} rows were in no test set, and are in no held-out number")
            if not self.held.certified:
                found.append("The fits behind the held-out predictions could not be certified")
        if not self.again.samples.problem.spread.all():
            found.append("A target is constant: there is nothing to explain in it")
        return sentences([*found, *self.report.notes])


def gather(
    model: Any, X: Any, y: Any, sample_weight: Any, target: Any, source: Any,
    about: dict[str, str],
) -> Facts:  # fmt: skip
    """Revisit the data: about as many passes over it as a fit takes."""
    again = revisit(model, X, y, sample_weight)
    held = _or_why(lambda: held_out(again))
    scores: Errors | Decisions | None = None
    if isinstance(held, HeldOut):
        scores = decisions_of(again, held) if is_classifier(model) else errors_of(again, held)
    name, names = _target_names(again, y, target)
    shown = _shown(scores, again.samples.n_targets)
    form = _or_why(lambda: form_of(again))
    path = _or_why(lambda: path_of(again, shown, form))
    spectrum = _or_why(lambda: spectrum_of(again, form))
    p = again.samples.shape[1]
    columns = getattr(model, "feature_names_in_", None)
    features = [f"x{i}" for i in range(p)] if columns is None else map(str, columns)
    return Facts(
        again, name, names, tuple(features), _source(X) if source is None else str(source), held,
        scores, shown, _or_why(lambda: _std_errors(model)), path, spectrum,
        again.samples.problem.design.cost, about,
    )  # fmt: skip


def _or_why(find: Callable[[], Any]) -> Any:
    """What is found or, if that is more than the data or the memory allow, why it is not."""
    try:
        return find()
    except MissingData:  # a file that changes while it is read: nothing found in it can be shown
        raise
    except LingError as error:
        return sentences([str(error)])[0]


def _std_errors(model: Any) -> Array:
    if is_classifier(model):
        raise NotShown("A classifier has no standard errors: its targets are not Gaussian.")
    try:
        return np.atleast_2d(np.asarray(model.coef_std_errors(), dtype=np.float64))
    except BadOption as error:  # none were kept
        raise NotShown(_why_no_errors(model)) from error


def _why_no_errors(model: Any) -> str:
    if getattr(model, "positive", False):
        return "Coefficients that are kept at or above 0 have no standard errors."
    if model.statistics is False:
        return "Standard errors were not asked for."
    if not np.all(getattr(model, "alpha_", getattr(model, "alpha", None))):
        return "Standard errors need an alpha above 0."
    name, (n, p) = type(model).__name__, model.report_.shape
    if 8 * p * min(n, p) > SMALL:
        return (
            f"Standard errors were not kept: they take {count(p)} x {count(min(n, p))} numbers, "
            f"above {SMALL >> 20} MB; {name}(statistics=True) keeps them."
        )
    return f"Standard errors were not kept; {name}(statistics=True) keeps them."


def _target_names(again: Revisited, y: Any, target: Any) -> tuple[str, tuple[str, ...]]:
    """What y is called, and its columns or classes."""
    t = again.samples.n_targets
    several = target is not None and not isinstance(target, str)
    if several and len(target) != t:
        raise WrongShape(f"target has {len(target)} names; pass one for each of {t} targets.")
    if several and t > 1:
        return "the targets", tuple(map(str, target))
    columns = getattr(y, "columns", None)
    given = target[0] if several else target
    if given is None and columns is not None and len(columns) == 1:
        given = columns[0]
    given = getattr(y, "name", None) if given is None else given
    name = "y" if given is None else str(given)
    if is_classifier(again.model):
        classes = [str(one) for one in again.model.classes_]
        return name, tuple(classes[-1:] if t == 1 else classes)
    if t > 1 and columns is not None and len(columns) == t:
        return name if target else "the targets", tuple(map(str, columns))
    return name, (name,) if t == 1 else tuple(f"{name}[{i}]" for i in range(t))


def _shown(scores: Errors | Decisions | None, n_targets: int) -> tuple[int, ...]:
    """The worst, the median and the best; all, if they are few."""
    if n_targets <= MOST_SHOWN:
        return tuple(range(n_targets))
    order: NDArray[np.intp] = np.arange(n_targets) if scores is None else scores.order
    return int(order[0]), int(order[len(order) // 2]), int(order[-1])


def _source(X: Any) -> str:
    if isinstance(X, ChunkedDesign):
        return X.source.description
    if on_cluster(X):
        return f"a Dask {'data frame' if hasattr(X, 'columns') else 'array'}"
    if hasattr(X, "columns"):
        return f"a data frame of {type(X).__module__.partition('.')[0]}"
    return "a sparse matrix" if hasattr(X, "nnz") else "an array"
