"""For all tests: one source of random numbers, hypothesis without a deadline, usual signals."""

import signal
import threading

import numpy as np
import pytest
from hypothesis import settings

from tests.extras import SkippableModule

# numba compiles on first use, which no deadline per example would survive.
settings.register_profile("ling", deadline=None)
settings.load_profile("ling")

# A shell starts background processes with SIGINT ignored, and they pass that on to their children.
# With a handler set here, processes that the tests start get the default action again.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_pycollect_makemodule(module_path, parent):
    return SkippableModule.from_parent(parent, path=module_path)


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)
