"""Damaged tables end in an error of ling that names the file, whatever pyarrow raises."""

import gzip
import io
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from ling import Ridge, scan_csv, scan_feather, scan_parquet
from ling.errors import DataFileError, InputTypeError, LingError, ShapeError
from tests.io.damage import damaged
from tests.raising import raises

N = 400


def table():
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "a": rng.standard_normal(N),
            "city": rng.choice(["Oslo", "Bergen", "Tromsø"], N),
            "y": rng.standard_normal(N),
        }
    )


def parquet(path, **options):
    pq.write_table(table(), path, row_group_size=100, **options)


def feather(path, **options):
    pa.feather.write_feather(table(), str(path), chunksize=100, **options)


def zipped_csv(path):
    out = io.BytesIO()
    pa.csv.write_csv(table(), out)
    path.write_bytes(gzip.compress(out.getvalue(), mtime=0))


PLAIN = {"compression": "none", "use_dictionary": False}
TABLES = {
    "parquet": (scan_parquet, "parquet", parquet),
    "parquet, plain": (scan_parquet, "parquet", lambda path: parquet(path, **PLAIN)),
    "csv": (scan_csv, "csv", lambda path: pa.csv.write_csv(table(), path)),
    "csv, zipped": (scan_csv, "csv.gz", zipped_csv),
}


def read(data):
    """Everything."""
    list(data.source.blocks(slice(None), 64))
    return data.y


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "second of two"])
@pytest.mark.parametrize("name", TABLES)
def test_tables_with_any_damage(name, alone, tmp_path):
    """Values may be others, and columns and values missing, but nothing else is raised."""
    scan, ending, write = TABLES[name]
    rng = random.Random(name)
    path = tmp_path / f"2.{ending}"
    write(path)
    content = path.read_bytes()
    if not alone:
        write(tmp_path / f"1.{ending}")
    errors = []
    for turn in range(60):
        # The end of a Parquet file says where everything is.
        first = max(0, len(content) - 1_000) if turn % 2 else 0
        path.write_bytes(damaged(content, rng, first))
        try:
            read(scan(tmp_path, target="y", missing="mean"))
        except LingError as error:
            errors.append(error)
    assert len(errors) > 10
    unreadable = [error for error in errors if isinstance(error, DataFileError)]
    # Of X it is said that it has fewer rows than before.
    assert all(error.where.file == str(path) or error.argument == "X" for error in unreadable)


@pytest.mark.parametrize("name", ["parquet", "parquet, plain"])
def test_damage_in_a_later_row_group_is_found_by_a_pass(name, tmp_path):
    scan, ending, write = TABLES[name]
    for file in "123":
        write(tmp_path / f"{file}.{ending}")
    path = tmp_path / f"2.{ending}"
    place = pq.ParquetFile(path).metadata.row_group(3).column(0)
    begin = place.dictionary_page_offset or place.data_page_offset
    content = bytearray(path.read_bytes())
    content[begin : begin + place.total_compressed_size] = bytes(place.total_compressed_size)
    path.write_bytes(content)
    data = scan(tmp_path, target="y", features=["a"])  # reads the ends of the files only
    with raises(DataFileError, "source", file=str(path)):
        Ridge().fit(data.X, data.y)


def test_parquet_files_that_are_gone(tmp_path):
    parquet(tmp_path / "a.parquet")
    data = scan_parquet(tmp_path / "a.parquet", target="y", features=["a"])
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(DataFileError, match=r"a\.parquet'"):
        Ridge().fit(data.X, np.ones(N))


@pytest.mark.parametrize("other", [["x", "y"], [[1], [2]], pa.array([1, 2], pa.date32())])
def test_another_type_in_a_second_feather_file_is_no_damage(other, tmp_path):
    for file, values in (("1", [1.0, 2.0]), ("2", other)):
        columns = pa.table({"a": values, "y": [1.0, 2.0]})
        pa.feather.write_feather(columns, str(tmp_path / f"{file}.feather"))
    with raises(InputTypeError, "source", file=str(tmp_path / "2.feather")):
        read(scan_feather(tmp_path, target="y"))


@pytest.mark.parametrize("is_nested", [False, True])
def test_feather_files_with_unions_are_refused(is_nested, tmp_path):
    """pyarrow 26 crashes on a union without members, even if other columns are read."""
    types = pa.array([0, 0], pa.int8())
    union = pa.UnionArray.from_sparse(types, [pa.array([1.0, 2.0])], ["a"])
    column = pa.StructArray.from_arrays([union], ["b"]) if is_nested else union
    path = tmp_path / "a.feather"
    with pa.ipc.new_file(path, pa.schema({"x": pa.float64(), "u": column.type})) as writer:
        writer.write_batch(pa.record_batch({"x": pa.array([1.0, 2.0]), "u": column}))
    with raises(InputTypeError, "source", file=str(path), mentions="'u'"):
        scan_feather(path, features=["x"])


def test_a_feather_file_without_columns_is_no_damage(tmp_path):
    pa.feather.write_feather(pa.table({}), str(tmp_path / "a.feather"))
    with raises(ShapeError, "X"):
        scan_feather(tmp_path / "a.feather")


def test_text_in_parquet_that_is_not_utf8(tmp_path):
    path = tmp_path / "a.parquet"
    texts = pa.array([b"Oslo", b"Troms\xf8"]).view(pa.string())
    pq.write_table(pa.table({"city": texts, "y": [1.0, 2.0]}), path)
    with raises(DataFileError, "source", file=str(path), mentions="UTF8"):
        scan_parquet(path, target="y")


def test_fields_too_many_in_csv_are_no_change_of_type(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,y\n" + "1,2\n" * 300_000 + "1,2,3\n")
    with raises(DataFileError, "source", file=str(path), mentions="Expected 2 columns, got 3"):
        read(scan_csv(path, target="y"))


FEATHER = """
import random, sys
from pathlib import Path
from ling import scan_feather
from ling.errors import LingError, MissingValueError
from tests.io.damage import damaged
from tests.io.test_damaged_tables import read
refused = 0
for name in sys.argv[1:]:
    good, rng = Path(name).read_bytes(), random.Random(0)
    path = Path(name).with_name("bad.feather")
    for turn in range(150):
        path.write_bytes(damaged(good, rng, max(0, len(good) - 1_500) if turn % 2 else 0))
        try:
            read(scan_feather(path, target="y", missing="mean"))
        except LingError as error:
            assert error.where.file == str(path) or isinstance(error, MissingValueError), error
            refused += 1
print(refused)
"""


@pytest.mark.processes
def test_feather_files_with_any_damage(tmp_path):
    """In a process of its own: pyarrow's scanner can end in a segmentation fault."""
    feather(tmp_path / "a.feather")
    feather(tmp_path / "b.feather", compression="uncompressed")
    assert read(scan_feather(tmp_path / "b.feather", target="y")).shape == (N,)
    files = [str(tmp_path / name) for name in ("a.feather", "b.feather")]
    command = [sys.executable, "-c", FEATHER, *files]
    root = Path(__file__).parents[2]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 50
