"""`return_bound=True`: predictions with a proven bound on their distance from the exact ones.

For a row x, coefficients w, intercept b and the exact (w*, b*) with b* = y_mean - x_mean'w*,

    x'w + b - (x'w* + b*) = (x - x_mean)'(w - w*) + (b - (y_mean - x_mean'w))

The `ErrorRegion` of the certificate bounds both terms. The rounding of the sum x'w + b, and that of
the prediction to the dtype of X, are added.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from ling._typing import Array
from ling.design import as_design
from ling.design.row_source import verify_memmaps_unchanged
from ling.error_region import ErrorRegion, bounds_from_functionals, row_functionals
from ling.estimators.open_data import is_dask_collection, map_dask_blocks
from ling.estimators.prediction import (
    PredictionTransform,
    checked_x_and_predictions,
    predictions,
)
from ling.linalg.rounding import EPS


def predictions_with_bounds(
    model: Any, X: Any, coef: Array, finish: PredictionTransform = None
) -> tuple[Any, Any]:
    """Predictions finish(X coef + intercept_), coef (p, t), and their error bounds in float64.

    Bounds have the shape of the predictions. One pass more than for the predictions alone. For a
    Dask collection both are lazy Dask arrays. Where the fit has no certificate (alpha = 0), bounds
    are infinite.
    """
    if is_dask_collection(X):
        predicted = predictions(model, X, coef, finish)
        bound_block = partial(_block_bounds, model, coef, finish)
        return predicted, map_dask_blocks(X, bound_block, model.n_features_in_)
    with verify_memmaps_unchanged(X):
        X, predicted = checked_x_and_predictions(model, X, coef, finish)
        return predicted, _bounds(model, X, coef, predicted, finish)


def _block_bounds(model: Any, coef: Array, finish: PredictionTransform, block: Any) -> Array:
    """Bounds for a block of rows of a Dask collection."""
    X = np.asarray(block)
    predicted = as_design(X).predictions(coef.astype(np.float64), model.intercept_, finish)
    return _bounds(model, X, coef, predicted, finish)


def _bounds(
    model: Any, X: Any, coef: Array, predicted: Array, finish: PredictionTransform
) -> Array:
    """Bounds, in float64 and in the shape of the predictions, for validated X."""
    region = model.report_.certificate.region
    p = model.n_features_in_
    if region is None:
        return np.full(predicted.shape, np.inf)
    weights = np.abs(coef.astype(np.float64)).reshape(p, -1)
    if sparse.issparse(X):
        functionals = _sparse_functionals(region, weights, X)
    else:
        functionals = as_design(X).map_rows(partial(_dense_functionals, region, weights))
    t = weights.shape[1]
    sizes = functionals[:, :t] + np.abs(np.asarray(model.intercept_, np.float64))
    forms = model._inverse_forms(X) if hasattr(model, "_inverse_forms") else None
    bounds = bounds_from_functionals(region, functionals[:, t:], forms)
    # (p + 1) eps / 2 for the sum of p products and the intercept (Higham 2002, section 3.1), twice.
    bounds = bounds + (p + 4) * EPS * sizes
    bounds = bounds.reshape(predicted.shape) if finish is None else finish(bounds)
    stored = np.finfo(predicted.dtype)
    if stored.dtype != np.float64:
        rounding = stored.eps * np.abs(predicted.astype(np.float64)) + stored.smallest_subnormal
        bounds = bounds + rounding
    return np.asarray(bounds)


def _dense_functionals(region: ErrorRegion, weights: Array, rows: Array) -> Array:
    """|x|'|w| (m, t), and `row_functionals` (m, k), for rows of X (m, p) as they are."""
    sizes = np.abs(rows) @ weights
    centered = rows / region.x_scale
    if region.x_mean is not None:
        centered -= region.x_mean
    return np.hstack([sizes, row_functionals(region, centered)])


def _sparse_functionals(region: ErrorRegion, weights: Array, X: Any) -> Array:
    """As `_dense_functionals`, for a CSR matrix X (n, p), without a dense row.

    A sum over all columns is that of an empty row, x = 0, plus changes in the stored entries. It
    cancels if x is close to x_mean, so rounding errors of the terms are added.
    """
    X = sparse.csr_array(X).astype(np.float64)
    n, p = X.shape
    sizes = abs(X) @ weights
    X = X / region.x_scale
    mean = np.zeros(p) if region.x_mean is None else region.x_mean.astype(np.float64)
    at_columns = mean[X.indices]
    columns = [_changed_sums(X, (X.data - at_columns) ** 2, at_columns**2, float(mean @ mean))]
    roots = region.root_inverse_diagonal
    if roots is not None:
        factors = roots[X.indices]
        entries = np.abs(X.data - at_columns) * factors, np.abs(at_columns) * factors
        columns.append(_changed_sums(X, *entries, float(np.abs(mean) @ roots)))
    if region.directions is not None:
        U = region.directions.astype(np.float64)
        columns.append(X @ U - mean @ U)
    return np.hstack([sizes, *(column.reshape(n, -1) for column in columns)])


def _changed_sums(X: Any, entries: Array, at_zero: Array, empty_sum: float) -> Array:
    """Upper bounds (n,) of sums over all columns, of which `entries` (nnz,) are the stored ones.

    `at_zero` (nnz,) is what the stored ones would be for entries 0, and `empty_sum` the sum of a
    row without stored entries. All are >= 0.
    """
    p = X.shape[1]
    changes = sparse.csr_array((entries - at_zero, X.indices, X.indptr), shape=X.shape)
    terms = sparse.csr_array((entries + at_zero, X.indices, X.indptr), shape=X.shape)
    rounding = (p + 16) * EPS * (empty_sum + terms.sum(axis=1))
    return np.asarray(np.maximum(empty_sum + changes.sum(axis=1), 0.0) + rounding)
