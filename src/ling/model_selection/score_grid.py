"""Cross-validation scores of a grid of alphas, refined and extended until the best is certain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.model_selection.alpha_grid import default_alpha_grid, extend_grid, extension_limits
from ling.model_selection.cv_problem import HeldOutPredictor
from ling.model_selection.results import CVResults
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


def score_alphas(
    validation: HeldOutPredictor, scoring: Scoring, problem: Problem, alphas: Array | None,
    method: str, store: bool = False,
) -> CVResults | None:  # fmt: skip
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
        results = _score_table(validation, scoring, grid, method, store)
        if alphas is None:
            results = replace(results, negligible=TIE_STD_ERRORS)
        undecided = undecided_alphas(results)
        if undecided.size and validation.refine(undecided):
            continue
        # For a constant y all alphas score the same, so extending the grid is useless.
        if alphas is not None or not problem.target_norms.any() or _is_inside(results):
            return results
        extended_grid = extend_grid(grid, limits)
        if len(extended_grid) == len(grid):
            return results
        grid = extended_grid


def _is_inside(results: CVResults) -> bool:
    """True if the best alpha is not at an end of the grid and clearly beats the largest alpha.

    The largest alpha stands for a null model; the margin is one standard error. A score that is
    hardly better may come from the strong directions alone, while y depends on weak directions that
    the grid does not reach.
    """
    ends = 0, len(results.alphas) - 1
    largest = np.array([np.argmax(results.alphas)])
    return not np.isin(results.best, ends).any() and bool(_clearly_lower(results, largest, 1).all())


def _score_table(
    validation: HeldOutPredictor, scoring: Scoring, alphas: Array, method: str, store: bool
) -> CVResults:
    sample_loss = None
    has_std_error = validation.n_splits > 1 or scoring.has_std_error_from_sums
    if validation.has_additive_scores and has_std_error and not store:
        sample_loss = scoring.sample_loss
    if sample_loss is None:
        folds, std_error, stored = _scores_from_predictions(validation, scoring, alphas, store)
    else:
        folds, std_error = _scores_from_sums(validation, scoring, alphas, sample_loss)
        stored = None
    if validation.n_splits > 1:
        std_error = folds.std(axis=1, ddof=1) / np.sqrt(validation.n_splits)
    return CVResults(
        alphas, folds.mean(axis=1), std_error, folds, validation.certified(alphas), method, stored,
        iterated=validation.is_iterated,
    )  # fmt: skip


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


def undecided_alphas(results: CVResults) -> Array:
    """Alphas that are not certified and whose true scores might change the choice.

    These are the best alpha and all larger ones, as far as they are not certified. Smaller alphas
    are decided if the best one clearly beats the largest alpha, or if a certified score of an alpha
    below the best is clearly lower. If training fits are iterated, both have to hold, because an
    iterated fit that is not certified may score as low as a null model. Otherwise the next
    ALPHAS_PER_REFINEMENT smaller alphas are undecided, too.
    """
    order = np.argsort(results.alphas)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    best = int(rank[np.atleast_1d(results.best)].min())
    certified = results.certified[order]
    lowest_proven = best
    while lowest_proven > 0 and certified[lowest_proven - 1]:
        lowest_proven -= 1
    falls = bool(_clearly_lower(results, order[lowest_proven:best]).all(axis=1).any())
    beats_largest = bool(_clearly_lower(results, order[-1:]).all())
    is_clear = falls and beats_largest if results.iterated else falls or beats_largest
    is_decided = certified[best] and is_clear
    lowest_needed = best if is_decided else max(0, lowest_proven - ALPHAS_PER_REFINEMENT)
    return np.asarray(results.alphas[(rank >= lowest_needed) & np.logical_not(results.certified)])


def is_inconclusive(results: CVResults) -> bool:
    """True if the best alpha is not certified, or if it is not clearly better than the largest one.

    The latter counts only if undecided alphas remain. With several targets, True if this holds for
    all of them.
    """
    if not results.certified[np.atleast_1d(results.best)].any():
        return True
    largest = np.array([np.argmax(results.alphas)])
    beats_largest = bool(_clearly_lower(results, largest).any())
    return not beats_largest and undecided_alphas(results).size > 0


@np.errstate(invalid="ignore")  # scores of -inf
def _clearly_lower(
    results: CVResults, numbers: NDArray[np.intp], std_errors: float = TIE_STD_ERRORS
) -> NDArray[np.bool_]:
    """True where these alphas score lower than the best by more than `std_errors` standard errors.

    `numbers` are indices of alphas. The result has shape (len(numbers), n_targets).
    """
    shape = len(results.alphas), -1
    scores, errors = results.mean_score.reshape(shape), results.std_error.reshape(shape)
    best, targets = np.atleast_1d(results.best), np.arange(scores.shape[1])
    margin = std_errors * np.nan_to_num(errors[best, targets])
    return np.asarray(scores[best, targets] - scores[numbers] > margin)
