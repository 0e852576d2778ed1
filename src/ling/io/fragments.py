"""Tables that are read a few rows at a time: in memory, in Parquet, in any file Arrow reads."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ling.design.row_source import FileVersions, verify_unchanged
from ling.errors import DataFileError, InputTypeError, LingError, Where

#: A `pyarrow.RecordBatch`: some rows of some columns.
RecordBatch: TypeAlias = Any
RecordBatches: TypeAlias = Iterator[RecordBatch]
MIB = 2**20
# Bytes of a batch: enough rows that calls do not count; three of them are there at a time.
BATCH_BYTES = 16 * MIB
# Wide tables get more, so that a batch is not a few rows out of every page of the file.
WIDE_TABLE_BATCH_BYTES, WIDE_TABLE_BATCH_ROWS = 64 * MIB, 8192
# A column that is read ahead in larger steps, or whole as pyarrow does by default (`pre_buffer`),
# is no faster, and needs memory that grows with the file.
READ_BUFFER_BYTES = MIB // 16
# What pyarrow says of values that are not of the type of the first file or the first rows.
TYPE_CHANGE_MESSAGE = re.compile(
    "conversion error|Failed to parse|Unsupported cast|not in range|was truncated converting"
    "|changed from"
)


class Fragment(ABC):
    """One file, or one table in memory."""

    @property
    def path(self) -> str:
        """Where it lies on this machine; nothing, if it does not."""
        return ""

    def column_types(self, columns: Sequence[str]) -> list[Any]:
        """Types of these columns in the file itself, if it says so."""
        return []

    def columns(self) -> tuple[str, ...]:
        """Names of the columns in the file itself, if it is one."""
        return ()

    def with_column_as_text(self, name: str) -> Fragment | None:
        """The same rows with this column as it is written; None if it is not written as text."""
        return None

    @abstractmethod
    def count_rows(self) -> int:
        """Its number of rows."""

    @abstractmethod
    def read_batches(
        self, columns: Sequence[str], start: int = 0, stop: int | None = None
    ) -> RecordBatches:
        """Rows from start to stop of these columns, in this order."""


@dataclass(frozen=True, eq=False)
class InMemoryFragment(Fragment):
    """A `pyarrow.Table`."""

    table: Any

    def count_rows(self) -> int:
        """Its number of rows."""
        return int(self.table.num_rows)

    def read_batches(
        self, columns: Sequence[str], start: int = 0, stop: int | None = None
    ) -> RecordBatches:
        """Views of its rows."""
        stop = self.count_rows() if stop is None else stop
        rows = self.table.select(list(columns)).slice(start, stop - start)
        yield from rows.to_batches(max_chunksize=rows_per_batch(len(columns)))


@dataclass(frozen=True, eq=False)
class ParquetFragment(Fragment):
    """A `pyarrow.dataset.ParquetFileFragment`.

    pyarrow's scanner decodes row groups whole, which takes gigabytes where they are large; its
    `ParquetFile` decodes a batch at a time, just as fast.
    """

    fragment: Any

    @property
    def path(self) -> str:
        """Where it lies on this machine."""
        return _local_path(self.fragment)

    def count_rows(self) -> int:
        """Its number of rows, from the end of the file."""
        with translate_arrow_errors(_file_name(self.fragment)):
            return sum(group.num_rows for group in self.fragment.row_groups)

    def read_batches(
        self, columns: Sequence[str], start: int = 0, stop: int | None = None
    ) -> RecordBatches:
        """The row groups that hold these rows, a batch at a time."""
        from pyarrow.parquet import ParquetFile

        groups, first = self._select_row_groups(start, self.count_rows() if stop is None else stop)
        fixed = self._partition_values()
        with translate_arrow_errors(_file_name(self.fragment)), self.fragment.open() as file:
            table = ParquetFile(
                file,
                metadata=self.fragment.metadata,
                pre_buffer=False,
                buffer_size=READ_BUFFER_BYTES,
                # Texts as numbers of categories: batches are sized as if all columns were numbers.
                read_dictionary=self._string_columns(columns),
            )
            batches = table.iter_batches(
                rows_per_batch(len(columns)),
                groups,
                [name for name in columns if name not in fixed],
            )
            stop = None if stop is None else stop - first
            window = _slice_batches(map(_validate_batch, batches), start - first, stop)
            yield from (_with_all_columns(batch, columns, fixed) for batch in window)

    def _select_row_groups(self, start: int, stop: int) -> tuple[list[int], int]:
        """Row groups with rows from start to stop, and the first row of the first of them."""
        with translate_arrow_errors(_file_name(self.fragment)):
            groups = self.fragment.row_groups
        ends = list(accumulate(group.num_rows for group in groups))
        begins = [end - group.num_rows for end, group in zip(ends, groups, strict=True)]
        chosen = [i for i in range(len(groups)) if ends[i] > start and begins[i] < stop]
        return [groups[i].id for i in chosen], begins[chosen[0]] if chosen else start

    def column_types(self, columns: Sequence[str]) -> list[Any]:
        """Of those that are in the file."""
        with translate_arrow_errors(_file_name(self.fragment)):
            known = {field.name: field.type for field in self.fragment.physical_schema}
        return [known[name] for name in columns if name in known]

    def columns(self) -> tuple[str, ...]:
        """All that are in the file."""
        with translate_arrow_errors(_file_name(self.fragment)):
            return tuple(self.fragment.physical_schema.names)

    def _string_columns(self, columns: Sequence[str]) -> list[str]:
        from pyarrow import types

        def is_text(kind: Any) -> bool:
            return bool(types.is_string(kind) or types.is_large_string(kind))

        schema = self.fragment.physical_schema
        return [field.name for field in schema if field.name in columns and is_text(field.type)]

    def _partition_values(self) -> dict[str, Any]:
        """Columns that are not in the file, but in the names of its folders (`city=Oslo/`)."""
        from pyarrow.dataset import get_partition_keys

        return dict(get_partition_keys(self.fragment.partition_expression))


@dataclass(frozen=True, eq=False)
class ScannedFragment(Fragment):
    """Any other `pyarrow.dataset.Fragment`, read from its beginning."""

    fragment: Any
    schema: Any

    @property
    def path(self) -> str:
        """Where it lies on this machine."""
        return _local_path(self.fragment)

    def columns(self) -> tuple[str, ...]:
        """All that are in the file; none if it cannot be read, which is told when it is."""
        try:
            return tuple(self.fragment.physical_schema.names)
        except (ValueError, OSError):
            return ()

    def with_column_as_text(self, name: str) -> Fragment | None:
        """The same rows with this column as it is written; None unless the file is CSV."""
        import pyarrow as pa
        from pyarrow.dataset import CsvFileFormat

        if not isinstance(self.fragment.format, CsvFileFormat):
            return None
        index = self.schema.get_field_index(name)
        return ScannedFragment(self.fragment, self.schema.set(index, pa.field(name, pa.string())))

    def count_rows(self) -> int:
        """Its number of rows; CSV has to be read for it."""
        with translate_arrow_errors(_file_name(self.fragment)):
            return int(self.fragment.count_rows())

    def read_batches(
        self, columns: Sequence[str], start: int = 0, stop: int | None = None
    ) -> RecordBatches:
        """Rows one after the other, those before `start` skipped."""
        with translate_arrow_errors(_file_name(self.fragment)):
            batches = self.fragment.scanner(
                schema=self.schema,
                columns=list(columns),
                batch_size=rows_per_batch(len(columns)),
                batch_readahead=4,
                fragment_readahead=1,
            ).to_batches()
            yield from _slice_batches(map(_validate_batch, batches), start, stop)


@dataclass(frozen=True, eq=False)
class FilteredFragment(Fragment):
    """Some rows of a part: those numbered `kept`, which rise."""

    fragment: Fragment
    row_indices: NDArray[np.intp]

    @property
    def path(self) -> str:
        """Where the whole lies on this machine."""
        return self.fragment.path

    def column_types(self, columns: Sequence[str]) -> list[Any]:
        """As in the whole."""
        return self.fragment.column_types(columns)

    def columns(self) -> tuple[str, ...]:
        """As in the whole."""
        return self.fragment.columns()

    def with_column_as_text(self, name: str) -> Fragment | None:
        """As the whole."""
        text = self.fragment.with_column_as_text(name)
        return None if text is None else FilteredFragment(text, self.row_indices)

    def count_rows(self) -> int:
        """Rows that are kept."""
        return len(self.row_indices)

    def read_batches(
        self, columns: Sequence[str], start: int = 0, stop: int | None = None
    ) -> RecordBatches:
        """From the first to the last of them, the others left out."""
        kept = self.row_indices[start:stop]
        if not len(kept):
            return
        begin = int(kept[0])
        for batch in self.fragment.read_batches(columns, begin, int(kept[-1]) + 1):
            end = begin + batch.num_rows
            here = kept[slice(*np.searchsorted(kept, [begin, end]))]
            if len(here):
                yield batch if len(here) == batch.num_rows else batch.take(here - begin)
            begin = end


@dataclass(frozen=True, eq=False)
class FragmentedTable:
    """The rows of several parts, one after the other; `description` says where they lie.

    `versions` are their files as they were before anything was read from them.
    """

    fragments: tuple[Fragment, ...]
    row_counts: tuple[int, ...]
    description: str
    versions: FileVersions

    @property
    def n_rows(self) -> int:
        """Of all parts."""
        return sum(self.row_counts)

    def check_unchanged(self) -> None:
        """Raise DataFileError if a file has changed since it was scanned."""
        self.versions.check(local_files(self.fragments))

    def with_column_as_text(self, name: str) -> FragmentedTable | None:
        """The same rows with this column as it is written; None unless all files are CSV."""
        fragments = [part.with_column_as_text(name) for part in self.fragments]
        texts = tuple(part for part in fragments if part is not None)
        return replace(self, fragments=texts) if len(texts) == len(fragments) else None

    def read_batches(
        self, columns: Sequence[str], start: int = 0, stop: int | None = None
    ) -> RecordBatches:
        """Rows from start to stop; an error if a file has changed, or there are fewer rows."""
        stop = self.n_rows if stop is None else stop
        read, begin = 0, 0
        with verify_unchanged(self.check_unchanged):
            for part, count in zip(self.fragments, self.row_counts, strict=True):
                here = max(0, start - begin), min(count, stop - begin)
                begin += count
                if here[0] < here[1]:
                    for batch in part.read_batches(columns, *here):
                        read += batch.num_rows
                        yield batch
        if read < stop - start:
            raise DataFileError(
                "X",
                f"now has {read} rows where the scan found {stop - start} ({self.description})",
                "scan it again",
            )


def local_files(parts: Sequence[Fragment]) -> tuple[str, ...]:
    """The files of parts that lie on this machine."""
    return tuple(part.path for part in parts if part.path)


def _local_path(fragment: Any) -> str:
    path = getattr(fragment, "path", "")
    return path if os.path.exists(path) else ""


def _file_name(fragment: Any) -> str:
    """What errors call the file, wherever it lies; nothing if there is none."""
    return str(getattr(fragment, "path", ""))


def check_ipc_file(fragment: Any) -> None:
    """An error if the messages of an Arrow IPC file are damaged; reads its first column.

    pyarrow's scanner, asked for some columns of such a file, may kill the process (seen with
    pyarrow 26). Its `RecordBatchFileReader` checks the messages. Unions without a member kill the
    process even if no such column is asked for.
    """
    from pyarrow import ipc

    with translate_arrow_errors(_file_name(fragment)), fragment.open() as file:
        if not fragment.physical_schema.names:
            return
        for field in fragment.physical_schema:
            if _has_union(field.type):
                raise InputTypeError(
                    "source",
                    f"has a column {field.name!r} of type {field.type}, which is not supported",
                    "write it without this column",
                    where=Where(file=_file_name(fragment)),
                )
        reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=[0]))
        for number in range(reader.num_record_batches):
            reader.get_batch(number)


def _has_union(kind: Any) -> bool:
    """Whether an Arrow type is a union, or contains one."""
    from pyarrow import types

    if types.is_dictionary(kind):
        return _has_union(kind.value_type)
    members = (kind.field(i).type for i in range(kind.num_fields))
    return bool(types.is_union(kind)) or any(map(_has_union, members))


def _validate_batch(batch: RecordBatch) -> RecordBatch:
    """The batch, after a check that offsets and codes are in range: IPC files may hold any."""
    batch.validate(full=True)
    return batch


def rows_per_batch(n_columns: int) -> int:
    """Rows of a batch that is read at once."""
    per_row = 8 * max(1, n_columns)
    return max(
        BATCH_BYTES // per_row, min(WIDE_TABLE_BATCH_ROWS, WIDE_TABLE_BATCH_BYTES // per_row), 1
    )


def _slice_batches(batches: RecordBatches, start: int, stop: int | None) -> RecordBatches:
    """Those of their rows, counted from the first, that are from start to stop."""
    begin = 0
    for batch in batches:
        end = begin + batch.num_rows
        last = end if stop is None else min(end, stop)
        if last > max(start, begin):
            skipped = max(0, start - begin)
            yield batch.slice(skipped, last - begin - skipped)
        begin = end
        if stop is not None and begin >= stop:
            return


def _with_all_columns(
    batch: RecordBatch, columns: Sequence[str], fixed: dict[str, Any]
) -> RecordBatch:
    """The columns in this order; one that this file lacks has no values."""
    import pyarrow as pa

    n = batch.num_rows
    there = {name: i for i, name in enumerate(batch.schema.names)}
    arrays = [
        batch.column(there[name]) if name in there else pa.repeat(pa.scalar(fixed.get(name)), n)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def not_utf8_error(path: str) -> InputTypeError:
    """The error for a text of another encoding."""
    return InputTypeError(
        "source",
        "is not UTF-8",
        "convert it (iconv -f latin1 -t utf8 OLD > NEW, if it is Latin-1)",
        where=Where(file=path),
    )


@contextmanager
def translate_arrow_errors(path: str) -> Iterator[None]:
    """Turn what pyarrow raises for a file that it cannot read into an error that names the file."""
    from pyarrow import ArrowException

    try:
        yield
    except LingError:
        raise
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        raise unreadable_file_error(path, error) from error


def unreadable_file_error(path: str, error: Exception) -> LingError:
    """The error for a file that pyarrow cannot read, with what it said."""
    said = " ".join(str(error).split())
    if "conversion error" in said and "UTF8" in said:
        return not_utf8_error(path)
    if TYPE_CHANGE_MESSAGE.search(said):
        return InputTypeError(
            "source",
            f"has a column whose type is not that of its first rows ({said})",
            "make the column all numbers or all text",
            "leave it out with `drop`",
            where=Where(file=path or None),
        )
    if isinstance(error, MemoryError):
        return DataFileError(
            "source",
            f"cannot be read ({said}): it is damaged, or there is too little memory",
            "write it again, with fewer rows in each row group or batch",
            where=Where(file=path or None),
        )
    return DataFileError(
        "source",
        f"cannot be read ({said}): it is damaged, gone or still being written",
        "write it again",
        where=Where(file=path or None),
    )
