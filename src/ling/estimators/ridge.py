"""`Ridge`: scikit-learn's, planned and certified."""

from __future__ import annotations

import time
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions

from ling.design import ChunkedStorage, as_design
from ling.errors import WrongShape
from ling.estimators.callbacks import CallbackSupportMixin
from ling.estimators.checkpoint import checkpoint_session
from ling.estimators.fit import (
    SKLEARN_SOLVERS,
    SOLVERS,
    FitOptions,
    fit_context,
    plan_for,
    set_fit_attributes,
    warn_unless_certified,
)
from ling.estimators.open_data import fits_in_budget, open_storage
from ling.estimators.partial_fit import PartialFitMixin
from ling.estimators.session import rollback_on_error
from ling.estimators.validation import (
    as_target_matrix,
    check_alpha_per_target,
    check_sample_weight,
    check_training_data,
)
from ling.estimators.warm_start import solve_warm_started
from ling.solvers.machine import parse_memory_budget
from ling.solvers.planning import Plan


class Ridge(CallbackSupportMixin, PartialFitMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """minimise ||y - Xw - b||^2 + alpha ||w||^2, to a proven accuracy.

    A drop-in for `sklearn.linear_model.Ridge`: same parameters, same attributes, same meaning of
    `alpha`. What differs: `tol` means the same for every solver, and every fit carries a proof.

    `partial_fit` adds rows to a fit, or takes them away again, as exactly as if all had been fitted
    at once; it needs room for n_features^2 numbers.

    `set_callbacks` takes scikit-learn's callbacks, from its version 1.9 on: passes over X are the
    tasks of a fit. One that asks to stop ends it with `ling.errors.Stopped`, and the estimator is
    as it was before. `ling.progress.watch` tells any function how far fits are.

    Parameters
    ----------
    alpha : float or array of shape (n_targets,), default=1.0
        The penalty, >= 0; an array gives each target its own. 0 gives the least-norm solution of
        least squares, without a certificate.
    fit_intercept : bool, default=True
        Whether to fit b, which is never penalised.
    copy_X : bool, default=True
        For compatibility; X is neither copied nor changed.
    max_iter : int, default=None
        Most iterations of an iterative engine; None for as many as `tol` takes.
    tol : float, default=1e-4
        Accuracy: the training predictions are within tol of those of the exact solution, in units
        of ||y - mean(y)|| (of ||y|| without an intercept; both weighted by sample_weight). Proved
        for every fit, or a ConvergenceWarning says what was reached.
        For X in float32 the proof covers the rounding of `coef_` and `intercept_` to float32.
    solver : {"auto", "direct", "krylov", "two_stage", "row_sketch"}, default="auto"
        "auto" predicts the cost of each from shape, memory and this machine's speed, and picks the
        cheapest; `ling.plan(X, y)` shows the predictions. scikit-learn's names are understood.
    positive : bool, default=False
        Whether to force the coefficients to be >= 0; n_features^2 numbers have to fit in memory.
    random_state : int, RandomState instance or None, default=None
        For the random directions of the sketches; the answer does not depend on it beyond `tol`.
    precision : {"auto", "float64", "float32"}, default="auto"
        Of the direct engine's Gram matrix; refinement and certificate are in float64 anyway.
    memory_budget : float or str, default=None
        Bytes, or text like "2GB", that a fit may take on top of the data; None for half of what
        is free. Of data that is read or mapped, everything that is in memory counts, but for y;
        None is a quarter of the machine's memory then. Limits on the process count: those of
        control groups (containers, Slurm jobs), `ulimit -v` and `ulimit -d`.
    statistics : bool, default=None
        Whether to keep what `coef_std_errors()` and `predict(X, return_std=True)` need, about
        n_features * min(n_samples, n_features) numbers. None keeps it where that is at most 8 MB
        and nothing has to be computed for it.
    warm_start : bool, default=False
        Start iterations from `coef_`, or from where a fit was when its cluster was lost.
    checkpoint : str or path, default=None
        A folder for what a long fit has found so far: killed and started again with the same
        arguments, it goes on from its last pass over X, to the same result. Gone when it is done.
    verbose : int, default=0
        1 shows a fit while it goes on: a line that moves on a terminal, with rich installed, and a
        line for each stage elsewhere. 2 prints `report_` as well.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or array of shape (n_targets,)
    n_iter_ : None or array of shape (n_targets,)
    solver_ : str
        The engine that solved it.
    report_ : FitReport
        Engine and why, rank, passes, FLOPs, seconds, status and certificate. `print` it.
    edf_ : float or array of shape (n_targets,)
        Effective degrees of freedom, without the intercept's; see `statistics`.
    noise_variance_ : float or array of shape (n_targets,)
        The estimated variance of the noise in y; see `statistics`.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)

    Examples
    --------
    >>> import numpy as np
    >>> from ling import Ridge
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> model = Ridge(alpha=1.0).fit(X, X @ np.arange(5.0))
    >>> model.report_.certificate.bound < 1e-4
    True
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012  (scikit-learn's way)
        "alpha": [Interval(Real, 0, None, closed="left"), "array-like"],
        "fit_intercept": ["boolean"],
        "copy_X": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "solver": [StrOptions({*SOLVERS, *SKLEARN_SOLVERS})],
        "positive": ["boolean"],
        "random_state": ["random_state"],
        "precision": [StrOptions({"auto", "float64", "float32"})],
        "memory_budget": [Interval(Real, 0, None, closed="neither"), str, None],
        "statistics": ["boolean", None],
        "warm_start": ["boolean"],
        "checkpoint": [str, Path, None],
        "verbose": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        alpha: float | Any = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-4,
        solver: str = "auto",
        positive: bool = False,
        random_state: Any = None,
        precision: str = "auto",
        memory_budget: float | str | None = None,
        statistics: bool | None = None,
        warm_start: bool = False,
        checkpoint: str | Path | None = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.positive = positive
        self.random_state = random_state
        self.precision = precision
        self.memory_budget = memory_budget
        self.statistics = statistics
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.verbose = verbose

    @fit_context
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to X (n_samples, n_features) and y (n_samples,) or (n_samples, n_targets)."""
        started = time.perf_counter()
        FitOptions.from_estimator(self).check_solver()
        with rollback_on_error(self, X, y, sample_weight):
            X, y = check_training_data(self, X, y, sample_weight, y_numeric=True)
            weights = check_sample_weight(sample_weight, X)
            Y = as_target_matrix(y)
            alphas = check_alpha_per_target(self.alpha, Y.shape[1])
            self._check_statistics(alphas)
            with checkpoint_session(self, X, Y, weights) as (X, settings):
                problem, standardization, fit = solve_warm_started(
                    self, X, Y, alphas, weights, settings, started
                )
                kept = self._compute_posterior_state(problem, standardization, fit, settings)
            set_fit_attributes(self, fit, y.ndim)
            self._posterior_state = kept
            self._reset_partial_fit()
        warn_unless_certified(self, fit, settings)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def plan(
    X: Any, y: Any = None, alpha: Any = 1.0, *, memory_budget: float | str | None = None,
    precision: str = "auto", tol: float = 1e-4,
) -> Plan:  # fmt: skip
    """What `Ridge(alpha).fit(X, y)` would cost with each engine, without fitting.

    Parameters
    ----------
    X : anything that `Ridge.fit` takes
        Only its shape, dtype and density matter and, if it is read, how fast that goes.
    y : array of shape (n_samples,) or (n_samples, n_targets), default=None
        For the number of targets; None for one.
    alpha : float or array of shape (n_targets,), default=1.0
    memory_budget, precision, tol
        As for `Ridge`.

    Returns
    -------
    Plan
        All engines, the first choice first. `print` it.

    Examples
    --------
    >>> import numpy as np
    >>> print(plan(np.ones((1000, 20)), np.ones(1000)))  # doctest: +ELLIPSIS
    1000 x 20 dense, 1 target(s), 1 alpha(s); budget ... MB
    engine ...
    """
    design = open_storage(X, memory_budget) or as_design(X)
    budget = parse_memory_budget(memory_budget, of_total_memory=True)
    if isinstance(design, ChunkedStorage):
        design = design.with_memory_budget(budget)
    n_targets = 1 if y is None or np.ndim(y) == 1 else np.shape(y)[1]
    if y is not None and np.shape(y)[0] != design.shape[0]:
        raise WrongShape(
            f"X has {design.shape[0]} rows and y has {np.shape(y)[0]}: pass as many rows of y as "
            "of X."
        )
    settings = FitOptions(tol=tol, precision=precision, memory_budget=memory_budget)
    n_alphas = len(np.unique(check_alpha_per_target(alpha, n_targets)))
    return plan_for(design, n_targets, n_alphas, settings, fits_in_budget(design, budget))
