"""What cross-validation found: scores with their standard errors, and the choices they allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ling._typing import Array


@dataclass(frozen=True, eq=False)
class CVResults(NDArrayOperatorsMixin):
    """Scores of every alpha, higher is better.

    As an array, this is `stored`, as in scikit-learn.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
    mean_score, std_error : arrays of shape (n_alphas,)
        Or (n_alphas, n_targets), if each target has its own alpha.
    folds : array
        The scores of the splits, with an axis for them after the alphas.
    certified : array of shape (n_alphas,)
        For which alphas all training fits are exact but for rounding or, if they are iterated,
        proved to be within ten times tol.
    method : str
        How they were found.
    stored : array or None
        What every sample contributes, if it was asked for.
    negligible : float
        Scores that differ by less than so many standard errors count as equal.
    iterated : bool
        Whether training fits are iterated, so that a score that is not certified may be far off.
    """

    alphas: Array
    mean_score: Array
    std_error: Array
    folds: Array
    certified: Array
    method: str
    stored: Array | None = None
    negligible: float = 0.0
    iterated: bool = False

    @property
    def best(self) -> Any:
        """Number of the alpha with the highest mean score, for each target if they differ.

        Of those whose scores are as high but for `negligible` standard errors, the largest.
        """
        if not self.negligible:
            return _as_int_if_scalar(np.argmax(self._scores, axis=0))
        return self._largest_alpha_within(self.negligible)

    @property
    def one_standard_error(self) -> Any:
        """Number of the largest alpha that is within one standard error of the best."""
        return self._largest_alpha_within(1.0)

    @property
    def _scores(self) -> Array:
        return np.where(np.isnan(self.mean_score), -np.inf, self.mean_score)

    def _largest_alpha_within(self, errors: float) -> Any:
        top = np.expand_dims(np.argmax(self._scores, axis=0), 0)
        error = np.take_along_axis(self.std_error, top, axis=0)
        error = np.where(np.isfinite(error), error, 0.0)
        least = np.take_along_axis(self._scores, top, axis=0) - errors * error
        alphas = self.alphas.reshape(-1, *[1] * (self.mean_score.ndim - 1))
        return _as_int_if_scalar(
            np.argmax(np.where(self._scores >= least, alphas, -np.inf), axis=0)
        )

    # What scikit-learn's RidgeCV calls cv_results_ is an array: so is this, if samples are stored.
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.stored is None:
            raise ValueError("pass store_cv_results=True to keep what every sample contributes.")
        return np.array(self.stored, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        arrays = [np.asarray(value) if value is self else value for value in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(self)[key]

    def __len__(self) -> int:
        return len(np.asarray(self))

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        """What arrays have: `shape`, `mean(axis=0)`, `argmin()` and so on."""
        if name.startswith("_") or self.__dict__.get("stored") is None:
            raise AttributeError(f"CVResults has no {name!r} unless store_cv_results=True")
        return getattr(np.asarray(self), name)


def _as_int_if_scalar(numbers: Any) -> Any:
    return int(numbers) if np.ndim(numbers) == 0 else numbers
