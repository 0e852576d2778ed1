"""What a table holds, column by column, from one pass."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ling.scan.discovery
from ling.errors import WrongType
from ling.scan import scan_csv, scan_parquet
from ling.scan.survey import Table

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
    survey = Table.open(path, "parquet").survey(["area", "city", "day"])
    assert survey.n_rows == 4
    area, city, day = survey.columns
    assert (area.missing, area.first_missing, area.is_text) == (2, 1, False)
    assert (city.missing, city.first_missing, city.n_texts) == (1, 2, 2)
    assert (day.found, day.type, day.missing) == (None, "date32[day]", 0)


def test_what_was_found_is_what_a_scan_finds(path):
    table = Table.open(path, "parquet")
    names = ["city", "area"]
    survey = table.survey(names)
    data = table.dataset("rent", survey.encoding(names, "mean"), survey.counts)
    scanned = scan_parquet(path, "rent", names, missing="mean")
    assert data.encoding == scanned.encoding
    np.testing.assert_array_equal(data.X.matmat(np.eye(3)), scanned.X.matmat(np.eye(3)))
    np.testing.assert_array_equal(data.y, scanned.y)
    assert survey.encoding(["rent"][:0], "error").columns == ()
    with pytest.raises(WrongType, match="column 'day' has type date32"):
        table.survey(["day"]).encoding(["day"], "error")


def test_any_number_of_texts_is_borne(monkeypatch, tmp_path):
    monkeypatch.setattr(ling.scan.discovery, "MOST_CATEGORIES", 3)
    (tmp_path / "t.csv").write_text("id,y\n" + "".join(f"a{i},{i}\n" for i in range(9)))
    survey = Table.open(tmp_path / "t.csv", "csv").survey(["id", "y"])
    assert survey.columns[0].n_texts > 3
    assert survey.n_rows == 9
    with pytest.raises(WrongType, match="more than 3 different texts"):
        survey.encoding(["id"], "error")
    with pytest.raises(WrongType, match="more than 3 different texts"):
        scan_csv(tmp_path / "t.csv")


def test_a_known_count_is_not_counted_again(path, monkeypatch):
    table = Table.open(path, "parquet")
    survey = table.survey(["rent"])

    def refuse(*args):
        raise AssertionError("rows were counted")

    monkeypatch.setattr(ling.scan.parts.ParquetPart, "count", refuse)
    data = table.dataset(None, survey.encoding(["rent"], "error"), survey.counts)
    assert data.shape == (4, 1)
