"""Arrow's columns as numbers, and as categories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.errors import Change, InputTypeError, MissingValueError, UnknownCategoryError, Where
from ling.io.encoding import ColumnEncoding, Encoding, Numeric, OneHot

#: The row of the table that the i-th of a batch is.
RowIndexer: TypeAlias = Callable[[int], int]
#: Writes an Arrow array into columns of a block.
ColumnWriter: TypeAlias = Callable[[Any, Array, RowIndexer], None]
MISSING_CODE, UNKNOWN_CODE = -1, -2
#: Functions that take the options which errors advise; `fit` and `predict` do not.
SCAN_OF_FIT = "the scan function (of the fit, and of new rows)"
SCAN_OF_NEW_ROWS = "the scan function (scan_arrow, with like=model, for a data frame)"


def is_categorical(name: str, kind: Any, argument: str = "X") -> bool:
    """Whether a column of that Arrow type is one of categories, not of numbers; or an error.

    `argument` is "X" for a feature, or else the parameter that names the column.
    """
    from pyarrow import types

    if types.is_dictionary(kind) or is_string_type(kind):
        return True
    if is_numeric_type(kind):
        return False
    leave_out = [Change("drop", [name], "to leave it out")] if argument == "X" else []
    if types.is_temporal(kind):
        raise InputTypeError(
            argument,
            f"has dates or times ({kind}), which cannot be used as numbers directly",
            "convert it, for example to days since some date",
            *leave_out,
            where=Where(column=name),
        )
    raise InputTypeError(
        argument,
        f"has type {kind}",
        "convert it to numbers or text",
        *leave_out,
        where=Where(column=name),
    )


def is_numeric_type(kind: Any) -> bool:
    """Whether an Arrow type is one of numbers; so is that of a column without any value."""
    from pyarrow import types

    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)


def is_string_type(kind: Any) -> bool:
    """Whether an Arrow type is one of text."""
    from pyarrow import types

    return any(
        test(kind)
        for test in (types.is_string, types.is_large_string, string_view_predicate(types))
    )


def string_view_predicate(types: Any) -> Callable[[Any], bool]:
    """The test for string views, which old versions of pyarrow do not have."""
    return getattr(types, "is_string_view", lambda kind: False)


def numeric_to_numpy(array: Any) -> np.ndarray[Any, Any]:
    """An Arrow array of numbers in NumPy; a view where it can be, NaN where there is no value."""
    import pyarrow as pa

    kind = array.type
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        array = array.cast(pa.float64(), safe=False)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def dictionary_codes(array: Any) -> tuple[NDArray[np.intp], list[str | None]]:
    """A code for every row, MISSING for none, and the texts that the codes stand for."""
    import pyarrow as pa

    if not pa.types.is_dictionary(array.type):
        array = array.cast(pa.large_string()).dictionary_encode()
    codes = array.indices.cast(pa.int64()).fill_null(MISSING_CODE).to_numpy()
    return codes, array.dictionary.cast(pa.large_string()).to_pylist()


def remap_codes(codes: NDArray[np.intp], new: Sequence[int]) -> NDArray[np.intp]:
    """`new[code]` for every code; what is MISSING remains so."""
    return np.asarray([*new, MISSING_CODE], dtype=np.intp)[codes]


@dataclass(frozen=True)
class EncodingCounts:
    """Rows by column: where a gap was filled, and where a text was not known."""

    filled: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)


def column_writers(encoding: Encoding, unknown: str, tally: EncodingCounts) -> list[ColumnWriter]:
    """What writes each of the encoding's columns into a block."""
    return [_column_writer(column, encoding.fills, unknown, tally) for column in encoding.columns]


def _column_writer(
    column: ColumnEncoding, fills: bool, unknown: str, tally: EncodingCounts
) -> ColumnWriter:
    if isinstance(column, Numeric):
        return _numeric_writer(column.name, column.mean, tally)
    return _one_hot_writer(column, fills, unknown, tally)


def _numeric_writer(name: str, mean: float | None, tally: EncodingCounts) -> ColumnWriter:
    def write(array: Any, out: Array, row_of: RowIndexer) -> None:
        out = out[:, 0]
        out[...] = numeric_to_numpy(array)
        if not _has_missing(array, out):
            return
        gaps = np.isnan(out)
        if mean is None:
            raise missing_value_error(name, row_of(int(gaps.argmax())))
        out[gaps] = mean
        tally.filled[name] += int(gaps.sum())

    return write


def _has_missing(array: Any, out: Array) -> bool:
    from pyarrow import types

    if array.null_count or not types.is_floating(array.type) or not len(out):
        return bool(array.null_count)
    # NaN is the maximum wherever there is one; this needs no array of its own.
    return bool(np.isnan(np.maximum.reduce(out)))


def _one_hot_writer(
    column: OneHot, fills: bool, unknown: str, tally: EncodingCounts
) -> ColumnWriter:
    name, known = column.name, column.categories
    index: dict[str | None, int] = {category: i for i, category in enumerate(known)}
    index[None] = MISSING_CODE

    def write(array: Any, out: Array, row_of: RowIndexer) -> None:
        mine, texts = dictionary_codes(array)
        codes = remap_codes(mine, [index.get(text, UNKNOWN_CODE) for text in texts])
        if not fills and (codes == MISSING_CODE).any():
            raise missing_value_error(name, row_of(int((codes == MISSING_CODE).argmax())))
        if unknown == "error" and (codes == UNKNOWN_CODE).any():
            first = int((codes == UNKNOWN_CODE).argmax())
            raise _unknown_category_error(name, texts[mine[first]], row_of(first), known)
        tally.filled[name] += int((codes == MISSING_CODE).sum())
        tally.unknown[name] += int((codes == UNKNOWN_CODE).sum())
        out[...] = 0.0
        rows = np.flatnonzero(codes >= 0)
        out[rows, codes[rows]] = 1.0

    return write


def missing_value_error(name: str, row: int) -> MissingValueError:
    """The error for a feature without a value."""
    return MissingValueError(
        "X",
        "has no value",
        Change("missing", "mean", "to put the column's mean there", SCAN_OF_FIT),
        "leave the row or the column out",
        where=Where(row=row, column=name),
    )


def _unknown_category_error(
    name: str, text: str | None, row: int, known: tuple[str, ...]
) -> UnknownCategoryError:
    some = ", ".join(repr(category) for category in known[:5])
    return UnknownCategoryError(
        "X",
        f"has {len(known)} known categories ({some}{', ...' if len(known) > 5 else ''}), but is "
        f"{text!r}",
        Change("unknown", "ignore", "to treat it as none of them", SCAN_OF_NEW_ROWS),
        where=Where(row=row, column=name),
    )
