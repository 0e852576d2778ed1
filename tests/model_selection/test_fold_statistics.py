"""Statistics of folds are additive: all rows are the sum of the folds, training rows the rest."""

from functools import reduce
from operator import add

import numpy as np
import pytest

from ling.design.chunked import ChunkedStorage
from ling.design.row_source import ArraySource
from ling.model_selection import DirectFolds
from ling.model_selection.direct_folds import has_lost_digits
from ling.model_selection.fold_statistics import (
    fold_statistics,
    statistics_of_all,
    statistics_of_rows,
    training_weight,
)
from tests.model_selection.problems import DATA, SPLITTERS, Data, splits_of


def out_of_core(data):
    return Data(ChunkedStorage(ArraySource(data.X)), data.Y, data.weights, data.fit_intercept)


TALL = {name: make for name, make in DATA.items() if "wide" not in name} | {
    "out of core": lambda: out_of_core(DATA["tall"]()),
    "out of core, weighted": lambda: out_of_core(DATA["weighted"]()),
}
every_tall_data = pytest.mark.parametrize("data", TALL.values(), ids=TALL)


def heavy_fold(size):
    """60 rows, of which the first 10 are `size` times as large; these are held out."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    X[:10] *= size
    data = Data(X, X @ rng.standard_normal((4, 1)) + rng.standard_normal((60, 1)))
    return data.cv_problem(), data.splits([(np.arange(10, 60), np.arange(10))])


def assert_close(a, b, samples, rtol):
    """The same sums, up to `rtol` of the spread of x and y, and to rounding of x and y."""
    assert a.n_counted == b.n_counted
    assert a.total_weight == pytest.approx(b.total_weight, rel=1e-14)
    everything = statistics_of_all(samples)
    spread = np.sqrt(everything.diagonal / everything.total_weight)
    raw = np.concatenate([samples.standardization.x_mean, samples.standardization.y_mean])
    p, room = len(a.gram), rtol * spread + 1e-15 * np.abs(raw)
    assert (np.abs(a.mean - b.mean) <= room).all()
    products = everything.total_weight * np.outer(spread, room)
    products += products.T
    assert (np.abs(a.gram - b.gram) <= products[:p, :p]).all()
    assert (np.abs(a.cross - b.cross) <= products[:p, p:]).all()
    assert (np.abs(a.squares - b.squares) <= np.diag(products)[p:]).all()


@every_tall_data
@pytest.mark.parametrize("splitter", ["consecutive", "shuffled", "groups", "one sample each"])
def test_folds_add_up_to_all_rows(data, splitter):
    data = data()
    samples, splits = data.cv_problem(), data.splits(splits_of(SPLITTERS[splitter], data))
    folds = fold_statistics(samples, splits, range(len(splits))).values()
    total = reduce(add, [fold for fold in folds if fold.total_weight > 0])
    assert_close(total, statistics_of_all(samples), samples, 1e-14)


@every_tall_data
def test_one_pass_gives_every_fold(data):
    data = data()
    samples, splits = data.cv_problem(), data.splits(splits_of(SPLITTERS["shuffled"], data))
    for number, statistics in fold_statistics(samples, splits, range(1, 4)).items():
        summed = statistics_of_rows(samples, splits.test_rows(number))
        assert_close(statistics, summed, samples, 1e-14)
    assert number == 3


@every_tall_data
@pytest.mark.parametrize("splitter", ["consecutive", "shuffled", "random", "one sample each"])
def test_all_rows_without_some_are_the_others(data, splitter):
    data = data()
    samples, splits = data.cv_problem(), data.splits(splits_of(SPLITTERS[splitter], data))
    for number in range(len(splits)):
        held_out = statistics_of_rows(samples, splits.held_out_rows(number))
        weight = training_weight(samples, splits, number)
        remaining = statistics_of_all(samples).without(held_out, weight)
        train = splits.train_rows(number)
        summed = statistics_of_rows(samples, train, about_mean=True)
        assert_close(remaining, summed, samples, 1e-14)


def test_a_row_that_is_trained_on_twice_counts_twice():
    samples = DATA["weighted"]().cv_problem()
    once = statistics_of_rows(samples, np.arange(20), about_mean=True)
    twice = statistics_of_rows(samples, np.repeat(np.arange(20), 2), about_mean=True)
    assert twice.total_weight == pytest.approx(2 * once.total_weight)
    assert twice.n_counted == 2 * once.n_counted
    assert np.allclose(twice.mean, once.mean, rtol=1e-13)
    assert np.allclose(twice.gram, 2 * once.gram, rtol=1e-12)


def test_rows_of_weight_0_can_be_removed():
    data = DATA["weighted"]()
    samples = data.cv_problem()
    everything = statistics_of_all(samples)
    none = statistics_of_rows(samples, np.flatnonzero(data.weights == 0))
    assert none.total_weight == none.n_counted == 0
    assert everything.without(none) is everything


def test_a_single_remaining_row_has_no_products():
    samples = DATA["tall"]().cv_problem()
    held_out = statistics_of_rows(samples, np.arange(1, samples.shape[0]))
    remaining = statistics_of_all(samples).without(held_out)
    assert remaining.n_counted == 1
    assert not remaining.gram.any()
    assert not remaining.cross.any()
    row = samples.design.take(np.array([0]))[0]
    assert np.allclose(remaining.x_mean, row, rtol=1e-12, atol=1e-12)


def test_statistics_do_not_change_the_gram_matrix_of_all_rows():
    data = DATA["tall"]()
    samples, splits = data.cv_problem(), data.splits(splits_of(SPLITTERS["shuffled"], data))
    before = samples.problem.gram().copy()
    list(DirectFolds(samples, splits).predictions(np.array([1.0])))
    assert np.array_equal(samples.problem.gram(), before)


def test_an_exact_total_weight_keeps_the_mean_of_a_light_rest():
    data = DATA["tall"]()
    n = len(data.Y)
    weights = np.where(np.arange(n) < 10, 1e14, 1.0 / 7)
    samples = Data(data.X, data.Y, weights).cv_problem()
    held_out, train = statistics_of_rows(samples, np.arange(10)), np.arange(10, n)
    by_difference = statistics_of_all(samples).without(held_out)
    exact = statistics_of_all(samples).without(held_out, float(weights[train].sum()))
    assert exact.total_weight == pytest.approx((n - 10) / 7, rel=1e-15)
    assert by_difference.total_weight != pytest.approx((n - 10) / 7, rel=1e-3)


@pytest.mark.parametrize("size", [1e4, 1e7])
def test_training_rows_are_summed_where_a_difference_loses_digits(size):
    samples, splits = heavy_fold(size)
    folds = DirectFolds(samples, splits)
    (remaining, _), train = folds._remaining_statistics(0), splits.train_rows(0)
    assert has_lost_digits(remaining, 1e-3)
    summed = statistics_of_rows(samples, train, about_mean=True)
    assert not np.allclose(remaining.gram, summed.gram, rtol=1e-11)
    training, held_out = folds._training_statistics(0, 1e-3)
    assert held_out is None  # they were not summed
    assert np.array_equal(training.gram, summed.gram)


def test_a_large_alpha_needs_no_more_digits():
    samples, splits = heavy_fold(1e4)
    remaining, _ = DirectFolds(samples, splits)._remaining_statistics(0)
    assert has_lost_digits(remaining, 1.0)
    assert not has_lost_digits(remaining, 1e6)


@every_tall_data
@pytest.mark.parametrize("splitter", ["consecutive", "shuffled", "one sample each"])
def test_ordinary_folds_lose_no_digits(data, splitter):
    data = data()
    samples, splits = data.cv_problem(), data.splits(splits_of(SPLITTERS[splitter], data))
    folds = DirectFolds(samples, splits)
    for number in range(len(splits)):
        remaining, _ = folds._remaining_statistics(number)
        assert not has_lost_digits(remaining, 1e-8)


@pytest.mark.parametrize("mean", [0.0, 1e6])
@pytest.mark.parametrize("p", [5, 55, 79])
def test_folds_lose_no_digits_however_large_the_mean_and_p(mean, p):
    rng = np.random.default_rng(p)
    data = Data(rng.standard_normal((80, p)) + mean, rng.standard_normal((80, 1)) - mean)
    splits = data.splits(splits_of(SPLITTERS["shuffled"], data))
    folds = DirectFolds(data.cv_problem(), splits)
    for number in range(len(splits)):
        remaining, _ = folds._remaining_statistics(number)
        assert not has_lost_digits(remaining, 1e-8)


def test_half_of_all_rows_or_repeated_rows_are_not_removed():
    data = DATA["tall"]()
    n = len(data.Y)
    rows = np.arange(n)
    half, repeated = (rows[n // 2 :], rows[: n // 2]), (np.sort(rows % (n - 5)), rows[-5:])
    folds = DirectFolds(data.cv_problem(), data.splits([half, repeated]))
    assert folds._remaining_statistics(0) is None
    assert folds._remaining_statistics(1) is None
