"""Which rows are trained on and which are tested, kept small: rows may be many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ling.errors import BadOption

Rows: TypeAlias = NDArray[np.intp]
# Rows that are looked at together where there may be many.
AT_ONCE = 2**14
# A row that no split tests.
NEVER = -1


@dataclass(frozen=True, eq=False)
class Splits:
    """Training and test rows of every split.

    Where a row is tested at most once and trained on by all other splits, `tested_by` has the
    number of that split, row by row. Otherwise `pairs` has the numbers of the rows, in order; one
    that is trained on twice is there twice.
    """

    n: int
    count: int
    tested_by: NDArray[Any] | None = None
    pairs: tuple[tuple[Rows, Rows], ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[Any], n: int) -> Splits:
        """From (train, test) pairs of integers or masks, of which one is held at a time."""
        tested_by = np.full(n, NEVER, np.int16)
        apart: list[tuple[Rows, Rows]] | None = None
        number = -1
        for number, pair in enumerate(pairs):
            train, test = (_in_order(_indices(rows, n, number)) for rows in pair)
            if not len(test):
                raise BadOption(f"split {number} of cv has no test samples; pass larger folds.")
            if number > np.iinfo(tested_by.dtype).max:
                tested_by = tested_by.astype(np.int32)
            if apart is None and not _is_one_of_many(tested_by, train, test):
                so_far = cls(n, number, tested_by)
                apart = [(so_far.train(k), so_far.test(k)) for k in range(number)]
            if apart is None:
                tested_by[test] = number
            else:
                apart.append((train, test))
        if number < 0:
            raise BadOption("cv gives no split; pass at least one (train, test) pair.")
        if apart is not None:
            return cls(n, number + 1, None, tuple(apart))
        return cls(n, number + 1, tested_by)

    @classmethod
    def in_turn(cls, n: int, count: int) -> Splits:
        """Runs of rows of about the same length, the first n % count of them longer by one."""
        lengths = np.full(count, n // count)
        lengths[: n % count] += 1
        numbers = np.arange(count, dtype=np.int16 if count <= 2**15 else np.int32)
        return cls(n, count, np.repeat(numbers, lengths))

    @classmethod
    def everything(cls, n: int) -> Splits:
        """One split that trains on all rows, and tests none."""
        return cls(n, 1, np.broadcast_to(np.int16(NEVER), (n,)))

    @property
    def trains_on_all(self) -> bool:
        """Whether this is `everything`."""
        return self.tested_by is not None and self.tested_by.strides == (0,)

    def __len__(self) -> int:
        return self.count

    def test(self, number: int) -> Rows:
        """The rows that a split tests."""
        if self.tested_by is None:
            return self.pairs[number][1]
        return np.flatnonzero(self.tested_by == number)

    def train(self, number: int) -> Rows:
        """The rows that a split trains on."""
        if self.tested_by is None:
            return self.pairs[number][0]
        return np.flatnonzero(self.tested_by != number)

    def left_out(self, number: int) -> Rows | None:
        """The rows that a split does not train on; None if it trains on others repeatedly."""
        if self.tested_by is not None:
            return self.test(number)
        without = np.ones(self.n, dtype=bool)
        train = self.pairs[number][0]
        without[train] = False
        found = np.flatnonzero(without)
        return found if len(found) + len(train) == self.n else None

    @cached_property
    def training(self) -> NDArray[Any]:
        """Who trains on a row: (n,), all but one; or (n, count), how often each does."""
        if self.tested_by is not None:
            return self.tested_by
        times = np.zeros((self.n, self.count), np.uint8)
        for number, (train, _) in enumerate(self.pairs):
            counts = np.bincount(train, minlength=self.n)
            if counts.max() > np.iinfo(times.dtype).max:
                times = times.astype(np.int64)
            times[:, number] = counts
        return times

    @cached_property
    def testing(self) -> NDArray[Any]:
        """Who tests a row: (n,), one; or (n, count), whether each does."""
        if self.tested_by is not None:
            return self.tested_by
        tests = np.zeros((self.n, self.count), bool)
        for number, (_, test) in enumerate(self.pairs):
            tests[test, number] = True
        return tests

    @cached_property
    def tests_repeatedly(self) -> bool:
        """Whether some split tests a row more than once."""
        return any((test[1:] == test[:-1]).any() for _, test in self.pairs)


def runs(n: int) -> Iterator[slice]:
    """All rows, some at a time."""
    for first in range(0, n, AT_ONCE):
        yield slice(first, min(first + AT_ONCE, n))


def _is_one_of_many(tested_by: NDArray[Any], train: Rows, test: Rows) -> bool:
    """Whether the test rows are new, and all others trained on once."""
    n = len(tested_by)
    if len(train) + len(test) != n:
        return False
    if not (_ascends(train) and _ascends(test) and (tested_by[test] == NEVER).all()):
        return False
    seen = np.zeros(n, dtype=bool)
    seen[train] = True
    return not seen[test].any()


def _ascends(rows: Rows) -> bool:
    return bool((rows[1:] > rows[:-1]).all())


def _in_order(rows: Rows) -> Rows:
    """In the order of the data: where it is read, it is read once from end to end."""
    return np.sort(rows) if (rows[1:] < rows[:-1]).any() else rows


def _indices(rows: Any, n: int, number: int) -> Rows:
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
    found: Rows = rows.astype(np.intp, copy=False)
    return np.where(found < 0, found + n, found) if found.min() < 0 else found
