"""What a table holds that cannot be used as it is: all of it at once, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ling.cli.options import DataOptions
from ling.errors import Change, InputTypeError, MissingValueError, Where
from ling.io.column_profile import MAX_CATEGORIES
from ling.io.dataset import abbreviate_list
from ling.io.table_profile import ColumnSummary, TableProfile

# Texts that are different in more than half of the rows are names, if there are more than a few.
MIN_IDENTIFIER_TEXTS, IDENTIFIER_ROW_SHARE = 20, 0.5


def check_usable_columns(survey: TableProfile, names: Sequence[str], wanted: DataOptions) -> None:
    """Dates, identifiers and gaps, not one at a time; `survey` has the target too."""
    columns = [seen for seen in survey.columns if seen.name in names]
    (target,) = (seen for seen in survey.columns if seen.name == wanted.target)
    useless = dict(_unusable_columns(columns, survey.n_rows, wanted))
    bad = {seen.name for seen in columns if any(seen in found for found in useless.values())}
    gaps = [seen for seen in columns if seen.missing and seen.name not in bad]
    reasons = [
        f"{_describe_columns(found)}: {reason}" for reason, found in useless.items() if found
    ]
    changes = [_exclusion(bad, names, wanted)] if bad else []
    if gaps and wanted.missing == "error":
        reasons.append(
            f"missing values in "
            f"{abbreviate_list(f'{seen.name!r} ({seen.missing:,})' for seen in gaps)}, "
            f"the first in column {gaps[0].name!r}, row {gaps[0].first_missing} (rows count from "
            "0), which can be replaced by the mean (text: by no category)"
        )
        changes.append(Change("missing", "mean"))
    if target.missing and not wanted.skip_missing_target:
        reasons.append(
            f"the target {target.name!r} has no value in {target.missing:,} of {survey.n_rows:,} "
            "rows, which can be left out"
        )
        changes.append(Change("skip_missing_target", True))
    if not reasons:
        return
    if len(reasons) > 1:
        reasons = [f"({i}) {reason}" for i, reason in enumerate(reasons, 1)]
    error = InputTypeError if bad else MissingValueError
    raise error(
        "data",
        f"cannot be used as it is: {'; '.join(reasons)}",
        *changes,
        where=Where(file=wanted.path),
        needs_all_remedies=True,
    )


def _unusable_columns(
    columns: Sequence[ColumnSummary], n_rows: int, wanted: DataOptions
) -> Iterator[tuple[str, list[ColumnSummary]]]:
    """Columns that have to be left out, by why."""
    yield (
        "neither numbers nor text (turn dates into days or years, for example)",
        [seen for seen in columns if seen.profile is None],
    )
    yield "no value in any row", [seen for seen in columns if seen.is_empty]
    yield (
        "infinite values (replace them in the file, or leave the column out)",
        [seen for seen in columns if seen.first_infinite is not None],
    )
    many = (
        []
        if wanted.features
        else [seen for seen in columns if _looks_like_identifier(seen, n_rows)]
    )
    yield (
        "nearly all numbers (leave the other fields empty in the file to use it as numbers)",
        [seen for seen in many if seen.non_numeric_texts],
    )
    yield (
        "names or identifiers rather than categories (list all columns in `features` to use them "
        "all the same)",
        [seen for seen in many if not seen.non_numeric_texts],
    )


def _looks_like_identifier(seen: ColumnSummary, n_rows: int) -> bool:
    there = n_rows - seen.missing
    return seen.n_distinct_texts > MAX_CATEGORIES or seen.n_distinct_texts > max(
        MIN_IDENTIFIER_TEXTS, IDENTIFIER_ROW_SHARE * there
    )


def _describe_columns(columns: Sequence[ColumnSummary]) -> str:
    return abbreviate_list(f"{seen.name!r} ({_describe_column(seen)})" for seen in columns)


def _describe_column(seen: ColumnSummary) -> str:
    if seen.first_infinite is not None:
        return f"row {seen.first_infinite}"
    if seen.non_numeric_texts:
        return f"but for {abbreviate_list(map(repr, seen.non_numeric_texts), 3)}"
    if seen.n_distinct_texts > MAX_CATEGORIES:
        return f"more than {MAX_CATEGORIES:,} different texts"
    return f"{seen.n_distinct_texts:,} different texts" if seen.n_distinct_texts else seen.type


def _exclusion(bad: set[str], names: Sequence[str], wanted: DataOptions) -> Change:
    """The change of an option that leaves `bad` out; it lists what the option has so far, too."""
    if wanted.features is not None:
        return Change("features", [name for name in names if name not in bad])
    return Change("drop", [*wanted.drop, *(name for name in names if name in bad)])


def column_hints(survey: TableProfile, names: Sequence[str]) -> Iterator[str]:
    """Columns that can be used, and may not be meant so."""
    for seen in survey.columns:
        if seen.name not in names:
            continue
        if seen.is_constant:
            yield f"{seen.name!r} is the same in every row, and tells nothing."
        elif seen.non_numeric_texts:
            yield (
                f"{seen.name!r} is nearly all numbers, but for "
                f"{abbreviate_list(map(repr, seen.non_numeric_texts), 3)}, so it is taken for "
                f"text, with a column "
                "for each value; leave such fields empty to have numbers."
            )
        elif seen.non_numeric_texts is not None:
            yield (
                f"{seen.name!r} is text, though all of it is numbers; it gets a column for each "
                "value."
            )
