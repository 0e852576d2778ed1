"""`Ridge`: scikit-learn's, planned and certified."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from ling import problem as problems
from ling.design import Array, as_design
from ling.design.affine import storage_and_map
from ling.errors import BadOption, NegativeWeight, NotFinite, WrongShape, WrongType
from ling.planning import Plan, Shape, make_plan, memory_budget_bytes
from ling.report import Certificate, FitReport, Status
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
#: Where coefficients can be kept >= 0.
POSITIVE = ("auto", "lbfgs")
#: Advice for a tol that float32 itself does not allow.
COARSE = (
    "coef_ and intercept_ are in float32 because X is, which alone costs more than tol; raise tol, "
    "or pass X in float64."
)


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
        _refuse_sparse(y=y, sample_weight=sample_weight)
        with _naming(X=X, y=y):
            # Non-finite numbers in X show in the first pass over it; those in y are looked for.
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
        solution = solve(problem, plan, _options(self, centring, X.dtype))
        coef = centring.coef(solution.coef)
        intercept = centring.intercept(coef) if self.fit_intercept else None
        if intercept is not None:
            solution = _with_intercept(problem, solution, centring, intercept, X.dtype)
        report = _report(self, problem, solution, plan, prepared - started)
        self._keep(X.dtype, y.ndim, coef, intercept, solution, report)
        return self

    def predict(self, X: Any) -> Array:
        """X coef_ + intercept_."""
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        # Sums in float64, also for float32: the certificate is about predictions.
        found = as_design(X).matmat(self.coef_.T.astype(np.float64)) + self.intercept_
        return np.asarray(found.astype(X.dtype, copy=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _keep(
        self, dtype: np.dtype[Any], n_dim: int, coef: Array, intercept: Array | None,
        solution: Solution, report: FitReport,
    ) -> None:  # fmt: skip
        """Set all attributes, and say so if the fit is not what was asked for."""
        # One target gives one row, even where y is a column: as scikit-learn has it.
        rows = coef[:, 0] if coef.shape[1] == 1 else coef.T
        self.coef_ = np.ascontiguousarray(rows.astype(dtype, copy=False))
        self.intercept_: Any = 0.0
        if intercept is not None:
            intercept = intercept.astype(dtype)
            self.intercept_ = intercept[0] if n_dim == 1 else intercept
        n_iter = solution.candidate.n_iter
        self.n_iter_ = None if n_iter is None else np.full(coef.shape[1], n_iter, np.int32)
        self.solver_ = solution.step.engine
        self.report_ = report
        if solution.status is Status.NOT_REACHED:
            bound = report.certificate.bound
            proved = f"the predictions are proved to be within {bound:.2e} of the exact ones"
            if bound > 1:
                proved = "nothing could be proved of the predictions"
            warnings.warn(
                f"Ridge: {proved}, not within tol={self.tol:g}: {self._advice(solution)}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _advice(self, solution: Solution) -> str:
        """What to do about a fit that is not certified."""
        if solution.coarse:
            return COARSE
        if self.positive or "direct" in (solution.step.engine, *solution.earlier):
            return (
                "float64 cannot tell more of this X; raise tol or alpha, or scale X "
                "(StandardScaler)."
            )
        return (
            "raise tol or max_iter, or pass solver='direct' if n_features^2 or n_samples^2 numbers "
            "fit in memory."
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
    design = as_design(X)
    n_targets = 1 if y is None or np.ndim(y) == 1 else np.shape(y)[1]
    if y is not None and np.shape(y)[0] != design.shape[0]:
        raise WrongShape(
            f"X has {design.shape[0]} rows and y has {np.shape(y)[0]}: pass as many rows of y as "
            "of X."
        )
    shape = _shape(design, n_targets, len(np.unique(_alphas(alpha, n_targets))))
    return make_plan(shape, memory_budget_bytes(memory_budget), precision, tol)


def _shape(design: Any, n_targets: int, n_alphas: int) -> Shape:
    n, p = design.shape
    storage, _ = storage_and_map(design)
    return Shape(
        n, p, storage.n_stored, storage.dtype.itemsize, storage.is_dense, n_targets, n_alphas
    )


def _plan(problem: problems.Problem, X: Any, model: Ridge) -> Plan:
    shape = _shape(as_design(X), problem.n_targets, len(problem.distinct_alphas))
    return make_plan(shape, memory_budget_bytes(model.memory_budget), model.precision, model.tol)


def _options(model: Ridge, centring: problems.Centring, dtype: np.dtype[Any]) -> Options:
    solver = SCIKIT_LEARN.get(model.solver, model.solver)
    stored = None if dtype == np.float64 else partial(_stored, centring, dtype)
    return Options(
        float(model.tol), model.max_iter, solver, model.random_state, bool(model.positive), stored
    )


def _stored(centring: problems.Centring, dtype: np.dtype[Any], W: Array) -> Array:
    """W with the rounding of `coef_` to `dtype`, which happens in the units of the data."""
    unit = centring.y_unit / centring.x_unit
    with np.errstate(over="ignore"):
        kept = centring.coef(W).astype(dtype).astype(np.float64)
    if not np.isfinite(kept[np.isfinite(W)]).all():
        raise NotFinite(f"the coefficients leave the range of {dtype}; pass X in float64.")
    return np.asarray(kept / unit)


def _with_intercept(
    problem: problems.Problem, solution: Solution, centring: problems.Centring, intercept: Array,
    dtype: np.dtype[Any],
) -> Solution:  # fmt: skip
    """The solution with the rounding of `intercept_` to `dtype` in its certificate.

    It moves all predictions by the same, on top of what rounding in float64 may have done.
    """
    moved = np.abs(intercept - intercept.astype(dtype).astype(np.float64)) / centring.y_unit
    spread = problem.spread
    moved *= np.sqrt(centring.mass)
    shift = np.divide(moved, spread, out=np.zeros_like(spread), where=spread > 0)
    if not shift.any():
        return solution
    certificate = Certificate(solution.certificate.bounds + shift, solution.certificate.tol)
    lost = solution.status is Status.CERTIFIED and not certificate.holds
    status = Status.NOT_REACHED if lost else solution.status
    return replace(solution, certificate=certificate, status=status, coarse=solution.coarse or lost)


def _check_solver(model: Ridge) -> None:
    if model.positive and model.solver not in POSITIVE:
        raise BadOption(
            f"solver={model.solver!r} does not support positive=True; pass solver='auto', or "
            "positive=False."
        )
    if model.solver in SCIKIT_LEARN:
        log.info(
            "solver=%r is one of scikit-learn's; ling uses %r for it.",
            model.solver, SCIKIT_LEARN[model.solver],
        )  # fmt: skip


def _refuse_sparse(**arguments: Any) -> None:
    for name, value in arguments.items():
        if sparse.issparse(value):
            raise WrongType(f"{name} is sparse; pass {name}.toarray().")


@contextmanager
def _naming(**arguments: Any) -> Iterator[None]:
    """Where scikit-learn finds fault with data but does not say with which argument, say it."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if "inconsistent numbers of samples" in str(error):
            raise WrongShape(f"{error}: pass as many rows of y as of X.") from error
        for name, value in arguments.items():
            _refuse_not_numeric(name, value, error)
        raise


def _refuse_not_numeric(name: str, value: Any, error: Exception) -> None:
    array: Any = value if sparse.issparse(value) else np.asarray(value)
    if array.dtype.kind == "c":
        raise WrongType(
            f"Complex data not supported: {name} is {array.dtype}; pass real numbers."
        ) from error
    if array.dtype.kind in "OUS":
        try:
            array.astype(np.float64)
        except (TypeError, ValueError) as fault:
            raise WrongType(
                f"{name} is not numeric: {fault}. Encode it as numbers (OneHotEncoder)."
            ) from error


def _targets(y: Array) -> Array:
    return y[:, None] if y.ndim == 1 else y


def _alphas(alpha: Any, n_targets: int) -> Array:
    with _naming(alpha=alpha):
        alphas = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
    if alphas.ndim != 1 or len(alphas) not in (1, n_targets):
        raise WrongShape(
            "Number of targets and number of penalties do not correspond: "
            f"{alphas.size} != {n_targets} (alpha has {alphas.size} values, y has {n_targets} "
            "columns); pass one alpha, or one for each target."
        )
    if not np.isfinite(alphas).all() or (alphas < 0).any():
        raise BadOption(f"alpha is {alpha}; pass finite numbers >= 0.")
    return np.full(n_targets, alphas[0]) if len(alphas) == 1 else alphas


def _weights(sample_weight: Any, X: Any) -> Array | None:
    if sample_weight is None:
        return None
    if not np.asarray(sample_weight).any():
        raise BadOption("sample_weight is zero everywhere; give at least one row a weight above 0.")
    with _naming(sample_weight=sample_weight):
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        at = int(np.flatnonzero(weights < 0)[0])
        raise NegativeWeight(
            f"sample_weight[{at}] is {weights[at]}; weights must be >= 0. "
            "To leave a row out, give it weight 0."
        )
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
    if solution.coarse:
        notes.append(f"{COARSE[0].upper()}{COARSE[1:]}")
    if not step.fits:
        notes.append(f"It takes about {step.n_bytes / 1e6:.3g} MB, more than memory_budget.")
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
    if model.positive:
        return "for coefficients >= 0"
    if solution.status is Status.UNCERTIFIED:
        return "alpha is 0, where iterations cannot tell when to stop"
    if model.solver not in ("auto", "sag", "saga", "lbfgs"):
        return "as asked for"
    if solution.earlier:
        return "as others did not get there, or would have taken longer"
    if not solution.step.fits:
        return "which needs the least memory; nothing fits memory_budget"
    return "first choice of the plan"
