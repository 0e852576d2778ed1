"""Ctrl-C at awkward places: it is neither lost nor repeated during cleanup."""

import signal
import sys
import time
from contextlib import suppress
from threading import Event, Thread, Timer

import pytest
import typer

from ling.cli.exit_codes import errors_as_exit_codes
from ling.cli.interrupts import RETRY_SECONDS, reliable_interrupts

MANY_RETRIES = 10 * RETRY_SECONDS


@pytest.fixture(autouse=True)
def usual_handler():
    """The handler of a terminal, also if the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


def work_for_long():
    for _ in range(600):
        time.sleep(0.1)


class InterruptedFinalizer:
    """Python drops what finalizers raise."""

    def __del__(self):
        press_ctrl_c()


def finalizer():
    InterruptedFinalizer()


def code_that_drops_interrupts():
    with suppress(KeyboardInterrupt):
        press_ctrl_c()


def code_that_replaces_interrupts():
    try:
        press_ctrl_c()
    except KeyboardInterrupt:
        raise RuntimeError("Error calling __set_name__") from None


@pytest.mark.parametrize(
    "interrupted", [press_ctrl_c, finalizer, code_that_drops_interrupts,
                    code_that_replaces_interrupts]
)  # fmt: skip
def test_an_interrupt_ends_the_command_wherever_it_comes(interrupted, capsys):
    def command():
        with errors_as_exit_codes():
            interrupted()
            work_for_long()

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "Interrupted; nothing is left half-written.\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_waits_for_the_end_of_an_import(tmp_path, monkeypatch):
    module = "import signal\nsignal.raise_signal(signal.SIGINT)\nis_complete = True\n"
    (tmp_path / "interrupted_module.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)

    def command():
        with reliable_interrupts():
            import interrupted_module  # noqa: F401

            work_for_long()

    with pytest.raises(KeyboardInterrupt):
        command()
    assert sys.modules.pop("interrupted_module").is_complete


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals are sent to threads")
def test_an_interrupt_that_waited_wakes_a_blocked_thread(tmp_path, monkeypatch):
    (tmp_path / "interrupted_before.py").write_text("import signal\nsignal.raise_signal(2)\n")
    monkeypatch.syspath_prepend(tmp_path)
    wakes_by_itself = Event()
    timer = Timer(60, wakes_by_itself.set)

    def command():
        with reliable_interrupts():
            import interrupted_before  # noqa: F401

            timer.start()
            wakes_by_itself.wait()

    with pytest.raises(KeyboardInterrupt):
        command()
    timer.cancel()
    sys.modules.pop("interrupted_before")
    assert not wakes_by_itself.is_set()


def test_cleanup_is_not_interrupted_again():
    is_clean = False

    def command():
        nonlocal is_clean
        with reliable_interrupts():
            try:
                press_ctrl_c()
            finally:
                time.sleep(MANY_RETRIES)
                is_clean = True

    with pytest.raises(KeyboardInterrupt):
        command()
    assert is_clean


def test_a_message_about_an_interrupt_is_kept(capsys):
    def command():
        with errors_as_exit_codes():
            try:
                press_ctrl_c()
            except KeyboardInterrupt:
                raise KeyboardInterrupt("model.ling is written.") from None

    with pytest.raises(typer.Exit):
        command()
    assert capsys.readouterr().err == "Interrupted; model.ling is written.\n"


def test_nothing_comes_after_the_command():
    with reliable_interrupts() as state:
        code_that_drops_interrupts()
    time.sleep(MANY_RETRIES)
    assert state.was_requested


def test_other_handlers_and_threads_are_left_alone():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with reliable_interrupts():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seen = []

    def elsewhere():
        with reliable_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
