"""Cross-validation scores of a grid of alphas, refined and extended until the best is certain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.linalg.rounding import sum_noise
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
# Largest error of a certified score, in units of tol and of what predicting the mean loses. Bounds
# of iterated fits allow for test rows in the worst direction, and are looser than their errors.
SCORE_TOL_FACTOR, ITERATED_SCORE_TOL_FACTOR = 10.0, 100.0
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
    sample_values : array of shape (n, n_targets, n_alphas) or None
        Values per sample, if `store_cv_results=True` was passed.
    lacks_memory : bool
        Whether a larger memory budget would allow more to be proved.
    """

    scores: CVScores
    tie_std_errors: float = 0.0
    sample_values: Array | None = None
    lacks_memory: bool = False

    @cached_property
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
    method: str, tol: float, store: bool = False,
) -> ScoredGrid | None:  # fmt: skip
    """Cross-validation scores of all alphas, certified as far as the choice of alpha needs it.

    With `alphas=None` the default grid is used and extended until the best alpha is inside it. A
    score is certified if its error, relative to what predicting the mean loses, is at most a
    multiple of `tol`. Returns None if `validation` gave up because the fallback would have been
    faster.
    """
    tol *= ITERATED_SCORE_TOL_FACTOR if validation.is_iterated else SCORE_TOL_FACTOR
    grid, limits = (alphas, ()) if alphas is not None else default_grid(validation, problem)
    if validation.is_iterated:
        validation.refine(np.sort(grid)[len(grid) // 2 :])
    while True:
        if validation.gave_up:
            return None
        scores, sample_values = _score_table(validation, scoring, grid, method, tol, store)
        tie_std_errors = TIE_STD_ERRORS if alphas is None else 0.0
        scored = ScoredGrid(scores, tie_std_errors, sample_values, validation.lacks_memory)
        if not np.isfinite(scores.mean_score).any():
            return scored
        undecided = undecided_alphas(scored)
        if undecided.size and validation.refine(undecided):
            continue
        # For a constant y all alphas score the same, so extending the grid is useless.
        if not limits or not problem.target_norms.any() or _is_inside(scored):
            return scored
        extended_grid = extend_grid(grid, limits[0])
        if len(extended_grid) == len(grid) and (scored.best == 0).any():
            # The best alpha is the smallest that can be certified. Smaller ones may be better, and
            # are scored without a proof, which is a warning if the choice depends on them.
            extended_grid = extend_grid(grid, limits[1])
        if len(extended_grid) == len(grid):
            return scored
        grid = extended_grid


def default_grid(
    validation: HeldOutPredictor, problem: Problem
) -> tuple[Array, tuple[tuple[float, float], ...]]:
    """The default grid of alphas, and two pairs of limits up to which it may be extended.

    The first pair is for alphas that can be certified. The second pair is for alphas that could be
    certified if memory and time were enough for singular values of X.
    """
    grid = default_alpha_grid(problem)
    smallest_direction = None
    if problem.varying_columns.any():
        smallest_direction = validation.smallest_direction(grid)
        grid = default_alpha_grid(problem, smallest_direction)
    return grid, tuple(
        extension_limits(grid, problem, smallest_direction, from_singular_values)
        for from_singular_values in (validation.can_refine, True)
    )


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
    validation: HeldOutPredictor, scoring: Scoring, alphas: Array, method: str, tol: float,
    store: bool,
) -> tuple[CVScores, Array | None]:  # fmt: skip
    """Scores of all alphas and, with `store`, the values per sample (n, n_targets, n_alphas)."""
    sample_loss = None
    has_std_error = validation.n_splits > 1 or scoring.has_std_error_from_sums
    if validation.has_additive_scores and has_std_error and not store:
        sample_loss = scoring.sample_loss
    if sample_loss is None:
        table, sample_values = _scores_from_predictions(validation, scoring, alphas, store)
    else:
        table, sample_values = _scores_from_sums(validation, scoring, alphas, sample_loss), None
    split_scores, std_error, split_errors, mean_bounds = table
    if validation.n_splits > 1:
        std_error = split_scores.std(axis=1, ddof=1) / np.sqrt(validation.n_splits)
    # The mean over splits is rounded.
    rounding = sum_noise(validation.n_splits) * np.abs(split_scores).mean(axis=1)
    score_error = split_errors.mean(axis=1) + rounding
    is_certified = scoring.is_certified(split_scores, split_errors, mean_bounds, tol)
    certified = np.asarray(is_certified.reshape(len(alphas), -1).all(axis=1))
    mean = split_scores.mean(axis=1)
    stored = split_scores if validation.n_splits > 1 else None
    scores = CVScores(alphas, mean, std_error, stored, certified, method, _rounded_up(score_error))
    return scores, sample_values


def _rounded_up(bounds: Array) -> NDArray[np.float32]:
    """Bounds in float32, which is enough digits for them and makes models smaller."""
    with np.errstate(over="ignore"):
        single = bounds.astype(np.float32)
    return np.asarray(np.where(single < bounds, np.nextafter(single, np.float32(np.inf)), single))


ScoreTable = tuple[Array, Array, Array, Array]


def _scores_from_sums(
    validation: HeldOutPredictor, scoring: Scoring, alphas: Array, sample_loss: SampleLoss
) -> ScoreTable:
    """The table of `_scores_from_predictions`, from sums over samples.

    The standard errors are those of the last split; they are used if there is only one.
    """
    (sums, margin_weights, *_), bounds = validation.score_sums(alphas, sample_loss)
    split_scores, split_errors = [], []
    for number in range(validation.n_splits):
        part = scoring.take(validation.test_index(number))
        scores, std_error = part.scores_from_sums(sums[number])
        margins = part.margins_from_sums(sums[number], margin_weights[number])
        split_scores.append(scores)
        split_errors.append(
            _score_errors(validation, part, number, scores, bounds[number], margins)
        )
    errors, mean_bounds = (np.stack(parts, axis=1) for parts in zip(*split_errors, strict=True))
    return np.stack(split_scores, axis=1), std_error, errors, mean_bounds


def _score_errors(
    validation: HeldOutPredictor, scoring: Scoring, number: int, scores: Array, bounds: Array,
    margins: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """Errors of the scores of split `number`, and root mean squares (n_alphas, t) of `bounds`.

    `scoring` is that of its test rows.
    """
    rows = validation.test_index(number)
    bounds = bounds * _weight_factor(validation.cv_problem.weights[rows], scoring)
    errors = scoring.score_errors(scores, bounds, margins)
    return errors, bounds / np.sqrt(scoring.n_samples)


def _weight_factor(fit_weights: Array, scoring: Scoring) -> float:
    """Factor for bounds on the norms of errors if samples have other weights in the score.

    It is the square root of the largest ratio of a sample's weight in the score to that in the fit.
    """
    if not scoring.has_score_bounds:
        return 1.0
    score_weights = scoring.score_weights
    score = np.ones_like(fit_weights) if score_weights is None else score_weights
    with np.errstate(divide="ignore"):
        ratios = np.divide(score, fit_weights, out=np.zeros_like(score), where=score > 0)
    return float(np.sqrt(ratios.max(initial=0.0)))


def _scores_from_predictions(
    validation: HeldOutPredictor, scoring: Scoring, alphas: Array, store: bool
) -> tuple[ScoreTable, Array | None]:
    """A table of the scores of all splits, and stored values.

    The table has the scores (n_alphas, n_splits, ...), their standard errors, bounds on their
    errors, and root mean squares (n_alphas, n_splits, t) of the bounds of predictions. The standard
    errors, (n_alphas, ...), are NaN if there are several splits. The values per sample, with the
    alphas as last axis, are None unless `store` is True.
    """
    is_single = validation.n_splits == 1
    stored: list[Array] = []
    split_scores, split_errors = [], []
    std_error = np.full(len(alphas), np.nan)
    for number, results in groupby(validation.prediction_batches(alphas), itemgetter(0)):
        part = scoring.take(validation.test_index(number))
        batches: list[tuple[Array, ...]] = []
        for _, _, held_out in results:
            P = held_out.predictions
            scored = part.score_with_std_error(P) if is_single else (part.score(P),)
            batches.append((held_out.bounds, part.margins(P), *scored))
            if store:
                stored.append(part.sample_values(P))
        columns = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
        bounds, margins, scores, *std_errors = columns
        split_scores.append(scores)
        split_errors.append(_score_errors(validation, part, number, scores, bounds, margins))
        std_error = std_errors[0] if is_single else std_error
    errors, mean_bounds = (np.stack(parts, axis=1) for parts in zip(*split_errors, strict=True))
    table = np.stack(split_scores, axis=1), std_error, errors, mean_bounds
    values = np.moveaxis(np.concatenate(stored, axis=1), 1, 2).copy() if store else None
    return table, values


def undecided_alphas(scored: ScoredGrid) -> Array:
    """Alphas that are not certified and whose exact scores might change the choice.

    These are the best alpha, and all others whose exact score may be higher than that of the best.
    Alphas below a run of certified ones are decided without a proof of their own if a certified
    score of an alpha below the best is clearly lower, and if the best clearly beats the largest
    alpha, a null model. Otherwise at most ALPHAS_PER_REFINEMENT of them are named at a time.
    """
    scores = scored.scores
    if scores.certified.all():
        return np.empty(0)
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
    is_decided = certified[best] and falls and beats_largest
    lowest_needed = best if is_decided else max(0, lowest_proven - ALPHAS_PER_REFINEMENT)
    is_needed = (rank >= lowest_needed) & ~scores.certified & may_be_best(scored)
    return np.asarray(scores.alphas[is_needed])


def may_be_best(scored: ScoredGrid) -> NDArray[np.bool_]:
    """Mask (n_alphas,): True where the exact score may be the highest, for some target.

    An alpha without a bound on its score may be the best. The best alpha counts only if it has a
    rival: otherwise its exact score is the highest, however accurate it is.
    """
    shape = len(scored.scores.alphas), -1
    mean, errors = scored.scores.mean_score.reshape(shape), scored.scores.score_error.reshape(shape)
    best, targets = np.atleast_1d(scored.best), np.arange(mean.shape[1])
    with np.errstate(invalid="ignore"):
        is_rival = ~(mean + errors < (mean - errors)[best, targets])
    is_rival[best, targets] = False
    result = np.asarray(is_rival.any(axis=1))
    result[best[np.asarray(is_rival.any(axis=0))]] = True
    return result


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

    That is proved for scores with error bounds. `numbers` are indices of alphas. The result has
    shape (len(numbers), n_targets).
    """
    shape = len(scored.scores.alphas), -1
    mean, errors = scored.scores.mean_score.reshape(shape), scored.scores.std_error.reshape(shape)
    best, targets = np.atleast_1d(scored.best), np.arange(mean.shape[1])
    margin = std_errors * np.nan_to_num(errors[best, targets])
    bounds = np.nan_to_num(scored.scores.score_error.reshape(shape), posinf=np.inf)
    margin = margin + bounds[best, targets] + bounds[numbers]
    return np.asarray(mean[best, targets] - mean[numbers] > margin)
