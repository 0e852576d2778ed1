"""What the command line says of a file and its columns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataOptions:
    """`skip` leaves rows without a target out, and `classify` takes the target for classes."""

    path: str
    target: str
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    weights: str | None = None
    missing: str = "error"
    skip_missing_target: bool = False
    classify: bool = False
