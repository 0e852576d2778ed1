"""How far a computation is: whoever wants to know is told at each pass over the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Event:
    """A pass over the data is done; `expected` passes and seconds `left` are None if unknown."""

    stage: str
    passes: float
    expected: float | None
    seconds: float
    left: float | None


Listener: TypeAlias = Callable[[Event], None]
_listener: ContextVar[Listener | None] = ContextVar("ling-progress", default=None)


@contextmanager
def watch(listener: Listener) -> Iterator[None]:
    """Inside of the block, `listener(event)` is called at each pass over the data."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
