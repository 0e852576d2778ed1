"""Bounds on the errors of held-out predictions hold, in arithmetic with 60 digits."""

import warnings

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from ling import RidgeCV
from ling.linalg.cholesky import CholeskyForm
from ling.linalg.rounding import EPS, sum_noise
from ling.linalg.singular_values import SingularForm
from ling.model_selection import DirectFolds, ExactLeaveOneOut, IteratedFolds
from ling.model_selection.fold_errors import (
    LeaveOneOutErrors,
    SystemScales,
    form_errors,
    leave_one_out_errors,
)
from ling.model_selection.fold_scales import test_rows_of_split as rows_of_split
from ling.model_selection.leave_one_out import _DualLeaveOneOut
from ling.model_selection.leverage_bounds import leverage_bounds
from ling.model_selection.squared_error_scores import R2Score
from ling.solvers.certificate import LowRankMinorant
from tests.model_selection.problems import DATA, Data

DIGITS = 60


def refined(predictor, alphas):
    predictor.refine(alphas)
    return predictor


PREDICTORS = {
    "folds": lambda samples, splits, _: DirectFolds(samples, splits),
    "folds, singular values": lambda samples, splits, alphas: refined(
        DirectFolds(samples, splits), alphas
    ),
    "iterated folds": lambda samples, splits, alphas: refined(
        IteratedFolds(samples, splits, 1e-3), alphas
    ),
    "leave-one-out": lambda samples, _, __: ExactLeaveOneOut(samples),
    "leave-one-out, singular values": lambda samples, _, alphas: refined(
        ExactLeaveOneOut(samples), alphas
    ),
}


def gaussian(rng, n, p):
    return rng.standard_normal((n, p))


def nearly_collinear(rng, n, p):
    X = rng.standard_normal((n, p))
    X[:, -1] = X[:, 0] + 1e-7 * rng.standard_normal(n)
    return X


def different_units(rng, n, p):
    return rng.standard_normal((n, p)) * 10.0 ** rng.uniform(-6, 6, p)


def large_mean(rng, n, p):
    return rng.standard_normal((n, p)) + 10.0 ** rng.uniform(2, 6)


def heavy_rows(rng, n, p):
    X = rng.standard_normal((n, p))
    X[: n // 4] *= 10.0 ** rng.uniform(1, 5)
    return X


def duplicated(rng, n, p):
    X = rng.standard_normal((n, p))
    X[:, -1] = X[:, 0]
    return X


KINDS = [gaussian, nearly_collinear, different_units, large_mean, heavy_rows, duplicated]


def exact_predictions(data, train, test, alpha):
    """Predictions (n_test, t) of the exact fit to the rows `train`, as numbers of mpmath."""
    weights = np.ones(len(data.Y)) if data.weights is None else data.weights
    w = mp.matrix(weights[train].tolist())
    X, Y = mp.matrix(data.dense[train].tolist()), mp.matrix(data.Y[train].tolist())
    total = mp.fsum(w)
    x_mean = [mp.fsum(w[i] * X[i, j] for i in range(len(train))) / total for j in range(X.cols)]
    y_mean = [mp.fsum(w[i] * Y[i, j] for i in range(len(train))) / total for j in range(Y.cols)]
    for i in range(len(train)):
        for j in range(X.cols):
            X[i, j] = (X[i, j] - x_mean[j]) * mp.sqrt(w[i])
        for j in range(Y.cols):
            Y[i, j] = (Y[i, j] - y_mean[j]) * mp.sqrt(w[i])
    A = X.T * X + mp.mpf(alpha) * mp.eye(X.cols)
    coef = [mp.lu_solve(A, X.T * Y[:, j]) for j in range(Y.cols)]
    return [
        [
            y_mean[j] + mp.fsum((mp.mpf(x[k]) - x_mean[k]) * coef[j][k] for k in range(X.cols))
            for j in range(Y.cols)
        ]
        for x in data.dense[test].tolist()
    ]


def error_norms(data, held_out, train, test, alpha):
    """The norms (t,) of the errors of predictions, with the weights of the samples."""
    weights = np.ones(len(data.Y)) if data.weights is None else data.weights
    exact = exact_predictions(data, train, test, alpha)
    squares = [
        mp.fsum(
            mp.mpf(w) * (mp.mpf(float(p)) - e) ** 2
            for w, p, e in zip(
                weights[test], held_out.predictions[:, j], (row[j] for row in exact), strict=True
            )
        )
        for j in range(data.Y.shape[1])
    ]
    return np.array([float(mp.sqrt(square)) for square in squares])


@pytest.mark.parametrize("make", PREDICTORS.values(), ids=PREDICTORS)
@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    shape=st.sampled_from([(16, 3), (9, 6), (6, 9)]),
    seed=st.integers(0, 2**32 - 1),
    log_alpha=st.floats(-14, 2),
    weighted=st.booleans(),
)
def test_no_bound_is_below_an_error(make, kind, shape, seed, log_alpha, weighted):
    rng = np.random.default_rng(seed)
    X = kind(rng, *shape)
    Y = X @ rng.standard_normal((shape[1], 2)) + 10.0 ** rng.uniform(-6, 2) * rng.standard_normal(
        (shape[0], 2)
    )
    weights = 10.0 ** rng.uniform(-3, 3, shape[0]) if weighted else None
    data = Data(X, Y, weights)
    alphas = 10.0**log_alpha * float((X**2).sum()) * np.array([1.0, 10.0])
    rows = np.arange(shape[0])
    pairs = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    samples = data.cv_problem()
    scaled = alphas / samples.standardization.x_scale**2
    predictor = make(samples, data.splits(pairs), scaled)
    with mp.workdps(DIGITS):
        for split, index, held_out in predictor.predictions(scaled):
            if not np.isfinite(held_out.bounds).all():
                continue
            if predictor.n_splits == 1:
                squares = 0.0
                for i in rows:
                    one = type(held_out)(held_out.predictions[i : i + 1], held_out.bounds)
                    left_out = np.delete(rows, i), rows[i : i + 1]
                    squares = squares + error_norms(data, one, *left_out, alphas[index]) ** 2
                norms = np.sqrt(squares)
            else:
                norms = error_norms(data, held_out, *pairs[split], alphas[index])
            assert (norms <= held_out.bounds * (1 + 1e-9)).all()


def exact_score(scoring, data, parts, alpha):
    """Mean score of the splits by exact fits, as a number of mpmath; one target."""
    weights = np.ones(len(data.Y)) if data.weights is None else data.weights
    scores = []
    for train, test in parts:
        w = [mp.mpf(weight) for weight in weights[test].tolist()]
        y = [mp.mpf(value) for value in data.Y[test, 0].tolist()]
        P = [row[0] for row in exact_predictions(data, train, test, alpha)]
        loss = mp.fsum(a * (b - c) ** 2 for a, b, c in zip(w, y, P, strict=True))
        if scoring == "r2":
            mean = mp.fsum(a * b for a, b in zip(w, y, strict=True)) / mp.fsum(w)
            spread = mp.fsum(a * (b - mean) ** 2 for a, b in zip(w, y, strict=True))
            scores.append(1 - loss / spread)
        else:
            scores.append(-loss / mp.fsum(w))
    return mp.fsum(scores) / len(scores)


@pytest.mark.parametrize("scoring", ["r2", "neg_mean_squared_error"])
@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32 - 1),
    log_alpha=st.floats(-14, 14),
    weighted=st.booleans(),
)
def test_scores_are_within_their_bounds_of_exact_ones(scoring, kind, seed, log_alpha, weighted):
    rng = np.random.default_rng(seed)
    X = kind(rng, 15, 3)
    y = X @ rng.standard_normal(3) + 10.0 ** rng.uniform(-3, 2) * rng.standard_normal(15)
    weights = 10.0 ** rng.uniform(-2, 2, 15) if weighted else None
    rows = np.arange(15)
    parts = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    alphas = 10.0**log_alpha * float((X**2).sum()) * np.array([1.0, 10.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = RidgeCV(alphas, cv=parts, scoring=scoring).fit(X, y, weights)
    scores = model.cv_scores_
    with mp.workdps(DIGITS):
        for alpha, score, bound in zip(alphas, scores.mean_score, scores.score_error, strict=True):
            exact = exact_score(scoring, Data(X, y[:, None], weights), parts, alpha)
            error = abs(mp.mpf(float(score)) - exact)
            assert error <= float(bound) * (1 + 1e-9)


def test_most_bounds_are_finite():
    finite = []
    for seed, kind in enumerate(KINDS):
        X = kind(np.random.default_rng(seed), 30, 4)
        scores = RidgeCV([1e-6 * (X**2).sum(), (X**2).sum()], cv=3).fit(X, X[:, 1]).cv_scores_
        finite += list(np.isfinite(scores.score_error))
    assert np.mean(finite) > 0.9


# The bounds above are far larger than errors on most data, so that a lost term of a bound does not
# show. In the following tests the term in question is all that is left of a bound.


def test_rounding_of_a_cholesky_factor_and_of_its_solves_both_count():
    m = 9
    W, alphas, scales = np.ones((m, 1, 1)), np.ones(1), SystemScales(np.zeros(m), np.zeros(1), 0.0)
    errors = form_errors(CholeskyForm(np.zeros((m, m))), alphas, scales)
    energy, floors = errors.energy(W, np.linalg.norm(W, axis=0)), errors.floors
    # With A + alpha I = I, ||E w|| <= 2 noise sqrt(m) sum |w|.
    np.testing.assert_allclose(energy, 2 * sum_noise(m) * np.sqrt(m) * m, rtol=1e-9)
    np.testing.assert_allclose(floors, 1.0, rtol=1e-9)


def test_errors_of_singular_values_count_in_residuals_and_in_fits():
    form = SingularForm(np.array([3.0, 2.0]), np.eye(2), 5)
    W, alphas, scales = np.ones((2, 1, 1)), np.ones(1), SystemScales(np.ones(2), np.ones(1), 1e-10)
    errors = form_errors(form, alphas, scales)
    energy, floors = errors.energy(W, np.linalg.norm(W, axis=0)), errors.floors
    noise = 1e-10 + sum_noise(5, 2)
    # ||dX|| (||y|| / sqrt(floor) + ||w||), and the error of y.
    expected = noise * np.sqrt(2) * (1 / np.sqrt(2**2 + 1) + np.sqrt(2)) + noise
    np.testing.assert_allclose(energy, expected, rtol=1e-8)
    np.testing.assert_allclose(floors, 2**2 + 1, rtol=1e-8)


def test_the_error_of_means_is_relative_to_the_weight_of_all_rows():
    form, W, alphas = CholeskyForm(np.eye(3)), np.ones((3, 1, 1)), np.ones(1)
    scales = SystemScales(np.ones(3), np.full(1, 2.0), 1e-10)
    fit_errors = form_errors(form, alphas, scales)
    errors = leave_one_out_errors(form, fit_errors, W, alphas, scales, 5.0, 1 / 25)
    # ||x|| ||w|| + ||y|| for sums over all rows, divided by the root of their weight.
    expected = errors.noise * (np.sqrt(3) * np.sqrt(3) + 2) / 5
    np.testing.assert_allclose(errors.offsets, expected, rtol=1e-12)


def test_a_rough_kernel_widens_the_bounds_of_leave_one_out():
    data = DATA["wide"]()
    loo = _DualLeaveOneOut(data.cv_problem())
    n, rows = len(data.Y), slice(None)
    residuals, diagonals = np.zeros((n, 1, 1)), np.full((n, 1), 0.3)
    # A relative error of 1/5, so that 1/4 of the diagonal is unsure.
    floors = np.full(1, 5 * loo._system_error)
    bounds = loo._row_bounds(np.ones((1, 1)), floors, residuals, diagonals, diagonals, rows)
    np.testing.assert_allclose(bounds, np.sqrt(1.25 * 0.3) / (0.75 * 0.3), rtol=1e-9)


def test_the_mean_of_training_rows_is_bounded_where_it_is_not_known():
    data = DATA["wide"]()
    samples, rows = data.cv_problem(), np.arange(len(data.Y))
    far = np.linalg.norm(data.X - data.X.mean(axis=0), axis=1).argmax()
    for train in (rows[:12], np.array([far]), np.array([far, far, far])):
        splits = data.splits([(train, np.delete(rows, far)[-3:])])
        bounded = rows_of_split(samples, splits, 0, None, np.zeros(1))
        X = samples.design.map_rows(lambda block: block)
        assert np.linalg.norm(X[train].mean(axis=0)) <= bounded.x_shift <= 2 * samples.length


def test_leverages_of_repeated_test_rows_are_summed_once_per_repeat():
    data = DATA["tall"]()
    samples, p = data.cv_problem(), data.X.shape[1]
    test = np.array([1, 1, 1, 4])
    splits = data.splits([(np.arange(10, 40), test)])
    minorant = LowRankMinorant(np.eye(p)[:, :2], np.array([3.0, 2.0]), 0.0)
    (bound,) = leverage_bounds(samples, splits, [minorant], [np.zeros(p)])
    X = samples.design.map_rows(lambda block: block)[test]
    np.testing.assert_allclose(bound.total, (X**2).sum(), rtol=1e-9)
    np.testing.assert_allclose(bound.squares, (X[:, :2] ** 2).sum(axis=0), rtol=1e-9)


def test_a_score_of_1_is_rounded():
    scoring = R2Score(np.arange(20.0)[:, None], None, per_target=False)
    nothing = np.zeros((1, 1))
    assert scoring.score_errors(np.ones(1), nothing, nothing) >= 4 * EPS


def test_residuals_of_leave_one_out_are_rounded_relative_to_y_and_to_predictions():
    nothing = np.zeros((1, 1))
    errors = LeaveOneOutErrors(nothing, nothing, np.zeros(1), 0.0, 0.0)
    residuals, Y, divisors = np.full((1, 1, 1), 2.0), np.full((1, 1, 1), 3.0), np.full((1, 1), 0.25)
    bounds = errors.row_bounds(residuals, Y, np.ones((1, 1)), divisors, np.ones(1))
    # Those of y, of y minus the prediction, and of 1 - h.
    np.testing.assert_allclose(bounds, 4 * EPS * (3 + 2 * 0.25 + 2) / 0.25, rtol=1e-9)
