"""What a table holds, column by column, before anything is decided: one pass over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ling.design.source import FileVersions
from ling.errors import WrongType
from ling.scan.arrow import dataset_of, rows_with_values
from ling.scan.asked import Asked
from ling.scan.convert import is_text
from ling.scan.dataset import Dataset
from ling.scan.discovery import Categories, Finding, Mean, look_through, refuse_other_kinds
from ling.scan.encoding import Column, Encoding, Numeric
from ling.scan.files import late_columns, need_pyarrow, open_files, parts_of
from ling.scan.parts import KeptPart, Part, files_of

# Share of texts that are numbers from which on the column is meant to be one of numbers.
NEARLY_ALL = 0.8


@dataclass(frozen=True, eq=False)
class Seen:
    """A column: its type in Arrow's words, and what was found in it; None if it is of no use."""

    name: str
    type: str
    found: Finding | None

    @property
    def is_text(self) -> bool:
        """Whether it would be one-hot encoded."""
        return isinstance(self.found, Categories)

    @property
    def missing(self) -> int:
        """Rows without a value."""
        return 0 if self.found is None else self.found.missing

    @property
    def first_missing(self) -> int | None:
        """The first of them."""
        return None if self.found is None else self.found.first

    @property
    def infinite(self) -> int | None:
        """The first row with an infinity."""
        return self.found.infinite if isinstance(self.found, Mean) else None

    @property
    def is_constant(self) -> bool:
        """Whether all values that are there are the same."""
        if isinstance(self.found, Mean):
            return self.found.low == self.found.high
        return self.n_texts == 1

    @property
    def is_blank(self) -> bool:
        """Whether there is no value at all."""
        if isinstance(self.found, Mean):
            return not self.found.there
        return isinstance(self.found, Categories) and not self.found.texts

    @property
    def not_numbers(self) -> list[str] | None:
        """Of texts that are nearly all numbers, the others; None if they are not."""
        texts = self.found.texts if isinstance(self.found, Categories) else set()
        others = sorted(text for text in texts if not _is_number(text))
        return others if len(others) < (1 - NEARLY_ALL) * len(texts) else None

    @property
    def n_texts(self) -> int:
        """Different texts; one more than `discovery.MOST_CATEGORIES` stands for any number."""
        return len(self.found.texts) if isinstance(self.found, Categories) else 0


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, eq=False)
class Survey:
    """The columns that were looked at, and the rows of each file."""

    columns: tuple[Seen, ...]
    counts: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        """Of all files."""
        return sum(self.counts)

    def missing_in(self, name: str) -> int:
        """Rows without a value in this column."""
        return sum(seen.missing for seen in self.columns if seen.name == name)

    def encoding(self, names: Sequence[str], missing: str) -> Encoding:
        """How these columns become numbers."""
        known = {seen.name: seen for seen in self.columns}
        return Encoding(tuple(_column(known[name], missing) for name in names), missing)


def _column(seen: Seen, missing: str) -> Column:
    if seen.found is None:
        raise WrongType(f"column {seen.name!r} has type {seen.type}; pass numbers or text.")
    return Numeric(seen.name) if missing == "error" and not seen.is_text else seen.found.column()


@dataclass(frozen=True, eq=False)
class Table:
    """Files with columns that were opened, and not yet looked at; `versions` are as of then."""

    schema: Any
    parts: tuple[Part, ...]
    description: str
    versions: FileVersions

    @classmethod
    def open(cls, source: Any, kind: str) -> Table:
        """`kind` is "parquet", "csv" or "feather"."""
        need_pyarrow()
        found, called = open_files(source, kind)
        parts = parts_of(found)
        return cls(found.schema, parts, called, FileVersions.of(files_of(parts)))

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""
        return tuple(self.schema.names)

    def survey(self, names: Sequence[str]) -> Survey:
        """What these columns hold; one pass."""
        found = {name: self._finding(name) for name in names}
        looked = {name: finding for name, finding in found.items() if finding is not None}
        numeric = [name for name, finding in looked.items() if isinstance(finding, Mean)]
        kinds = {name: self.schema.field(name).type for name in numeric}
        refuse_other_kinds(numeric, kinds, self.parts, "in the files before it")
        counts = look_through(self.parts, looked)
        called = {name: str(self.schema.field(name).type) for name in names}
        return Survey(tuple(Seen(name, called[name], found[name]) for name in names), counts)

    def with_values(self, name: str) -> Table:
        """The same without rows that have no value in this column; one pass over it."""
        parts = tuple(KeptPart(part, rows_with_values(part, name)) for part in self.parts)
        return replace(self, parts=parts)

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of columns that are not among `names`."""
        return late_columns(self.schema, self.parts)

    def dataset(
        self, target: str | None, encoding: Encoding, counts: tuple[int, ...],
        notes: tuple[str, ...] = (),
    ) -> Dataset:  # fmt: skip
        """X and y, with what a survey has found; `notes` go into the reports of fits."""
        asked = Asked(target, like=encoding)
        return dataset_of(
            self.schema, self.parts, self.description, asked, counts, self.versions, notes
        )

    def _finding(self, name: str) -> Finding | None:
        try:
            text = is_text(name, self.schema.field(name).type)
        except WrongType:  # told by the survey, for all columns at once
            return None
        return Categories(name, bears=True) if text else Mean(name)
