"""Block-wise prediction and scoring for X that does not fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from ling._typing import Array
from ling.design import ChunkedStorage
from ling.estimators.open_data import is_dask_collection, materialize
from ling.estimators.validation import open_prediction_data
from ling.results import FitReport


class BlockPredictionMixin:
    """Adds `score` and `predict_blocks` for X scanned from files, or from a Dask collection."""

    # Set by `fit`.
    coef_: Array
    intercept_: float | np.floating[Any] | Array
    n_iter_: NDArray[np.int32] | None
    solver_: str
    report_: FitReport
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of the predictions or, for a classifier, their accuracy, as in scikit-learn.

        X (n, p) and y may be lazy (scanned files, pyarrow or Dask).
        """
        y, sample_weight = materialize(y, "y"), materialize(sample_weight, "sample_weight")
        if not is_dask_collection(X):
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        metric = accuracy_score if is_classifier(self) else r2_score
        predicted = np.asarray(self.predict(X))  # type: ignore[attr-defined]
        return float(metric(y, predicted, sample_weight=sample_weight))

    def predict_blocks(self, X: Any) -> Iterator[tuple[slice, Any]]:
        """Yield (rows, predictions) for one block of X after the other; `rows` is a slice.

        For X from `ling.scan_parquet` and the other scan functions. Only one block and its
        predictions are in memory at a time; `predict(X)` returns all predictions at once.
        """
        check_is_fitted(self, "coef_")
        storage = open_prediction_data(self, X)
        if isinstance(storage, ChunkedStorage):
            for rows, block in storage.blocks():
                block.check_finite(first=rows.start)
                yield rows, self.predict(block)  # type: ignore[attr-defined]
            return
        predicted = self.predict(X)  # type: ignore[attr-defined]
        yield slice(0, len(predicted)), predicted
