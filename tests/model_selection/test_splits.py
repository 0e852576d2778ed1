"""Splits are kept small, whatever they were given as."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold

from ling.errors import OptionError
from ling.model_selection import Splits
from tests.model_selection.problems import SPLITTERS
from tests.raising import raises

N = 29


@pytest.mark.parametrize("name", SPLITTERS)
def test_rows_come_back_as_they_went_in(name):
    groups = np.arange(N) % 7 if name == "groups" else None
    pairs = list(SPLITTERS[name].split(np.zeros((N, 1)), None, groups))
    splits = Splits.from_pairs(iter(pairs), N)
    assert len(splits) == len(pairs)
    for number, (train, test) in enumerate(pairs):
        assert np.array_equal(splits.train_rows(number), np.sort(train))
        assert np.array_equal(splits.test_rows(number), np.sort(test))
    small = name not in ("time series", "repeated", "random")
    assert (splits.test_fold is not None) == small
    assert splits.training_membership.ndim == splits.test_membership.ndim == (1 if small else 2)


@given(n=st.integers(2, 60), count=st.integers(2, 60))
def test_folds_in_turn_are_scikit_learns(n, count):
    count = min(n, count)
    found = Splits.consecutive_folds(n, count)
    for number, (train, test) in enumerate(KFold(count).split(np.zeros((n, 1)))):
        assert np.array_equal(found.train_rows(number), train)
        assert np.array_equal(found.test_rows(number), test)


def test_rows_left_out_are_known_unless_others_are_there_twice():
    splits = Splits.from_pairs([([0, 1, 4], [2]), ([0, 0, 1, 4], [3]), ([0, 1, 2, 3], [4])], 5)
    assert splits.held_out_rows(0).tolist() == [2, 3]
    assert splits.held_out_rows(1) is None
    assert splits.held_out_rows(2).tolist() == [4]
    assert splits.training_membership[:, 1].tolist() == [2, 1, 0, 0, 1]


def test_the_first_splits_are_not_lost_when_a_later_one_is_of_another_kind():
    pairs = [([2, 3], [0, 1]), ([0, 1], [2, 3]), ([0], [1])]
    splits = Splits.from_pairs(pairs, 4)
    found = [(splits.train_rows(k).tolist(), splits.test_rows(k).tolist()) for k in range(3)]
    assert found == pairs


def test_masks_and_numbers_from_the_end_are_understood():
    splits = Splits.from_pairs([(np.array([True, True, False]), [-1])], 3)
    assert splits.train_rows(0).tolist() == [0, 1]
    assert splits.test_rows(0).tolist() == [2]


@pytest.mark.parametrize("pairs", [[], [([0], [])], [([0], [7])], [([0], [0.5])]])
def test_what_is_no_split_is_refused(pairs):
    with raises(OptionError, "cv", mentions="split 0" if pairs else None):
        Splits.from_pairs(pairs, 3)


def test_splits_may_be_many():
    n = 2**15 + 5
    splits = Splits.consecutive_folds(n, n)
    assert splits.test_rows(n - 1).tolist() == [n - 1]
    assert len(splits.train_rows(n - 1)) == n - 1
    rows = np.arange(n)
    pairs = ((np.delete(rows, row), [row]) for row in range(2**15 - 2, 2**15 + 2))
    found = Splits.from_pairs(pairs, n)
    assert found.test_fold is not None
