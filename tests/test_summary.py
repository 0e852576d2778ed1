"""Sums over rows that are gone: what is added and removed, and how far rounding can have got."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from ling.design import DenseStorage, Meter
from ling.errors import NonFiniteError, OptionError, ShapeError
from ling.solvers.gram_problem import RowsUnavailableError, build_gram_problem
from ling.solvers.sufficient_statistics import (
    SufficientStatistics,
    _blockwise_moments,
    sufficient_statistics_cost,
)
from tests.raising import raises
from tests.training import make_problem

STORAGES = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "csr": sparse.csr_array,
    "float32": lambda X: X.astype(np.float32),
}
every_storage = pytest.mark.parametrize("storage", STORAGES)
every_centring = pytest.mark.parametrize("centred", [True, False])
VECTORS = "mean", "gram", "cross", "squares"


def some(rng, n=40, p=3, t=2, offset=0.0):
    """X and Y whose numbers float32 holds, and weights, some of them 0."""
    X = (rng.standard_normal((n, p)) + offset).astype(np.float32).astype(np.float64)
    weights = rng.uniform(0, 2, n) * (rng.random(n) < 0.8)
    weights[0] = 1.0
    return X, rng.standard_normal((n, t)) + X[:, :1], weights


def exact(X, Y, weights, centred):
    """sum w (z - m)(z - m)' and m, in fractions."""
    Z = [[Fraction(float(v)) for v in row] for row in np.hstack([X, Y])]
    w = [Fraction(float(v)) for v in weights]
    q = len(Z[0])
    mean = [Fraction(0)] * q
    if centred:
        mean = [sum(a * z[j] for a, z in zip(w, Z, strict=True)) / sum(w) for j in range(q)]
    S = [
        [sum(a * (z[j] - mean[j]) * (z[k] - mean[k]) for a, z in zip(w, Z, strict=True))
         for k in range(q)]
        for j in range(q)
    ]  # fmt: skip
    return S, mean


def assert_within_its_rounding(summary, X, Y, weights):
    """The law that certificates rest on."""
    S, mean = exact(X, Y, weights, summary.centred)
    p, q = summary.n_features, len(mean)
    few = 2 * summary.noise
    for j in range(q):
        off = (
            Fraction(float(summary.mean[j])) + Fraction(float(summary.mean_correction[j])) - mean[j]
        )
        assert abs(float(off)) * summary.total_weight <= few * summary.mean_error_scale[j]
        for k in range(p):
            found = summary.gram[j, k] if j < p else summary.cross[k, j - p]
            room = few * np.sqrt(summary.gram_error_scale[j]) * np.sqrt(summary.gram_error_scale[k])
            assert abs(float(Fraction(float(found)) - S[j][k])) <= room
        if j >= p:
            found = Fraction(float(summary.squares[j - p]))
            assert abs(float(found - S[j][j])) <= few * summary.gram_error_scale[j]


def assert_same(a, b, rtol=1e-12):
    assert a.n_counted == b.n_counted
    assert a.total_weight == pytest.approx(b.total_weight, rel=rtol)
    for name in VECTORS:
        ours, theirs = getattr(a, name), getattr(b, name)
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


@every_storage
@every_centring
@pytest.mark.parametrize("weighted", [True, False])
def test_they_are_the_sums(rng, storage, centred, weighted):
    X, Y, weights = some(rng, 15)
    if not weighted:
        weights = None
    summary = SufficientStatistics.from_rows(STORAGES[storage](X), Y, weights, centred)
    weights = np.ones(len(X)) if weights is None else weights
    assert summary.total_weight == weights.sum()
    assert summary.n_counted == np.count_nonzero(weights)
    assert_within_its_rounding(summary, X, Y, weights)


@every_storage
@every_centring
def test_a_sum_of_batches_is_that_of_all_rows(rng, storage, centred):
    X, Y, weights = some(rng, offset=2.0)
    put = STORAGES[storage]
    whole = SufficientStatistics.from_rows(put(X), Y, weights, centred)
    a, b = (
        SufficientStatistics.from_rows(put(X[s]), Y[s], weights[s], centred)
        for s in (slice(9), slice(9, None))
    )
    assert_same(a + b, whole)
    assert_same(b + a, whole)
    assert_same(whole - b, a)
    assert_same(whole - a, b)


@every_centring
def test_sums_about_any_shift_give_the_same_statistics(rng, centred):
    X, Y, weights = some(rng)
    Z = np.hstack([X, Y])
    shift = np.array([0.5, -1.0, 2.0, 0.0, 1.0]) * centred
    D = Z - shift
    products = D.T @ (weights[:, None] * D)
    before = products.copy()
    statistics = SufficientStatistics.from_sums(
        float(weights.sum()),
        int(np.count_nonzero(weights)),
        centred,
        shift=shift,
        sums=weights @ D if centred else None,
        gram=products[:3, :3],
        cross=products[:3, 3:],
        squares=np.diag(products)[3:],
    )
    assert np.array_equal(products, before)
    assert_same(statistics, SufficientStatistics.from_rows(X, Y, weights, centred), 1e-13)
    assert_within_its_rounding(statistics, X, Y, weights)


@every_centring
def test_without_is_a_difference_without_checks(rng, centred):
    X, Y, weights = some(rng)
    whole, part = (
        SufficientStatistics.from_rows(X[s], Y[s], weights[s], centred)
        for s in (slice(None), slice(9))
    )
    ours, theirs = whole.without(part), whole - part
    assert ours.total_weight == theirs.total_weight
    assert all(np.array_equal(getattr(ours, name), getattr(theirs, name)) for name in VECTORS)
    known = whole.without(part, float(weights[9:].sum()))
    assert known.total_weight == weights[9:].sum()
    assert_within_its_rounding(known, X[9:], Y[9:], weights[9:])
    other = SufficientStatistics.from_rows(1e3 * X[:9], Y[:9], weights[:9], centred)
    assert (np.diag(whole.without(other).gram) < 0).any()
    with raises(OptionError, "remove"):
        _ = whole - other


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_are_summed(rng, weighted):
    X, Y, weights = some(rng)
    w = weights if weighted else np.ones(len(X))
    shift = X.mean(axis=0)
    found = _blockwise_moments(
        DenseStorage(X), shift, Y, weights if weighted else None, block_bytes=8 * 3 * 7
    )
    D = X - shift
    exact = D.T @ (w[:, None] * D), D.T @ (w[:, None] * Y), w @ D
    for actual, expected in zip(found, exact, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


def test_what_is_added_and_removed_is_not_changed(rng):
    X, Y, _ = some(rng)
    a, b = (
        SufficientStatistics.from_rows(X[:20], Y[:20]),
        SufficientStatistics.from_rows(X[20:], Y[20:]),
    )
    before = [getattr(s, name).copy() for s in (a, b) for name in VECTORS]
    _ = (a + b) - b
    after = [getattr(s, name) for s in (a, b) for name in VECTORS]
    assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))


def test_large_means_take_no_digits(rng):
    X, Y, weights = some(rng)
    parts = slice(9), slice(9, 10), slice(10, None)
    near, far = (
        [SufficientStatistics.from_rows(X[s] + offset, Y[s] + offset, weights[s]) for s in parts]
        for offset in (0.0, 2.0**20)  # that float32 and this offset hold exactly, float64 holds
    )
    near, far = near[0] + near[1] + near[2], far[0] + far[1] + far[2]
    assert np.allclose(far.gram, near.gram, rtol=0, atol=1e-13 * near.gram.max())
    # y is not float32, so it is rounded here; the sums are not to blame.
    assert np.allclose(far.cross, near.cross, rtol=0, atol=1e-9 * near.gram.max())


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    scales=st.lists(st.sampled_from([1e-6, 1.0, 1.0, 1e7]), min_size=5, max_size=5),
    offset=st.sampled_from([0.0, 1.0, 1e6]),
    centred=st.booleans(),
    weighted=st.booleans(),
    as_sparse=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_rounding_is_within_its_bounds(sizes, scales, offset, centred, weighted, as_sparse, seed):
    rng = np.random.default_rng(seed)
    batches = []
    for size, scale in zip(sizes, scales, strict=False):
        X, Y, weights = some(rng, size, 2, 1)
        weights = rng.uniform(0.1, 2, size) if weighted else np.ones(size)
        batches.append((X * scale + offset, Y * scale - offset, weights))
    kept = [i for i in range(len(sizes)) if rng.random() < 0.6] or [0]
    total = None
    put = sparse.csr_array if as_sparse else np.asarray
    made = [
        SufficientStatistics.from_rows(put(X), Y, weights, centred) for X, Y, weights in batches
    ]
    for i in rng.permutation(len(made)):
        total = made[i] if total is None else total + made[i]
    for i in set(range(len(made))) - set(kept):
        total = total - made[i]
    rows = (np.concatenate(part) for part in zip(*(batches[i] for i in kept), strict=True))
    assert_within_its_rounding(total, *rows)


def test_what_was_never_there_cannot_be_removed(rng):
    X, Y, _ = some(rng, 20)
    all_rows, ones = SufficientStatistics.from_rows(X, Y), np.ones(5)
    with raises(OptionError, "remove", mentions="25 samples, but only 20"):
        _ = all_rows - SufficientStatistics.from_rows(*(np.vstack([A, A[:5]]) for A in (X, Y)))
    with raises(OptionError, "remove", mentions="all 20 samples"):
        _ = all_rows - SufficientStatistics.from_rows(X, Y)
    with raises(OptionError, "remove", mentions="weight of 50"):
        _ = all_rows - SufficientStatistics.from_rows(X[:5], Y[:5], 10 * ones)
    with raises(OptionError, "remove", mentions="column 1 of X"):
        _ = all_rows - SufficientStatistics.from_rows(X[:5] * [1, 1e3, 1], Y[:5])
    with raises(OptionError, "remove", mentions="target 1 of y"):
        _ = all_rows - SufficientStatistics.from_rows(X[:5], Y[:5] * [1, 1e3])


def test_other_targets_and_another_centre_are_refused(rng):
    X, Y, _ = some(rng)
    with raises(ShapeError, "y", mentions="1 targets in this batch and had 2"):
        _ = SufficientStatistics.from_rows(X, Y) + SufficientStatistics.from_rows(X, Y[:, :1])
    with raises(OptionError, "fit_intercept", change=("fit_intercept", True)):
        _ = SufficientStatistics.from_rows(X, Y) + SufficientStatistics.from_rows(
            X, Y, centred=False
        )


@pytest.mark.parametrize("storage", ["C", "csr"])
def test_numbers_out_of_range_are_refused(rng, storage):
    X, Y, _ = some(rng)
    put = STORAGES[storage]
    for bad in (np.nan, np.inf, 1e160):
        X[3, 1] = bad
        with raises(NonFiniteError, "X", row=3, column=1):
            SufficientStatistics.from_rows(put(X), Y)
    X[3, 1] = 1.0
    with raises(NonFiniteError, "y", mentions="divide"):
        SufficientStatistics.from_rows(put(X), Y * 1e160)
    with raises(NonFiniteError, "X", mentions="multiply"):
        SufficientStatistics.from_rows(put(X * 1e-170), Y)
    with raises(NonFiniteError, "y", mentions="multiply"):
        SufficientStatistics.from_rows(put(X), Y * 1e-170)
    heavy, far = np.full(1, 1e10), np.full((1, 3), 1.2e149)
    a, b = (SufficientStatistics.from_rows(put(sign * far), Y[:1], heavy) for sign in (1, -1))
    with raises(NonFiniteError, "X", mentions="in all batches"):
        _ = a + b


def test_the_cost_is_two_passes(rng):
    X, _, _ = some(rng)
    cost = sufficient_statistics_cost(X, 2)
    assert cost.passes == 2
    assert cost.flops >= 40 * 3 * 4


# The problem of a summary.


def both(rng, alpha, fit_intercept=True, **options):
    """The problem from rows, and from sums of two batches."""
    X, Y, weights = some(rng, offset=1.0)
    alphas = np.full(2, alpha)
    rows, standardization = make_problem(X, Y, alphas, weights, fit_intercept)
    parts = [
        SufficientStatistics.from_rows(X[s], Y[s], weights[s], fit_intercept)
        for s in (slice(25), slice(25, 40))
    ]
    problem, other = build_gram_problem(parts[0] + parts[1], alphas, Meter(), np.float64, **options)
    return (rows, standardization), (problem, other)


@every_centring
def test_the_problem_is_that_of_the_rows(rng, centred):
    (rows, standardization), (sums, other) = both(rng, 0.3, centred)
    W = rng.standard_normal((3, 2))
    for name in ("moments", "alphas", "column_norms", "target_norms", "error_scale"):
        assert np.allclose(getattr(sums, name), getattr(rows, name), rtol=1e-12)
    assert np.allclose(sums.gram(), rows.gram(), rtol=1e-12, atol=1e-12)
    (gradient, bounds), (expected, norms) = sums.gradient(W), rows.gradient(W)
    assert np.allclose(gradient, expected, rtol=1e-11)
    assert (bounds >= norms).all()
    assert np.allclose(sums.residual_squares(W), norms**2, rtol=1e-11)
    assert np.allclose(other.intercept(W), standardization.intercept(W))
    assert sums.design.cost.passes == 0


def test_rows_can_be_made(rng):
    _, (problem, _) = both(rng, 0.3, with_rows=True)
    X = problem.design.take(np.arange(3))
    assert np.allclose(X.T @ X, problem.gram())
    assert np.allclose(X.T @ problem.targets, problem.moments)


def test_rows_that_were_not_made_are_not_there(rng):
    _, (problem, _) = both(rng, 0.3)
    with pytest.raises(RowsUnavailableError):
        problem.design.take(np.arange(3))
    for ask in (problem.row_gram, lambda: problem.design.matmat(np.ones(3))):
        with pytest.raises(RowsUnavailableError):
            ask()


@pytest.mark.parametrize("size", [1e-90, 1e-30, 1e30, 1e100])
def test_units_keep_everything_in_range(rng, size):
    X, Y, _ = some(rng)
    summary = SufficientStatistics.from_rows(X * size, Y / size)
    problem, standardization = build_gram_problem(summary, np.full(2, size**2), Meter(), np.float64)
    assert 1e-2 < problem.gram().max() < 1e3
    assert 1e-2 < problem.moments.max() < 1e3
    assert problem.alphas == pytest.approx(np.full(2, (size / standardization.x_scale) ** 2))


def test_what_varies_too_little_is_refused(rng):
    X, Y, _ = some(rng)
    for name, summary in {
        "X": SufficientStatistics.from_rows(X * 1e-120, Y),
        "y": SufficientStatistics.from_rows(X, Y * [1, 1e-120]),
    }.items():
        with raises(NonFiniteError, name):
            build_gram_problem(summary, np.ones(2), Meter(), np.float64)
