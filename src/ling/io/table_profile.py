"""What a table holds, column by column, before anything is decided: one pass over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ling.design.row_source import FileVersions
from ling.errors import InputTypeError, Where
from ling.io.arrow_source import build_dataset
from ling.io.column_profile import (
    CategoryProfile,
    ColumnProfile,
    MeanProfile,
    accumulate_profiles,
    check_numeric_columns,
)
from ling.io.column_spec import ColumnSpec
from ling.io.column_writers import is_categorical
from ling.io.dataset import Dataset
from ling.io.encoding import ColumnEncoding, Encoding, Numeric
from ling.io.fragments import FilteredFragment, Fragment, local_files
from ling.io.table_target import non_missing_rows
from ling.io.tables import (
    check_pyarrow_installed,
    dataset_fragments,
    extra_column_notes,
    open_arrow_dataset,
)

# Share of texts that are numbers from which on the column is meant to be one of numbers.
MOSTLY_NUMERIC_SHARE = 0.8


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """A column: its type in Arrow's words, and what was found in it; None if it is of no use."""

    name: str
    type: str
    profile: ColumnProfile | None

    @property
    def is_categorical(self) -> bool:
        """Whether it would be one-hot encoded."""
        return isinstance(self.profile, CategoryProfile)

    @property
    def missing(self) -> int:
        """Rows without a value."""
        return 0 if self.profile is None else self.profile.missing

    @property
    def first_missing(self) -> int | None:
        """The first of them."""
        return None if self.profile is None else self.profile.first_missing

    @property
    def first_infinite(self) -> int | None:
        """The first row with an infinity."""
        return self.profile.first_infinite if isinstance(self.profile, MeanProfile) else None

    @property
    def is_constant(self) -> bool:
        """Whether all values that are there are the same."""
        if isinstance(self.profile, MeanProfile):
            return self.profile.minimum == self.profile.maximum
        return self.n_distinct_texts == 1

    @property
    def is_empty(self) -> bool:
        """Whether there is no value at all."""
        if isinstance(self.profile, MeanProfile):
            return not self.profile.n_present
        return isinstance(self.profile, CategoryProfile) and not self.profile.categories

    @property
    def non_numeric_texts(self) -> list[str] | None:
        """Of texts that are nearly all numbers, the others; None if they are not."""
        texts = self.profile.categories if isinstance(self.profile, CategoryProfile) else set()
        others = sorted(text for text in texts if not _parses_as_number(text))
        return others if len(others) < (1 - MOSTLY_NUMERIC_SHARE) * len(texts) else None

    @property
    def n_distinct_texts(self) -> int:
        """Different texts; one more than `discovery.MAX_CATEGORIES` stands for any number."""
        return len(self.profile.categories) if isinstance(self.profile, CategoryProfile) else 0


def _parses_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, eq=False)
class TableProfile:
    """The columns that were looked at, and the rows of each file."""

    columns: tuple[ColumnSummary, ...]
    row_counts: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        """Of all files."""
        return sum(self.row_counts)

    def n_missing_in(self, name: str) -> int:
        """Rows without a value in this column."""
        return sum(seen.missing for seen in self.columns if seen.name == name)

    def encoding(self, names: Sequence[str], missing: str) -> Encoding:
        """How these columns become numbers."""
        known = {seen.name: seen for seen in self.columns}
        return Encoding(tuple(_encode_column(known[name], missing) for name in names), missing)


def _encode_column(seen: ColumnSummary, missing: str) -> ColumnEncoding:
    if seen.profile is None:
        raise InputTypeError(
            "X",
            f"has type {seen.type}",
            "convert it to numbers or text",
            where=Where(column=seen.name),
        )
    return (
        Numeric(seen.name)
        if missing == "error" and not seen.is_categorical
        else seen.profile.encode()
    )


@dataclass(frozen=True, eq=False)
class OpenTable:
    """Files with columns that were opened, and not yet looked at; `versions` are as of then."""

    schema: Any
    fragments: tuple[Fragment, ...]
    description: str
    versions: FileVersions

    @classmethod
    def open(cls, source: Any, kind: str) -> OpenTable:
        """`kind` is "parquet", "csv" or "feather"."""
        check_pyarrow_installed()
        found, called = open_arrow_dataset(source, kind)
        parts = dataset_fragments(found)
        return cls(
            found.schema, parts, called, FileVersions.from_paths("source", local_files(parts))
        )

    @property
    def names(self) -> tuple[str, ...]:
        """All columns."""
        return tuple(self.schema.names)

    def profile(self, names: Sequence[str]) -> TableProfile:
        """What these columns hold; one pass."""
        found = {name: self._make_profile(name) for name in names}
        looked = {name: finding for name, finding in found.items() if finding is not None}
        numeric = [name for name, finding in looked.items() if isinstance(finding, MeanProfile)]
        kinds = {name: self.schema.field(name).type for name in numeric}
        check_numeric_columns(numeric, kinds, self.fragments, "in earlier files")
        counts = accumulate_profiles(self.fragments, looked)
        called = {name: str(self.schema.field(name).type) for name in names}
        return TableProfile(
            tuple(ColumnSummary(name, called[name], found[name]) for name in names), counts
        )

    def drop_missing(self, name: str) -> OpenTable:
        """The table without the rows in which column `name` is missing; one pass over it."""
        parts = tuple(
            FilteredFragment(part, non_missing_rows(part, name)) for part in self.fragments
        )
        return replace(self, fragments=parts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about columns that are in some files of the table only."""
        return extra_column_notes(self.schema, self.fragments)

    def build_dataset(
        self, target: str | None, encoding: Encoding, counts: tuple[int, ...],
        notes: tuple[str, ...] = (),
    ) -> Dataset:  # fmt: skip
        """X and y, with what a survey has found; `notes` go into the reports of fits."""
        asked = ColumnSpec(target, like=encoding)
        return build_dataset(
            self.schema, self.fragments, self.description, asked, counts, self.versions, notes
        )

    def _make_profile(self, name: str) -> ColumnProfile | None:
        try:
            text = is_categorical(name, self.schema.field(name).type)
        except InputTypeError:  # told by the survey, for all columns at once
            return None
        return CategoryProfile(name, allow_too_many=True) if text else MeanProfile(name)
