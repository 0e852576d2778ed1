"""Everything that a report tells, found before anything of it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from ling._typing import Array
from ling.design import ChunkedStorage
from ling.errors import DataFileError, LingError, OptionError, ShapeError
from ling.estimators.fit_session import as_fitted
from ling.estimators.open_data import is_dask_collection
from ling.estimators.out_of_sample import (
    FittedProblem,
    OutOfSample,
    predict_held_out,
    rebuild_problem,
)
from ling.io import Dataset
from ling.model_selection import CVScores
from ling.report.cv_display import scoring_label
from ling.report.held_out_scores import (
    ClassificationScores,
    RegressionScores,
    classification_scores,
    regression_scores,
)
from ling.report.path_and_spectrum import (
    OmittedError,
    PathData,
    SpectrumData,
    compute_path,
    compute_spectrum,
    tridiagonal_form,
)
from ling.results import Cost, FitReport, Status
from ling.wording import unique_sentences

# Targets, or classes, with pictures of their own.
MAX_DETAILED_TARGETS = 3


@dataclass(frozen=True, eq=False)
class ReportData:
    """What a report tells. Where something is text, it says why the thing itself is not there.

    `targets` are the names of the columns of Y: of targets, or of classes; `shown` are the numbers
    of those with pictures of their own. `about` is what else is known of the data.
    """

    fitted_problem: FittedProblem
    target_name: str
    target_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    source: str
    held_out: OutOfSample | str
    scores: RegressionScores | ClassificationScores | None
    detailed_targets: tuple[int, ...]
    std_errors: Array | str
    path: PathData | str
    spectrum: SpectrumData | str
    cost: Cost
    about: dict[str, str]

    @property
    def model(self) -> Any:
        """The model that is reported on."""
        return self.fitted_problem.model

    @property
    def report(self) -> FitReport:
        """What the fit told of itself."""
        found: FitReport = self.model.report_
        return found

    @property
    def cv_scores(self) -> CVScores | None:
        """What cross-validation found, if there was one."""
        return getattr(self.model, "cv_scores_", None)

    @property
    def is_classification(self) -> bool:
        """Whether y is classes."""
        return bool(is_classifier(self.model))

    @property
    def coef(self) -> Array:
        """(n_targets, p)."""
        return np.atleast_2d(np.asarray(self.model.coef_, dtype=np.float64))

    @property
    def effective_dof(self) -> float | None:
        """Effective degrees of freedom, the mean over targets, where they are known."""
        try:
            return float(np.mean(self.model.edf_))
        except AttributeError:  # classifiers have none, and regressions only if they are cheap
            low, high = self.spectrum.edf if isinstance(self.spectrum, SpectrumData) else (0, -1)
            return low if low == high else None

    @property
    def cv_score(self) -> tuple[str, float, int] | None:
        """What alpha was chosen by, its mean over folds (the median of targets), and how many.

        None for models that did not choose, or where single rows were left out: their mean score
        says no more than those of all rows together.
        """
        scores = self.cv_scores
        if scores is None or scores.split_scores.shape[1] < 2:
            return None
        score = float(np.median(self.model.best_score_))
        return scoring_label(self.model), score, scores.split_scores.shape[1]

    @property
    def notes(self) -> list[str]:
        """What a reader should know before he believes the rest."""
        found = []
        if self.report.status is not Status.CERTIFIED:
            found.append(f"The fit is {self.report.status.value}")
        if isinstance(self.held_out, OutOfSample):
            found += self.held_out.notes
            left = self.fitted_problem.cv_problem.shape[0] - len(self.held_out.rows)
            if left:
                found.append(f"{left:,} rows were in no test set, and are in no held-out number")
            if not self.held_out.certified:
                found.append("The fits behind the held-out predictions could not be certified")
        if not self.fitted_problem.cv_problem.problem.target_norms.all():
            found.append("A target is constant: there is nothing to explain in it")
        return unique_sentences([*found, *self.report.notes])


def collect_report_data(
    model: Any, X: Any, y: Any, sample_weight: Any, target: Any, source: Any,
    about: dict[str, str],
) -> ReportData:  # fmt: skip
    """Revisit the data: about as many passes over it as a fit takes."""
    model = as_fitted(model)
    again = rebuild_problem(model, X, y, sample_weight)
    held = _value_or_reason(lambda: predict_held_out(again))
    scores: RegressionScores | ClassificationScores | None = None
    if isinstance(held, OutOfSample):
        scores = (
            classification_scores(again, held)
            if is_classifier(model)
            else regression_scores(again, held)
        )
    name, names = _target_names(again, y, _dataset_target(X) if target is None else target)
    shown = _select_detailed_targets(scores, again.cv_problem.n_targets)
    gram_form = held.gram_form if isinstance(held, OutOfSample) else None
    form = _value_or_reason(lambda: tridiagonal_form(again, gram_form))
    path = _value_or_reason(lambda: compute_path(again, shown, form))
    spectrum = _value_or_reason(lambda: compute_spectrum(again, form))
    p = again.cv_problem.shape[1]
    columns = getattr(model, "feature_names_in_", None)
    features = [f"x{i}" for i in range(p)] if columns is None else map(str, columns)
    return ReportData(
        again,
        name,
        names,
        tuple(features),
        _describe_source(X) if source is None else str(source),
        held,
        scores,
        shown,
        _value_or_reason(lambda: _std_errors(model)),
        path,
        spectrum,
        again.cv_problem.problem.design.cost,
        about,
    )


def _value_or_reason(find: Callable[[], Any]) -> Any:
    """What is found or, if that is more than the data or the memory allow, why it is not."""
    try:
        return find()
    except DataFileError:  # a file that changes while it is read: nothing found in it can be shown
        raise
    except LingError as error:
        return unique_sentences([str(error)])[0]


def _std_errors(model: Any) -> Array:
    if is_classifier(model):
        raise OmittedError("A classifier has no standard errors: its targets are not Gaussian.")
    if not hasattr(model, "coef_std_errors"):
        raise OmittedError(f"{type(model).__name__} has no standard errors; Ridge has them.")
    try:
        return np.atleast_2d(np.asarray(model.coef_std_errors(), dtype=np.float64))
    except OptionError as error:  # none were kept
        raise OmittedError(_no_std_errors_reason(model)) from error


def _no_std_errors_reason(model: Any) -> str:
    if getattr(model, "positive", False):
        return "Coefficients that are kept at or above 0 have no standard errors."
    if not np.all(getattr(model, "alpha_", getattr(model, "alpha", None))):
        return "Standard errors need an alpha above 0."
    return f"Standard errors were not stored; fit {type(model).__name__}(store_covariance=True)."


def _dataset_target(X: Any) -> Any:
    """Name or names of the target of a Dataset; None if it has none, and for any other X."""
    names = X.target_names if isinstance(X, Dataset) else ()
    return names[0] if len(names) == 1 else names or None


def _target_names(again: FittedProblem, y: Any, target: Any) -> tuple[str, tuple[str, ...]]:
    """What y is called, and its columns or classes."""
    t = again.cv_problem.n_targets
    several = target is not None and not isinstance(target, str)
    if several and len(target) != t:
        raise ShapeError("target", f"has {len(target)} names", f"pass one for each of {t} targets")
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


def _select_detailed_targets(
    scores: RegressionScores | ClassificationScores | None, n_targets: int
) -> tuple[int, ...]:
    """The worst, the median and the best; all, if they are few."""
    if n_targets <= MAX_DETAILED_TARGETS:
        return tuple(range(n_targets))
    order: NDArray[np.intp] = np.arange(n_targets) if scores is None else scores.worst_first
    return int(order[0]), int(order[len(order) // 2]), int(order[-1])


def _describe_source(X: Any) -> str:
    if isinstance(X, Dataset | ChunkedStorage):
        return X.source.description
    if is_dask_collection(X):
        return f"a Dask {'data frame' if hasattr(X, 'columns') else 'array'}"
    if hasattr(X, "columns"):
        return f"a data frame of {type(X).__module__.partition('.')[0]}"
    return "a sparse matrix" if hasattr(X, "nnz") else "an array"
