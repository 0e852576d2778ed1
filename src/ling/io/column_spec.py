"""What is wanted of a table: its target, its features, and what to do about gaps."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ling.errors import OptionError, ShapeError, UnknownColumnError, Where
from ling.io.dataset import abbreviate_list
from ling.io.encoding import Encoding, resolve_encoding

# Names that are less alike than this are not what was meant.
MIN_NAME_SIMILARITY = 0.7


@dataclass(frozen=True)
class ColumnSpec:
    """What the user wants of a table: the arguments of the scan functions."""

    target: str | Sequence[str] | None = None
    features: str | Sequence[str] | None = None
    missing: str = "error"
    like: Any = None
    unknown: str = "error"
    drop: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in ("target", "features", "drop"):
            value = getattr(self, name)
            texts = [value] if value is None or isinstance(value, str) else value
            if not isinstance(texts, list | tuple) or not all(
                isinstance(text, str | None) for text in texts
            ):
                raise OptionError(
                    name, f"is {value!r}", "pass the name of a column or a list of names"
                )
        if self.missing not in ("error", "mean"):
            raise OptionError("missing", f"is {self.missing!r}", "pass 'error' or 'mean'")
        if self.unknown not in ("error", "ignore"):
            raise OptionError("unknown", f"is {self.unknown!r}", "pass 'error' or 'ignore'")
        if self.like is not None and self.features is not None:
            raise OptionError(
                "features",
                "cannot be combined with `like`, which has its own features",
                "pass only one of them",
            )
        if self.drop is not None and (self.features is not None or self.like is not None):
            raise OptionError(
                "drop",
                "cannot be combined with `features` or `like`, which list all columns that are "
                "used",
                "pass only one of them",
            )

    @property
    def encoding(self) -> Encoding | None:
        """That of `like`."""
        return None if self.like is None else resolve_encoding(self.like, self.missing)

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the targets."""
        return () if self.target is None else _as_tuple(self.target)

    def select_features(self, known: Sequence[str]) -> tuple[str, ...]:
        """Names of the features, among those of the table."""
        check_column_names(self.target_names, known, "target")
        if self.encoding is not None:
            names = self.encoding.inputs
            _check_encoded_columns(names, known)
        elif self.features is not None:
            names = _as_tuple(self.features)
            check_column_names(names, known, "features")
        else:
            dropped = () if self.drop is None else _as_tuple(self.drop)
            check_column_names(dropped, known, "drop")
            names = tuple(name for name in known if name not in (*self.target_names, *dropped))
        _check_features(names, self.target_names, known)
        return names


def _as_tuple(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def check_unique_columns(argument: str, table: Any) -> None:
    """Raise OptionError if two columns of a data frame or a pyarrow table have the same name.

    Anything else has no names and is accepted.
    """
    names = list(getattr(table, "column_names", getattr(table, "columns", ())))
    if len(names) > len(set(names)):
        twin = next(name for name in names if names.count(name) > 1)
        raise _duplicate_column_error(argument, twin)


def _duplicate_column_error(argument: str, name: Any) -> OptionError:
    column = name if isinstance(name, str | int) else str(name)
    return OptionError(
        argument, "occurs twice", "rename one of the two", where=Where(column=column)
    )


def _check_features(names: Sequence[str], targets: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name in targets:
            raise OptionError(
                "target",
                "is one of the features too",
                "leave it out of the features",
                where=Where(column=name),
            )
    for name in (*names, *targets):
        if known.count(name) > 1:
            raise _duplicate_column_error("X", name)
        if names.count(name) > 1:
            raise OptionError(
                "features", "is listed twice", "list it once", where=Where(column=name)
            )
    if not names:
        raise ShapeError("X", "has no feature columns", "name some of its columns in `features`")


def check_column_names(names: Sequence[str], known: Sequence[str], argument: str) -> None:
    """An error for names that are not among those known, with what they may have meant."""
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=3, cutoff=MIN_NAME_SIMILARITY)
            listed = abbreviate_list(map(repr, close or known))
            raise UnknownColumnError(
                argument,
                "is not a column of the table",
                f"did you mean {listed}?" if close else f"pass one of {listed}",
                where=Where(column=name),
            )


def _check_encoded_columns(names: Sequence[str], known: Sequence[str]) -> None:
    lacking = [name for name in names if name not in known]
    if lacking:
        others = [name for name in known if name not in names]
        close = difflib.get_close_matches(lacking[0], others, n=1)
        rename = [f"rename {close[0]!r} to {lacking[0]!r} if it is the same"] if close else []
        raise UnknownColumnError(
            "X",
            f"lacks {len(lacking)} of the {len(names)} columns that `like` has: "
            f"{abbreviate_list(map(repr, lacking))}",
            *rename,
            "pass data with columns of these names",
        )
