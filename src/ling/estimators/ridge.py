"""`Ridge`: ridge regression with scikit-learn's interface and a proven error bound."""

from __future__ import annotations

import time
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin

from ling._typing import MatrixLike, Precision, RandomState, Solver
from ling.design import ChunkedStorage, as_design
from ling.estimators.callbacks import CallbackSupportMixin
from ling.estimators.checkpoint import checkpoint_session
from ling.estimators.fit import (
    SKLEARN_SOLVERS,
    SOLVERS,
    check_solver,
    set_fit_attributes,
    solve_warm_started,
    warn_unless_certified,
)
from ling.estimators.fit_session import fit_context, fit_session
from ling.estimators.open_data import open_storage, planned_residency, split_dataset
from ling.estimators.parameter_validation import check_alpha_per_target
from ling.estimators.partial_fit import PartialFitMixin
from ling.estimators.sklearn_export import sklearn_estimator
from ling.estimators.sklearn_private import Interval, StrOptions
from ling.estimators.validation import check_same_n_rows, training_data
from ling.solvers.dimensions import problem_dimensions
from ling.solvers.memory_budget import MemoryBudget
from ling.solvers.options import FitOptions
from ling.solvers.planning import Plan, plan_solve

if TYPE_CHECKING:
    from sklearn import linear_model


class Ridge(CallbackSupportMixin, PartialFitMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Ridge regression to a proven accuracy: minimise ||y - Xw - b||^2 + alpha ||w||^2.

    A drop-in replacement for `sklearn.linear_model.Ridge`: same parameters, same attributes, same
    meaning of `alpha`. There are two differences: `tol` means the same for every solver, and every
    fit comes with a certificate, a proven bound of its error.

    `partial_fit` adds rows to a fit, or removes them, and is as exact as a fit to all rows at once.
    It needs memory for n_features^2 numbers.

    `set_callbacks` accepts the callbacks of scikit-learn 1.9 and later. The passes over X are the
    tasks of a fit. If a callback asks to stop, the fit raises `ling.errors.FitStoppedError` and the
    estimator is restored. `ling.progress.watch` reports the progress of fits to any function.

    Parameters
    ----------
    alpha : float or array of shape (n_targets,), default=1.0
        Regularisation strength, >= 0: larger values shrink the coefficients more. An array gives
        each target its own. 0 gives the minimum-norm least-squares solution, without a certificate.
    fit_intercept : bool, default=True
        Whether to fit the intercept b, which is not penalised.
    copy_X : bool, default=True
        Ignored; for compatibility with scikit-learn. X is neither copied nor changed.
    max_iter : int, default=None
        Maximum number of iterations of an iterative engine; None for as many as `tol` needs.
    tol : float, default=1e-4
        Accuracy: the training predictions are within tol of those of the exact solution, relative
        to ||y - mean(y)|| (to ||y|| without an intercept; both weighted by sample_weight). This is
        proved for every fit; if it cannot be, a ConvergenceWarning says what was reached.
        For X in float32 the bound includes the rounding of `coef_` and `intercept_` to float32. If
        tol is exceeded by that alone, a note in `report_` says so, and there is no warning.
    solver : {"auto", "direct", "two_stage"}, default="auto"
        "auto" predicts the cost of each engine from the shape of X, the memory and this machine's
        speed, and picks the cheapest; `ling.plan_fit(X, y)` shows the predictions. scikit-learn's
        solver names are accepted too.
    positive : bool, default=False
        Whether to constrain the coefficients to be >= 0; n_features^2 numbers have to fit in
        memory.
    random_state : int, RandomState instance or None, default=None
        Seed of the random sketches. The solution depends on it only within `tol`. None is the same
        as 0: fits are reproducible by default. A RandomState instance advances with every fit.
    precision : {"auto", "float64", "float32"}, default="auto"
        Precision of the direct engine's Gram matrix. Refinement and certificate are always in
        float64.
    memory_budget : float or str, default=None
        Memory that a fit may use in addition to the data, in bytes or as text like "2GB"; None for
        a quarter of the memory that this process may use. That is the machine's memory, or less if
        a control group (of a container or a Slurm job), `ulimit -v` or `ulimit -d` limits the
        process. For X that is read from files or memory-mapped, the parts of X in memory count too,
        but y does not. A fit that would take more than a budget that you pass is refused, with an
        error that names a budget that is enough.
    store_covariance : bool, default=False
        Whether to store the covariance of the coefficients, which `coef_std_errors()`,
        `predict(X, return_std=True)`, `edf_` and `noise_variance_` need: about n_features *
        min(n_samples, n_features) numbers.
    warm_start : bool, default=False
        Whether to start iterations from `coef_`, or from the coefficients that a fit had reached
        when its cluster was lost.
    checkpoint : str or path, default=None
        A folder in which a long fit stores the results of its passes over X. A fit that was killed
        and is started again with the same arguments resumes after its last pass, and gives the same
        result. The checkpoint is deleted when the fit is done.
    speeds : dict, default=None
        Speeds that the plan uses: `report_.plan["speeds"]` of a fit that is to be repeated bit for
        bit. None for those of this machine, which are measured once.
    verbose : int, default=0
        1 shows the progress of a fit: with rich, a progress bar on a terminal or in a notebook that
        has ipywidgets, and otherwise a line for each stage. 2 prints `report_` as well.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or array of shape (n_targets,)
    n_iter_ : None or array of shape (n_targets,)
    solver_ : str
        The engine that solved the problem.
    report_ : FitReport
        Engine and the reason for it, rank, passes, FLOPs, seconds, status and certificate. `print`
        it for a summary.
    edf_ : float or array of shape (n_targets,)
        Effective degrees of freedom, not counting the intercept; see `store_covariance`.
    noise_variance_ : float or array of shape (n_targets,)
        Estimated variance of the noise in y; see `store_covariance`.
    edf_error_, noise_variance_error_, covariance_error_ : float or array of shape (n_targets,)
        How far `edf_` and `noise_variance_` may be off, and the relative error of the variances of
        coefficients: bounds or, if `covariance_method_` says that random draws were used, standard
        errors.
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
        "store_covariance": ["boolean"],
        "warm_start": ["boolean"],
        "checkpoint": [str, Path, None],
        "speeds": [dict, None],
        "verbose": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        alpha: float | ArrayLike = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-4,
        solver: Solver = "auto",
        positive: bool = False,
        random_state: RandomState = None,
        precision: Precision = "auto",
        memory_budget: float | str | None = None,
        store_covariance: bool = False,
        warm_start: bool = False,
        checkpoint: str | Path | None = None,
        speeds: dict[str, Any] | None = None,
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
        self.store_covariance = store_covariance
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.speeds = speeds
        self.verbose = verbose

    @fit_context
    def fit(
        self, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit to X (n_samples, n_features) and y (n_samples,) or (n_samples, n_targets).

        X may be a `ling.Dataset`, such as `ling.scan_parquet(path, target="price")`; y is then its
        target and is not passed.
        """
        started = time.perf_counter()
        check_solver(self)
        with fit_session(self, X, y, sample_weight) as progress:
            data, y = training_data(self, X, y, sample_weight, progress, y_numeric=True)
            alphas = check_alpha_per_target(self.alpha, data.n_targets)
            self._check_store_covariance(alphas)
            with checkpoint_session(self, data) as (data, options):
                problem, standardization, fit = solve_warm_started(
                    self, data, alphas, options, started
                )
                uncertainty = self._compute_uncertainty_state(
                    problem, standardization, fit, options
                )
            set_fit_attributes(self, fit, y.ndim)
            self._uncertainty_state = uncertainty
            self.__dict__.pop("n_samples_seen_", None)
            self._sufficient_statistics = None
        warn_unless_certified(self, fit)
        return self

    def to_sklearn(self) -> linear_model.Ridge:
        """A fitted `sklearn.linear_model.Ridge` with the same coefficients.

        It works wherever scikit-learn is installed, and in every tool that knows scikit-learn's
        classes, such as exporters to ONNX. It has the parameters of this model that scikit-learn
        has too; a `solver` that scikit-learn would refuse becomes "auto". `solver_` remains the
        name of ling's engine.

        For contiguous arrays in float64 its predictions are equal to the last bit. They differ by
        rounding errors of float32 if X is in float32, because scikit-learn then sums in float32 and
        ling in float64, and by those of float64 if X is sparse or not contiguous.

        A model that was fitted to a table with text columns gives an estimator that takes the
        encoded columns; `feature_names_in_` has their names, such as "colour=red".

        Returns
        -------
        sklearn.linear_model.Ridge

        Examples
        --------
        >>> import numpy as np
        >>> from ling import Ridge
        >>> X = np.random.default_rng(0).standard_normal((100, 5))
        >>> model = Ridge(alpha=2.0).fit(X, X @ np.arange(5.0))
        >>> model.to_sklearn()
        Ridge(alpha=2.0)
        >>> bool((model.to_sklearn().predict(X) == model.predict(X)).all())
        True
        """
        return sklearn_estimator(self, "Ridge")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def plan_fit(
    X: MatrixLike, y: ArrayLike | None = None, alpha: float | ArrayLike = 1.0, *,
    memory_budget: float | str | None = None,
    precision: Precision = "auto", tol: float = 1e-4,
) -> Plan:  # fmt: skip
    """Predict the cost of `Ridge(alpha).fit(X, y)` with each engine, without fitting.

    Parameters
    ----------
    X : anything that `Ridge.fit` takes
        Only its shape, dtype and density are used and, if it is read from files, how fast it can be
        read.
    y : array of shape (n_samples,) or (n_samples, n_targets), default=None
        Used for the number of targets; None for the target of a Dataset X, or for one target.
    alpha : float or array of shape (n_targets,), default=1.0
    memory_budget, precision, tol
        As for `Ridge`.

    Returns
    -------
    Plan
        The estimates of all engines, with the first choice first. `print` it for a table.

    Examples
    --------
    >>> import numpy as np
    >>> print(plan_fit(np.ones((1000, 20)), np.ones(1000)))  # doctest: +ELLIPSIS
    1000 x 20 dense, 1 target(s), 1 alpha(s); budget ...
    engine ...
    """
    budget = MemoryBudget.from_option(memory_budget)
    X, y = split_dataset(X, y)
    storage = open_storage(X, budget) or as_design(X).storage
    resident_bytes, is_read_once = 0.0, False
    if isinstance(storage, ChunkedStorage):
        storage = storage.with_memory_budget(budget.n_bytes)
        resident_bytes, is_read_once = planned_residency(storage, budget)
    design = as_design(storage)
    n_targets = 1 if y is None or np.ndim(y) == 1 else np.shape(y)[1]
    if y is not None:
        check_same_n_rows(design.shape[0], np.shape(y)[0])
    options = FitOptions(tol=tol, precision=precision, memory_budget=memory_budget)
    n_alphas = len(np.unique(check_alpha_per_target(alpha, n_targets)))
    dimensions = problem_dimensions(design, n_targets, n_alphas, is_read_once)
    return plan_solve(dimensions, options, MemoryBudget.from_option(memory_budget, resident_bytes))
