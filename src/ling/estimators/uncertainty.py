"""Degrees of freedom, noise, standard errors: what a linear model can tell besides its answer."""

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
from ling.errors import BadOption
from ling.estimators.fit import FitResult
from ling.estimators.prediction import BlockPredictionMixin, checked_x_and_predictions, predictions
from ling.model_selection.path import CANCELLATION_THRESHOLD
from ling.solvers.cost_model import MemoryBudget, problem_dimensions
from ling.solvers.engine import as_generator
from ling.solvers.options import FitOptions
from ling.solvers.planning import plan_solve
from ling.solvers.posterior import Posterior, cheap_posterior, compute_posterior
from ling.solvers.problem import Problem, Standardization
from ling.solvers.solve import solve

# Draws need not be exact: their own spread is larger by far.
DRAW_TOL = 1e-3
NO_STATISTICS_MESSAGE = (
    "this fit kept nothing to compute them from, as that may take much memory; pass "
    "statistics=True, and alpha > 0, and fit again."
)


@dataclass(frozen=True, eq=False)
class PosteriorState:
    """What a fitted model keeps for its statistics, in the units of its problem.

    `squares` are ||y - X w||^2; without a `posterior`, `known` are the degrees of freedom.
    """

    posterior: Posterior | None
    known: Array | None
    squares: Array
    standardization: Standardization
    fit_intercept: bool

    @cached_property
    def effective_dof(self) -> Array:
        """Effective degrees of freedom, target by target, without the intercept's."""
        return (
            self.posterior.effective_dof if self.posterior is not None else np.asarray(self.known)
        )

    @cached_property
    def noise_variance(self) -> Array:
        """||y - X w||^2 over the degrees of freedom that are left."""
        left = self.standardization.n_counted - self.effective_dof - self.fit_intercept
        return np.asarray(self.squares / np.where(left > 0, left, np.nan))


class UncertaintyMixin(BlockPredictionMixin):
    """`predict`, and what the Gaussian model says of coefficients and predictions.

    y = X w + noise of variance s^2 (divided by its weight, for a weighted sample), w ~ N(0, s^2 /
    alpha): then s^2 (X'X + alpha I)^-1 is the covariance of w given y.
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
        """`X @ coef_ + intercept_`; with `return_std` the standard deviation of y around it too."""
        check_is_fitted(self, "coef_")
        if not return_std:
            return predictions(self, X, self.coef_.T)
        with verify_memmaps_unchanged(X):
            return self._predict_with_std(X)

    def _predict_with_std(self, X: Any) -> tuple[Any, Any]:
        X, found = checked_x_and_predictions(self, X, self.coef_.T)
        kept, posterior = self._require_posterior()
        standardization = kept.standardization
        shift = standardization.x_mean if kept.fit_intercept else None
        centred = as_design(X).standardized(shift, np.full(X.shape[1], 1 / standardization.x_scale))
        share = (
            posterior.quadratic_forms(centred) + kept.fit_intercept / standardization.total_weight
        )
        std = np.sqrt(kept.noise_variance * (1 + share)) * standardization.y_scale
        return found, std.astype(X.dtype, copy=False).reshape(found.shape)

    def coef_std_errors(self) -> Array:
        """Standard errors of `coef_`, in its shape: s sqrt(diag (X'X + alpha I)^-1)."""
        check_is_fitted(self, "coef_")
        kept, posterior = self._require_posterior()
        unit = kept.standardization.y_scale / kept.standardization.x_scale
        found = np.sqrt(kept.noise_variance * posterior.inverse_diagonal) * unit
        return np.asarray(found.T.reshape(np.shape(self.coef_)).astype(self.coef_.dtype))

    @property
    def edf_(self) -> float | Array:
        """Effective degrees of freedom: trace X'X (X'X + alpha I)^-1."""
        return self._per_target_value("edf_", lambda kept: kept.effective_dof)

    @property
    def noise_variance_(self) -> float | Array:
        """||y - prediction||^2 / (n_samples - edf - 1), the 1 being for an intercept."""
        return self._per_target_value(
            "noise_variance_", lambda kept: kept.noise_variance * kept.standardization.y_scale**2
        )

    @property
    def statistics_method_(self) -> str:
        """How standard errors were found: exactly, or from how many random draws."""
        if self._posterior_state is None or self._posterior_state.posterior is None:
            raise AttributeError(f"statistics_method_ is not there: {NO_STATISTICS_MESSAGE}")
        return self._posterior_state.posterior.method

    def _per_target_value(
        self, name: str, value: Callable[[PosteriorState], Array]
    ) -> float | Array:
        check_is_fitted(self, "coef_")  # its error is an AttributeError too
        if self._posterior_state is None:
            raise AttributeError(f"{name} is not there: {NO_STATISTICS_MESSAGE}")
        found = value(self._posterior_state)
        return float(found[0]) if np.ndim(self.intercept_) == 0 and len(found) == 1 else found

    def _require_posterior(self) -> tuple[PosteriorState, Posterior]:
        if self._posterior_state is None or self._posterior_state.posterior is None:
            raise BadOption(f"there are no standard errors: {NO_STATISTICS_MESSAGE}")
        return self._posterior_state, self._posterior_state.posterior

    def _check_statistics(self, alphas: Array) -> None:
        """Before anything is fitted."""
        if self.statistics and (alphas == 0).any():
            raise BadOption("statistics=True needs alpha > 0: at 0 they have no finite value.")
        if self.statistics and getattr(self, "positive", False):
            raise BadOption(
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
        """What standard errors need, if it is small or asked for.

        `effective_dof` (t,) are the effective degrees of freedom, if they are already known.
        """
        posterior = None
        if fit.solution.estimate.engine == "nonnegative":
            return None
        problem.design.meter.begin_stage("statistics")
        if self.statistics:
            memory = MemoryBudget.from_option(options.memory_budget)
            rng = as_generator(options.random_state)
            posterior = compute_posterior(problem, memory, _draw_solver(problem, options), rng)
        elif self.statistics is None:
            posterior = cheap_posterior(problem)
        if posterior is None and effective_dof is None:
            return None
        squares = _residual_squares(problem, fit.solution.coef)
        return PosteriorState(
            posterior, effective_dof, squares, standardization, fit.intercept is not None
        )


def _residual_squares(problem: Problem, W: Array) -> Array:
    """||y - X w||^2, from X'X if it is there and does not cancel."""
    gram = problem.gram_cache.gram
    if gram is not None:
        twice = 2 * problem.moments - gram @ W
        squares = problem.target_norms**2 - np.einsum("ij,ij->j", W, twice)
        if (squares > CANCELLATION_THRESHOLD * problem.target_norms**2).all():
            return np.asarray(squares)
    return np.asarray(problem.gradient(W)[1] ** 2)


def _draw_solver(problem: Problem, options: FitOptions) -> Callable[[Problem], Array]:
    """Function that solves a problem with the same X as accurately as random draws need it."""
    rough = replace(options, tol=DRAW_TOL, solver="auto", max_iter=None, positive=False)

    def solve_drawn(drawn: Problem) -> Array:
        plan = plan_solve(problem_dimensions(problem.design, drawn.n_targets, 1), rough)
        return solve(drawn, plan, rough).coef

    return solve_drawn
