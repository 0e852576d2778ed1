"""Choosing alpha: leave-one-out and K-fold cross-validation that share work between alphas."""

from ling.model_selection.alpha_grid import check_alphas, default_alpha_grid
from ling.model_selection.cv_problem import CVProblem, HeldOutPredictor
from ling.model_selection.cv_scores import CVScores, grid_ends_with_best
from ling.model_selection.direct_folds import DirectFolds
from ling.model_selection.held_out import HeldOut
from ling.model_selection.iterated_folds import IteratedFolds
from ling.model_selection.leave_one_out import ExactLeaveOneOut
from ling.model_selection.score_grid import ScoredGrid, score_alphas
from ling.model_selection.scoring import MeanScore, Scoring, SklearnScorer
from ling.model_selection.splits import Splits
from ling.model_selection.squared_error_scores import (
    NegMeanSquaredError,
    NegMeanSquaredLoss,
    R2Score,
)
from ling.model_selection.stochastic_gcv import StochasticGCV

__all__ = [
    "CVProblem",
    "CVScores",
    "DirectFolds",
    "ExactLeaveOneOut",
    "HeldOut",
    "HeldOutPredictor",
    "IteratedFolds",
    "MeanScore",
    "NegMeanSquaredError",
    "NegMeanSquaredLoss",
    "R2Score",
    "ScoredGrid",
    "Scoring",
    "SklearnScorer",
    "Splits",
    "StochasticGCV",
    "check_alphas",
    "default_alpha_grid",
    "grid_ends_with_best",
    "score_alphas",
]
