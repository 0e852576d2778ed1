"""Everybody that ling.Ridge races against, and what keeps them out of a race."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sklearn.linear_model import Ridge

from benchmarks.harness import Racer
from benchmarks.ridge_data import Fit, Problem

# An obstacle says why a peer cannot run a problem, or nothing.
Obstacle = Callable[[Problem], str]
Solver = Callable[[Problem, float], Fit]

TOLS = tuple(10.0**-k for k in range(4, 11))
DIRECT = (0.0,)
GRAM_BYTES = 4e9


def needs_dense(problem: Problem) -> str:
    return "cannot take sparse X with an intercept" if problem.is_sparse else ""


def falls_back(problem: Problem) -> str:
    """At the tolerances that matter, scikit-learn answers for sag with another solver."""
    return "runs sparse_cg instead on sparse X" if problem.is_sparse else ""


def needs_one_target(problem: Problem) -> str:
    return "" if problem.n_targets == 1 else "one target only"


def forms_gram(problem: Problem) -> str:
    """The p x p matrix is formed even where p > n."""
    size = 8.0 * problem.X.shape[1] ** 2
    return f"would form a Gram matrix of {size / 1e9:.0f} GB" if size > GRAM_BYTES else ""


def factors_x(problem: Problem) -> str:
    slow = min(problem.X.shape) > 1000  # tens of times the cost of cholesky, at the same accuracy
    return "too slow: min(n, p) > 1000" if slow else ""


def sweeps_rows(problem: Problem) -> str:
    return "too slow: more than 1e7 entries" if problem.n_entries > 1e7 else ""


@dataclass(frozen=True)
class Peer(Racer):
    """`tols` are tried from the loosest until the error is reached; a direct solver has one."""

    solve: Solver
    obstacles: tuple[Obstacle, ...] = ()
    tols: tuple[float, ...] = TOLS

    @property
    def is_direct(self) -> bool:
        return self.tols == DIRECT

    def obstacle(self, problem: Problem) -> str:
        if not self.installed:
            return "not installed"
        return next(filter(None, (obstacle(problem) for obstacle in self.obstacles)), "")


def sklearn(solver: str, problem: Problem, tol: float) -> Fit:
    ridge = Ridge(problem.alpha, solver=solver, tol=tol, random_state=problem.seed)
    return Fit.of(ridge.fit(problem.X, problem.y))


def sklearn_default(problem: Problem, tol: float) -> Fit:
    return Fit.of(Ridge(problem.alpha).fit(problem.X, problem.y))


def intelex(problem: Problem, tol: float) -> Fit:
    from sklearnex.linear_model import Ridge as IntelexRidge

    ridge = IntelexRidge(problem.alpha, n_jobs=problem.threads)
    return Fit.of(ridge.fit(problem.X, problem.y))


def glum(solver: str, problem: Problem, tol: float) -> Fit:
    """glum minimises ||y - Xw - b||^2 / (2 n) + alpha / 2 ||w||^2."""
    from glum import GeneralizedLinearRegressor

    regressor = GeneralizedLinearRegressor(
        family="normal",
        alpha=problem.alpha / problem.X.shape[0],
        l1_ratio=0,
        solver=solver,
        gradient_tol=tol,
        max_iter=1000,
    )
    return Fit.of(regressor.fit(problem.X, problem.y))


def nystrom(problem: Problem, tol: float) -> Fit:
    from benchmarks.ridge_nystrom import solve

    return solve(problem, tol)


def of_sklearn(solver: str, *obstacles: Obstacle, tols: tuple[float, ...] = TOLS) -> Peer:
    name = f"scikit-learn {solver}"
    return Peer(name, ("sklearn.linear_model",), partial(sklearn, solver), obstacles, tols)


def of_glum(solver: str, *obstacles: Obstacle) -> Peer:
    return Peer(f"glum {solver}", ("glum",), partial(glum, solver), (needs_one_target, *obstacles))


DEFAULT = Peer("scikit-learn default", ("sklearn.linear_model",), sklearn_default, tols=DIRECT)
INTELEX = Peer(
    "scikit-learn-intelex",
    ("sklearnex.linear_model",),
    intelex,
    (needs_dense, forms_gram),
    DIRECT,
)
NYSTROM = Peer("rlaopt Nyström PCG", ("torch", "rlaopt.solvers"), nystrom)

# Those likely to be fast come first: whoever is far behind them takes no further turn.
PEERS = (
    of_sklearn("cholesky", needs_dense, tols=DIRECT),
    INTELEX,
    NYSTROM,
    of_sklearn("lsqr"),
    of_sklearn("sparse_cg"),
    of_glum("irls-ls", forms_gram),
    of_glum("lbfgs", sweeps_rows),
    of_sklearn("svd", needs_dense, factors_x, tols=DIRECT),
    of_sklearn("sag", sweeps_rows, falls_back),
    of_sklearn("saga", needs_dense, sweeps_rows),
)
