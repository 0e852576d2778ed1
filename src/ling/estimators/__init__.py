"""What users import: scikit-learn's contract over `ling.solve`."""

from ling.estimators.ridge import Ridge, plan

__all__ = ["Ridge", "plan"]
