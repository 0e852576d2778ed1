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

from ling import problem as problems
from ling.design import Array, as_design
from ling.design.affine import storage_and_map
from ling.errors import BadOption, WrongShape, WrongType
from ling.estimators.choosing import refuse_weightless, routes_for
from ling.estimators.classifier import Classifying
from ling.estimators.fitting import Settings, plan_for
from ling.estimators.inputs import alphas_of, checked_data, targets_of, weights_of
from ling.estimators.ridge import Ridge
from ling.estimators.ridge_cv import RidgeCV
from ling.estimators.routing import splits_of
from ling.planning import Plan
from ling.selection import Samples, Splits, Validation
from ling.selection.route import Route
from ling.selection.splits import Rows

# Folds for models that have no cv of their own.
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Revisited:
    """A fitted model, and the data it was fitted to as a problem; `y` is as it was given.

    `alphas` are the model's, one for each column of Y, in the units of the data.
    """

    model: Any
    X: Any
    y: Any
    samples: Samples
    alphas: Array
    plan: Plan

    @cached_property
    def by_blocks(self) -> bool:
        """Whether X is read, or computed, anew in every pass."""
        return storage_and_map(as_design(self.X))[0].by_blocks

    @property
    def is_read(self) -> bool:
        """Whether X is from storage, even if all of it is held once it has been read."""
        return storage_and_map(as_design(self.X))[0].taken > 0

    @property
    def spread(self) -> Array:
        """Standard deviations of the columns of X, weighted; without an intercept, around 0."""
        centring = self.samples.centring
        norms = self.samples.problem.column_norms * centring.x_unit
        return np.asarray(norms / np.sqrt(centring.mass))

    def only(self, targets: Sequence[int]) -> Samples:
        """The samples with some of the targets; what was made of X is shared."""
        some, samples = list(targets), self.samples
        problem, centring = samples.problem, samples.centring
        problem = replace(
            problem, targets=problem.targets[:, some], moments=problem.moments[:, some],
            alphas=problem.alphas[some], raw_spread=problem.raw_spread[some],
        )  # fmt: skip
        centring = replace(centring, y_mean=centring.y_mean[some], y_unit=centring.y_unit[some])
        return replace(samples, problem=problem, centring=centring, Y=samples.Y[:, some])


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
    def rows(self) -> Rows:
        """The samples that have been left out."""
        return np.flatnonzero(np.isfinite(self.predictions).all(axis=1))


def revisit(model: Any, X: Any, y: Any, sample_weight: Any = None) -> Revisited:
    """The model with the X, y and weights that it was fitted to; one pass, the model unchanged."""
    if not isinstance(model, Ridge | RidgeCV | Classifying):
        raise WrongType(
            f"model is a {type(model).__name__}; pass a fitted Ridge, RidgeCV, RidgeClassifier or "
            "RidgeClassifierCV of ling's (of a pipeline, its last step and its X)."
        )
    check_is_fitted(model, "coef_")
    if isinstance(model, Classifying):
        X, y, Y, weights = model._prepared_again(X, y, sample_weight)
    else:
        X, y = checked_data(model, X, y, sample_weight, y_numeric=True, reset=False)
        Y, weights = targets_of(y), weights_of(sample_weight, X)
    _refuse_other_data(model, X, Y, weights)
    alphas = alphas_of(getattr(model, "alpha_", getattr(model, "alpha", None)), Y.shape[1])
    fit_intercept = bool(model.fit_intercept)
    problem, centring = problems.build(X, Y, alphas, weights, fit_intercept)
    plan = plan_for(as_design(X), Y.shape[1], 1, Settings.of(model))
    samples = Samples.of(problem, centring, Y, weights, fit_intercept, plan.memory_budget)
    return Revisited(model, X, y, samples, alphas, plan)


def held_out(again: Revisited) -> HeldOut:
    """Predictions of every sample by a fit, with the model's alpha, that has not seen it.

    Left out as by the model's own `cv`: single samples for cv=None, where that can be done exactly.
    Models without one have five folds, stratified for a classifier; of rows in a random order, or
    in that of the data where it is read. Costs what the cross-validation of one alpha does.
    """
    model, samples = again.model, again.samples
    rng = np.random.default_rng(0)
    splits, notes = _splits(again)
    if getattr(model, "positive", False):
        folds = _folds(again) if splits is None else splits
        refuse_weightless(folds, samples)
        predictions = _averaged(samples.Y.shape, _refitted(again, folds))
        return HeldOut(predictions, _words(folds), True, notes)
    routes = routes_for(model, samples, splits, again.alphas, again.plan, rng)
    if splits is None and not routes[0].direct:
        splits = _folds(again)
        notes = ("Leave-one-out was estimated for the choice of alpha, not done.",)
        routes = routes_for(model, samples, splits, again.alphas, again.plan, rng)
    distinct = samples.problem.distinct_alphas
    validation = _worked(routes, distinct)
    predictions = _averaged(samples.Y.shape, _predicted(again, validation, distinct))
    certified = bool(validation.certified(distinct).all())
    return HeldOut(predictions, _words(splits), certified, notes)


def _refuse_other_data(model: Any, X: Any, Y: Array, weights: Array | None) -> None:
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


def _splits(again: Revisited) -> tuple[Splits | None, tuple[str, ...]]:
    """Those of the model, None to leave out single samples; and what to say if they are others."""
    model = again.model
    if not hasattr(model, "cv"):
        return _folds(again), ()
    probe = copy.copy(model)
    if not isinstance(model.cv, Iterator):  # random states of a splitter's are not to move on
        probe.cv = copy.deepcopy(model.cv)
    try:
        return splits_of(probe, again.X, again.y, {}), _randomness(model.cv)
    except ValueError as error:  # a splitter that wants groups, or splits that were there only once
        why = f"The splits of the model's cv could not be made again: {error}"
        return _folds(again), (why,)


def _randomness(cv: Any) -> tuple[str, ...]:
    """What to say of a splitter that gives other splits each time it is asked."""
    shuffles = getattr(cv, "shuffle", "Shuffle" in type(cv).__name__)
    if not shuffles or isinstance(getattr(cv, "random_state", 0), int):
        return ()
    return ("The model's cv is random: these splits are not those that alpha was chosen by.",)


def _folds(again: Revisited) -> Splits:
    """Five, or as many as the samples allow."""
    n, y = again.samples.shape[0], again.y
    if n < 2:
        raise BadOption("there is one sample, and none to learn from when it is left out.")
    order: dict[str, Any] = {} if again.by_blocks else {"shuffle": True, "random_state": 0}
    rows = np.broadcast_to(0.0, (n, 1))
    if is_classifier(again.model) and np.ndim(y) == 1:
        rarest = int(np.unique(y, return_counts=True)[1].min())
        if rarest > 1:
            return Splits.of(StratifiedKFold(min(FOLDS, rarest), **order).split(rows, y), n)
    if again.by_blocks:
        return Splits.in_turn(n, min(FOLDS, n))
    return Splits.of(KFold(min(FOLDS, n), **order).split(rows), n)


def _words(splits: Splits | None) -> str:
    if splits is None:
        return "exact leave-one-out"
    if splits.tested_by is not None and (splits.tested_by >= 0).all():
        return f"{len(splits)}-fold cross-validation"
    return f"{len(splits)} split{'s' if len(splits) > 1 else ''}"


def _worked(routes: list[Route], alphas: Array) -> Validation:
    """The first way that gets there; the last does not give up."""
    for route in routes:
        validation = route.validation
        validation.work(alphas)
        if not validation.gave_up:
            break
    if validation.full and not validation.certified(alphas).all():
        n, p = validation.samples.shape
        raise BadOption(
            f"memory_budget is too small to predict samples that are left out, for {n} x {p}; "
            "raise it several times."
        )
    return validation


def _predicted(
    again: Revisited, validation: Validation, distinct: Array
) -> Iterator[tuple[Rows, Array]]:
    """Test samples of each split, and predictions for them, every target with its own alpha."""
    which = np.searchsorted(distinct, again.samples.problem.alphas)
    found = np.empty((0, len(which)))
    for split, at, P in validation.predictions(distinct):
        if at == 0:
            found = np.empty_like(P)
        found[:, which == at] = P[:, which == at]
        if at == len(distinct) - 1:
            yield validation.test(split), found


def _refitted(again: Revisited, splits: Splits) -> Iterator[tuple[Rows, Array]]:
    """The same where coefficients are kept >= 0: fits of their own."""
    model, samples = again.model, again.samples
    X = as_design(again.X)
    Y = samples.in_units(samples.Y.copy())
    for number in range(len(splits)):
        train, test = splits.train(number), splits.test(number)
        fit = Ridge(
            alpha=again.alphas, positive=True, fit_intercept=model.fit_intercept, tol=model.tol,
            memory_budget=model.memory_budget, statistics=False,
        )  # fmt: skip
        fit.fit(X.subset(train), Y[train], samples.weights[train])
        yield test, fit.predict(X.subset(test)).reshape(len(test), -1)


def _averaged(shape: tuple[int, ...], parts: Iterator[tuple[Rows, Array]]) -> Array:
    """For samples that are left out more than once, the mean."""
    total, count = np.zeros(shape), np.zeros(shape[0])
    for rows, found in parts:
        total[rows] += found
        count[rows] += 1
    total[count == 0] = np.nan
    return np.asarray(np.divide(total, count[:, None], out=total, where=count[:, None] > 0))
