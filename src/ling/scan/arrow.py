"""Tables: Parquet, CSV, and what pyarrow holds in memory or reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling.design.arrays import Array
from ling.design.chunked import ahead
from ling.design.source import FileVersions, Source
from ling.errors import BadOption, MissingValue, WrongType
from ling.scan.asked import Asked, check_known
from ling.scan.buffers import Buffers
from ling.scan.convert import RowOf, Tally, categories, is_text, numbers, recoded, writers
from ling.scan.dataset import Dataset, Others, listed, missing_target
from ling.scan.discovery import discover, refuse_other_kinds
from ling.scan.encoding import Encoding
from ling.scan.files import counted, late_columns, need_pyarrow, open_files, parts_of
from ling.scan.parts import Batch, Batches, Part, Rows, TablePart, files_of


class ArrowSource(Source):
    """The encoded columns of a table."""

    def __init__(self, rows: Rows, encoding: Encoding, dtype: Any, unknown: str = "error") -> None:
        self.rows = rows
        self.encoding = encoding
        self.unknown = unknown
        #: Counts what is filled in or ignored from when it is there.
        self.tally: Tally | None = None
        self.shape = (rows.n, encoding.width)
        self.dtype = np.dtype(dtype)
        self.names = encoding.names
        self.versions = rows.versions

    def blocks(self, rows: slice, height: int) -> Iterator[Array]:
        """Columns copied into blocks in Fortran's order, as Arrow holds columns too."""
        start, stop, _ = rows.indices(self.shape[0])
        height, width = max(1, min(height, stop - start)), self.shape[1]
        encoder, buffers = (
            _Encoder(self.encoding, self.unknown, self.tally),
            Buffers(height * width, self.dtype),
        )
        block, filled = buffers.block(height, width), 0
        for batch in self._batches(start, stop):
            used = 0
            while used < batch.num_rows:
                count = min(len(block) - filled, batch.num_rows - used)
                room = block[filled : filled + count]
                encoder.write(batch.slice(used, count), room, start.__add__)
                used, filled, start = used + count, filled + count, start + count
                if filled == len(block):
                    yield block
                    # Not before it is asked for: by then the last one may have been given back.
                    del block, room
                    block, filled = buffers.block(min(height, stop - start), width), 0

    @property
    def picks(self) -> bool:
        """Tables in memory can be indexed; files are read from their beginning."""
        return all(isinstance(part, TablePart) for part in self.rows.parts)

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows of a table in memory."""
        (part,) = self.rows.parts
        assert isinstance(part, TablePart)
        encoder, filled = _Encoder(self.encoding, self.unknown, self.tally), 0
        block = np.empty((len(rows), self.shape[1]), self.dtype, order="F")
        for batch in part.table.select(list(self.encoding.inputs)).take(rows).to_batches():
            here = rows[filled : filled + batch.num_rows]
            encoder.write(batch, block[filled : filled + batch.num_rows], here.item)
            filled += batch.num_rows
        return block

    @property
    def files(self) -> tuple[str, ...]:
        """Those of its parts."""
        return files_of(self.rows.parts)

    @property
    def description(self) -> str:
        """Where the table lies."""
        return self.rows.description

    def _batches(self, start: int, stop: int) -> Batches:
        """Record batches of these rows; from files, the next is decoded while one is copied."""
        batches = self.rows.read(self.encoding.inputs, start, stop)
        return batches if self.picks else ahead(batches)


class _Encoder:
    """Writes record batches into blocks."""

    def __init__(self, encoding: Encoding, unknown: str, tally: Tally | None) -> None:
        widths = [column.width for column in encoding.columns]
        places = [slice(a, a + b) for a, b in zip(encoding.starts, widths, strict=True)]
        self.steps = list(zip(writers(encoding, unknown, tally or Tally()), places, strict=True))

    def write(self, batch: Batch, out: Array, row_of: RowOf) -> None:
        """A batch, whose i-th row is row_of(i) of the table."""
        for (write, place), array in zip(self.steps, batch.columns, strict=True):
            write(array, out[:, place], row_of)


@dataclass(frozen=True, eq=False)
class TableOthers(Others):
    """Columns of a table; `names` are those of the targets, and `several` that y has two axes.

    `counted` are those of CSV that began with whole numbers.
    """

    rows: Rows
    known: tuple[str, ...]
    names: tuple[str, ...] = ()
    several: bool = False
    counted: tuple[str, ...] = ()

    @property
    def description(self) -> str | None:
        """Names of the targets."""
        return listed(repr(name) for name in self.names) if self.names else None

    def target(self) -> NDArray[Any]:
        """The column, or the columns side by side."""
        columns = [self._read(name, missing_target) for name in self.names]
        if not self.several:
            return columns[0]
        if len({column.dtype.kind in "US" for column in columns}) > 1:
            raise WrongType("target lists numbers and text together; pass one kind at a time.")
        return np.column_stack(columns)

    def column(self, name: str) -> NDArray[Any]:
        """A column of whole numbers, truth values, float64 or text."""
        check_known([name], self.known, "name")
        return self._read(name, _missing_in_column)

    def batches(self, names: Sequence[str]) -> Batches:
        """Columns as they are, a few rows at a time."""
        check_known(names, self.known, "name")
        return self.rows.read(names)

    def _read(self, name: str, error: Any) -> NDArray[Any]:
        """Of the kind that it is; an error where there is no value."""
        pieces: list[NDArray[Any]] = []
        row = 0
        for batch in self.rows.read([name]):
            array = batch.column(0)
            values, gaps = _values(name, array)
            if gaps.any():
                raise error(name, row + int(gaps.argmax()))
            pieces.append(values)
            row += len(values)
        found = np.concatenate(pieces) if pieces else np.empty(0)
        return _as_counted(found) if name in self.counted else found


def rows_with_values(part: Part, name: str) -> NDArray[np.intp]:
    """The rows of a part where a column has a value."""
    gaps = [_values(name, batch.column(0))[1] for batch in part.read([name])]
    return np.flatnonzero(~np.concatenate(gaps)) if gaps else np.empty(0, np.intp)


def _values(name: str, array: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Of the kind that they are, and where there is none."""
    return _texts(array) if is_text(name, array.type) else _numbers(array)


def _numbers(array: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Whole numbers and truth values as they are, others in float64; and where there is none."""
    from pyarrow import types

    kind = array.type
    if not array.null_count and (types.is_boolean(kind) or types.is_integer(kind)):
        values = np.asarray(array.to_numpy(zero_copy_only=False))
        return values, np.zeros(len(values), np.bool_)
    values = numbers(array).astype(np.float64)
    return values, np.isnan(values)


def _as_counted(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers that were whole at first, as integers if all of them are."""
    exact = values.dtype.kind == "f" and (np.abs(values) < 2**53).all()
    return values.astype(np.int64) if exact and (values == np.rint(values)).all() else values


def _texts(array: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    codes, texts = categories(array)
    codes = recoded(codes, [-1 if text is None else i for i, text in enumerate(texts)])
    return np.array([*(text or "" for text in texts), ""])[codes], codes < 0


def _missing_in_column(name: str, row: int) -> MissingValue:
    return MissingValue(f"column {name!r} has no value in row {row} (rows count from 0).")


def dataset_of(
    schema: Any, parts: Sequence[Part], description: str, asked: Asked,
    counts: tuple[int, ...] | None = None, versions: FileVersions | None = None,
    notes: tuple[str, ...] = (),
) -> Dataset:  # fmt: skip
    """What the table comes to; one pass over the columns that take one.

    `counts` are the rows of the parts, if they are known, and `versions` their files as they were
    before that. `notes` go into the reports of fits.
    """
    versions = versions or FileVersions.of(files_of(parts))
    known = tuple(schema.names)
    names = asked.features_of(known)
    kinds = {name: schema.field(name).type for name in names}
    if asked.encoding is None:
        texts = [name for name, kind in kinds.items() if is_text(name, kind)]
        encoding, counts = discover(parts, names, texts, asked.missing)
    else:
        encoding, counts = asked.encoding, counts or tuple(part.count() for part in parts)
    before = "in the files before it" if asked.encoding is None else "in the fit"
    refuse_other_kinds([column.name for column in encoding.numeric], kinds, parts, before)
    _refuse_twins(encoding)
    rows = Rows(tuple(parts), counts, description, versions)
    stored = [kind for part in parts for kind in part.kinds(names)]
    source = ArrowSource(rows, encoding, _dtype([*kinds.values(), *stored]), asked.unknown)
    source.notes = notes
    several = asked.target is not None and not isinstance(asked.target, str)
    others = TableOthers(rows, known, asked.targets, several, counted(schema))
    return Dataset(source, others, encoding)


def _refuse_twins(encoding: Encoding) -> None:
    """Text with a "=" in it may be taken for another column's."""
    twins = [name for name, count in Counter(encoding.names).items() if count > 1]
    if twins:
        raise BadOption(
            f"two columns of X would be called {twins[0]!r}; rename a column of the table, or "
            "leave it out with drop=[...]."
        )


def _dtype(kinds: Any) -> Any:
    """float32 if all columns are, in all files, else float64."""
    from pyarrow import types

    return np.float32 if all(types.is_float32(kind) for kind in kinds) else np.float64


def scan_parquet(
    source: Any,
    target: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    *,
    missing: str = "error",
    like: Any = None,
    unknown: str = "error",
    drop: Sequence[str] | None = None,
) -> Dataset:
    """Parquet files as X and y, read a block of rows at a time.

    Numbers are used as they are. Text and categories become one column of 0 and 1 for each value
    that occurs, named "column=value"; one pass over the text columns finds the values. Without
    text, and without missing="mean", nothing but the ends of the files is read here.

    Parameters
    ----------
    source : path or list of paths
        A file, a pattern like `"data/*.parquet"`, a folder, or a list of files. Names of folders
        below a folder or pattern may hold columns (`year=2024/`). Columns are those of the first
        file. Files of Delta and Iceberg tables are refused, as some hold rows that were deleted;
        pass such a table to `scan_arrow`.
    target : str or list of str, default=None
        The column to predict; a list gives y of shape (n_samples, n_targets).
    features : list of str, default=None
        The columns to predict from; None for all but the target, and those in `drop`.
    missing : {"error", "mean"}, default="error"
        What to do with nulls and NaNs among the features: refuse them, or put the mean of the
        column there (for text: none of the categories).
    like : fitted model, Dataset or Encoding, default=None
        Encode as for that one, for new data: columns are matched by name, and categories, means
        and the treatment of missing values are those found there.
    unknown : {"error", "ignore"}, default="error"
        What to do with a text that `like` does not know: refuse it, or treat it as none of its
        categories.
    drop : list of str, default=None
        Columns to leave out: names, identifiers, dates.

    Returns
    -------
    Dataset
        `X` and `y` for an estimator, and what was understood: `print` it.

    Examples
    --------
    >>> import tempfile, pyarrow, pyarrow.parquet, ling.scan
    >>> path = tempfile.mkdtemp() + "/homes.parquet"
    >>> homes = {"area": [50.0, 80.0, 65.0], "city": ["Oslo", "Bergen", "Oslo"], "rent": [9, 8, 7]}
    >>> pyarrow.parquet.write_table(pyarrow.table(homes), path)
    >>> data = ling.scan.scan_parquet(path, target="rent")
    >>> data.feature_names
    ('area', 'city=Bergen', 'city=Oslo')
    >>> data.y
    array([9, 8, 7])
    """
    return _scan_files("parquet", source, Asked(target, features, missing, like, unknown, drop))


def scan_csv(
    source: Any,
    target: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    *,
    missing: str = "error",
    like: Any = None,
    unknown: str = "error",
    drop: Sequence[str] | None = None,
    texts: Sequence[str] = (),
) -> Dataset:
    r"""CSV files with a header as X and y, read a block of rows at a time.

    Every pass reads and parses the text again; for more than a few passes, Parquet is many times
    faster. Fields that are empty, or NA, NaN or null without quotes, are missing. Semicolons, tabs
    and bars between fields are recognised where the header has no comma, and then fractions with a
    comma too. For anything else pass a `pyarrow.dataset.Dataset` to `scan_arrow`.

    Parameters
    ----------
    source, target, features, missing, like, unknown, drop
        As for `scan_parquet`.
    texts : sequence of str, default=()
        Columns that are text, though they look like numbers: postcodes, say.

    Returns
    -------
    Dataset
        `X` and `y` for an estimator, and what was understood: `print` it.

    Examples
    --------
    >>> import pathlib, tempfile, ling.scan
    >>> path = pathlib.Path(tempfile.mkdtemp(), "homes.csv")
    >>> _ = path.write_text("area,city,rent\n50,Oslo,9\n80,Bergen,11\n")
    >>> ling.scan.scan_csv(path, target="rent").feature_names
    ('area', 'city=Bergen', 'city=Oslo')
    """
    asked = Asked(target, features, missing, like, unknown, drop)
    return _scan_files("csv", source, asked, texts)


def scan_feather(
    source: Any,
    target: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    *,
    missing: str = "error",
    like: Any = None,
    unknown: str = "error",
    drop: Sequence[str] | None = None,
) -> Dataset:
    """Feather (Arrow IPC) files as X and y, read a block of rows at a time.

    Parameters
    ----------
    source, target, features, missing, like, unknown, drop
        As for `scan_parquet`.

    Returns
    -------
    Dataset
        `X` and `y` for an estimator, and what was understood: `print` it.

    Examples
    --------
    >>> import tempfile, pyarrow, pyarrow.feather, ling.scan
    >>> path = tempfile.mkdtemp() + "/homes.feather"
    >>> homes = pyarrow.table({"area": [50.0, 80.0], "city": ["Oslo", "Bergen"], "rent": [9, 8]})
    >>> pyarrow.feather.write_feather(homes, path)
    >>> ling.scan.scan_feather(path, target="rent").feature_names
    ('area', 'city=Bergen', 'city=Oslo')
    """
    return _scan_files("feather", source, Asked(target, features, missing, like, unknown, drop))


def scan_arrow(
    data: Any,
    target: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    *,
    missing: str = "error",
    like: Any = None,
    unknown: str = "error",
    drop: Sequence[str] | None = None,
) -> Dataset:
    """A pyarrow Table, RecordBatch or Dataset as X and y.

    Parameters
    ----------
    data : pyarrow.Table, pyarrow.RecordBatch or pyarrow.dataset.Dataset
        A table in memory, or files that pyarrow can read: a Delta table by
        `DeltaTable(path).to_pyarrow_dataset()`, one of Iceberg by `table.scan().to_arrow()`.
    target, features, missing, like, unknown, drop
        As for `scan_parquet`.

    Returns
    -------
    Dataset
        `X` and `y` for an estimator, and what was understood: `print` it.

    Examples
    --------
    >>> import pyarrow, ling.scan
    >>> table = pyarrow.table({"area": [50.0, 80.0], "city": ["Oslo", "Bergen"], "rent": [9, 11]})
    >>> print(ling.scan.scan_arrow(table, target="rent"))
    2 rows x 3 columns of float64, from a table in memory
      target   'rent'
      numeric  1: area
      one-hot  1: city (2 categories)
      missing  refused
    """
    need_pyarrow()
    asked = Asked(target, features, missing, like, unknown, drop)
    table = _in_memory(data)
    if table is not None:
        return dataset_of(table.schema, (TablePart(table),), "a table in memory", asked)
    called = f"a dataset of {type(data).__name__}"
    return dataset_of(data.schema, parts_of(data), called, asked)


def _in_memory(data: Any) -> Any:
    """The table of data that is in memory; None if it is in files."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, ds.InMemoryDataset):
        return data.to_table()
    if isinstance(data, ds.Dataset):
        return None
    raise WrongType(
        f"data is a {type(data).__name__}; pass a pyarrow Table, RecordBatch or Dataset."
    )


def _scan_files(kind: str, source: Any, asked: Asked, texts: Sequence[str] = ()) -> Dataset:
    need_pyarrow()
    dataset, called = open_files(source, kind, asked.encoding, texts)
    parts = parts_of(dataset)
    versions = FileVersions.of(files_of(parts))
    takes_all = asked.features is None and asked.encoding is None
    notes = late_columns(dataset.schema, parts) if takes_all else ()
    return dataset_of(dataset.schema, parts, called, asked, versions=versions, notes=notes)
