"""Ctrl-C in a fit from data that is read in blocks ends the fit, its reader, and the process."""

import os
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import numpy as np
import pytest

import ling
from ling.design import ArraySource, ChunkedStorage, as_design
from ling.design.chunked import prefetch

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals are sent")

PREPARED = """
import os, signal, sys, time
import numpy as np
from ling import Ridge
from ling.design import ArraySource, ChunkedStorage, as_design
rng = np.random.default_rng(0)
X = rng.standard_normal((4000, 20))
y = X @ np.ones(20)
"""

# The reader, which is another thread, interrupts the fit while the main thread does whatever it
# does by then.
SLOW_SOURCE = """
class Slow(ArraySource):
    count = 0
    picks = False
    def blocks(self, rows, height):
        for block in super().blocks(rows, height):
            time.sleep(0.002)
            Slow.count += 1
            if Slow.count == {number}:
                print("interrupting", flush=True)
                os.kill(os.getpid(), signal.SIGINT)
            yield block
while True:  # until it is interrupted
    storage = ChunkedStorage(Slow(X), max_resident_bytes=4 * 100 * 160)
    Ridge(solver={solver!r}, memory_budget=1e6).fit(storage, y)
"""

# The interrupt comes while a block is worked on and the next one waits.
WHILE_WORKING = """
def work(rows):
    print("interrupting", flush=True)
    signal.raise_signal(signal.SIGINT)
    return rows[:, 0]
as_design(ChunkedStorage(ArraySource(X), max_resident_bytes=4 * 100 * 160)).map_rows(work)
"""

# The blocks are still referred to when the interpreter ends.
DROPPED = """
design = ChunkedStorage(ArraySource(X), max_resident_bytes=4 * 100 * 160)
blocks = design.blocks()
next(blocks)
print("interrupting", flush=True)
os.kill(os.getpid(), signal.SIGINT)
time.sleep(60)
"""


def ends_by_interrupt(code):
    # It ends at once; how long it takes to begin depends on what else the machine does.
    process = subprocess.Popen(
        [sys.executable, "-c", PREPARED + code],
        env={**os.environ, "PYTHONPATH": str(Path(ling.__file__).parents[1])},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert "interrupting" in out, err
    # By the signal, or by the code for it.
    assert process.returncode in (130, -signal.SIGINT), err
    assert err.rstrip().endswith("KeyboardInterrupt"), err


@pytest.mark.processes
@pytest.mark.parametrize(("solver", "number"), [("direct", 1), ("direct", 50), ("two_stage", 200)])
def test_a_fit_from_a_slow_source(solver, number):
    ends_by_interrupt(SLOW_SOURCE.format(solver=solver, number=number))


@pytest.mark.processes
@pytest.mark.parametrize("code", [WHILE_WORKING, DROPPED], ids=["while working", "dropped"])
def test_the_process_ends(code):
    ends_by_interrupt(code)


def readers():
    return [thread for thread in threading.enumerate() if thread.name == "ling-reader"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_the_reader_ends_with_the_pass_though_the_traceback_lives_on(error):
    def work(rows):
        assert len(readers()) == 1
        raise error

    design = ChunkedStorage(ArraySource(np.ones((400, 5))), max_resident_bytes=4 * 10 * 40)
    with pytest.raises(error) as caught:
        as_design(design).map_rows(work)
    assert traceback.extract_tb(caught.tb)
    assert readers() == []


def test_another_thread_may_go_on_with_blocks_of_one_that_has_ended():
    items = prefetch(iter(range(100)))
    first = threading.Thread(target=next, args=(items,))
    first.start()
    first.join()
    assert list(items) == list(range(1, 100))
    assert readers() == []


# The generator stays open in a daemon thread that never ends.
PAUSED_IN_A_DAEMON = """
import threading
def consume():
    blocks = ChunkedStorage(ArraySource(X), max_resident_bytes=4 * 100 * 160).blocks()
    next(blocks)
    taken.set()
    threading.Event().wait()
taken = threading.Event()
threading.Thread(target=consume, daemon=True).start()
taken.wait()
print("main ends", flush=True)
"""

# A thread that is no daemon goes on after the main thread.
FIT_AFTER_MAIN = """
import threading
from threadpoolctl import threadpool_limits
from ling.linalg.threads import parallel_map
def read():
    design = as_design(ChunkedStorage(ArraySource(X), max_resident_bytes=4 * 100 * 160))
    threading.main_thread().join()
    print(design.map_rows(lambda rows: rows[:, 0]).shape, flush=True)
    with threadpool_limits(2):
        print(parallel_map(str, range(3)), flush=True)
threading.Thread(target=read).start()
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("code", "printed"),
    [(PAUSED_IN_A_DAEMON, "main ends"), (FIT_AFTER_MAIN, "(4000,)\n['0', '1', '2']")],
)
def test_a_process_ends_when_its_threads_do(code, printed):
    done = subprocess.run(
        [sys.executable, "-c", PREPARED + code], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(Path(ling.__file__).parents[1])},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout


def test_readers_are_joined_before_the_interpreter_is_torn_down():
    items = prefetch(iter(range(10)))
    assert next(items) == 0
    assert [reader.daemon for reader in readers()] == [False]
    items.close()
    assert readers() == []
