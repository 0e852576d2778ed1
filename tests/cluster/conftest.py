"""Clusters of worker processes on this machine, loopback only."""

from contextlib import contextmanager

import pytest

from tests.extras import needs

needs("dask", "distributed")

import dask  # noqa: E402
import distributed  # noqa: E402

# A worker that was killed takes long to start again while the machine is busy. A LocalCluster gives
# a worker up for good if it is away 15 seconds after a death, even if it has come back in between.
dask.config.set({"ling.patience": 300.0, "distributed.deploy.lost-worker-timeout": "300s"})


@contextmanager
def cluster(n_workers, **options):
    """A client of workers with one thread each.

    The scheduler that dask uses is afterwards what it was before: a client whose workers were lost
    can leave its own behind, for which there is no client any more.
    """
    before = dask.config.get("scheduler", None)
    try:
        with (
            distributed.LocalCluster(
                n_workers=n_workers, threads_per_worker=1, processes=True, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", **options,
            ) as made,
            distributed.Client(made) as client,
        ):  # fmt: skip
            yield client
    finally:
        if before is None:
            dask.config.config.pop("scheduler", None)


@pytest.fixture(scope="session")
def client():
    with cluster(3) as found:
        yield found


@pytest.fixture
def workers(client):
    """Their addresses."""
    client.wait_for_workers(3)
    return sorted(client.scheduler_info()["workers"])
