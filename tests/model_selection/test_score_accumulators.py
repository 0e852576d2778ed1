"""Score accumulators: their sums are those of all samples, however the rows are divided."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ling.design.rows import take_rows
from ling.linalg.cholesky import symmetric_form
from ling.model_selection.fold_errors import LeaveOneOutErrors
from ling.model_selection.score_accumulators import (
    MARGIN_EDGES,
    Accuracy,
    FoldScores,
    GCVScores,
    LeaveOneOutScores,
    SquaredError,
)
from ling.model_selection.scoring import MeanScore
from ling.model_selection.squared_error_scores import NegMeanSquaredError

N, P, T = 24, 4, 2
ALPHAS = np.array([0.1, 1.0, 30.0])
LOSSES = {
    "squared error": lambda Y, w: SquaredError(y=Y, per_target=False, weights=w),
    "squared error of each target": lambda Y, w: SquaredError(y=Y, per_target=True, weights=w),
    "accuracy": lambda Y, w: Accuracy(Y=np.sign(Y), weights=w),
}
every_loss = pytest.mark.parametrize("make_loss", LOSSES.values(), ids=LOSSES)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, P))
Y = X @ RNG.standard_normal((P, T)) + RNG.standard_normal((N, T))
Y_MEAN, Y_SCALE = np.array([3.0, -1.0]), np.array([2.0, 0.5])
Y_IN_DATA_UNITS = Y * Y_SCALE + Y_MEAN
WEIGHTS = RNG.uniform(0.2, 3.0, N)
COEF = RNG.standard_normal((2, P, len(ALPHAS) * T))
INTERCEPTS = RNG.standard_normal((2, len(ALPHAS) * T))
ERRORS = LeaveOneOutErrors(
    energy=RNG.uniform(1e-6, 1e-5, (len(ALPHAS), T)),
    offsets=np.zeros((len(ALPHAS), T)),
    form_errors=np.array([1e-5, 1e-6, 0.0]),
    intercept_leverage=1e-4,
    noise=1e-15,
)


def make_accumulator(kind, sample_loss):
    shared = {
        "sample_loss": sample_loss, "y_mean": Y_MEAN, "y_scale": Y_SCALE, "n_alphas": len(ALPHAS),
    }  # fmt: skip
    if kind == "folds":
        members = np.arange(N, dtype=np.int16) % 3 - 1  # a third of the rows is never tested
        return FoldScores(**shared, test_membership=members, W=COEF, intercepts=INTERCEPTS)
    if kind == "overlapping folds":
        members = np.stack([np.arange(N) % 2 == 0, np.arange(N) % 3 == 0], axis=1)
        return FoldScores(**shared, test_membership=members, W=COEF, intercepts=INTERCEPTS)
    if kind == "gcv":
        divisors = np.array([0.5, 0.7, 0.9])
        return GCVScores(
            **shared, Y=Y, W=COEF[0], intercepts=INTERCEPTS[0], residual_divisors=divisors
        )
    form = symmetric_form(X.T @ (WEIGHTS[:, None] * X), float(ALPHAS.min()))
    return LeaveOneOutScores(
        **shared, form=form, Q=form.Q, W=COEF[0], alphas=ALPHAS, intercept_leverage=0.01, Y=Y,
        weights=WEIGHTS, errors=ERRORS,
    )  # fmt: skip


def loss_values(make_loss, predictions, weights):
    """Values of each sample (n, n_alphas, s), from the definitions of the losses."""
    loss = make_loss(Y_IN_DATA_UNITS, None)
    if isinstance(loss, Accuracy):
        hits = predictions.argmax(axis=2) == np.sign(Y_IN_DATA_UNITS).argmax(axis=1)[:, None]
        return hits[:, :, None].astype(float)
    squares = (predictions - Y_IN_DATA_UNITS[:, None]) ** 2
    return squares if loss.per_target else squares.mean(axis=2, keepdims=True)


@every_loss
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal weights", "weights"])
@pytest.mark.parametrize("kind", ["folds", "overlapping folds"])
def test_folds_score_their_test_rows(make_loss, weights, kind):
    scores = make_accumulator(kind, make_loss(Y_IN_DATA_UNITS, weights))
    sums, _ = scores(X)
    w = np.ones(N) if weights is None else weights
    for number in range(2):
        members = scores.test_membership
        rows = members == number if members.ndim == 1 else members[:, number]
        P_centred = (X @ COEF[number] + INTERCEPTS[number]).reshape(N, len(ALPHAS), T)
        values = loss_values(make_loss, P_centred * Y_SCALE + Y_MEAN, w)[rows]
        weighted = w[rows, None, None] * values
        expected = [weighted, weighted**2, w[rows, None, None] * weighted]
        np.testing.assert_allclose(
            sums[number], np.stack([part.sum(axis=0) for part in expected], axis=-1), rtol=1e-12
        )


def test_leave_one_out_divides_residuals_by_one_minus_leverage():
    scores = make_accumulator("leave-one-out", LOSSES["squared error"](Y_IN_DATA_UNITS, WEIGHTS))
    gram = X.T @ (WEIGHTS[:, None] * X)
    sums, _, _ = scores(X)
    Z = X @ scores.Q
    for at, alpha in enumerate(ALPHAS):
        inverse = np.linalg.inv(gram + alpha * np.eye(P))
        leverages = WEIGHTS * (np.einsum("ip,pq,iq->i", X, inverse, X) + 0.01)
        residuals = (Y - Z @ COEF[0][:, at * T : (at + 1) * T]) / (1 - leverages)[:, None]
        squares = ((residuals * Y_SCALE) ** 2).mean(axis=1)
        np.testing.assert_allclose(sums[0, at, 0, 0], WEIGHTS @ squares, rtol=1e-10)


def test_gcv_divides_residuals_by_their_share():
    scores = make_accumulator("gcv", LOSSES["squared error of each target"](Y_IN_DATA_UNITS, None))
    sums, _ = scores(X)
    fitted = (X @ COEF[0] + INTERCEPTS[0]).reshape(N, len(ALPHAS), T)
    residuals = (Y[:, None] - fitted) / scores.residual_divisors[:, None] * Y_SCALE
    np.testing.assert_allclose(sums[0, :, :, 0], (residuals**2).sum(axis=0), rtol=1e-12)


@every_loss
@pytest.mark.parametrize("kind", ["folds", "overlapping folds", "gcv", "leave-one-out"])
@given(cuts=st.lists(st.integers(0, N), max_size=4))
@settings(max_examples=10, deadline=None)
def test_parts_add_up_to_the_whole(make_loss, kind, cuts):
    scores = make_accumulator(kind, make_loss(Y_IN_DATA_UNITS, WEIGHTS))
    bounds = [0, *sorted(cuts), N]
    parts = [take_rows(scores, slice(a, b))(X[a:b]) for a, b in pairwise(bounds)]
    for added, whole in zip(zip(*parts, strict=True), scores(X), strict=True):
        np.testing.assert_allclose(sum(added), whole, rtol=1e-12, atol=1e-12)


def test_accuracy_of_one_column_is_that_of_signs():
    loss = Accuracy(Y=np.array([[1.0], [-1.0], [1.0]]), weights=None)
    decisions = np.array([[[0.2]], [[0.3]], [[-1.0]]])
    np.testing.assert_array_equal(loss(decisions)[:, 0, 0], [1, 0, 0])


@pytest.mark.parametrize("t", [1, 3])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal weights", "weights"])
def test_margins_are_the_distances_to_another_class(t, weights):
    decisions = np.random.default_rng(1).standard_normal((N, 2, t)) * 1e-3
    loss = Accuracy(Y=np.ones((N, t)), weights=weights)
    found = loss.margin_weights(decisions)
    ordered = np.sort(decisions, axis=2)
    margins = np.abs(decisions[:, :, 0])
    if t > 1:  # the nearest point at which the two largest values are equal
        margins = (ordered[:, :, -1] - ordered[:, :, -2]) / np.sqrt(2)
    w = np.ones(N) if weights is None else weights
    edges = np.append(MARGIN_EDGES, np.inf)
    for fit in range(2):
        expected, _ = np.histogram(margins[:, fit], edges, weights=w)
        np.testing.assert_allclose(found[fit], expected, rtol=1e-12, atol=1e-12)


def test_losses_without_jumps_have_no_margins():
    loss = SquaredError(y=Y, per_target=False, weights=None)
    assert loss.margin_weights(np.zeros((N, 5, T))).shape == (5, 0)


def test_leave_one_out_adds_up_the_squared_error_bounds_of_its_rows():
    scores = make_accumulator("leave-one-out", LOSSES["squared error"](Y_IN_DATA_UNITS, WEIGHTS))
    squares = scores(X)[2]
    gram = X.T @ (WEIGHTS[:, None] * X)
    for at, alpha in enumerate(ALPHAS):
        inverse = np.linalg.inv(gram + alpha * np.eye(P))
        forms = np.einsum("ip,pq,iq->i", X, inverse, X)
        divisors = (1 - WEIGHTS * (forms + 0.01))[:, None]
        slack = (WEIGHTS * forms * ERRORS.form_errors[at])[:, None]
        residuals = (Y - X @ scores.Q @ COEF[0][:, at * T : (at + 1) * T]) / divisors
        roots = np.sqrt(forms * (1 + ERRORS.form_errors[at]))[:, None]
        bounds = (roots * ERRORS.energy[at] + np.abs(residuals) * slack) / (divisors - slack)
        np.testing.assert_allclose(squares[0, at], WEIGHTS @ bounds**2, rtol=1e-6)


def test_the_standard_error_of_a_mean_is_that_of_a_sample():
    values = (np.arange(N) % 3 == 0).astype(float)  # 1 where the class is right
    loss = Accuracy(Y=np.ones((N, 1)), weights=None)
    score, error = MeanScore(loss).score_with_std_error(2 * values[:, None, None] - 1)
    np.testing.assert_allclose(score, values.mean(), rtol=1e-12)
    np.testing.assert_allclose(error, values.std(ddof=1) / np.sqrt(N), rtol=1e-12)


def test_standard_errors_do_not_overflow():
    scale = 2.0**340
    y = np.array([[1.0], [5.0], [7.0]])  # the second squared error is the mean of all
    (_, error), (_, large_error) = (
        NegMeanSquaredError(unit * y, None).score_with_std_error(0 * y[:, None])
        for unit in (1.0, scale)
    )
    np.testing.assert_allclose(error, np.sqrt(192))  # deviations of 24, 0 and -24
    np.testing.assert_allclose(large_error, scale**2 * error)
