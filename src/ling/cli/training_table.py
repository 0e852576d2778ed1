"""The user's file: what kind it is, what is in it, and what is to be done with its columns."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ling.cli.options import DataOptions
from ling.cli.table_messages import check_usable_columns, column_hints
from ling.errors import (
    DataFileError,
    InputTypeError,
    MissingValueError,
    OptionError,
    ShapeError,
    Where,
)
from ling.io import Dataset, scan_csv, scan_feather, scan_npy, scan_parquet
from ling.io.column_spec import ColumnSpec, check_column_names
from ling.io.dataset import abbreviate_list
from ling.io.npy import read_npy
from ling.io.table_profile import OpenTable, TableProfile
from ling.io.tables import TABLE_SUFFIXES, missing_file_error, unmatched_pattern_error

FORMAT_SUFFIXES = {**TABLE_SUFFIXES, "npy": (".npy",)}
SCANNERS = {"parquet": scan_parquet, "csv": scan_csv, "feather": scan_feather}
# From so many columns for one column of text on it is worth a word.
MANY_CATEGORIES = 1000
# What identifiers are often called.
IDENTIFIER_NAMES = ("id", "index", "key", "uuid", "guid", "rowid")
WEIGHTS_FILE_ADVICE = "pass a .npy file of numbers, one for each row"


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """The data, and what there is to say of them."""

    data: Dataset
    weights: Any
    summary: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
    missing: dict[str, int] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()


def file_format(path: str) -> str:
    """What kind of file it is, by its name; of folders and patterns, by the first file in them."""
    for kind, suffixes in FORMAT_SUFFIXES.items():
        if any(name.lower().endswith(suffixes) for name in expand_path(path)):
            return kind
    known = ", ".join(ending for suffixes in FORMAT_SUFFIXES.values() for ending in suffixes)
    raise OptionError(
        "data",
        "is of a kind that ling does not read",
        f"pass a file that ends in one of {known}",
        "pass a folder or pattern of such files",
        where=Where(file=path),
    )


def expand_path(path: str) -> list[str]:
    """What a path, a folder or a pattern stands for; an error if that is nothing."""
    place = os.path.expanduser(path)
    if os.path.isdir(place):
        names = sorted(str(found) for found in Path(place).rglob("*") if found.is_file())
        if not names:
            raise DataFileError(
                "data", "is an empty folder", "pass a folder with files", where=Where(file=path)
            )
        return names
    if glob.has_magic(place) and not os.path.exists(place):
        names = sorted(glob.glob(place, recursive=True))
        if not names:
            raise unmatched_pattern_error(path)
        return names
    if not os.path.exists(place) and "://" not in place:
        raise missing_file_error(path)
    return [place]


def read_training_table(wanted: DataOptions) -> TrainingTable:
    """Look at the data once, and decide what to do with every column."""
    kind = file_format(wanted.path)
    return _read_npy(wanted) if kind == "npy" else _read_table(wanted, kind)


def _read_npy(wanted: DataOptions) -> TrainingTable:
    """X.npy, and y.npy as the target."""
    if wanted.features is not None or wanted.drop:
        raise OptionError(
            "drop" if wanted.drop else "features",
            "needs column names, which .npy files do not have",
            "leave it out",
        )
    if wanted.skip_missing_target:
        raise OptionError(
            "skip_missing_target", f"needs a table, but {wanted.path!r} is an array", "leave it out"
        )
    if wanted.weights is not None and not os.path.exists(wanted.weights):
        raise DataFileError(
            "weights", "does not exist", WEIGHTS_FILE_ADVICE, where=Where(file=wanted.weights)
        )
    if not os.path.exists(wanted.target):
        raise DataFileError(
            "target",
            "does not exist",
            "pass the .npy file of the target, such as y.npy, for a .npy file of features",
            where=Where(file=wanted.target),
        )
    data = scan_npy(wanted.path, wanted.target)
    weights = None if wanted.weights is None else load_weights(wanted.weights)
    facts = (
        ("data", f"{wanted.path}: {_format_size(*data.shape)}"),
        ("target", f"{wanted.target} ({_describe_target(data.y, wanted.classify)})"),
    )
    return TrainingTable(data, weights, facts)


def load_weights(path: str) -> Any:
    """Weights of the rows from a .npy file."""
    weights = read_npy(path, "weights")
    if weights.dtype.kind not in "fiub":
        raise InputTypeError(
            "weights", f"has dtype {weights.dtype}", WEIGHTS_FILE_ADVICE, where=Where(file=path)
        )
    return weights


def _read_table(wanted: DataOptions, kind: str) -> TrainingTable:
    table = OpenTable.open(wanted.path, kind)
    others = [wanted.target] if wanted.weights is None else [wanted.target, wanted.weights]
    check_column_names([wanted.target], table.names, "target")
    check_column_names(others[1:], table.names, "weights")
    if wanted.weights == wanted.target:
        raise OptionError(
            "weights", "is the target", "pass another column", where=Where(column=wanted.weights)
        )
    names = _feature_columns(wanted, table, others)
    survey = table.profile((*names, wanted.target))
    about_files = table.notes if wanted.features is None else ()
    notes = list(about_files)
    if not survey.n_rows:
        raise no_rows_error(wanted.path)
    if wanted.skip_missing_target and survey.n_missing_in(wanted.target):
        notes.append(_skipped_rows_note(survey.n_missing_in(wanted.target), survey.n_rows, wanted))
        table = table.drop_missing(wanted.target)
        survey = table.profile((*names, wanted.target))
    check_usable_columns(survey, names, wanted)
    encoding = survey.encoding(names, wanted.missing)
    data = table.build_dataset(wanted.target, encoding, survey.row_counts, about_files)
    weights = read_weights(data, wanted.weights)
    missing = {seen.name: seen.missing for seen in survey.columns if seen.missing}
    notes += [*_table_notes(survey, data), *column_hints(survey, names)]
    dropped = tuple(name for name in table.names if name not in (*names, *others))
    facts = _summarize(wanted, data, missing, dropped)
    return TrainingTable(data, weights, facts, tuple(notes), missing, dropped)


def _feature_columns(
    wanted: DataOptions, table: OpenTable, others: Sequence[str]
) -> tuple[str, ...]:
    if wanted.features is not None:
        return ColumnSpec(wanted.target, wanted.features).select_features(table.names)
    used = [name for name in wanted.drop if name in others]
    if used:
        raise OptionError(
            "drop",
            "is the target or the weights",
            "leave it out of `drop`",
            where=Where(column=used[0]),
        )
    if not set(table.names) - set(others):
        raise ShapeError(
            "data",
            f"has no column besides {abbreviate_list(map(repr, others))}",
            "pass a file with columns to predict from",
            where=Where(file=wanted.path),
        )
    drop = (*wanted.drop, *others[1:])
    check_column_names(drop, table.names, "drop")
    if not set(table.names) - {*others, *drop}:
        raise ShapeError("drop", "leaves no column to predict from", "drop fewer columns")
    return ColumnSpec(wanted.target, drop=drop).select_features(table.names)


def no_rows_error(path: str) -> ShapeError:
    """The error for a table of no rows."""
    return ShapeError("data", "has no rows", "pass data with rows", where=Where(file=path))


def _skipped_rows_note(count: int, n_rows: int, wanted: DataOptions) -> str:
    if count == n_rows:
        raise ShapeError(
            "target",
            "has no value in any row",
            "name another column",
            where=Where(column=wanted.target),
        )
    return f"{count:,} of {n_rows:,} rows have no {wanted.target!r}, and are left out."


def read_weights(data: Dataset, name: str | None) -> Any:
    """Weights of the rows from a column of the table; None without a name."""
    if name is None:
        return None
    try:
        found = data.read(name)
    except (InputTypeError, MissingValueError) as error:
        raise type(error)("weights", error.problem, *error.remedies, where=error.where) from error
    if found.dtype.kind in "US":
        raise InputTypeError(
            "weights", "is text", "name a column of numbers", where=Where(column=name)
        )
    return found


def _format_size(n: int, p: int) -> str:
    return f"{n:,} rows, {p:,} column{'' if p == 1 else 's'} of numbers"


def _summarize(
    wanted: DataOptions, data: Dataset, missing: dict[str, int], dropped: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """A line for each thing that was understood."""
    assert data.encoding is not None
    numeric, one_hot = data.encoding.numeric, data.encoding.one_hot
    facts = [
        ("data", f"{wanted.path}: {_format_size(*data.shape)}"),
        ("target", f"{wanted.target} ({_describe_target(data.y, wanted.classify)})"),
    ]
    if numeric:
        facts.append(("numbers", f"{len(numeric)}: {abbreviate_list(c.name for c in numeric)}"))
    if one_hot:
        texts = abbreviate_list(
            f"{column.name} ({_format_categories(column.width)})" for column in one_hot
        )
        facts.append(("one-hot", f"{len(one_hot)}: {texts}"))
    if missing:
        gaps = abbreviate_list(f"{name} ({count:,})" for name, count in missing.items())
        facts.append(
            ("missing", f"{gaps}: filled with the column mean; missing text belongs to no category")
        )
    if wanted.weights is not None:
        facts.append(("weights", wanted.weights))
    if dropped:
        facts.append(("left out", abbreviate_list(dropped)))
    return tuple(facts)


def _format_categories(count: int) -> str:
    return f"{count:,} categor{'y' if count == 1 else 'ies'}"


def _describe_target(y: Any, classify: bool) -> str:
    if classify and y.ndim == 1:
        classes = np.unique(y)
        return f"{len(classes):,} classes: {abbreviate_list(map(str, classes))}"
    if y.dtype.kind in "US":
        return f"text, {len(np.unique(y)):,} classes"
    if y.dtype.kind == "b":
        return "true or false"
    return (
        f"{'whole numbers' if y.dtype.kind in 'iu' else 'numbers'} from {y.min():g} to {y.max():g}"
    )


def _table_notes(survey: TableProfile, data: Dataset) -> tuple[str, ...]:
    named = [
        seen.name
        for seen in survey.columns
        if not seen.is_categorical
        and (seen.name.lower() in IDENTIFIER_NAMES or seen.name.lower().endswith("_id"))
    ]
    notes = [
        f"{name!r} is used as a number; if it is an identifier, pass --drop {name}."
        for name in named
    ]
    assert data.encoding is not None
    wide = max(data.encoding.one_hot, key=lambda column: column.width, default=None)
    if wide is not None and wide.width > MANY_CATEGORIES:
        notes.append(
            f"{wide.name!r} becomes {wide.width:,} columns; if its texts are names rather than "
            f"categories, pass --drop {wide.name}."
        )
    return tuple(notes)
