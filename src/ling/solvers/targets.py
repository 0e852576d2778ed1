"""Targets of a ridge problem: their norms, means and scales, without copies of all of y."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.arrays import row_slices, subtract_row
from ling.errors import NonFiniteError
from ling.linalg import threads

# A sum of squares in this range has lost no digits to underflow or overflow.
SAFE_SQUARES_RANGE = 1e-200, 1e200
# Numbers of y that are compared at a time, to find constant targets without a copy of all of y.
COMPARED_ELEMENTS = 2**16


def weighted_column_norms(Y: Array, weights: Array | None) -> Array:
    """sqrt(sum_i w_i y_i^2) for each column of Y (n, t), (t,), without overflow or underflow."""
    squares = np.einsum("ij,ij->j", Y, Y if weights is None else weights[:, None] * Y)
    if ((squares > SAFE_SQUARES_RANGE[0]) & (squares < SAFE_SQUARES_RANGE[1])).all():
        return np.asarray(np.sqrt(squares))
    largest = np.abs(Y).max(axis=0, initial=0.0)
    scale = np.where(largest > 0, largest, 1.0)
    squares = (Y / scale) ** 2
    sums = squares.sum(axis=0) if weights is None else weights @ squares
    return np.asarray(scale * np.sqrt(sums))


def center_targets_exactly(
    Y: Array, weights: Array | None, total_weight: float, overwrite: bool = False
) -> tuple[Array, Array]:
    """The rounded weighted mean of each target (t,), and Y minus its mean (n, t).

    The mean of the result is 0 up to the rounding of small numbers. Y minus the *rounded* mean
    would have a mean that is as large as the rounding error of a large mean. With `overwrite`, the
    result is Y itself.
    """
    y_mean, centered = center_targets(Y, weights, total_weight, overwrite)
    mean_correction = _weighted_mean(centered, weights, total_weight)
    _subtract_row(centered, mean_correction, centered)
    return y_mean + mean_correction, centered


def center_targets(
    Y: Array, weights: Array | None, total_weight: float, overwrite: bool = False
) -> tuple[Array, Array]:
    """The rounded weighted mean of each target (t,), and Y minus it (n, t), in Y if `overwrite`.

    A constant target becomes exactly 0.
    """
    first = Y[0 if weights is None else int(np.argmax(weights > 0))].copy()
    with np.errstate(over="ignore", invalid="ignore"):
        y_mean = _weighted_mean(Y, weights, total_weight)
        centered = _subtract_row(Y, y_mean, Y if overwrite else np.empty_like(Y))
    if not np.isfinite(y_mean).all():
        raise NonFiniteError("y", "the sum of `y` overflows float64", "divide `y` by a constant")
    # The mean of a constant target may differ from its value by rounding.
    constant = constant_columns(centered, weights)
    if constant.any():
        centered[:, constant] -= first[constant] - y_mean[constant]
        y_mean[constant] = first[constant]
    return y_mean, centered


def _subtract_row(Y: Array, row: Array, out: Array) -> Array:
    """Write Y - row to `out` (n, t), which may be Y, in several threads; return it."""
    threads.parallel_map(lambda rows: subtract_row(Y[rows], row, out[rows]), threads.row_parts(Y))
    return out


def _weighted_mean(Y: Array, weights: Array | None, total_weight: float) -> Array:
    if weights is None and Y.shape[1] == 1:
        return np.asarray(Y.mean(axis=0))
    # BLAS adds up several short columns about four times as fast as NumPy.
    return np.asarray((np.ones(len(Y)) if weights is None else weights) @ Y / total_weight)


def constant_columns(Y: Array, weights: Array | None) -> NDArray[np.bool_]:
    """Mask (t,) of the columns of Y (n, t) that are constant in all rows with a weight above 0."""
    rows = None if weights is None else np.flatnonzero(weights)
    # Up to three rows show for most columns that they are not constant. All rows are compared only
    # for the remaining columns.
    counted_rows = Y if rows is None else Y[rows[:: max(1, len(rows) // 2)]]
    sample = counted_rows[:: max(1, len(counted_rows) // 2)]
    constant = np.asarray((sample == sample[0]).all(axis=0))
    if constant.any():
        candidates = np.flatnonzero(constant)
        for some in row_slices(len(Y), max(1, COMPARED_ELEMENTS // len(candidates))):
            is_equal = Y[some][:, candidates] == sample[0, candidates]
            if weights is not None:
                is_equal[weights[some] == 0] = True
            constant[candidates] &= is_equal.all(axis=0)
    return constant


def scaled_targets(Y: Array, weights: Array | None, y_scale: Array, is_copy: bool) -> Array:
    """sqrt(weights) Y / y_scale (n, t); overwrites Y with `is_copy`, and copies it otherwise."""
    if weights is None and (y_scale == 1.0).all():
        return Y
    targets = Y if is_copy else Y.copy()
    if weights is not None:
        targets *= np.sqrt(weights)[:, None]
    if (y_scale != 1.0).any():
        targets /= y_scale
    return targets
