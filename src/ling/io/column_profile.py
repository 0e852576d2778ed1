"""What has to be known of a table before it can be encoded: categories, means, rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling.errors import Change, InputTypeError, MissingValueError, NonFiniteError, Where
from ling.io.column_writers import (
    MISSING_CODE,
    dictionary_codes,
    is_numeric_type,
    is_string_type,
    missing_value_error,
    numeric_to_numpy,
)
from ling.io.encoding import ColumnEncoding, Encoding, Numeric, OneHot
from ling.io.fragments import Fragment

#: More than this, and a text column is an identifier rather than a category.
MAX_CATEGORIES = 10_000


def infer_encoding(
    parts: Sequence[Fragment], names: Sequence[str], texts: Sequence[str], missing: str
) -> tuple[Encoding, tuple[int, ...]]:
    """The encoding of the columns, and the rows of each part; one pass over what it takes."""
    found: dict[str, ColumnProfile] = {
        name: CategoryProfile(name, raise_on_missing=missing == "error") for name in texts
    }
    if missing == "mean":
        found |= {name: MeanProfile(name) for name in names if name not in found}
    counts = accumulate_profiles(parts, found)
    columns = tuple(found[name].encode() if name in found else Numeric(name) for name in names)
    return Encoding(columns, missing), counts


def accumulate_profiles(
    parts: Sequence[Fragment], found: Mapping[str, ColumnProfile]
) -> tuple[int, ...]:
    """Shows every row to the findings; the rows of each part."""
    if not found:
        return tuple(part.count_rows() for part in parts)
    counts, row = [], 0
    for part in parts:
        begin = row
        for batch in part.read_batches(list(found)):
            for finding, array in zip(found.values(), batch.columns, strict=True):
                finding.update(array, row)
            row += batch.num_rows
        counts.append(row - begin)
    return tuple(counts)


def check_numeric_columns(
    names: Sequence[str], here: Mapping[str, Any], parts: Sequence[Fragment], before: str
) -> None:
    """An error where one of these columns of numbers is something else, and in which file.

    `here` are their types as far as they are known, and `before` says where they were numbers.
    """
    for part in parts:
        if not all(is_numeric_type(kind) for kind in part.column_types(names)):
            for name in names:
                for kind in part.column_types([name]):
                    _check_numeric_type(name, kind, part.path or None, before)
    for name in names:
        _check_numeric_type(name, here[name], None, before)


def _check_numeric_type(name: str, kind: Any, file: str | None, before: str) -> None:
    from pyarrow import types

    if is_numeric_type(kind):
        return
    what = "text" if is_string_type(kind) or types.is_dictionary(kind) else f"type {kind}"
    raise InputTypeError(
        "X",
        f"had numbers {before}, but has {what}",
        "convert it to numbers",
        where=Where(column=name, file=file),
    )


class ColumnProfile(ABC):
    """Running profile of a column, to which blocks are added by `update`.

    `missing` counts missing values, and `first_missing` is the first row that has one.
    """

    name: str
    missing: int = 0
    first_missing: int | None = None

    @abstractmethod
    def update(self, array: Any, row: int) -> None:
        """Add a block of the column, whose first value is in row `row` of the table."""

    @abstractmethod
    def encode(self) -> ColumnEncoding:
        """The encoding of the column that follows from all blocks."""

    def count_missing(self, gaps: NDArray[np.bool_], row: int) -> None:
        """Add the missing values of a block, `gaps`, whose first value is in row `row`."""
        found = int(gaps.sum())
        if found and self.first_missing is None:
            self.first_missing = row + int(gaps.argmax())
        self.missing += found


class CategoryProfile(ColumnProfile):
    """The texts in a column.

    Missing values raise an error at once with `raise_on_missing`. Counting stops when there are
    too many different texts, unless `allow_too_many`.
    """

    def __init__(
        self, name: str, *, raise_on_missing: bool = False, allow_too_many: bool = False
    ) -> None:
        self.name = name
        self.raise_on_missing = raise_on_missing
        self.allow_too_many = allow_too_many
        self.categories: set[str] = set()

    def update(self, array: Any, row: int) -> None:
        """Some more of them."""
        codes, texts = dictionary_codes(array)
        self.count_missing(np.array([text is None for text in [*texts, None]])[codes], row)
        if self.raise_on_missing and self.first_missing is not None:
            raise missing_value_error(self.name, self.first_missing)
        if self.has_too_many:
            return
        # Not all that a dictionary lists has to be there.
        used = np.unique(codes[codes != MISSING_CODE])
        self.categories |= {text for text in (texts[code] for code in used) if text is not None}
        if self.has_too_many and not self.allow_too_many:
            self._raise_too_many()

    @property
    def has_too_many(self) -> bool:
        """Whether these are identifiers."""
        return len(self.categories) > MAX_CATEGORIES

    def encode(self) -> OneHot:
        """One-hot, in alphabetical order, so that the order of rows does not matter."""
        if self.has_too_many:
            self._raise_too_many()
        return OneHot(self.name, tuple(sorted(self.categories)))

    def _raise_too_many(self) -> None:
        raise InputTypeError(
            "X",
            f"has more than {MAX_CATEGORIES:,} different values, which are too many for one-hot "
            "encoding",
            Change("drop", [self.name], "to leave it out"),
            where=Where(column=self.name),
        )


class MeanProfile(ColumnProfile):
    """The mean of those numbers in a column that are there; `first_infinite` is the row of one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.block_sums: list[float] = []
        self.n_present = 0
        self.minimum, self.maximum = math.inf, -math.inf
        self.first_infinite: int | None = None

    def update(self, array: Any, row: int) -> None:
        """The sum of some more."""
        values = numeric_to_numpy(array).astype(np.float64, copy=False)
        gaps = np.isnan(values)
        there = values[~gaps] if gaps.any() else values
        with np.errstate(over="ignore", invalid="ignore"):
            self.block_sums.append(float(there.sum()))
        self.n_present += len(there)
        if len(there):
            self.minimum, self.maximum = (
                min(self.minimum, there.min()),
                max(self.maximum, there.max()),
            )
            if self.first_infinite is None and math.inf in (-self.minimum, self.maximum):
                self.first_infinite = row + int(np.isinf(values).argmax())
        self.count_missing(gaps, row)

    def encode(self) -> Numeric:
        """Numeric, its gaps filled."""
        if not self.n_present:
            raise MissingValueError(
                "X",
                "has no value in any row, so it has no mean",
                Change("drop", [self.name], "to leave it out"),
                where=Where(column=self.name),
            )
        if not np.isfinite(self.block_sums).all():
            raise NonFiniteError(
                "X",
                "has no finite mean, because it has infinite or very large values",
                "replace them",
                Change("drop", [self.name], "to leave the column out"),
                where=Where(column=self.name, row=self.first_infinite),
            )
        return Numeric(self.name, math.fsum(self.block_sums) / self.n_present)
