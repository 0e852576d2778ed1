"""Progress of a fit: passes over X become events that are sent to listeners.

Passes are counted where X is multiplied, and stages are named where they begin. The algorithms
themselves do not report progress. Without a listener nothing is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import TypeAlias

__all__ = ["Event", "watch"]
# Stage in which X is read into memory. It is not among the passes that a fit counts.
READ_STAGE = "read"
# Stage of the last event of a completed fit.
DONE_STAGE = "done"


@dataclass(frozen=True)
class Event:
    """Progress of a fit at one moment.

    `stage` is the name of the current stage. `passes` is the number of passes over X since the fit
    began, including the part of the current one, and `seconds` the time since then. `expected` is
    the predicted total number of passes and `left` the predicted number of remaining seconds. Both
    are None if they are unknown, for example after more passes than predicted.

    While X is read into memory, `passes` goes from 0 to 1. Then it starts again at 0.
    """

    stage: str
    passes: float
    expected: float | None
    seconds: float
    left: float | None


Listener: TypeAlias = Callable[[Event], object]
#: Predicted passes and seconds from now to the end of the fit. The seconds are None if unknown.
RemainingWork: TypeAlias = tuple[float, float | None]


class FitProgress:
    """Progress counters of one fit, and its listeners. Passes may be reported by any thread."""

    def __init__(self, listeners: tuple[Listener, ...]) -> None:
        self.listeners = listeners
        self.is_finished = False
        self._lock = Lock()
        self._started = self._last_update = time.perf_counter()
        self._stage = ""
        self._passes = self._partial_pass = 0.0
        self._expected_passes: float | None = None
        self._expected_end: float | None = None
        # Exponentially weighted seconds and passes, whose ratio is the current time per pass.
        self._pace_seconds = self._pace_passes = 0.0

    def begin_stage(self, stage: str, expect: Callable[[], RemainingWork] | None = None) -> None:
        """Begin a stage and notify the listeners.

        `expect()` returns the predicted remaining work. It is called only if there are listeners.
        Without it the earlier prediction is kept.
        """
        if not self.listeners:
            return
        remaining = None if expect is None else expect()
        with self._lock:
            now = time.perf_counter()
            self._stage, self._partial_pass, self._last_update = stage, 0.0, now
            if remaining is not None:
                self._expected_passes = self._passes + max(0.0, remaining[0])
                self._expected_end = None if remaining[1] is None else now + remaining[1]
        self._notify()

    def add(self, passes: float) -> None:
        """Count completed passes. They include all partial passes that were reported before."""
        if not self.listeners:
            return
        with self._lock:
            now = time.perf_counter()
            decay = 0.5**passes
            self._pace_seconds = decay * self._pace_seconds + now - self._last_update
            self._pace_passes = decay * self._pace_passes + passes
            self._passes, self._partial_pass, self._last_update = self._passes + passes, 0.0, now
        self._notify()

    def add_partial_pass(self, share: float) -> None:
        """Report that a further fraction `share` of the current pass is done."""
        if not self.listeners:
            return
        with self._lock:
            self._partial_pass += share
        self._notify()

    def finish(self) -> None:
        """Report that the fit is complete."""
        if not self.listeners:
            return
        with self._lock:
            self._stage, self._partial_pass, self._expected_passes = DONE_STAGE, 0.0, self._passes
        self._notify()

    def _notify(self) -> None:
        if self.is_finished:  # later passes, for attributes computed on demand, are not part of it
            return
        with self._lock:
            event = self._make_event(time.perf_counter())
        for listener in self.listeners:
            listener(event)

    def _make_event(self, now: float) -> Event:
        done, expected = self._passes + self._partial_pass, self._expected_passes
        if expected is not None:  # fractions of passes add up to 1 only up to rounding
            expected = max(expected, done) if done <= expected + 1e-6 else None
        left = None if expected is None else self._estimate_seconds_left(now, done, expected)
        return Event(self._stage, done, expected, now - self._started, left)

    def _estimate_seconds_left(self, now: float, done: float, expected: float) -> float | None:
        """Predicted remaining seconds, or None if unknown.

        A weighted mean of the planned time and of the measured time per pass. The weight of the
        latter is the fraction of passes done, so that it grows from 0 to 1.
        """
        remaining = max(0.0, expected - done)
        pace_seconds, pace_passes = self._pace_seconds, self._pace_passes
        if self._partial_pass:
            pace_seconds, pace_passes = (
                pace_seconds + now - self._last_update,
                pace_passes + self._partial_pass,
            )
        measured = remaining * pace_seconds / pace_passes if pace_passes else None
        planned = None if self._expected_end is None else max(0.0, self._expected_end - now)
        if measured is None or planned is None:
            return planned if measured is None else measured
        fraction_done = done / expected if expected else 1.0
        return (1 - fraction_done) * planned + fraction_done * measured


# Set by `watch` and read by `track_fit` only: everything in between is passed a FitProgress.
_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("ling_listeners", default=())


@contextmanager
def watch(listener: Listener) -> Iterator[None]:
    """Send the progress of all fits within this block to `listener`.

    Listeners of enclosing blocks are notified as well. An exception that a listener raises ends
    the fit and propagates to its caller.

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
def track_fit(*listeners: Listener) -> Iterator[FitProgress]:
    """Yield the progress of one fit, for these listeners and for those of `watch`."""
    progress = FitProgress((*_listeners.get(), *listeners))
    try:
        yield progress
        progress.finish()
    finally:
        progress.is_finished = True


def __dir__() -> list[str]:
    return __all__
