"""Training and test rows of cross-validation splits, in a compact form for many rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ling.errors import OptionError

RowIndices: TypeAlias = NDArray[np.intp]
# Number of rows that are processed at a time, to bound temporary memory.
ROWS_PER_SLICE = 2**14
# Value of `test_fold` for a row that no split tests.
NOT_TESTED = -1


@dataclass(frozen=True, eq=False)
class Splits:
    """Training and test rows of every split.

    If every row is tested by at most one split and is in the training sets of all others,
    `test_fold`, of shape (n,), holds the number of the split that tests it. Otherwise `test_fold`
    is None, and `train_test_pairs` holds the sorted row indices of each split. A row that is
    trained on twice, as in a bootstrap, occurs twice.
    """

    n_samples: int
    n_splits: int
    test_fold: NDArray[Any] | None = None
    train_test_pairs: tuple[tuple[RowIndices, RowIndices], ...] = ()

    @classmethod
    def from_pairs(cls, pairs: Iterable[Any], n: int) -> Splits:
        """Splits from (train, test) pairs of index arrays or boolean masks over `n` rows.

        The pairs are consumed one at a time.
        """
        test_fold = np.full(n, NOT_TESTED, np.int16)
        train_test_pairs: list[tuple[RowIndices, RowIndices]] | None = None
        number = -1
        for number, pair in enumerate(pairs):
            train, test = (_sort_rows(_to_indices(rows, n, number)) for rows in pair)
            if not len(test):
                raise OptionError(
                    "cv", f"split {number} of `cv` has no test samples", "pass larger folds"
                )
            if number > np.iinfo(test_fold.dtype).max:
                test_fold = test_fold.astype(np.int32)
            if train_test_pairs is None and not _is_partition_fold(test_fold, train, test):
                earlier_splits = cls(n, number, test_fold)
                train_test_pairs = [
                    (earlier_splits.train_rows(k), earlier_splits.test_rows(k))
                    for k in range(number)
                ]
            if train_test_pairs is None:
                test_fold[test] = number
            else:
                train_test_pairs.append((train, test))
        if number < 0:
            raise OptionError("cv", "gives no splits", "pass at least one (train, test) pair")
        if train_test_pairs is not None:
            return cls(n, number + 1, None, tuple(train_test_pairs))
        return cls(n, number + 1, test_fold)

    @classmethod
    def consecutive_folds(cls, n: int, count: int) -> Splits:
        """`count` folds of consecutive rows; the first n % count folds are longer by one row."""
        lengths = np.full(count, n // count)
        lengths[: n % count] += 1
        numbers = np.arange(count, dtype=np.int16 if count <= 2**15 else np.int32)
        return cls(n, count, np.repeat(numbers, lengths))

    @classmethod
    def all_training(cls, n: int) -> Splits:
        """A single split that trains on all rows and tests none."""
        return cls(n, 1, np.broadcast_to(np.int16(NOT_TESTED), (n,)))

    @property
    def is_all_training(self) -> bool:
        """True if this was created by `all_training`."""
        return self.test_fold is not None and self.test_fold.strides == (0,)

    def __len__(self) -> int:
        return self.n_splits

    def test_rows(self, number: int) -> RowIndices:
        """Sorted indices of the test rows of split `number`."""
        if self.test_fold is None:
            return self.train_test_pairs[number][1]
        return np.flatnonzero(self.test_fold == number)

    def train_rows(self, number: int) -> RowIndices:
        """Sorted indices of the training rows of split `number`."""
        if self.test_fold is None:
            return self.train_test_pairs[number][0]
        return np.flatnonzero(self.test_fold != number)

    def held_out_rows(self, number: int) -> RowIndices | None:
        """Indices of the rows that split `number` does not train on.

        None if its training set contains a row more than once.
        """
        if self.test_fold is not None:
            return self.test_rows(number)
        is_held_out = np.ones(self.n_samples, dtype=bool)
        train = self.train_test_pairs[number][0]
        is_held_out[train] = False
        held_out = np.flatnonzero(is_held_out)
        return held_out if len(held_out) + len(train) == self.n_samples else None

    @cached_property
    def training_membership(self) -> NDArray[Any]:
        """Training membership of every row, as small integers.

        Shape (n,): the split that holds the row out, all others train on it. Or shape
        (n, n_splits): the multiplicity of the row in each training set.
        """
        if self.test_fold is not None:
            return self.test_fold
        multiplicity = np.zeros((self.n_samples, self.n_splits), np.uint8)
        for number, (train, _) in enumerate(self.train_test_pairs):
            counts = np.bincount(train, minlength=self.n_samples)
            if counts.max() > np.iinfo(multiplicity.dtype).max:
                multiplicity = multiplicity.astype(np.int64)
            multiplicity[:, number] = counts
        return multiplicity

    @cached_property
    def test_membership(self) -> NDArray[Any]:
        """Test membership of every row.

        Shape (n,): the split that tests the row. Or shape (n, n_splits), boolean: True for the
        splits that test it.
        """
        if self.test_fold is not None:
            return self.test_fold
        is_tested = np.zeros((self.n_samples, self.n_splits), bool)
        for number, (_, test) in enumerate(self.train_test_pairs):
            is_tested[test, number] = True
        return is_tested

    def tests_held_out_rows(self, number: int) -> bool:
        """True if split `number` tests rows that it does not train on, each once."""
        if self.test_fold is not None:
            return True
        train, test = self.train_rows(number), self.test_rows(number)
        return len(np.unique(test)) == len(test) and not np.isin(test, train).any()

    @cached_property
    def has_repeated_test_rows(self) -> bool:
        """True if the test set of a split contains a row more than once."""
        return any((test[1:] == test[:-1]).any() for _, test in self.train_test_pairs)


def _is_partition_fold(test_fold: NDArray[Any], train: RowIndices, test: RowIndices) -> bool:
    """True if no earlier split tests these rows and all other rows are trained on exactly once."""
    n = len(test_fold)
    if len(train) + len(test) != n:
        return False
    if not (
        _is_strictly_increasing(train)
        and _is_strictly_increasing(test)
        and (test_fold[test] == NOT_TESTED).all()
    ):
        return False
    is_trained = np.zeros(n, dtype=bool)
    is_trained[train] = True
    return not is_trained[test].any()


def _is_strictly_increasing(rows: RowIndices) -> bool:
    return bool((rows[1:] > rows[:-1]).all())


def _sort_rows(rows: RowIndices) -> RowIndices:
    """`rows` in increasing order, so that data on disk is read once from start to end."""
    return np.sort(rows) if (rows[1:] < rows[:-1]).any() else rows


def _to_indices(rows: Any, n: int, number: int) -> RowIndices:
    rows = np.asarray(rows)
    if not rows.size:
        return np.zeros(0, dtype=np.intp)
    if rows.dtype == bool and rows.shape == (n,):
        return np.flatnonzero(rows)
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or rows.min() < -n or rows.max() >= n:
        raise OptionError(
            "cv",
            f"split {number} of `cv` has entries that are not row numbers",
            f"pass integers from 0 to {n - 1}",
            f"pass a mask of {n} booleans",
        )
    indices: RowIndices = rows.astype(np.intp, copy=False)
    return np.where(indices < 0, indices + n, indices) if indices.min() < 0 else indices


def tested_rows(test_membership: NDArray[Any], number: int) -> NDArray[np.bool_]:
    """Mask (n,) of the rows that split `number` tests; see `Splits.test_membership`."""
    if test_membership.ndim == 1:
        return np.asarray(test_membership == number)
    return np.asarray(test_membership[:, number])
