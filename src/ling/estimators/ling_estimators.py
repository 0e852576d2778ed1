"""`LingRegressor` and `LingClassifier`: the paper's method with scikit-learn's interface."""

from __future__ import annotations

import time
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, overload

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ling._typing import Array, ClassWeight, DaskCollection, MatrixLike, RandomState
from ling.estimators.callbacks import CallbackSupportMixin
from ling.estimators.classifier import BaseRidgeClassifier
from ling.estimators.fit import set_fit_attributes, warn_unless_certified
from ling.estimators.fit_session import fit_context, fit_session
from ling.estimators.ling_fit import AUTO, LingResult, fit_ling
from ling.estimators.parameter_validation import check_alpha_per_target
from ling.estimators.prediction import BlockPredictionMixin, predictions
from ling.estimators.prediction_bounds import predictions_with_bounds
from ling.estimators.sklearn_export import sklearn_estimator
from ling.estimators.sklearn_private import Interval, StrOptions
from ling.estimators.validation import training_data
from ling.results import Cost
from ling.solvers.problem import TrainingData

if TYPE_CHECKING:
    from sklearn import linear_model

SecondStage: TypeAlias = Literal["gradient_descent", "svrg"]
Auto: TypeAlias = Literal["auto"]

#: The constraints of the parameters that both estimators have.
LING_CONSTRAINTS: dict[str, Any] = {
    "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
    "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({AUTO})],
    "n_iter": [Interval(Integral, 0, None, closed="left"), StrOptions({AUTO})],
    "power": [Interval(Integral, 0, None, closed="left")],
    "shrink": ["boolean"],
    "second_stage": [StrOptions({"gradient_descent", "svrg"})],
    "tol": [Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
    "random_state": ["random_state"],
}


class LingMixin:
    """What both estimators share: the fit to checked data, and the attributes that it sets."""

    alpha: float | ArrayLike
    n_components_: int
    cost_: Cost
    verbose = 0  # not a parameter: LING shows no progress

    def _fit_ling(self, data: TrainingData, started: float, n_dim: int) -> LingResult:
        """Fit to the data and set the attributes; `n_dim` is the number of dimensions of y.

        `started` is the `time.perf_counter()` at the start of the fit.
        """
        alphas = check_alpha_per_target(self.alpha, data.n_targets)
        result = fit_ling(self, data, alphas, started)
        set_fit_attributes(self, result.fit, n_dim)
        self.n_components_ = result.n_components
        self.cost_ = result.cost
        return result


class LingRegressor(
    LingMixin, CallbackSupportMixin, BlockPredictionMixin, MultiOutputMixin, RegressorMixin,
    BaseEstimator,
):  # fmt: skip
    """LING, the method of Lu & Foster's paper: ridge regression in two stages.

    It approximates the minimiser of ||y - Xw - b||^2 + alpha ||w||^2. Stage 1 regresses y on the
    leading principal components of X, found by randomised PCA, and shrinks the result as ridge
    regression does. Stage 2 solves for the rest by gradient descent, which converges fast because
    the strong directions of X are gone. Both stages are those of `ling.paper.ling`; the estimator
    adds the intercept, sample weights, several targets and a certificate.

    For alpha > 0 the certificate in `report_` bounds the distance of the training predictions from
    those of exact ridge regression, so it shows what the approximate components and the stopped
    iteration cost. `Ridge` reaches any accuracy and is usually faster; its solver "two_stage"
    builds on the same idea.

    Parameters
    ----------
    alpha : float or array of shape (n_targets,), default=1.0
        Regularisation strength, >= 0, as for `Ridge`: n_samples times the paper's lambda. An array
        gives each target its own.
    n_components : int or "auto", default="auto"
        The paper's k2, the number of components in stage 1. "auto" estimates the spectrum of X from
        a sample of rows, and takes the number for which both stages together are expected to need
        the fewest FLOPs.
    n_iter : int or "auto", default="auto"
        The paper's n2, the number of iterations in stage 2; of SVRG, steps in units of n_samples.
        "auto" stops as soon as the certificate reaches `tol`, and warns if it never does.
    power : int, default=1
        The paper's i: powers of X X' in the randomised PCA. More of them make the components more
        accurate.
    shrink : bool, default=True
        False is the simplified version of section 2.1, in which stage 1 is not shrunk. The paper's
        experiments use it. The certificate then includes the error of the missing shrinkage.
    second_stage : {"gradient_descent", "svrg"}, default="gradient_descent"
        The method of stage 2. The paper conjectures that stage 1 speeds up stochastic gradients
        too, which "svrg" tries; its step is chosen by cross-validation.
    tol : float, default=1e-2
        Accuracy at which n_iter="auto" stops: the training predictions are within tol of those of
        the exact solution, relative to ||y - mean(y)||, as for `Ridge`.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised. The paper has none.
    random_state : int, RandomState instance or None, default=None
        Seed of the randomised PCA and of SVRG. None is the same as 0.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or array of shape (n_targets,)
    n_components_ : int
        The number of components in stage 1. It is smaller than `n_components` if X has fewer
        directions.
    n_iter_ : array of shape (n_targets,)
        The number of iterations in stage 2, which all targets share. For SVRG, the largest number
        of passes of all targets.
    cost_ : Cost
        FLOPs and passes over X of the two stages, including the choice of SVRG's step.
        `report_.cost` also counts the intercept and the certificate.
    report_ : FitReport
        Cost, seconds, status and certificate. `print` it for a summary.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)

    See Also
    --------
    Ridge : Ridge regression to any accuracy.
    ling.paper.ling : The same algorithm as a function, in the paper's notation.

    Examples
    --------
    >>> import numpy as np
    >>> from ling import LingRegressor
    >>> X = np.random.default_rng(0).standard_normal((500, 50))
    >>> model = LingRegressor(alpha=10.0).fit(X, X.sum(axis=1))
    >>> model.report_.certificate.bound < 1e-2
    True
    """

    _parameter_constraints = LING_CONSTRAINTS

    def __init__(
        self,
        alpha: float | ArrayLike = 1.0,
        *,
        n_components: int | Auto = "auto",
        n_iter: int | Auto = "auto",
        power: int = 1,
        shrink: bool = True,
        second_stage: SecondStage = "gradient_descent",
        tol: float = 1e-2,
        fit_intercept: bool = True,
        random_state: RandomState = None,
    ) -> None:
        self.alpha = alpha
        self.n_components = n_components
        self.n_iter = n_iter
        self.power = power
        self.shrink = shrink
        self.second_stage = second_stage
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    @fit_context
    def fit(
        self, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit to X (n_samples, n_features) and y (n_samples,) or (n_samples, n_targets).

        X may be a `ling.Dataset`; y is then its target and is not passed.
        """
        started = time.perf_counter()
        with fit_session(self, X, y, sample_weight) as progress:
            data, y = training_data(self, X, y, sample_weight, progress, y_numeric=True)
            result = self._fit_ling(data, started, y.ndim)
        if self.n_iter == AUTO:
            warn_unless_certified(self, result.fit, result.advice)
        return self

    @overload
    def predict(self, X: DaskCollection, return_bound: bool = False) -> Any: ...
    @overload
    def predict(self, X: MatrixLike, return_bound: Literal[False] = False) -> Array: ...
    @overload
    def predict(self, X: MatrixLike, return_bound: Literal[True]) -> tuple[Array, Array]: ...
    def predict(self, X: DaskCollection | MatrixLike, return_bound: bool = False) -> Any:
        """Predict y: `X @ coef_.T + intercept_`.

        With `return_bound`, also return a proven bound on the distance of each prediction from that
        of the exact ridge solution, as `Ridge.predict` does.
        """
        check_is_fitted(self, "coef_")
        if return_bound:
            return predictions_with_bounds(self, X, self.coef_.T)
        return predictions(self, X, self.coef_.T)

    def to_sklearn(self) -> linear_model.Ridge:
        """A fitted `sklearn.linear_model.Ridge` with the same coefficients.

        As `Ridge.to_sklearn`; the parameters that only LING has are lost.

        Returns
        -------
        sklearn.linear_model.Ridge
        """
        return sklearn_estimator(self, "Ridge")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LingClassifier(LingMixin, BaseRidgeClassifier):
    """Classifier that fits LING to classes coded as -1 and 1.

    Parameters
    ----------
    alpha, n_components, n_iter, power, shrink, second_stage, tol, fit_intercept, random_state
        As for `LingRegressor`.
    class_weight : dict or "balanced", default=None
        Weights of the classes. "balanced" gives every class the same total weight.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (n_features,) for two classes, or (n_classes, n_features)
    intercept_ : array of shape (1,) or (n_classes,)
    n_components_, n_iter_, cost_, report_
        As for `LingRegressor`; the certificate bounds the error of `decision_function`.

    See Also
    --------
    RidgeClassifier : The same classifier to any accuracy.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ling import LingClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> LingClassifier().fit(X, y).predict(X[:2])
    array([0, 0])
    """

    _parameter_constraints = {  # noqa: RUF012  (scikit-learn's way)
        **LING_CONSTRAINTS,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        alpha: float | ArrayLike = 1.0,
        *,
        n_components: int | Auto = "auto",
        n_iter: int | Auto = "auto",
        power: int = 1,
        shrink: bool = True,
        second_stage: SecondStage = "gradient_descent",
        tol: float = 1e-2,
        fit_intercept: bool = True,
        class_weight: ClassWeight = None,
        random_state: RandomState = None,
    ) -> None:
        self.alpha = alpha
        self.n_components = n_components
        self.n_iter = n_iter
        self.power = power
        self.shrink = shrink
        self.second_stage = second_stage
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.random_state = random_state

    @fit_context
    def fit(
        self, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit to X (n_samples, n_features) and classes y (n_samples,), or labels (n_samples, t).

        X may be a `ling.Dataset`; y is then its target and is not passed.
        """
        started = time.perf_counter()
        with fit_session(self, X, y, sample_weight) as progress:
            data, y, decision = self._prepare_training_data(X, y, sample_weight, progress)
            result = self._fit_ling(data, started, 2)
            self._set_label_decoder(decision)
        if self.n_iter == AUTO:
            warn_unless_certified(self, result.fit, result.advice)
        return self

    def to_sklearn(self) -> linear_model.RidgeClassifier:
        """A fitted `sklearn.linear_model.RidgeClassifier` with the same coefficients.

        As `LingRegressor.to_sklearn`.

        Returns
        -------
        sklearn.linear_model.RidgeClassifier
        """
        return sklearn_estimator(self, "RidgeClassifier")
