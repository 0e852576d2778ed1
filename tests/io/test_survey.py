"""What a table holds, column by column, from one pass."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ling.io.fragments
from ling.errors import InputTypeError
from ling.io import scan_csv, scan_parquet
from ling.io.column_profile import MAX_CATEGORIES
from ling.io.table_profile import OpenTable
from tests.raising import raises

ROWS = {
    "area": [50.0, None, 65.0, float("nan")],
    "city": ["Oslo", "Bergen", None, "Oslo"],
    "day": [datetime.date(2024, 2, 29)] * 4,
    "rent": [9, 11, 12, 10],
}


@pytest.fixture
def path(tmp_path):
    pq.write_table(pa.table(ROWS), tmp_path / "t.parquet", row_group_size=2)
    return tmp_path / "t.parquet"


def test_columns_and_gaps(path):
    survey = OpenTable.open(path, "parquet").profile(["area", "city", "day"])
    assert survey.n_rows == 4
    area, city, day = survey.columns
    assert (area.missing, area.first_missing, area.is_categorical) == (2, 1, False)
    assert (city.missing, city.first_missing, city.n_distinct_texts) == (1, 2, 2)
    assert (day.profile, day.type, day.missing) == (None, "date32[day]", 0)


def test_what_was_found_is_what_a_scan_finds(path):
    table = OpenTable.open(path, "parquet")
    names = ["city", "area"]
    survey = table.profile(names)
    data = table.build_dataset("rent", survey.encoding(names, "mean"), survey.row_counts)
    scanned = scan_parquet(path, "rent", names, missing="mean")
    assert data.encoding == scanned.encoding
    np.testing.assert_array_equal(data.X.matmat(np.eye(3)), scanned.X.matmat(np.eye(3)))
    np.testing.assert_array_equal(data.y, scanned.y)
    assert survey.encoding(["rent"][:0], "error").columns == ()
    with raises(InputTypeError, "X", column="day", mentions="date32"):
        table.profile(["day"]).encoding(["day"], "error")


def test_any_number_of_texts_is_borne(tmp_path):
    n = 2 * MAX_CATEGORIES
    (tmp_path / "t.csv").write_text("id,y\n" + "".join(f"a{i},{i}\n" for i in range(n)))
    survey = OpenTable.open(tmp_path / "t.csv", "csv").profile(["id", "y"])
    assert survey.columns[0].n_distinct_texts > MAX_CATEGORIES
    assert survey.n_rows == n
    with raises(InputTypeError, "X", column="id", change=("drop", ["id"])):
        survey.encoding(["id"], "error")
    with raises(InputTypeError, "X", column="id", change=("drop", ["id"])):
        scan_csv(tmp_path / "t.csv")


def test_a_known_count_is_not_counted_again(path, monkeypatch):
    table = OpenTable.open(path, "parquet")
    survey = table.profile(["rent"])

    def refuse(*args):
        raise AssertionError("rows were counted")

    monkeypatch.setattr(ling.io.fragments.ParquetFragment, "count_rows", refuse)
    data = table.build_dataset(None, survey.encoding(["rent"], "error"), survey.row_counts)
    assert data.shape == (4, 1)


@pytest.mark.parametrize("window", [(0, 3), (1, 3), (0, 1), (2, 3)])
def test_rows_without_a_value_are_left_out(window, tmp_path):
    values = [None, 1.0, float("nan"), 3.0, None, 5.0, None]
    table = pa.table({"a": list(range(7)), "y": values})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    (part,) = OpenTable.open(tmp_path / "t.parquet", "parquet").drop_missing("y").fragments
    assert part.count_rows() == 3
    read = [
        value for batch in part.read_batches(["a"], *window) for value in batch["a"].to_pylist()
    ]
    assert read == [1, 3, 5][slice(*window)]


def test_columns_that_tell_nothing_or_too_much(tmp_path):
    rows = {
        "same": [1.0, None, 1.0], "one": ["x", None, "x"], "none": pa.nulls(3, pa.float64()),
        "far": [1.0, 2.0, -np.inf], "usual": [1.0, 2.0, 3.0],
    }  # fmt: skip
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    survey = OpenTable.open(tmp_path / "t.parquet", "parquet").profile(list(rows))
    seen = {column.name: column for column in survey.columns}
    assert [name for name in rows if seen[name].is_constant] == ["same", "one"]
    assert [name for name in rows if seen[name].is_empty] == ["none"]
    assert {name: seen[name].first_infinite for name in rows if seen[name].first_infinite} == {
        "far": 2
    }


def test_texts_that_are_nearly_all_numbers(tmp_path):
    texts = {
        "most": [*map(str, range(9)), "?"],
        "all": [*map(str, range(10))],
        "few": ["1", "b"] * 5,
    }
    pq.write_table(pa.table(texts), tmp_path / "t.parquet")
    columns = OpenTable.open(tmp_path / "t.parquet", "parquet").profile(list(texts)).columns
    assert [column.non_numeric_texts for column in columns] == [["?"], [], None]
