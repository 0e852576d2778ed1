"""Predictions for data that does not fit into memory: blocks in, blocks out."""

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
    """What all estimators offer for X that is scanned, or on a cluster."""

    # Set by `fit`.
    coef_: Array
    intercept_: float | np.floating[Any] | Array
    n_iter_: NDArray[np.int32] | None
    solver_: str
    report_: FitReport
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of the predictions or, of a classifier, their accuracy; as scikit-learn's."""
        y, sample_weight = materialize(y, "y"), materialize(sample_weight, "sample_weight")
        if not is_dask_collection(X):
            return float(super().score(X, y, sample_weight))  # type: ignore[misc]
        measure = accuracy_score if is_classifier(self) else r2_score
        predicted = np.asarray(self.predict(X))  # type: ignore[attr-defined]
        return float(measure(y, predicted, sample_weight=sample_weight))

    def predict_blocks(self, X: Any) -> Iterator[tuple[slice, Any]]:
        """Rows, from where to where, and `predict` for them: one block of X after the other.

        For X of `ling.scan_parquet` and its like. Only a block at a time is in memory, and only its
        predictions; `predict(X)` gives all of them at once.
        """
        check_is_fitted(self, "coef_")
        storage = open_prediction_data(self, X)
        if isinstance(storage, ChunkedStorage):
            for rows, block in storage.blocks():
                block.check_finite(first=rows.start)
                yield rows, self.predict(block)  # type: ignore[attr-defined]
            return
        found = self.predict(X)  # type: ignore[attr-defined]
        yield slice(0, len(found)), found
