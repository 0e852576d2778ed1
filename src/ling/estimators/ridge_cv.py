"""`RidgeCV`: ridge regression with alpha chosen by cross-validation.

All alphas and splits share one Gram matrix or the same passes over X.
"""

from __future__ import annotations

from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics import get_scorer_names

from ling._typing import (
    Array,
    CVLike,
    GCVMode,
    MatrixLike,
    RandomState,
    ScoringLike,
    SelectionRule,
)
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
from ling.estimators.fit import set_fit_attributes, warn_unless_certified
from ling.estimators.fit_session import fit_context, fit_session
from ling.estimators.metadata import (
    MetadataRoutingMixin,
    is_prediction_scorer,
    make_splits,
    route_fit_params,
)
from ling.estimators.sklearn_export import sklearn_estimator
from ling.estimators.sklearn_private import Interval, StrOptions
from ling.estimators.uncertainty import UncertaintyMixin
from ling.estimators.validation import training_data
from ling.model_selection import (
    CVScores,
    NegMeanSquaredError,
    NegMeanSquaredLoss,
    R2Score,
    Scoring,
    SklearnScorer,
)
from ling.model_selection.score_accumulators import SquaredError
from ling.solvers.problem import TrainingData

if TYPE_CHECKING:
    from sklearn import linear_model


class RidgeCV(
    CallbackSupportMixin,
    MetadataRoutingMixin,
    UncertaintyMixin,
    MultiOutputMixin,
    RegressorMixin,
    BaseEstimator,
):
    """Ridge regression with alpha chosen by cross-validation.

    A drop-in replacement for `sklearn.linear_model.RidgeCV`. All alphas, folds and targets share
    one Gram matrix or the same passes over X.

    Parameters
    ----------
    alphas : array of shape (n_alphas,), default=None
        The alphas to choose from. None for 30 values over 9 decades below the trace of X'X; this
        grid is extended at both ends until the best alpha is inside.
    fit_intercept : bool, default=True
        As for `Ridge`.
    scoring : str or callable, default=None
        None is the negative mean squared error for cv=None, and R^2 otherwise. Scores are weighted
        by sample_weight.
    cv : int, splitter or iterable, default=None
        None is exact leave-one-out cross-validation (but see `gcv_mode`). With an integer, a
        splitter or (train, test) pairs, the model is fitted to each training set and scored on its
        test set.
    gcv_mode : {None, "auto", "svd", "eigen", "stochastic"}, default=None
        Used for cv=None only. "stochastic" is generalised cross-validation (GCV) with estimated
        degrees of freedom. None is exact leave-one-out, unless neither n_features^2 nor n_samples^2
        numbers fit in `memory_budget`; then it is "stochastic". The others are scikit-learn's names
        for exact leave-one-out.
    store_cv_results : bool, default=False
        Whether to set `cv_results_`; for cv=None only.
    alpha_per_target : bool, default=False
        Whether to choose alpha for each target separately; works with any `cv`.
    selection_rule : {"best", "one_standard_error"}, default="best"
        "best" fits with the alpha of the best score, "one_standard_error" with the largest alpha
        whose score is within one standard error of the best.
    tol, memory_budget, store_covariance
        As for `Ridge`.
    random_state : int, RandomState instance or None, default=None
        Seed of the random sketches and of stochastic GCV, as for `Ridge`: None is the same as 0.
        Splits are those of `cv`, which has a `random_state` of its own if it shuffles.
    checkpoint : str or path, default=None
        A folder in which a long fit stores the results of its passes over X. A fit that was killed
        and is started again with the same arguments resumes after its last pass, and gives the same
        result. The checkpoint is deleted when the fit is done.
    speeds, verbose
        As for `Ridge`.

    Attributes
    ----------
    alpha_ : float, or array of shape (n_targets,) with `alpha_per_target`
        The chosen alpha, with which `coef_` is fitted.
    alpha_1se_ : float, or array of shape (n_targets,) with `alpha_per_target`
        The largest alpha whose score is within one standard error of the best.
    alphas_ : array of shape (n_alphas,)
        The alphas that were scored: `alphas`, or the default grid.
    best_score_ : float, or array of shape (n_targets,)
        The mean score of `alpha_`.
    cv_scores_ : CVScores
        Scores of all alphas: `alphas`, `mean_score`, `std_error`, `score_error`, `gap`,
        `split_scores`, `certified`, `method` and `to_frame()`.
    cv_results_ : array of shape (n_samples, n_alphas) or (n_samples, n_targets, n_alphas)
        The squared error of every sample when it is left out, times its weight; with `scoring`, its
        prediction. Only with `store_cv_results=True`, as in scikit-learn.
    coef_, intercept_, n_iter_, solver_, report_, edf_, noise_variance_,
    edf_error_, noise_variance_error_, covariance_error_
        As for `Ridge`.

    Examples
    --------
    >>> import numpy as np
    >>> from ling import RidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 5))
    >>> model = RidgeCV().fit(X, X @ np.arange(5.0) + rng.standard_normal(100))
    >>> bool(0.1 < model.alpha_ < 10)
    True
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
        "gcv_mode": [StrOptions({"auto", "svd", "eigen", "stochastic"}), None],
        "store_cv_results": ["boolean"],
        "alpha_per_target": ["boolean"],
        "selection_rule": [StrOptions({SELECT_BEST, SELECT_ONE_STD_ERROR})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "memory_budget": [Interval(Real, 0, None, closed="neither"), str, None],
        "store_covariance": ["boolean"],
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
        gcv_mode: GCVMode | None = None,
        store_cv_results: bool = False,
        alpha_per_target: bool = False,
        selection_rule: SelectionRule = SELECT_BEST,
        tol: float = 1e-4,
        random_state: RandomState = None,
        memory_budget: float | str | None = None,
        store_covariance: bool = False,
        checkpoint: str | Path | None = None,
        speeds: dict[str, Any] | None = None,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.cv = cv
        self.gcv_mode = gcv_mode
        self.store_cv_results = store_cv_results
        self.alpha_per_target = alpha_per_target
        self.selection_rule = selection_rule
        self.tol = tol
        self.random_state = random_state
        self.memory_budget = memory_budget
        self.store_covariance = store_covariance
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
        """Choose alpha and fit to X (n_samples, n_features), y (n_samples,) or (n_samples, t).

        X may be a `ling.Dataset`; y is then its target and is not passed.

        `groups` is passed to the splitter. With metadata routing enabled, `params` are passed as
        the routing says.
        """
        check_store_cv_results(self)
        alphas = checked_alphas(self)
        if alphas is not None:
            self._check_store_covariance(alphas)
        with fit_session(self, X, y, sample_weight) as progress:
            data, y = training_data(self, X, y, sample_weight, progress, y_numeric=True)
            to_scorer, to_splitter = route_fit_params(self, data.weights, params)
            splits = make_splits(self, data.X, y, to_splitter)
            scoring = self._make_scoring(data, to_scorer)
            with checkpoint_session(self, data, splits) as (data, options):
                chosen = fit_with_cv(self, data, splits, scoring, options, alphas)
                uncertainty = self._compute_uncertainty_state(
                    chosen.problem,
                    chosen.standardization,
                    chosen.fit,
                    options,
                    chosen.effective_dof,
                    chosen.effective_dof_error,
                )
            set_fit_attributes(self, chosen.fit, y.ndim)
            set_cv_attributes(self, chosen, y.ndim, data.design.dtype)
            self._uncertainty_state = uncertainty
        warn_about_choice(self, chosen, scoring)
        warn_unless_certified(self, chosen.fit)
        return self

    def to_sklearn(self) -> linear_model.RidgeCV:
        """A fitted `sklearn.linear_model.RidgeCV` with the same coefficients.

        As `Ridge.to_sklearn`. A refit of the result chooses alpha as scikit-learn does, by the best
        score. Parameters that scikit-learn does not accept are replaced: alphas=None by a tenth of
        `alpha_`, `alpha_` and its tenfold; gcv_mode="stochastic" by None; a `cv` that is an
        iterator, or that is combined with alpha_per_target=True, by None.

        Returns
        -------
        sklearn.linear_model.RidgeCV
        """
        return sklearn_estimator(self, "RidgeCV")

    def _make_scoring(self, data: TrainingData, parameters: dict[str, Any]) -> Scoring:
        """Scoring of predictions (n, t); `parameters` are the arguments of the scorer."""
        per_target = bool(self.alpha_per_target) and data.n_targets > 1
        Y = np.asarray(data.targets, dtype=np.float64)
        if self.scoring is None and self.cv is None:
            return NegMeanSquaredError(Y, data.weights, per_target)
        score_weights = parameters.get("sample_weight")
        if self.scoring in (None, "r2"):
            return R2Score(Y, score_weights, per_target)
        scorer = self._check_scorer()
        if self.scoring == "neg_mean_squared_error":
            loss = SquaredError(weights=score_weights, y=Y, per_target=per_target)
            return NegMeanSquaredLoss(loss, per_target=per_target)
        scorer_X = None if is_prediction_scorer(scorer) else data.X
        return SklearnScorer(scorer, Y, None, scorer_X, per_target, parameters)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
