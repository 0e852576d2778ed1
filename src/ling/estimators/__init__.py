"""The estimators: scikit-learn's contract over `ling.solvers` and `ling.model_selection`."""

from ling.estimators.classifier import RidgeClassifier, RidgeClassifierCV
from ling.estimators.path import RidgePath, ridge_path
from ling.estimators.ridge import Ridge, plan_fit
from ling.estimators.ridge_cv import RidgeCV

__all__ = [
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "RidgePath",
    "plan_fit",
    "ridge_path",
]
