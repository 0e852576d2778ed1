"""Dask arrays whose chunks are not what they declare, without a cluster: never a model."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from ling import Ridge, RidgeClassifier, RidgeCV
from ling.design import as_design
from ling.design.dask import DaskStorage
from ling.errors import ShapeError
from tests.design.bad_chunks import (
    CHANGES,
    HEIGHT,
    N,
    P,
    bad,
    every_other_row,
    numbers,
    refused,
    rows_shifted,
)


@pytest.fixture(autouse=True)
def no_cluster():
    """Other tests may have a client."""
    with dask.config.set(scheduler="threads"):
        yield


@pytest.mark.parametrize("name", CHANGES)
def test_fits(name):
    X, message = bad(name)
    _, y = numbers()
    for model in (Ridge(), RidgeCV(), RidgeClassifier()):
        with refused(message):
            model.fit(X, y > 0 if isinstance(model, RidgeClassifier) else y)
        assert not hasattr(model, "coef_")


@pytest.mark.parametrize("name", CHANGES)
def test_predictions(name):
    X, message = bad(name)
    model = Ridge().fit(*numbers())
    with refused(message):
        model.predict(X).compute()
    with refused(message):
        model.score(X, numbers()[1])


def test_sizes_that_are_found_out():
    """What to do about it: ask Dask for the sizes."""
    X, y = numbers()
    array, _ = bad("every other row")
    found = Ridge().fit(array.compute_chunk_sizes(), y[::2])
    np.testing.assert_allclose(found.coef_, Ridge().fit(X[::2], y[::2]).coef_)


@pytest.mark.parametrize("name", ["every other row", "rows shifted"])
def test_columns_in_several_chunks(name):
    """Which are put together before they are used."""
    array, message = bad(name)
    columns_apart = da.concatenate([array, array], axis=1)
    with refused(message.replace(", 0", r", \d")):
        Ridge().fit(columns_apart, numbers()[1])


def test_very_many_small_chunks():
    """Which are put together as well: then they have as many rows as they should."""
    array = da.ones((3003, P), chunks=(3, P)).map_blocks(rows_shifted, dtype=float)
    design = DaskStorage.from_array(array)
    assert design.block_rows == 3003
    with refused(r"\([12], 0\).*\([24], 4\)"):
        as_design(design).gram()


@pytest.mark.parametrize("number", [0, 2])
def test_columns_of_chunks_with_unknown_rows(number):
    def column_lost(block, block_id=None):
        return block[:, 1:] if block_id[0] == number else block

    array = da.from_array(numbers()[0], chunks=(HEIGHT, P))
    array = array.map_blocks(column_lost, dtype=float)[da.ones(N, chunks=HEIGHT, dtype=bool)]
    with refused(rf"\({number}, 0\).*\({HEIGHT}, {P - 1}\).*\({HEIGHT}, {P}\)"):
        Ridge().fit(array, numbers()[1])


@pytest.mark.parametrize("names", [["c", "b", "a"], ["a", "b"]], ids=["another order", "fewer"])
def test_partitions_with_other_columns(names):
    X, y = numbers()
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])

    def some(part, partition_info=None):
        return part[names] if partition_info["number"] == 1 else part

    table = dd.from_pandas(frame, npartitions=3)
    table = table.map_partitions(some, meta=frame.iloc[:0], enforce_metadata=False)
    with pytest.raises(ShapeError, match=r"\['a', 'b'"):
        Ridge().fit(table, y)
    model = Ridge().fit(frame, y)
    with pytest.raises(ShapeError, match=r"\['a', 'b'"):
        model.predict(table).compute()


def test_targets_and_weights():
    X, y = numbers()
    right = da.from_array(y, chunks=HEIGHT)
    wrong = right.map_blocks(every_other_row, dtype=float)
    model = Ridge()
    for name, given in {"y": (wrong, None), "sample_weight": (right, abs(wrong))}.items():
        message = rf"\(\d\).*\({HEIGHT // 2},\).*\({HEIGHT},\)"
        with refused(message, name):
            model.fit(X, *given)
        with refused(message, name):
            model.fit(da.from_array(X, chunks=(HEIGHT, P)), *given)
        with refused(message, name):
            Ridge().fit(X, y).score(X, *given)
    assert not hasattr(model, "coef_")
