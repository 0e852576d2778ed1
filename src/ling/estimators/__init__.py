"""The estimators: scikit-learn's contract over `ling.solvers` and `ling.model_selection`."""

from typing import TypeAlias

from ling.estimators.certify_solution import certify
from ling.estimators.classifier import RidgeClassifier, RidgeClassifierCV
from ling.estimators.ling_estimators import LingClassifier, LingRegressor
from ling.estimators.path import RidgePath, ridge_path
from ling.estimators.ridge import Ridge, plan_fit
from ling.estimators.ridge_cv import RidgeCV

RidgeModel: TypeAlias = (
    Ridge | RidgeCV | RidgeClassifier | RidgeClassifierCV | LingRegressor | LingClassifier
)

__all__ = [
    "LingClassifier",
    "LingRegressor",
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "RidgeModel",
    "RidgePath",
    "certify",
    "plan_fit",
    "ridge_path",
]
