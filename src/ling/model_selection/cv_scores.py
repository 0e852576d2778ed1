"""`CVScores`: the cross-validation scores of every alpha."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.errors import MissingPackageError
from ling.html_repr import MAX_ROWS, html_table_of_ends
from ling.plain_state import register_plain

if TYPE_CHECKING:
    import pandas as pd


@register_plain
@dataclass(frozen=True, eq=False, repr=False)
class CVScores:
    """Cross-validation scores of every alpha, where higher is better.

    Attributes
    ----------
    alphas : array of shape (n_alphas,)
        The alphas that were scored.
    mean_score, std_error : arrays of shape (n_alphas,)
        Mean score of the splits and its standard error. The shape is (n_alphas, n_targets) if each
        target has its own alpha.
    split_scores : array of shape (n_alphas, n_splits) or (n_alphas, n_splits, n_targets)
        The score of every split. Leave-one-out counts as one split, whose score is that of all
        samples.
    certified : boolean array of shape (n_alphas,)
        True for alphas whose score is proved to be accurate enough to decide.
    method : str
        Description of the method that computed the scores.
    score_error : array of the shape of mean_score
        Proven bound on the difference between a mean score and that of exact ridge fits. NaN for
        scorers other than R^2, accuracy and the mean squared error; `certified` then says that the
        held-out predictions are accurate. R^2 of a split whose test samples have all the same y is
        1 if they are predicted exactly, and otherwise 0; its error is 1 if it is not known which.
    gap : float
        It is proved that no certified alpha has an exact score that is higher than the exact score
        of the chosen alpha by more than this, for any target. Infinite if the choice is not proved:
        if alphas that might be better could not be certified.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from ling import RidgeCV
    >>> model = RidgeCV([0.01, 0.1, 1.0], cv=5).fit(*load_diabetes(return_X_y=True))
    >>> model.cv_scores_.mean_score.round(3)
    array([0.481, 0.48 , 0.41 ])
    >>> model.cv_scores_.to_frame().round(3)
       alpha  mean_score  std_error  score_error  certified
    0   0.01       0.481      0.024          0.0       True
    1   0.10       0.480      0.024          0.0       True
    2   1.00       0.410      0.022          0.0       True
    """

    alphas: Array
    mean_score: Array
    std_error: Array
    _split_scores: Array | None  # None for one split, whose scores are the mean scores
    certified: NDArray[np.bool_]
    method: str
    score_error: Array
    gap: float = float("inf")

    @property
    def split_scores(self) -> Array:
        """The score of every split: (n_alphas, n_splits) or (n_alphas, n_splits, n_targets)."""
        return self.mean_score[:, None] if self._split_scores is None else self._split_scores

    @property
    def has_target_scores(self) -> bool:
        """True if every target has scores of its own, as with `alpha_per_target`."""
        return self.mean_score.ndim > 1

    def to_frame(self) -> pd.DataFrame:
        """A pandas DataFrame with one row per alpha, or per alpha and target.

        Its columns are `alpha`, `target` (if every target has scores of its own), `mean_score`,
        `std_error`, `score_error` and `certified`.
        """
        try:
            import pandas as pd
        except ModuleNotFoundError as missing:
            raise MissingPackageError(
                f"to_frame needs {missing.name}: pip install pandas. The arrays alphas, "
                "mean_score, std_error, score_error and certified hold the same numbers."
            ) from missing
        n_alphas, n_targets = self.mean_score.reshape(len(self.alphas), -1).shape
        columns: dict[str, Any] = {"alpha": np.repeat(self.alphas, n_targets)}
        if self.has_target_scores:
            columns["target"] = np.tile(np.arange(n_targets), n_alphas)
        columns["mean_score"] = self.mean_score.ravel()
        columns["std_error"] = self.std_error.ravel()
        columns["score_error"] = self.score_error.ravel()
        columns["certified"] = np.repeat(self.certified, n_targets)
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        n_alphas, n_certified = len(self.alphas), int(np.count_nonzero(self.certified))
        alphas = f"alpha = {self.alphas[0]:.3g}"
        if n_alphas > 1:
            alphas = f"{n_alphas} alphas from {self.alphas.min():.3g} to {self.alphas.max():.3g}"
        per_target = f" of {self.mean_score.shape[1]} targets" if self.has_target_scores else ""
        finite = self.mean_score[np.isfinite(self.mean_score)]
        scores = "none finite"
        if finite.size:
            scores = f"from {finite.min():.4g} to {finite.max():.4g}"
        proved = "all" if n_certified == n_alphas else f"{n_certified} of {n_alphas}"
        return (
            f"CVScores({alphas}, by {self.method}; mean_score{per_target} {scores}; {proved} "
            "certified)"
        )

    def _repr_html_(self) -> str:
        return _scores_html(self)


def grid_ends_with_best(scores: CVScores) -> dict[str, int]:
    """Ends of a user's grid towards which the score still rises: "smallest", "largest", or none.

    The values are the numbers of targets whose best alpha it is. Scores rise if the one at the end
    is higher than that of the next alpha by more than the errors of both. However little that is,
    a better alpha may be far away. There is nothing below alpha = 0.
    """
    alphas, indices = np.unique(scores.alphas, return_index=True)
    mean, errors = (
        np.nan_to_num(values.reshape(len(scores.alphas), -1)[indices], True, nan, np.inf, -np.inf)
        for values, nan in ((scores.mean_score, -np.inf), (scores.score_error, 0.0))
    )
    best, counts = best_indices(mean), {}
    for name, end, inwards in (("smallest", 0, 1), ("largest", len(alphas) - 1, -1)):
        if len(alphas) == 1 or alphas[end] == 0:
            continue
        with np.errstate(invalid="ignore"):  # scores of -inf
            rises = mean[end] - mean[end + inwards] > errors[end] + errors[end + inwards]
        counts[name] = int(np.count_nonzero(rises & (best == end)))
    return {name: count for name, count in counts.items() if count}


def proven_gap(scores: CVScores, chosen: NDArray[np.intp]) -> float:
    """How much the exact score of alpha number `chosen` may be below that of a certified alpha.

    `chosen` has one number, or one for each target; the largest gap of all targets is returned. It
    is infinite without bounds on scores.
    """
    shape = len(scores.alphas), -1
    mean, errors = scores.mean_score.reshape(shape), scores.score_error.reshape(shape)
    best, targets = np.atleast_1d(chosen), np.arange(mean.shape[1])
    if not np.isfinite((mean + errors)[best, targets]).all():
        return float("inf")
    is_proved = scores.certified[:, None] & np.isfinite(mean + errors)
    highest = np.where(is_proved, mean + errors, -np.inf)
    highest[best, targets] = -np.inf
    gaps = highest.max(axis=0) - (mean - errors)[best, targets]
    return float(np.maximum(gaps, 0.0).max())


def best_indices(mean_score: Array) -> NDArray[np.intp]:
    """Index of the first alpha with the highest score; NaN is lower than every number.

    A scalar array for scores (n_alphas,), and (n_targets,) for (n_alphas, n_targets).
    """
    return np.asarray(np.argmax(np.where(np.isnan(mean_score), -np.inf, mean_score), axis=0))


def _scores_html(scores: CVScores) -> str:
    """Scores as an HTML table: the ends of the grid, and the alphas with the highest scores."""
    n = len(scores.alphas)
    means, errors = (values.reshape(n, -1) for values in (scores.mean_score, scores.std_error))
    n_targets = means.shape[1]
    remarks: list[list[str]] = [[] for _ in range(n)]
    indices, counts = np.unique(best_indices(means), return_counts=True)
    for index, count in zip(indices, counts, strict=True):
        of_targets = f" ({count} of {n_targets} targets)" if n_targets > 1 else ""
        remarks[index].append(f"highest score{of_targets}")
    for index in np.flatnonzero(~scores.certified):
        remarks[index].append("not certified")
    numbers = zip(scores.alphas, means.mean(axis=1), errors.mean(axis=1), strict=True)
    rows = [
        [*(f"{number:.4g}" for number in row), ", ".join(remarks[index])]
        for index, row in enumerate(numbers)
    ]
    marked = indices[np.argsort(-counts, kind="stable")[:MAX_ROWS]]
    notes = [f"Scores and standard errors are means over {n_targets} targets."] * (n_targets > 1)
    title = f"Scores of {n} alphas by {scores.method}"
    return html_table_of_ends(
        title, rows, notes, ["alpha", "mean score", "standard error", ""], marked
    )
