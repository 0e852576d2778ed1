"""What a table holds that cannot be used as it is: all of it at once, and what to do."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from ling.cli.wanted import Wanted
from ling.errors import MissingValue, WrongType
from ling.scan.dataset import listed
from ling.scan.discovery import MOST_CATEGORIES
from ling.scan.survey import Seen, Survey

# Texts that are different in more than half of the rows are names, if there are more than a few.
FEW_TEXTS, SHARE_OF_ROWS = 20, 0.5
SKIP = "--skip-missing-target"


def refuse_problems(survey: Survey, names: Sequence[str], wanted: Wanted) -> None:
    """Dates, identifiers and gaps, not one at a time; `survey` has the target too."""
    columns = [seen for seen in survey.columns if seen.name in names]
    (target,) = (seen for seen in survey.columns if seen.name == wanted.target)
    useless = dict(_useless(columns, survey.n_rows, wanted))
    bad = {seen.name for seen in columns if any(seen in found for found in useless.values())}
    gaps = [seen for seen in columns if seen.missing and seen.name not in bad]
    reasons = [f"{_named(found)}: {reason}" for reason, found in useless.items() if found]
    options = [] if not bad else [_without(bad, names, wanted)]
    if gaps and wanted.missing == "error":
        reasons.append(
            f"missing values in {listed(f'{seen.name!r} ({seen.missing:,})' for seen in gaps)}, "
            f"the first in column {gaps[0].name!r}, row {gaps[0].first_missing} (rows count from "
            "0); --missing mean puts the mean there (for text: no category)"
        )
        options.append("--missing mean")
    if target.missing and not wanted.skip:
        reasons.append(
            f"the target {target.name!r} has no value in {target.missing:,} of {survey.n_rows:,} "
            f"rows; {SKIP} leaves them out"
        )
        options.append(SKIP)
    if reasons:
        error = WrongType if bad else MissingValue
        if len(reasons) > 1:
            reasons = [f"({i}) {reason}" for i, reason in enumerate(reasons, 1)]
        raise error(
            f"{wanted.path!r} cannot be used as it is: {'. '.join(reasons)}. Add to the command: "
            f"{' '.join(options)}"
        )


def _useless(
    columns: Sequence[Seen], n_rows: int, wanted: Wanted
) -> Iterator[tuple[str, list[Seen]]]:
    """Columns that have to be left out, by why."""
    yield (
        "neither numbers nor text; turn dates into days or years, say",
        [seen for seen in columns if seen.found is None],
    )
    yield "no value in any row", [seen for seen in columns if seen.is_blank]
    yield (
        "infinite; mend the file, or leave the column out",
        [seen for seen in columns if seen.infinite is not None],
    )
    many = [] if wanted.features else [seen for seen in columns if _has_many(seen, n_rows)]
    yield (
        "nearly all numbers; leave the other fields empty in the file to have them as numbers",
        [seen for seen in many if seen.not_numbers],
    )
    yield (
        "names or identifiers rather than categories; list all columns with --features to have "
        "one for each text all the same",
        [seen for seen in many if not seen.not_numbers],
    )


def _has_many(seen: Seen, n_rows: int) -> bool:
    there = n_rows - seen.missing
    return seen.n_texts > MOST_CATEGORIES or seen.n_texts > max(FEW_TEXTS, SHARE_OF_ROWS * there)


def _named(columns: Sequence[Seen]) -> str:
    return listed(f"{seen.name!r} ({_detail(seen)})" for seen in columns)


def _detail(seen: Seen) -> str:
    if seen.infinite is not None:
        return f"row {seen.infinite}"
    if seen.not_numbers:
        return f"but for {listed(map(repr, seen.not_numbers), 3)}"
    if seen.n_texts > MOST_CATEGORIES:
        return f"more than {MOST_CATEGORIES:,} different texts"
    return f"{seen.n_texts:,} different texts" if seen.n_texts else seen.type


def _without(bad: set[str], names: Sequence[str], wanted: Wanted) -> str:
    """The option; it takes the place of the same option before it, so it says all."""
    if wanted.features is not None:
        return f"--features {shlex.quote(','.join(name for name in names if name not in bad))}"
    dropped = (*wanted.drop, *(name for name in names if name in bad))
    return f"--drop {shlex.quote(','.join(dropped))}"


def hints(survey: Survey, names: Sequence[str]) -> Iterator[str]:
    """Columns that can be used, and may not be meant so."""
    for seen in survey.columns:
        if seen.name not in names:
            continue
        if seen.is_constant:
            yield f"{seen.name!r} is the same in every row, and tells nothing."
        elif seen.not_numbers:
            yield (
                f"{seen.name!r} is nearly all numbers, but for "
                f"{listed(map(repr, seen.not_numbers), 3)}, so it is taken for text, with a column "
                "for each value; leave such fields empty to have numbers."
            )
        elif seen.not_numbers is not None:
            yield (
                f"{seen.name!r} is text, though all of it is numbers; it gets a column for each "
                "value."
            )
