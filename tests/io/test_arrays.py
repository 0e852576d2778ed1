"""Arrays in files: what is accepted, refused, and how much memory it takes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

from ling import Ridge
from ling.design import ArraySource, ChunkedStorage, chunked
from ling.errors import (
    DataFileError,
    InputTypeError,
    MissingValueError,
    OptionError,
    ShapeError,
)
from ling.io import scan_npy, scan_zarr
from tests.raising import raises

ONES = np.ones((3, 2))


@pytest.fixture
def saved(tmp_path):
    def save(array, name="X.npy"):
        np.save(tmp_path / name, array)
        return tmp_path / name

    return save


def test_targets_are_arrays_or_files(saved):
    path = saved(ONES)
    for y in ([1, 2, 3], saved(np.array([1, 2, 3]), "y.npy"), np.array([1.0, 2.0, 3.0])):
        data = scan_npy(path, y)
        np.testing.assert_array_equal(data.y, [1, 2, 3])
        assert data.y.dtype == np.asarray(y if isinstance(y, np.ndarray) else [1]).dtype
    assert scan_npy(path, np.array([1, 2, 3], np.float32)).y.dtype == np.float64
    assert scan_npy(path, np.array(["a", "b", "c"])).y.tolist() == ["a", "b", "c"]
    assert scan_npy(path, ONES).y.shape == (3, 2)


def test_zarr_targets(tmp_path):
    array = zarr.array(ONES, chunks=(2, 2))
    stored = zarr.create_array(tmp_path / "y.zarr", data=np.array([1, 2, 3]))
    for y in ([1, 2, 3], stored, tmp_path / "y.zarr"):
        np.testing.assert_array_equal(scan_zarr(array, y).y, [1, 2, 3])


def test_without_names(saved):
    data = scan_npy(saved(ONES))
    assert data.encoding is None
    assert data.feature_names is None
    with raises(OptionError, "target"):
        _ = data.y
    with raises(OptionError, "name", column="w"):
        data.read("w")


REFUSED = {
    "vector": (np.ones(3), ShapeError, "(3,)"),
    "no-columns": (np.ones((3, 0)), ShapeError, "(3, 0)"),
    "complex": (ONES * 1j, InputTypeError, "complex128"),
    "text": (np.array([["a"]]), InputTypeError, "<U1"),
    "objects": (np.array([[None]]), InputTypeError, "Python objects"),
}


@pytest.mark.parametrize(("array", "kind", "mentions"), REFUSED.values(), ids=REFUSED)
def test_refused_with_advice(array, kind, mentions, saved):
    path = saved(array)
    with raises(kind, "X", file=str(path), mentions=mentions):
        scan_npy(path)


def test_files_that_are_not_npy(tmp_path, saved):
    with raises(DataFileError, "X", file=str(tmp_path / "no.npy"), mentions="No such file"):
        scan_npy(tmp_path / "no.npy")
    (tmp_path / "no.npy").write_bytes(b"PK not at all")
    with raises(DataFileError, "X", file=str(tmp_path / "no.npy"), mentions="magic string"):
        scan_npy(tmp_path / "no.npy")
    path = saved(ONES)
    path.write_bytes(path.read_bytes()[:-8])
    with raises(DataFileError, "X", file=str(path), mentions="has 168 bytes"):
        scan_npy(path)
    with raises(InputTypeError, "X", mentions="ndarray"):
        scan_npy(ONES)


def test_targets_that_do_not_fit(saved, tmp_path):
    path, short = saved(ONES), saved(np.ones(2), "y.npy")
    for y, file in (([1, 2], None), (short, str(short))):
        with raises(ShapeError, "y", file=file, mentions="shape (2,), but X has 3 rows"):
            scan_npy(path, y)
    with raises(MissingValueError, "y", row=1):
        _ = scan_npy(path, [1, np.nan, 2]).y
    with raises(ShapeError, "y", mentions="(2,)"):
        scan_zarr(zarr.array(ONES), [1, 2])


@pytest.mark.parametrize("order", ["C", "F"])
def test_files_that_became_shorter(order, saved):
    path = saved(np.asarray(np.ones((4000, 2)), order=order))
    source = scan_npy(path).source
    blocks = source.blocks(slice(0, 4000), 1000)
    next(blocks)
    path.write_bytes(path.read_bytes()[:-8])
    with raises(DataFileError, "X", file=str(path)):
        next(blocks)


TRUNCATED = """
import os, sys
import numpy as np
import ling.errors, ling.io
path = sys.argv[1]
source = ling.io.scan_npy(path).source
blocks = source.blocks(slice(0, 4000), 4000)
block = next(blocks)
data = ling.scan_npy(path, np.arange(4000.0))
os.truncate(path, 200)
assert block.sum() == 8000  # in memory: a mapped page beyond the end would kill the process
try:
    ling.Ridge(memory_budget=1000).fit(data)
except ling.errors.DataFileError as error:
    print(error.where.file == path)
"""


@pytest.mark.parametrize("order", ["C", "F"])
def test_truncating_a_file_does_not_kill_the_process(order, saved):
    path = saved(np.asarray(np.ones((4000, 2)), order=order))
    done = subprocess.run(
        [sys.executable, "-c", TRUNCATED, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_zarr_refusals(tmp_path):
    with raises(DataFileError, "X", file=str(tmp_path / "no.zarr")):
        scan_zarr(tmp_path / "no.zarr")
    zarr.open_group(tmp_path / "group.zarr", mode="w")
    with raises(DataFileError, "X", file=str(tmp_path / "group.zarr")):
        scan_zarr(tmp_path / "group.zarr")
    with raises(ShapeError, "X", mentions="(3,)"):
        scan_zarr(zarr.array(np.ones(3)))
    zarr.create_array(tmp_path / "vector.zarr", data=np.ones(3))
    with raises(ShapeError, "X", file=str(tmp_path / "vector.zarr")):
        scan_zarr(tmp_path / "vector.zarr")
    with raises(ShapeError, "y", file=str(tmp_path / "vector.zarr")):
        scan_zarr(zarr.array(np.ones((2, 2))), tmp_path / "vector.zarr")
    with raises(InputTypeError, "X", mentions="ndarray"):
        scan_zarr(ONES)


READ = """
import sys
import ling.io
def vm(key):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024
source = getattr(ling.io, sys.argv[1])(sys.argv[2]).source
before = vm("VmRSS:")
for block in source.blocks(slice(0, source.shape[0]), 20_000):
    block[::512].sum()
print(vm("VmHWM:") - before)
"""


@pytest.mark.processes
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak from /proc")
@pytest.mark.parametrize("scan", ["scan_npy", "scan_parquet"])
def test_memory_does_not_grow_with_the_file(scan, tmp_path):
    X = np.random.default_rng(0).standard_normal((1_600_000, 20))  # 256 MB
    path = tmp_path / "X"
    if scan == "scan_npy":
        np.save(path.with_suffix(".npy"), X)
        path = path.with_suffix(".npy")
    else:
        pq.write_table(
            pa.table({f"x{j}": column for j, column in enumerate(X.T)}), path,
            compression="none", use_dictionary=False,
        )  # fmt: skip
    run = [sys.executable, "-c", READ, scan, str(path)]
    peak = float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    assert peak < 0.7 * X.nbytes / 2**20


@pytest.mark.parametrize("dtype", ["c16", "M8[s]", "m8[s]", "V8"])
def test_targets_are_real_numbers_or_text(dtype, saved):
    y = saved(np.zeros(3).astype("i8").view("V8") if dtype == "V8" else np.zeros(3, dtype), "y.npy")
    with raises(InputTypeError, "y", file=str(y), mentions="dtype"):
        _ = scan_npy(saved(ONES), y).y


class LargeSource(ArraySource):
    """Rows that do not fit into memory."""

    def blocks(self, rows, height):
        raise MemoryError


def test_rows_that_do_not_fit_into_memory():
    storage = ChunkedStorage(LargeSource(ONES))
    with raises(DataFileError, "X", mentions="memory"):
        Ridge().fit(storage, [1.0, 2.0, 3.0])
    with raises(DataFileError, "X", mentions="memory"):
        _ = storage.read_bandwidth


def test_few_speeds_of_sources_are_remembered(monkeypatch):
    known = {}
    monkeypatch.setattr(chunked, "_measured_bandwidths", known)
    monkeypatch.setattr(chunked, "MAX_MEASURED_SOURCES", 3)
    storages = [ChunkedStorage(ArraySource(np.ones((n, 2)))) for n in range(1, 6)]
    speeds = [storage.read_bandwidth for storage in storages]
    assert list(known.values()) == speeds[-3:]
    assert [storage.read_bandwidth for storage in storages[-3:]] == speeds[-3:]
