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
READ_STAGE = "read"
# The last event of a fit that is there.
DONE_STAGE = "done"


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
RemainingWork: TypeAlias = tuple[float, float | None]


class FitProgress:
    """One fit, and those who listen to it. Passes may be made by any thread."""

    def __init__(self, listeners: tuple[Listener, ...]) -> None:
        self.listeners = listeners
        self.is_finished = False
        self._lock = Lock()
        self._started = self._last_update = time.perf_counter()
        self._stage = ""
        self._passes = self._partial_pass = 0.0
        self._expected_passes: float | None = None
        self._expected_end: float | None = None
        # Seconds and passes by which the pace is measured; older ones count for less.
        self._pace_seconds = self._pace_passes = 0.0

    def begin_stage(self, stage: str, expect: Callable[[], RemainingWork] | None = None) -> None:
        """A stage begins; without an expectation of its own, the one before goes on."""
        found = None if expect is None else expect()
        with self._lock:
            now = time.perf_counter()
            self._stage, self._partial_pass, self._last_update = stage, 0.0, now
            if found is not None:
                self._expected_passes = self._passes + max(0.0, found[0])
                self._expected_end = None if found[1] is None else now + found[1]
        self._notify()

    def add(self, passes: float) -> None:
        """So many passes have been made, whatever was known of parts of them."""
        with self._lock:
            now = time.perf_counter()
            older = 0.5**passes
            self._pace_seconds = older * self._pace_seconds + now - self._last_update
            self._pace_passes = older * self._pace_passes + passes
            self._passes, self._partial_pass, self._last_update = self._passes + passes, 0.0, now
        self._notify()

    def add_partial_pass(self, share: float) -> None:
        """A share of the pass that is under way has been made."""
        with self._lock:
            self._partial_pass += share
        self._notify()

    def finish(self) -> None:
        """The fit is there."""
        with self._lock:
            self._stage, self._partial_pass, self._expected_passes = DONE_STAGE, 0.0, self._passes
        self._notify()

    def _notify(self) -> None:
        if self.is_finished:  # a result may be asked for more, which takes passes long after
            return
        with self._lock:
            event = self._make_event(time.perf_counter())
        for listener in self.listeners:
            listener(event)

    def _make_event(self, now: float) -> Event:
        done, expected = self._passes + self._partial_pass, self._expected_passes
        if expected is not None:  # shares of passes add up but for rounding
            expected = max(expected, done) if done <= expected + 1e-6 else None
        left = None if expected is None else self._estimate_seconds_left(now, done, expected)
        return Event(self._stage, done, expected, now - self._started, left)

    def _estimate_seconds_left(self, now: float, done: float, expected: float) -> float | None:
        """By the plan at first, by the pace so far towards the end."""
        remaining = max(0.0, expected - done)
        took, counted = self._pace_seconds, self._pace_passes
        if self._partial_pass:
            took, counted = took + now - self._last_update, counted + self._partial_pass
        paced = remaining * took / counted if counted else None
        planned = None if self._expected_end is None else max(0.0, self._expected_end - now)
        if paced is None or planned is None:
            return planned if paced is None else paced
        share = done / expected if expected else 1.0
        return (1 - share) * planned + share * paced


_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("ling_listeners", default=())
_current_fit: ContextVar[FitProgress | None] = ContextVar("ling_run", default=None)


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
def track_fit(*listeners: Listener) -> Iterator[None]:
    """One fit: its passes are counted for these listeners, and for all who watch."""
    run = FitProgress((*_listeners.get(), *listeners))
    token = _current_fit.set(run)
    try:
        yield
        run.finish()
    finally:
        run.is_finished = True
        _current_fit.reset(token)


def has_listeners() -> bool:
    """Whether anybody would be told of a fit that begins here, or is of another around it."""
    return bool(_listeners.get()) or _current_fit.get() is not None


def current_fit() -> FitProgress | None:
    """The fit that goes on here, if anybody watches it."""
    return _current_fit.get()


def stage(name: str, expect: Callable[[], RemainingWork] | None = None) -> None:
    """Say what begins now; `expect` is only asked where somebody watches."""
    run = _current_fit.get()
    if run is not None:
        run.begin_stage(name, expect)
