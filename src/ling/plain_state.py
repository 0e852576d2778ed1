"""Objects of registered classes as plain data, and back.

Fitted models are pickled, and written to files, as arrays, numbers, text, tuples and dicts. Readers
that run no code from a file, such as skops, then need to trust the class of the estimator only.
"""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import Any, TypeVar

Registered = TypeVar("Registered", bound=type)
#: Keys of the plain form of an object: the name of its class, and its fields in their order.
CLASS_KEY, FIELDS_KEY = "ling class", "fields"
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
    content = tuple(to_plain(getattr(value, field.name)) for field in fields(value))
    return {CLASS_KEY: kind.__name__, FIELDS_KEY: content}


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
    return kind(*(from_plain(item) for item in content))


class PlainStateMixin:
    """Mixin for estimators that are pickled, and copied, as plain data."""

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: to_plain(value) for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: from_plain(value) for name, value in state.items()})
