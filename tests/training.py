"""Ridge problems of arrays, for tests of what lies below the estimators."""

from dataclasses import fields

from ling.design import as_design
from ling.solvers.cost_model import PassCosts
from ling.solvers.engine import EngineBudget
from ling.solvers.options import FitOptions
from ling.solvers.problem import TrainingData, build_problem


def make_data(X, Y, weights=None):
    return TrainingData(X, as_design(X), Y, weights)


def make_problem(X, Y, alphas, weights=None, fit_intercept=True):
    """The problem of X, Y and weights, and its standardization."""
    return build_problem(make_data(X, Y, weights), alphas, fit_intercept)


COST_NAMES = {field.name for field in fields(PassCosts)}


def make_budget(**limits):
    """An EngineBudget; costs of passes may be given by their names too."""
    costs = {name: limits.pop(name) for name in COST_NAMES & limits.keys()}
    return EngineBudget(**limits, costs=PassCosts(**costs))


def run_engine(engine, problem, tol, seed=None, start=None, **limits):
    """What an engine, or a function with the arguments of one, returns."""
    options = FitOptions(tol=tol, random_state=seed)
    return engine(problem, options, make_budget(**limits), start)
