"""What has to be known of a table before it can be encoded: categories, means, rows."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from ling.errors import MissingValue, NotFinite, WrongType
from ling.scan.convert import MISSING, categories, missing_value, numbers
from ling.scan.encoding import Column, Encoding, Numeric, OneHot
from ling.scan.parts import Part

#: More than this, and a text column is an identifier rather than a category.
MOST_CATEGORIES = 10_000


def discover(
    parts: Sequence[Part], names: Sequence[str], texts: Sequence[str], missing: str
) -> tuple[Encoding, tuple[int, ...]]:
    """The encoding of the columns, and the rows of each part; one pass over what it takes."""
    found: dict[str, _Finding] = {name: _Categories(name, missing == "error") for name in texts}
    if missing == "mean":
        found |= {name: _Mean(name) for name in names if name not in found}
    counts = _look_through(parts, found)
    columns = tuple(found[name].column() if name in found else Numeric(name) for name in names)
    return Encoding(columns, missing), counts


def _look_through(parts: Sequence[Part], found: dict[str, _Finding]) -> tuple[int, ...]:
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


class _Finding(ABC):
    """What is known of a column so far."""

    name: str

    @abstractmethod
    def see(self, array: Any, row: int) -> None:
        """Some more of it, from this row on."""

    @abstractmethod
    def column(self) -> Column:
        """What it comes to."""


class _Categories(_Finding):
    """The texts in a column."""

    def __init__(self, name: str, refuses: bool) -> None:
        self.name = name
        self.refuses = refuses
        self.texts: set[str] = set()

    def see(self, array: Any, row: int) -> None:
        """Some more of them; too many are refused."""
        codes, texts = categories(array)
        empty = np.array([text is None for text in [*texts, None]])[codes]
        if self.refuses and empty.any():
            raise missing_value(self.name, row + int(empty.argmax()))
        # Not all that a dictionary lists has to be there.
        used = np.unique(codes[codes != MISSING])
        self.texts |= {text for text in (texts[code] for code in used) if text is not None}
        if len(self.texts) > MOST_CATEGORIES:
            raise WrongType(
                f"column {self.name!r} holds more than {MOST_CATEGORIES:,} different texts: names "
                "or identifiers, rather than categories. Leave it out with drop=[...]."
            )

    def column(self) -> OneHot:
        """One-hot, in alphabetical order, so that the order of rows does not matter."""
        return OneHot(self.name, tuple(sorted(self.texts)))


class _Mean(_Finding):
    """The mean of those numbers in a column that are there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sums: list[float] = []
        self.count = 0

    def see(self, array: Any, row: int) -> None:
        """The sum of some more."""
        values = numbers(array).astype(np.float64, copy=False)
        there = values if not np.isnan(values).any() else values[~np.isnan(values)]
        with np.errstate(over="ignore", invalid="ignore"):
            self.sums.append(float(there.sum()))
        self.count += len(there)

    def column(self) -> Numeric:
        """Numeric, its gaps filled."""
        if not self.count:
            raise MissingValue(
                f"column {self.name!r} has no value in any row, so no mean; leave it out with "
                "drop=[...]."
            )
        if not np.isfinite(self.sums).all():
            raise NotFinite(
                f"column {self.name!r} holds an infinity, so it has no mean; replace it, or leave "
                "the column out with drop=[...]."
            )
        return Numeric(self.name, math.fsum(self.sums) / self.count)
