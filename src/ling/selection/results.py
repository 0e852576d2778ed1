"""What cross-validation found: scores with their standard errors, and the choices they allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ling.design import Array


@dataclass(frozen=True, eq=False)
class CVResults:
    """Scores of every alpha, higher is better.

    `mean` and `std_error` have shape (n_alphas,), or (n_alphas, n_targets) if each target has its
    own alpha; `folds` has the scores of the splits, with an axis for them after the alphas.
    `certified` says for which alphas all training fits are proved to be within tol. `stored`, if it
    was asked for, has what every sample contributes: as an array, this is it.
    """

    alphas: Array
    mean: Array
    std_error: Array
    folds: Array
    certified: Array
    method: str
    stored: Array | None = None

    @property
    def best(self) -> Any:
        """Number of the alpha with the highest mean score, for each target if they differ."""
        scores = np.where(np.isnan(self.mean), -np.inf, self.mean)
        found = np.argmax(scores, axis=0)
        return int(found) if found.ndim == 0 else found

    @property
    def one_standard_error(self) -> Any:
        """Number of the largest alpha that is within one standard error of the best."""
        best = np.expand_dims(np.asarray(self.best), 0)
        top = np.take_along_axis(self.mean, best, axis=0)
        error = np.nan_to_num(np.take_along_axis(self.std_error, best, axis=0))
        alphas = self.alphas.reshape(-1, *[1] * (self.mean.ndim - 1))
        found = np.argmax(np.where(self.mean >= top - error, alphas, -np.inf), axis=0)
        return int(found) if found.ndim == 0 else found

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what was stored."""
        return np.asarray(self).shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.stored is None:
            raise ValueError("pass store_cv_results=True to keep what every sample contributes.")
        return np.array(self.stored, dtype=dtype, copy=copy)

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]
