"""How the columns of a table become the columns of a matrix."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol, TypeAlias

from ling.errors import InputTypeError, OptionError
from ling.plain_state import register_plain


@register_plain
@dataclass(frozen=True)
class Numeric:
    """A column of numbers; `mean` stands in for those that are missing, None refuses them."""

    name: str
    mean: float | None = None

    @property
    def width(self) -> int:
        """Columns of the matrix that it becomes."""
        return 1

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return (self.name,)


@register_plain
@dataclass(frozen=True)
class OneHot:
    """A column of text: one column of 0 and 1 for each of `categories`, all of them.

    None is left out, as a penalty makes them all estimable, and alike.
    """

    name: str
    categories: tuple[str, ...]

    @property
    def width(self) -> int:
        """Columns of the matrix that it becomes."""
        return len(self.categories)

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return tuple(f"{self.name}={category}" for category in self.categories)


ColumnEncoding: TypeAlias = Numeric | OneHot


@register_plain
@dataclass(frozen=True)
class Encoding:
    """The columns that are used, in order, and whether missing values are filled in.

    Plain data: it is kept in fitted models, and pickled with them.
    """

    columns: tuple[ColumnEncoding, ...]
    missing: str = "error"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns of the table."""
        return tuple(column.name for column in self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Columns of the matrix."""
        return tuple(name for column in self.columns for name in column.names)

    @property
    def width(self) -> int:
        """Number of columns of the matrix."""
        return sum(column.width for column in self.columns)

    @property
    def starts(self) -> tuple[int, ...]:
        """Where in the matrix each column of the table begins."""
        return tuple(accumulate((column.width for column in self.columns), initial=0))[:-1]

    @property
    def fills(self) -> bool:
        """Whether missing values are filled in."""
        return self.missing == "mean"

    @property
    def numeric(self) -> tuple[Numeric, ...]:
        """Those that are numbers."""
        return tuple(column for column in self.columns if isinstance(column, Numeric))

    @property
    def one_hot(self) -> tuple[OneHot, ...]:
        """Those that are text."""
        return tuple(column for column in self.columns if isinstance(column, OneHot))


class FittedToTable(Protocol):
    """A fitted model or path, which has the encoding of the table that it was fitted to."""

    @property
    def encoding_(self) -> Encoding | None:
        """How the columns of the table are encoded as numbers."""


def check_unique_names(encoding: Encoding) -> None:
    """Raise OptionError if two columns of the matrix have one name; text may hold a "=", too."""
    twins = [name for name, count in Counter(encoding.names).items() if count > 1]
    if twins:
        raise OptionError(
            "X",
            f"two columns of `X` would be called {twins[0]!r}",
            "rename a column of the table",
            "leave it out with `drop`",
        )


def resolve_encoding(like: Any, missing: str) -> Encoding:
    """The encoding of a fitted model, or of a Dataset; an Encoding is itself."""
    encoding = like if isinstance(like, Encoding) else _encoding_of(like)
    if missing == "mean" and not encoding.fills:
        raise OptionError(
            "missing",
            "is 'mean', but the data of `like` was scanned without it, so that there are no means",
            "scan the data of the fit with missing='mean' too",
        )
    return encoding


def _encoding_of(like: Any) -> Encoding:
    for name in ("encoding", "encoding_"):
        found = getattr(like, name, None)
        if isinstance(found, Encoding):
            return found
    raise InputTypeError(
        "like",
        f"is a {type(like).__name__} without an encoding",
        "pass a model that was fitted to a scanned table, the Dataset of that fit, or the encoding "
        "of that Dataset",
    )
