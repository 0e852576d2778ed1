"""What users pass, checked: every message names the argument and says what to pass instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight, validate_data
from sklearn.utils.validation import _check_y as check_y

from ling._typing import Array
from ling.design import ChunkedStorage, DenseStorage, Design, Storage, as_design
from ling.design.affine import storage_and_map
from ling.errors import BadOption, NegativeWeight, WrongShape, WrongType
from ling.estimators.open_data import (
    load_or_rechunk,
    materialize,
    open_storage,
    requested_budget,
    with_block_size,
)


def check_training_data(
    model: Any, X: Any, y: Any, sample_weight: Any, **options: Any
) -> tuple[Any, Any]:
    """X and y as scikit-learn wants them, float32 or float64; X is a design where it is lazy.

    It is one, too, where columns have names, so that errors can name them.
    """
    _check_y_given(model, X, y)
    y = materialize(y, "y")
    check_not_sparse(y=y, sample_weight=sample_weight)
    numeric = {"y": y} if options.get("y_numeric") else {}  # classes may be words
    first = options.get("reset", True)
    storage = open_storage(X, requested_budget(model)) if first else open_prediction_data(model, X)
    if storage is not None:
        y = _check_targets(model, storage, y, numeric)
        if first:
            set_feature_attributes(model, storage)
        return load_or_rechunk(storage, model), y
    if first and hasattr(model, "encoding_"):  # of an earlier fit to a table
        del model.encoding_
    with name_argument_in_errors(X=X, **numeric):
        # Non-finite numbers in X show in the first pass over it; those in y are looked for.
        X, y = validate_data(
            model, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], multi_output=True,
            ensure_all_finite=False, **options,
        )  # fmt: skip
        _check_not_text(y, numeric)
    return with_feature_names(model, X), y


def check_prediction_rows(model: Any, X: Any) -> Any:
    """X in memory to predict for, as scikit-learn wants it."""
    options: dict[str, Any] = {
        "accept_sparse": "csr", "dtype": [np.float64, np.float32], "reset": False,
    }  # fmt: skip
    with name_argument_in_errors(X=X):
        try:
            return validate_data(model, X, **options)
        except ValueError as error:
            if "contains NaN" not in str(error) and "contains infinity" not in str(error):
                raise
            found = validate_data(model, X, ensure_all_finite=False, **options)
            _storage_of(with_feature_names(model, found)).check_finite()
            raise


def with_feature_names(model: Any, X: Any) -> Any:
    """An array, with the names of its columns if the model knows them."""
    names = getattr(model, "feature_names_in_", None)
    if names is None or not isinstance(X, np.ndarray):
        return X
    design = DenseStorage(X)
    design.feature_names = tuple(names)
    return design


def _storage_of(X: Any) -> Storage:
    storage, _ = storage_and_map(as_design(X))
    return storage


def _check_y_given(model: Any, X: Any, y: Any) -> None:
    if y is not None:
        return
    open_storage(X)  # whoever passes a Dataset, or a path, is told what to do with that
    where = "fit(data.X, data.y)" if isinstance(X, Design) else "fit(X, y)"
    raise WrongType(
        f"This {type(model).__name__} estimator requires y to be passed, but the target y is None; "
        f"pass a target for every row: {where}."
    )


def _check_targets(model: Any, storage: Storage, y: Any, numeric: dict[str, Any]) -> Any:
    n = storage.shape[0]
    if n == 0:
        raise WrongShape("X has no rows; at least one is needed.")
    with name_argument_in_errors(**numeric):
        y = check_y(y, multi_output=True, y_numeric=bool(numeric), estimator=model)
        _check_not_text(y, numeric)
    if len(y) != n:
        raise WrongShape(f"X has {n} rows and y has {len(y)}: pass as many rows of y as of X.")
    return y


def _check_not_text(y: Any, numeric: dict[str, Any]) -> None:
    """Where y has to be numbers; `name_argument_in_errors` says what to do."""
    if numeric and y.dtype.kind in "US":
        raise WrongType("y is text")


def set_feature_attributes(model: Any, storage: Storage) -> None:
    """Their number and names, as scikit-learn's validation does, and how they became numbers."""
    model.n_features_in_ = storage.shape[1]
    model.encoding_ = storage.encoding
    if storage.feature_names is not None:
        model.feature_names_in_ = np.array(storage.feature_names, dtype=object)
    elif hasattr(model, "feature_names_in_"):
        del model.feature_names_in_


def open_prediction_data(model: Any, X: Any) -> Storage | None:
    """The storage behind an X to predict for, if it is lazy; its columns are those of the fit."""
    storage = open_storage(X, requested_budget(model), getattr(model, "encoding_", None))
    if storage is not None:
        check_same_columns(model, storage.shape[1], storage.feature_names)
    return with_block_size(storage, model) if isinstance(storage, ChunkedStorage) else storage


def check_same_columns(model: Any, p: int, columns: tuple[str, ...] | None) -> None:
    """An error unless these are as many as, and named like, those of the fit."""
    if p != model.n_features_in_:
        raise WrongShape(
            f"X has {p} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input."
        )
    names = getattr(model, "feature_names_in_", None)
    if names is not None and columns is not None and tuple(names) != columns:
        first = next(pair for pair in zip(names, columns, strict=True) if pair[0] != pair[1])
        raise WrongShape(
            f"the columns of X are not those of the fit: where {first[0]!r} was there is "
            f"{first[1]!r} now; scan X with like=model, or put them in the same order."
        )


def check_not_sparse(**arguments: Any) -> None:
    """Targets and weights have to be dense."""
    for name, value in arguments.items():
        if sparse.issparse(value):
            raise WrongType(f"{name} is sparse; pass {name}.toarray().")


@contextmanager
def name_argument_in_errors(**arguments: Any) -> Iterator[None]:
    """Where scikit-learn finds fault with data but does not say with which argument, say it."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if "inconsistent numbers of samples" in str(error):
            raise WrongShape(f"{error}: pass as many rows of y as of X.") from error
        for name, value in arguments.items():
            _check_numeric(name, value, error)
        raise


def _check_numeric(name: str, value: Any, error: Exception) -> None:
    for column in getattr(value, "columns", ()):  # of a data frame
        _check_numeric(f"column {column!r} of {name}", np.asarray(value[column]), error)
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


def as_target_matrix(y: Array) -> Array:
    """(n, t)."""
    return y[:, None] if y.ndim == 1 else y


def check_alpha_per_target(alpha: Any, n_targets: int) -> Array:
    """One for each target."""
    with name_argument_in_errors(alpha=alpha):
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


def check_sample_weight(sample_weight: Any, X: Any) -> Array | None:
    """One for each sample, or None."""
    sample_weight = materialize(sample_weight, "sample_weight")
    if sample_weight is None:
        return None
    if not np.asarray(sample_weight).any():
        raise BadOption("sample_weight is zero everywhere; give at least one row a weight above 0.")
    with name_argument_in_errors(sample_weight=sample_weight):
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        at = int(np.flatnonzero(weights < 0)[0])
        raise NegativeWeight(
            f"sample_weight[{at}] is {weights[at]}; weights must be >= 0. "
            "To leave a row out, give it weight 0."
        )
    return np.asarray(weights)
