"""What every source has to do, wherever its rows lie."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ling.io.fragments
from ling.io import NpySource
from ling.io.buffer_pool import BufferPool
from tests.io.registry import PICKS, SOURCES, N

RANGES = st.tuples(st.integers(0, N), st.integers(0, N)).map(sorted)
every_source = pytest.mark.parametrize("name", SOURCES)


@pytest.fixture(scope="module", autouse=True)
def small_steps():
    """So that batches end inside of blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ling.io.fragments, "rows_per_batch", lambda n_columns: 6)
        yield


@every_source
@settings(max_examples=15, deadline=None)
@given(ends=RANGES, height=st.integers(1, 2 * N))
def test_blocks_are_the_rows(name, scanned, X, ends, height):
    source, (start, stop) = scanned[name].source, ends
    blocks = list(source.blocks(slice(start, stop), height))
    assert [len(block) for block in blocks[:-1]] == [height] * (len(blocks) - 1)
    for block in blocks:
        assert block.dtype == source.dtype
        assert block.flags.c_contiguous or block.flags.f_contiguous
    # All are kept until here, so none may have been written over.
    np.testing.assert_array_equal(np.vstack([X[:0], *blocks]), X[start:stop])


@every_source
def test_shape_and_dtype(name, scanned, X):
    source = scanned[name].source
    assert source.shape == X.shape
    assert source.dtype == (np.float32 if "float32" in name else np.float64)
    assert source.description in repr(scanned[name])
    assert scanned[name].shape == X.shape


@every_source
def test_some_rows(name, scanned, X):
    source = scanned[name].source
    assert source.has_row_access == (name in PICKS)
    if source.has_row_access:
        for rows in ([0, 3, 4, 50, N - 1], []):
            taken = source.take(np.array(rows, dtype=np.intp))
            assert taken.dtype == source.dtype
            np.testing.assert_array_equal(taken, X[rows])


@every_source
def test_some_columns(name, scanned, X):
    source = scanned[name].source
    assert source.has_column_access == name.startswith(("npy", "memmap"))
    if source.has_column_access:
        for columns in (slice(0, 1), slice(1, X.shape[1]), slice(0, X.shape[1]), slice(2, 2)):
            read = source.read_columns(columns)
            assert read.dtype == source.dtype
            np.testing.assert_array_equal(read, X[:, columns])


@every_source
def test_pickled_sources_read_the_same(name, scanned, X):
    copy = pickle.loads(pickle.dumps(scanned[name]))
    np.testing.assert_array_equal(np.vstack(list(copy.source.blocks(slice(3, 60), 25))), X[3:60])
    assert copy.encoding == scanned[name].encoding


@every_source
def test_designs_multiply_like_the_matrix(name, scanned, X):
    design = scanned[name].X
    assert design.shape == X.shape
    np.testing.assert_allclose(design.matmat(np.ones(X.shape[1])), X.sum(axis=1), rtol=1e-6)


def test_reading_can_be_given_up(scanned, X):
    for dataset in scanned.values():
        blocks = dataset.source.blocks(slice(0, N), 10)
        np.testing.assert_array_equal(next(blocks), X[:10])
        blocks.close()


def test_memory_maps_are_read_from_their_files(scanned):
    kinds = {name: type(scanned[name].source) for name in ("memmap", "memmap-part")}
    assert set(kinds.values()) == {NpySource}


def test_blocks_that_were_given_back_are_used_again():
    buffers = BufferPool(12, np.dtype(float))
    first = buffers.allocate_block(4, 3)
    view = first[1:]
    del first
    assert not buffers.free  # a view is still there
    del view
    (memory,) = buffers.free
    assert np.shares_memory(buffers.allocate_block(2, 3), memory)


def test_zarr_reads_end_where_chunks_end(scanned):
    source = scanned["zarr"].source
    ends = np.cumsum([len(piece) for piece in source._read_chunk_rows(3, 60)]) + 3
    assert len(ends) > 1
    assert (ends[:-1] % 7 == 0).all()


def test_row_groups_before_the_first_row_are_skipped(scanned):
    (part,) = scanned["parquet"].source.table.fragments
    assert part._select_row_groups(25, 41) == ([2, 3, 4], 20)
