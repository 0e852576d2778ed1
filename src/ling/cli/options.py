"""Options of the command line about a file and its columns, and how their text is parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import typer

from ling._typing import MissingRule

Choice = TypeVar("Choice", bound=str)


@dataclass(frozen=True)
class DataOptions:
    """`skip` leaves rows without a target out, and `classify` takes the target for classes."""

    path: str
    target: str
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    weights: str | None = None
    missing: MissingRule = "error"
    skip_missing_target: bool = False
    classify: bool = False


def parse_data_options(
    data: str, target: str, features: str | None, drop: str | None, missing: str, skip: bool,
    weights: str | None = None, classify: bool = False,
) -> DataOptions:  # fmt: skip
    """The options of a command about its data; raises if both `features` and `drop` are given."""
    if features is not None and drop is not None:
        raise typer.BadParameter("--features and --drop are both given; pass one of them.")
    return DataOptions(
        data,
        target,
        split_names(features),
        split_names(drop) or (),
        weights,
        check_one_of(missing, "missing", ("error", "mean")),
        skip,
        classify,
    )


def split_names(text: str | None) -> tuple[str, ...] | None:
    """Names of columns from a list with commas."""
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(",") if name.strip())


def parse_alphas(text: str) -> tuple[float, ...] | None:
    """Alphas from numbers with commas between them; None for "auto"."""
    if text == "auto":
        return None
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}: pass auto, or numbers with commas between them.", param_hint="--alphas"
        ) from None


def check_one_of(text: str, name: str, choices: tuple[Choice, ...]) -> Choice:
    """`text` itself; raises unless it is one of `choices` for the option `name`."""
    for choice in choices:
        if text == choice:
            return choice
    raise typer.BadParameter(f"{text!r} is none of {', '.join(choices)}.", param_hint=f"--{name}")
