"""`Ridge`: scikit-learn's, planned and certified."""

from __future__ import annotations

import logging
import time
import warnings
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from ling import problem as problems
from ling.design import Array, SparseDesign, as_design
from ling.errors import BadOption, NegativeWeight, WrongShape
from ling.planning import Plan, Shape, make_plan, memory_budget_bytes
from ling.report import FitReport, Status
from ling.solve import Options, Solution, solve

log = logging.getLogger("ling")
SOLVERS = ("auto", "direct", "krylov", "two_stage", "row_sketch")
#: scikit-learn's solvers and what does their work here.
SCIKIT_LEARN = {
    "svd": "direct",
    "cholesky": "direct",
    "lsqr": "krylov",
    "sparse_cg": "two_stage",
    "sag": "auto",
    "saga": "auto",
    "lbfgs": "auto",
}


class Ridge(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """minimise ||y - Xw - b||^2 + alpha ||w||^2, to a proven accuracy.

    A drop-in for `sklearn.linear_model.Ridge`: same parameters, same attributes, same meaning of
    `alpha`. What differs: `tol` means the same for every solver, and every fit carries a proof.

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
        of ||y - mean(y)||. Proved for every fit, or a ConvergenceWarning says what was reached.
    solver : {"auto", "direct", "krylov", "two_stage", "row_sketch"}, default="auto"
        "auto" predicts the cost of each from shape, memory and this machine's speed, and picks the
        cheapest; `ling.plan(X, y)` shows the predictions. scikit-learn's names are understood.
    positive : bool, default=False
        Whether to force the coefficients to be >= 0.
    random_state : int, RandomState instance or None, default=None
        For the random directions of the sketches; the answer does not depend on it beyond `tol`.
    precision : {"auto", "float64", "float32"}, default="auto"
        Of the direct engine's Gram matrix; refinement and certificate are in float64 anyway.
    memory_budget : float or str, default=None
        Bytes, or text like "2GB", that a fit may take on top of the data; None for half of what
        is free.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or array of shape (n_targets,)
    n_iter_ : None or array of shape (n_targets,)
    solver_ : str
        The engine that solved it.
    report_ : FitReport
        Engine and why, rank, passes, FLOPs, seconds, status and certificate. `print` it.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features_in_,)

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
        "solver": [StrOptions({*SOLVERS, *SCIKIT_LEARN})],
        "positive": ["boolean"],
        "random_state": ["random_state"],
        "precision": [StrOptions({"auto", "float64", "float32"})],
        "memory_budget": [Interval(Real, 0, None, closed="neither"), str, None],
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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Ridge:
        """Fit to X (n_samples, n_features) and y (n_samples,) or (n_samples, n_targets)."""
        started = time.perf_counter()
        _check_solver(self)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], multi_output=True,
            y_numeric=True, ensure_all_finite=False,
        )  # fmt: skip
        weights = _weights(sample_weight, X)
        Y = _targets(y)
        alphas = _alphas(self.alpha, Y.shape[1])
        problem, centring = problems.build(X, Y, alphas, weights, bool(self.fit_intercept))
        plan = _plan(problem, X, self)
        prepared = time.perf_counter()
        solution = solve(problem, plan, _options(self))
        self._keep(X, y, problem, centring, solution, plan, prepared - started)
        return self

    def predict(self, X: Any) -> Array:
        """X coef_ + intercept_."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _keep(
        self, X: Any, y: Any, problem: Any, centring: Any, solution: Solution, plan: Plan,
        preparing: float,
    ) -> None:  # fmt: skip
        """Set all attributes, and say so if the fit is not what was asked for."""
        coef = centring.coef(solution.coef)
        intercept = centring.intercept(coef) if self.fit_intercept else None
        dtype = X.dtype
        one = y.ndim == 1
        self.coef_ = np.ascontiguousarray((coef[:, 0] if one else coef.T).astype(dtype, copy=False))
        if y.ndim == 2 and y.shape[1] == 1:
            self.coef_ = self.coef_.ravel()  # as scikit-learn has it
        if intercept is None:
            self.intercept_ = 0.0
        else:
            intercept = intercept.astype(dtype)
            self.intercept_ = intercept[0] if one else intercept
        n_iter = solution.candidate.n_iter
        self.n_iter_ = None if n_iter is None else np.full(problem.n_targets, n_iter, np.int32)
        self.solver_ = solution.step.engine
        self.report_ = _report(self, problem, solution, plan, preparing)
        if solution.status is Status.NOT_REACHED:
            bound = solution.certificate.bound
            warnings.warn(
                f"Ridge: the predictions are proved to be within {bound:.2e} of the exact ones, "
                f"not within tol={self.tol:g}: {solution.status.value}.",
                ConvergenceWarning,
                stacklevel=3,
            )


def plan(
    X: Any, y: Any = None, alpha: Any = 1.0, *, memory_budget: float | str | None = None,
    precision: str = "auto", tol: float = 1e-4,
) -> Plan:  # fmt: skip
    """What `Ridge(alpha).fit(X, y)` would cost with each engine, without fitting.

    >>> import numpy as np
    >>> print(plan(np.ones((1000, 20)), np.ones(1000)))  # doctest: +ELLIPSIS
    1000 x 20 dense, 1 target(s), 1 alpha(s); budget ... MB
    engine ...
    """
    n_targets = 1 if y is None or np.ndim(y) == 1 else np.shape(y)[1]
    shape = _shape(as_design(X), n_targets, len(np.unique(np.atleast_1d(alpha))))
    return make_plan(shape, memory_budget_bytes(memory_budget), precision, tol)


def _shape(design: Any, n_targets: int, n_alphas: int) -> Shape:
    n, p = design.shape
    dense = not isinstance(design, SparseDesign)
    nnz = n * p if dense else design.csr.nnz
    return Shape(n, p, int(nnz), design.dtype.itemsize, dense, n_targets, n_alphas)


def _plan(problem: problems.Problem, X: Any, model: Ridge) -> Plan:
    shape = _shape(as_design(X), problem.n_targets, len(problem.distinct_alphas))
    return make_plan(shape, memory_budget_bytes(model.memory_budget), model.precision, model.tol)


def _options(model: Ridge) -> Options:
    solver = SCIKIT_LEARN.get(model.solver, model.solver)
    return Options(float(model.tol), model.max_iter, solver, model.random_state)


def _check_solver(model: Ridge) -> None:
    if model.solver in SCIKIT_LEARN:
        log.info(
            "solver=%r is one of scikit-learn's; ling uses %r for it.",
            model.solver, SCIKIT_LEARN[model.solver],
        )  # fmt: skip


def _targets(y: Array) -> Array:
    return y[:, None] if y.ndim == 1 else y


def _alphas(alpha: Any, n_targets: int) -> Array:
    alphas = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
    if alphas.ndim != 1 or len(alphas) not in (1, n_targets):
        raise WrongShape(
            "Number of targets and number of penalties do not correspond: "
            f"{alphas.size} != {n_targets}; pass one alpha, or one for each target."
        )
    if not np.isfinite(alphas).all() or (alphas < 0).any():
        raise BadOption(f"alpha is {alpha}; pass finite numbers >= 0.")
    return np.full(n_targets, alphas[0]) if len(alphas) == 1 else alphas


def _weights(sample_weight: Any, X: Any) -> Array | None:
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        at = int(np.flatnonzero(weights < 0)[0])
        raise NegativeWeight(
            f"sample_weight[{at}] is {weights[at]}; weights must be >= 0. "
            "To leave a row out, give it weight 0."
        )
    if not weights.any():
        raise BadOption("sample_weight is 0 everywhere; give at least one row a weight above 0.")
    return np.asarray(weights)


def _report(
    model: Ridge, problem: problems.Problem, solution: Solution, plan: Plan, preparing: float
) -> FitReport:
    step = solution.step
    notes = []
    if model.solver in SCIKIT_LEARN:
        notes.append(f"solver={model.solver!r} is scikit-learn's; ling uses {step.engine} for it.")
    if solution.candidate.note:
        notes.append(f"{solution.candidate.note[0].upper()}{solution.candidate.note[1:]}.")
    if solution.earlier:
        notes.append(f"Given up before: {', '.join(solution.earlier)}.")
    return FitReport(
        engine=step.engine,
        reason=_reason(model, plan, solution),
        status=solution.status,
        certificate=solution.certificate,
        cost=problem.design.cost,
        seconds={"prepare": preparing, **solution.seconds},
        predicted_seconds=step.seconds,
        predicted_bytes=step.n_bytes,
        rank=solution.candidate.rank,
        n_iter=solution.candidate.n_iter,
        shape=problem.shape,
        notes=tuple(notes),
    )


def _reason(model: Ridge, plan: Plan, solution: Solution) -> str:
    if model.solver not in ("auto", "sag", "saga", "lbfgs"):
        return "as asked for"
    if solution.earlier:
        return "the first choice turned out to be too slow"
    return "predicted to be the fastest"
