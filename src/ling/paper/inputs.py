"""Checks of what users pass, in one place; every message says what to pass instead."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from ling._typing import Array, Seed
from ling.design import Design, Meter, as_design
from ling.design.arrays import as_numeric_array
from ling.errors import InputTypeError, NonFiniteError, OptionError, ShapeError

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
        raise ShapeError(f"X has shape {design.shape}; pass at least one row and one column.")
    at = design.storage.find_nonfinite(MAX_SQUARABLE)
    if at is not None:
        raise NonFiniteError(
            f"X[{at[0]}, {at[1]}] is not a number, or above {MAX_SQUARABLE:g}, whose square "
            f"cannot be "
            "represented; drop that row, fill it in (sklearn.impute.SimpleImputer) or rescale X."
        )
    return design


def check_target(y: Any, design: Design) -> Array:
    """y as a float64 vector with one finite number for each row of X."""
    values = as_numeric_array(y, "y")
    n = design.shape[0]
    if values.shape != (n,):
        hint = "np.ravel(y) has it" if values.size == n else f"X has {n} rows"
        raise ShapeError(f"y has shape {values.shape}; pass shape ({n},): {hint}.")
    return _check_finite(values.astype(np.float64), "y", "drop that row before fitting")


def check_vector(values: Any, name: str) -> Array:
    """A float64 vector of finite numbers."""
    array = as_numeric_array(values, name)
    if array.ndim != 1 or not array.size:
        raise ShapeError(f"{name} has shape {array.shape}; pass a vector of numbers.")
    return _check_finite(array.astype(np.float64), name, "pass finite numbers")


def _check_finite(array: Array, name: str, advice: str) -> Array:
    bad = ~(np.abs(array) <= MAX_SQUARABLE)
    if bad.any():
        at = int(np.flatnonzero(bad)[0])
        raise NonFiniteError(f"{name}[{at}] is {array[at]}; {advice}.")
    return array


def check_number(value: Any, name: str, hint: str = "") -> float:
    """A finite number >= 0."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputTypeError(f"{name} is {value!r}; pass a number >= 0{hint}.")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not 0 <= number < np.inf:
        raise OptionError(f"{name} is {value}; pass a finite number >= 0{hint}.")
    return number


def check_lam(lam: Any) -> float:
    """lam as a finite number >= 0."""
    return check_number(lam, "lam", " (0 is least squares without a penalty)")


def check_alpha(lam: Any, n: int) -> float:
    """n lam, if that is a finite number as well."""
    alpha = n * check_lam(lam)
    if not np.isfinite(alpha):
        raise OptionError(f"lam is {lam}; pass less, because n lam is beyond the largest number.")
    return alpha


def check_count(value: Any, name: str, least: int, most: int | None = None, hint: str = "") -> int:
    """A whole number in [least, most]."""
    upper = "" if most is None else f" and <= {most}{hint}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputTypeError(f"{name} is {value!r}; pass a whole number >= {least}{upper}.")
    if int(value) < least or (most is not None and int(value) > most):
        raise OptionError(f"{name} is {value}; pass a whole number >= {least}{upper}.")
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
        raise ShapeError(f"start has shape {values.shape}; pass ({p},), one number a column.")
    return values


def as_generator(random_state: Seed) -> np.random.Generator:
    """A generator from None, a seed, a Generator or a legacy RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, size=4, dtype=np.uint64))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise OptionError(
            f"random_state is {random_state!r}; pass None, a whole number >= 0, "
            "or a numpy.random.Generator."
        ) from error
