"""Tables: Parquet, CSV, and what pyarrow holds in memory or reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array, FilePath, HasSchema, MissingRule, UnknownRule
from ling.design.chunked import prefetch
from ling.design.row_source import FileVersions, RowSource
from ling.errors import InputTypeError
from ling.io.buffer_pool import BufferPool
from ling.io.column_profile import check_numeric_columns, infer_encoding
from ling.io.column_spec import ColumnSpec, check_unique_columns
from ling.io.column_writers import (
    EncodingCounts,
    RowIndexer,
    column_writers,
    is_categorical,
)
from ling.io.dataset import Dataset
from ling.io.encoding import Encoding, FittedToTable, check_unique_names
from ling.io.fragments import (
    Fragment,
    FragmentedTable,
    InMemoryFragment,
    RecordBatch,
    RecordBatches,
    local_files,
)
from ling.io.table_target import TableTargetReader
from ling.io.tables import (
    check_pyarrow_installed,
    dataset_fragments,
    extra_column_notes,
    integer_inferred_columns,
    open_arrow_dataset,
)


class ArrowSource(RowSource):
    """The encoded columns of a table."""

    def __init__(
        self,
        rows: FragmentedTable,
        encoding: Encoding,
        dtype: Any,
        unknown: str = "error",
        encoding_counts: EncodingCounts | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.table = rows
        self.encoding = encoding
        self.unknown = unknown
        # Counts values that are filled in or ignored while blocks are read; None counts nothing.
        self.encoding_counts = encoding_counts
        self.notes = notes
        self.shape = (rows.n_rows, encoding.width)
        self.dtype = np.dtype(dtype)
        self.feature_names = encoding.names
        self.versions = rows.versions

    def with_encoding_counts(self, counts: EncodingCounts) -> ArrowSource:
        """Return a copy that adds the numbers of filled and ignored values to `counts`."""
        return ArrowSource(self.table, self.encoding, self.dtype, self.unknown, counts, self.notes)

    def blocks(self, rows: slice, height: int) -> Iterator[Array]:
        """Columns copied into blocks in Fortran's order, as Arrow holds columns too."""
        start, stop, _ = rows.indices(self.shape[0])
        height, width = max(1, min(height, stop - start)), self.shape[1]
        encoder, buffers = (
            _BatchEncoder(self.encoding, self.unknown, self.encoding_counts),
            BufferPool(height * width, self.dtype),
        )
        block, filled = buffers.allocate_block(height, width), 0
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
                    block, filled = buffers.allocate_block(min(height, stop - start), width), 0

    @property
    def has_row_access(self) -> bool:
        """Tables in memory can be indexed; files are read from their beginning."""
        return all(isinstance(part, InMemoryFragment) for part in self.table.fragments)

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Some rows of a table in memory."""
        (part,) = self.table.fragments
        assert isinstance(part, InMemoryFragment)
        encoder, filled = _BatchEncoder(self.encoding, self.unknown, self.encoding_counts), 0
        block = np.empty((len(rows), self.shape[1]), self.dtype, order="F")
        for batch in part.table.select(list(self.encoding.inputs)).take(rows).to_batches():
            here = rows[filled : filled + batch.num_rows]
            encoder.write(batch, block[filled : filled + batch.num_rows], here.item)
            filled += batch.num_rows
        return block

    @property
    def files(self) -> tuple[str, ...]:
        """Those of its parts."""
        return local_files(self.table.fragments)

    @property
    def description(self) -> str:
        """Where the table lies."""
        return self.table.description

    def _batches(self, start: int, stop: int) -> RecordBatches:
        """Record batches of these rows; from files, the next is decoded while one is copied."""
        batches = self.table.read_batches(self.encoding.inputs, start, stop)
        return batches if self.has_row_access else prefetch(batches)


class _BatchEncoder:
    """Writes record batches into blocks."""

    def __init__(self, encoding: Encoding, unknown: str, tally: EncodingCounts | None) -> None:
        widths = [column.width for column in encoding.columns]
        places = [slice(a, a + b) for a, b in zip(encoding.starts, widths, strict=True)]
        self.writers = list(
            zip(column_writers(encoding, unknown, tally or EncodingCounts()), places, strict=True)
        )

    def write(self, batch: RecordBatch, out: Array, row_of: RowIndexer) -> None:
        """A batch, whose i-th row is row_of(i) of the table."""
        for (write, place), array in zip(self.writers, batch.columns, strict=True):
            write(array, out[:, place], row_of)


def build_dataset(
    schema: Any, parts: Sequence[Fragment], description: str, asked: ColumnSpec,
    counts: tuple[int, ...] | None = None, versions: FileVersions | None = None,
    notes: tuple[str, ...] = (),
) -> Dataset:  # fmt: skip
    """What the table comes to; one pass over the columns that take one.

    `counts` are the rows of the parts, if they are known, and `versions` their files as they were
    before that. `notes` go into the reports of fits.
    """
    versions = versions or FileVersions.from_paths("data", local_files(parts))
    known = tuple(schema.names)
    names = asked.select_features(known)
    kinds = {name: schema.field(name).type for name in names}
    if asked.encoding is None:
        texts = [name for name, kind in kinds.items() if is_categorical(name, kind)]
        encoding, counts = infer_encoding(parts, names, texts, asked.missing)
    else:
        encoding, counts = asked.encoding, counts or tuple(part.count_rows() for part in parts)
    before = "in earlier files" if asked.encoding is None else "in the fit"
    check_numeric_columns([column.name for column in encoding.numeric], kinds, parts, before)
    check_unique_names(encoding)
    rows = FragmentedTable(tuple(parts), counts, description, versions)
    stored = [kind for part in parts for kind in part.column_types(names)]
    dtype = _common_dtype([*kinds.values(), *stored])
    source = ArrowSource(rows, encoding, dtype, asked.unknown, notes=notes)
    several = asked.target is not None and not isinstance(asked.target, str)
    target_reader = TableTargetReader(
        rows, known, asked.target_names, several, integer_inferred_columns(schema)
    )
    return Dataset(source, target_reader, encoding)


def _common_dtype(kinds: Any) -> Any:
    """float32 if all columns are, in all files, else float64."""
    from pyarrow import types

    return np.float32 if all(types.is_float32(kind) for kind in kinds) else np.float64


def scan_parquet(
    source: FilePath | Sequence[FilePath],
    target: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    *,
    missing: MissingRule = "error",
    like: FittedToTable | Dataset | Encoding | None = None,
    unknown: UnknownRule = "error",
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
        For estimators, in place of X and y: `Ridge().fit(data)`. `print` it for a summary.

    Examples
    --------
    >>> import tempfile, pyarrow, pyarrow.parquet, ling.io
    >>> path = tempfile.mkdtemp() + "/homes.parquet"
    >>> homes = {"area": [50.0, 80.0, 65.0], "city": ["Oslo", "Bergen", "Oslo"], "rent": [9, 8, 7]}
    >>> pyarrow.parquet.write_table(pyarrow.table(homes), path)
    >>> data = ling.io.scan_parquet(path, target="rent")
    >>> data.feature_names
    ('area', 'city=Bergen', 'city=Oslo')
    >>> data.y
    array([9, 8, 7])
    """
    return _scan_files(
        "parquet", source, ColumnSpec(target, features, missing, like, unknown, drop)
    )


def scan_csv(
    source: FilePath | Sequence[FilePath],
    target: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    *,
    missing: MissingRule = "error",
    like: FittedToTable | Dataset | Encoding | None = None,
    unknown: UnknownRule = "error",
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
        For estimators, in place of X and y: `Ridge().fit(data)`. `print` it for a summary.

    Examples
    --------
    >>> import pathlib, tempfile, ling.io
    >>> path = pathlib.Path(tempfile.mkdtemp(), "homes.csv")
    >>> _ = path.write_text("area,city,rent\n50,Oslo,9\n80,Bergen,11\n")
    >>> ling.io.scan_csv(path, target="rent").feature_names
    ('area', 'city=Bergen', 'city=Oslo')
    """
    asked = ColumnSpec(target, features, missing, like, unknown, drop)
    return _scan_files("csv", source, asked, texts)


def scan_feather(
    source: FilePath | Sequence[FilePath],
    target: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    *,
    missing: MissingRule = "error",
    like: FittedToTable | Dataset | Encoding | None = None,
    unknown: UnknownRule = "error",
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
        For estimators, in place of X and y: `Ridge().fit(data)`. `print` it for a summary.

    Examples
    --------
    >>> import tempfile, pyarrow, pyarrow.feather, ling.io
    >>> path = tempfile.mkdtemp() + "/homes.feather"
    >>> homes = pyarrow.table({"area": [50.0, 80.0], "city": ["Oslo", "Bergen"], "rent": [9, 8]})
    >>> pyarrow.feather.write_feather(homes, path)
    >>> ling.io.scan_feather(path, target="rent").feature_names
    ('area', 'city=Bergen', 'city=Oslo')
    """
    return _scan_files(
        "feather", source, ColumnSpec(target, features, missing, like, unknown, drop)
    )


def scan_arrow(
    data: HasSchema,
    target: str | Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    *,
    missing: MissingRule = "error",
    like: FittedToTable | Dataset | Encoding | None = None,
    unknown: UnknownRule = "error",
    drop: Sequence[str] | None = None,
) -> Dataset:
    """A pyarrow Table, RecordBatch or Dataset, or a data frame of pandas or polars, as X and y.

    Parameters
    ----------
    data : pyarrow.Table, pyarrow.RecordBatch, pyarrow.dataset.Dataset or data frame
        A table in memory, or files that pyarrow can read: a Delta table by
        `DeltaTable(path).to_pyarrow_dataset()`, one of Iceberg by `table.scan().to_arrow()`.
    target, features, missing, like, unknown, drop
        As for `scan_parquet`.

    Returns
    -------
    Dataset
        For estimators, in place of X and y: `Ridge().fit(data)`. `print` it for a summary.

    Examples
    --------
    >>> import pyarrow, ling.io
    >>> table = pyarrow.table({"area": [50.0, 80.0], "city": ["Oslo", "Bergen"], "rent": [9, 11]})
    >>> print(ling.io.scan_arrow(table, target="rent"))
    2 rows x 3 columns of float64, from a table in memory
      target   'rent'
      numeric  1: area
      one-hot  1: city (2 categories)
      missing  refused
    """
    check_pyarrow_installed()
    asked = ColumnSpec(target, features, missing, like, unknown, drop)
    table = _as_table(data)
    if table is not None:
        return build_dataset(table.schema, (InMemoryFragment(table),), "a table in memory", asked)
    called = f"a dataset of {type(data).__name__}"
    return build_dataset(data.schema, dataset_fragments(data), called, asked)


def _as_table(data: Any) -> Any:
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
    if hasattr(data, "__arrow_c_stream__"):  # data frames of pandas and polars
        check_unique_columns("data", data)
        return pa.table(data)
    raise InputTypeError(
        "data",
        f"is a {type(data).__name__}",
        "pass a pyarrow Table, RecordBatch or Dataset, or a data frame",
    )


def _scan_files(kind: str, source: Any, asked: ColumnSpec, texts: Sequence[str] = ()) -> Dataset:
    check_pyarrow_installed()
    dataset, called = open_arrow_dataset(source, kind, asked.encoding, texts)
    parts = dataset_fragments(dataset)
    versions = FileVersions.from_paths("source", local_files(parts))
    takes_all = asked.features is None and asked.encoding is None
    notes = extra_column_notes(dataset.schema, parts) if takes_all else ()
    return build_dataset(dataset.schema, parts, called, asked, versions=versions, notes=notes)
