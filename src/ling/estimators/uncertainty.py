"""Effective degrees of freedom, noise variance and standard errors of a fitted model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ling._typing import Array, DaskCollection, MatrixLike
from ling.design import as_design
from ling.design.row_source import verify_memmaps_unchanged
from ling.errors import Change, OptionError
from ling.estimators.fit import FitResult
from ling.estimators.prediction import BlockPredictionMixin, checked_x_and_predictions, predictions
from ling.estimators.prediction_bounds import predictions_with_bounds
from ling.plain_state import register_plain
from ling.solvers.cost_model import MemoryBudget
from ling.solvers.dimensions import problem_dimensions
from ling.solvers.engine import as_generator
from ling.solvers.options import FitOptions
from ling.solvers.planning import plan_solve
from ling.solvers.posterior import Posterior, compute_posterior
from ling.solvers.problem import Problem, Standardization
from ling.solvers.solve import solve

# Tolerance of the fits that draw from the posterior. Variances from random draws have a sampling
# error of 12.5 %, which is much larger.
DRAW_TOL = 1e-3
NO_COVARIANCE_MESSAGE = (
    "this fit did not store the covariance of the coefficients; pass store_covariance=True, with "
    "alpha > 0, and fit again."
)


@register_plain
@dataclass(frozen=True, eq=False)
class UncertaintyState:
    """What a fitted model stores to compute its statistics, in the units of its problem.

    Attributes
    ----------
    squares, y_scale : arrays of shape (t,)
        ||y - X w||^2, and the scale of y.
    n_counted : int
        Number of samples with a weight above 0.
    fit_intercept : bool
    known_dof : array of shape (t,) or None
        Effective degrees of freedom that cross-validation has computed; used without `posterior`.
    posterior : Posterior or None
        The covariance of the coefficients; stored with store_covariance=True only.
    standardization : Standardization or None
        Stored together with `posterior`.
    """

    squares: Array
    y_scale: Array
    n_counted: int
    fit_intercept: bool
    known_dof: Array | None = None
    posterior: Posterior | None = None
    standardization: Standardization | None = None

    @cached_property
    def effective_dof(self) -> Array:
        """Effective degrees of freedom of each target, (t,), without that of the intercept."""
        if self.posterior is not None:
            return self.posterior.effective_dof
        return np.asarray(self.known_dof)

    @cached_property
    def noise_variance(self) -> Array:
        """||y - X w||^2 / (n - dof - 1), (t,), with n samples of a weight above 0.

        The 1 is for an intercept. NaN if no degrees of freedom remain.
        """
        residual_dof = self.n_counted - self.effective_dof - self.fit_intercept
        return np.asarray(self.squares / np.where(residual_dof > 0, residual_dof, np.nan))


class UncertaintyMixin(BlockPredictionMixin):
    """Adds `predict`, and standard errors of coefficients and predictions.

    They follow from the Gaussian model y = X w + noise with w ~ N(0, s^2 / alpha I) and noise of
    variance s^2, or s^2 / weight for a weighted sample. The posterior covariance of w given y is
    s^2 (X'X + alpha I)^-1.
    """

    _uncertainty_state: UncertaintyState | None = None
    store_covariance: bool

    @overload
    def predict(
        self, X: DaskCollection, return_std: bool = False, return_bound: bool = False
    ) -> Any: ...
    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[False] = False,
        return_bound: Literal[False] = False,
    ) -> Array: ...
    @overload
    def predict(
        self, X: MatrixLike, return_std: Literal[True], return_bound: Literal[False] = False
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self, X: MatrixLike, return_std: Literal[False] = False, *, return_bound: Literal[True]
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self, X: MatrixLike, return_std: bool, return_bound: bool = False
    ) -> Array | tuple[Array, Array]: ...
    def predict(
        self, X: DaskCollection | MatrixLike, return_std: bool = False, return_bound: bool = False
    ) -> Any:
        """Predict y: `X @ coef_.T + intercept_`.

        With `return_std`, also return the standard deviation of y around the prediction.

        With `return_bound`, also return a proven bound on the distance of each prediction from that
        of the exact ridge solution, in float64. It follows from the certificate of the fit, and
        includes the errors of the coefficients and of the intercept, and all rounding. It is
        infinite if `alpha` is 0. It takes another pass over X. Standard deviations say how far y
        may be from the exact predictions; bounds say how far the computed predictions may be.
        """
        check_is_fitted(self, "coef_")
        if return_bound:
            if return_std:
                raise OptionError(
                    "return_bound",
                    "cannot be combined with `return_std`=True",
                    "call predict twice, once with each",
                )
            return predictions_with_bounds(self, X, self.coef_.T)
        if not return_std:
            return predictions(self, X, self.coef_.T)
        with verify_memmaps_unchanged(X):
            return self._predict_with_std(X)

    def _predict_with_std(self, X: Any) -> tuple[Any, Any]:
        """Predictions for X (n, p), and their standard deviations in the same shape.

        The variance is s^2 (1 + x'(X'X + alpha I)^-1 x + 1 / total_weight) for the centred x. The
        last term is the variance of the mean of y, and is left out without an intercept.
        """
        X, predicted = checked_x_and_predictions(self, X, self.coef_.T)
        state, posterior, standardization = self._require_covariance()
        shift = standardization.x_mean if state.fit_intercept else None
        centered = as_design(X).standardized(
            shift, np.full(X.shape[1], 1 / standardization.x_scale)
        )
        variance_ratio = (
            posterior.quadratic_forms(centered) + state.fit_intercept / standardization.total_weight
        )
        std = np.sqrt(state.noise_variance * (1 + variance_ratio)) * standardization.y_scale
        return predicted, std.astype(X.dtype, copy=False).reshape(predicted.shape)

    def coef_std_errors(self) -> Array:
        """Standard errors of `coef_`, in its shape: s sqrt(diag (X'X + alpha I)^-1)."""
        check_is_fitted(self, "coef_")
        state, posterior, standardization = self._require_covariance()
        coef_scale = standardization.y_scale / standardization.x_scale
        std_errors = np.sqrt(state.noise_variance * posterior.inverse_diagonal) * coef_scale
        return np.asarray(std_errors.T.reshape(np.shape(self.coef_)).astype(self.coef_.dtype))

    @property
    def edf_(self) -> float | Array:
        """Effective degrees of freedom: trace X'X (X'X + alpha I)^-1.

        There with store_covariance=True, or if cross-validation has computed them.
        """
        return self._per_target_value("edf_", lambda state: state.effective_dof)

    @property
    def noise_variance_(self) -> float | Array:
        """Estimated noise variance: ||y - prediction||^2 / (n_samples - edf - 1).

        The 1 is for the intercept; without one it is left out.
        """
        return self._per_target_value(
            "noise_variance_", lambda state: state.noise_variance * state.y_scale**2
        )

    @property
    def covariance_method_(self) -> str:
        """How standard errors are computed: exactly, or from how many random draws."""
        state = self._uncertainty_state
        if state is None or state.posterior is None:
            raise AttributeError(f"covariance_method_ is not there: {NO_COVARIANCE_MESSAGE}")
        return state.posterior.method

    def _per_target_value(
        self, name: str, value: Callable[[UncertaintyState], Array]
    ) -> float | Array:
        """`value(state)` (t,), as a float if y had one dimension.

        Raises AttributeError, with the attribute `name`, if the fit stored no state.
        """
        check_is_fitted(self, "coef_")  # its error is an AttributeError too
        if self._uncertainty_state is None:
            raise AttributeError(f"{name} is not there: {NO_COVARIANCE_MESSAGE}")
        values = value(self._uncertainty_state)
        return float(values[0]) if np.ndim(self.intercept_) == 0 and len(values) == 1 else values

    def _require_covariance(self) -> tuple[UncertaintyState, Posterior, Standardization]:
        """The stored state with its covariance; raises OptionError if there is none."""
        state = self._uncertainty_state
        if state is None or state.posterior is None or state.standardization is None:
            raise OptionError(
                "store_covariance",
                "standard errors need a fit with `store_covariance`=True and `alpha` > 0",
                Change("store_covariance", True, "and fit again"),
            )
        return state, state.posterior, state.standardization

    def _check_store_covariance(self, alphas: Array) -> None:
        """Raise OptionError if store_covariance=True is combined with alpha = 0 or positive."""
        if self.store_covariance and (alphas == 0).any():
            raise OptionError(
                "store_covariance",
                "is True, but at `alpha`=0 the covariance is not finite",
                "pass `alpha` > 0",
                Change("store_covariance", False),
            )
        if self.store_covariance and getattr(self, "positive", False):
            raise OptionError(
                "store_covariance",
                "is True, but with `positive`=True the coefficients are not Gaussian",
                Change("positive", False),
                Change("store_covariance", False),
            )

    def _compute_uncertainty_state(
        self,
        problem: Problem,
        standardization: Standardization,
        fit: FitResult,
        options: FitOptions,
        known_dof: Array | None = None,
    ) -> UncertaintyState | None:
        """The state that statistics need, or None if the fit stores none.

        `known_dof` (t,) are the effective degrees of freedom, if cross-validation has computed
        them; then a state is stored with store_covariance=False too.
        """
        if fit.solution.estimate.engine == "nonnegative":
            return None
        if not self.store_covariance and known_dof is None:
            return None
        problem.design.meter.begin_stage("covariance")
        state = UncertaintyState(
            problem.residual_squares(fit.solution.coef),
            standardization.y_scale,
            standardization.n_counted,
            fit.intercept is not None,
            known_dof,
        )
        if not self.store_covariance:
            return state
        posterior = compute_posterior(
            problem,
            fit.memory,
            _draw_solver(problem, options, fit.memory),
            as_generator(options.random_state),
        )
        return replace(state, posterior=posterior, standardization=standardization)


def _draw_solver(
    problem: Problem, options: FitOptions, memory: MemoryBudget
) -> Callable[[Problem], Array]:
    """Function that returns the coefficients of a problem with the same X, to DRAW_TOL."""
    draw_options = replace(options, tol=DRAW_TOL, solver="auto", max_iter=None, positive=False)

    def solve_drawn(drawn: Problem) -> Array:
        dimensions = problem_dimensions(
            problem.design, drawn.n_targets, 1, read_bandwidth=draw_options.read_bandwidth
        )
        plan = plan_solve(dimensions, draw_options, memory)
        return solve(drawn, plan, draw_options).coef

    return solve_drawn
