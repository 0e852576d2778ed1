"""Damaged zarr arrays end in an error of ling that names the folder, whatever zarr raises."""

import json
import pickle

import numpy as np
import pytest
import zarr

from ling import Ridge, scan_zarr
from ling.errors import DataFileError, InputTypeError
from tests.raising import raises

N, P = 20, 3


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for name, array in (("X", rng.standard_normal((N, P))), ("y", rng.standard_normal(N))):
        chunks = (5, *array.shape[1:])
        stored = zarr.create_array(tmp_path / name, shape=array.shape, chunks=chunks, dtype="f8")
        stored[:] = array
    return tmp_path


def change(folder, **values):
    path = folder / "zarr.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def fit(folder):
    return Ridge().fit(scan_zarr(folder / "X", folder / "y"))


@pytest.mark.parametrize("argument", ["X", "y"])
def test_damaged_chunks(argument, folder):
    fit(folder)
    chunk = sorted((folder / argument / "c").rglob("*"))[-1]
    chunk.write_bytes(chunk.read_bytes()[:-5])
    with raises(DataFileError, argument, file=str(folder / argument), mentions="chunks"):
        fit(folder)


@pytest.mark.parametrize("argument", ["X", "y"])
@pytest.mark.parametrize(
    "values",
    [
        {"shape": {"a": 1}},
        {"codecs": 5},
        {"fill_value": [1]},
        {"chunk_grid": "regular"},
        {"node_type": None},
        {"data_type": "float6"},
    ],
    ids=str,
)
def test_damaged_metadata(argument, values, folder):
    change(folder / argument, **values)
    with raises(DataFileError, argument, file=str(folder / argument)):
        fit(folder)


def test_messages_are_short(folder):
    change(folder / "X", shape=["long"] * 10_000)
    with raises(DataFileError, "X") as error:
        fit(folder)
    assert len(str(error.value)) < 500


def test_chunks_without_rows(folder):
    grid = {"name": "regular", "configuration": {"chunk_shape": [0, P]}}
    change(folder / "X", chunk_grid=grid)
    with raises(DataFileError, "X", file=str(folder / "X")):
        fit(folder)


@pytest.mark.parametrize("argument", ["X", "y"])
def test_arrays_that_do_not_fit_into_memory(argument, folder):
    shape = [N, 10**14]
    grid = {"name": "regular", "configuration": {"chunk_shape": shape}}
    change(folder / argument, shape=shape, chunk_grid=grid)
    with raises(DataFileError, argument, mentions="memory"):
        fit(folder)


class Bomb:
    """Leaves a trace when it is unpickled."""

    traces = ()

    def __reduce__(self):
        return (explode, ())


def explode():
    Bomb.traces = (*Bomb.traces, "here")


def test_pickles_are_refused(folder, monkeypatch):
    """Also where numcodecs is told to unpickle, as older versions do without being told."""
    import numcodecs.pickles

    monkeypatch.setattr(numcodecs.pickles, "ALLOW_UNSAFE_PICKLE_DECODE", True, raising=False)
    filters = [{"id": "vlen-utf8"}, {"id": "pickle"}]
    document = {
        "zarr_format": 2, "shape": [N], "chunks": [N], "dtype": "|O", "compressor": None,
        "filters": filters, "fill_value": None, "order": "C",
    }  # fmt: skip
    path = folder / "pickled"
    path.mkdir()
    (path / ".zarray").write_text(json.dumps(document))
    (path / "0").write_bytes(pickle.dumps(Bomb()))
    with raises(InputTypeError, "y", file=str(path), mentions="pickles"):
        Ridge().fit(scan_zarr(folder / "X", path))
    assert not Bomb.traces
