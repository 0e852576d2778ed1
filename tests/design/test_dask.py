"""Dask arrays without a cluster; tests/cluster has those with one."""

import subprocess
import sys
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from scipy import sparse

from ling.design import as_design
from ling.design.blocked import BlockResult
from ling.design.dask import DaskStorage
from ling.design.dask.cluster import (
    MAX_DEATHS_PER_BLOCK,
    BlockPlacement,
    ClusterBlocks,
    TaskGroup,
    _group_rows,
    _split_by_thread,
)
from ling.design.dask.failures import import_optional, translate_errors
from ling.design.dask.partition import SPLIT_EVERY, RowLayout, merge_nodes
from ling.design.dask.storage import _join_small_chunks, _joined_heights
from ling.errors import (
    ClusterLostError,
    ClusterMemoryError,
    InputTypeError,
    MissingPackageError,
    ShapeError,
)
from tests.design.arrays import ARRAYS, N, P, matrix, pair
from tests.design.products import EVERYTHING, transform_over_maps
from tests.raising import raises


@pytest.fixture(autouse=True)
def no_cluster():
    """Other tests may have a client."""
    with dask.config.set(scheduler="threads"):
        yield


@pytest.mark.parametrize("everything", EVERYTHING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", ARRAYS)
def test_everything_agrees_with_dense(name, everything, rng):
    array, X = pair(name)
    everything(DaskStorage.from_array(array), X, rng)


@pytest.mark.parametrize("name", ["uneven", "float32"])
def test_every_map_agrees_with_dense(name, rng):
    array, X = pair(name)
    transform_over_maps(DaskStorage.from_array(array), X, rng)


def test_the_users_array_is_left_alone():
    array, _ = pair("unknown sizes")
    chunks = array.chunks
    DaskStorage.from_array(array)
    assert array.chunks is chunks


def test_what_was_done_to_chunks_is_noted():
    (note,) = DaskStorage.from_array(pair("columns apart")[0]).notes
    assert "3 chunks" in note
    assert "rechunk" in note
    assert len(DaskStorage.from_array(pair("unknown, columns apart")[0]).notes) == 2
    assert DaskStorage.from_array(pair("even")[0]).notes == ()


def test_very_many_small_chunks_are_put_together():
    array, X = pair("many")
    joined, (note,) = _join_small_chunks(array, max_small_chunks=20, joined_bytes=9 * P * 8)
    assert "33 chunks" in note
    design = DaskStorage.from_array(joined)
    assert design.block_rows == 9
    np.testing.assert_allclose(as_design(design).gram(), X.T @ X)
    assert _join_small_chunks(array, max_small_chunks=33) == (array, ())


@pytest.mark.parametrize("most", [1, 3, 10, 1000])
def test_joined_heights_add_up(most, rng):
    heights = rng.integers(0, 5, 40).tolist()
    assert sum(_joined_heights(heights, most)) == sum(heights)


def test_what_it_says_of_itself():
    design = DaskStorage.from_array(pair("uneven")[0])
    assert design.block_rows == 60
    assert design.n_workers == 1
    assert design.has_row_access
    assert design.read_bandwidth is None
    assert repr(design) == f"DaskStorage({N} x {P}, float64, 4 blocks of up to 60 rows)"


def test_the_first_number_that_is_not_finite():
    X = matrix()
    X[58, 3] = X[70, 0] = np.nan
    assert DaskStorage.from_array(da.from_array(X, chunks=(25, P))).find_nonfinite() == (58, 3)


def test_dtypes():
    assert DaskStorage.from_array(pair("float32")[0]).dtype == np.float32
    assert DaskStorage.from_array(pair("int")[0]).dtype == np.float64


def test_no_rows():
    design = as_design(DaskStorage.from_array(da.zeros((0, 3))))
    assert design.shape == (0, 3)
    np.testing.assert_array_equal(design.gram_matmat(np.ones(3)), np.zeros(3))


def test_no_columns():
    assert (
        DaskStorage.from_array(da.zeros((4, 0))).matmat(np.zeros((0, 2))).tolist()
        == [[0.0, 0.0]] * 4
    )


def test_sparse_chunks_are_refused():
    array = da.from_array(matrix(), chunks=(30, P)).map_blocks(sparse.csr_matrix)
    with raises(InputTypeError, "X", mentions="csr_matrix"):
        DaskStorage.from_array(array)


def test_chunks_that_turn_out_to_be_sparse_are_refused():
    array = da.from_array(matrix(), chunks=(30, P))
    array = array.map_blocks(sparse.csr_matrix, meta=np.empty((0, 0)))
    with raises(InputTypeError, "X", mentions="rows 0 to 30"):
        as_design(DaskStorage.from_array(array)).gram()


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (da.zeros(4), ShapeError),
        (da.zeros((4, 2), dtype=complex), InputTypeError),
        (da.from_array(np.array([["a"]])), InputTypeError),
    ],
    ids=["one dimension", "complex", "text"],
)
def test_what_is_no_matrix_of_numbers_is_refused(array, error):
    with raises(error, "X"):
        DaskStorage.from_array(array)


def test_rows_out_of_order_are_refused():
    with pytest.raises(AssertionError, match="in order"):
        DaskStorage.from_array(pair("even")[0]).subset(np.array([3, 2]))


def test_errors_of_the_source_are_its_own():
    def fails(block):
        raise ConnectionError("no such bucket")

    array = da.zeros((4, 2), chunks=(2, 2)).map_blocks(fails, meta=np.empty((0, 0)))
    with pytest.raises(ConnectionError, match="no such bucket"):
        as_design(DaskStorage.from_array(array)).gram()


@pytest.mark.parametrize("error", [FileNotFoundError("gone"), KeyError("gone")])
def test_errors_that_are_not_about_the_cluster_stay_as_they_are(error):
    with pytest.raises(type(error)) as caught, translate_errors(str):
        raise error
    assert caught.value is error


def test_errors_of_connections_to_the_cluster_are_translated():
    comm_closed = pytest.importorskip("distributed.comm").CommClosedError("gone")
    assert isinstance(comm_closed, OSError)
    with pytest.raises(ClusterLostError), translate_errors(str):
        raise comm_closed


def no_room(rows):
    raise MemoryError


def test_no_memory_names_the_rows():
    with pytest.raises(ClusterMemoryError, match=r"rows 0 to 10 of X.* chunk of 400 B.*rechunk"):
        as_design(DaskStorage.from_array(pair("even")[0])).map_rows(no_room)


@pytest.mark.parametrize("count", [1, 2, SPLIT_EVERY, SPLIT_EVERY + 1, 3 * SPLIT_EVERY**2 + 5])
def test_sums_do_not_depend_on_who_makes_them(count, rng):
    values = rng.standard_normal(count) * 10.0 ** rng.integers(-8, 8, count)
    stacks = rng.standard_normal((count, 2))

    def several(numbers):
        return {(0, int(i)): BlockResult((values[[i]],), (stacks[[i]],)) for i in numbers}

    (wanted,) = merge_nodes(count, several(range(count))).values()
    np.testing.assert_array_equal(wanted.per_row[0], stacks)
    for workers in (2, 3, 7):
        owner = rng.integers(0, workers, count)
        nodes = [merge_nodes(count, several(np.flatnonzero(owner == w))) for w in range(workers)]
        rng.shuffle(nodes)
        (found,) = merge_nodes(count, *nodes).values()
        assert found.reduced[0].tobytes() == wanted.reduced[0].tobytes()
        np.testing.assert_array_equal(found.per_row[0], stacks)


def test_merging_changes_nothing_in_place(rng):
    nodes = {(0, i): BlockResult((rng.standard_normal(3),)) for i in range(5)}
    before = [outcome.reduced[0].copy() for outcome in nodes.values()]
    merge_nodes(5, nodes)
    for outcome, was in zip(nodes.values(), before, strict=True):
        np.testing.assert_array_equal(outcome.reduced[0], was)


def test_layouts_of_subsets_of_subsets(rng):
    heights = [3, 0, 10, 1, 25]
    block = np.repeat(np.arange(5), heights)
    place = np.concatenate([np.arange(height) for height in heights])
    layout, rows = RowLayout.from_heights(heights, P), np.arange(39)
    while len(rows) > 3:
        some = np.sort(rng.choice(len(rows), max(1, len(rows) * 3 // 4), replace=False))
        layout, rows = layout.subset(some), rows[some]
        found = [(part.block, p) for part in layout.parts for p in layout._indices_in_block(part)]
        assert found == list(zip(block[rows], place[rows], strict=True))


def test_rows_of_a_share():
    layout, array = RowLayout.from_heights([3, 4, 5], 2), np.arange(24.0).reshape(12, 2)
    np.testing.assert_array_equal(_group_rows(array, layout, TaskGroup("", (0, 1), 0)), array[:7])
    apart = np.vstack([array[:3], array[7:]])
    np.testing.assert_array_equal(_group_rows(array, layout, TaskGroup("", (0, 2), 0)), apart)


@pytest.mark.parametrize(
    ("heights", "shares"),
    [([1, 3], [(0,), (1,)]), ([3, 1], [(0,), (1,)]), ([2, 2, 2, 2], [(0, 1), (2, 3)])],
)
def test_threads_get_similar_numbers_of_rows(heights, shares):
    placement = BlockPlacement(("worker",) * len(heights), {"worker": 2})
    groups = list(_split_by_thread(RowLayout.from_heights(heights, P), placement))
    assert [group.numbers for group in groups] == shares
    assert [group.share_index for group in groups] == [0, 1]


def test_blocks_whose_workers_die_are_made_again_a_few_times():
    class KilledWorker(Exception):
        """Named like the error of distributed."""

    class Client:
        n_retries = 0

        def retry(self, futures):
            self.n_retries += 1
            assert self.n_retries <= MAX_DEATHS_PER_BLOCK

    class FailedBlocks(ClusterBlocks):
        def __init__(self):
            self.client, self._placement = Client(), None
            self.futures = [SimpleNamespace(status="error", exception=KilledWorker)]

        def _wait_for_blocks(self):
            """They have all failed."""

    blocks = FailedBlocks()
    with pytest.raises(KilledWorker):
        blocks._locate_blocks()
    assert blocks.client.n_retries == MAX_DEATHS_PER_BLOCK


@pytest.mark.processes
def test_dask_is_not_imported_without_need():
    code = (
        "import sys; from ling import Ridge; assert not {'dask', 'distributed'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_dask_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'ling\[dask\]'"):
        import_optional("dask")


def test_without_distributed_blocks_are_made_here(monkeypatch):
    array, X = pair("even")
    # Dask remembers for good, at its first computation, whether distributed can be imported. What
    # it remembers while the module is hidden must not outlive this test.
    monkeypatch.setattr("dask.base._DISTRIBUTED_AVAILABLE", None, raising=False)
    monkeypatch.setattr("dask.base._DistributedClient", None, raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    np.testing.assert_allclose(as_design(DaskStorage.from_array(array)).gram(), X.T @ X)
