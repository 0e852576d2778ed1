"""Dask arrays whose blocks lie on workers: same products, same bits, and little that travels."""

import dataclasses
import gc
import time

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import wait
from threadpoolctl import threadpool_limits

from ling.design import AffineRowTransform, as_design
from ling.design.dask import DaskStorage
from ling.design.dask import cluster as module
from ling.design.dask.task_graph import WorkerRestrictions, block_keys
from ling.errors import ClusterMemoryError, InputTypeError, OptionError
from tests.design.arrays import P, matrix, pair
from tests.design.products import EVERYTHING, transform_over_maps
from tests.raising import raises

pytestmark = [pytest.mark.processes, pytest.mark.usefixtures("client")]


# All kinds of arrays are tested without a cluster. These differ in how their blocks are made.
@pytest.mark.parametrize(
    "name", ["uneven", "with empty chunks", "unknown sizes", "columns apart", "float32"]
)
def test_everything_agrees_with_dense(name, rng):
    array, X = pair(name)
    design = DaskStorage.from_array(array)
    for everything in EVERYTHING:
        everything(design, X, rng)


def test_every_map_agrees_with_dense(rng):
    array, X = pair("uneven")
    transform_over_maps(DaskStorage.from_array(array), X, rng)


# Sums of many blocks are trees; what they are sums of does not matter, and takes long.
@pytest.mark.parametrize(("name", "checks"), [("many", EVERYTHING[:2]), ("uneven", EVERYTHING)])
def test_sums_made_on_the_workers(name, checks, rng, monkeypatch):
    monkeypatch.setattr(module, "MAX_DIRECT_SUM_BYTES", 0)
    monkeypatch.setattr("ling.design.dask.task_graph.MAX_INLINE_BYTES", 0)
    array, X = pair(name)
    design = DaskStorage.from_array(array)
    for check in checks:
        check(design, X, rng)


def test_the_users_array_is_left_alone():
    array, _ = pair("unknown sizes")
    chunks = array.chunks
    DaskStorage.from_array(array)
    assert array.chunks is chunks


def spread_over(client, X, workers):
    """The matrix on these workers, in turn."""
    array = da.from_array(X, chunks=(10, P), name=False)
    places = {key: workers[i % len(workers)] for i, key in enumerate(block_keys(array))}
    with dask.annotate(workers=WorkerRestrictions(places)):
        return client.persist(array)


def bits(design, rng):
    y, V = rng.standard_normal((design.shape[0], 2)), rng.standard_normal((P, 2))
    centred = as_design(design).centered(np.abs(y[:, 0]))
    found = [
        *centred.gram_matmat_with_rows(V, AffineRowTransform.from_values(1.0, y, -1.0)),
        *centred.residual_gradient(V, y),
        centred.gram(),
    ]
    found += [design.rmatmat(y), design.matmat(V), *design.moments(None, y)]
    return [array.tobytes() for array in found]


@pytest.mark.parametrize("large", [False, True])
def test_the_number_of_workers_does_not_change_a_bit(client, workers, large, monkeypatch):
    if large:
        monkeypatch.setattr(module, "MAX_DIRECT_SUM_BYTES", 0)
    array, X = pair("even")
    seen = [bits(DaskStorage.from_array(array), np.random.default_rng(1))]
    for some in (workers[:1], workers[1:], workers[::-1]):
        design = DaskStorage.from_array(spread_over(client, X, some))
        seen.append(bits(design, np.random.default_rng(1)))
        assert set(design.blocks._placement.workers) == set(some)
    assert all(found == seen[0] for found in seen)


def test_without_a_cluster_the_bits_are_the_same(client):
    array, _ = pair("even")
    there = bits(DaskStorage.from_array(array), np.random.default_rng(1))
    # Workers use one thread for a task: more would cut blocks into other pieces.
    with dask.config.set(scheduler="threads"), threadpool_limits(1):
        here = DaskStorage.from_array(array)
        assert here.n_workers == 1
        assert bits(here, np.random.default_rng(1)) == there


def test_calls_past_the_scheduler_give_the_same_bits(client, monkeypatch):
    design = as_design(DaskStorage.from_array(pair("even")[0])).centered(np.arange(1.0, 98.0))
    V = np.random.default_rng(0).standard_normal((P, 2))
    wanted = design.gram_matmat(V).tobytes()  # by tasks, as weights have to be sent
    monkeypatch.setattr(module.TaskGraph, "submit", None)
    assert design.gram_matmat(V).tobytes() == wanted


def test_calls_that_find_nothing_are_made_good_by_tasks(monkeypatch):
    storage = DaskStorage.from_array(pair("even")[0])
    design = as_design(storage)
    wanted = design.gram_matmat(np.ones(P)).tobytes()
    placement = storage.blocks._placement
    kept = placement.plan_for(storage.layout).resident_arrays
    kept[module.PLANS_KEY] = dataclasses.replace(kept[module.PLANS_KEY], keys=("a", "b", "c"))
    for _ in range(module.MAX_FAILED_CALLS + 2):
        assert design.gram_matmat(np.ones(P)).tobytes() == wanted
    assert placement.remaining_calls == 0


def test_blocks_do_not_travel(client, workers, monkeypatch):
    """Not even where one worker has all of them, the others nothing to do, and work is slow."""
    array = client.persist(da.from_array(matrix(), chunks=(10, P)), workers=workers[:1])
    wait(array)
    before = client.who_has(array)
    design = DaskStorage.from_array(array)
    as_design(design).map_rows(slow)
    as_design(design).gram()
    monkeypatch.setattr(module, "MAX_DIRECT_SUM_BYTES", 0)
    as_design(design).gram()
    assert client.who_has(array) == before
    assert all(len(places) == 1 for places in before.values())
    logs = client.run(
        lambda dask_worker: [str(e["keys"]) for e in dask_worker.transfer_incoming_log]
    )
    assert not [entry for log in logs.values() for entry in log if array.name in entry]


def slow(rows):
    import time

    time.sleep(0.2)
    return rows[:, :1]


@pytest.fixture
def kept(client):
    """Pieces of per-row arrays that the scheduler knows of, and did not before the test."""

    def names(dask_scheduler):
        return {str(key) for key in dask_scheduler.tasks if "ling-rows" in str(key)}

    gc.collect()
    before = client.run_on_scheduler(names)
    return lambda: client.run_on_scheduler(names) - before


def test_arrays_are_sent_once_and_go_with_their_owner(kept):
    design = DaskStorage.from_array(pair("even")[0])
    y = np.random.default_rng(0).standard_normal((97, 2))
    design.rmatmat(y)
    sent = kept()
    assert len(sent) == 3
    for _ in range(3):
        design.rmatmat(y)
        design.moments(None, y)
        as_design(design).residual_gradient(np.ones((P, 2)), y)
    assert kept() == sent
    del y
    deadline = time.monotonic() + 5
    while kept() and time.monotonic() < deadline:  # until the scheduler has heard of it
        time.sleep(0.02)
    assert not kept()


def test_large_sums_share_the_arrays_of_small_ones(kept, monkeypatch):
    design = DaskStorage.from_array(pair("even")[0])
    weighted = as_design(design).centered(np.arange(1.0, 98.0))
    weighted.gram_matmat(np.ones(P))
    sent = kept()
    assert sent
    monkeypatch.setattr(module, "MAX_DIRECT_SUM_BYTES", 0)
    weighted.gram()
    assert kept() == sent


def test_an_array_that_was_changed_is_sent_again():
    array, X = pair("even")
    design = DaskStorage.from_array(array)
    y = np.ones(97)
    design.rmatmat(y)
    y *= 2
    np.testing.assert_allclose(design.rmatmat(y), 2 * X.sum(axis=0))


def test_constants_are_sent_as_one_number(kept):
    centred = as_design(DaskStorage.from_array(pair("even")[0])).standardized(np.ones(P))
    centred.gram_matmat(np.ones(P))
    assert not kept()


def test_arrays_of_other_subsets_are_others(client):
    array, X = pair("even")
    y = np.arange(40.0)
    first, second = np.arange(40), np.arange(50, 90)
    design = DaskStorage.from_array(array)
    for rows in (first, second):
        np.testing.assert_allclose(design.subset(rows).rmatmat(y), X[rows].T @ y)


def test_chunks_stay_in_balance(workers):
    design = DaskStorage.from_array(da.from_array(matrix(), chunks=(10, P)))
    as_design(design).gram()
    placement = design.blocks._placement.workers
    counts = [placement.count(worker) for worker in workers]
    assert max(counts) - min(counts) <= 1
    assert list(placement) == sorted(placement)
    assert design.n_workers == 3


def test_what_lies_there_already_is_used_as_it_is(client):
    array = client.persist(da.from_array(matrix(), chunks=(10, P)))
    design = DaskStorage.from_array(array)
    assert [f.key for f in design.blocks.futures] == [k for (k,) in array.__dask_keys__()]


def no_room(rows):
    raise MemoryError


def test_no_memory_on_a_worker_names_rows_chunk_and_limit(client):
    with pytest.raises(
        ClusterMemoryError, match=r"rows \d+ to \d+ .* chunk of \d+ B; the limit .*B\. Use smaller"
    ):
        as_design(DaskStorage.from_array(pair("even")[0])).map_rows(no_room)


def test_errors_of_the_source_are_its_own():
    def fails(block):
        raise ConnectionError("no such bucket")

    array = da.zeros((4, 2), chunks=(2, 2)).map_blocks(fails, meta=np.empty((0, 0)))
    design = DaskStorage.from_array(array)
    with pytest.raises(ConnectionError, match="no such bucket"):
        as_design(design).gram()


def test_errors_of_a_function_are_its_own():
    def fails(rows):
        raise ZeroDivisionError("oh")

    design = DaskStorage.from_array(pair("even")[0])
    with pytest.raises(ZeroDivisionError, match="oh"):
        as_design(design).map_rows(fails)
    assert np.isfinite(as_design(design).gram()).all()


def test_chunks_that_turn_out_to_be_sparse_are_refused():
    from scipy import sparse

    array = da.from_array(matrix(), chunks=(30, P))
    array = array.map_blocks(sparse.csr_matrix, meta=np.empty((0, 0)))
    with raises(InputTypeError, "X", mentions="csr_matrix"):
        as_design(DaskStorage.from_array(array)).gram()


def test_inside_of_a_task_it_is_refused(client):
    def inside():
        import dask.array

        return DaskStorage.from_array(dask.array.ones((4, 2)))

    with raises(OptionError, "X", mentions="task on a worker"):
        client.submit(inside, pure=False).result()
