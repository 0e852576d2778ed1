"""Predictions from fitted coefficients, also block by block for X that does not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from ling._typing import Array, MatrixLike
from ling.design import ChunkedStorage, as_design
from ling.design.row_source import verify_memmaps_unchanged
from ling.estimators.open_data import (
    is_dask_collection,
    map_dask_blocks,
    materialize,
    split_dataset,
)
from ling.estimators.parameter_validation import ParameterValidationMixin
from ling.estimators.validation import (
    check_prediction_rows,
    check_same_columns,
    check_sample_weight,
    check_y_given,
    open_prediction_data,
)
from ling.plain_state import PlainStateMixin
from ling.results import FitReport

if TYPE_CHECKING:
    from ling.io import Encoding

#: Maps predictions (n, t) to what is returned; None is the identity.
PredictionTransform: TypeAlias = Callable[[Array], Any] | None


def checked_x_and_predictions(
    model: Any, X: Any, coef: Array, finish: PredictionTransform = None
) -> tuple[Any, Any]:
    """Validated X, and the predictions finish(X coef + intercept_) in the dtype of X.

    `coef` has shape (p, t). The sums are computed in float64.
    """
    storage = open_prediction_data(model, X)
    if storage is not None:
        predicted = as_design(storage).predictions(
            coef.astype(np.float64), model.intercept_, finish
        )
        return storage, predicted
    with verify_memmaps_unchanged(X):
        X = check_prediction_rows(model, X)
        # The sums are in float64 for float32 X too: the certificate bounds errors of predictions.
        return X, as_design(X).predictions(coef.astype(np.float64), model.intercept_, finish)


def predictions(model: Any, X: Any, coef: Array, finish: PredictionTransform = None) -> Any:
    """Predictions finish(X coef + intercept_) for X (n, p) and coef (p, t).

    For a Dask collection the result is a lazy Dask array.
    """
    if not is_dask_collection(X):
        return checked_x_and_predictions(model, X, coef, finish)[1]
    columns = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
    check_same_columns(model, len(columns) if columns else X.shape[1], columns)
    V, constant = coef.astype(np.float64), model.intercept_

    def of_block(block: Any) -> Any:
        return as_design(np.asarray(block)).predictions(V, constant, finish)

    return map_dask_blocks(X, of_block, model.n_features_in_)


class BlockPredictionMixin(ParameterValidationMixin, PlainStateMixin):
    """Adds `score` and `predict_blocks` for X scanned from files, or from a Dask collection."""

    # Set by `fit`.
    coef_: Array
    intercept_: float | np.floating[Any] | Array
    n_iter_: NDArray[np.int32] | None
    solver_: str
    report_: FitReport
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    encoding_: Encoding | None

    def score(
        self, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """R^2 of the predictions or, for a classifier, their accuracy, as in scikit-learn.

        X (n, p) and y may be lazy (pyarrow or Dask). X may be a Dataset; y is then its target.
        """
        X, y = split_dataset(X, y)
        check_y_given(type(self).__name__, y)
        y = materialize(y, "y")
        sample_weight = check_sample_weight(sample_weight, np.shape(y)[0] if np.ndim(y) else 0)
        if not is_dask_collection(X):
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        metric = accuracy_score if is_classifier(self) else r2_score
        predicted = np.asarray(self.predict(X))  # type: ignore[attr-defined]
        return float(metric(y, predicted, sample_weight=sample_weight))

    def predict_blocks(self, X: MatrixLike) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Yield (rows, predictions) for one block of X after the other; `rows` is a slice.

        For a Dataset from `ling.scan_parquet` and the other scan functions. Only one block and its
        predictions are in memory at a time; `predict(X)` returns all predictions at once.
        """
        check_is_fitted(self, "coef_")
        storage = open_prediction_data(self, X)
        if isinstance(storage, ChunkedStorage):
            with closing(storage.blocks()) as blocks:
                for rows, block in blocks:
                    block.check_finite(first=rows.start)
                    yield rows, self.predict(block)  # type: ignore[attr-defined]
            return
        predicted = self.predict(X)  # type: ignore[attr-defined]
        yield slice(0, len(predicted)), predicted
