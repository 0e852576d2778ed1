"""`Dataset`: features and target in files, which are read when an estimator needs them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.design.row_source import FileVersions, RowSource, not_an_array_error, verify_unchanged
from ling.errors import InputTypeError, MissingValueError, OptionError, ShapeError, Where
from ling.io.encoding import Encoding

if TYPE_CHECKING:
    from ling.design.chunked import ChunkedStorage

MAX_LISTED_NAMES = 8
# Complex numbers, dates, durations, and bytes without a type, as NumPy calls them.
NON_TARGET_KINDS = "cMmV"


class TargetReader(ABC):
    """Reads the target of a `Dataset`, and other columns of its table."""

    #: Names of the target columns; () if there is no target, or if it has no names.
    target_names: tuple[str, ...] = ()

    @property
    @abstractmethod
    def description(self) -> str | None:
        """Description of the target in a few words; None if there is no target."""

    @abstractmethod
    def read_target(self) -> NDArray[Any]:
        """Read the target, (n,) or (n, n_targets), into memory."""

    @abstractmethod
    def read_column(self, name: str) -> NDArray[Any]:
        """Read a column (n,) into memory."""

    @abstractmethod
    def read_batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Read columns as `pyarrow.RecordBatch`, a few rows at a time."""


@dataclass(frozen=True, eq=False)
class ArrayTargetReader(TargetReader):
    """The target of an array: `load(y)` returns it, where y is an array, a path or None.

    `versions` are the versions of its files at the time of the scan; None if it is in no file.
    """

    y: Any
    n_rows: int
    load: Callable[[Any], NDArray[Any]]
    versions: FileVersions | None = None

    @property
    def description(self) -> str | None:
        """The path of the target, or "an array"."""
        return None if self.y is None else self.y if isinstance(self.y, str) else "an array"

    def read_target(self) -> NDArray[Any]:
        """Read the target: floating-point numbers as float64, other types unchanged."""
        with verify_unchanged(self._check_unchanged):
            values = self.load(self.y)
        check_target_shape(values.shape, self.n_rows)
        if values.dtype.kind in NON_TARGET_KINDS:
            raise InputTypeError(
                "y",
                f"has dtype {values.dtype}",
                "save it with a dtype of real numbers or text",
                where=Where(file=self.y if isinstance(self.y, str) else None),
            )
        # Copied: a memory-mapped target could change during a fit.
        values = values.astype(np.float64 if values.dtype.kind == "f" else values.dtype)
        if values.dtype.kind != "f":
            return values
        gaps = np.isnan(values.reshape(len(values), -1 if values.size else 1)).any(axis=1)
        if gaps.any():
            raise missing_target_error("y", Where(row=int(gaps.argmax())))
        return values

    def _check_unchanged(self) -> None:
        if self.versions is not None:
            self.versions.check()

    def read_column(self, name: str) -> NDArray[Any]:
        """Raise OptionError: arrays have no named columns."""
        raise OptionError(
            "name",
            "cannot be read, because arrays have no named columns",
            "load the column yourself",
            where=Where(column=name),
        )

    def read_batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Raise OptionError: arrays have no named columns."""
        return iter([self.read_column(name) for name in names])


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Features X, and usually a target y, in files that are read block by block.

    Returned by `ling.scan_parquet`, `scan_csv`, `scan_feather`, `scan_arrow`, `scan_npy` and
    `scan_zarr`. Pass it to an estimator in place of X and y: `model.fit(data)`,
    `model.predict(data)`, `model.score(data)`. If it was scanned without a target, pass y as well:
    `model.fit(data, y)`. For a y other than its target, pass `model.fit(data.X, y)`.

    Attributes
    ----------
    source : RowSource
        Reads the features, one block of rows at a time.
    target_reader : TargetReader
        Reads the target and other columns.
    encoding : Encoding or None
        How the columns of a table are encoded as numbers; None for arrays. Pass it, or this
        Dataset, as `like=` to scan new data.

    Examples
    --------
    >>> import pyarrow, ling
    >>> table = pyarrow.table({"area": [50.0, 80.0, 65.0], "rent": [9.0, 11.0, 10.0]})
    >>> data = ling.scan_arrow(table, target="rent")
    >>> ling.Ridge(alpha=0.0).fit(data).predict(data).round(6)
    array([ 9., 11., 10.])
    """

    source: RowSource
    target_reader: TargetReader
    encoding: Encoding | None = None

    @property
    def X(self) -> ChunkedStorage:  # noqa: N802  (as everywhere)
        """The features, which are read in every pass; for ling's estimators only."""
        # Imported here so that looking at a file does not load what multiplies with it.
        from ling.design.chunked import ChunkedStorage

        return ChunkedStorage(self.source)

    @cached_property
    def y(self) -> NDArray[Any]:
        """The target (n,) or targets (n, n_targets), read on first access and kept in memory."""
        if not self.has_target:
            raise OptionError(
                "target",
                "was not passed when this Dataset was scanned",
                "scan the data again with `target` (scan_npy and scan_zarr: with `y`)",
            )
        return self.target_reader.read_target()

    @property
    def has_target(self) -> bool:
        """True if it was scanned with a target."""
        return self.target_reader.description is not None

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the target columns; () if there is no target, or if it has no names."""
        return self.target_reader.target_names

    def read(self, name: str) -> NDArray[Any]:
        """Read any column of the table into memory, such as sample weights: an array (n,)."""
        return self.target_reader.read_column(name)

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Read any columns of the table, as `pyarrow.RecordBatch` of a few rows each."""
        return self.target_reader.read_batches(names)

    def to_numpy(self) -> Array:
        """Read all features into memory, as an array (n_samples, n_features).

        It takes n_samples * n_features numbers of 8 bytes, or of 4 if X is float32, whatever the
        `memory_budget` of an estimator. `y` is the target that belongs to it. Text is one-hot
        encoded; `feature_names` are the names of the columns.
        """
        from ling.design.chunked import read_all

        return read_all(self.X).array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise not_an_array_error()

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_features) of X."""
        return self.source.shape

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns of X; None if they have no names."""
        return self.source.feature_names

    def __repr__(self) -> str:
        n, p = self.shape
        target = f", target {self.target_reader.description}" if self.has_target else ""
        return f"Dataset({n} x {p}, {self.source.dtype}, {self.source.description}{target})"

    def __str__(self) -> str:
        n, p = self.shape
        lines = [
            f"{n:,} rows x {p:,} columns of {self.source.dtype}, from {self.source.description}",
            f"target   {self.target_reader.description or 'none'}",
        ]
        return "\n  ".join(
            lines + ([] if self.encoding is None else _describe_encoding(self.encoding))
        )


def _describe_encoding(encoding: Encoding) -> list[str]:
    """How the columns are encoded, one line for each kind of column."""
    numeric, one_hot = encoding.numeric, encoding.one_hot
    texts = [f"{column.name} ({column.width} categories)" for column in one_hot]
    filled = (
        "filled with the column mean; missing text belongs to no category"
        if encoding.fills
        else "refused"
    )
    lines = []
    if numeric:
        lines.append(
            f"numeric  {len(numeric)}: {abbreviate_list(column.name for column in numeric)}"
        )
    if one_hot:
        lines.append(f"one-hot  {len(one_hot)}: {abbreviate_list(texts)}")
    return [*lines, f"missing  {filled}"]


def abbreviate_list(names: Iterable[str], most: int = MAX_LISTED_NAMES) -> str:
    """The first `most` names, and the number of the others."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def check_target_shape(shape: tuple[int, ...], n: int, file: str | None = None) -> None:
    """Raise ShapeError unless the `shape` of y, which may be in a file, is (n,) or (n, t)."""
    if len(shape) not in (1, 2) or shape[0] != n:
        raise ShapeError(
            "y",
            f"has shape {shape}, but `X` has {n} rows",
            f"pass shape ({n},) or ({n}, n_targets)",
            where=Where(file=file),
        )


def missing_target_error(argument: str, where: Where) -> MissingValueError:
    """The error for a missing value in a target, or in another column that is not part of X."""
    return MissingValueError(argument, "has no value", "leave such rows out", where=where)
