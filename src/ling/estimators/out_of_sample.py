"""A fitted model and its data, looked at again: predictions for samples that were left out."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from ling._typing import Array
from ling.design import as_design
from ling.design.affine import storage_and_map
from ling.errors import BadOption, WrongShape, WrongType
from ling.estimators.classifier import BaseRidgeClassifier
from ling.estimators.cv_fit import check_split_weights, plan_cv
from ling.estimators.fit import FitOptions, plan_for
from ling.estimators.metadata import make_splits
from ling.estimators.ridge import Ridge
from ling.estimators.ridge_cv import RidgeCV
from ling.estimators.validation import (
    as_target_matrix,
    check_alpha_per_target,
    check_sample_weight,
    check_training_data,
)
from ling.model_selection import CVProblem, HeldOutPredictor, Splits
from ling.model_selection.splits import RowIndices
from ling.model_selection.strategy import CVStrategy
from ling.solvers import problem as problems
from ling.solvers.planning import Plan

# Folds for models that have no cv of their own.
N_DEFAULT_FOLDS = 5


@dataclass(frozen=True, eq=False)
class FittedProblem:
    """A fitted model, and the data it was fitted to as a problem; `y` is as it was given.

    `alphas` are the model's, one for each column of Y, in the units of the data.
    """

    model: Any
    X: Any
    y: Any
    cv_problem: CVProblem
    alphas: Array
    plan: Plan

    @cached_property
    def is_out_of_core(self) -> bool:
        """Whether X is read, or computed, anew in every pass."""
        return storage_and_map(as_design(self.X))[0].is_out_of_core

    @property
    def is_from_storage(self) -> bool:
        """Whether X is from storage, even if all of it is held once it has been read."""
        return storage_and_map(as_design(self.X))[0].resident_bytes > 0

    @property
    def spread(self) -> Array:
        """Standard deviations of the columns of X, weighted; without an intercept, around 0."""
        standardization = self.cv_problem.standardization
        norms = self.cv_problem.problem.column_norms * standardization.x_scale
        return np.asarray(norms / np.sqrt(standardization.total_weight))

    def select_targets(self, targets: Sequence[int]) -> CVProblem:
        """The samples with some of the targets; what was made of X is shared."""
        some, samples = list(targets), self.cv_problem
        problem, standardization = samples.problem, samples.standardization
        problem = replace(
            problem, targets=problem.targets[:, some], moments=problem.moments[:, some],
            alphas=problem.alphas[some], raw_target_norms=problem.raw_target_norms[some],
        )  # fmt: skip
        standardization = replace(
            standardization,
            y_mean=standardization.y_mean[some],
            y_scale=standardization.y_scale[some],
        )
        return replace(
            samples, problem=problem, standardization=standardization, Y=samples.Y[:, some]
        )


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions (n, t) by fits that had not seen the sample, NaN where it was never left out.

    For a classifier they are decision values. `how` says how samples were left out, and `notes`
    what differs from the model's own cross-validation.
    """

    predictions: Array
    how: str
    certified: bool
    notes: tuple[str, ...] = ()

    @cached_property
    def rows(self) -> RowIndices:
        """The samples that have been left out."""
        return np.flatnonzero(np.isfinite(self.predictions).all(axis=1))


def rebuild_problem(model: Any, X: Any, y: Any, sample_weight: Any = None) -> FittedProblem:
    """The model with the X, y and weights that it was fitted to; one pass, the model unchanged."""
    if not isinstance(model, Ridge | RidgeCV | BaseRidgeClassifier):
        raise WrongType(
            f"model is a {type(model).__name__}; pass a fitted Ridge, RidgeCV, RidgeClassifier or "
            "RidgeClassifierCV of ling's (of a pipeline, its last step and its X)."
        )
    check_is_fitted(model, "coef_")
    if isinstance(model, BaseRidgeClassifier):
        X, y, Y, weights = model._revalidate_training_data(X, y, sample_weight)
    else:
        X, y = check_training_data(model, X, y, sample_weight, y_numeric=True, reset=False)
        Y, weights = as_target_matrix(y), check_sample_weight(sample_weight, X)
    _check_same_data(model, X, Y, weights)
    alphas = check_alpha_per_target(
        getattr(model, "alpha_", getattr(model, "alpha", None)), Y.shape[1]
    )
    fit_intercept = bool(model.fit_intercept)
    problem, standardization = problems.build_problem(X, Y, alphas, weights, fit_intercept)
    plan = plan_for(as_design(X), Y.shape[1], 1, FitOptions.from_estimator(model))
    samples = CVProblem.from_problem(
        problem, standardization, Y, weights, fit_intercept, plan.memory_budget
    )
    return FittedProblem(model, X, y, samples, alphas, plan)


def predict_held_out(fitted_problem: FittedProblem) -> HeldOut:
    """Predictions of every sample by a fit, with the model's alpha, that has not seen it.

    Left out as by the model's own `cv`: single samples for cv=None, where that can be done exactly.
    Models without one have five folds, stratified for a classifier; of rows in a random order, or
    in that of the data where it is read. Costs what the cross-validation of one alpha does.
    """
    model, samples = fitted_problem.model, fitted_problem.cv_problem
    rng = np.random.default_rng(0)
    splits, notes = _model_splits(fitted_problem)
    if getattr(model, "positive", False):
        folds = _default_folds(fitted_problem) if splits is None else splits
        check_split_weights(folds, samples)
        predictions = _average_predictions(
            samples.Y.shape, _refit_predictions(fitted_problem, folds)
        )
        return HeldOut(predictions, _describe_splits(folds), True, notes)
    routes = plan_cv(model, samples, splits, fitted_problem.alphas, fitted_problem.plan, rng)
    if splits is None and not routes[0].is_direct:
        splits = _default_folds(fitted_problem)
        notes = ("Leave-one-out was estimated for the choice of alpha, not done.",)
        routes = plan_cv(model, samples, splits, fitted_problem.alphas, fitted_problem.plan, rng)
    distinct = samples.problem.distinct_alphas
    validation = _run_strategies(routes, distinct)
    predictions = _average_predictions(
        samples.Y.shape, _split_predictions(fitted_problem, validation, distinct)
    )
    certified = bool(validation.certified(distinct).all())
    return HeldOut(predictions, _describe_splits(splits), certified, notes)


def _check_same_data(model: Any, X: Any, Y: Array, weights: Array | None) -> None:
    n, expected = X.shape[0], model.report_.shape[0]
    if hasattr(model, "n_samples_seen_") and weights is not None:  # weights of 0 do not count
        n = int(np.count_nonzero(weights))
    if n != expected:
        raise WrongShape(
            f"X has {n} rows, and the model was fitted to {expected}; pass the X and y of the fit."
        )
    t = np.atleast_2d(model.coef_).shape[0]
    if Y.shape[1] != t:
        raise WrongShape(
            f"y has {Y.shape[1]} targets, and the model was fitted to {t}; pass the y of the fit."
        )


def _model_splits(fitted_problem: FittedProblem) -> tuple[Splits | None, tuple[str, ...]]:
    """Those of the model, None to leave out single samples; and what to say if they are others."""
    model = fitted_problem.model
    if not hasattr(model, "cv"):
        return _default_folds(fitted_problem), ()
    probe = copy.copy(model)
    if not isinstance(model.cv, Iterator):  # random states of a splitter's are not to move on
        probe.cv = copy.deepcopy(model.cv)
    try:
        return make_splits(probe, fitted_problem.X, fitted_problem.y, {}), _random_splits_note(
            model.cv
        )
    except ValueError as error:  # a splitter that wants groups, or splits that were there only once
        why = f"The splits of the model's cv could not be made again: {error}"
        return _default_folds(fitted_problem), (why,)


def _random_splits_note(cv: Any) -> tuple[str, ...]:
    """What to say of a splitter that gives other splits each time it is asked."""
    shuffles = getattr(cv, "shuffle", "Shuffle" in type(cv).__name__)
    if not shuffles or isinstance(getattr(cv, "random_state", 0), int):
        return ()
    return ("The model's cv is random: these splits are not those that alpha was chosen by.",)


def _default_folds(fitted_problem: FittedProblem) -> Splits:
    """Five, or as many as the samples allow."""
    n, y = fitted_problem.cv_problem.shape[0], fitted_problem.y
    if n < 2:
        raise BadOption("there is one sample, and none to learn from when it is left out.")
    order: dict[str, Any] = (
        {} if fitted_problem.is_out_of_core else {"shuffle": True, "random_state": 0}
    )
    rows = np.broadcast_to(0.0, (n, 1))
    if is_classifier(fitted_problem.model) and np.ndim(y) == 1:
        rarest = int(np.unique(y, return_counts=True)[1].min())
        if rarest > 1:
            return Splits.from_pairs(
                StratifiedKFold(min(N_DEFAULT_FOLDS, rarest), **order).split(rows, y), n
            )
    if fitted_problem.is_out_of_core:
        return Splits.consecutive_folds(n, min(N_DEFAULT_FOLDS, n))
    return Splits.from_pairs(KFold(min(N_DEFAULT_FOLDS, n), **order).split(rows), n)


def _describe_splits(splits: Splits | None) -> str:
    if splits is None:
        return "exact leave-one-out"
    if splits.test_fold is not None and (splits.test_fold >= 0).all():
        return f"{len(splits)}-fold cross-validation"
    return f"{len(splits)} split{'s' if len(splits) > 1 else ''}"


def _run_strategies(routes: list[CVStrategy], alphas: Array) -> HeldOutPredictor:
    """The first way that gets there; the last does not give up."""
    for route in routes:
        validation = route.predictor
        validation.refine(alphas)
        if not validation.gave_up:
            break
    if validation.is_memory_exhausted and not validation.certified(alphas).all():
        n, p = validation.cv_problem.shape
        raise BadOption(
            f"memory_budget is too small to predict samples that are left out, for {n} x {p}; "
            "raise it several times."
        )
    return validation


def _split_predictions(
    fitted_problem: FittedProblem, validation: HeldOutPredictor, distinct: Array
) -> Iterator[tuple[RowIndices, Array]]:
    """Test samples of each split, and predictions for them, every target with its own alpha."""
    which = np.searchsorted(distinct, fitted_problem.cv_problem.problem.alphas)
    found = np.empty((0, len(which)))
    for split, at, P in validation.predictions(distinct):
        if at == 0:
            found = np.empty_like(P)
        found[:, which == at] = P[:, which == at]
        if at == len(distinct) - 1:
            yield validation.test_rows(split), found


def _refit_predictions(
    fitted_problem: FittedProblem, splits: Splits
) -> Iterator[tuple[RowIndices, Array]]:
    """The same where coefficients are kept >= 0: fits of their own."""
    model, samples = fitted_problem.model, fitted_problem.cv_problem
    X = as_design(fitted_problem.X)
    Y = samples.to_data_units(samples.Y.copy())
    for number in range(len(splits)):
        train, test = splits.train_rows(number), splits.test_rows(number)
        fit = Ridge(
            alpha=fitted_problem.alphas,
            positive=True,
            fit_intercept=model.fit_intercept,
            tol=model.tol,
            memory_budget=model.memory_budget,
            statistics=False,
        )
        fit.fit(X.subset(train), Y[train], samples.weights[train])
        yield test, fit.predict(X.subset(test)).reshape(len(test), -1)


def _average_predictions(
    shape: tuple[int, ...], parts: Iterator[tuple[RowIndices, Array]]
) -> Array:
    """For samples that are left out more than once, the mean."""
    total, count = np.zeros(shape), np.zeros(shape[0])
    for rows, found in parts:
        total[rows] += found
        count[rows] += 1
    total[count == 0] = np.nan
    return np.asarray(np.divide(total, count[:, None], out=total, where=count[:, None] > 0))
