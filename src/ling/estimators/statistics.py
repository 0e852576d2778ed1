"""Degrees of freedom, noise, standard errors: what a linear model can tell besides its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ling.design import AffineDesign, Array
from ling.design.affine import storage_and_map
from ling.design.source import unchanged_maps
from ling.engines.base import generator
from ling.errors import BadOption
from ling.estimators.fitting import (
    Fit,
    Settings,
    budget_for,
    fit_options,
    plan_for,
    predicted,
    predictions,
)
from ling.estimators.streamed import Streamed
from ling.posterior import Posterior, full_posterior, small_posterior
from ling.problem import Centring, Problem
from ling.progress import stage
from ling.selection.path import CANCELS
from ling.solve import solve

# Draws need not be exact: their own spread is larger by far.
DRAWN = 1e-3
MISSING = (
    "this fit kept nothing to compute them from, as that may take much memory; pass "
    "statistics=True, and alpha > 0, and fit again."
)


@dataclass(frozen=True, eq=False)
class Kept:
    """What a fitted model keeps for its statistics, in the units of its problem.

    `squares` are ||y - X w||^2; without a `posterior`, `known` are the degrees of freedom.
    """

    posterior: Posterior | None
    known: Array | None
    squares: Array
    centring: Centring
    fit_intercept: bool

    @cached_property
    def degrees(self) -> Array:
        """Effective degrees of freedom, target by target, without the intercept's."""
        return self.posterior.degrees if self.posterior is not None else np.asarray(self.known)

    @cached_property
    def noise(self) -> Array:
        """||y - X w||^2 over the degrees of freedom that are left."""
        left = self.centring.n_counted - self.degrees - self.fit_intercept
        return np.asarray(self.squares / np.where(left > 0, left, np.nan))


class Statistics(Streamed):
    """`predict`, and what the Gaussian model says of coefficients and predictions.

    y = X w + noise of variance s^2 (divided by its weight, for a weighted sample), w ~ N(0, s^2 /
    alpha): then s^2 (X'X + alpha I)^-1 is the covariance of w given y.
    """

    _kept: Kept | None = None
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
        with unchanged_maps(X):
            return self._predicted_with_std(X)

    def _predicted_with_std(self, X: Any) -> tuple[Any, Any]:
        X, found = predicted(self, X, self.coef_.T)
        kept, posterior = self._statistics()
        centring = kept.centring
        shift = centring.x_mean if kept.fit_intercept else None
        centred = AffineDesign.standardised(X, shift, np.full(X.shape[1], 1 / centring.x_unit))
        share = posterior.forms(centred) + kept.fit_intercept / centring.mass
        std = np.sqrt(kept.noise * (1 + share)) * centring.y_unit
        return found, std.astype(X.dtype, copy=False).reshape(found.shape)

    def coef_std_errors(self) -> Array:
        """Standard errors of `coef_`, in its shape: s sqrt(diag (X'X + alpha I)^-1)."""
        check_is_fitted(self, "coef_")
        kept, posterior = self._statistics()
        unit = kept.centring.y_unit / kept.centring.x_unit
        found = np.sqrt(kept.noise * posterior.variances) * unit
        return np.asarray(found.T.reshape(np.shape(self.coef_)).astype(self.coef_.dtype))

    @property
    def edf_(self) -> float | Array:
        """Effective degrees of freedom: trace X'X (X'X + alpha I)^-1."""
        return self._by_target("edf_", lambda kept: kept.degrees)

    @property
    def noise_variance_(self) -> float | Array:
        """||y - prediction||^2 / (n_samples - edf - 1), the 1 being for an intercept."""
        return self._by_target("noise_variance_", lambda kept: kept.noise * kept.centring.y_unit**2)

    @property
    def statistics_method_(self) -> str:
        """How standard errors were found: exactly, or from how many random draws."""
        if self._kept is None or self._kept.posterior is None:
            raise AttributeError(f"statistics_method_ is not there: {MISSING}")
        return self._kept.posterior.method

    def _by_target(self, name: str, value: Callable[[Kept], Array]) -> float | Array:
        check_is_fitted(self, "coef_")  # its error is an AttributeError too
        if self._kept is None:
            raise AttributeError(f"{name} is not there: {MISSING}")
        found = value(self._kept)
        return float(found[0]) if np.ndim(self.intercept_) == 0 and len(found) == 1 else found

    def _statistics(self) -> tuple[Kept, Posterior]:
        if self._kept is None or self._kept.posterior is None:
            raise BadOption(f"there are no standard errors: {MISSING}")
        return self._kept, self._kept.posterior

    def _refuse_statistics(self, alphas: Array) -> None:
        """Before anything is fitted."""
        if self.statistics and (alphas == 0).any():
            raise BadOption("statistics=True needs alpha > 0: at 0 they have no finite value.")
        if self.statistics and getattr(self, "positive", False):
            raise BadOption(
                "statistics=True does not go with positive=True, where w is not Gaussian; pass one."
            )

    def _statistics_of(
        self, problem: Problem, centring: Centring, fit: Fit, settings: Settings,
        known: Array | None = None,
    ) -> Kept | None:  # fmt: skip
        """What standard errors need, if it is small or asked for; `known` are the degrees."""
        posterior = None
        if fit.solution.step.engine == "nonnegative":
            return None
        stage("statistics")
        if self.statistics:
            budget = budget_for(storage_and_map(problem.design.design)[0], settings)
            rng = generator(settings.random_state)
            posterior = full_posterior(problem, budget, _solver(problem, settings), rng)
        elif self.statistics is None:
            posterior = small_posterior(problem)
        if posterior is None and known is None:
            return None
        squares = _residual_squares(problem, fit.solution.coef)
        return Kept(posterior, known, squares, centring, fit.intercept is not None)


def _residual_squares(problem: Problem, W: Array) -> Array:
    """||y - X w||^2, from X'X if it is there and does not cancel."""
    if "gram" in problem.made:
        twice = 2 * problem.moments - problem.made["gram"] @ W
        squares = problem.spread**2 - np.einsum("ij,ij->j", W, twice)
        if (squares > CANCELS * problem.spread**2).all():
            return np.asarray(squares)
    return np.asarray(problem.gradient(W)[1] ** 2)


def _solver(problem: Problem, settings: Settings) -> Any:
    """Coefficients of a problem like this one, as near as draws need them."""
    rough = replace(settings, tol=DRAWN, solver="auto", max_iter=None, positive=False)

    def solved(drawn: Problem) -> Array:
        design = problem.design.design
        plan = plan_for(design, drawn.n_targets, 1, rough)
        return solve(drawn, plan, fit_options(rough)).coef

    return solved
