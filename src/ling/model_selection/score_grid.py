"""Cross-validation scores of a grid of alphas, refined and extended until the best is certain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.model_selection.alpha_grid import default_alpha_grid, extend_grid, extension_limits
from ling.model_selection.cv_problem import HeldOutPredictor
from ling.model_selection.cv_scores import CVScores, best_indices
from ling.model_selection.score_accumulators import SampleLoss
from ling.model_selection.scoring import Scoring
from ling.solvers.problem import Problem

# Number of smaller alphas that are certified at a time, as long as the certified scores do not fall
# towards smaller alphas. Each refinement costs a pass for the scores. A larger number certifies
# more alphas that are not needed.
ALPHAS_PER_REFINEMENT = 3
# On the default grid, scores that differ by less than this number of standard errors count as
# equal.
TIE_STD_ERRORS = 1e-3


@dataclass(frozen=True, eq=False)
class ScoredGrid:
    """Scores of a grid of alphas, with what the choice of alpha needs beside them.

    Attributes
    ----------
    scores : CVScores
    tie_std_errors : float
        Scores that differ by less than this number of standard errors count as equal, and the
        largest of these alphas is the best. With 0 the first of the best is taken.
    is_iterated : bool
        True if training fits are iterated. Then a score that is not certified may have a large
        error.
    sample_values : array of shape (n, n_targets, n_alphas) or None
        Values per sample, if `store_cv_results=True` was passed.
    """

    scores: CVScores
    tie_std_errors: float = 0.0
    is_iterated: bool = False
    sample_values: Array | None = None

    @property
    def best(self) -> NDArray[np.intp]:
        """Index of the best alpha: a scalar array, or (n_targets,) if each target has its own.

        It is 0 without a finite score, as in scikit-learn.
        """
        if not self.tie_std_errors:
            return best_indices(self.scores.mean_score)
        return self._largest_alpha_within(self.tie_std_errors)

    @property
    def one_standard_error(self) -> NDArray[np.intp]:
        """Index of the largest alpha whose score is within one standard error of the best."""
        return self._largest_alpha_within(1.0)

    def _largest_alpha_within(self, std_errors: float) -> NDArray[np.intp]:
        mean, errors = self.scores.mean_score, self.scores.std_error
        first = best_indices(mean)
        best = np.expand_dims(first, 0)
        error = np.nan_to_num(np.take_along_axis(errors, best, axis=0), posinf=0.0)
        min_score = np.take_along_axis(mean, best, axis=0) - std_errors * error
        alphas = self.scores.alphas.reshape(-1, *[1] * (mean.ndim - 1))
        largest = np.argmax(np.where(mean >= min_score, alphas, -np.inf), axis=0)
        return np.where(np.isfinite(min_score[0]), largest, first)


def score_alphas(
    validation: HeldOutPredictor, scoring: Scoring, problem: Problem, alphas: Array | None,
    method: str, store: bool = False,
) -> ScoredGrid | None:  # fmt: skip
    """Cross-validation scores of all alphas, certified as far as the choice of alpha needs it.

    With `alphas=None` the default grid is used and extended until the best alpha is inside it.
    Returns None if `validation` gave up because the fallback would have been faster.
    """
    grid = default_alpha_grid(problem) if alphas is None else alphas
    limits = extension_limits(grid, problem)
    validation.refine(np.sort(grid)[len(grid) // 2 :])
    while True:
        if validation.gave_up:
            return None
        scores, sample_values = _score_table(validation, scoring, grid, method, store)
        tie_std_errors = TIE_STD_ERRORS if alphas is None else 0.0
        scored = ScoredGrid(scores, tie_std_errors, validation.is_iterated, sample_values)
        if not np.isfinite(scores.mean_score).any():
            return scored
        undecided = undecided_alphas(scored)
        if undecided.size and validation.refine(undecided):
            continue
        # For a constant y all alphas score the same, so extending the grid is useless.
        if alphas is not None or not problem.target_norms.any() or _is_inside(scored):
            return scored
        extended_grid = extend_grid(grid, limits)
        if len(extended_grid) == len(grid):
            return scored
        grid = extended_grid


def _is_inside(scored: ScoredGrid) -> bool:
    """True if the best alpha is not at an end of the grid and clearly beats the largest alpha.

    The largest alpha stands for a null model; the margin is one standard error. A score that is
    hardly better may come from the strong directions alone, while y depends on weak directions that
    the grid does not reach.
    """
    alphas = scored.scores.alphas
    ends, largest = (0, len(alphas) - 1), np.array([np.argmax(alphas)])
    return not np.isin(scored.best, ends).any() and bool(_clearly_lower(scored, largest, 1).all())


def _score_table(
    validation: HeldOutPredictor, scoring: Scoring, alphas: Array, method: str, store: bool
) -> tuple[CVScores, Array | None]:
    """Scores of all alphas and, with `store`, the values per sample (n, n_targets, n_alphas)."""
    sample_loss = None
    has_std_error = validation.n_splits > 1 or scoring.has_std_error_from_sums
    if validation.has_additive_scores and has_std_error and not store:
        sample_loss = scoring.sample_loss
    if sample_loss is None:
        split_scores, std_error, sample_values = _scores_from_predictions(
            validation, scoring, alphas, store
        )
    else:
        split_scores, std_error = _scores_from_sums(validation, scoring, alphas, sample_loss)
        sample_values = None
    if validation.n_splits > 1:
        std_error = split_scores.std(axis=1, ddof=1) / np.sqrt(validation.n_splits)
    certified, mean = validation.certified(alphas), split_scores.mean(axis=1)
    stored = split_scores if validation.n_splits > 1 else None
    return CVScores(alphas, mean, std_error, stored, certified, method), sample_values


def _scores_from_sums(
    validation: HeldOutPredictor, scoring: Scoring, alphas: Array, sample_loss: SampleLoss
) -> tuple[Array, Array]:
    """Scores (n_alphas, n_splits, ...) from sums over samples, and standard errors.

    The standard errors are those of the last split; they are used if there is only one.
    """
    sums = validation.score_sums(alphas, sample_loss)
    split_scores = []
    for number in range(validation.n_splits):
        score, std_error = scoring.scores_from_sums(sums[number], validation.test_index(number))
        split_scores.append(score)
    return np.stack(split_scores, axis=1), std_error


def _scores_from_predictions(
    validation: HeldOutPredictor, scoring: Scoring, alphas: Array, store: bool
) -> tuple[Array, Array, Array | None]:
    """Scores (n_alphas, n_splits, ...) from predictions, standard errors, and stored values.

    The standard errors, (n_alphas, ...), are NaN if there are several splits. The values per
    sample, with the alphas as last axis, are None unless `store` is True.
    """
    n_splits = validation.n_splits
    scores: list[list[Array]] = [[np.array(np.nan)] * n_splits for _ in alphas]
    errors: list[Array] = [np.array(np.nan)] * len(alphas)
    stored: list[Array] = []
    current_split = -1
    for split, alpha_index, P in validation.predictions(alphas):
        if split != current_split:
            current_split, rows = split, validation.test_rows(split)
        if n_splits == 1:
            scores[alpha_index][split], errors[alpha_index] = scoring.score_with_std_error(P, rows)
        else:
            scores[alpha_index][split] = scoring.score(P, rows)
        if store:
            stored.append(scoring.sample_values(P, rows))
    return np.array(scores), np.array(errors), np.stack(stored, axis=-1) if store else None


def undecided_alphas(scored: ScoredGrid) -> Array:
    """Alphas that are not certified and whose true scores might change the choice.

    These are the best alpha and all larger ones, as far as they are not certified. Smaller alphas
    are decided if the best one clearly beats the largest alpha, or if a certified score of an alpha
    below the best is clearly lower. If training fits are iterated, both have to hold, because an
    iterated fit that is not certified may score as low as a null model. Otherwise the next
    ALPHAS_PER_REFINEMENT smaller alphas are undecided, too.
    """
    scores = scored.scores
    order = np.argsort(scores.alphas)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    best = int(rank[np.atleast_1d(scored.best)].min())
    certified = scores.certified[order]
    lowest_proven = best
    while lowest_proven > 0 and certified[lowest_proven - 1]:
        lowest_proven -= 1
    falls = bool(_clearly_lower(scored, order[lowest_proven:best]).all(axis=1).any())
    beats_largest = bool(_clearly_lower(scored, order[-1:]).all())
    is_clear = falls and beats_largest if scored.is_iterated else falls or beats_largest
    is_decided = certified[best] and is_clear
    lowest_needed = best if is_decided else max(0, lowest_proven - ALPHAS_PER_REFINEMENT)
    return np.asarray(scores.alphas[(rank >= lowest_needed) & ~scores.certified])


def is_inconclusive(scored: ScoredGrid) -> bool:
    """True if the best alpha is not certified, or if it is not clearly better than the largest one.

    The latter counts only if undecided alphas remain. With several targets, True if this holds for
    all of them.
    """
    if not scored.scores.certified[np.atleast_1d(scored.best)].any():
        return True
    largest = np.array([np.argmax(scored.scores.alphas)])
    beats_largest = bool(_clearly_lower(scored, largest).any())
    return not beats_largest and undecided_alphas(scored).size > 0


@np.errstate(invalid="ignore")  # scores of -inf
def _clearly_lower(
    scored: ScoredGrid, numbers: NDArray[np.intp], std_errors: float = TIE_STD_ERRORS
) -> NDArray[np.bool_]:
    """True where these alphas score lower than the best by more than `std_errors` standard errors.

    `numbers` are indices of alphas. The result has shape (len(numbers), n_targets).
    """
    shape = len(scored.scores.alphas), -1
    mean, errors = scored.scores.mean_score.reshape(shape), scored.scores.std_error.reshape(shape)
    best, targets = np.atleast_1d(scored.best), np.arange(mean.shape[1])
    margin = std_errors * np.nan_to_num(errors[best, targets])
    return np.asarray(mean[best, targets] - mean[numbers] > margin)
