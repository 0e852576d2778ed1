"""`partial_fit`: batches added to a fit, and taken from it again."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ling.design import Array, as_design
from ling.design.affine import storage_and_map
from ling.design.metered import Meter
from ling.errors import BadOption
from ling.estimators.fitting import (
    Fit,
    Settings,
    fit_context,
    fitted,
    keep,
    warn_unless_certified,
)
from ling.estimators.inputs import alphas_of, checked_data, targets_of, weights_of
from ling.estimators.statistics import Kept, Statistics
from ling.estimators.watching import watched
from ling.machine import memory_budget_bytes
from ling.problem import Centring
from ling.progress import stage
from ling.report import Certificate, Status
from ling.summary import Summary, summing_cost
from ling.summed import NoRows, Summed, posed

log = logging.getLogger("ling")
# Matrices of p^2 numbers that are there at the same time, without the factors.
COPIES = 6
CANCELLED = (
    "Rounding of what was removed is still in the sums; fit again to what is left to be rid of it."
)


class Partial(Statistics):
    """`partial_fit`, from sums that take n_features^2 numbers."""

    _summary: Summary | None = None
    alpha: Any
    fit_intercept: bool
    memory_budget: float | str | None
    n_samples_seen_: int

    @fit_context
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, remove: bool = False
    ) -> Self:
        """The exact fit to all batches so far, with this one added or, by `remove`, taken away.

        As exact as `fit` on all rows at once, in any order and in batches of any size: sums of
        products are kept, n_features (n_features + n_targets) numbers, and no rows. Two passes over
        the batch; the fit from the sums costs about n_features^3 / 3 FLOPs. `alpha`, `tol`,
        `positive` and `statistics` may change between calls and are used as they are then; `solver`
        and `max_iter` play no part. `fit` starts again, and keeps nothing that could be added to.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_samples, n_features)
            One row is enough.
        y : array of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array of shape (n_samples,), default=None
        remove : bool, default=False
            Whether these rows, which were added before with the same weights, are to go. Rounding
            errors of what goes remain: the certificate covers them, and says so when they are all
            that is left.

        Examples
        --------
        >>> import numpy as np
        >>> from ling import Ridge
        >>> X = np.random.default_rng(0).standard_normal((100, 5))
        >>> y = X @ np.arange(5.0)
        >>> model = Ridge().partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
        >>> bool(np.allclose(model.coef_, Ridge(tol=1e-12).fit(X, y).coef_))
        True
        """
        started = time.perf_counter()
        settings = _settings(self)
        with watched(self, X, y, sample_weight):
            first = self._summary is None
            if first and remove:
                raise BadOption(
                    "remove=True, and nothing was added by partial_fit (fit keeps no sums); add "
                    "batches before you remove some."
                )
            if first and hasattr(self, "coef_"):
                log.warning("partial_fit starts anew: fit keeps nothing that could be added to.")
            X, y = checked_data(self, X, y, sample_weight, y_numeric=True, reset=first)
            Y, weights = targets_of(y), weights_of(sample_weight, X)
            alphas = alphas_of(self.alpha, Y.shape[1])
            self._refuse_statistics(alphas)
            _refuse_too_large(X.shape[1], Y.shape[1], len(np.unique(alphas)), settings)
            stage("summarise", lambda: (summing_cost(X, Y.shape[1]).passes, None))
            batch = Summary.of(X, Y, weights, bool(self.fit_intercept))
            summary = _updated(self._summary, batch, remove)
            fit, kept = self._fit_of(summary, alphas, X, settings, started)
            keep(self, fit, y.ndim)
            self._kept = kept
            self._summary = summary
            self.n_samples_seen_ = summary.n_counted
        warn_unless_certified(self, fit, settings)
        return self

    def _forget(self) -> None:
        """Keep no sums: `fit` starts again."""
        self._summary = None
        self.__dict__.pop("n_samples_seen_", None)

    def _fit_of(
        self, summary: Summary, alphas: Array, X: Any, settings: Settings, started: float
    ) -> tuple[Fit, Kept | None]:
        """The fit to a summary, and what its statistics need; X is the batch it was made with."""
        try:
            problem, centring, fit = _solved(summary, alphas, X, settings, started)
        except NoRows:
            problem, centring, fit = _solved(summary, alphas, X, settings, started, with_rows=True)
        kept = self._statistics_of(problem, centring, fit, settings)
        if kept is not None:
            kept = replace(kept, squares=problem.residual_squares(fit.solution.coef))
        fit = _finished(fit, problem, summary)
        # Where nothing is proved, X'X + alpha I may not even be positive.
        return fit, kept if fit.report.certificate.bound <= 1 else None


def _solved(
    summary: Summary, alphas: Array, X: Any, settings: Settings, started: float,
    with_rows: bool = False,
) -> tuple[Summed, Centring, Fit]:  # fmt: skip
    """The problem of a summary, and the fit to it."""
    meter, cost = Meter(), summing_cost(X, summary.n_targets)
    meter.add(cost.flops, cost.passes)
    problem, centring = posed(summary, alphas, meter, X.dtype, with_rows)
    design = problem.design.design
    about_x = storage_and_map(as_design(X))[0].notes
    notes = (f"The passes were over {X.shape[0]} rows.", *about_x)
    fit = fitted(problem, centring, design, summary.centred, settings, started, notes)
    return problem, centring, fit


def _settings(model: Any) -> Settings:
    """Those that sums leave a choice for."""
    settings = Settings.of(model)
    settings.check()
    solver = "auto" if settings.positive else "direct"
    return replace(
        settings, solver=solver, precision="float64", reason="from sufficient statistics",
        before="summarise",
    )  # fmt: skip


def _refuse_too_large(p: int, t: int, n_alphas: int, settings: Settings) -> None:
    n_bytes = 8.0 * (COPIES + n_alphas) * p * (p + t)
    budget = memory_budget_bytes(settings.memory_budget)
    if n_bytes > budget:
        raise BadOption(
            f"partial_fit keeps n_features^2 numbers and takes {n_bytes / 1e6:.3g} MB for {p} "
            f"features, and memory_budget is {budget / 1e6:.3g} MB; raise it, or use fit, which "
            "has engines that take less."
        )


def _updated(before: Summary | None, batch: Summary, remove: bool) -> Summary:
    if before is None:
        return batch
    return before - batch if remove else before + batch


def _finished(fit: Fit, problem: Summed, summary: Summary) -> Fit:
    """The fit with what rounding may have done to the means in its certificate."""
    solution, report = fit.solution, fit.report
    bounds = solution.certificate.bounds + problem.shift(solution.coef)
    certificate = Certificate(bounds, solution.certificate.tol)
    status = solution.status
    if status is Status.CERTIFIED and not certificate.holds:
        status = Status.NOT_REACHED
    notes = report.notes
    if status is Status.NOT_REACHED and summary.n_summed > summary.n_counted:
        notes = (*notes, CANCELLED)
    solution = replace(solution, certificate=certificate, status=status)
    report = replace(
        report, certificate=certificate, status=status, notes=notes,
        shape=(summary.n_counted, summary.n_features),
    )  # fmt: skip
    return replace(fit, solution=solution, report=report)
