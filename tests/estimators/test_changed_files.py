"""Files that are written to after they were scanned, or between two passes: never a model."""

import os
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest
import zarr

from ling import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV, ridge_path, write_report
from ling.design import ChunkedStorage
from ling.errors import DataFileError
from ling.io import scan_arrow, scan_csv, scan_feather, scan_npy, scan_parquet, scan_zarr
from ling.io.table_profile import OpenTable
from ling.progress import watch
from tests.raising import raises

N, P = 300, 6
#: Too small for X, so that every pass reads it again.
BUDGET = 5000
#: Alpha can be chosen with this budget, although it is too small for X of so many rows.
N_MANY, BUDGET_FOR_MANY = 50_000, 4.7e6


def numbers(seed, n=N):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, P))
    return X, X @ np.arange(1.0, P + 1) + 0.1 * rng.standard_normal(n)


def table(seed):
    X, y = numbers(seed)
    return pa.table({**{f"x{j}": X[:, j] for j in range(P)}, "y": y})


def later(path):
    """Set a later modification time: clocks of file systems tick slowly."""
    time = os.stat(path).st_mtime_ns + 10**9
    os.utime(path, ns=(time, time))


class Npy:
    n = N

    def write(self, folder, seed):
        X, y = numbers(seed, self.n)
        np.save(folder / "X.npy", X)
        np.save(folder / "y.npy", y)
        later(folder / "X.npy")

    def scan(self, folder):
        return scan_npy(folder / "X.npy", folder / "y.npy")


class NpyOfManyRows(Npy):
    n = N_MANY


class MappedNpy(Npy):
    """A memory map whose rows lie together is read like the file."""

    def scan(self, folder):
        return scan_npy(np.load(folder / "X.npy", mmap_mode="r"), folder / "y.npy")


class StridedMap(Npy):
    """One whose rows lie apart is read through the map."""

    def write(self, folder, seed):
        X, y = numbers(seed)
        mode = "r+b" if (folder / "X.bin").exists() else "wb"  # a map must not lose its pages
        with open(folder / "X.bin", mode) as file:
            file.write(np.repeat(X, 2, axis=0).tobytes())
        np.save(folder / "y.npy", y)
        later(folder / "X.bin")

    def scan(self, folder):
        rows = np.memmap(folder / "X.bin", np.float64, "r", shape=(2 * N, P))[::2]
        return scan_npy(rows, folder / "y.npy")


class Zarr:
    def write(self, folder, seed):
        X, y = numbers(seed)
        if not (folder / "X.zarr").exists():
            zarr.create_array(folder / "X.zarr", shape=X.shape, chunks=(50, P), dtype=X.dtype)
            zarr.create_array(folder / "y.zarr", shape=y.shape, chunks=(50,), dtype=y.dtype)
        zarr.open_array(folder / "X.zarr", mode="r+")[:] = X
        zarr.open_array(folder / "y.zarr", mode="r+")[:] = y
        for path in (folder / "X.zarr").rglob("*"):
            later(path)

    def scan(self, folder):
        return scan_zarr(folder / "X.zarr", folder / "y.zarr")


class Files:
    """Two files of a table, the second of which changes."""

    def __init__(self, ending, put, scan):
        self.ending, self.put, self._scan = ending, put, scan

    def write(self, folder, seed):
        path = folder / f"b.{self.ending}"
        if not path.exists():
            self.put(table(seed)[: N // 2], folder / f"a.{self.ending}")
        self.put(table(seed)[N // 2 :], path)
        later(path)

    def scan(self, folder):
        return self._scan(folder)


def of_pyarrow(folder):
    return scan_arrow(pa.dataset.dataset(folder, format="parquet"), target="y")


def surveyed(folder):
    files = OpenTable.open(folder, "parquet")
    survey = files.profile(files.names)
    return files.build_dataset("y", survey.encoding(files.names[:-1], "error"), survey.row_counts)


KINDS = {
    "npy": Npy(),
    "mapped npy": MappedNpy(),
    "strided map": StridedMap(),
    "zarr": Zarr(),
    "parquet": Files(
        "parquet", pa.parquet.write_table, lambda folder: scan_parquet(folder, target="y")
    ),
    "csv": Files("csv", pa.csv.write_csv, lambda folder: scan_csv(folder, target="y")),
    "feather": Files(
        "feather", pa.feather.write_feather, lambda folder: scan_feather(folder, target="y")
    ),
    "pyarrow dataset": Files("parquet", pa.parquet.write_table, of_pyarrow),
    "surveyed": Files("parquet", pa.parquet.write_table, surveyed),
}


@pytest.fixture(params=KINDS, name="kind")
def one_kind(request):
    return KINDS[request.param]


def raises_changed(path, argument="source", change="was changed"):
    """Expect an error about this file, which was passed as `argument` or is part of it."""
    return raises(DataFileError, argument, file=str(path), mentions=change)


@contextmanager
def raises_changed_in(folder, change="was"):
    """Expect an error about a file in this folder."""
    with pytest.raises(DataFileError) as info:
        yield
    assert Path(info.value.where.file).is_relative_to(folder)
    assert info.value.argument in ("X", "y", "source", "data")
    assert change in info.value.problem


def changing_after(passes, change):
    """Call `change` once, when a fit has made so many passes, or more."""
    calls = []

    def listen(event):
        if event.passes >= passes and not calls:
            calls.append(event)
            change()

    return watch(listen)


ESTIMATORS = {
    "Ridge": lambda: Ridge(memory_budget=BUDGET, solver="two_stage"),
    "RidgeCV": lambda: RidgeCV(memory_budget=BUDGET_FOR_MANY, cv=3),
    "RidgeClassifier": lambda: RidgeClassifier(memory_budget=BUDGET),
    "RidgeClassifierCV": lambda: RidgeClassifierCV(memory_budget=BUDGET_FOR_MANY, cv=3),
}


def targets(model, y):
    return y > 0 if "Classifier" in type(model).__name__ else y


def test_between_two_passes(kind, tmp_path):
    kind.write(tmp_path, 0)
    data = kind.scan(tmp_path)
    model = Ridge(memory_budget=BUDGET).fit(data.X, data.y)
    before = dict(vars(model))
    with raises_changed_in(tmp_path), changing_after(1, lambda: kind.write(tmp_path, 1)):
        model.set_params(alpha=3.0).fit(data.X, data.y)
    assert vars(model) == {**before, "alpha": 3.0}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("passes", [0, 0.5, 1])
def test_every_estimator(name, passes, tmp_path):
    kind = NpyOfManyRows()
    kind.write(tmp_path, 0)
    data, model = kind.scan(tmp_path), ESTIMATORS[name]()
    y = targets(model, data.y)
    with (
        raises_changed(tmp_path / "X.npy", "X"),
        changing_after(passes, lambda: kind.write(tmp_path, 1)),
    ):
        model.fit(data.X, y)
    assert not hasattr(model, "coef_")


def test_the_path_and_batches(tmp_path):
    kind = KINDS["parquet"]
    for fit in (
        lambda data: ridge_path(data.X, data.y, memory_budget=BUDGET),
        lambda data: Ridge(memory_budget=BUDGET * 100).partial_fit(data.X, data.y),
    ):
        kind.write(tmp_path, 0)
        data = kind.scan(tmp_path)
        assert len(data.y) == N
        with raises_changed(tmp_path / "b.parquet"), changing_after(
            0, lambda: kind.write(tmp_path, 1)
        ):  # fmt: skip
            fit(data)


def test_since_the_scan(kind, tmp_path):
    kind.write(tmp_path, 0)
    data = kind.scan(tmp_path)
    y = data.y
    kind.write(tmp_path, 1)
    with raises_changed_in(tmp_path):
        Ridge().fit(data.X, y)  # all of it would fit into memory
    known = kind.scan(tmp_path)
    assert Ridge().fit(known.X, known.y).score(known.X, known.y) > 0.9


def test_while_it_was_scanned(tmp_path):
    kind = KINDS["parquet"]
    kind.write(tmp_path, 0)
    files = OpenTable.open(tmp_path, "parquet")
    survey = files.profile(files.names)
    kind.write(tmp_path, 1)
    data = files.build_dataset("y", survey.encoding(files.names[:-1], "error"), survey.row_counts)
    with raises_changed(tmp_path / "b.parquet"):
        Ridge().fit(data.X, np.zeros(N))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_predictions(name, tmp_path):
    kind = KINDS["npy"]
    kind.write(tmp_path, 0)
    data, model = kind.scan(tmp_path), ESTIMATORS[name]()
    y = targets(model, data.y)
    model.set_params(memory_budget="1MB").fit(data.X, y)
    ways = [model.predict, lambda X: list(model.predict_blocks(X)), lambda X: model.score(X, y)]
    if hasattr(model, "decision_function"):
        ways.append(model.decision_function)
    kind.write(tmp_path, 1)
    for way in ways:
        with raises_changed(tmp_path / "X.npy", "X"):
            way(data.X)


def test_between_two_blocks_of_predictions(tmp_path):
    kind = KINDS["npy"]
    kind.write(tmp_path, 0)
    data = kind.scan(tmp_path)
    model = Ridge().fit(data.X, data.y)
    blocks = model.predict_blocks(data.X)
    next(blocks)
    later(tmp_path / "X.npy")
    with raises_changed(tmp_path / "X.npy", "X"):
        list(blocks)


def test_targets_of_another_version(kind, tmp_path):
    kind.write(tmp_path, 0)
    data = kind.scan(tmp_path)
    kind.write(tmp_path, 1)
    for path in tmp_path.rglob("y*/**/*" if isinstance(kind, Zarr) else "y.npy"):
        later(path)
    with raises_changed_in(tmp_path):
        _ = data.y


def test_columns_of_another_version(tmp_path):
    kind = KINDS["csv"]
    kind.write(tmp_path, 0)
    data = kind.scan(tmp_path)
    kind.write(tmp_path, 1)
    with raises_changed(tmp_path / "b.csv"):
        data.read("x0")
    with raises_changed(tmp_path / "b.csv"):
        list(data.batches(["x0"]))


def test_files_that_are_gone_or_new(tmp_path):
    files = KINDS["parquet"]
    files.write(tmp_path, 0)
    data = files.scan(tmp_path)
    y = data.y
    (tmp_path / "b.parquet").unlink()
    with raises_changed(tmp_path / "b.parquet", change="was deleted or moved"):
        Ridge().fit(data.X, y)
    array = zarr.create_array(tmp_path / "Z.zarr", shape=(N, P), chunks=(50, P), dtype=float)
    array[:50] = 1.0
    data = scan_zarr(tmp_path / "Z.zarr")
    array[50:100] = 2.0
    with raises_changed_in(tmp_path / "Z.zarr", "was added"):
        Ridge().fit(data.X, y)


def test_reports(tmp_path):
    kind = KINDS["npy"]
    kind.write(tmp_path, 0)
    data = kind.scan(tmp_path)
    model = Ridge(memory_budget=BUDGET).fit(data.X, data.y)
    kind.write(tmp_path, 1)
    with raises_changed(tmp_path / "X.npy", "X"):
        write_report(tmp_path / "report.html", model, data.X, data.y)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("budget", [BUDGET, None])
def test_maps_are_not_written_to(budget, tmp_path):
    X, y = numbers(0)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    X, y = (np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    model = Ridge(memory_budget=budget, store_covariance=True)
    for argument in ("X", "y"):
        file = tmp_path / f"{argument}.npy"
        with raises_changed(file, argument), changing_after(0, lambda file=file: later(file)):
            model.fit(X, y)
        assert not hasattr(model, "coef_")
    np.testing.assert_allclose(model.fit(X, y).predict(X), model.predict(np.array(X)))


def test_maps_of_files_that_are_replaced_or_gone(tmp_path):
    """As joblib's are: what is mapped stays as it is."""
    X, y = numbers(0)
    np.save(tmp_path / "X.npy", X)
    rows = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.save(tmp_path / "other.npy", 2 * X)
    known = Ridge().fit(X, y)
    for change in (
        lambda: os.replace(tmp_path / "other.npy", tmp_path / "X.npy"),
        lambda: (tmp_path / "X.npy").unlink(),
    ):
        with changing_after(0, change):
            np.testing.assert_array_equal(Ridge().fit(rows, y).coef_, known.coef_)


def test_a_map_is_predicted_for_in_one_version(tmp_path):
    X, y = numbers(0)
    np.save(tmp_path / "X.npy", np.tile(X, (5_000_000 // X.nbytes + 1, 1)))  # read in blocks
    rows = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = Ridge(memory_budget=BUDGET).fit(X, y)
    blocks = model.predict_blocks(rows)
    next(blocks)
    later(tmp_path / "X.npy")
    with raises_changed(tmp_path / "X.npy", "X"):
        list(blocks)


def test_a_subset_is_checked_too(tmp_path):
    kind = KINDS["npy"]
    kind.write(tmp_path, 0)
    rows = kind.scan(tmp_path).X.subset(np.arange(0, N, 2))
    assert isinstance(rows, ChunkedStorage)
    kind.write(tmp_path, 1)
    with raises_changed(tmp_path / "X.npy", "X"):
        rows.take(np.array([3]))
