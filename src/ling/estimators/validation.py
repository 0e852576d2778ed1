"""Validation of arguments: every error names the argument and says what to pass instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight, validate_data
from sklearn.utils.validation import _check_y as check_y

from ling._typing import Array
from ling.design import ChunkedStorage, DenseStorage, Design, Meter, Storage, as_design
from ling.errors import InputTypeError, NegativeWeightError, OptionError, ShapeError
from ling.estimators.open_data import load_or_rechunk, materialize, memory_budget, open_storage
from ling.progress import FitProgress
from ling.solvers.cost_model import MemoryBudget
from ling.solvers.problem import TrainingData


def training_data(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    progress: FitProgress | None = None,
    *,
    estimator_name: str = "",
    **options: Any,
) -> tuple[TrainingData, Any]:
    """The validated data of a fit, and y of shape (n,) or (n, t) as the user gave it.

    This is the only place where the X of a fit is opened. `options` are those of scikit-learn's
    `validate_data`: with `y_numeric` y has to be numeric, and with reset=False X has to have the
    columns of the earlier fit. Messages call the estimator `estimator_name`, by default by the name
    of its class.
    """
    estimator_name = estimator_name or type(model).__name__
    _check_y_given(estimator_name, X, y)
    y = materialize(y, "y")
    check_not_sparse(y=y, sample_weight=sample_weight)
    numeric = {"y": y} if options.get("y_numeric") else {}  # class labels may be text
    is_reset, budget = options.get("reset", True), memory_budget(model)
    progress = FitProgress(()) if progress is None else progress
    storage = open_storage(X, budget) if is_reset else _open_like_fit(model, X, budget)
    encoding, resident_bytes = None, 0.0
    notes: tuple[str, ...] = ()
    if storage is None:
        options = {"estimator": estimator_name, **options}
        X, y = _validate_arrays(model, X, y, numeric, options)
        storage = _with_feature_names(model, X)
    else:
        y = _check_targets(estimator_name, storage, y, numeric)
        if is_reset:
            set_feature_attributes(model, storage)
        encoding, notes = storage.encoding, storage.notes
        storage, resident_bytes = load_or_rechunk(storage, budget, progress)
        X = storage
    data = TrainingData(
        X,
        Design(storage, meter=Meter(progress=progress)),
        as_target_matrix(y),
        check_sample_weight(sample_weight, X),
        encoding,
        resident_bytes,
        notes,
    )
    return data, y


def _validate_arrays(
    model: Any, X: Any, y: Any, numeric: dict[str, Any], options: dict[str, Any]
) -> tuple[Any, Any]:
    """Validated X (n, p) in memory, in float32 or float64, and y (n,) or (n, t)."""
    if options.get("reset", True) and hasattr(model, "encoding_"):  # of an earlier fit to a table
        del model.encoding_
    with name_argument_in_errors(X=X, **numeric):
        # The first pass over X detects non-finite numbers in it, so they are not looked for here;
        # validate_data checks y all the same.
        X, y = validate_data(
            model, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], multi_output=True,
            ensure_all_finite=False, **options,
        )  # fmt: skip
        _check_not_text(y, numeric)
    return X, y


def check_prediction_rows(model: Any, X: Any) -> Any:
    """Validated X (n, p) in memory, for prediction.

    If X has NaN or infinity, the error says where.
    """
    options: dict[str, Any] = {
        "accept_sparse": "csr", "dtype": [np.float64, np.float32], "reset": False,
    }  # fmt: skip
    with name_argument_in_errors(X=X):
        try:
            return validate_data(model, X, **options)
        except ValueError as error:
            if "contains NaN" not in str(error) and "contains infinity" not in str(error):
                raise
            unchecked = validate_data(model, X, ensure_all_finite=False, **options)
            _with_feature_names(model, unchecked).check_finite()
            raise


def _with_feature_names(model: Any, X: Any) -> Storage:
    """The storage of an array or a sparse matrix; errors about an array name its columns."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or not isinstance(X, np.ndarray):
        return as_design(X).storage
    return DenseStorage(X, feature_names=tuple(names))


def _check_y_given(estimator_name: str, X: Any, y: Any) -> None:
    if y is not None:
        return
    open_storage(X)  # raises, with better advice, if X is a Dataset or a path
    where = "fit(data.X, data.y)" if isinstance(X, Storage | Design) else "fit(X, y)"
    raise InputTypeError(
        f"This {estimator_name} estimator requires y to be passed, but the target y is None; "
        f"pass a target for every row: {where}."
    )


def _check_targets(estimator_name: str, storage: Storage, y: Any, numeric: dict[str, Any]) -> Any:
    """Validated y (n,) or (n, t) for an X in a storage; `numeric` is {} if y may be text."""
    n = storage.shape[0]
    if n == 0:
        raise ShapeError("X has no rows; at least one is needed.")
    with name_argument_in_errors(**numeric):
        y = check_y(y, multi_output=True, y_numeric=bool(numeric), estimator=estimator_name)
        _check_not_text(y, numeric)
    if len(y) != n:
        raise ShapeError(f"X has {n} rows and y has {len(y)}: pass as many rows of y as of X.")
    return y


def _check_not_text(y: Any, numeric: dict[str, Any]) -> None:
    """Raise if y is text and has to be numeric, i.e. if `numeric` is not empty.

    `name_argument_in_errors` replaces this error by one with advice.
    """
    if numeric and y.dtype.kind in "US":
        raise InputTypeError("y is text")


def set_feature_attributes(model: Any, storage: Storage) -> None:
    """Set `n_features_in_` and `feature_names_in_`, as scikit-learn's validation does.

    Also set `encoding_`, which says how columns of a table become numbers.
    """
    model.n_features_in_ = storage.shape[1]
    model.encoding_ = storage.encoding
    if storage.feature_names is not None:
        model.feature_names_in_ = np.array(storage.feature_names, dtype=object)
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_


def open_prediction_data(model: Any, X: Any) -> Storage | None:
    """Storage of an X (n, p) to predict for if X is lazy, else None.

    Raises unless its columns are those of the fit.
    """
    budget = memory_budget(model)
    storage = _open_like_fit(model, X, budget)
    return (
        storage.with_memory_budget(budget.n_bytes)
        if isinstance(storage, ChunkedStorage)
        else storage
    )


def _open_like_fit(model: Any, X: Any, budget: MemoryBudget) -> Storage | None:
    """Storage of X, encoded as in the fit of `model`, if X is lazy; raises if columns differ."""
    storage = open_storage(X, budget, getattr(model, "encoding_", None))
    if storage is not None:
        check_same_columns(model, storage.shape[1], storage.feature_names)
    return storage


def check_same_columns(model: Any, p: int, columns: tuple[str, ...] | None) -> None:
    """Raise unless X has as many columns as in the fit, with the same names if both have names."""
    if p != model.n_features_in_:
        raise ShapeError(
            f"X has {p} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input."
        )
    names = getattr(model, "feature_names_in_", None)
    if names is not None and columns is not None and tuple(names) != columns:
        first = next(pair for pair in zip(names, columns, strict=True) if pair[0] != pair[1])
        raise ShapeError(
            f"the columns of X are not those of the fit: where {first[0]!r} was there is "
            f"{first[1]!r} now; scan X with like=model, or put them in the same order."
        )


def check_not_sparse(**arguments: Any) -> None:
    """Raise if one of the named arguments (y, sample_weight) is sparse."""
    for name, value in arguments.items():
        if sparse.issparse(value):
            raise InputTypeError(f"{name} is sparse; pass {name}.toarray().")


@contextmanager
def name_argument_in_errors(**arguments: Any) -> Iterator[None]:
    """Context manager that replaces errors of scikit-learn by errors that name the argument.

    `arguments` are the values to examine by name. Errors that none of them explains are re-raised.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        if "inconsistent numbers of samples" in str(error):
            raise ShapeError(f"{error}: pass as many rows of y as of X.") from error
        for name, value in arguments.items():
            _check_numeric(name, value, error)
        raise


def _check_numeric(name: str, value: Any, error: Exception) -> None:
    """Raise InputTypeError, from `error`, if `value` or a column of it is complex or text."""
    for column in getattr(value, "columns", ()):  # only data frames have columns
        _check_numeric(f"column {column!r} of {name}", np.asarray(value[column]), error)
    array: Any = value if sparse.issparse(value) else np.asarray(value)
    if array.dtype.kind == "c":
        raise InputTypeError(
            f"Complex data not supported: {name} is {array.dtype}; pass real numbers."
        ) from error
    if array.dtype.kind in "OUS":
        try:
            array.astype(np.float64)
        except (TypeError, ValueError) as fault:
            raise InputTypeError(
                f"{name} is not numeric: {fault}. Encode it as numbers (OneHotEncoder)."
            ) from error


def as_target_matrix(y: Array) -> Array:
    """Targets as a matrix: y (n,) or (n, t) as an array of shape (n, t)."""
    return y[:, None] if y.ndim == 1 else y


def check_alpha_per_target(alpha: Any, n_targets: int) -> Array:
    """Validated penalties (n_targets,) from one alpha, or from one alpha per target."""
    with name_argument_in_errors(alpha=alpha):
        alphas = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
    if alphas.ndim != 1 or len(alphas) not in (1, n_targets):
        raise ShapeError(
            "Number of targets and number of penalties do not correspond: "
            f"{alphas.size} != {n_targets} (alpha has {alphas.size} values, y has {n_targets} "
            "columns); pass one alpha, or one for each target."
        )
    if not np.isfinite(alphas).all() or (alphas < 0).any():
        raise OptionError(f"alpha is {alpha}; pass finite numbers >= 0.")
    return np.full(n_targets, alphas[0]) if len(alphas) == 1 else alphas


def check_sample_weight(sample_weight: Any, X: Any) -> Array | None:
    """Validated sample weights (n,) in float64, or None if there are none."""
    sample_weight = materialize(sample_weight, "sample_weight")
    if sample_weight is None:
        return None
    if not np.asarray(sample_weight).any():
        raise OptionError(
            "sample_weight is zero everywhere; give at least one row a weight above 0."
        )
    with name_argument_in_errors(sample_weight=sample_weight):
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        row = int(np.flatnonzero(weights < 0)[0])
        raise NegativeWeightError(
            f"sample_weight[{row}] is {weights[row]}; weights must be >= 0. "
            "To leave a row out, give it weight 0."
        )
    return np.asarray(weights)
