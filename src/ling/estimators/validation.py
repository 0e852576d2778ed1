"""Validation of arguments: every error names the argument and says what to pass instead."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ling._typing import Array
from ling.design import ChunkedStorage, DenseStorage, Design, Meter, Storage
from ling.design.sparse import SparseStorage
from ling.design.tuning import DEFAULT_TUNING, Tuning
from ling.errors import (
    InputTypeError,
    LingError,
    NegativeWeightError,
    NonFiniteError,
    OptionError,
    ShapeError,
    Where,
)
from ling.estimators.open_data import (
    as_numpy,
    load_or_rechunk,
    materialize,
    memory_budget,
    open_storage,
    split_dataset,
)
from ling.progress import FitProgress
from ling.solvers.memory_budget import MemoryBudget
from ling.solvers.problem import TrainingData

# Remedies for arguments that are not numeric, and for rows with NaN or infinity, by argument.
NUMERIC_REMEDIES: dict[str, tuple[str, ...]] = {
    "X": ("encode it as numbers, for example by OneHotEncoder",),
    "y": ("pass numbers", "use RidgeClassifier to predict classes"),
    "sample_weight": (
        "pass numbers",
        "pass data.read('column') to use a column of a scanned table",
    ),
}
NONFINITE_REMEDIES: dict[str, tuple[str, ...]] = {
    "y": ("leave this row out of `X` and `y`", "fill in its value"),
    "sample_weight": ("give this row weight 0 to leave it out",),
}


FLOAT_DTYPES = np.dtype(np.float64), np.dtype(np.float32)


class ValidationEstimator(BaseEstimator):
    """Stand-in for the estimator that validation needs, for a function with data as arguments."""

    def __init__(
        self, estimator_name: str, memory_budget: float | str | None = None, verbose: int = 0
    ) -> None:
        self.estimator_name = estimator_name
        self.memory_budget = memory_budget
        self.verbose = verbose


def training_data(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    progress: FitProgress | None = None,
    *,
    estimator_name: str = "",
    **options: Any,
) -> tuple[TrainingData, NDArray[Any]]:
    """The validated data of a fit, and y of shape (n,) or (n, t) as the user gave it.

    This is the only place where the X of a fit is opened. X may be a Dataset, whose target is used
    if y is None. `options` are those of scikit-learn's `validate_data`: with `y_numeric` y has to
    be numeric, and with reset=False X has to have the columns of the earlier fit. Messages call the
    estimator `estimator_name`, by default by the name of its class.
    """
    estimator_name = estimator_name or type(model).__name__
    is_reset, budget = options.get("reset", True), memory_budget(model)
    progress = FitProgress(()) if progress is None else progress
    X, y = split_dataset(X, y)
    X = as_numpy(X, "X")
    storage = open_storage(X, budget) if is_reset else _open_like_fit(model, X, budget)
    check_y_given(estimator_name, y)
    y = materialize(y, "y")
    check_not_sparse(y=y, sample_weight=sample_weight)
    numeric = {"y": y} if options.get("y_numeric") else {}  # class labels may be text
    encoding, resident_bytes = None, 0.0
    notes: tuple[str, ...] = ()
    if storage is None:
        # Without the subclass, each of whose slices takes as long as a pass over a small X.
        X, y = (v.view(np.ndarray) if type(v) is np.memmap else v for v in (X, y))
        options = {"estimator": estimator_name, **options}
        X, y = _validate_arrays(model, X, y, numeric, options)
        storage = _with_feature_names(model, X, budget.tuning)
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
        check_sample_weight(sample_weight, X.shape[0]),
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
    if options.get("reset", True) and _is_valid_as_is(X, y):
        model.n_features_in_ = X.shape[1]
        vars(model).pop("feature_names_in_", None)  # of an earlier fit to a data frame
        return X, y
    with locate_nonfinite_in_errors(y=y), name_argument_in_errors(X=X, **numeric):
        # The first pass over X detects non-finite numbers in it, so they are not looked for here;
        # validate_data checks y all the same.
        with _count_rows_in_errors(X, y):
            X, y = validate_data(
                model, X, y, accept_sparse="csr", dtype=[np.float64, np.float32],
                multi_output=True, ensure_all_finite=False, **options,
            )  # fmt: skip
        _check_numeric_y(y, numeric)
    return X, y


def _is_valid_as_is(X: Any, y: Any) -> bool:
    """Whether `validate_data` would return X and y unchanged.

    It takes longer than a small fit to find that out.
    """
    return (
        type(X) is np.ndarray
        and type(y) is np.ndarray
        and X.dtype in FLOAT_DTYPES
        and y.dtype in FLOAT_DTYPES
        and X.ndim == 2
        and y.ndim in (1, 2)
        and min(*X.shape, y.size) > 0
        and len(X) == len(y)
        and bool(np.isfinite(y).all())
    )


def check_prediction_rows(model: Any, X: Any) -> Any:
    """Validated X (n, p) in memory, for prediction.

    If X has NaN or infinity, the error says where.
    """
    options: dict[str, Any] = {
        "accept_sparse": "csr", "dtype": [np.float64, np.float32], "reset": False,
    }  # fmt: skip
    X = as_numpy(X, "X")
    with name_argument_in_errors(X=X):
        try:
            return validate_data(model, X, **options)
        except ValueError as error:
            if "contains NaN" not in str(error) and "contains infinity" not in str(error):
                raise
            unchecked = validate_data(model, X, ensure_all_finite=False, **options)
            _with_feature_names(model, unchecked).check_finite()
            raise


def _with_feature_names(model: Any, X: Any, tuning: Tuning = DEFAULT_TUNING) -> Storage:
    """The storage of an array or a sparse matrix; errors about an array name its columns."""
    names = getattr(model, "feature_names_in_", None)
    if sparse.issparse(X):
        return SparseStorage(X, tuning=tuning)
    names = None if names is None else tuple(names)
    return DenseStorage(X, feature_names=names, tuning=tuning)


def check_y_given(estimator_name: str, y: Any) -> None:
    """Raise InputTypeError if y is None."""
    if y is None:
        raise InputTypeError(
            "y",
            # The words of scikit-learn, which its tests look for.
            f"This {estimator_name} estimator requires `y` to be passed, but the target y is None",
            "pass `y`, a target for every row of `X`",
            "pass a Dataset that was scanned with target=... (scan_npy and scan_zarr: y=...) in "
            "place of `X` and `y`",
        )


def check_same_n_rows(n_rows_of_x: int, n_rows_of_y: int) -> None:
    """Raise ShapeError unless y has as many rows as X."""
    if n_rows_of_x != n_rows_of_y:
        raise _row_count_error(n_rows_of_x, n_rows_of_y)


def _row_count_error(n_rows_of_x: int, n_rows_of_y: int) -> ShapeError:
    return ShapeError(
        "y",
        f"has {n_rows_of_y} rows, and `X` has {n_rows_of_x}",
        "pass a row of `y` for each row of `X`",
    )


@contextmanager
def _count_rows_in_errors(X: Any, y: Any) -> Iterator[None]:
    """Context manager that replaces scikit-learn's error if X and y differ in their rows."""
    try:
        yield
    except ValueError as error:
        if "inconsistent numbers of samples" in str(error):
            raise _row_count_error(np.shape(X)[0], np.shape(y)[0]) from error
        raise


def _check_targets(estimator_name: str, storage: Storage, y: Any, numeric: dict[str, Any]) -> Any:
    """Validated y (n,) or (n, t) for an X in a storage; `numeric` is {} if y may be text."""
    n = storage.shape[0]
    if n == 0:
        raise ShapeError("X", "has no rows", "pass at least one")
    with locate_nonfinite_in_errors(y=y), name_argument_in_errors(**numeric):
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y", estimator=estimator_name)
        y = y.astype(np.float64) if numeric and y.dtype.kind == "O" else y
        _check_numeric_y(y, numeric)
    check_same_n_rows(n, len(y))
    return y


def _check_numeric_y(y: Any, numeric: dict[str, Any]) -> None:
    """Raise if y has to be numeric, and is text or has missing values; if `numeric` is {} it may.

    `numeric["y"]` is y as it was passed. `name_argument_in_errors` replaces the error about text by
    one that quotes it, unless all of y can be converted to numbers.
    """
    if not numeric:
        return
    if y.dtype.kind in "US":
        raise InputTypeError("y", "is text", *NUMERIC_REMEDIES["y"])
    # scikit-learn converts None in an array of objects to NaN, and does not check the result.
    if np.asarray(numeric["y"]).dtype.kind == "O" and not np.isfinite(y).all():
        raise ValueError("y contains None")


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
            "X",
            f"has {p} features, but {type(model).__name__} is expecting {model.n_features_in_} "
            "features as input",
            "pass the columns of the fit, in the same order",
        )
    names = getattr(model, "feature_names_in_", None)
    if names is not None and columns is not None and tuple(names) != columns:
        first = next(pair for pair in zip(names, columns, strict=True) if pair[0] != pair[1])
        raise ShapeError(
            "X",
            f"is where the fit had {first[0]!r}",
            "put the columns in the order of the fit",
            "scan the data with like=model",
            where=Where(column=first[1]),
        )


def check_not_sparse(**arguments: Any) -> None:
    """Raise if one of the named arguments (y, sample_weight) is sparse."""
    for name, value in arguments.items():
        if sparse.issparse(value):
            raise InputTypeError(name, "is sparse", f"pass {name}.toarray()")


@contextmanager
def name_argument_in_errors(**arguments: Any) -> Iterator[None]:
    """Context manager that replaces errors of scikit-learn by errors that name the argument.

    `arguments` are the values to examine by name. Errors that none of them explains are re-raised.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        for name, value in arguments.items():
            # Only data frames have columns.
            for position, column in enumerate(getattr(value, "columns", ())):
                place = Where(column=_column_name(column, position))
                _check_numeric(name, np.asarray(value[column]), error, place)
            _check_numeric(name, value, error)
        raise


def _check_numeric(name: str, value: Any, error: Exception, where: Where | None = None) -> None:
    """Raise InputTypeError, from `error`, if `value` is complex or text."""
    try:
        array: Any = value if sparse.issparse(value) else np.asarray(value)
    except LingError:  # `error` says already that the value is no array
        return
    except ValueError as fault:  # lists of different lengths
        raise InputTypeError(
            name, f"is not an array ({fault})", "pass lists of equal lengths", where=where
        ) from error
    if array.dtype.kind == "c":
        raise InputTypeError(
            name,
            f"Complex data not supported: `{name}` is {array.dtype}",
            "pass real numbers",
            where=where,
        ) from error
    if array.dtype.kind in "OUS":
        try:
            array.astype(np.float64)
        except (TypeError, ValueError) as fault:
            remedies = NUMERIC_REMEDIES.get(name, ("pass numbers",))
            raise InputTypeError(
                name, f"is not numeric ({fault})", *remedies, where=where
            ) from error


@contextmanager
def locate_nonfinite_in_errors(**arguments: Any) -> Iterator[None]:
    """Context manager that adds the row to errors of scikit-learn about NaN and infinity.

    `arguments` are the values of y or sample_weight, by name.
    """
    try:
        yield
    except ValueError as error:
        if isinstance(error, LingError) or "contains" not in str(error):
            raise
        for name, value in arguments.items():
            values = np.asarray(value)
            is_float = values.dtype.kind == "f"
            mask = np.isfinite(values) if is_float else np.vectorize(_is_finite, [bool])(values)
            positions = np.argwhere(~mask)
            if len(positions):
                raise NonFiniteError(
                    name,
                    f"is {values[tuple(positions[0])]}",
                    *NONFINITE_REMEDIES[name],
                    where=_place(value, *map(int, positions[0])),
                ) from error
        raise


def _place(value: Any, row: int, column: int | None = None) -> Where:
    """The place of an entry of y or sample_weight; a column of a data frame by its name."""
    if column is None or not hasattr(value, "columns"):
        return Where(row, column)
    return Where(row, _column_name(value.columns[column], column))


def _column_name(label: Any, position: int) -> str | int:
    """The label of a column if it is text, otherwise its position, as where there are no names."""
    return label if isinstance(label, str) else position


def _is_finite(value: Any) -> bool:
    """False for NaN, infinity, None and pandas.NA; text is finite."""
    try:
        return isinstance(value, str) or math.isfinite(value)
    except TypeError:
        return False


def as_target_matrix(y: Array) -> Array:
    """Targets as a matrix: y (n,) or (n, t) as an array of shape (n, t)."""
    return y[:, None] if y.ndim == 1 else y


def check_sample_weight(sample_weight: Any, n: int) -> Array | None:
    """Validated sample weights (n,) in float64, or None if there are none.

    This is the only place where sample weights are checked: those of fits, paths, scores and
    displays. They may be an array, a lazy array or one number for all rows.
    """
    if sample_weight is None:
        return None
    check_not_sparse(sample_weight=sample_weight)
    given = materialize(sample_weight, "sample_weight")
    values = _as_float_array(given)
    weights = np.full(n, values) if values.ndim == 0 else values
    if weights.shape != (n,):
        raise ShapeError(
            "sample_weight",
            # The last sentence is that of scikit-learn, which its tests look for.
            f"has shape {weights.shape}, expected ({n},). Sample weights must be 1D array or "
            "scalar",
            "pass a weight for every row of `X`, or one number for all rows",
        )
    _check_weights(weights, has_rows=values.ndim == 1)
    return weights


def _as_float_array(sample_weight: Any) -> Array:
    """Sample weights as an array in float64, of any shape; entries of an array are finite."""
    with (
        locate_nonfinite_in_errors(sample_weight=sample_weight),
        name_argument_in_errors(sample_weight=sample_weight),
    ):
        array = np.asarray(sample_weight)
        if array.dtype.kind in "mM":  # NumPy would convert dates to numbers
            raise InputTypeError(
                "sample_weight", f"is {array.dtype}", *NUMERIC_REMEDIES["sample_weight"]
            )
        if array.ndim == 0:
            return array.astype(np.float64)
        checked = check_array(
            sample_weight, ensure_2d=False, allow_nd=True, ensure_min_samples=0,
            ensure_min_features=0, dtype=np.float64, order="C", input_name="sample_weight",
        )  # fmt: skip
        return np.asarray(checked)


def _check_weights(weights: Array, has_rows: bool) -> None:
    """Raise unless all weights (n,) are finite and >= 0 and their sum is a normal number.

    Without `has_rows` one number was given for all rows.
    """

    def first(mask: NDArray[np.bool_]) -> tuple[str, Where]:
        row = int(np.argmax(mask))
        return f"is {weights[row]}", Where(row) if has_rows else Where()

    if not (finite := np.isfinite(weights)).all():
        problem, where = first(~finite)
        raise NonFiniteError(
            "sample_weight", problem, *NONFINITE_REMEDIES["sample_weight"], where=where
        )
    if (negative := weights < 0).any():
        problem, where = first(negative)
        raise NegativeWeightError(
            "sample_weight",
            problem,
            "pass weights >= 0 (a row of weight 0 is left out)",
            where=where,
        )
    if len(weights) and not weights.any():
        raise OptionError(
            "sample_weight", "is zero everywhere", "give at least one row a weight above 0"
        )
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if len(weights) and not np.finfo(np.float64).tiny <= total < np.inf:
        raise NonFiniteError(
            "sample_weight",
            f"the sum of `sample_weight` is {total:.3g}, which leaves the range of float64",
            "multiply `sample_weight` and `alpha` by a constant",
        )
