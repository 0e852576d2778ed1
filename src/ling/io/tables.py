"""Paths, patterns and folders as parts that can be read."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard

from ling._typing import FilePath
from ling.errors import DataFileError, InputTypeError, MissingPackageError, Where
from ling.io.dataset import abbreviate_list
from ling.io.encoding import Encoding
from ling.io.fragments import (
    Fragment,
    ParquetFragment,
    ScannedFragment,
    check_ipc_file,
    not_utf8_error,
    translate_arrow_errors,
)

TABLE_SUFFIXES = {
    "parquet": (".parquet", ".pq", ".parq"),
    "csv": (".csv", ".csv.gz", ".csv.bz2", ".tsv", ".tsv.gz", ".tsv.bz2"),
    "feather": (".feather", ".arrow", ".ipc"),
}
FORMAT_NAMES = {"parquet": "Parquet", "csv": "CSV", "feather": "Feather"}
# What divides fields where commas do not, and how much of a file is looked at for it.
CSV_DELIMITERS = (";", "\t", "|")
CSV_SNIFF_BYTES, CSV_SNIFF_LINES = 2**16, 50
# What pyarrow says of these, in words that may change with its version.
DUPLICATE_COLUMN_MESSAGE = re.compile(r"multiple columns named (.+?)\)?$|duplicate field names")
# The folder in which a Delta table keeps track of its files.
DELTA_LOG_FOLDER = "_delta_log"
# Of a column of CSV whose first rows are whole numbers.
INTEGER_INFERRED_METADATA = {b"ling": b"whole numbers at first"}


def check_pyarrow_installed() -> None:
    """A kind error where pyarrow is missing."""
    try:
        import pyarrow.dataset  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            "reading Parquet, CSV and Arrow data needs pyarrow; pip install 'ling[parquet]'."
        ) from error


def is_path(value: Any) -> TypeGuard[FilePath]:
    """Whether it is the path of a file."""
    return isinstance(value, str | os.PathLike)


def open_arrow_dataset(
    source: Any, kind: str, like: Encoding | None = None, texts: Sequence[str] = ()
) -> tuple[Any, str]:
    """The `pyarrow.dataset.Dataset` of a path, pattern, folder or list, and what to call it."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    paths, folder = _expand_source(source, kind)
    if kind == "parquet":
        check_not_table_format(paths)
    _check_not_empty(paths)
    form = _csv_format(paths[0]) if kind == "csv" else kind
    remote = paths[0] if len(paths) == 1 else paths
    try:
        folders = {} if folder is None else _hive_folders(paths, folder, form)
        data = ds.dataset(remote, format=form, **folders)
        if kind == "csv":
            data = ds.dataset(
                remote, schema=_widen_schema(data.schema, like, texts), format=form, **folders
            )
        _ = data.schema.names  # decoded when they are asked for
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if kind == "csv" and isinstance(error, UnicodeDecodeError):
            raise not_utf8_error(paths[0]) from error
        raise _open_error(" ".join(str(error).split()), kind, paths) from error
    return data, _describe_files(paths, FORMAT_NAMES[kind])


def _hive_folders(paths: Sequence[str], folder: str, form: Any) -> dict[str, Any]:
    """Options for `pyarrow.dataset.dataset` that read `year=2024` in folder names as a column.

    Files may hold such a column, too. Then it has the type that they give it, because pyarrow does
    not merge it with the type that it infers from the folder names.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    keys = [part.partition("=") for path in paths for part in Path(path).parent.parts]
    values: dict[str, list[str]] = {}
    for name, sign, value in keys:
        if sign:
            values.setdefault(name, []).append(value)
    own = ds.dataset([paths[0]], format=form).schema
    partitioning: Any = "hive"
    if any(name in own.names for name in values):
        types = {
            name: own.field(name).type if name in own.names
            else pa.int32() if all(value.isdigit() for value in found)
            else pa.string()
            for name, found in values.items()
        }  # fmt: skip
        partitioning = ds.partitioning(pa.schema(list(types.items())), flavor="hive")
    return {"partitioning": partitioning, "partition_base_dir": folder}


def check_not_table_format(paths: Sequence[str]) -> None:
    """Raise InputTypeError if files belong to a Delta or Iceberg table.

    Such a table keeps files of rows that were deleted or replaced; only its log tells which ones.
    """
    from pyarrow.fs import FileType

    for files, folder in _parent_folders(paths):
        try:
            log, metadata = files.get_file_info(
                [f"{folder}/{DELTA_LOG_FOLDER}", f"{folder}/metadata"]
            )
        except OSError:  # a folder above the files that may not be looked into
            continue
        if log.type == FileType.Directory:
            remedy = f"DeltaTable({folder!r}).to_pyarrow_dataset()"
            raise _table_format_error("a Delta", folder, DELTA_LOG_FOLDER, remedy, "deltalake")
        if metadata.type == FileType.Directory and _has_iceberg_metadata(files, metadata.path):
            remedy = "table.scan().to_arrow()"
            raise _table_format_error(
                "an Iceberg", folder, "metadata/*.metadata.json", remedy, "pyiceberg"
            )


def _parent_folders(paths: Sequence[str]) -> Iterator[tuple[Any, str]]:
    """All folders that paths lie in, each with its `pyarrow.fs.FileSystem`."""
    from pyarrow import ArrowInvalid
    from pyarrow.fs import FileSystem, LocalFileSystem

    local, seen = LocalFileSystem(), set()
    for path in paths:
        try:
            files, place = FileSystem.from_uri(path) if "://" in path else (local, path)
        except (ArrowInvalid, OSError):  # told where it is opened
            continue
        place = PurePosixPath(Path(place).absolute().as_posix() if files is local else place)
        # An address may be that of a folder.
        for folder in (*([] if files is local else [place]), *place.parents):
            if (folder, files is local) not in seen and str(folder) != ".":
                seen.add((folder, files is local))
                yield files, str(folder)


def _has_iceberg_metadata(files: Any, folder: str) -> bool:
    from pyarrow.fs import FileSelector

    try:
        names = [about.base_name for about in files.get_file_info(FileSelector(folder))]
    except OSError:  # a folder that may not be looked into
        return False
    return any(name.endswith(".metadata.json") for name in names)


def _table_format_error(
    title: str, folder: str, sign: str, remedy: str, package: str
) -> InputTypeError:
    return InputTypeError(
        "source",
        f"lies in {folder!r}, which is {title} table (it has {sign}), so some of its files may "
        "have rows that were deleted or replaced",
        f"read its current rows with {package}: ling.scan_arrow({remedy}, ...)",
        "write these to Parquet files outside of the table and pass those",
    )


def _check_not_empty(paths: list[str]) -> None:
    for path in paths:
        if os.path.isfile(path) and not os.path.getsize(path):
            raise DataFileError(
                "source", "is empty", "pass a file with rows", where=Where(file=path)
            )


def _open_error(said: str, kind: str, paths: list[str]) -> DataFileError:
    """What pyarrow says, or what it means."""
    twins = DUPLICATE_COLUMN_MESSAGE.search(said)
    if twins is None:
        path = next((path for path in paths if path in said), paths[0])
        return DataFileError(
            "source",
            f"cannot be read as {FORMAT_NAMES[kind]} ({said})",
            f"pass the path of a {FORMAT_NAMES[kind]} file, or a pattern or folder of them",
            where=Where(file=path),
        )
    name = twins[1] or _duplicate_column(paths[0], kind)
    columns = f"two columns named {name!r}" if name else "two columns of the same name"
    return DataFileError(
        "source", f"has {columns}", "rename one of them", where=Where(file=paths[0])
    )


def _duplicate_column(path: str, kind: str) -> str | None:
    """The name that two columns of a Parquet or Feather file have; None for other files."""
    from pyarrow.ipc import open_file
    from pyarrow.parquet import read_schema

    if kind == "csv" or not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        names = read_schema(file).names if kind == "parquet" else open_file(file).schema.names
    return next((name for name in names if names.count(name) > 1), None)


def _describe_files(paths: list[str], title: str) -> str:
    if len(paths) == 1:
        return f"{title} file {paths[0]!r}"
    return f"{len(paths)} {title} files, the first {paths[0]!r}"


def integer_inferred_columns(schema: Any) -> tuple[str, ...]:
    """Columns whose first rows are whole numbers, though others may not be."""
    return tuple(
        field.name for field in schema if (field.metadata or {}) == INTEGER_INFERRED_METADATA
    )


def dataset_fragments(dataset: Any) -> tuple[Fragment, ...]:
    """One part for each file of a `pyarrow.dataset.Dataset`."""
    from pyarrow.dataset import IpcFileFormat, ParquetFileFragment

    try:
        fragments = list(dataset.get_fragments())
    except ValueError as error:
        raise InputTypeError(
            "data",
            "is a filtered dataset, whose number of rows is not known before they are read",
            "write the rows to Parquet first",
            "pass its to_table() if they fit in memory",
        ) from error
    for fragment in fragments:
        if isinstance(getattr(fragment, "format", None), IpcFileFormat):
            check_ipc_file(fragment)
    return tuple(
        ParquetFragment(fragment)
        if isinstance(fragment, ParquetFileFragment)
        else ScannedFragment(fragment, dataset.schema)
        for fragment in fragments
    )


def extra_column_notes(schema: Any, parts: Sequence[Fragment]) -> tuple[str, ...]:
    """A note on columns that later files have and the first one, whose schema it is, has not."""
    known, late = set(schema.names), dict[str, str]()
    for part in parts if len(parts) > 1 else ():
        for name in part.columns():
            if name not in known:
                late.setdefault(name, part.path)
    if not late:
        return ()
    names = abbreviate_list(f"{name!r} (as in {path!r})" for name, path in late.items())
    plural = len(late) > 1
    return (
        f"Column{'s' if plural else ''} {names} {'are' if plural else 'is'} left out: the columns "
        "are those of the first file. Give all files the same columns to use all of them.",
    )


def _expand_source(source: Any, kind: str) -> tuple[list[str], str | None]:
    """The files, in order, and the folder they were found in, if it was a folder or a pattern.

    The names of folders below that one may hold columns (`year=2024/`).
    """
    if is_path(source):
        path = os.path.expanduser(os.fspath(source))
        if os.path.isdir(path):
            return _files_in_folder(path, kind), path
        is_pattern = glob.has_magic(path) and not os.path.exists(path) and "://" not in path
        return _expand_pattern(path), _pattern_root(path) if is_pattern else None
    if isinstance(source, list | tuple) and all(is_path(path) for path in source):
        if not source:
            raise DataFileError("source", "is an empty list", "pass the paths of some files")
        return [_check_exists(os.fspath(path)) for path in source], None
    raise InputTypeError(
        "source",
        f"is a {type(source).__name__}",
        f"pass a path, a pattern like 'data/*.{kind}', a folder, or a list of paths",
    )


def _files_in_folder(folder: str, kind: str) -> list[str]:
    """Files of that kind in a folder and in the folders in it; those that are hidden are not."""
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    paths = sorted(
        str(path)
        for path in files
        if path.name.lower().endswith(TABLE_SUFFIXES[kind]) and path.name[0] not in "._"
    )
    if not paths:
        raise DataFileError(
            "source",
            f"is a folder without {FORMAT_NAMES[kind]} files (*{TABLE_SUFFIXES[kind][0]})",
            "pass a pattern if they are named otherwise",
            where=Where(file=folder),
        )
    return paths


def _pattern_root(pattern: str) -> str:
    """The folder that a pattern is about: what stands before the first part with a wildcard.

    >>> _pattern_root("sales/**/*.parquet")
    'sales'
    """
    fixed = takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts)
    return str(Path(*fixed))


def _expand_pattern(pattern: str) -> list[str]:
    """The files that a pattern stands for; a path, or an address like s3://, is itself."""
    if os.path.exists(pattern) or "://" in pattern:
        return [pattern]
    if not glob.has_magic(pattern):
        return [_check_exists(pattern)]
    paths = sorted(glob.glob(pattern, recursive=True))
    if not paths:
        raise unmatched_pattern_error(pattern)
    return paths


def _check_exists(path: str) -> str:
    if not os.path.isfile(path):
        raise missing_file_error(path)
    return path


def missing_file_error(path: str) -> DataFileError:
    """The error for a path where nothing is."""
    return DataFileError(
        "source", "does not exist", "pass the path of a file", where=Where(file=path)
    )


def unmatched_pattern_error(pattern: str) -> DataFileError:
    """The error for a pattern that no file matches."""
    return DataFileError(
        "source", "matches no file", "check the pattern", where=Where(file=pattern)
    )


def _csv_format(path: str) -> Any:
    """CSV as usual: what is empty, or says NA or null outside of quotes, is missing."""
    from pyarrow.csv import ConvertOptions, ParseOptions
    from pyarrow.dataset import CsvFileFormat

    tabs = ".tsv" in os.path.basename(path).lower()
    separator, point = _sniff_csv(_read_first_lines(path), "\t" if tabs else None)
    options = ConvertOptions(
        strings_can_be_null=True, quoted_strings_can_be_null=False, decimal_point=point
    )
    return CsvFileFormat(ParseOptions(delimiter=separator), convert_options=options)


def _read_first_lines(path: str) -> list[str]:
    """The header and some rows; nothing of a file that is not on this machine."""
    import pyarrow as pa

    if not os.path.isfile(path):
        return []
    with translate_arrow_errors(path), pa.input_stream(path) as file:  # compressed or not
        return (
            bytes(file.read(CSV_SNIFF_BYTES))
            .decode("utf-8", "replace")
            .splitlines()[:CSV_SNIFF_LINES]
        )


def _sniff_csv(lines: list[str], separator: str | None = None) -> tuple[str, str]:
    """What stands between fields, and before fractions.

    Where there is no comma in the header, it may be another sign that divides it; and where that
    is a semicolon, fractions may have a comma. A `separator` that is known is kept.

    >>> _sniff_csv(["area;city;rent", "50,5;Oslo;9"])
    (';', ',')
    >>> _sniff_csv(["area,city;state,rent", "50.5,Oslo;x,9"])
    (',', '.')
    """
    header = lines[0] if lines else ""
    if separator is None:
        separator = max(CSV_DELIMITERS, key=header.count)
        if "," in header or separator not in header:
            return ",", "."
    fields = [field for line in lines[1:] for field in line.split(separator)]
    commas = any(re.fullmatch(r"\s*[-+]?\d+,\d+\s*", field) for field in fields)
    points = any(re.fullmatch(r"\s*[-+]?\d+\.\d+\s*", field) for field in fields)
    return separator, "," if commas and not points else "."


def _widen_schema(schema: Any, like: Encoding | None, texts: Sequence[str]) -> Any:
    """The schema of the first rows, with room for what later ones may hold.

    Integers may be followed by fractions. What was text before is text again, if it is digits.
    """
    import pyarrow as pa

    if like is not None:
        texts = [*texts, *(column.name for column in like.one_hot)]
    fields = []
    for field in schema:
        if field.name in texts:
            field = field.with_type(pa.string())
        elif pa.types.is_integer(field.type):
            field = field.with_type(pa.float64()).with_metadata(INTEGER_INFERRED_METADATA)
        elif pa.types.is_binary(field.type):  # what pyarrow makes of other signs than UTF-8's
            field = field.with_type(pa.string())
        elif pa.types.is_null(field.type):
            field = field.with_type(pa.float64())
        fields.append(field)
    return pa.schema(fields)
