"""`RidgeClassifier` and `RidgeClassifierCV`: ridge regression on classes written as -1 and 1."""

from __future__ import annotations

import time
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import column_or_1d, compute_sample_weight
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ling._typing import Array
from ling.errors import BadOption
from ling.estimators.callbacks import CallbackSupportMixin
from ling.estimators.checkpoint import checkpoint_session
from ling.estimators.cv_fit import (
    CHOICE_BEST,
    CHOICE_ONE_STD_ERROR,
    check_store_cv_results,
    fit_with_cv,
    set_cv_attributes,
    warn_about_choice,
)
from ling.estimators.fit import (
    SKLEARN_SOLVERS,
    SOLVERS,
    FitOptions,
    PredictionTransform,
    fit_context,
    predictions,
    set_fit_attributes,
    warn_unless_certified,
)
from ling.estimators.metadata import (
    MetadataRoutingMixin,
    is_prediction_scorer,
    make_splits,
    route_fit_params,
)
from ling.estimators.prediction import BlockPredictionMixin
from ling.estimators.session import rollback_on_error
from ling.estimators.validation import (
    check_alpha_per_target,
    check_sample_weight,
    check_training_data,
)
from ling.estimators.warm_start import solve_warm_started
from ling.model_selection import CVResults, MeanScore, NegMeanSquaredError, Scoring, SklearnScorer
from ling.model_selection.score_accumulators import Accuracy


@dataclass(frozen=True, eq=False)
class LabelDecoder:
    """Decision values to classes: the sign for two classes or several labels, else the largest."""

    binarizer: LabelBinarizer

    @property
    def classes(self) -> Any:
        """In the order of the columns."""
        return self.binarizer.classes_

    @property
    def is_multilabel(self) -> bool:
        """Whether a sample can be of several classes."""
        return bool(self.binarizer.y_type_.startswith("multilabel"))

    def __call__(self, values: Array) -> Any:
        """A class for each row of values."""
        if self.is_multilabel:
            return self.binarizer.inverse_transform(2.0 * (values > 0) - 1.0)
        at = (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)
        return self.classes[at]


class BaseRidgeClassifier(
    CallbackSupportMixin, BlockPredictionMixin, ClassifierMixin, BaseEstimator
):
    """What classifiers share: -1 and 1 for the classes, and classes for predictions."""

    _label_decoder: LabelDecoder
    class_weight: Any
    classes_: NDArray[Any]  # set by `fit`

    def _prepare_training_data(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, Any, Array, Array | None, LabelDecoder]:
        """X, y, the classes as columns of -1 and 1, weights, and the way back to classes."""
        X, y = check_training_data(self, X, y, sample_weight)
        binarizer = LabelBinarizer(pos_label=1, neg_label=-1).fit(y)
        decision = LabelDecoder(binarizer)
        y, weights = self._combine_weights(X, y, sample_weight, decision)
        return X, y, _one_vs_rest_targets(y, decision), weights, decision

    def _revalidate_training_data(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, Any, Array, Array | None]:
        """X, y, Y and weights as the fit had them; nothing of the model changes."""
        X, y = check_training_data(self, X, y, sample_weight, reset=False)
        decision = self._label_decoder
        known = y if decision.is_multilabel else decision.classes
        unknown = np.setdiff1d(y, known)
        if len(unknown):
            raise BadOption(
                f"y has the class {str(unknown[0])!r}, which the fit has not seen; pass the y of "
                "the fit."
            )
        y, weights = self._combine_weights(X, y, sample_weight, decision)
        return X, y, _one_vs_rest_targets(y, decision), weights

    def _combine_weights(
        self, X: Any, y: Any, sample_weight: Any, decision: LabelDecoder
    ) -> tuple[Any, Array | None]:
        """y, one class a sample in one dimension, and weights of samples and classes together."""
        if not decision.is_multilabel:
            y = column_or_1d(y, warn=True)
        weights = check_sample_weight(sample_weight, X)
        if self.class_weight:
            balance = compute_sample_weight(self.class_weight, y)
            weights = check_sample_weight(balance if weights is None else weights * balance, X)
        return y, weights

    def _set_label_decoder(self, decision: LabelDecoder) -> None:
        self._label_decoder = decision
        self.classes_ = decision.classes

    @overload
    def decision_function(self, X: NDArray[Any]) -> Array: ...
    @overload
    def decision_function(self, X: Any) -> Any: ...
    def decision_function(self, X: Any) -> Any:
        """`X @ coef_.T + intercept_`, one column for each class; one number for two classes."""
        check_is_fitted(self, "coef_")
        return self._decision_values(X, _squeeze_binary)

    @overload
    def predict(self, X: NDArray[Any]) -> NDArray[Any]: ...
    @overload
    def predict(self, X: Any) -> Any: ...
    def predict(self, X: Any) -> Any:
        """The class of each sample; 0 and 1 for each label, if a sample can have several."""
        check_is_fitted(self, "coef_")
        return self._decision_values(X, self._label_decoder)

    def _decision_values(self, X: Any, finish: PredictionTransform = None) -> Any:
        return predictions(self, X, np.atleast_2d(self.coef_).T, finish)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags


def _one_vs_rest_targets(y: Any, decision: LabelDecoder) -> Array:
    """1 in the column of the class, -1 in others; one column for two classes, the second's.

    As LabelBinarizer does it, but in the room of the result: samples may be many.
    """
    if decision.is_multilabel:
        return np.asarray(decision.binarizer.transform(y), dtype=np.float64)
    classes = decision.classes
    if len(classes) <= 2:
        classes = classes[1:]
    Y = np.full((len(y), max(1, len(classes))), -1.0)
    for column, name in zip(Y.T, classes, strict=False):
        column[y == name] = 1.0
    return Y


def _squeeze_binary(values: Array) -> Array:
    """One number a sample for two classes."""
    return values[:, 0] if values.shape[1] == 1 else values


class RidgeClassifier(BaseRidgeClassifier):
    """Ridge regression on -1 and 1; a drop-in for `sklearn.linear_model.RidgeClassifier`.

    Parameters
    ----------
    alpha : float, default=1.0
    fit_intercept, copy_X, max_iter, tol, solver, positive, random_state, precision, memory_budget
        As for `Ridge`.
    class_weight : dict or "balanced", default=None
        Weights of the classes; "balanced" gives all classes the same weight together.
    warm_start, checkpoint, verbose
        As for `Ridge`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (n_features,) for two classes, or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)
    n_iter_, solver_, report_
        As for `Ridge`; the certificate is about `decision_function`.

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
        "verbose": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        alpha: float | Any = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-4,
        class_weight: Any = None,
        solver: str = "auto",
        positive: bool = False,
        random_state: Any = None,
        precision: str = "auto",
        memory_budget: float | str | None = None,
        warm_start: bool = False,
        checkpoint: str | Path | None = None,
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
        self.verbose = verbose

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to X (n_samples, n_features) and classes y (n_samples,), or labels (n_samples, t)."""
        started = time.perf_counter()
        FitOptions.from_estimator(self).check_solver()
        with rollback_on_error(self, X, y, sample_weight):
            X, y, Y, weights, decision = self._prepare_training_data(X, y, sample_weight)
            alphas = check_alpha_per_target(self.alpha, Y.shape[1])
            with checkpoint_session(self, X, Y, weights) as (X, settings):
                *_, fit = solve_warm_started(self, X, Y, alphas, weights, settings, started)
            set_fit_attributes(self, fit, 2)
            self._set_label_decoder(decision)
        warn_unless_certified(self, fit, settings)
        return self


class RidgeClassifierCV(MetadataRoutingMixin, BaseRidgeClassifier):
    """`RidgeClassifier` with the alpha that predicts best on samples left out.

    A drop-in for `sklearn.linear_model.RidgeClassifierCV`.

    Parameters
    ----------
    alphas, fit_intercept, cv, store_cv_results, choice, tol, random_state, memory_budget
        As for `RidgeCV`.
    checkpoint, verbose
        As for `Ridge`.
    scoring : str or callable, default=None
        None is the negative mean of squared errors of the decision values for cv=None, and accuracy
        otherwise; "accuracy" with cv=None is the share of samples that are classified correctly
        when they are left out.
    class_weight : dict or "balanced", default=None

    Attributes
    ----------
    classes_, coef_, intercept_
        As for `RidgeClassifier`.
    alpha_, alpha_1se_, best_score_, cv_results_, n_iter_, solver_, report_
        As for `RidgeCV`.

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
    best_score_: float | Array
    cv_results_: CVResults

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012  (scikit-learn's way)
        "alphas": ["array-like", Interval(Real, 0, None, closed="neither"), None],
        "fit_intercept": ["boolean"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "cv": ["cv_object"],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "store_cv_results": ["boolean"],
        "choice": [StrOptions({CHOICE_BEST, CHOICE_ONE_STD_ERROR})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "memory_budget": [Interval(Real, 0, None, closed="neither"), str, None],
        "checkpoint": [str, Path, None],
        "verbose": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        alphas: Any = None,
        *,
        fit_intercept: bool = True,
        scoring: Any = None,
        cv: Any = None,
        class_weight: Any = None,
        store_cv_results: bool = False,
        choice: str = CHOICE_BEST,
        tol: float = 1e-4,
        random_state: Any = None,
        memory_budget: float | str | None = None,
        checkpoint: str | Path | None = None,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.cv = cv
        self.class_weight = class_weight
        self.store_cv_results = store_cv_results
        self.choice = choice
        self.tol = tol
        self.random_state = random_state
        self.memory_budget = memory_budget
        self.checkpoint = checkpoint
        self.verbose = verbose

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> Self:
        """Choose alpha and fit to X (n_samples, n_features) and classes y."""
        check_store_cv_results(self)
        with rollback_on_error(self, X, y, sample_weight):
            X, y, Y, weights, decision = self._prepare_training_data(X, y, sample_weight)
            to_scorer, to_splitter = route_fit_params(self, weights, params)
            splits = make_splits(self, X, y, to_splitter)
            scoring = self._make_scoring(X, y, Y, weights, to_scorer, decision)
            with checkpoint_session(self, X, Y, weights, splits) as (X, settings):
                chosen = fit_with_cv(self, X, Y, weights, splits, scoring, settings)
            set_fit_attributes(self, chosen.fit, 2)
            self._set_label_decoder(decision)
            set_cv_attributes(self, chosen, 2, X.dtype)
        warn_about_choice(self, chosen.results)
        warn_unless_certified(self, chosen.fit, settings)
        return self

    def _make_scoring(
        self, X: Any, y: Any, Y: Array, weights: Array | None, parameters: dict[str, Any],
        decision: LabelDecoder,
    ) -> Scoring:  # fmt: skip
        if self.scoring is None and self.cv is None:
            return NegMeanSquaredError(Y, weights)
        call = get_scorer("accuracy") if self.scoring is None else self._check_scorer()
        if self.scoring in (None, "accuracy") and not decision.is_multilabel:
            loss = Accuracy(parameters.get("sample_weight"), Y)
            return MeanScore(call, y, decision, score_params=parameters, loss=loss)
        looked_at = None if is_prediction_scorer(call) else X
        return SklearnScorer(call, y, decision, looked_at, False, parameters)
