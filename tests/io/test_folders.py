"""Folders of files: deleted rows, columns in folder names, columns of later files only."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ling import Ridge, RidgeCV
from ling.cli.app import app
from ling.errors import InputTypeError
from ling.io import scan_arrow, scan_csv, scan_feather, scan_parquet
from tests.raising import raises


def rows(seed, n=30):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, n))
    return {"a": a, "b": b, "y": a - 2 * b}


def put(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


@pytest.fixture
def delta(tmp_path):
    """A Delta table of two files, one of which was replaced by the other."""
    folder = tmp_path / "delta"
    put(folder / "year=2024" / "part-0.parquet", rows(0))
    put(folder / "year=2024" / "part-1.parquet", rows(1))
    (folder / "_delta_log").mkdir()
    for version, actions in enumerate(
        [
            [{"add": {"path": "year=2024/part-0.parquet"}}],
            [
                {"remove": {"path": "year=2024/part-0.parquet"}},
                {"add": {"path": "year=2024/part-1.parquet"}},
            ],
        ]
    ):
        lines = "\n".join(map(json.dumps, actions))
        (folder / "_delta_log" / f"{version:020}.json").write_text(lines)
    return folder


@pytest.fixture
def iceberg(tmp_path):
    folder = tmp_path / "iceberg"
    put(folder / "data" / "part-0.parquet", rows(0))
    (folder / "metadata").mkdir()
    (folder / "metadata" / "00000-a1.metadata.json").write_text("{}")
    return folder


SOURCES = {
    "folder": lambda folder: folder,
    "folder above": lambda folder: folder.parent,
    "folder below": lambda folder: next(folder.rglob("*.parquet")).parent,
    "pattern": lambda folder: f"{folder}/**/*.parquet",
    "pattern below": lambda folder: f"{next(folder.rglob('*.parquet')).parent}/*.parquet",
    "list": lambda folder: sorted(folder.rglob("*.parquet")),
    "file": lambda folder: next(folder.rglob("*.parquet")),
    "relative": lambda folder: os.path.relpath(folder),
    "address": lambda folder: folder.as_uri(),
    "address of a file": lambda folder: next(folder.rglob("*.parquet")).as_uri(),
}


@pytest.mark.parametrize("name", SOURCES)
def test_delta_tables_are_refused(name, delta):
    with raises(InputTypeError, "source", mentions="delta').to_pyarrow_dataset(), ...)"):
        scan_parquet(SOURCES[name](delta), target="y")


@pytest.mark.parametrize("name", SOURCES)
def test_iceberg_tables_are_refused(name, iceberg):
    with raises(InputTypeError, "source", mentions="scan_arrow(table.scan().to_arrow(), ...)"):
        scan_parquet(SOURCES[name](iceberg), target="y")


def test_the_way_out(delta):
    """What `DeltaTable.to_pyarrow_dataset` gives: the files that count."""
    files = pa.dataset.dataset(
        [str(delta / "year=2024" / "part-1.parquet")], format="parquet", partitioning="hive",
        partition_base_dir=str(delta),
    )  # fmt: skip
    data = scan_arrow(files, target="y", drop=["year"])
    known = rows(1)
    np.testing.assert_array_equal(data.y, known["y"])
    coef = Ridge().fit(np.column_stack([known["a"], known["b"]]), known["y"]).coef_
    np.testing.assert_allclose(Ridge().fit(data.X, data.y).coef_, coef)


@pytest.mark.parametrize("command", ["fit", "plan"])
def test_the_command_refuses_them_too(command, delta, tmp_path):
    more = ["--out", str(tmp_path / "model.ling")] if command == "fit" else []
    result = CliRunner().invoke(app, [command, str(delta), "--target", "y", *more])
    assert result.exit_code != 0
    assert "Delta table" in result.output
    assert not (tmp_path / "model.ling").exists()


def test_a_folder_that_is_called_metadata_is_nothing_special(tmp_path):
    put(tmp_path / "metadata" / "a.parquet", rows(0))
    assert scan_parquet(tmp_path, target="y").shape == (30, 2)


@pytest.fixture
def hive(tmp_path):
    for seed, (year, city) in enumerate([(2023, "Oslo"), (2023, "Bergen"), (2024, "Oslo")]):
        put(tmp_path / "hive" / f"year={year}" / f"city={city}" / "x.parquet", rows(seed))
    return tmp_path / "hive"


@pytest.mark.parametrize("pattern", ["**/*.parquet", "*/*/x.parquet", "year=*/**/x.*"])
def test_patterns_read_the_columns_of_folders(pattern, hive, monkeypatch):
    known = scan_parquet(hive, target="y")
    assert known.feature_names == ("a", "b", "year", "city=Bergen", "city=Oslo")
    data = scan_parquet(f"{hive}/{pattern}", target="y")
    assert data.encoding == known.encoding
    np.testing.assert_array_equal(data.y, known.y)
    np.testing.assert_array_equal(data.X.matmat(np.eye(5)), known.X.matmat(np.eye(5)))
    monkeypatch.chdir(hive)
    assert scan_parquet(pattern, target="y").encoding == known.encoding
    monkeypatch.chdir(hive.parent)
    assert scan_parquet(f"./hive/{pattern}", target="y").encoding == known.encoding


def test_patterns_inside_of_a_partition(hive):
    inside = hive / "year=2023"
    known = scan_parquet(inside, target="y")
    assert known.feature_names == ("a", "b", "city=Bergen", "city=Oslo")
    assert scan_parquet(f"{inside}/**/*.parquet", target="y").encoding == known.encoding


WRITERS = {
    "parquet": (pq.write_table, scan_parquet),
    "csv": (pa.csv.write_csv, scan_csv),
    "feather": (pa.feather.write_feather, scan_feather),
}


@pytest.fixture
def growing(tmp_path):
    """Writes files of which the second and third have more columns than the first."""

    def make(kind):
        write = WRITERS[kind][0]
        write(pa.table(rows(0)), tmp_path / f"1.{kind}")
        write(pa.table({"late": np.ones(30), **rows(1)}), tmp_path / f"2.{kind}")
        write(pa.table({**rows(2), "late": np.ones(30), "later": np.ones(30)}),
              tmp_path / f"3.{kind}")  # fmt: skip
        return tmp_path

    return make


@pytest.mark.parametrize("budget", ["1GB", 5000], ids=["in memory", "read"])
@pytest.mark.parametrize("kind", WRITERS)
def test_columns_of_later_files_are_noted(kind, budget, growing):
    folder, scan = growing(kind), WRITERS[kind][1]
    data = scan(folder, target="y")
    assert data.feature_names == ("a", "b")
    for model in (Ridge(memory_budget=budget), RidgeCV(memory_budget=budget)):
        model.fit(data.X, data.y)
        (note,) = [note for note in model.report_.notes if "late" in note]
        assert f"'late' (as in '{folder}/2.{kind}')" in note
        assert f"'later' (as in '{folder}/3.{kind}')" in note
        assert "are left out: the columns are those of the first file" in note
    assert not Ridge().fit(*both(scan(folder, "y", ["a", "b"]))).report_.notes
    new = scan(folder, "y", like=model)
    assert new.source.notes == ()


def both(data):
    return data.X, data.y


def test_notes_of_batches_and_checkpoints(growing, tmp_path):
    data = scan_parquet(growing("parquet"), target="y")
    for model in (
        Ridge().partial_fit(data.X, data.y),
        Ridge(checkpoint=tmp_path / "fit").fit(data.X, data.y),
        Ridge(checkpoint=tmp_path / "fit", memory_budget=5000).fit(data.X, data.y),
    ):
        assert any("'late'" in note for note in model.report_.notes)


def test_the_command_notes_them_too(growing, tmp_path):
    folder, out = growing("parquet"), tmp_path / "model.ling"
    arguments = ["fit", str(folder), "--target", "y", "--out", str(out)]
    said = CliRunner().invoke(app, arguments).output
    assert "'late'" in said
    assert "first file" in " ".join(said.split())
    out.unlink()
    assert "'late'" not in CliRunner().invoke(app, [*arguments, "--features", "a,b"]).output


def test_a_column_that_both_the_files_and_their_folders_have(tmp_path):
    for year in (2023, 2024):
        put(tmp_path / f"year={year}" / "x.parquet", {**rows(year), "year": [year] * 30})
    data = scan_parquet(tmp_path / "*" / "x.parquet", target="y")
    years = np.concatenate(list(data.source.blocks(slice(None), 64)))[:, -1]
    np.testing.assert_array_equal(np.unique(years), [2023, 2024])
