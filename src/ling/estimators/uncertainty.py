"""Effective degrees of freedom, noise variance and standard errors of a fitted model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ling._typing import Array
from ling.design import as_design
from ling.design.row_source import verify_memmaps_unchanged
from ling.errors import OptionError
from ling.estimators.fit import FitResult
from ling.estimators.prediction import BlockPredictionMixin, checked_x_and_predictions, predictions
from ling.solvers.cost_model import MemoryBudget
from ling.solvers.dimensions import problem_dimensions
from ling.solvers.engine import as_generator
from ling.solvers.options import FitOptions
from ling.solvers.planning import plan_solve
from ling.solvers.posterior import Posterior, cheap_posterior, compute_posterior
from ling.solvers.problem import Problem, Standardization
from ling.solvers.solve import solve

# Tolerance of the fits that draw from the posterior. Variances from random draws have a sampling
# error of 12.5 %, which is much larger.
DRAW_TOL = 1e-3
NO_STATISTICS_MESSAGE = (
    "this fit kept nothing to compute them from, as that may take much memory; pass "
    "statistics=True, and alpha > 0, and fit again."
)


@dataclass(frozen=True, eq=False)
class PosteriorState:
    """What a fitted model stores to compute its statistics, in the units of its problem.

    `squares` (t,) are ||y - X w||^2. `known_dof` (t,) are the effective degrees of freedom that
    cross-validation has computed; they are used if there is no `posterior`.
    """

    posterior: Posterior | None
    known_dof: Array | None
    squares: Array
    standardization: Standardization
    fit_intercept: bool

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
        residual_dof = self.standardization.n_counted - self.effective_dof - self.fit_intercept
        return np.asarray(self.squares / np.where(residual_dof > 0, residual_dof, np.nan))


class UncertaintyMixin(BlockPredictionMixin):
    """Adds `predict`, and standard errors of coefficients and predictions.

    They follow from the Gaussian model y = X w + noise with w ~ N(0, s^2 / alpha I) and noise of
    variance s^2, or s^2 / weight for a weighted sample. The posterior covariance of w given y is
    s^2 (X'X + alpha I)^-1.
    """

    _posterior_state: PosteriorState | None = None
    statistics: bool | None

    @overload
    def predict(self, X: NDArray[Any], return_std: Literal[False] = False) -> Array: ...
    @overload
    def predict(self, X: NDArray[Any], return_std: Literal[True]) -> tuple[Array, Array]: ...
    @overload
    def predict(self, X: Any, return_std: bool = False) -> Any: ...
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict y: `X @ coef_.T + intercept_`.

        With `return_std`, also return the standard deviation of y around the prediction.
        """
        check_is_fitted(self, "coef_")
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
        state, posterior = self._require_posterior()
        standardization = state.standardization
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
        state, posterior = self._require_posterior()
        coef_scale = state.standardization.y_scale / state.standardization.x_scale
        std_errors = np.sqrt(state.noise_variance * posterior.inverse_diagonal) * coef_scale
        return np.asarray(std_errors.T.reshape(np.shape(self.coef_)).astype(self.coef_.dtype))

    @property
    def edf_(self) -> float | Array:
        """Effective degrees of freedom: trace X'X (X'X + alpha I)^-1."""
        return self._per_target_value("edf_", lambda state: state.effective_dof)

    @property
    def noise_variance_(self) -> float | Array:
        """Estimated noise variance: ||y - prediction||^2 / (n_samples - edf - 1).

        The 1 is for the intercept; without one it is left out.
        """
        return self._per_target_value(
            "noise_variance_", lambda state: state.noise_variance * state.standardization.y_scale**2
        )

    @property
    def statistics_method_(self) -> str:
        """How standard errors are computed: exactly, or from how many random draws."""
        if self._posterior_state is None or self._posterior_state.posterior is None:
            raise AttributeError(f"statistics_method_ is not there: {NO_STATISTICS_MESSAGE}")
        return self._posterior_state.posterior.method

    def _per_target_value(
        self, name: str, value: Callable[[PosteriorState], Array]
    ) -> float | Array:
        """`value(state)` (t,), as a float if y had one dimension.

        Raises AttributeError, with the attribute `name`, if the fit stored no state.
        """
        check_is_fitted(self, "coef_")  # its error is an AttributeError too
        if self._posterior_state is None:
            raise AttributeError(f"{name} is not there: {NO_STATISTICS_MESSAGE}")
        values = value(self._posterior_state)
        return float(values[0]) if np.ndim(self.intercept_) == 0 and len(values) == 1 else values

    def _require_posterior(self) -> tuple[PosteriorState, Posterior]:
        """The stored state and its posterior; raises OptionError if there is none."""
        if self._posterior_state is None or self._posterior_state.posterior is None:
            raise OptionError(f"there are no standard errors: {NO_STATISTICS_MESSAGE}")
        return self._posterior_state, self._posterior_state.posterior

    def _check_statistics(self, alphas: Array) -> None:
        """Raise OptionError if statistics=True is combined with alpha = 0 or positive=True."""
        if self.statistics and (alphas == 0).any():
            raise OptionError("statistics=True needs alpha > 0: at 0 they have no finite value.")
        if self.statistics and getattr(self, "positive", False):
            raise OptionError(
                "statistics=True does not go with positive=True, where w is not Gaussian; pass one."
            )

    def _compute_posterior_state(
        self,
        problem: Problem,
        standardization: Standardization,
        fit: FitResult,
        options: FitOptions,
        effective_dof: Array | None = None,
    ) -> PosteriorState | None:
        """The state that statistics need, or None if the fit stores none.

        The posterior is part of it if `statistics` is True, or if it is None and the posterior is
        cheap. `effective_dof` (t,) are the effective degrees of freedom, if they are already known;
        with them a state without posterior is stored. With positive=True there is no state.
        """
        posterior = None
        if fit.solution.estimate.engine == "nonnegative":
            return None
        problem.design.meter.begin_stage("statistics")
        if self.statistics:
            rng = as_generator(options.random_state)
            posterior = compute_posterior(
                problem, fit.plan.memory, _draw_solver(problem, options, fit.plan.memory), rng
            )
        elif self.statistics is None:
            posterior = cheap_posterior(problem)
        if posterior is None and effective_dof is None:
            return None
        squares = problem.residual_squares(fit.solution.coef)
        return PosteriorState(
            posterior, effective_dof, squares, standardization, fit.intercept is not None
        )


def _draw_solver(
    problem: Problem, options: FitOptions, memory: MemoryBudget
) -> Callable[[Problem], Array]:
    """Function that returns the coefficients of a problem with the same X, to DRAW_TOL."""
    draw_options = replace(options, tol=DRAW_TOL, solver="auto", max_iter=None, positive=False)

    def solve_drawn(drawn: Problem) -> Array:
        dimensions = problem_dimensions(problem.design, drawn.n_targets, 1)
        plan = plan_solve(dimensions, draw_options, memory)
        return solve(drawn, plan, draw_options).coef

    return solve_drawn
