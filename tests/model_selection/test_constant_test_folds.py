"""R^2 of a constant y is 1 or 0; its error says if it is not known which, in exact arithmetic."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from ling import RidgeCV

ALPHAS = np.array([1e-3, 1.0, 1e3])
N = 18
ROWS = np.arange(N)
FOLD_OF_ROW = ROWS % 3
PARTS = [(ROWS[k != FOLD_OF_ROW], ROWS[k == FOLD_OF_ROW]) for k in range(3)]


def solve(A, b):
    """The solution of A x = b by Gauss-Jordan elimination in fractions; A is positive definite."""
    rows = [[*row, value] for row, value in zip(A, b, strict=True)]
    for pivot in range(len(rows)):
        rows[pivot] = [value / rows[pivot][pivot] for value in rows[pivot]]
        for k, row in enumerate(rows):
            if k != pivot:
                rows[k] = [a - row[pivot] * b for a, b in zip(row, rows[pivot], strict=True)]
    return [row[-1] for row in rows]


def exact_r2(X, y, train, test, alpha, fit_intercept):
    """R^2 of an exact ridge fit with scikit-learn's convention for a constant y, as a fraction."""
    X, y = [[Fraction(v) for v in row] for row in X.tolist()], [Fraction(v) for v in y.tolist()]
    p, n = range(len(X[0])), len(train)
    x_mean = [sum(X[i][j] for i in train) / n if fit_intercept else Fraction(0) for j in p]
    y_mean = sum(y[i] for i in train) / n if fit_intercept else Fraction(0)
    Z = [[X[i][j] - x_mean[j] for j in p] for i in train]
    A = [[sum(z[j] * z[k] for z in Z) + (j == k) * Fraction(alpha) for k in p] for j in p]
    b = [sum(z[j] * (y[i] - y_mean) for z, i in zip(Z, train, strict=True)) for j in p]
    coef = solve(A, b)
    residuals = [
        y[i] - y_mean - sum((X[i][j] - x_mean[j]) * coef[j] for j in p) for i in test.tolist()
    ]
    loss = sum(r * r for r in residuals)
    mean = sum(y[i] for i in test) / len(test)
    spread = sum((y[i] - mean) ** 2 for i in test)
    return 1 - loss / spread if spread else Fraction(int(loss == 0))


def constant_in_one_fold(rng, X, scale):
    """The fit to the other folds does not predict the constant exactly."""
    return np.where(FOLD_OF_ROW == 0, scale * rng.integers(1, 9), scale * rng.integers(-9, 9, N))


def constant_in_every_fold(rng, X, scale):
    return scale * rng.integers(1, 9, 3)[FOLD_OF_ROW]


def constant(rng, X, scale):
    return np.full(N, scale * rng.integers(1, 9))


def exactly_predicted(rng, X, scale):
    """Without a correlation of x and y in a training set, the mean of y is predicted.

    It is the constant of the test fold, but floating-point sums are rounded.
    """
    X[FOLD_OF_ROW != 0] = np.repeat(scale * rng.standard_normal((N // 3, X.shape[1])), 2, axis=0)
    mean, offsets = scale * rng.uniform(1.1, 1.9), np.zeros(N)
    offsets[FOLD_OF_ROW != 0] = np.tile([1, -1], N // 3)
    return mean + 2.0**49 * np.spacing(mean) * offsets


def nearly_constant(rng, X, scale):
    """The mean of y is rounded by as much as y varies."""
    return scale * 8 + np.spacing(scale * 8) * rng.integers(0, 4, N)


def tiny(rng, X, scale):
    """Squares of y underflow."""
    return 1e-170 * scale * rng.integers(1, 9, N)


TARGETS = [
    constant_in_one_fold, constant_in_every_fold, constant, exactly_predicted, nearly_constant,
    tiny,
]  # fmt: skip


def fit(X, Y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return RidgeCV(ALPHAS, cv=PARTS, **options).fit(X, Y).cv_scores_


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("make_y", TARGETS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1.0, 0.1, 1 / 3, 1e5 / 7]))
def test_scores_are_within_their_errors_of_exact_ones(make_y, fit_intercept, seed, scale):
    rng = np.random.default_rng(seed)
    X = rng.integers(-4, 5, (N, 2)) / 10
    y = make_y(rng, X, scale)
    scores = fit(X, y, fit_intercept=fit_intercept)
    for alpha, score, bound in zip(ALPHAS, scores.mean_score, scores.score_error, strict=True):
        exact = [exact_r2(X, y, *part, alpha, fit_intercept) for part in PARTS]
        error = abs(Fraction(float(score)) - sum(exact) / len(PARTS))
        assert np.isinf(bound) or error <= Fraction(float(bound))


@pytest.mark.parametrize("per_target", [True, False])
def test_targets_of_all_kinds_together(per_target):
    rng = np.random.default_rng(0)
    X = rng.integers(-4, 5, (N, 2)) / 10
    Y = np.column_stack([make(rng, X, 0.1) for make in (constant_in_one_fold, constant)])
    scores = fit(X, Y, alpha_per_target=per_target)
    for index, alpha in enumerate(ALPHAS):
        exact = [
            sum(exact_r2(X, y, *part, alpha, True) for part in PARTS) / len(PARTS) for y in Y.T
        ]
        exact = exact if per_target else [sum(exact) / 2]
        found, bounds = np.ravel(scores.mean_score[index]), np.ravel(scores.score_error[index])
        for value, bound, truth in zip(found, bounds, exact, strict=True):
            assert abs(Fraction(float(value)) - truth) <= Fraction(float(bound))
            assert bound < 1e-10


@pytest.mark.parametrize("make_y", [constant_in_one_fold, constant_in_every_fold, constant])
def test_predictions_that_clearly_differ_or_are_exact_leave_no_doubt(make_y):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N, 2))
    scores = fit(X, make_y(rng, X, 0.1))
    assert (scores.score_error < 1e-9).all()
    assert scores.certified.all()


def test_rounding_may_give_the_wrong_score_of_a_constant_and_the_error_says_so():
    n_wrong = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.integers(-4, 5, (N, 2)) / 10
        y = exactly_predicted(rng, X, 0.1)
        scores = fit(X, y)
        exact = [exact_r2(X, y, *PARTS[0], alpha, True) for alpha in ALPHAS]
        n_wrong += np.count_nonzero(scores.split_scores[:, 0] != np.array(exact, dtype=float))
        assert (scores.score_error > 0.3).all()  # one fold of three
        assert not scores.certified.any()
    assert n_wrong


def test_out_of_core_scores_have_the_same_errors(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 2))
    for make_y in (constant_in_one_fold, exactly_predicted):
        y = make_y(rng, X, 0.1)
        np.save(tmp_path / "X.npy", X)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        in_memory, out_of_core = fit(X, y), fit(mapped, y, memory_budget="20kB")
        np.testing.assert_array_equal(in_memory.certified, out_of_core.certified)
        np.testing.assert_allclose(in_memory.score_error, out_of_core.score_error, atol=1e-9)
