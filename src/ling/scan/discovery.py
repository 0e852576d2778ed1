"""What has to be known of a table before it can be encoded: categories, means, rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling.errors import MissingValue, NotFinite, WrongType
from ling.scan.convert import (
    MISSING,
    categories,
    is_number,
    is_string,
    missing_value,
    numbers,
)
from ling.scan.encoding import Column, Encoding, Numeric, OneHot
from ling.scan.parts import Part

#: More than this, and a text column is an identifier rather than a category.
MOST_CATEGORIES = 10_000


def discover(
    parts: Sequence[Part], names: Sequence[str], texts: Sequence[str], missing: str
) -> tuple[Encoding, tuple[int, ...]]:
    """The encoding of the columns, and the rows of each part; one pass over what it takes."""
    found: dict[str, Finding] = {
        name: Categories(name, refuses=missing == "error") for name in texts
    }
    if missing == "mean":
        found |= {name: Mean(name) for name in names if name not in found}
    counts = look_through(parts, found)
    columns = tuple(found[name].column() if name in found else Numeric(name) for name in names)
    return Encoding(columns, missing), counts


def look_through(parts: Sequence[Part], found: Mapping[str, Finding]) -> tuple[int, ...]:
    """Shows every row to the findings; the rows of each part."""
    if not found:
        return tuple(part.count() for part in parts)
    counts, row = [], 0
    for part in parts:
        begin = row
        for batch in part.read(list(found)):
            for finding, array in zip(found.values(), batch.columns, strict=True):
                finding.see(array, row)
            row += batch.num_rows
        counts.append(row - begin)
    return tuple(counts)


def refuse_other_kinds(
    names: Sequence[str], here: Mapping[str, Any], parts: Sequence[Part], before: str
) -> None:
    """An error where one of these columns of numbers is something else, and in which file.

    `here` are their types as far as they are known, and `before` says where they were numbers.
    """
    for part in parts:
        if not all(is_number(kind) for kind in part.kinds(names)):
            for name in names:
                for kind in part.kinds([name]):
                    _refuse_kind(name, kind, f"in {part.path!r}" if part.path else "here", before)
    for name in names:
        _refuse_kind(name, here[name], "here", before)


def _refuse_kind(name: str, kind: Any, where: str, before: str) -> None:
    from pyarrow import types

    if is_number(kind):
        return
    what = "text" if is_string(kind) or types.is_dictionary(kind) else f"of type {kind}"
    raise WrongType(
        f"column {name!r} is {what} {where}, and was numbers {before}; make it numbers there too."
    )


class Finding(ABC):
    """What is known of a column so far; `missing` counts its gaps, `first` is the row of one."""

    name: str
    missing: int = 0
    first: int | None = None

    @abstractmethod
    def see(self, array: Any, row: int) -> None:
        """Some more of it, from this row on."""

    @abstractmethod
    def column(self) -> Column:
        """What it comes to."""

    def count(self, gaps: NDArray[np.bool_], row: int) -> None:
        """The gaps among some more rows, from this one on."""
        found = int(gaps.sum())
        if found and self.first is None:
            self.first = row + int(gaps.argmax())
        self.missing += found


class Categories(Finding):
    """The texts in a column; `refuses` gaps at once, and `bears` any number of texts.

    Of too many, no more are looked at.
    """

    def __init__(self, name: str, *, refuses: bool = False, bears: bool = False) -> None:
        self.name = name
        self.refuses = refuses
        self.bears = bears
        self.texts: set[str] = set()

    def see(self, array: Any, row: int) -> None:
        """Some more of them."""
        codes, texts = categories(array)
        self.count(np.array([text is None for text in [*texts, None]])[codes], row)
        if self.refuses and self.first is not None:
            raise missing_value(self.name, self.first)
        if self.too_many:
            return
        # Not all that a dictionary lists has to be there.
        used = np.unique(codes[codes != MISSING])
        self.texts |= {text for text in (texts[code] for code in used) if text is not None}
        if self.too_many and not self.bears:
            self._refuse()

    @property
    def too_many(self) -> bool:
        """Whether these are identifiers."""
        return len(self.texts) > MOST_CATEGORIES

    def column(self) -> OneHot:
        """One-hot, in alphabetical order, so that the order of rows does not matter."""
        if self.too_many:
            self._refuse()
        return OneHot(self.name, tuple(sorted(self.texts)))

    def _refuse(self) -> None:
        raise WrongType(
            f"column {self.name!r} holds more than {MOST_CATEGORIES:,} different texts: names "
            "or identifiers, rather than categories. Leave it out with drop=[...]."
        )


class Mean(Finding):
    """The mean of those numbers in a column that are there; `infinite` is the row of one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sums: list[float] = []
        self.there = 0
        self.low, self.high = math.inf, -math.inf
        self.infinite: int | None = None

    def see(self, array: Any, row: int) -> None:
        """The sum of some more."""
        values = numbers(array).astype(np.float64, copy=False)
        gaps = np.isnan(values)
        there = values[~gaps] if gaps.any() else values
        with np.errstate(over="ignore", invalid="ignore"):
            self.sums.append(float(there.sum()))
        self.there += len(there)
        if len(there):
            self.low, self.high = min(self.low, there.min()), max(self.high, there.max())
            if self.infinite is None and math.inf in (-self.low, self.high):
                self.infinite = row + int(np.isinf(values).argmax())
        self.count(gaps, row)

    def column(self) -> Numeric:
        """Numeric, its gaps filled."""
        if not self.there:
            raise MissingValue(
                f"column {self.name!r} has no value in any row, so no mean; leave it out with "
                "drop=[...]."
            )
        if not np.isfinite(self.sums).all():
            raise NotFinite(
                f"column {self.name!r} holds an infinity, so it has no mean; replace it, or leave "
                "the column out with drop=[...]."
            )
        return Numeric(self.name, math.fsum(self.sums) / self.there)
