"""Effective degrees of freedom, noise variance and standard errors of a fitted model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ling._typing import Array, DaskCollection, MatrixLike
from ling.design import Design, as_design
from ling.design.row_source import verify_memmaps_unchanged
from ling.errors import Change, OptionError
from ling.estimators.fit import FitResult
from ling.estimators.prediction import BlockPredictionMixin, checked_x_and_predictions, predictions
from ling.estimators.prediction_bounds import predictions_with_bounds
from ling.linalg.rounding import EPS
from ling.plain_state import register_plain
from ling.solvers.dimensions import problem_dimensions
from ling.solvers.engine import as_generator
from ling.solvers.gram_problem import GramProblem
from ling.solvers.memory_budget import MemoryBudget
from ling.solvers.options import FitOptions
from ling.solvers.planning import Plan, plan_solve
from ling.solvers.posterior import Posterior, compute_posterior
from ling.solvers.problem import Problem, Standardization
from ling.solvers.residual_statistics import Refine, exact_residual_norms
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
    residual_norms, residual_errors : arrays of shape (t,)
        ||y - X w||, and bounds of its distance from that of the exact w*.
    y_scale : array of shape (t,)
        The scale of y.
    n_counted : int
        Number of samples with a weight above 0.
    fit_intercept : bool
    known_dof : array of shape (t,) or None
        Effective degrees of freedom that cross-validation has computed; used without `posterior`.
    known_dof_error : array of shape (t,) or None
        Their errors: bounds, or standard errors of random estimates.
    posterior : Posterior or None
        The covariance of the coefficients; stored with store_covariance=True only.
    standardization : Standardization or None
        Stored together with `posterior`.
    """

    residual_norms: Array
    residual_errors: Array
    y_scale: Array
    n_counted: int
    fit_intercept: bool
    known_dof: Array | None = None
    known_dof_error: Array | None = None
    posterior: Posterior | None = None
    standardization: Standardization | None = None

    @cached_property
    def effective_dof(self) -> Array:
        """Effective degrees of freedom of each target, (t,), without that of the intercept."""
        if self.posterior is not None:
            return self.posterior.effective_dof
        return np.asarray(self.known_dof)

    @cached_property
    def effective_dof_error(self) -> Array:
        """The errors of `effective_dof`, (t,)."""
        if self.posterior is not None:
            return self.posterior.effective_dof_error
        return np.asarray(self.known_dof_error)

    @cached_property
    def noise_variance(self) -> Array:
        """||y - X w||^2 / (n - dof - 1), (t,), with n samples of a weight above 0.

        The 1 is for an intercept. NaN if no degrees of freedom remain.
        """
        return self._variance(self.residual_norms, self.effective_dof)

    @cached_property
    def noise_variance_error(self) -> Array:
        """The largest distance of `noise_variance` to what the errors allow, (t,)."""
        dof, dof_error = self.effective_dof, self.effective_dof_error
        low = np.maximum(self.residual_norms - self.residual_errors, 0.0)
        high = self.residual_norms + self.residual_errors
        largest = self._variance(high, dof + dof_error)
        smallest = self._variance(low, dof - dof_error)
        # Without degrees of freedom left, the largest variance is not known.
        largest = np.where(np.isnan(largest) & ~np.isnan(self.noise_variance), np.inf, largest)
        errors = np.maximum(largest - self.noise_variance, self.noise_variance - smallest)
        return np.asarray(errors + 8 * EPS * self.noise_variance)

    def _variance(self, norms: Array, dof: Array) -> Array:
        residual_dof = self.n_counted - dof - self.fit_intercept
        with np.errstate(over="ignore"):
            return np.asarray(norms**2 / np.where(residual_dof > 0, residual_dof, np.nan))


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

    def _inverse_forms(self, X: Any) -> Array | None:
        """Upper bounds (n, t) of sqrt(x'(X'X + alpha I)^-1 x) for validated rows; None if unknown.

        With a stored covariance they are known up to its relative error, which is the same for all
        x unless the covariance is a difference from 1 / alpha.
        """
        state = self._uncertainty_state
        if state is None or state.posterior is None or not state.posterior.is_uniform:
            return None
        standardization = state.standardization
        assert standardization is not None  # stored with the posterior
        errors = state.posterior.relative_errors
        if not np.isfinite(errors).all():
            return None
        forms = state.posterior.quadratic_forms(self._centered_rows(X, state, standardization))
        return np.asarray(np.sqrt(forms * (1 + 2 * errors)))

    def _centered_rows(
        self, X: Any, state: UncertaintyState, standardization: Standardization
    ) -> Design:
        """Validated rows X (n, p) in the units of the problem."""
        shift = standardization.x_mean if state.fit_intercept else None
        return as_design(X).standardized(shift, np.full(X.shape[1], 1 / standardization.x_scale))

    def _predict_with_std(self, X: Any) -> tuple[Any, Any]:
        """Predictions for X (n, p), and their standard deviations in the same shape.

        The variance is s^2 (1 + x'(X'X + alpha I)^-1 x + 1 / total_weight) for the centred x. The
        last term is the variance of the mean of y, and is left out without an intercept.
        """
        X, predicted = checked_x_and_predictions(self, X, self.coef_.T)
        state, posterior, standardization = self._require_covariance()
        centered = self._centered_rows(X, state, standardization)
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
    def edf_error_(self) -> float | Array:
        """How far `edf_` may be off: a bound or, for random draws or vectors, a standard error."""
        return self._per_target_value("edf_error_", lambda state: state.effective_dof_error)

    @property
    def noise_variance_error_(self) -> float | Array:
        """How far `noise_variance_` may be from that of the exact ridge solution.

        It follows from `edf_error_`, and from the bound on the error of the coefficients, which
        also bounds that of the residual norm.
        """
        return self._per_target_value(
            "noise_variance_error_", lambda state: state.noise_variance_error * state.y_scale**2
        )

    @property
    def covariance_error_(self) -> float | Array:
        """Relative error of the entries on the diagonal of (X'X + alpha I)^-1.

        A bound on the effect of rounding or, for random draws, a standard error. The relative error
        of a standard error is half of this, plus half of that of `noise_variance_`.
        """
        if self._uncertainty_state is None or self._uncertainty_state.posterior is None:
            raise AttributeError(f"covariance_error_ is not there: {NO_COVARIANCE_MESSAGE}")
        errors = self._uncertainty_state.posterior.relative_errors
        return self._per_target_value("covariance_error_", lambda _: errors)

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
        known_dof_error: Array | None = None,
    ) -> UncertaintyState | None:
        """The state that statistics need, or None if the fit stores none.

        `known_dof` (t,) are the effective degrees of freedom, if cross-validation has computed
        them, and `known_dof_error` (t,) their errors. A state is then stored with
        store_covariance=False too.
        """
        if fit.solution.estimate.engine == "nonnegative":
            return None
        if not self.store_covariance and known_dof is None:
            return None
        problem.design.meter.begin_stage("covariance")
        posterior, refine = None, None
        if self.store_covariance:
            posterior = compute_posterior(
                problem,
                fit.memory,
                _draw_solver(problem, options, fit.memory),
                as_generator(options.random_state),
            )
            refine = _residual_solver(problem, options, fit.memory)
        residual = exact_residual_norms(
            problem, fit.solution.coef, fit.solution.certificate.bounds, refine
        )
        return UncertaintyState(
            residual.norms,
            residual.errors,
            standardization.y_scale,
            standardization.n_counted,
            fit.intercept is not None,
            known_dof,
            known_dof_error,
            posterior,
            None if posterior is None else standardization,
        )


def _residual_solver(problem: Problem, options: FitOptions, memory: MemoryBudget) -> Refine | None:
    """Function that solves the problem to another tol; None if only X'X is known.

    A fit from X'X alone is as exact as X'X allows already. If X'X has been formed, it is used.
    """
    if isinstance(problem, GramProblem):
        return None
    has_gram = problem.gram_cache.formed_gram is not None
    if has_gram:
        options = replace(options, solver="direct", precision="float64", max_iter=None)
    else:
        options = replace(options, solver="auto", max_iter=None)

    def refine(problem: Problem, tol: float, start: Array) -> tuple[Array, Array]:
        plan = _plan(problem, replace(options, tol=tol), memory, len(problem.distinct_alphas))
        solution = solve(problem, plan, replace(options, tol=tol), start)
        return solution.coef, np.asarray(solution.certificate.bounds)

    return refine


def _plan(problem: Problem, options: FitOptions, memory: MemoryBudget, n_alphas: int) -> Plan:
    dimensions = problem_dimensions(
        problem.design, problem.n_targets, n_alphas, read_bandwidth=options.read_bandwidth
    )
    return plan_solve(dimensions, options, memory)


def _draw_solver(
    problem: Problem, options: FitOptions, memory: MemoryBudget
) -> Callable[[Problem], Array]:
    """Function that returns the coefficients of a problem with the same X, to DRAW_TOL."""
    draw_options = replace(options, tol=DRAW_TOL, solver="auto", max_iter=None, positive=False)

    def solve_drawn(drawn: Problem) -> Array:
        return solve(drawn, _plan(drawn, draw_options, memory, 1), draw_options).coef

    return solve_drawn
