"""Objects of registered classes as plain data, and back.

Fitted models are pickled, and written to files, as arrays, numbers, text, tuples and dicts. Readers
that run no code from a file, such as skops, then need to trust the class of the estimator only.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

Registered = TypeVar("Registered", bound=type)
#: Keys of the plain form of an object: the name of its class, and its fields in their order.
CLASS_KEY, FIELDS_KEY = "ling class", "fields"
#: Key of the plain form of a short array of float64 in a field, whose value is a tuple of floats.
SHORT_ARRAY_KEY = "ling floats"
# Arrays of so many numbers are pickled as floats: an array takes 40 bytes more than its numbers.
# Pickles of small models are a tenth smaller for it, and model files have fewer entries.
MAX_SHORT_ARRAY = 4
# Kinds of the numbers and truth values that arrays in fitted models hold, as NumPy calls them.
NUMERIC_KINDS = "biuf"
# Integers of Python may be larger, but NumPy cannot compute with them.
MAX_INTEGER = 2**63
_CLASSES: dict[str, Any] = {}


def register_plain(kind: Registered) -> Registered:
    """Class decorator: `to_plain` and `from_plain` convert objects of this dataclass or Enum."""
    _CLASSES[kind.__name__] = kind
    return kind


def to_plain(value: Any) -> Any:
    """`value` with each object of a registered class replaced by a dict; anything else unchanged.

    Tuples, and the fields of registered dataclasses, are searched for such objects.
    """
    kind = type(value)
    if kind is tuple:
        return tuple(to_plain(item) for item in value)
    if _CLASSES.get(kind.__name__) is not kind:
        return value
    if isinstance(value, Enum):
        return {CLASS_KEY: kind.__name__, FIELDS_KEY: value.name}
    # Without the names of the fields, pickles of small models are about half as large.
    content = tuple(_field_to_plain(getattr(value, field.name)) for field in fields(value))
    return {CLASS_KEY: kind.__name__, FIELDS_KEY: content}


def _field_to_plain(value: Any) -> Any:
    """The plain form of a field: `to_plain`, with floats in the place of short arrays."""
    if (
        type(value) is np.ndarray
        and value.dtype == np.float64
        and value.ndim == 1
        and value.size <= MAX_SHORT_ARRAY
    ):
        return {SHORT_ARRAY_KEY: tuple(value.tolist())}
    return to_plain(value)


def from_plain(plain: Any) -> Any:
    """The value that `to_plain` was given.

    Raises ValueError if a class is not registered or has other fields.
    """
    if type(plain) is tuple:
        return tuple(from_plain(item) for item in plain)
    if type(plain) is not dict or CLASS_KEY not in plain:
        return plain
    kind, content = _CLASSES.get(plain[CLASS_KEY]), plain[FIELDS_KEY]
    if kind is None:
        raise ValueError(f"{plain[CLASS_KEY]!r} is not a class that fitted models consist of")
    if issubclass(kind, Enum):
        return kind[content]
    if len(content) != len(fields(kind)):
        raise ValueError(f"{kind.__name__} has other fields in this version of ling")
    made = kind(*map(_field_from_plain, content))
    for name, hint in _field_types(kind).items():
        if not _has_type(getattr(made, name), hint):
            raise ValueError(f"{name} of {kind.__name__} is of another type")
    return made


def _field_from_plain(plain: Any) -> Any:
    """The value of a field that `_field_to_plain` was given."""
    if type(plain) is not dict or set(plain) != {SHORT_ARRAY_KEY}:
        return from_plain(plain)
    numbers = plain[SHORT_ARRAY_KEY]
    if not _has_type(numbers, tuple[float, ...]) or len(numbers) > MAX_SHORT_ARRAY:
        raise ValueError(f"{SHORT_ARRAY_KEY!r} is not a tuple of at most {MAX_SHORT_ARRAY} floats")
    return np.array(numbers, dtype=np.float64)


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    """The annotated types of the fields of a dataclass."""
    types = get_type_hints(kind)
    return {field.name: types[field.name] for field in fields(kind)}


def _has_type(value: Any, hint: Any) -> bool:
    """Whether a value has an annotated type; the kinds of numbers count as one, as in NumPy.

    >>> _has_type((1, 2), tuple[int, int]), _has_type("a", float | None)
    (True, False)
    """
    origin, parameters = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    # From Python 3.12 on, NumPy defines NDArray by a `type` statement, which isinstance rejects.
    aliased = getattr(origin or hint, "__value__", None)
    if aliased is not None:
        is_generic = parameters and getattr(aliased, "__parameters__", ())
        return _has_type(value, aliased[parameters] if is_generic else aliased)
    if origin in (Union, UnionType):
        return any(_has_type(value, each) for each in parameters)
    if origin is dict:
        return type(value) is dict and all(
            _has_type(key, parameters[0]) and _has_type(item, parameters[1])
            for key, item in value.items()
        )
    if origin is tuple:
        if type(value) is not tuple:
            return False
        is_open = parameters[-1] is Ellipsis
        hints = parameters[:1] * len(value) if is_open else parameters
        return len(value) == len(hints) and all(map(_has_type, value, hints))
    if hint in (int, float):
        if isinstance(value, Integral):
            return not isinstance(value, bool) and abs(int(value)) < MAX_INTEGER
        return hint is float and isinstance(value, Real)
    if not isinstance(value, origin or hint):
        return False
    return not _is_numeric_array(hint) or value.dtype.kind in NUMERIC_KINDS


def _is_numeric_array(hint: Any) -> bool:
    """Whether an annotation is an array whose dtype is given: of numbers or truth values.

    In annotations of fitted models, arrays of text are `NDArray[Any]`.
    """
    dtypes = [
        each for each in get_args(hint) if getattr(get_origin(each), "__name__", "") == "dtype"
    ]
    return any(get_args(each) != (Any,) for each in dtypes)


class PlainStateMixin:
    """Mixin for estimators that are pickled, and copied, as plain data."""

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: to_plain(value) for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: from_plain(value) for name, value in state.items()})
