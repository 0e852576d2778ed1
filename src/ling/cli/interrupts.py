"""Ctrl-C during a command: an interrupt that a library loses is raised again.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. Finalizers, callbacks from
C and the initialisation of some extension modules drop it, and llvmlite may crash by it. An
interrupt counts as handled for as long as its exception exists.
"""

from __future__ import annotations

import signal
import sys
import time
import weakref
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread, current_thread, main_thread
from types import FrameType
from typing import Any

RETRY_SECONDS = 0.05
# An interrupt waits until none of these modules is on the stack: they lose it, turn it into another
# exception, or crash.
FRAGILE_PACKAGES = ("_frozen_importlib", "importlib", "llvmlite", "numba")


class Interrupt(KeyboardInterrupt):
    """`KeyboardInterrupt`, which cannot be weakly referenced itself."""


class InterruptState:
    """Whether Ctrl-C was pressed, and whether the exception raised for it still exists."""

    def __init__(self) -> None:
        self.was_requested = False
        self._is_closed = False
        self._raised: weakref.ref[Interrupt] | None = None
        # A queue of this kind may be used in a signal handler.
        self._requests: SimpleQueue[bool] = SimpleQueue()

    def handle_signal(self, _number: int, frame: FrameType | None) -> None:
        """Raise `Interrupt`, or leave it to `resend` if `frame` is in fragile code."""
        if self._is_closed:
            return
        self.was_requested = True
        self._requests.put(True)
        if _is_in_fragile_code(frame):
            return
        interrupt = Interrupt()
        self._raised = weakref.ref(interrupt)
        try:
            raise interrupt
        finally:
            del interrupt  # its traceback refers to this frame, which would keep it alive

    def resend(self) -> None:
        """In a thread of its own: interrupt again if an interrupt was dropped, until `close`.

        While cleanup code runs, the exception exists and nothing is sent.
        """
        while self._requests.get():
            time.sleep(RETRY_SECONDS)
            while self._raised is not None and self._raised() is not None and not self._is_closed:
                time.sleep(RETRY_SECONDS)
            if not self._is_closed:
                _interrupt_main_thread()  # calls handle_signal, which makes the next request

    def close(self) -> None:
        """Interrupt no more."""
        self._is_closed = True
        self._requests.put(False)


@contextmanager
def reliable_interrupts() -> Iterator[InterruptState]:
    """Context manager in which Ctrl-C is not lost. The state tells whether it was pressed.

    Nothing is changed outside of the main thread, and where interrupts are ignored or handled by
    somebody else.
    """
    state = InterruptState()
    handler = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or handler is not signal.default_int_handler:
        yield state
        return
    usual_hook = sys.unraisablehook
    try:
        sys.unraisablehook = lambda ignored: None if _is_interrupt(ignored) else usual_hook(ignored)
        Thread(target=state.resend, name="ling-interrupts", daemon=True).start()
        signal.signal(signal.SIGINT, state.handle_signal)
        yield state
    finally:
        state.close()  # before the handler: nothing may be sent to the one that was there before
        signal.signal(signal.SIGINT, handler)
        sys.unraisablehook = usual_hook


def _interrupt_main_thread() -> None:
    """Send SIGINT to the main thread, which also wakes it if it is blocked in a system call."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)
    else:  # on Windows
        interrupt_main()


def _is_interrupt(ignored: Any) -> bool:
    return issubclass(ignored.exc_type, KeyboardInterrupt)


def _is_in_fragile_code(frame: FrameType | None) -> bool:
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in FRAGILE_PACKAGES:
            return True
        frame = frame.f_back
    return False
