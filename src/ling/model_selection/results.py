"""Results of cross-validation: scores with standard errors, and the alphas that they select."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ling._typing import Array
from ling.html_repr import MAX_ROWS, html_table_of_ends
from ling.plain_state import register_plain


@register_plain
@dataclass(frozen=True, eq=False)
class CVResults(NDArrayOperatorsMixin):
    """Cross-validation scores of every alpha, where higher is better.

    Converted to an array, it is `stored`, as scikit-learn's `cv_results_`.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
        The alphas that were scored.
    mean_score, std_error : arrays of shape (n_alphas,)
        Mean score of the splits and its standard error. The shape is (n_alphas, n_targets) if each
        target has its own alpha.
    folds : array of shape (n_alphas, n_splits) or (n_alphas, n_splits, n_targets)
        The score of every split.
    certified : array of shape (n_alphas,)
        True for alphas whose training fits are all exact up to rounding or, if they are iterated,
        proved to be within ten times tol.
    method : str
        Description of the method that computed the scores.
    stored : array or None
        Values per sample, if `store_cv_results=True` was passed.
    negligible : float
        Scores that differ by less than this number of standard errors count as equal.
    iterated : bool
        True if training fits are iterated. Then a score that is not certified may have a large
        error.
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
        """Index of the alpha with the highest mean score; an array if each target has its own.

        Among alphas whose scores are within `negligible` standard errors of the highest, it is the
        largest alpha.
        """
        if not self.negligible:
            return _as_int_if_scalar(np.argmax(self._scores, axis=0))
        return self._largest_alpha_within(self.negligible)

    @property
    def one_standard_error(self) -> Any:
        """Index of the largest alpha whose score is within one standard error of the best."""
        return self._largest_alpha_within(1.0)

    @property
    def _scores(self) -> Array:
        return np.where(np.isnan(self.mean_score), -np.inf, self.mean_score)

    def _largest_alpha_within(self, errors: float) -> Any:
        best = np.expand_dims(np.argmax(self._scores, axis=0), 0)
        std_error = np.take_along_axis(self.std_error, best, axis=0)
        std_error = np.where(np.isfinite(std_error), std_error, 0.0)
        min_score = np.take_along_axis(self._scores, best, axis=0) - errors * std_error
        alphas = self.alphas.reshape(-1, *[1] * (self.mean_score.ndim - 1))
        return _as_int_if_scalar(
            np.argmax(np.where(self._scores >= min_score, alphas, -np.inf), axis=0)
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {describe_scores(self, self.best)}>"

    def _repr_html_(self) -> str:
        return scores_html(self, self.best, self.one_standard_error)

    # The attribute cv_results_ of scikit-learn's RidgeCV is an array. With stored samples, this
    # object can be used as that array, too.
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
        """Attributes of the stored array: `shape`, `mean(axis=0)`, `argmin()` and so on."""
        if name.startswith("_") or self.__dict__.get("stored") is None:
            raise AttributeError(f"CVResults has no {name!r} unless store_cv_results=True")
        return getattr(np.asarray(self), name)


def describe_scores(scores: CVResults, best: Any) -> str:
    """The range of alphas and the alphas with the indices `best`, in one line."""
    alphas, chosen = scores.alphas, np.unique(scores.alphas[best])
    text = " to ".join(f"{alpha:.4g}" for alpha in dict.fromkeys([chosen[0], chosen[-1]]))
    return f"{len(alphas)} alphas from {alphas.min():.4g} to {alphas.max():.4g}, best {text}"


def scores_html(scores: CVResults, best: Any, one_standard_error: Any) -> str:
    """Scores as an HTML table: the ends of the grid, and the alphas with the given indices."""
    n, n_targets = len(scores.alphas), np.size(best)
    remarks: list[list[str]] = [[] for _ in range(n)]
    for name, chosen in ("best", best), ("largest within 1 standard error", one_standard_error):
        for index, count in zip(*np.unique(chosen, return_counts=True), strict=True):
            remarks[index].append(f"{name} ({count} of {n_targets})" if np.ndim(chosen) else name)
    for index in np.flatnonzero(np.logical_not(scores.certified)):
        remarks[index].append("not certified")
    means, errors = (
        values.reshape(n, -1).mean(axis=1) for values in (scores.mean_score, scores.std_error)
    )
    rows = [
        [*(f"{number:.4g}" for number in row), ", ".join(remarks[index])]
        for index, row in enumerate(zip(scores.alphas, means, errors, strict=True))
    ]
    indices, counts = np.unique(np.ravel([best, one_standard_error]), return_counts=True)
    marked = indices[np.argsort(-counts, kind="stable")[:MAX_ROWS]]
    notes = [f"Scores and standard errors are means over {n_targets} targets."] * (n_targets > 1)
    title = f"Cross-validation of {describe_scores(scores, best)}"
    head = ["alpha", "mean score", "standard error", ""]
    return html_table_of_ends(title, rows, notes, head, marked)


def _as_int_if_scalar(numbers: Any) -> Any:
    return int(numbers) if np.ndim(numbers) == 0 else numbers
