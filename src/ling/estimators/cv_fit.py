"""Steps that `RidgeCV` and `RidgeClassifierCV` share: choose alpha, then fit with it."""

from __future__ import annotations

import logging
import time
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning

from ling._typing import Array
from ling.errors import Change, OptionError
from ling.estimators.choice_notes import (
    choice_notes,
    nonfinite_scores_message,
    uncertified_choice_message,
)
from ling.estimators.cv_memory import (
    CVNeeds,
    check_cv_memory,
    choice_memory_error,
    wants_stochastic_gcv,
)
from ling.estimators.fit import FitContext, FitResult, solve_problem
from ling.estimators.memory_checks import plan_training
from ling.linalg.threads import blas_threads_for
from ling.model_selection import (
    CVProblem,
    R2Score,
    ScoredGrid,
    Scoring,
    Splits,
    check_alphas,
    score_alphas,
)
from ling.model_selection.alpha_grid import DEFAULT_N_ALPHAS
from ling.model_selection.cv_scores import proven_gap
from ling.model_selection.score_grid import is_inconclusive, undecided_alphas
from ling.model_selection.strategy import (
    CVStrategy,
    expected_cv_cost,
    k_fold_strategies,
    leave_one_out_strategy,
)
from ling.progress import RemainingWork
from ling.solvers.cv_cost import direct_cv_passes, fold_factorization_bytes
from ling.solvers.engine import as_generator
from ling.solvers.options import FitOptions
from ling.solvers.planning import Plan
from ling.solvers.posterior import dof_rounding
from ling.solvers.problem import Problem, Standardization, TrainingData, build_problem

log = logging.getLogger("ling")
# Multiply-adds of X'X or X X' from which a choice of alpha uses the threads of BLAS. Factorisations
# and predictions alternate between the BLAS of SciPy and that of NumPy, whose threads compete: on
# two cores, five folds of 3,000 x 1,000 took 0.91 s with threads and 0.58 s without, and
# leave-one-out, which alternates less, 0.28 s with and 0.36 s without.
MIN_PARALLEL_FOLD_FLOPS, MIN_PARALLEL_LOO_FLOPS = 4e9, 2e9
SELECT_BEST: Final = "best"
SELECT_ONE_STD_ERROR: Final = "one_standard_error"


@dataclass(frozen=True, eq=False)
class CVFitResult:
    """Result of a fit with cross-validated alpha.

    `alpha_indices` are the positions of the chosen alphas in the grid: a scalar, or (t,) with an
    alpha for each target. `effective_dof` and its errors, both (t,), are None if cross-validation
    does not yield it.
    """

    fit: FitResult
    scored: ScoredGrid
    alpha_indices: NDArray[np.intp]
    problem: Problem
    standardization: Standardization
    effective_dof: Array | None
    effective_dof_error: Array | None


def checked_alphas(model: Any) -> Array | None:
    """`model.alphas` as an array, None for the default grid; raises if they cannot be used."""
    if model.alphas is None:
        return None
    return check_alphas(model.alphas, allow_zero=model.cv is not None)


def fit_with_cv(
    model: Any, data: TrainingData, splits: Splits | None, scoring: Scoring, options: FitOptions,
    user_alphas: Array | None,
) -> CVFitResult:  # fmt: skip
    """Score all alphas, choose one (or one per target), and fit to all samples with it.

    `splits` is None for leave-one-out, and `user_alphas` for the default grid. Raises OptionError
    if memory does not allow a choice.
    """
    started = time.perf_counter()
    plan = plan_training(data, 1, options)
    needs = CVNeeds.of_model(model, splits, scoring, user_alphas, options)
    check_cv_memory(data, plan, needs)
    least = MIN_PARALLEL_LOO_FLOPS if splits is None else MIN_PARALLEL_FOLD_FLOPS
    with blas_threads_for(plan.dimensions.max_blas_flops, least):
        return _choose_and_fit(
            model, data, splits, scoring, options, user_alphas, plan, needs, started
        )


def _choose_and_fit(
    model: Any, data: TrainingData, splits: Splits | None, scoring: Scoring, options: FitOptions,
    user_alphas: Array | None, plan: Plan, needs: CVNeeds, started: float,
) -> CVFitResult:  # fmt: skip
    """Score all alphas, choose, and fit, with the threads that the caller has set."""
    meter = data.design.meter
    meter.begin_stage("prepare", lambda: _expected_cost(model, plan, splits, user_alphas))
    problem, standardization = build_problem(
        data, np.ones(data.n_targets), bool(model.fit_intercept)
    )
    meter.begin_stage("choose alpha")
    samples = CVProblem.from_problem(
        problem, standardization, data, bool(model.fit_intercept), plan.memory
    )
    strategies = plan_cv(
        model, samples, splits, user_alphas, plan, as_generator(options.random_state)
    )
    strategy, scored = _score_alphas(model, samples, strategies, scoring, user_alphas, plan)
    if is_memory_too_small(strategy, scored):
        raise choice_memory_error(data, plan, needs)
    alpha_indices = (
        scored.best if model.selection_rule == SELECT_BEST else scored.one_standard_error
    )
    is_proved = not undecided_alphas(scored).size
    gap = proven_gap(scored.scores, alpha_indices) if is_proved else float("inf")
    scored = replace(scored, scores=replace(scored.scores, gap=gap))
    alphas = scored.scores.alphas
    log.info(
        "alpha %s chosen from %d by %s.",
        np.unique(alphas[alpha_indices]), len(alphas), strategy.method,
    )  # fmt: skip
    return _fit_chosen_alpha(
        model, strategy, scored, scoring, alpha_indices, data, samples, options, started
    )


def _score_alphas(
    model: Any, samples: CVProblem, strategies: list[CVStrategy], scoring: Scoring,
    user_alphas: Array | None, plan: Plan,
) -> tuple[CVStrategy, ScoredGrid]:  # fmt: skip
    """Scores of all alphas by the first strategy that does not give up, and that strategy."""
    # Alphas in the units of the problem, in which the strategies work.
    alpha_scale = samples.standardization.x_scale**2
    scaled_alphas = None if user_alphas is None else user_alphas / alpha_scale
    store = bool(model.store_cv_results)
    for strategy in strategies:
        scored = score_alphas(
            strategy.predictor, scoring, samples.problem, scaled_alphas, strategy.method,
            float(model.tol), store,
        )  # fmt: skip
        if scored is not None and not is_memory_too_small(strategy, scored):
            break
        if strategy is strategies[-1]:
            break
        why = "would have taken longer than factorisations do" if scored is None else "lacks memory"
        log.info("%s %s.", strategy.method, why)
        expect = partial(_remaining_direct, plan, strategy.predictor.n_splits)
        samples.design.meter.begin_stage("choose alpha", expect)
    assert scored is not None  # the last strategy never gives up
    alphas = scored.scores.alphas * alpha_scale if user_alphas is None else user_alphas
    return strategy, replace(scored, scores=replace(scored.scores, alphas=alphas))


def _remaining_direct(plan: Plan, n_splits: int) -> RemainingWork:
    """Predicted passes of direct cross-validation, after an iterative strategy gave up."""
    return direct_cv_passes(plan.dimensions, n_splits), None


def is_memory_too_small(strategy: CVStrategy, scored: ScoredGrid) -> bool:
    """True if a strategy has no memory left and does not know which alpha to choose."""
    return strategy.predictor.is_memory_exhausted and is_inconclusive(scored)


def plan_cv(
    model: Any, samples: CVProblem, splits: Splits | None, alphas: Array | None, plan: Plan,
    rng: np.random.Generator,
) -> list[CVStrategy]:  # fmt: skip
    """Cross-validation strategies in order of preference: the first that does not give up is used.

    `splits` is None for leave-one-out, and `alphas` is None for the default grid. For an alpha of
    0 only direct strategies remain.
    """
    if splits is None:
        check_two_samples(samples)
        return [leave_one_out_strategy(samples, plan, model.tol, rng, wants_stochastic_gcv(model))]
    check_split_weights(splits, samples)
    strategies = k_fold_strategies(samples, splits, alphas, plan, model.tol, rng)
    if alphas is None or alphas.all():
        return strategies
    return [strategy for strategy in strategies if strategy.is_direct]


def _expected_cost(
    model: Any, plan: Plan, splits: Splits | None, user_alphas: Array | None
) -> RemainingWork:
    """Predicted passes and seconds of the choice of alpha and the final fit."""
    n_alphas = DEFAULT_N_ALPHAS if user_alphas is None else len(user_alphas)
    n_splits = None if splits is None else len(splits)
    return expected_cv_cost(plan, n_splits, n_alphas, wants_stochastic_gcv(model))


def _fit_chosen_alpha(
    model: Any, strategy: CVStrategy, scored: ScoredGrid, scoring: Scoring,
    alpha_indices: NDArray[np.intp], data: TrainingData, samples: CVProblem, options: FitOptions,
    started: float,
) -> CVFitResult:  # fmt: skip
    """Fit to all samples with the chosen alphas; notes in the report say how they were chosen."""
    problem, standardization = samples.problem, samples.standardization
    chosen_alphas = scored.scores.alphas[alpha_indices]
    target_alphas = np.broadcast_to(chosen_alphas, samples.n_targets) / standardization.x_scale**2
    problem = replace(problem, alphas=np.ascontiguousarray(target_alphas))
    reason, find_candidate = "", None
    if strategy.is_direct:
        options = replace(options, solver="direct", precision="float64")
        reason = "Gram matrix of cross-validation"
        find_candidate = strategy.predictor.final_fit
    notes = choice_notes(model, scored, scoring)
    plan = plan_training(data, len(problem.distinct_alphas), options)
    n_bytes = _scoring_bytes(strategy, samples)
    context = FitContext(
        started, (*notes, *data.notes), "choose alpha", reason, preparation_bytes=n_bytes
    )
    fit = solve_problem(
        problem, standardization, plan, options, context, bool(model.fit_intercept),
        find_candidate=find_candidate,
    )  # fmt: skip
    dof, dof_error = _chosen_dof(strategy, problem)
    return CVFitResult(fit, scored, alpha_indices, problem, standardization, dof, dof_error)


def _scoring_bytes(strategy: CVStrategy, samples: CVProblem) -> float:
    """Bytes without which alphas cannot be scored: arrays of all rows, and factorisations."""
    factors = fold_factorization_bytes(*samples.shape) if strategy.is_direct else 0.0
    return samples.vector_bytes + factors


def check_store_cv_results(model: Any) -> None:
    """Raise if store_cv_results=True is combined with a cv, as scikit-learn does."""
    if model.cv is not None and model.store_cv_results:
        raise OptionError(
            "store_cv_results",
            # The words of scikit-learn, which its tests look for.
            "cv!=None and `store_cv_results`=True are incompatible",
            Change(
                "store_cv_results",
                False,
                "and use cv_scores_.split_scores, which has the scores of all splits",
            ),
        )


def set_cv_attributes(model: Any, chosen: CVFitResult, n_dim: int, dtype: np.dtype[Any]) -> None:
    """Set the attributes that a choice of alpha adds to those of `set_fit_attributes`.

    They are `alpha_`, `alpha_1se_`, `alphas_`, `best_score_` and `cv_scores_`; with stored values
    per sample also `cv_results_`. `n_dim` is the number of dimensions of y; `dtype` is that of the
    values per sample.
    """
    scores, values = chosen.scored.scores, chosen.scored.sample_values
    model.cv_scores_ = scores
    model.alphas_ = scores.alphas
    model.alpha_ = _as_float_if_scalar(scores.alphas[chosen.alpha_indices])
    model.alpha_1se_ = _as_float_if_scalar(scores.alphas[chosen.scored.one_standard_error])
    indices = np.expand_dims(chosen.alpha_indices, 0)
    model.best_score_ = _as_float_if_scalar(np.take_along_axis(scores.mean_score, indices, 0)[0])
    vars(model).pop("cv_results_", None)  # of an earlier fit
    if values is not None:
        model.cv_results_ = (values[:, 0] if n_dim == 1 else values).astype(dtype, copy=False)


def _as_float_if_scalar(value: Array) -> Any:
    """A float for a scalar array; any other array unchanged."""
    return float(value) if np.ndim(value) == 0 else value


def warn_about_choice(model: Any, chosen: CVFitResult, scoring: Scoring) -> None:
    """Warn about scores that are not finite, and about a choice of alpha that is not certified.

    `fit` has to call this directly: `stacklevel` makes warnings point at the caller of `fit`.
    """
    scores = chosen.scored.scores
    if isinstance(scoring, R2Score) and np.isnan(scores.split_scores).any():
        message = "R^2 score is not well-defined with less than two samples."
        warnings.warn(message, UndefinedMetricWarning, stacklevel=5)
    message = nonfinite_scores_message(scores)
    if message:
        warnings.warn(message, UserWarning, stacklevel=5)
    message = uncertified_choice_message(chosen.scored)
    if message:
        warnings.warn(f"{type(model).__name__}: {message}", ConvergenceWarning, stacklevel=5)


def _chosen_dof(strategy: CVStrategy, problem: Problem) -> tuple[Array | None, Array | None]:
    """Effective degrees of freedom (t,) of the chosen alphas, and their errors, if they are known.

    The errors include that of rounding.
    """
    distinct_alphas = problem.distinct_alphas
    dof_and_error = strategy.predictor.effective_dof(distinct_alphas)
    if dof_and_error is None:
        return None, None
    indices = np.searchsorted(distinct_alphas, problem.alphas)
    dof, error = (values[indices] for values in dof_and_error)
    return dof, error + dof_rounding(problem, dof)


def check_two_samples(samples: CVProblem) -> None:
    """Raise unless at least two samples have a weight above 0, so that one can be left out."""
    if samples.standardization.n_counted < 2:
        raise OptionError(
            "X",
            "has only one sample with a weight above 0, so none is left to fit when it is held out",
            "pass at least two samples",
        )


def check_split_weights(splits: Splits, samples: CVProblem) -> None:
    """Raise unless every split has training and test samples with a weight above 0."""
    if (samples.weights > 0).all() and splits.test_fold is not None and len(splits) > 1:
        return
    for number in range(len(splits)):
        for name, rows in (
            ("training", splits.train_rows(number)),
            ("test", splits.test_rows(number)),
        ):
            if not samples.weights[rows].any():
                raise OptionError(
                    "cv",
                    f"split {number} of `cv` has no {name} samples with a weight above 0",
                    "pass other or fewer splits",
                )
