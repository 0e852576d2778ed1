"""Many fits at once and in a row: the same results as alone, and nothing left behind.

`make load` runs the same tests with `LING_LOAD` times as many fits.
"""

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed

from tests import load

SCALE = int(os.environ.get("LING_LOAD", "1"))
N_THREADS = 64
# Caches fill, some hundred kilobytes in a thousand fits, up to their limits; with scikit-learn 1.8
# it is 2 MB once, after 2,000 fits as after 1,000. A fit that leaked its X would leave 7,680 bytes,
# and a thousand of them 7 MB.
MAX_GROWTH_BYTES = 4_000_000
# Pools of packages start threads and open files when they are first needed. One for each fit would
# be a thousand.
MAX_GROWTH_COUNT = 30
# The allocator returns memory to the system in pieces.
MAX_RESIDENT_GROWTH_BYTES = 60_000_000


def run_program(*arguments, n_threads):
    """What `python -m tests.load` prints, with so many threads of BLAS and of ling."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(n_threads)}
    command = [sys.executable, "-m", "tests.load", *map(str, arguments)]
    ended = subprocess.run(
        command, cwd=Path(__file__).parents[1], env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_64_threads_at_once_fit_as_alone():
    kinds = list(load.installed_kinds())
    known = {(kind, seed): load.run(kind, seed) for kind in kinds for seed in range(2)}
    barrier = threading.Barrier(N_THREADS)

    def task(number):
        barrier.wait(timeout=load.MAX_SECONDS)
        for turn in range(SCALE):
            kind, seed = kinds[(number + turn) % len(kinds)], number % 2
            np.testing.assert_allclose(
                load.run(kind, seed), known[kind, seed], rtol=1e-9, atol=1e-12, err_msg=kind
            )
        return True

    with ThreadPoolExecutor(N_THREADS) as pool:
        assert all(pool.map(task, range(N_THREADS)))


@pytest.mark.parametrize(
    "backend", ["threading", pytest.param("loky", marks=pytest.mark.processes)]
)
def test_joblib(backend):
    kinds = list(load.installed_kinds())
    found = Parallel(n_jobs=4, backend=backend)(
        delayed(load.run)(kind, seed) for kind in kinds for seed in range(SCALE)
    )
    known = [load.run(kind, seed) for kind in kinds for seed in range(SCALE)]
    for coef, expected in zip(found, known, strict=True):
        np.testing.assert_allclose(coef, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.processes
@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork"
)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_8_forked_processes_fit_as_their_parent(n_threads):
    assert run_program("forks", 8, n_threads=n_threads) < 1e-9


@pytest.mark.processes
def test_1000_fits_leave_nothing_behind():
    growth = run_program("growth", 1000 * SCALE, n_threads=2)
    assert growth["threads"] < MAX_GROWTH_COUNT
    assert growth["files"] < MAX_GROWTH_COUNT
    assert growth["bytes"] < MAX_GROWTH_BYTES
    assert growth["resident bytes"] < MAX_RESIDENT_GROWTH_BYTES
