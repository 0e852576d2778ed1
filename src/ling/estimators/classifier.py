"""`RidgeClassifier` and `RidgeClassifierCV`: ridge regression on classes coded as -1 and 1."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import column_or_1d, compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from ling._typing import (
    Array,
    ClassWeight,
    CVLike,
    DaskCollection,
    MatrixLike,
    Precision,
    RandomState,
    ScoringLike,
    SelectionRule,
    Solver,
)
from ling.errors import OptionError
from ling.estimators.callbacks import CallbackSupportMixin
from ling.estimators.checkpoint import checkpoint_session
from ling.estimators.cv_fit import (
    SELECT_BEST,
    SELECT_ONE_STD_ERROR,
    check_store_cv_results,
    checked_alphas,
    fit_with_cv,
    set_cv_attributes,
    warn_about_choice,
)
from ling.estimators.fit import (
    SKLEARN_SOLVERS,
    SOLVERS,
    check_solver,
    set_fit_attributes,
    solve_warm_started,
    warn_unless_certified,
)
from ling.estimators.fit_session import fit_context, fit_session
from ling.estimators.metadata import (
    MetadataRoutingMixin,
    is_prediction_scorer,
    make_splits,
    route_fit_params,
)
from ling.estimators.parameter_validation import check_alpha_per_target
from ling.estimators.prediction import BlockPredictionMixin, PredictionTransform, predictions
from ling.estimators.prediction_bounds import predictions_with_bounds
from ling.estimators.sklearn_export import sklearn_estimator
from ling.estimators.sklearn_private import Interval, StrOptions
from ling.estimators.validation import check_sample_weight, training_data
from ling.model_selection import CVScores, MeanScore, NegMeanSquaredError, Scoring, SklearnScorer
from ling.model_selection.score_accumulators import Accuracy
from ling.plain_state import register_plain
from ling.progress import FitProgress
from ling.solvers.problem import TrainingData

if TYPE_CHECKING:
    from sklearn import linear_model


@register_plain
@dataclass(frozen=True, eq=False)
class LabelDecoder:
    """Maps decision values (n, t) to classes.

    The sign decides for two classes and for multilabel targets, else the largest value. `classes`
    are in the order of the columns of decision values; with `is_multilabel` a sample can have
    several.
    """

    classes: NDArray[Any]
    is_multilabel: bool

    @classmethod
    def from_labels(cls, y: Any) -> LabelDecoder:
        """The decoder for class labels y (n,), or for labels y (n, t) of 0 and 1."""
        binarizer = LabelBinarizer(pos_label=1, neg_label=-1).fit(y)
        return cls(binarizer.classes_, binarizer.y_type_.startswith("multilabel"))

    def __call__(self, values: Array) -> Any:
        """Classes (n,) of decision values (n, t), or labels (n, t) of 0 and 1 if multilabel."""
        if self.is_multilabel:
            return (values > 0).astype(int)
        class_index = (
            (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)
        )
        return self.classes[class_index]


class BaseRidgeClassifier(
    CallbackSupportMixin, BlockPredictionMixin, ClassifierMixin, BaseEstimator
):
    """Base of the classifiers: encodes classes as -1 and 1, and decodes decision values."""

    _label_decoder: LabelDecoder
    class_weight: ClassWeight
    classes_: NDArray[Any]  # set by `fit`

    def _prepare_training_data(
        self, X: Any, y: Any, sample_weight: Any, progress: FitProgress
    ) -> tuple[TrainingData, Any, LabelDecoder]:
        """Validated data with targets (n, t) of -1 and 1, y, and the decoder of predictions."""
        data, y = training_data(self, X, y, sample_weight, progress)
        decision = LabelDecoder.from_labels(y)
        return *self._encode_classes(data, y, decision), decision

    def _revalidate_training_data(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[TrainingData, Any]:
        """Validated data and y as in the fit, without changing the model.

        Raises OptionError if y has a class that the fit has not seen.
        """
        data, y = training_data(self, X, y, sample_weight, reset=False)
        decision = self._label_decoder
        known = y if decision.is_multilabel else decision.classes
        unknown = np.setdiff1d(y, known)
        if len(unknown):
            raise OptionError(
                "y",
                f"has the class {str(unknown[0])!r}, which the fit has not seen",
                "pass `y` as it was in the fit",
            )
        return self._encode_classes(data, y, decision)

    def _encode_classes(
        self, data: TrainingData, y: Any, decision: LabelDecoder
    ) -> tuple[TrainingData, Any]:
        """Data with targets of -1 and 1 and with class weights, and y; (n,) unless multilabel."""
        if not decision.is_multilabel:
            y = column_or_1d(y, warn=True)
        weights = data.weights
        if self.class_weight:
            class_weights = compute_sample_weight(self.class_weight, y)
            weights = check_sample_weight(
                class_weights if weights is None else weights * class_weights, len(y)
            )
        return replace(data, targets=_one_vs_rest_targets(y, decision), weights=weights), y

    def _set_label_decoder(self, decision: LabelDecoder) -> None:
        self._label_decoder = decision
        self.classes_ = decision.classes

    @overload
    def decision_function(self, X: DaskCollection, return_bound: bool = False) -> Any: ...
    @overload
    def decision_function(self, X: MatrixLike, return_bound: Literal[False] = False) -> Array: ...
    @overload
    def decision_function(
        self, X: MatrixLike, return_bound: Literal[True]
    ) -> tuple[Array, Array]: ...
    def decision_function(self, X: DaskCollection | MatrixLike, return_bound: bool = False) -> Any:
        """Decision values `X @ coef_.T + intercept_`: (n, n_classes), or (n,) for two classes.

        With `return_bound`, also return a proven bound on the distance of each value from that of
        the exact ridge solution, as `Ridge.predict` does. A prediction of two classes is proved to
        be that of the exact solution where the decision value is larger than its bound.
        """
        check_is_fitted(self, "coef_")
        if return_bound:
            return predictions_with_bounds(self, X, np.atleast_2d(self.coef_).T, _squeeze_binary)
        return self._decision_values(X, _squeeze_binary)

    @overload
    def predict(self, X: DaskCollection) -> Any: ...
    @overload
    def predict(self, X: MatrixLike) -> NDArray[Any]: ...
    def predict(self, X: DaskCollection | MatrixLike) -> Any:
        """Predicted class of each sample (n,), or 0 and 1 for each label (n, t) if multilabel.

        For error bounds, see `decision_function(X, return_bound=True)`.
        """
        check_is_fitted(self, "coef_")
        return self._decision_values(X, self._label_decoder)

    def _decision_values(self, X: Any, finish: PredictionTransform = None) -> Any:
        """finish(X @ coef_.T + intercept_); `finish` is given an array (n, t)."""
        return predictions(self, X, np.atleast_2d(self.coef_).T, finish)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags


def _one_vs_rest_targets(y: Any, decision: LabelDecoder) -> NDArray[np.int8]:
    """Targets Y (n, t) in int8: 1 in the column of the sample's class and -1 in the others.

    For two classes there is one column, for the second class. The result is that of LabelBinarizer,
    but takes an eighth of the memory, which matters for many samples.
    """
    if decision.is_multilabel:
        return np.where(y, np.int8(1), np.int8(-1))
    classes = decision.classes
    if len(classes) <= 2:
        classes = classes[1:]
    Y = np.full((len(y), max(1, len(classes))), -1, np.int8)
    for column, name in zip(Y.T, classes, strict=False):
        column[y == name] = 1
    return Y


def _squeeze_binary(values: Array) -> Array:
    """Decision values (n, 1) as (n,), as there are for two classes; others unchanged."""
    return values[:, 0] if values.shape[1] == 1 else values


class RidgeClassifier(BaseRidgeClassifier):
    """Classifier that fits ridge regression to classes coded as -1 and 1.

    A drop-in replacement for `sklearn.linear_model.RidgeClassifier`.

    Parameters
    ----------
    alpha : float, default=1.0
        Regularisation strength, as for `Ridge`.
    fit_intercept, copy_X, max_iter, tol, solver, positive, precision, memory_budget
        As for `Ridge`.
    random_state : int, RandomState instance or None, default=None
        Seed of the random sketches, as for `Ridge`: None is the same as 0.
    class_weight : dict or "balanced", default=None
        Weights of the classes. "balanced" gives every class the same total weight.
    warm_start, checkpoint, speeds, verbose
        As for `Ridge`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (n_features,) for two classes, or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)
    n_iter_, solver_, report_
        As for `Ridge`; the certificate bounds the error of `decision_function`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ling import RidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> RidgeClassifier().fit(X, y).predict(X[:2])
    array([0, 0])
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012  (scikit-learn's way)
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "fit_intercept": ["boolean"],
        "copy_X": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "solver": [StrOptions({*SOLVERS, *SKLEARN_SOLVERS})],
        "positive": ["boolean"],
        "random_state": ["random_state"],
        "precision": [StrOptions({"auto", "float64", "float32"})],
        "memory_budget": [Interval(Real, 0, None, closed="neither"), str, None],
        "warm_start": ["boolean"],
        "checkpoint": [str, Path, None],
        "speeds": [dict, None],
        "verbose": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        alpha: float | ArrayLike = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-4,
        class_weight: ClassWeight = None,
        solver: Solver = "auto",
        positive: bool = False,
        random_state: RandomState = None,
        precision: Precision = "auto",
        memory_budget: float | str | None = None,
        warm_start: bool = False,
        checkpoint: str | Path | None = None,
        speeds: dict[str, Any] | None = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.class_weight = class_weight
        self.solver = solver
        self.positive = positive
        self.random_state = random_state
        self.precision = precision
        self.memory_budget = memory_budget
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.speeds = speeds
        self.verbose = verbose

    @fit_context
    def fit(
        self, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit to X (n_samples, n_features) and classes y (n_samples,), or labels (n_samples, t).

        X may be a `ling.Dataset`; y is then its target and is not passed.
        """
        started = time.perf_counter()
        check_solver(self)
        with fit_session(self, X, y, sample_weight) as progress:
            data, y, decision = self._prepare_training_data(X, y, sample_weight, progress)
            alphas = check_alpha_per_target(self.alpha, data.n_targets)
            with checkpoint_session(self, data) as (data, options):
                *_, fit = solve_warm_started(self, data, alphas, options, started)
            set_fit_attributes(self, fit, 2)
            self._set_label_decoder(decision)
        warn_unless_certified(self, fit)
        return self

    def to_sklearn(self) -> linear_model.RidgeClassifier:
        """A fitted `sklearn.linear_model.RidgeClassifier` with the same coefficients.

        As `Ridge.to_sklearn`.

        Returns
        -------
        sklearn.linear_model.RidgeClassifier
        """
        return sklearn_estimator(self, "RidgeClassifier")


class RidgeClassifierCV(MetadataRoutingMixin, BaseRidgeClassifier):
    """`RidgeClassifier` with alpha chosen by cross-validation.

    A drop-in replacement for `sklearn.linear_model.RidgeClassifierCV`.

    Parameters
    ----------
    alphas, fit_intercept, cv, store_cv_results, selection_rule, tol, memory_budget
        As for `RidgeCV`.
    random_state : int, RandomState instance or None, default=None
        Seed of the random sketches, as for `RidgeCV`: None is the same as 0.
    checkpoint, speeds, verbose
        As for `Ridge`.
    scoring : str or callable, default=None
        None is the negative mean squared error of the decision values for cv=None, and accuracy
        otherwise. "accuracy" with cv=None is the fraction of samples that are classified correctly
        when they are left out.
    class_weight : dict or "balanced", default=None
        As for `RidgeClassifier`.

    Attributes
    ----------
    classes_, coef_, intercept_
        As for `RidgeClassifier`.
    alpha_, alpha_1se_, alphas_, best_score_, cv_scores_, n_iter_, solver_, report_
        As for `RidgeCV`.
    cv_results_ : array of shape (n_samples, n_targets, n_alphas)
        As for `RidgeCV`, of the decision values; n_targets is 1 for two classes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ling import RidgeClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> round(RidgeClassifierCV(scoring="accuracy").fit(X, y).best_score_, 2)
    0.85
    """

    alpha_: float | Array
    alpha_1se_: float | Array
    alphas_: Array
    best_score_: float | Array
    cv_scores_: CVScores
    cv_results_: Array

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012  (scikit-learn's way)
        "alphas": ["array-like", Interval(Real, 0, None, closed="neither"), None],
        "fit_intercept": ["boolean"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "cv": ["cv_object"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "store_cv_results": ["boolean"],
        "selection_rule": [StrOptions({SELECT_BEST, SELECT_ONE_STD_ERROR})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "memory_budget": [Interval(Real, 0, None, closed="neither"), str, None],
        "checkpoint": [str, Path, None],
        "speeds": [dict, None],
        "verbose": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        alphas: ArrayLike | None = None,
        *,
        fit_intercept: bool = True,
        scoring: ScoringLike = None,
        cv: CVLike = None,
        class_weight: ClassWeight = None,
        store_cv_results: bool = False,
        selection_rule: SelectionRule = SELECT_BEST,
        tol: float = 1e-4,
        random_state: RandomState = None,
        memory_budget: float | str | None = None,
        checkpoint: str | Path | None = None,
        speeds: dict[str, Any] | None = None,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.cv = cv
        self.class_weight = class_weight
        self.store_cv_results = store_cv_results
        self.selection_rule = selection_rule
        self.tol = tol
        self.random_state = random_state
        self.memory_budget = memory_budget
        self.checkpoint = checkpoint
        self.speeds = speeds
        self.verbose = verbose

    @fit_context
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Choose alpha and fit to X (n_samples, n_features) and classes y.

        X may be a `ling.Dataset`; y is then its target and is not passed.
        """
        check_store_cv_results(self)
        alphas = checked_alphas(self)
        with fit_session(self, X, y, sample_weight) as progress:
            data, y, decision = self._prepare_training_data(X, y, sample_weight, progress)
            to_scorer, to_splitter = route_fit_params(self, data.weights, params)
            splits = make_splits(self, data.X, y, to_splitter)
            scoring = self._make_scoring(data, y, to_scorer, decision)
            with checkpoint_session(self, data, splits) as (data, options):
                chosen = fit_with_cv(self, data, splits, scoring, options, alphas)
            set_fit_attributes(self, chosen.fit, 2)
            self._set_label_decoder(decision)
            set_cv_attributes(self, chosen, 2, data.design.dtype)
        warn_about_choice(self, chosen, scoring)
        warn_unless_certified(self, chosen.fit)
        return self

    def to_sklearn(self) -> linear_model.RidgeClassifierCV:
        """A fitted `sklearn.linear_model.RidgeClassifierCV` with the same coefficients.

        As `RidgeCV.to_sklearn`.

        Returns
        -------
        sklearn.linear_model.RidgeClassifierCV
        """
        return sklearn_estimator(self, "RidgeClassifierCV")

    def _make_scoring(
        self, data: TrainingData, y: Any, parameters: dict[str, Any], decision: LabelDecoder
    ) -> Scoring:
        """Scoring of decision values (n, t); `parameters` are the arguments of the scorer."""
        Y = data.targets
        if self.scoring is None and self.cv is None:
            return NegMeanSquaredError(Y, data.weights)
        scorer = get_scorer("accuracy") if self.scoring is None else self._check_scorer()
        if self.scoring in (None, "accuracy") and not decision.is_multilabel:
            loss = Accuracy(weights=parameters.get("sample_weight"), Y=Y)
            return MeanScore(loss)
        scorer_X = None if is_prediction_scorer(scorer) else data.X
        return SklearnScorer(scorer, y, decision, scorer_X, False, parameters, Y)
