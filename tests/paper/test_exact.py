"""`paper.ridge` is the exact solution: equation (2), primal and dual, penalised or not."""

import numpy as np
import pytest

from ling import paper
from tests import reference
from tests.paper.registry import SHAPES, STORAGES, gaussian, over, relative_error

EPS = np.finfo(np.float64).eps


def _problems():
    """Tiny problems, tall and wide; those without full column rank are what ridge is for."""
    rng = np.random.default_rng(7)
    tall, wide, square = (rng.standard_normal(shape) for shape in [(9, 5), (5, 9), (6, 6)])
    return {
        "tall": tall,
        "wide": wide,
        "square": square,
        "one-row": tall[:1],
        "one-column": tall[:, :1],
        "one-number": tall[:1, :1],
        "duplicated-columns": np.hstack([tall, tall[:, :3]]),
        "duplicated-rows": np.vstack([wide, wide[:3]]),
        "constant-column": np.hstack([tall, np.full((9, 1), 3.0)]),
        "two-constant-columns": np.hstack([tall, np.full((9, 2), 3.0)]),
        "zero-columns": np.hstack([tall, np.zeros((9, 2))]),
        "zero-rows": np.vstack([wide, np.zeros((2, 9))]),
        # Products of small whole numbers are exact, so that the rank is 2 and not 2 up to rounding.
        "low-rank-tall": rng.integers(-4, 5, (9, 2)) @ rng.integers(-4, 5, (2, 7)) / 4.0,
        "low-rank-wide": rng.integers(-4, 5, (5, 2)) @ rng.integers(-4, 5, (2, 9)) / 4.0,
    }


PROBLEMS = _problems()
TARGETS = {
    "random": lambda n: np.random.default_rng(8).standard_normal(n),
    "constant": lambda n: np.full(n, 2.0),
}
# Around the rounding errors of X'X (1e-15), far below them, and as far up as n lam goes.
LAMBDAS = [1e-300, 1e-20, 1e-16, 1e-15, 1e-14, 1e-12, 1e-8, 1e-3, 1.0, 1e3, 1e12, 1e300]

# To tell X'X from X'X + n lam I at lam = 1e-300, and then some.
DIGITS = 700


def _condition(X, alpha):
    """Of the Gram matrix that ridge factors, X'X + alpha I or XX' + alpha I, whichever is less."""
    d = np.linalg.svd(X, compute_uv=False)
    return (d[0] ** 2 + alpha) / (d[-1] ** 2 + alpha)


@over("target", TARGETS)
@over("X", PROBLEMS)
@pytest.mark.parametrize("lam", LAMBDAS)
def test_fitted_values_are_those_of_ridge(X, target, lam):
    n, p = X.shape
    y = target(n)
    wanted = X @ reference.extreme_ridge(X, y, n * lam, digits=DIGITS)
    # In the dual, what X cannot explain of y is divided by n lam before X' takes it out again.
    tol = 1e-9 if p <= n else max(1e-9, 100 * EPS * _condition(X, n * lam))
    assert relative_error(paper.ridge(X, y, lam).fitted, wanted) < tol


@over("X", PROBLEMS)
@pytest.mark.parametrize("lam", LAMBDAS)
def test_coefficients_are_as_good_as_the_condition_allows(X, lam):
    y = TARGETS["random"](len(X))
    wanted = reference.extreme_ridge(X, y, len(X) * lam, digits=DIGITS)
    error = relative_error(paper.ridge(X, y, lam).coef, wanted)
    assert error < 100 * EPS * _condition(X, len(X) * lam)


@over("target", TARGETS)
@over("X", PROBLEMS)
def test_no_penalty_gives_the_minimum_norm_solution(X, target):
    y = target(len(X))
    wanted = reference.minimum_norm(X, y)
    assert relative_error(paper.ridge(X, y, 0.0).coef, wanted) < 1e-9


@over("X", PROBLEMS)
def test_a_vanishing_penalty_leads_to_the_minimum_norm_solution(X):
    y = TARGETS["random"](len(X))
    assert relative_error(paper.ridge(X, y, 1e-18).coef, reference.minimum_norm(X, y)) < 1e-9


@pytest.mark.parametrize("lam", [0.0, 1e-6, 1.0, 1e6])
@over("storage", STORAGES)
@over("shape", SHAPES)
def test_every_storage(storage, shape, lam):
    X, y = gaussian(*shape)
    A = storage.dense(X)
    wanted = reference.ridge(A, y, len(y) * lam)
    fit = paper.ridge(storage.wrap(X), y, lam)
    assert relative_error(fit.coef, wanted) < 1e-9
    assert relative_error(fit.fitted, A @ wanted) < 1e-9


@pytest.mark.parametrize("shape", [(300, 120), (120, 300)], ids=["primal", "dual"])
@pytest.mark.parametrize("lam", [0.0, 1e-4, 1.0])
def test_more_than_tiny(shape, lam):
    X, y = gaussian(*shape)
    wanted = reference.ridge(X, y, len(y) * lam)
    assert relative_error(paper.ridge(X, y, lam).coef, wanted) < 1e-10


@over("X", PROBLEMS)
@pytest.mark.parametrize("alpha", [1e-4, 1.0, 1e6])
def test_the_oracles_agree(X, alpha):
    y = TARGETS["random"](len(X))
    wanted = reference.extreme_ridge(X, y, alpha)
    assert relative_error(reference.ridge(X, y, alpha), wanted) < 1e-9
    assert relative_error(reference.minimum_norm(*_penalty_as_rows(X, y, alpha)), wanted) < 1e-9


def _penalty_as_rows(X, y, alpha):
    p = X.shape[1]
    return np.vstack([X, np.sqrt(alpha) * np.eye(p)]), np.concatenate([y, np.zeros(p)])


@pytest.mark.parametrize("lam", [0.0, 1e-8, 1e-6])
@pytest.mark.parametrize("decades", [3, 4])
def test_columns_in_very_different_units_all_count(decades, lam):
    """A column in small units is not a rounding error of one in large units."""
    X, y = gaussian(300, 40)
    X = X * np.logspace(-decades, decades, 40)
    wanted = reference.ridge(X, y, 300 * lam)
    assert relative_error(paper.ridge(X, y, lam).fitted, X @ wanted) < 1e-6
