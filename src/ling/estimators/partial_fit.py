"""`partial_fit`: add batches of rows to a fit, or remove them, through sufficient statistics."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ling._typing import Array, MatrixLike
from ling.errors import OptionError
from ling.estimators.fit import (
    FitContext,
    FitResult,
    check_solver,
    fit_options,
    set_fit_attributes,
    solve_problem,
    warn_unless_certified,
)
from ling.estimators.fit_session import fit_context, fit_session
from ling.estimators.memory_checks import budget_change
from ling.estimators.parameter_validation import check_alpha_per_target
from ling.estimators.uncertainty import UncertaintyMixin, UncertaintyState
from ling.estimators.validation import training_data
from ling.results import Status
from ling.solvers.cost_model import statistics_bytes
from ling.solvers.dimensions import problem_dimensions
from ling.solvers.gram_problem import GramProblem, RowsUnavailableError, build_gram_problem
from ling.solvers.memory_budget import MemoryBudget
from ling.solvers.options import FitOptions
from ling.solvers.planning import plan_solve
from ling.solvers.problem import Standardization, TrainingData
from ling.solvers.sufficient_statistics import SufficientStatistics, sufficient_statistics_cost
from ling.wording import format_bytes

log = logging.getLogger("ling")
REMOVAL_ROUNDING_NOTE = (
    "Rounding of what was removed is still in the sums; fit again to what is left to be rid of it."
)


class PartialFitMixin(UncertaintyMixin):
    """Adds `partial_fit`, which keeps sufficient statistics of n_features^2 numbers."""

    _sufficient_statistics: SufficientStatistics | None = None
    alpha: float | ArrayLike
    fit_intercept: bool
    memory_budget: float | str | None
    n_samples_seen_: int

    @fit_context
    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        remove: bool = False,
    ) -> Self:
        """Update the fit with a batch of rows: add it or, with `remove`, take it away again.

        The result is as exact as `fit` on all rows at once, whatever the order and size of the
        batches. Only sums of products are kept, n_features (n_features + n_targets) numbers, and no
        rows. A call makes two passes over the batch; the fit from the sums costs about
        n_features^3 / 3 FLOPs. `alpha`, `tol`, `positive` and `store_covariance` may change between
        calls: each call uses their current values. `solver` and `max_iter` are ignored. `fit`
        discards the sums and keeps none, so a `partial_fit` after it starts from scratch.

        Parameters
        ----------
        X : array, sparse matrix or Dataset of shape (n_samples, n_features)
            The rows of the batch; one row is enough.
        y : array of shape (n_samples,) or (n_samples, n_targets), default=None
            None for the target of a Dataset.
        sample_weight : array of shape (n_samples,), default=None
        remove : bool, default=False
            Whether to remove these rows, which must have been added before with the same weights.
            The rounding errors of removed rows remain in the sums. The certificate covers them; if
            the fit cannot be certified, a note in the report says so.

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
        check_solver(self)
        options = _partial_fit_options(self)
        with fit_session(self, X, y, sample_weight) as progress:
            is_first = self._sufficient_statistics is None
            if is_first and remove:
                raise OptionError(
                    "remove",
                    "is True, but nothing was added by partial_fit (fit keeps no sums)",
                    "add batches before you remove some",
                )
            if is_first and hasattr(self, "coef_"):
                log.warning("partial_fit starts anew: fit keeps nothing that could be added to.")
            data, y = training_data(
                self, X, y, sample_weight, progress, y_numeric=True, reset=is_first
            )
            alphas = check_alpha_per_target(self.alpha, data.n_targets)
            self._check_store_covariance(alphas)
            _check_gram_fits_budget(data, len(np.unique(alphas)), options)
            cost = sufficient_statistics_cost(data.design, data.n_targets)
            progress.begin_stage("summarise", lambda: (cost.passes, None))
            batch = SufficientStatistics.from_rows(
                data.design, data.targets, data.weights, bool(self.fit_intercept)
            )
            summary = _update_statistics(self._sufficient_statistics, batch, remove)
            data.design.meter.add(cost.flops, cost.passes)
            fit, uncertainty = self._fit_from_statistics(summary, alphas, data, options, started)
            set_fit_attributes(self, fit, y.ndim)
            self._uncertainty_state = uncertainty
            self._sufficient_statistics = summary
            self.n_samples_seen_ = summary.n_counted
        warn_unless_certified(self, fit)
        return self

    def _fit_from_statistics(
        self,
        summary: SufficientStatistics,
        alphas: Array,
        data: TrainingData,
        options: FitOptions,
        started: float,
    ) -> tuple[FitResult, UncertaintyState | None]:
        """Fit from sufficient statistics, and the state that `coef_std_errors()` and the like need.

        `data` is the batch that was added or removed last. The state is None if it is not kept.
        """
        try:
            problem, standardization, fit = _solve_statistics(
                summary, alphas, data, options, started
            )
        except RowsUnavailableError:
            problem, standardization, fit = _solve_statistics(
                summary, alphas, data, options, started, with_rows=True
            )
        uncertainty = self._compute_uncertainty_state(problem, standardization, fit, options)
        fit = _with_mean_error(fit, problem, summary)
        # Without a useful bound, X'X + alpha I may not even be positive definite, so that standard
        # errors would be meaningless.
        return fit, uncertainty if fit.report.certificate.bound <= 1 else None


def _solve_statistics(
    summary: SufficientStatistics, alphas: Array, data: TrainingData, options: FitOptions,
    started: float, with_rows: bool = False,
) -> tuple[GramProblem, Standardization, FitResult]:  # fmt: skip
    """Build the problem that belongs to sufficient statistics, and solve it.

    `data` is the last batch; its passes are part of the reported cost. `with_rows` builds p rows
    with the same X'X, for algorithms that need rows.
    """
    dtype, meter = data.design.dtype, data.design.meter
    problem, standardization = build_gram_problem(summary, alphas, meter, dtype, with_rows)
    notes = (f"The passes were over {data.design.shape[0]} rows.", *data.notes)
    context = FitContext(started, notes, "summarise", "from sufficient statistics")
    dimensions = problem_dimensions(problem.design, problem.n_targets, len(problem.distinct_alphas))
    plan = plan_solve(dimensions, options)
    fit = solve_problem(problem, standardization, plan, options, context, summary.centred)
    return problem, standardization, fit


def _partial_fit_options(model: Any) -> FitOptions:
    """Options of a fit from sufficient statistics: solver and precision are fixed."""
    solver = "auto" if model.positive else "direct"
    return replace(fit_options(model), solver=solver, precision="float64")


def _check_gram_fits_budget(data: TrainingData, n_alphas: int, options: FitOptions) -> None:
    """Raise if matrices of p (p + t) numbers exceed the memory budget."""
    p = data.design.shape[1]
    n_bytes = statistics_bytes(p, data.n_targets, n_alphas)
    budget = MemoryBudget.from_option(options.memory_budget)
    if not budget.allows(n_bytes):
        raise OptionError(
            "memory_budget",
            f"is {format_bytes(budget.n_bytes)}, and partial_fit takes {format_bytes(n_bytes)}: it "
            f"keeps n_features^2 numbers for {p} features",
            budget_change(n_bytes),
            "use fit, which has engines that take less",
        )


def _update_statistics(
    before: SufficientStatistics | None, batch: SufficientStatistics, remove: bool
) -> SufficientStatistics:
    """`before` plus `batch`, or minus it with `remove`; `before` is None for the first batch."""
    if before is None:
        return batch
    return before - batch if remove else before + batch


def _with_mean_error(
    fit: FitResult, problem: GramProblem, summary: SufficientStatistics
) -> FitResult:
    """The fit with the rounding error of the means of X and y added to its error bounds.

    If rows were removed and the fit is not certified, a note says that their rounding errors
    remain.
    """
    coef, root_weight = fit.solution.coef, np.sqrt(summary.total_weight)
    solution = fit.solution.with_added_error(problem.mean_shift_bound(coef))
    region = solution.certificate.region
    if region is not None and summary.centred:
        region = region.with_mean_error(
            problem.mean_shift_error(coef) / root_weight,
            problem.column_mean_error / float(root_weight),
        )
        solution = replace(solution, certificate=replace(solution.certificate, region=region))
    notes, report = fit.report.notes, fit.report
    if solution.status is Status.NOT_REACHED and summary.n_summed > summary.n_counted:
        notes = (*notes, REMOVAL_ROUNDING_NOTE)
    report = replace(
        report, certificate=solution.certificate, status=solution.status, notes=notes,
        shape=(summary.n_counted, summary.n_features),
    )  # fmt: skip
    return replace(fit, solution=solution, report=report)
