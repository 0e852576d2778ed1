"""A fingerprint of training data, from sums that every fit forms in its first pass anyway."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ling._typing import Array
from ling.plain_state import register_plain
from ling.solvers.problem import Problem, Standardization


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
    """The fingerprint of the data of a problem; no pass."""
    weights = np.cos(np.arange(1, len(problem.column_norms) + 1))
    return DataFingerprint(
        standardization.n_counted,
        standardization.total_weight,
        float(weights @ problem.column_norms**2),
        standardization.y_mean,
        problem.target_norms,
        np.asarray(weights @ problem.moments),
    )
