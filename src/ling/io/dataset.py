"""`Dataset`: a table that was looked at, and is read when it is needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ling.design.row_source import FileVersions, RowSource, verify_unchanged
from ling.errors import MissingValueError, OptionError, ShapeError
from ling.io.encoding import Encoding

if TYPE_CHECKING:
    from ling.design.chunked import ChunkedStorage

MAX_LISTED_NAMES = 8


class TargetReader(ABC):
    """What the data has besides the features: targets, and columns by name."""

    @property
    @abstractmethod
    def description(self) -> str | None:
        """The target, in a few words; None if there is none."""

    @abstractmethod
    def read_target(self) -> NDArray[Any]:
        """It, read: (n,) or (n, n_targets)."""

    @abstractmethod
    def read_column(self, name: str) -> NDArray[Any]:
        """A column, read."""

    @abstractmethod
    def read_batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Columns as `pyarrow.RecordBatch`, a few rows at a time."""


@dataclass(frozen=True, eq=False)
class ArrayTargetReader(TargetReader):
    """A target that is an array of its own, or is loaded from somewhere by `load`.

    `versions` are its files as they were when they were scanned, if it lies in files.
    """

    y: Any
    n_rows: int
    load: Callable[[Any], NDArray[Any]]
    versions: FileVersions | None = None

    @property
    def description(self) -> str | None:
        """Where it is from."""
        return None if self.y is None else self.y if isinstance(self.y, str) else "an array"

    def read_target(self) -> NDArray[Any]:
        """It; fractions in float64."""
        with verify_unchanged(self._check_unchanged):
            values = self.load(self.y)
        check_target_shape(values.shape, self.n_rows)
        if values.dtype.kind != "f":
            return values
        values = values.astype(np.float64)
        gaps = np.isnan(values.reshape(len(values), -1 if values.size else 1)).any(axis=1)
        if gaps.any():
            raise missing_target_error("y", int(gaps.argmax()))
        return values

    def _check_unchanged(self) -> None:
        if self.versions is not None:
            self.versions.check()

    def read_column(self, name: str) -> NDArray[Any]:
        """There are none."""
        raise OptionError(
            f"column {name!r} cannot be read: arrays have no named columns; load it yourself."
        )

    def read_batches(self, names: Sequence[str]) -> Iterator[Any]:
        """There are none."""
        return iter([self.read_column(name) for name in names])


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Rows of features, and a target for each, that lie in a file; nothing is kept in memory.

    Made by `ling.scan_parquet`, `scan_csv`, `scan_feather`, `scan_npy` and `scan_zarr`. Pass it to
    an estimator as `model.fit(data.X, data.y)`.

    Attributes
    ----------
    source : Source
        The features, a block of rows at a time.
    others : Others
        Where targets and other columns are read from.
    encoding : Encoding or None
        How columns of a table became columns of numbers; pass it as `like=` to scan new data.
    """

    source: RowSource
    others: TargetReader
    encoding: Encoding | None = None

    @property
    def X(self) -> ChunkedStorage:  # noqa: N802  (as everywhere)
        """The features, as a design."""
        # Imported here so that looking at a file does not load what multiplies with it.
        from ling.design.chunked import ChunkedStorage

        return ChunkedStorage(self.source)

    @cached_property
    def y(self) -> NDArray[Any]:
        """The target (n,), or targets (n, n_targets); read when first asked for, then kept."""
        if self.others.description is None:
            raise OptionError("this data was scanned without a target; pass target=... or y=....")
        return self.others.read_target()

    def read(self, name: str) -> NDArray[Any]:
        """Any column of the table, in memory: sample weights, say."""
        return self.others.read_column(name)

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Any columns of the table, as `pyarrow.RecordBatch`, a few rows at a time."""
        return self.others.read_batches(names)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of X."""
        return self.source.shape

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Columns of X, if they have names."""
        return self.source.feature_names

    def __repr__(self) -> str:
        n, p = self.shape
        target = "" if self.others.description is None else f", target {self.others.description}"
        return f"Dataset({n} x {p}, {self.source.dtype}, {self.source.description}{target})"

    def __str__(self) -> str:
        n, p = self.shape
        lines = [
            f"{n:,} rows x {p:,} columns of {self.source.dtype}, from {self.source.description}",
            f"target   {self.others.description or 'none'}",
        ]
        return "\n  ".join(
            lines + ([] if self.encoding is None else _describe_encoding(self.encoding))
        )


def _describe_encoding(encoding: Encoding) -> list[str]:
    """What was made of the columns, a line for each kind."""
    numeric, one_hot = encoding.numeric, encoding.one_hot
    texts = [f"{column.name} ({column.width} categories)" for column in one_hot]
    filled = "filled in: the mean, or no category" if encoding.fills else "refused"
    lines = []
    if numeric:
        lines.append(
            f"numeric  {len(numeric)}: {abbreviate_list(column.name for column in numeric)}"
        )
    if one_hot:
        lines.append(f"one-hot  {len(one_hot)}: {abbreviate_list(texts)}")
    return [*lines, f"missing  {filled}"]


def abbreviate_list(names: Iterable[str], most: int = MAX_LISTED_NAMES) -> str:
    """The first of the names, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def check_target_shape(shape: tuple[int, ...], n: int, name: str = "y") -> None:
    """An error unless it fits n rows; it calls the target `name`."""
    if len(shape) not in (1, 2) or shape[0] != n:
        raise ShapeError(
            f"{name} has shape {shape}; X has {n} rows, so pass ({n},) or ({n}, n_targets)."
        )


def missing_target_error(name: str, row: int) -> MissingValueError:
    """The error for a target without a value."""
    return MissingValueError(
        f"target {name!r} has no value in row {row} (rows count from 0); leave such rows out."
    )
