"""A fingerprint of training data, from sums that every fit forms in its first pass anyway."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ling._typing import Array
from ling.plain_state import register_plain
from ling.solvers.problem import Problem, Standardization

# Relative difference of sums that rounding does not explain, as in docs/verify_model.py.
SAME_DATA_RTOL = 1e-8


@register_plain
@dataclass(frozen=True, eq=False)
class DataFingerprint:
    """A few moments of the data that a model was fitted to.

    They tell whether data are those of the fit, up to the order of the rows, on which a ridge
    solution does not depend. They are sums in floating point, so they are compared up to rounding:
    a change of an entry by more than about 1e-8 of its column's norm shows. They need no pass of
    their own and are no cryptographic hash.

    X and y are centred if there is an intercept, divided by their scales (see `ErrorRegion`) and
    multiplied by the roots of the weights. Sums over columns j have the weights cos(j + 1), so that
    columns in another order are other data.

    Attributes
    ----------
    n_rows : int
        Number of rows with a weight above 0.
    total_weight : float
    squares : float
        The weighted sum of ||x_j||^2 over the columns.
    y_means, y_norms, products : arrays of shape (t,)
        Means of y in the units of the data, norms ||y||, and the weighted sums of x_j'y.
    """

    n_rows: int
    total_weight: float
    squares: float
    y_means: Array
    y_norms: Array
    products: Array


def data_fingerprint(problem: Problem, standardization: Standardization) -> DataFingerprint:
    """The fingerprint of the data of a problem; at most one pass."""
    weights = np.cos(np.arange(1, len(problem.column_norms) + 1))
    return DataFingerprint(
        standardization.n_counted,
        standardization.total_weight,
        float(weights @ problem.column_norms**2),
        standardization.y_mean,
        problem.target_norms,
        problem.project_moments(weights),
    )


def is_fingerprint_of(
    fingerprint: DataFingerprint, problem: Problem, standardization: Standardization
) -> bool:
    """Whether a fingerprint is that of the problem's data, up to rounding; at most one pass."""
    own = data_fingerprint(problem, standardization)
    if own.products.shape != fingerprint.products.shape:
        return False
    size, y_sizes = float((problem.raw_column_norms**2).sum()), problem.raw_target_norms
    mean_sizes = y_sizes * standardization.y_scale / np.sqrt(own.total_weight)
    differences_and_sizes = (
        (own.n_rows - fingerprint.n_rows, 0.0),
        (own.total_weight - fingerprint.total_weight, own.total_weight),
        (own.squares - fingerprint.squares, size),
        (own.y_means - fingerprint.y_means, mean_sizes),
        (own.y_norms - fingerprint.y_norms, y_sizes),
        (own.products - fingerprint.products, np.sqrt(size) * y_sizes),
    )
    return all(
        bool(np.all(np.abs(difference) <= SAME_DATA_RTOL * sizes))
        for difference, sizes in differences_and_sizes
    )
