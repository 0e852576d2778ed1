"""Targets and other single columns of a table, read as they are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling.errors import InputTypeError, Where
from ling.io.column_spec import check_column_names
from ling.io.column_writers import dictionary_codes, is_categorical, numeric_to_numpy, remap_codes
from ling.io.dataset import TargetReader, abbreviate_list, missing_target_error
from ling.io.fragments import Fragment, FragmentedTable, RecordBatches

# From here on float64 does not tell all integers apart.
MAX_EXACT_INTEGER = 2.0**53


@dataclass(frozen=True, eq=False)
class TableTargetReader(TargetReader):
    """Reads targets and other columns of a table; with `is_multi_output` y has two dimensions.

    `integer_columns` are columns of a CSV file that begin with whole numbers.
    """

    table: FragmentedTable
    column_names: tuple[str, ...]
    target_names: tuple[str, ...] = ()
    is_multi_output: bool = False
    integer_columns: tuple[str, ...] = ()

    @property
    def description(self) -> str | None:
        """Names of the targets."""
        return (
            abbreviate_list(repr(name) for name in self.target_names) if self.target_names else None
        )

    def read_target(self) -> NDArray[Any]:
        """The column, or the columns side by side."""
        columns = [self._read_values(name, "target") for name in self.target_names]
        if not self.is_multi_output:
            return columns[0]
        if len({column.dtype.kind in "US" for column in columns}) > 1:
            raise InputTypeError(
                "target", "has columns of numbers and of text", "pass columns of one kind"
            )
        return np.column_stack(columns)

    def read_column(self, name: str) -> NDArray[Any]:
        """A column of whole numbers, truth values, float64 or text."""
        check_column_names([name], self.column_names, "name")
        return self._read_values(name, "name")

    def read_batches(self, names: Sequence[str]) -> RecordBatches:
        """Columns as they are, a few rows at a time."""
        check_column_names(names, self.column_names, "name")
        return self.table.read_batches(names)

    def _read_values(self, name: str, argument: str) -> NDArray[Any]:
        """Of the kind that it is; an error about `argument` where there is no value."""
        pieces: list[NDArray[Any]] = []
        row = 0
        for batch in self.table.read_batches([name]):
            array = batch.column(0)
            values, gaps = _values_and_gaps(name, array, argument)
            if gaps.any():
                where = Where(row=row + int(gaps.argmax()), column=name)
                raise missing_target_error(argument, where)
            pieces.append(values)
            row += len(values)
        found = np.concatenate(pieces) if pieces else np.empty(0)
        if _may_have_lost_digits(found):
            integers = self._read_integers(name)
            return found if integers is None else integers
        return _restore_integers(found) if name in self.integer_columns else found

    def _read_integers(self, name: str) -> NDArray[Any] | None:
        """A column of CSV files as integers; None if it is something else, or in another file.

        Every number of CSV is read as float64, because fractions may follow. That rounds integers
        from 2^53 on, and different classes would become one.
        """
        table = self.table.with_column_as_text(name)
        if table is None:
            return None
        texts = chain.from_iterable(
            batch.column(0).to_pylist() for batch in table.read_batches([name])
        )
        try:
            integers = [int(text) for text in texts]
        except (TypeError, ValueError):  # a fraction, or a number like 1e20
            return None
        for dtype in (np.int64, np.uint64):
            with suppress(OverflowError):
                return np.array(integers, dtype)
        return None


def non_missing_rows(part: Fragment, name: str) -> NDArray[np.intp]:
    """The rows of a part where the target column has a value."""
    gaps = [
        _values_and_gaps(name, batch.column(0), "target")[1] for batch in part.read_batches([name])
    ]
    return np.flatnonzero(~np.concatenate(gaps)) if gaps else np.empty(0, np.intp)


def _values_and_gaps(
    name: str, array: Any, argument: str
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Of the kind that they are, and where there is none."""
    if is_categorical(name, array.type, argument):
        return _text_values(array)
    return _numeric_values(array)


def _numeric_values(array: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Whole numbers and truth values as they are, others in float64; and where there is none."""
    from pyarrow import types

    kind = array.type
    if not array.null_count and (types.is_boolean(kind) or types.is_integer(kind)):
        values = np.asarray(array.to_numpy(zero_copy_only=False))
        return values, np.zeros(len(values), np.bool_)
    values = numeric_to_numpy(array).astype(np.float64)
    return values, np.isnan(values)


def _may_have_lost_digits(values: NDArray[Any]) -> bool:
    """Whether these may be integers that float64 has rounded."""
    if values.dtype.kind != "f" or not len(values):
        return False
    return bool(np.abs(values).max() >= MAX_EXACT_INTEGER and (values == np.rint(values)).all())


def _restore_integers(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers that were whole at first, as integers if all of them are."""
    is_whole = values.dtype.kind == "f" and (values == np.rint(values)).all()
    return values.astype(np.int64) if is_whole else values


def _text_values(array: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    codes, texts = dictionary_codes(array)
    codes = remap_codes(codes, [-1 if text is None else i for i, text in enumerate(texts)])
    return np.array([*(text or "" for text in texts), ""])[codes], codes < 0
