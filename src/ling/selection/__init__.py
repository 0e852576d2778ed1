"""Choosing alpha: leave-one-out and K-fold cross-validation that share work between alphas."""

from ling.selection.choice import choose
from ling.selection.folds import DirectFolds
from ling.selection.grid import checked, default_grid
from ling.selection.iterated import IteratedFolds, StochasticLeaveOneOut
from ling.selection.loo import ExactLeaveOneOut
from ling.selection.results import CVResults
from ling.selection.samples import Samples, Validation
from ling.selection.scoring import R2, Mean, Scorer, Scoring, SquaredErrors
from ling.selection.splits import Splits

__all__ = [
    "R2",
    "CVResults",
    "DirectFolds",
    "ExactLeaveOneOut",
    "IteratedFolds",
    "Mean",
    "Samples",
    "Scorer",
    "Scoring",
    "Splits",
    "SquaredErrors",
    "StochasticLeaveOneOut",
    "Validation",
    "checked",
    "choose",
    "default_grid",
]
