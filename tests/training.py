"""Ridge problems of arrays, for tests of what lies below the estimators."""

from ling.design import as_design
from ling.solvers.problem import TrainingData, build_problem


def make_data(X, Y, weights=None):
    return TrainingData(X, as_design(X), Y, weights)


def make_problem(X, Y, alphas, weights=None, fit_intercept=True):
    """The problem of X, Y and weights, and its standardization."""
    return build_problem(make_data(X, Y, weights), alphas, fit_intercept)
