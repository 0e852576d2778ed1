"""What goes wrong on a cluster: workers die, all of them, the scheduler, the client."""

import os
import signal
import threading
import time

import dask
import dask.array as da
import numpy as np
import pytest

from ling.design import as_design
from ling.design.dask import DaskStorage
from ling.design.dask import failures as module
from ling.errors import ClusterLostError, ClusterMemoryError
from tests.cluster.conftest import cluster
from tests.design.arrays import P, matrix

# What distributed says about connections to workers that were killed.
pytestmark = [pytest.mark.processes, pytest.mark.filterwarnings("default::ResourceWarning")]


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "FIRST_POLL_SECONDS", 0.1)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.2)


def pids(client):
    about = client.run(os.getpid)
    return list(about.values())


def slow(rows):
    time.sleep(0.3)
    return rows[:, :1] ** 2


class Killer(threading.Thread):
    """Kills a worker every now and then."""

    def __init__(self, client, times, pause):
        super().__init__()
        self.client, self.times, self.pause = client, times, pause
        self.killed = []

    def run(self):
        for _ in range(self.times):
            time.sleep(self.pause)
            victim = self.find_victim()
            os.kill(victim, signal.SIGKILL)
            self.killed.append(victim)

    def find_victim(self):
        """A worker that is alive; the one killed before may not have been replaced yet."""
        while True:
            about = self.client.run(os.getpid, on_error="ignore")
            alive = [pid for pid in about.values() if pid not in self.killed]
            if alive:
                return alive[0]
            time.sleep(0.05)


def test_workers_that_die_in_mid_pass_change_nothing(rng):
    X = matrix()
    with cluster(2) as client:
        design = DaskStorage.from_array(da.from_array(X, chunks=(10, P)))
        y = rng.standard_normal((len(X), 2))
        wanted = design.rmatmat(y).tobytes()
        killer = Killer(client, 2, 0.4)
        killer.start()
        found = as_design(design).map_rows(slow)
        killer.join()
        np.testing.assert_allclose(found, X[:, :1] ** 2)
        assert len(killer.killed) == 2
        # What was sent once is there again, and so are the lost blocks.
        assert design.rmatmat(y).tobytes() == wanted


def test_a_worker_that_dies_between_passes_changes_nothing(rng):
    X = matrix()
    with cluster(2) as client:
        design = DaskStorage.from_array(da.from_array(X, chunks=(10, P)))
        y = rng.standard_normal(len(X))
        wanted = design.rmatmat(y).tobytes()
        os.kill(pids(client)[0], signal.SIGKILL)
        assert design.rmatmat(y).tobytes() == wanted


def test_rows_that_kill_every_worker_are_named():
    def deadly(rows):
        os.kill(os.getpid(), signal.SIGKILL)

    with cluster(1):
        design = DaskStorage.from_array(da.from_array(matrix(), chunks=(50, P)))
        as_design(design).gram()
        with pytest.raises(
            ClusterMemoryError, match=r"4 workers died .* rows 0 to 50 of X, a chunk of"
        ):
            as_design(design).map_rows(deadly)


def test_no_workers_left():
    with cluster(1) as client, dask.config.set({"ling.patience": 1.0}):
        design = DaskStorage.from_array(da.from_array(matrix(), chunks=(10, P)))
        as_design(design).gram()
        client.cluster.scale(0)
        while client.scheduler_info()["workers"]:
            time.sleep(0.05)
        started = time.monotonic()
        with pytest.raises(
            ClusterLostError, match=r"no worker for 1 seconds; start .* largest chunk"
        ):
            as_design(design).gram()
        assert time.monotonic() - started < 10


def test_all_workers_die_at_once_and_come_back(rng):
    X = matrix()
    with cluster(2) as client:
        design = DaskStorage.from_array(da.from_array(X, chunks=(10, P)))
        y = rng.standard_normal(len(X))
        wanted = design.rmatmat(y).tobytes()
        for pid in pids(client):
            os.kill(pid, signal.SIGKILL)
        assert design.rmatmat(y).tobytes() == wanted


def test_a_worker_that_retires_leaves_its_blocks_to_others(rng):
    X = matrix()
    with cluster(2) as client:
        design = DaskStorage.from_array(da.from_array(X, chunks=(10, P)))
        wanted = [as_design(design).gram_matmat(np.ones(P)).tobytes() for _ in range(2)]
        before = design.blocks._placement.workers
        client.retire_workers(before[:1])
        assert as_design(design).gram_matmat(np.ones(P)).tobytes() == wanted[0] == wanted[1]


def test_never_any_workers():
    with cluster(0), dask.config.set({"ling.patience": 0.5}):
        design = DaskStorage.from_array(da.from_array(matrix(), chunks=(10, P)))
        with pytest.raises(ClusterLostError, match=r"no worker for 0\.5 seconds"):
            as_design(design).gram()


def test_blocks_that_nobody_may_make(monkeypatch):
    monkeypatch.setattr(module, "STALL_SECONDS", 0.5)
    with cluster(1) as client:
        array = client.persist(da.from_array(matrix(), chunks=(10, P)), workers=["127.0.0.1:1"])
        with pytest.raises(ClusterLostError, match="no worker has done anything"):
            as_design(DaskStorage.from_array(array)).gram()


def test_a_client_that_was_closed():
    with cluster(1) as client:
        design = DaskStorage.from_array(da.from_array(matrix(), chunks=(10, P)))
        as_design(design).gram()
        client.close()
        with pytest.raises(ClusterLostError, match="connect a new Client"):
            as_design(design).gram()


def test_a_cluster_that_goes_in_mid_pass():
    with cluster(1) as client:
        design = DaskStorage.from_array(da.from_array(matrix(), chunks=(30, P)))
        as_design(design).gram()
        closing = threading.Timer(0.5, client.cluster.close)
        closing.start()
        with pytest.raises(ClusterLostError, match="and X with it"):
            as_design(design).map_rows(slow)
        closing.join()


def test_a_restart_of_the_cluster():
    with cluster(1) as client:
        design = DaskStorage.from_array(da.from_array(matrix(), chunks=(10, P)))
        as_design(design).gram()
        client.restart()
        with pytest.raises(ClusterLostError, match="make X again"):
            as_design(design).gram()


def test_an_interrupt_gives_up_what_is_under_way():
    with cluster(1) as client:
        design = DaskStorage.from_array(da.from_array(matrix(), chunks=(20, P)))
        as_design(design).gram()
        main = threading.main_thread().ident
        threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            as_design(design).map_rows(slow)
        time.sleep(0.2)
        waiting = client.run_on_scheduler(
            lambda dask_scheduler: [k for k in dask_scheduler.tasks if "eachrow" in str(k)]
        )
        assert waiting == []
