"""How far a fit is: passes over X become events, for whoever watches.

Passes are counted where X is multiplied, stages are named where they begin; algorithms know nothing
of either. Where nobody watches nothing is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias

# Reading X into memory, which is not among the passes that a fit counts.
READ = "read"
# The last event of a fit that is there.
DONE = "done"


@dataclass(frozen=True)
class Event:
    """Where a fit is.

    `passes` over X have been made since it began, parts of one included; `seconds` have gone by.
    `expected` is how many passes there will be, and `left` how many seconds are to come: None where
    nobody can tell, as when more passes were needed than expected.

    While X is read into memory, `passes` goes from 0 to 1, and then starts again at 0.
    """

    stage: str
    passes: float
    expected: float | None
    seconds: float
    left: float | None


Listener: TypeAlias = Callable[[Event], object]
#: Passes and seconds from here to the end of the fit; the seconds may be unknown.
Expectation: TypeAlias = tuple[float, float | None]


class Run:
    """One fit, and those who listen to it. Passes may be made by any thread."""

    def __init__(self, listeners: tuple[Listener, ...]) -> None:
        self.listeners = listeners
        self.over = False
        self._lock = Lock()
        self._started = self._last = time.perf_counter()
        self._stage = ""
        self._made = self._part = 0.0
        self._expected: float | None = None
        self._ends: float | None = None
        # Seconds and passes by which the pace is measured; older ones count for less.
        self._took = self._counted = 0.0

    def begin(self, stage: str, expect: Callable[[], Expectation] | None = None) -> None:
        """A stage begins; without an expectation of its own, the one before goes on."""
        found = None if expect is None else expect()
        with self._lock:
            now = time.perf_counter()
            self._stage, self._part, self._last = stage, 0.0, now
            if found is not None:
                self._expected = self._made + max(0.0, found[0])
                self._ends = None if found[1] is None else now + found[1]
        self._tell()

    def add(self, passes: float) -> None:
        """So many passes have been made, whatever was known of parts of them."""
        with self._lock:
            now = time.perf_counter()
            older = 0.5**passes
            self._took = older * self._took + now - self._last
            self._counted = older * self._counted + passes
            self._made, self._part, self._last = self._made + passes, 0.0, now
        self._tell()

    def add_part(self, share: float) -> None:
        """A share of the pass that is under way has been made."""
        with self._lock:
            self._part += share
        self._tell()

    def end(self) -> None:
        """The fit is there."""
        with self._lock:
            self._stage, self._part, self._expected = DONE, 0.0, self._made
        self._tell()

    def _tell(self) -> None:
        if self.over:  # a result may be asked for more, which takes passes long after
            return
        with self._lock:
            event = self._event(time.perf_counter())
        for listener in self.listeners:
            listener(event)

    def _event(self, now: float) -> Event:
        done, expected = self._made + self._part, self._expected
        if expected is not None:  # shares of passes add up but for rounding
            expected = max(expected, done) if done <= expected + 1e-6 else None
        left = None if expected is None else self._left(now, done, expected)
        return Event(self._stage, done, expected, now - self._started, left)

    def _left(self, now: float, done: float, expected: float) -> float | None:
        """By the plan at first, by the pace so far towards the end."""
        remaining = max(0.0, expected - done)
        took, counted = self._took, self._counted
        if self._part:
            took, counted = took + now - self._last, counted + self._part
        paced = remaining * took / counted if counted else None
        planned = None if self._ends is None else max(0.0, self._ends - now)
        if paced is None or planned is None:
            return planned if paced is None else paced
        share = done / expected if expected else 1.0
        return (1 - share) * planned + share * paced


_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("ling_listeners", default=())
_run: ContextVar[Run | None] = ContextVar("ling_run", default=None)


@contextmanager
def watch(listener: Listener) -> Iterator[None]:
    """Fits within this block tell `listener` how far they are, those around it as well.

    What it raises ends the fit, and comes out of it.

    >>> import numpy as np
    >>> from ling import Ridge
    >>> from ling.progress import watch
    >>> stages = []
    >>> with watch(lambda event: stages.append(event.stage)):
    ...     _ = Ridge().fit(np.eye(9), np.ones(9))
    >>> stages[0], stages[-1]
    ('prepare', 'done')
    """
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


@contextmanager
def following(*listeners: Listener) -> Iterator[None]:
    """One fit: its passes are counted for these listeners, and for all who watch."""
    run = Run((*_listeners.get(), *listeners))
    token = _run.set(run)
    try:
        yield
        run.end()
    finally:
        run.over = True
        _run.reset(token)


def watching() -> bool:
    """Whether anybody would be told of a fit that begins here, or is of another around it."""
    return bool(_listeners.get()) or _run.get() is not None


def current() -> Run | None:
    """The fit that goes on here, if anybody watches it."""
    return _run.get()


def stage(name: str, expect: Callable[[], Expectation] | None = None) -> None:
    """Say what begins now; `expect` is only asked where somebody watches."""
    run = _run.get()
    if run is not None:
        run.begin(name, expect)
