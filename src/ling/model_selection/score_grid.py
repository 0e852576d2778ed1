"""Choosing alpha: score all, look closer or farther where needed, and keep the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.model_selection.alpha_grid import default_alpha_grid, extend_grid
from ling.model_selection.cv_problem import HeldOutPredictor
from ling.model_selection.results import CVResults
from ling.model_selection.score_accumulators import SampleLoss
from ling.model_selection.scoring import Scoring
from ling.solvers.problem import Problem

# Alphas that are certified at a time while the proven scores do not fall towards smaller ones. Each
# time costs a pass for the scores; fewer at a time certify fewer alphas that are not needed.
ALPHAS_PER_REFINEMENT = 3
# On a grid of ours, scores nearer than so many standard errors are taken for equal.
TIE_STD_ERRORS = 1e-3


def score_alphas(
    validation: HeldOutPredictor, scoring: Scoring, problem: Problem, alphas: Array | None,
    method: str, store: bool = False,
) -> CVResults | None:  # fmt: skip
    """Scores of all alphas; a grid of None is extended until the best is inside.

    None if the validation gave up, as another way would have been faster.
    """
    grid = default_alpha_grid(problem) if alphas is None else alphas
    validation.refine(np.sort(grid)[len(grid) // 2 :])
    while True:
        if validation.gave_up:
            return None
        results = _score_table(validation, scoring, grid, method, store)
        if alphas is None:
            results = replace(results, negligible=TIE_STD_ERRORS)
        missing = undecided_alphas(results)
        if missing.size and validation.refine(missing):
            continue
        at_end = np.isin(results.best, (0, len(grid) - 1)).any()
        # All alphas are as good for a constant y.
        if alphas is not None or not at_end or not problem.target_norms.any():
            return results
        more = extend_grid(grid, problem)
        if len(more) == len(grid):
            return results
        grid = more


def _score_table(
    validation: HeldOutPredictor, scoring: Scoring, alphas: Array, method: str, store: bool
) -> CVResults:
    sample_loss = None
    enough = validation.n_splits > 1 or scoring.has_std_error_from_sums
    if validation.has_additive_scores and enough and not store:
        sample_loss = scoring.sample_loss
    if sample_loss is None:
        folds, std_error, stored = _scores_from_predictions(validation, scoring, alphas, store)
    else:
        folds, std_error = _scores_from_sums(validation, scoring, alphas, sample_loss)
        stored = None
    if validation.n_splits > 1:
        std_error = folds.std(axis=1, ddof=1) / np.sqrt(validation.n_splits)
    return CVResults(
        alphas, folds.mean(axis=1), std_error, folds, validation.certified(alphas), method, stored
    )


def _scores_from_sums(
    validation: HeldOutPredictor, scoring: Scoring, alphas: Array, sample_loss: SampleLoss
) -> tuple[Array, Array]:
    """Scores (n_alphas, n_splits, ...), and the standard errors of the last split's."""
    sums = validation.score_sums(alphas, sample_loss)
    found = []
    for number in range(validation.n_splits):
        score, error = scoring.scores_from_sums(sums[number], validation.test_index(number))
        found.append(score)
    return np.stack(found, axis=1), error


def _scores_from_predictions(
    validation: HeldOutPredictor, scoring: Scoring, alphas: Array, store: bool
) -> tuple[Array, Array, Array | None]:
    """The same from predictions, and what they are worth, sample by sample, if wanted."""
    n_splits = validation.n_splits
    scores: list[list[Array]] = [[np.array(np.nan)] * n_splits for _ in alphas]
    errors: list[Array] = [np.array(np.nan)] * len(alphas)
    stored: list[Array] = []
    tested = -1
    for split, at, P in validation.predictions(alphas):
        if split != tested:
            tested, rows = split, validation.test_rows(split)
        if n_splits == 1:
            scores[at][split], errors[at] = scoring.score_with_std_error(P, rows)
        else:
            scores[at][split] = scoring.score(P, rows)
        if store:
            stored.append(scoring.sample_values(P, rows))
    return np.array(scores), np.array(errors), np.stack(stored, axis=-1) if store else None


def undecided_alphas(results: CVResults) -> Array:
    """The alphas without a proof whose true scores might change the choice.

    These are the best and all above it. Smaller alphas do not matter if proven scores fall from the
    best towards them; as long as none does, the next few of them matter too.
    """
    order = np.argsort(results.alphas)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    best = int(rank[np.atleast_1d(results.best)].min())
    certified = results.certified[order]
    lowest_proven = best
    while lowest_proven > 0 and certified[lowest_proven - 1]:
        lowest_proven -= 1
    falls = certified[best] and _scores_clearly_lower(results, order[lowest_proven:best]).any()
    needed = best if falls else max(0, lowest_proven - ALPHAS_PER_REFINEMENT)
    return np.asarray(results.alphas[(rank >= needed) & np.logical_not(results.certified)])


def is_inconclusive(results: CVResults) -> bool:
    """Whether nothing is proved of the best alpha, or only that it is as bad as the largest one."""
    certified = bool(results.certified[np.atleast_1d(results.best)].all())
    largest = np.array([np.argmax(results.alphas)])
    beats_largest = bool(_scores_clearly_lower(results, largest).all())
    return not certified or (not beats_largest and undecided_alphas(results).size > 0)


def _scores_clearly_lower(results: CVResults, numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which of these alphas score lower than the best for all targets, but for rounding."""
    shape = len(results.alphas), -1
    scores, errors = results.mean_score.reshape(shape), results.std_error.reshape(shape)
    best, targets = np.atleast_1d(results.best), np.arange(scores.shape[1])
    margin = TIE_STD_ERRORS * np.nan_to_num(errors[best, targets])
    return np.asarray((scores[best, targets] - scores[numbers] > margin).all(axis=1))
