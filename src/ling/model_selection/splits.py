"""Which rows are trained on and which are tested, kept small: rows may be many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ling.errors import BadOption

RowIndices: TypeAlias = NDArray[np.intp]
# Rows that are looked at together where there may be many.
ROWS_PER_SLICE = 2**14
# A row that no split tests.
NOT_TESTED = -1


@dataclass(frozen=True, eq=False)
class Splits:
    """Training and test rows of every split.

    Where a row is tested at most once and trained on by all other splits, `test_fold` has the
    number of that split, row by row. Otherwise `pairs` has the numbers of the rows, in order; one
    that is trained on twice is there twice.
    """

    n_samples: int
    n_splits: int
    test_fold: NDArray[Any] | None = None
    train_test_pairs: tuple[tuple[RowIndices, RowIndices], ...] = ()

    @classmethod
    def from_pairs(cls, pairs: Iterable[Any], n: int) -> Splits:
        """From (train, test) pairs of integers or masks, of which one is held at a time."""
        test_fold = np.full(n, NOT_TESTED, np.int16)
        apart: list[tuple[RowIndices, RowIndices]] | None = None
        number = -1
        for number, pair in enumerate(pairs):
            train, test = (_sort_rows(_to_indices(rows, n, number)) for rows in pair)
            if not len(test):
                raise BadOption(f"split {number} of cv has no test samples; pass larger folds.")
            if number > np.iinfo(test_fold.dtype).max:
                test_fold = test_fold.astype(np.int32)
            if apart is None and not _is_partition_fold(test_fold, train, test):
                so_far = cls(n, number, test_fold)
                apart = [(so_far.train_rows(k), so_far.test_rows(k)) for k in range(number)]
            if apart is None:
                test_fold[test] = number
            else:
                apart.append((train, test))
        if number < 0:
            raise BadOption("cv gives no split; pass at least one (train, test) pair.")
        if apart is not None:
            return cls(n, number + 1, None, tuple(apart))
        return cls(n, number + 1, test_fold)

    @classmethod
    def consecutive_folds(cls, n: int, count: int) -> Splits:
        """Runs of rows of about the same length, the first n % count of them longer by one."""
        lengths = np.full(count, n // count)
        lengths[: n % count] += 1
        numbers = np.arange(count, dtype=np.int16 if count <= 2**15 else np.int32)
        return cls(n, count, np.repeat(numbers, lengths))

    @classmethod
    def all_training(cls, n: int) -> Splits:
        """One split that trains on all rows, and tests none."""
        return cls(n, 1, np.broadcast_to(np.int16(NOT_TESTED), (n,)))

    @property
    def is_all_training(self) -> bool:
        """Whether this is `everything`."""
        return self.test_fold is not None and self.test_fold.strides == (0,)

    def __len__(self) -> int:
        return self.n_splits

    def test_rows(self, number: int) -> RowIndices:
        """The rows that a split tests."""
        if self.test_fold is None:
            return self.train_test_pairs[number][1]
        return np.flatnonzero(self.test_fold == number)

    def train_rows(self, number: int) -> RowIndices:
        """The rows that a split trains on."""
        if self.test_fold is None:
            return self.train_test_pairs[number][0]
        return np.flatnonzero(self.test_fold != number)

    def held_out_rows(self, number: int) -> RowIndices | None:
        """The rows that a split does not train on; None if it trains on others repeatedly."""
        if self.test_fold is not None:
            return self.test_rows(number)
        without = np.ones(self.n_samples, dtype=bool)
        train = self.train_test_pairs[number][0]
        without[train] = False
        found = np.flatnonzero(without)
        return found if len(found) + len(train) == self.n_samples else None

    @cached_property
    def training_membership(self) -> NDArray[Any]:
        """Who trains on a row: (n,), all but one; or (n, count), how often each does."""
        if self.test_fold is not None:
            return self.test_fold
        times = np.zeros((self.n_samples, self.n_splits), np.uint8)
        for number, (train, _) in enumerate(self.train_test_pairs):
            counts = np.bincount(train, minlength=self.n_samples)
            if counts.max() > np.iinfo(times.dtype).max:
                times = times.astype(np.int64)
            times[:, number] = counts
        return times

    @cached_property
    def test_membership(self) -> NDArray[Any]:
        """Who tests a row: (n,), one; or (n, count), whether each does."""
        if self.test_fold is not None:
            return self.test_fold
        tests = np.zeros((self.n_samples, self.n_splits), bool)
        for number, (_, test) in enumerate(self.train_test_pairs):
            tests[test, number] = True
        return tests

    @cached_property
    def has_repeated_test_rows(self) -> bool:
        """Whether some split tests a row more than once."""
        return any((test[1:] == test[:-1]).any() for _, test in self.train_test_pairs)


def row_slices(n: int) -> Iterator[slice]:
    """All rows, some at a time."""
    for first in range(0, n, ROWS_PER_SLICE):
        yield slice(first, min(first + ROWS_PER_SLICE, n))


def _is_partition_fold(test_fold: NDArray[Any], train: RowIndices, test: RowIndices) -> bool:
    """Whether the test rows are new, and all others trained on once."""
    n = len(test_fold)
    if len(train) + len(test) != n:
        return False
    if not (
        _is_strictly_increasing(train)
        and _is_strictly_increasing(test)
        and (test_fold[test] == NOT_TESTED).all()
    ):
        return False
    seen = np.zeros(n, dtype=bool)
    seen[train] = True
    return not seen[test].any()


def _is_strictly_increasing(rows: RowIndices) -> bool:
    return bool((rows[1:] > rows[:-1]).all())


def _sort_rows(rows: RowIndices) -> RowIndices:
    """In the order of the data: where it is read, it is read once from end to end."""
    return np.sort(rows) if (rows[1:] < rows[:-1]).any() else rows


def _to_indices(rows: Any, n: int, number: int) -> RowIndices:
    rows = np.asarray(rows)
    if not rows.size:
        return np.zeros(0, dtype=np.intp)
    if rows.dtype == bool and rows.shape == (n,):
        return np.flatnonzero(rows)
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or rows.min() < -n or rows.max() >= n:
        raise BadOption(
            f"split {number} of cv is not made of numbers of samples; pass integers from 0 to "
            f"{n - 1}, or a mask of {n} booleans."
        )
    found: RowIndices = rows.astype(np.intp, copy=False)
    return np.where(found < 0, found + n, found) if found.min() < 0 else found
