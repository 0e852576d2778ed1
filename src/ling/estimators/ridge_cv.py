"""`RidgeCV`: all alphas and splits share one Gram matrix or the same passes over X."""

from __future__ import annotations

from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.metrics import get_scorer_names
from sklearn.utils._param_validation import Interval, StrOptions

from ling._typing import Array
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
from ling.estimators.fit import fit_context, set_fit_attributes, warn_unless_certified
from ling.estimators.metadata import (
    MetadataRoutingMixin,
    is_prediction_scorer,
    make_splits,
    route_fit_params,
)
from ling.estimators.session import rollback_on_error
from ling.estimators.uncertainty import UncertaintyMixin
from ling.estimators.validation import as_target_matrix, check_sample_weight, check_training_data
from ling.model_selection import (
    CVResults,
    MeanScore,
    NegMeanSquaredError,
    R2Score,
    Scoring,
    SklearnScorer,
    check_alphas,
)
from ling.model_selection.score_accumulators import SquaredError


class RidgeCV(
    CallbackSupportMixin,
    MetadataRoutingMixin,
    UncertaintyMixin,
    MultiOutputMixin,
    RegressorMixin,
    BaseEstimator,
):
    """Ridge regression with the alpha that predicts best on samples left out.

    A drop-in for `sklearn.linear_model.RidgeCV`. All alphas, folds and targets share one Gram
    matrix or the same passes over X.

    Parameters
    ----------
    alphas : array of shape (n_alphas,), default=None
        What to choose from; None for 30 values over 9 decades below the trace of X'X, extended
        at both ends until the best is inside.
    fit_intercept : bool, default=True
    scoring : str or callable, default=None
        None is the negative mean of squared errors for cv=None, and R^2 otherwise. Scores are
        weighted like the samples.
    cv : int, splitter or iterable, default=None
        None leaves out one sample at a time, exactly. An integer, a splitter or (train, test) pairs
        are true cross-validation.
    gcv_mode : {None, "auto", "svd", "eigen", "stochastic"}, default=None
        For cv=None. None is exact, unless n_features^2 and n_samples^2 numbers are too many for
        `memory_budget`: then generalised cross-validation with estimated degrees of freedom, which
        "stochastic" asks for. The others are scikit-learn's names for exact.
    store_cv_results : bool, default=False
        Whether `cv_results_` keeps, for cv=None, the squared error of every sample (its prediction,
        with `scoring`).
    alpha_per_target : bool, default=False
        Whether each target gets the alpha that is best for it, with any `cv`.
    choice : {"best", "one_standard_error"}, default="best"
        The latter fits with the largest alpha within one standard error of the best.
    tol, random_state, memory_budget, statistics
        As for `Ridge`.
    checkpoint : str or path, default=None
        A folder for what a long fit has found so far: killed and started again with the same
        arguments, it goes on from its last pass over X, to the same result. Gone when it is done.
    verbose : int, default=0
        As for `Ridge`.

    Attributes
    ----------
    alpha_ : float, or array of shape (n_targets,) with `alpha_per_target`
    alpha_1se_ : the same
        The largest alpha within one standard error of the best.
    best_score_ : float, or array of shape (n_targets,)
        The mean score of `alpha_`.
    cv_results_ : CVResults
        `alphas`, `mean_score`, `std_error`, `folds` (scores of the splits), `certified`, `method`.
    coef_, intercept_, n_iter_, solver_, report_, edf_, noise_variance_
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
    best_score_: float | Array
    cv_results_: CVResults

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012  (scikit-learn's way)
        "alphas": ["array-like", Interval(Real, 0, None, closed="neither"), None],
        "fit_intercept": ["boolean"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "cv": ["cv_object"],
        "gcv_mode": [StrOptions({"auto", "svd", "eigen", "stochastic"}), None],
        "store_cv_results": ["boolean"],
        "alpha_per_target": ["boolean"],
        "choice": [StrOptions({CHOICE_BEST, CHOICE_ONE_STD_ERROR})],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "memory_budget": [Interval(Real, 0, None, closed="neither"), str, None],
        "statistics": ["boolean", None],
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
        gcv_mode: str | None = None,
        store_cv_results: bool = False,
        alpha_per_target: bool = False,
        choice: str = CHOICE_BEST,
        tol: float = 1e-4,
        random_state: Any = None,
        memory_budget: float | str | None = None,
        statistics: bool | None = None,
        checkpoint: str | Path | None = None,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.scoring = scoring
        self.cv = cv
        self.gcv_mode = gcv_mode
        self.store_cv_results = store_cv_results
        self.alpha_per_target = alpha_per_target
        self.choice = choice
        self.tol = tol
        self.random_state = random_state
        self.memory_budget = memory_budget
        self.statistics = statistics
        self.checkpoint = checkpoint
        self.verbose = verbose

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, **params: Any) -> Self:
        """Choose alpha and fit to X (n_samples, n_features), y (n_samples,) or (n_samples, t).

        `groups` is passed on to the splitter, and to whom metadata routing says it should go.
        """
        check_store_cv_results(self)
        if self.alphas is not None:
            self._check_statistics(check_alphas(self.alphas, allow_zero=self.cv is not None))
        with rollback_on_error(self, X, y, sample_weight):
            X, y = check_training_data(self, X, y, sample_weight, y_numeric=True)
            weights = check_sample_weight(sample_weight, X)
            Y = as_target_matrix(y)
            to_scorer, to_splitter = route_fit_params(self, weights, params)
            splits = make_splits(self, X, y, to_splitter)
            scoring = self._make_scoring(X, y, Y, weights, to_scorer)
            with checkpoint_session(self, X, Y, weights, splits) as (X, settings):
                chosen = fit_with_cv(self, X, Y, weights, splits, scoring, settings)
                kept = self._compute_posterior_state(
                    chosen.problem,
                    chosen.standardization,
                    chosen.fit,
                    settings,
                    chosen.effective_dof,
                )
            set_fit_attributes(self, chosen.fit, y.ndim)
            set_cv_attributes(self, chosen, y.ndim, X.dtype)
            self._posterior_state = kept
        warn_about_choice(self, chosen.results)
        warn_unless_certified(self, chosen.fit, settings)
        return self

    def _make_scoring(
        self, X: Any, y: Any, Y: Array, weights: Array | None, parameters: dict[str, Any]
    ) -> Scoring:
        per_target = bool(self.alpha_per_target) and Y.shape[1] > 1
        Y = np.asarray(Y, dtype=np.float64)
        if self.scoring is None and self.cv is None:
            return NegMeanSquaredError(Y, weights, per_target)
        mine = parameters.get("sample_weight")
        if self.scoring in (None, "r2"):
            return R2Score(Y, mine, per_target)
        call = self._check_scorer()
        if self.scoring == "neg_mean_squared_error":
            loss = SquaredError(mine, Y, per_target)
            return MeanScore(
                call, Y, per_target=per_target, score_params=parameters, loss=loss, sign=-1.0
            )
        looked_at = None if is_prediction_scorer(call) else X
        return SklearnScorer(call, Y, None, looked_at, per_target, parameters)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
