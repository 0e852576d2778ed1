"""Coefficients in a CSV file: a name and a number in each line, and perhaps the intercept."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ling.errors import DataFileError, ShapeError, UnknownColumnError, Where
from ling.io.dataset import abbreviate_list

INTERCEPT_NAME = "intercept"
LINE_ADVICE = "write a name and a number in each line, such as area,19.95"


@dataclass(frozen=True)
class CoefficientFile:
    """Coefficients by the names of their columns; `intercept` is None if the file has none."""

    path: str
    coefficients: dict[str, float]
    intercept: float | None

    def input_columns(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns of a table from which the named ones are made, in the order of the file.

        A name is that of a column, or "column=value" for a category of a text column.
        """
        known = set(columns)
        inputs = dict.fromkeys(_input_column(name, known) for name in self.coefficients)
        if None in inputs:
            unknown = next(name for name in self.coefficients if not _input_column(name, known))
            raise UnknownColumnError(
                "solution",
                f"is not a column of the data, which has {abbreviate_list(map(repr, columns))}",
                "write the names of its columns, or column=value for a category of a text column",
                where=Where(file=self.path, column=unknown),
            )
        return tuple(name for name in inputs if name is not None)

    def in_order_of(self, names: Sequence[str] | None) -> list[float]:
        """The coefficients of these columns of X; in the order of the file if they have no names.

        Raises ShapeError unless the file has a coefficient for every one of them, and no other.
        """
        if names is None:
            return list(self.coefficients.values())
        absent = [name for name in names if name not in self.coefficients]
        if absent:
            raise ShapeError(
                "solution",
                f"has no coefficient for {abbreviate_list(map(repr, absent))}",
                "add these columns, which are part of the problem even if their coefficient is 0",
                where=Where(file=self.path),
            )
        unused = [name for name in self.coefficients if name not in names]
        if unused:
            raise ShapeError(
                "solution",
                f"has coefficients for {abbreviate_list(map(repr, unused))}, which no row has",
                "leave out these categories",
                where=Where(file=self.path),
            )
        return [self.coefficients[name] for name in names]


def _input_column(name: str, known: set[str]) -> str | None:
    """The column of a table that `name` is made from; None if there is none."""
    if name in known:
        return name
    return next((column for column in known if name.startswith(f"{column}=")), None)


def is_coefficient_file(path: Path) -> bool:
    """Whether a file has coefficients as text, by its name."""
    return path.suffix.lower() in (".csv", ".tsv")


def read_coefficient_file(path: Path) -> CoefficientFile:
    """Read a CSV file of two columns; its first line may be a header."""
    coefficients: dict[str, float] = {}
    for line, name, number in _parse_lines(path):
        if name in coefficients:
            raise _line_error(path, line, f"has a second coefficient for {name!r}", LINE_ADVICE)
        coefficients[name] = number
    intercept = coefficients.pop(INTERCEPT_NAME, None)
    if not coefficients:
        raise DataFileError(
            "solution", "has no coefficients", LINE_ADVICE, where=Where(file=str(path))
        )
    return CoefficientFile(str(path), coefficients, intercept)


def _parse_lines(path: Path) -> Iterator[tuple[int, str, float]]:
    """The number of each line, the name in it and the coefficient."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataFileError(
            "solution",
            f"cannot be read ({reason})",
            "pass a model file, or a CSV file of names and coefficients",
            where=Where(file=str(path)),
        ) from error
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    for fields in reader:
        if not any(field.strip() for field in fields):
            continue
        if len(fields) != 2:
            problem = f"has {len(fields)} columns, not 2"
            raise _line_error(path, reader.line_num, problem, LINE_ADVICE)
        name, number = fields[0].strip(), _parse_number(fields[1])
        if number is None and reader.line_num == 1:
            continue  # a header
        if number is None:
            problem = f"has {fields[1]!r} for {name!r}, which is no finite number"
            raise _line_error(path, reader.line_num, problem, LINE_ADVICE)
        yield reader.line_num, name, number


def _parse_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _line_error(path: Path, line: int, problem: str, remedy: str) -> DataFileError:
    return DataFileError("solution", problem, remedy, where=Where(file=str(path), line=line))
