"""`HeldOut`: predictions for held-out samples, with bounds on their errors."""

from __future__ import annotations

from dataclasses import dataclass

from ling._typing import Array


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions for the test rows of one split by fits with k alphas, in the units of y.

    Those of a single alpha have no axis for it.

    Attributes
    ----------
    predictions : array of shape (n_test, k, n_targets)
    bounds : array of shape (k, n_targets)
        Bounds on sqrt(sum_i w_i e_i^2), where e_i is the difference between the prediction for
        sample i and that of the exact ridge fit, and w_i its sample weight.
    """

    predictions: Array
    bounds: Array
