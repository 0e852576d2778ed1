"""Notes and warnings about a choice of alpha: how it was made, and what is proved of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ling.model_selection import CVScores, ScoredGrid, Scoring, grid_ends_with_best
from ling.model_selection.score_grid import may_be_best, undecided_alphas


def choice_notes(model: Any, scored: ScoredGrid, scoring: Scoring) -> list[str]:
    """How alpha was chosen, what is proved of the choice, and what is doubtful, as sentences."""
    scores = scored.scores
    notes = [f"alpha was chosen from {len(scores.alphas)} by {scores.method}."]
    message = uncertified_choice_message(scored)
    if message:
        notes.append(f"{message[0].upper()}{message[1:]}")
    elif np.isfinite(scores.mean_score).any():
        notes += _proof_notes(scored)
    message = nonfinite_scores_message(scores)
    notes += [message] if message else []
    return [*notes, *_null_model_notes(scored, scoring), *grid_edge_notes(model, scores)]


def _proof_notes(scored: ScoredGrid) -> list[str]:
    """Sentences: the proven gap of the chosen alpha, and how many alphas were not examined."""
    scores, notes = scored.scores, []
    n_alphas = len(scores.alphas)
    n_skipped = int(np.count_nonzero(~scores.certified & may_be_best(scored)))
    if np.isfinite(scores.gap):
        others = "no other alpha of the grid scores"
        if n_skipped:
            others = f"none of the {n_alphas - n_skipped} alphas that were examined scores"
        more = f" by more than {scores.gap:.1e}" if scores.gap else ""
        given = ", given the estimated degrees of freedom" if "estimated" in scores.method else ""
        notes.append(f"Proved: {others} higher{more}{given}.")
    elif np.isnan(scores.score_error).any():
        notes.append("This scoring has no error bounds, so nothing is proved of its scores.")
    if n_skipped:
        skipped = "smallest alpha was" if n_skipped == 1 else f"{n_skipped} smallest alphas were"
        notes.append(
            f"The {skipped} scored without a proof, and not examined further: proven scores of "
            "larger alphas are already lower than the best."
        )
    return notes


def _null_model_notes(scored: ScoredGrid, scoring: Scoring) -> list[str]:
    """One note if models are no better than the mean of y, as for a y without signal."""
    null_score = scoring.null_score
    if null_score is None:
        return []
    mean = scored.scores.mean_score.reshape(len(scored.scores.alphas), -1)
    best = mean[np.atleast_1d(scored.best), np.arange(mean.shape[1])]
    n_null = int(np.count_nonzero(best <= null_score))
    if not n_null:
        return []
    which = f"For {n_null} of {len(best)} targets held-out" if len(best) > 1 else "Held-out"
    return [f"{which} predictions are no better than the mean of y."]


def uncertified_choice_message(scored: ScoredGrid) -> str:
    """Message for a choice of alpha that depends on uncertified scores; "" if it does not."""
    if not undecided_alphas(scored).size or not np.isfinite(scored.scores.mean_score).any():
        return ""
    alphas = scored.scores.alphas[~scored.scores.certified & may_be_best(scored)]
    which = f"the alphas from {alphas.min():.3g} to {alphas.max():.3g}"
    if alphas.size == 1:
        which = f"alpha {alphas[0]:.3g}"
    remedy = "memory_budget" if scored.lacks_memory else "tol"
    return (
        f"the choice of alpha is not proved: the fits that scored {which} could not be certified; "
        f"raise {remedy}, scale X (StandardScaler), or pass larger alphas."
    )


def nonfinite_scores_message(scores: CVScores) -> str:
    """Message for mean scores that are NaN or infinite, as in scikit-learn; "" if none are."""
    is_finite = np.isfinite(scores.mean_score).reshape(len(scores.alphas), -1)
    if is_finite.all():
        return ""
    n_alphas = int(np.count_nonzero(~is_finite.all(axis=1)))
    message = (
        f"One or more of the test scores are non-finite: those of {n_alphas} of {len(is_finite)} "
        "alphas."
    )
    if not is_finite.any(axis=0).all():
        message += (
            f" Without a finite score the first alpha, {scores.alphas[0]:g}, was taken; pass "
            "another scoring, or splits with more test samples."
        )
    return message


def grid_edge_notes(model: Any, scores: CVScores) -> list[str]:
    """Notes for a best alpha at an end of the user's grid, towards which the score still rises.

    There are none for the default grid, which is extended.
    """
    notes: list[str] = []
    if model.alphas is None:
        return notes
    for end, n_targets in grid_ends_with_best(scores).items():
        alpha = scores.alphas.min() if end == "smallest" else scores.alphas.max()
        of_targets = ""
        if scores.has_target_scores:
            of_targets = f" of {n_targets} of {scores.mean_score.shape[1]} targets"
        notes.append(
            f"The best alpha{of_targets} is the {end} of alphas, {alpha:g}: a better one may lie "
            "beyond. Pass a wider grid, or alphas=None for one that follows from the data."
        )
    return notes
