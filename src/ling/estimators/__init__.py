"""What users import: scikit-learn's contract over `ling.solve` and `ling.selection`."""

from ling.estimators.classifier import RidgeClassifier, RidgeClassifierCV
from ling.estimators.path import RidgePath, ridge_path
from ling.estimators.ridge import Ridge, plan
from ling.estimators.ridge_cv import RidgeCV

__all__ = [
    "Ridge",
    "RidgeCV",
    "RidgeClassifier",
    "RidgeClassifierCV",
    "RidgePath",
    "plan",
    "ridge_path",
]
