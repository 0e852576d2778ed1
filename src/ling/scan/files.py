"""Paths, patterns and folders as parts that can be read."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ling.errors import MissingData, NotInstalled, WrongType
from ling.scan.encoding import Encoding
from ling.scan.parts import ParquetPart, Part, ScannedPart

SUFFIXES = {
    "parquet": (".parquet", ".pq", ".parq"),
    "csv": (".csv", ".csv.gz", ".csv.bz2"),
    "feather": (".feather", ".arrow", ".ipc"),
}
TITLES = {"parquet": "Parquet", "csv": "CSV", "feather": "Feather"}
# Of a column of CSV whose first rows are whole numbers.
COUNTED = {b"ling": b"whole numbers at first"}


def need_pyarrow() -> None:
    """A kind error where pyarrow is missing."""
    try:
        import pyarrow.dataset  # noqa: F401
    except ImportError as error:
        raise NotInstalled(
            "reading Parquet, CSV and Arrow data needs pyarrow; pip install 'ling[parquet]'."
        ) from error


def is_path(value: Any) -> bool:
    """Whether it is the path of a file."""
    return isinstance(value, str | os.PathLike)


def open_files(source: Any, kind: str, like: Encoding | None = None) -> tuple[Any, str]:
    """The `pyarrow.dataset.Dataset` of a path, pattern, folder or list, and what to call it."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    paths, folder = _found(source, kind)
    form = _csv_format() if kind == "csv" else kind
    folders = {} if folder is None else {"partitioning": "hive", "partition_base_dir": folder}
    remote = paths[0] if len(paths) == 1 else paths
    try:
        data = ds.dataset(remote, format=form, **folders)
        if kind == "csv":
            data = ds.dataset(remote, schema=_wider(data.schema, like), format=form, **folders)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise MissingData(
            f"source cannot be read as {TITLES[kind]} ({error}); pass the path of a "
            f"{TITLES[kind]} file, a pattern or a folder of them."
        ) from error
    return data, _called(paths, TITLES[kind])


def _called(paths: list[str], title: str) -> str:
    if len(paths) == 1:
        return f"{title} file {paths[0]!r}"
    return f"{len(paths)} {title} files, the first {paths[0]!r}"


def counted(schema: Any) -> tuple[str, ...]:
    """Columns whose first rows are whole numbers, though others may not be."""
    return tuple(field.name for field in schema if (field.metadata or {}) == COUNTED)


def parts_of(dataset: Any) -> tuple[Part, ...]:
    """One part for each file of a `pyarrow.dataset.Dataset`."""
    from pyarrow.dataset import ParquetFileFragment

    try:
        fragments = list(dataset.get_fragments())
    except ValueError as error:
        raise WrongType(
            "X is a filtered dataset, whose rows are not known before they are read; write the "
            "rows to Parquet first, or pass X.to_table() if they fit in memory."
        ) from error
    return tuple(
        ParquetPart(fragment)
        if isinstance(fragment, ParquetFileFragment)
        else ScannedPart(fragment, dataset.schema)
        for fragment in fragments
    )


def _found(source: Any, kind: str) -> tuple[list[str], str | None]:
    """The files, in order, and the folder they were found in, if it was one."""
    if is_path(source):
        path = os.path.expanduser(os.fspath(source))
        if os.path.isdir(path):
            return _inside(path, kind), path
        return _matching(path), None
    if isinstance(source, list | tuple) and all(is_path(path) for path in source):
        if not source:
            raise MissingData("source is an empty list; pass the paths of some files.")
        return [_existing(os.fspath(path)) for path in source], None
    raise WrongType(
        f"source is a {type(source).__name__}; pass a path, a pattern like 'data/*.{kind}', a "
        "folder, or a list of paths."
    )


def _inside(folder: str, kind: str) -> list[str]:
    """Files of that kind in a folder and in the folders in it; those that are hidden are not."""
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    paths = sorted(
        str(path)
        for path in files
        if path.name.lower().endswith(SUFFIXES[kind]) and path.name[0] not in "._"
    )
    if not paths:
        raise MissingData(
            f"source={folder!r} is a folder without {TITLES[kind]} files (*{SUFFIXES[kind][0]}); "
            "pass a pattern if they are named otherwise."
        )
    return paths


def _matching(pattern: str) -> list[str]:
    """The files that a pattern stands for; a path, or an address like s3://, is itself."""
    if os.path.exists(pattern) or "://" in pattern:
        return [pattern]
    if not glob.has_magic(pattern):
        return [_existing(pattern)]
    paths = sorted(glob.glob(pattern, recursive=True))
    if not paths:
        raise MissingData(f"source={pattern!r} matches no file; check the pattern.")
    return paths


def _existing(path: str) -> str:
    if not os.path.isfile(path):
        raise MissingData(f"source={path!r} is not there; pass the path of a file.")
    return path


def _csv_format() -> Any:
    """CSV as usual: what is empty, or says NA or null outside of quotes, is missing."""
    from pyarrow.csv import ConvertOptions
    from pyarrow.dataset import CsvFileFormat

    options = ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    return CsvFileFormat(convert_options=options)


def _wider(schema: Any, like: Encoding | None) -> Any:
    """The schema of the first rows, with room for what later ones may hold.

    Integers may be followed by fractions. What was text before is text again, if it is digits.
    """
    import pyarrow as pa

    texts: Sequence[str] = () if like is None else [column.name for column in like.one_hot]
    fields = []
    for field in schema:
        if field.name in texts:
            field = field.with_type(pa.string())
        elif pa.types.is_integer(field.type):
            field = field.with_type(pa.float64()).with_metadata(COUNTED)
        elif pa.types.is_null(field.type):
            field = field.with_type(pa.float64())
        fields.append(field)
    return pa.schema(fields)
