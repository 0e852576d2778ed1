"""Checks of what users pass, in one place; every message says what to pass instead."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from ling._typing import Array, Seed
from ling.design import Design, Meter, as_design
from ling.design.arrays import as_numeric_array
from ling.errors import InputTypeError, NonFiniteError, OptionError, ShapeError, Where

# Squares of numbers up to this size, and sums of many, are still finite.
MAX_SQUARABLE = 1e150


def check_design(X: Any) -> Design:
    """X as a design with at least one row and column, all finite.

    Its meter starts at 0, and adds to that of X if X is a Design.
    """
    design = as_design(X)
    design = design.metered(Meter(design.meter))
    n, p = design.shape
    if n == 0 or p == 0:
        raise ShapeError("X", f"has shape {design.shape}", "pass at least one row and one column")
    design.storage.check_finite(MAX_SQUARABLE)
    return design


def check_target(y: Any, design: Design) -> Array:
    """y as a float64 vector with one finite number for each row of X."""
    values = as_numeric_array(y, "y")
    n = design.shape[0]
    if values.shape != (n,):
        by = ", by np.ravel(y)" if values.size == n else ""
        raise ShapeError(
            "y", f"has shape {values.shape}, and `X` has {n} rows", f"pass shape ({n},){by}"
        )
    values = values.astype(np.float64)
    at = _find_unusable(values)
    if at is not None:
        raise NonFiniteError("y", f"is {values[at]}", "drop that row", where=Where(row=at))
    return values


def check_vector(values: Any, name: str) -> Array:
    """A float64 vector of finite numbers."""
    array = as_numeric_array(values, name)
    if array.ndim != 1 or not array.size:
        raise ShapeError(name, f"has shape {array.shape}", "pass a vector of numbers")
    array = array.astype(np.float64)
    at = _find_unusable(array)
    if at is not None:
        raise NonFiniteError(
            name,
            f"`{name}`[{at}] is {array[at]}",
            f"pass finite numbers of size {MAX_SQUARABLE:g} at most",
        )
    return array


def _find_unusable(vector: Array) -> int | None:
    """Index of the first entry that is not finite, or whose square would not be."""
    unusable = np.flatnonzero(~(np.abs(vector) <= MAX_SQUARABLE))
    return int(unusable[0]) if unusable.size else None


def check_number(value: Any, name: str, hint: str = "") -> float:
    """A finite number >= 0."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(name, f"is {value!r}", f"pass a number >= 0{hint}")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not 0 <= number < np.inf:
        raise OptionError(name, f"is {value}", f"pass a finite number >= 0{hint}")
    return number


def check_lam(lam: Any) -> float:
    """lam as a finite number >= 0."""
    return check_number(lam, "lam", " (0 is least squares without a penalty)")


def check_alpha(lam: Any, n: int) -> float:
    """n lam, if that is a finite number as well."""
    alpha = n * check_lam(lam)
    if not np.isfinite(alpha):
        raise OptionError(
            "lam",
            f"is {lam}, and n times that overflows float64",
            "pass a smaller number",
        )
    return alpha


def check_count(value: Any, name: str, least: int, most: int | None = None, hint: str = "") -> int:
    """A whole number in [least, most]."""
    upper = "" if most is None else f" and <= {most}{hint}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputTypeError(name, f"is {value!r}", f"pass a whole number >= {least}{upper}")
    if int(value) < least or (most is not None and int(value) > most):
        raise OptionError(name, f"is {value}", f"pass a whole number >= {least}{upper}")
    return int(value)


def check_rank(k: Any, design: Design) -> int:
    """k as a number of directions that X can have."""
    most = min(design.shape)
    return check_count(k, "k", 1, most, f" (X has {most} directions at most)")


def check_start(start: Any, design: Design) -> Array:
    """A starting vector of one finite number for each column; None is zero."""
    p = design.shape[1]
    if start is None:
        return np.zeros(p)
    values = check_vector(start, "start")
    if values.shape != (p,):
        raise ShapeError(
            "start",
            f"has shape {values.shape}",
            f"pass shape ({p},), a number for each column of `X`",
        )
    return values


def as_generator(random_state: Seed) -> np.random.Generator:
    """A generator from None, a seed, a Generator or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint64))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise OptionError(
            "random_state",
            f"is {random_state!r}",
            "pass None, a whole number >= 0 or a numpy.random.Generator",
        ) from error
