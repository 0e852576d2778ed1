"""Out-of-sample predictions of a fitted model: each sample predicted by fits that left it out."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from ling._typing import Array
from ling.errors import InputTypeError, ShapeError
from ling.estimators.classifier import BaseRidgeClassifier, RidgeClassifier, RidgeClassifierCV
from ling.estimators.cv_fit import check_split_weights, check_two_samples, plan_cv
from ling.estimators.cv_memory import CVNeeds, choice_memory_error
from ling.estimators.fit import fit_options
from ling.estimators.fit_session import as_fitted, fitted_alpha
from ling.estimators.ling_estimators import LingRegressor
from ling.estimators.memory_checks import plan_training
from ling.estimators.metadata import make_splits
from ling.estimators.parameter_validation import check_alpha_per_target
from ling.estimators.ridge import Ridge
from ling.estimators.ridge_cv import RidgeCV
from ling.estimators.validation import (
    training_data,
)
from ling.linalg.tridiagonal import HouseholderTridiagonal
from ling.model_selection import CVProblem, HeldOutPredictor, Splits
from ling.model_selection.splits import RowIndices
from ling.model_selection.strategy import CVStrategy
from ling.solvers.planning import Plan
from ling.solvers.problem import TrainingData, build_problem

# Number of folds for models that have no `cv` parameter.
# Relative error of certified held-out predictions, in units of tol.
HELD_OUT_TOL_FACTOR = 100.0
N_DEFAULT_FOLDS = 5


@dataclass(frozen=True, eq=False)
class FittedProblem:
    """A fitted model with its training data, validated and rebuilt as a problem.

    `y` is as the user gave it; `cv_problem.Y` (n, t) are the numeric targets. `alphas` (t,) are the
    model's, one for each column of Y, in the units of the data.
    """

    model: Any
    data: TrainingData
    y: Any
    cv_problem: CVProblem
    alphas: Array
    plan: Plan

    @property
    def is_out_of_core(self) -> bool:
        """True if X is read or computed anew in every pass."""
        return self.data.design.is_out_of_core

    @property
    def spread(self) -> Array:
        """Weighted standard deviations (p,) of the columns of X, about 0 without an intercept."""
        standardization = self.cv_problem.standardization
        norms = self.cv_problem.problem.column_norms * standardization.x_scale
        return np.asarray(norms / np.sqrt(standardization.total_weight))

    def select_targets(self, targets: Sequence[int]) -> CVProblem:
        """The problem with only the targets of these column indices; results for X are shared."""
        columns, samples = list(targets), self.cv_problem
        problem, standardization = samples.problem, samples.standardization
        problem = replace(
            problem, targets=problem.targets[:, columns], known_moments=problem.moments[:, columns],
            alphas=problem.alphas[columns], raw_target_norms=problem.raw_target_norms[columns],
        )  # fmt: skip
        standardization = replace(
            standardization,
            y_mean=standardization.y_mean[columns],
            y_scale=standardization.y_scale[columns],
        )
        return replace(
            samples, problem=problem, standardization=standardization, Y=samples.Y[:, columns]
        )


@dataclass(frozen=True, eq=False)
class OutOfSample:
    """Out-of-sample predictions (n, t), with NaN in rows of samples that no split left out.

    For a classifier they are decision values. `how` describes how samples were left out.
    `certified` says whether the fits are certified; with positive=True and for LING it is always
    True, and fits that are not certified warn instead. `notes` say what differs from the model's
    own cross-validation. `gram_form` is the tridiagonal form of X'X, if it was computed.
    """

    predictions: Array
    how: str
    certified: bool
    notes: tuple[str, ...] = ()
    gram_form: HouseholderTridiagonal | None = None

    @cached_property
    def rows(self) -> RowIndices:
        """Indices of the samples that some split left out, i.e. that have predictions."""
        return np.flatnonzero(np.isfinite(self.predictions).all(axis=1))


def revalidate_training_data(
    model: Any, X: Any, y: Any = None, sample_weight: Any = None
) -> tuple[TrainingData, Any]:
    """Validated data and y with the columns of the fit, and classes as -1 and 1.

    The model is not changed.
    """
    if isinstance(model, BaseRidgeClassifier):
        return model._revalidate_training_data(X, y, sample_weight)
    return training_data(model, X, y, sample_weight, y_numeric=True, reset=False)


def rebuild_problem(model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> FittedProblem:
    """Validate the training data of a fitted model and rebuild the problem that it solved.

    X, y and sample_weight have to be those of the fit. Costs one pass over X. The model is not
    changed.
    """
    model = as_fitted(model)
    if not isinstance(model, Ridge | RidgeCV | RidgeClassifier | RidgeClassifierCV | LingRegressor):
        raise model_type_error(
            model,
            "ling.Ridge, ling.RidgeCV, ling.RidgeClassifier, ling.RidgeClassifierCV or "
            "ling.LingRegressor",
        )
    check_is_fitted(model, "coef_")
    data, y = revalidate_training_data(model, X, y, sample_weight)
    _check_same_data(model, data)
    alphas = check_alpha_per_target(fitted_alpha(model), data.n_targets)
    fit_intercept = bool(model.fit_intercept)
    problem, standardization = build_problem(data, alphas, fit_intercept)
    plan = plan_training(data, 1, fit_options(model))
    samples = CVProblem.from_problem(problem, standardization, data, fit_intercept, plan.memory)
    return FittedProblem(model, data, y, samples, alphas, plan)


def predict_held_out(fitted_problem: FittedProblem) -> OutOfSample:
    """Predict every sample by fits with the model's alpha that were not trained on it.

    Samples are left out as in the model's own `cv`. For cv=None single samples are left out if that
    can be done exactly, and folds otherwise. Models without `cv` get five folds, stratified for a
    classifier. The rows are shuffled before they are split into folds, unless X is out of core.
    Costs as much as cross-validation of one alpha. LING is fitted anew for every fold.
    """
    model, samples = fitted_problem.model, fitted_problem.cv_problem
    rng = np.random.default_rng(0)
    splits, notes = _model_splits(fitted_problem)
    if isinstance(model, LingRegressor) or getattr(model, "positive", False):
        folds = _default_folds(fitted_problem) if splits is None else splits
        check_split_weights(folds, samples)
        predictions = _average_predictions(
            samples.Y.shape, _refit_predictions(fitted_problem, folds)
        )
        return OutOfSample(predictions, _describe_splits(folds), True, notes)
    strategies = plan_cv(model, samples, splits, fitted_problem.alphas, fitted_problem.plan, rng)
    if splits is None and not strategies[0].is_direct:
        splits = _default_folds(fitted_problem)
        notes = ("Leave-one-out was estimated for the choice of alpha, not done.",)
        strategies = plan_cv(
            model, samples, splits, fitted_problem.alphas, fitted_problem.plan, rng
        )
    distinct_alphas = samples.problem.distinct_alphas
    predictor = _run_strategies(strategies, distinct_alphas)
    if predictor is None:
        needs = CVNeeds(
            fit_options(model), None if splits is None else len(splits),
            has_zero_alpha=not distinct_alphas.all(),
        )  # fmt: skip
        raise choice_memory_error(
            fitted_problem.data, fitted_problem.plan, needs, "predicting held-out samples"
        )
    parts = list(_split_predictions(fitted_problem, predictor, distinct_alphas))
    predictions = _average_predictions(
        samples.Y.shape, ((rows, predicted) for rows, predicted, _ in parts)
    )
    certified = all(is_certified for _, _, is_certified in parts)
    return OutOfSample(predictions, _describe_splits(splits), certified, notes, predictor.gram_form)


def model_type_error(model: Any, expected: str) -> InputTypeError:
    """Error about a `model` that is none of the `expected` ones, but may have one inside."""
    inside = ""
    if hasattr(model, "steps"):
        inside = ": the last step of this pipeline, pipeline[-1] (and X as pipeline[:-1] makes it)"
    elif hasattr(model, "best_estimator_"):
        inside = ": the best_estimator_ of this search, or its last step"
    return InputTypeError(
        "model", f"is a {type(model).__name__}", f"pass a fitted {expected}{inside}"
    )


def _check_same_data(model: Any, data: TrainingData) -> None:
    """Raise ShapeError unless X and y have as many rows and targets as in the fit."""
    n, n_fitted = data.design.shape[0], model.report_.shape[0]
    # n_samples_seen_ does not count samples of weight 0.
    if hasattr(model, "n_samples_seen_") and data.weights is not None:
        n = int(np.count_nonzero(data.weights))
    if n != n_fitted:
        raise ShapeError(
            "X",
            f"has {n} rows, and the model was fitted to {n_fitted}",
            "pass `X` and `y` as they were in the fit",
        )
    n_targets = np.atleast_2d(model.coef_).shape[0]
    if data.n_targets != n_targets:
        raise ShapeError(
            "y",
            f"has {data.n_targets} targets, and the model was fitted to {n_targets}",
            "pass `y` as it was in the fit",
        )


def _model_splits(fitted_problem: FittedProblem) -> tuple[Splits | None, tuple[str, ...]]:
    """Splits of the model (None: leave-one-out), and notes if the splits of the fit may differ."""
    model = fitted_problem.model
    if not hasattr(model, "cv"):
        return _default_folds(fitted_problem), ()
    model_copy = copy.copy(model)
    if not isinstance(model.cv, Iterator):
        # Splitting must not advance the random state of the model's own splitter.
        model_copy.cv = copy.deepcopy(model.cv)
    try:
        return make_splits(
            model_copy, fitted_problem.data.X, fitted_problem.y, {}
        ), _random_splits_note(model.cv)
    except ValueError as error:
        # The splitter needs groups, or cv was an iterator that is exhausted.
        why = f"The splits of the model's cv could not be made again: {error}"
        return _default_folds(fitted_problem), (why,)


def _random_splits_note(cv: Any) -> tuple[str, ...]:
    """A note if the splitter shuffles without a fixed seed: its splits cannot be repeated."""
    shuffles = getattr(cv, "shuffle", "Shuffle" in type(cv).__name__)
    if not shuffles or isinstance(getattr(cv, "random_state", 0), int):
        return ()
    return ("The model's cv is random: these splits are not those that alpha was chosen by.",)


def _default_folds(fitted_problem: FittedProblem) -> Splits:
    """`N_DEFAULT_FOLDS` folds, or fewer if there are too few samples.

    They are stratified for a classifier unless a class has only one sample. Rows are shuffled with
    a fixed seed unless X is out of core.
    """
    n, y = fitted_problem.cv_problem.shape[0], fitted_problem.y
    check_two_samples(fitted_problem.cv_problem)
    shuffle_options: dict[str, Any] = (
        {} if fitted_problem.is_out_of_core else {"shuffle": True, "random_state": 0}
    )
    placeholder = np.broadcast_to(0.0, (n, 1))
    if is_classifier(fitted_problem.model) and np.ndim(y) == 1:
        min_class_size = int(np.unique(y, return_counts=True)[1].min())
        if min_class_size > 1:
            return Splits.from_pairs(
                StratifiedKFold(min(N_DEFAULT_FOLDS, min_class_size), **shuffle_options).split(
                    placeholder, y
                ),
                n,
            )
    if fitted_problem.is_out_of_core:
        return Splits.consecutive_folds(n, min(N_DEFAULT_FOLDS, n))
    return Splits.from_pairs(
        KFold(min(N_DEFAULT_FOLDS, n), **shuffle_options).split(placeholder), n
    )


def _describe_splits(splits: Splits | None) -> str:
    """How samples are left out, for reports; None is leave-one-out."""
    if splits is None:
        return "exact leave-one-out"
    if splits.test_fold is not None and (splits.test_fold >= 0).all():
        return f"{len(splits)}-fold cross-validation"
    return f"{len(splits)} split{'s' if len(splits) > 1 else ''}"


def _run_strategies(strategies: list[CVStrategy], alphas: Array) -> HeldOutPredictor | None:
    """Predictor of the first strategy that does not give up.

    None if none has enough memory to certify all alphas.
    """
    for strategy in strategies:
        predictor = strategy.predictor
        if predictor.is_iterated:
            predictor.refine(alphas)
        is_memory_too_small = predictor.is_memory_exhausted and not predictor.is_refined(alphas)
        if not predictor.gave_up and not is_memory_too_small:
            return predictor
    return None


def _split_predictions(
    fitted_problem: FittedProblem, predictor: HeldOutPredictor, distinct_alphas: Array
) -> Iterator[tuple[RowIndices, Array, bool]]:
    """Yield (test rows, predictions (n_test, t), whether they are certified) for each split.

    Every target has its own alpha. The predictor yields predictions for one of the sorted
    `distinct_alphas` after the other; the columns that use this alpha are collected. They are
    certified if they are proved to be within HELD_OUT_TOL_FACTOR tol of exact ones, relative to
    the spread of y.
    """
    samples = fitted_problem.cv_problem
    alpha_index = np.searchsorted(distinct_alphas, samples.problem.alphas)
    predicted, norms = np.empty((0, len(alpha_index))), np.empty(len(alpha_index))
    tol = HELD_OUT_TOL_FACTOR * float(fitted_problem.model.tol)
    spread = samples.problem.target_norms * samples.standardization.y_scale
    for split, index, held_out in predictor.predictions(distinct_alphas):
        if index == 0:
            predicted = np.empty_like(held_out.predictions)
        predicted[:, alpha_index == index] = held_out.predictions[:, alpha_index == index]
        norms[alpha_index == index] = held_out.bounds[alpha_index == index]
        if index == len(distinct_alphas) - 1:
            yield predictor.test_rows(split), predicted, bool((norms <= tol * spread).all())


def _refit_predictions(
    fitted_problem: FittedProblem, splits: Splits
) -> Iterator[tuple[RowIndices, Array]]:
    """Yield (test rows, predictions) for LING and positive=True: a separate fit per split."""
    samples = fitted_problem.cv_problem
    X = fitted_problem.data.design
    Y = samples.to_data_units(samples.Y.copy())
    for number in range(len(splits)):
        train, test = splits.train_rows(number), splits.test_rows(number)
        fit = _unfitted_model(fitted_problem)
        fit.fit(X.subset(train), Y[train], samples.weights[train])
        yield test, fit.predict(X.subset(test)).reshape(len(test), -1)


def _unfitted_model(fitted_problem: FittedProblem) -> Ridge | LingRegressor:
    """A model with the parameters of the fitted one, and an alpha for each column of Y."""
    model, alphas = fitted_problem.model, fitted_problem.alphas
    if isinstance(model, LingRegressor):
        unfitted: LingRegressor = clone(model).set_params(alpha=alphas)
        return unfitted
    return Ridge(
        alpha=alphas,
        positive=True,
        fit_intercept=model.fit_intercept,
        tol=model.tol,
        memory_budget=model.memory_budget,
    )


def _average_predictions(
    shape: tuple[int, ...], parts: Iterator[tuple[RowIndices, Array]]
) -> Array:
    """Predictions of the given shape (n, t), averaged over the splits that left a sample out.

    Rows of samples that were never left out are NaN.
    """
    total, count = np.zeros(shape), np.zeros(shape[0])
    for rows, predicted in parts:
        total[rows] += predicted
        count[rows] += 1
    total[count == 0] = np.nan
    return np.asarray(np.divide(total, count[:, None], out=total, where=count[:, None] > 0))
