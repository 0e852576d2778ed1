"""Tables and options that cannot be used: what is said, and what to do about it."""

import datetime
import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from ling.errors import (
    Change,
    DataFileError,
    InputTypeError,
    MissingPackageError,
    MissingValueError,
    NonFiniteError,
    OptionError,
    ShapeError,
    UnknownColumnError,
)
from ling.io import (
    Encoding,
    Numeric,
    OneHot,
    scan_arrow,
    scan_csv,
    scan_feather,
    scan_parquet,
)
from ling.io.column_profile import MAX_CATEGORIES
from tests.io.tables import DAY, GAPS, HOMES, SCANS, read, write_csv, write_parquet
from tests.raising import raises

REFUSED = {
    "dates": ({"a": [DAY]}, {}, InputTypeError, "X",
              {"column": "a", "change": ("drop", ["a"]), "mentions": "date32[day]"}),
    "durations": ({"a": [datetime.timedelta(1)]}, {}, InputTypeError, "X",
                  {"column": "a", "change": ("drop", ["a"]), "mentions": "duration[us]"}),
    "lists": ({"a": [[1.0]]}, {}, InputTypeError, "X",
              {"column": "a", "change": ("drop", ["a"]), "mentions": "list<"}),
    "bytes": ({"a": [b"x"]}, {}, InputTypeError, "X",
              {"column": "a", "change": ("drop", ["a"]), "mentions": "binary"}),
    "typo": (HOMES, {"target": "rnet"}, UnknownColumnError, "target",
             {"column": "rnet", "mentions": "did you mean 'rent'?"}),
    "no-such": (HOMES, {"features": ["zzz"]}, UnknownColumnError, "features",
                {"column": "zzz", "mentions": "pass one of 'area', 'city', 'new', 'rent'."}),
    "target-in-features": (HOMES, {"target": "rent", "features": ["rent"]}, OptionError, "target",
                           {"column": "rent"}),
    "twice": (HOMES, {"features": ["area", "area"]}, OptionError, "features", {"column": "area"}),
    "none": (HOMES, {"features": []}, ShapeError, "X", {}),
    "missing": (HOMES, {"missing": "drop"}, OptionError, "missing", {"mentions": "'drop'"}),
    "unknown": (HOMES, {"unknown": "drop"}, OptionError, "unknown", {"mentions": "'drop'"}),
    "number": (HOMES, {"target": 3}, OptionError, "target", {"mentions": "is 3"}),
    "like-and-features": (HOMES, {"like": Encoding(()), "features": ["area"]},
                          OptionError, "features", {}),
    "drop-typo": (HOMES, {"drop": ["ctiy"]}, UnknownColumnError, "drop",
                  {"column": "ctiy", "mentions": "'city'"}),
    "drop-and-features": (HOMES, {"drop": ["city"], "features": ["area"]}, OptionError, "drop", {}),
    "like-nothing": (HOMES, {"like": object()}, InputTypeError, "like", {"mentions": "object"}),
    "like-no-means": (HOMES, {"like": Encoding((Numeric("area"),)), "missing": "mean"},
                      OptionError, "missing", {}),
    "lacking": (HOMES, {"like": Encoding((Numeric("area"), Numeric("b"), OneHot("c", ())))},
                UnknownColumnError, "X", {"mentions": "2 of the 3 columns that like has: "
                                                      "'b', 'c'"}),
    "no-mean": ({"a": [None, None], "b": [1, 2]}, {"missing": "mean"}, MissingValueError, "X",
                {"column": "a", "change": ("drop", ["a"])}),
    "infinite-mean": ({"a": [1.0, np.inf, -np.inf]}, {"missing": "mean"}, NonFiniteError, "X",
                      {"column": "a", "row": 1, "change": ("drop", ["a"])}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "options", "kind", "argument", "fields"), REFUSED.values(), ids=REFUSED
)
def test_refused_with_advice(columns, options, kind, argument, fields):
    with raises(kind, argument, **fields):
        scan_arrow(pa.table(columns), **options)


def test_types_that_changed_are_refused():
    with raises(InputTypeError, "X", column="area", file=None):
        read(scan_arrow(pa.table({"area": ["x"]}), like=Encoding((Numeric("area"),))))


def test_identifiers_are_refused():
    texts = [str(i) for i in range(MAX_CATEGORIES + 1)]
    with raises(InputTypeError, "X", column="id", change=("drop", ["id"]), mentions="10,000"):
        scan_arrow(pa.table({"id": texts}))
    assert scan_arrow(pa.table({"id": texts[1:]})).shape == (MAX_CATEGORIES, MAX_CATEGORIES)


def test_a_table_with_two_columns_of_one_name_is_refused():
    table = pa.Table.from_arrays([pa.array([1.0])] * 3, names=["a", "a", "y"])
    with raises(OptionError, "X", column="a"):
        scan_arrow(table, target="y")


def test_targets_without_values(scan):
    with raises(MissingValueError, "target", column="area", row=1):
        _ = scan(GAPS, "area").y
    with raises(OptionError, "target"):
        _ = scan(HOMES).y
    with raises(MissingValueError, "name", column="area", row=1):
        scan(GAPS, features=["city"]).read("area")
    with raises(UnknownColumnError, "name", column="aera", mentions="'area'"):
        scan(HOMES).read("aera")


def test_targets_and_other_columns_of_dates():
    data = scan_arrow(pa.table({"a": [1.0], "day": [DAY]}), target="day")
    with raises(InputTypeError, "target", column="day") as error:
        _ = data.y
    assert not [remedy for remedy in error.value.remedies if isinstance(remedy, Change)]
    with raises(InputTypeError, "name", column="day"):
        data.read("day")


def test_paths_that_lead_nowhere(tmp_path):
    (tmp_path / "text.parquet").write_text("no")
    (tmp_path / "folder").mkdir()
    for name, reason in {
        "no.parquet": "does not exist", "no*.parquet": "matches no file",
        "folder": "folder without Parquet files", "text.parquet": "cannot be read as Parquet",
    }.items():  # fmt: skip
        with raises(DataFileError, "source", file=str(tmp_path / name), mentions=reason):
            scan_parquet(str(tmp_path / name))
    with raises(DataFileError, "source", file=None, mentions="empty list"):
        scan_parquet(())
    with raises(InputTypeError, "source", mentions="int"):
        scan_parquet(3)


def test_other_objects_are_refused(tmp_path):
    with raises(InputTypeError, "data", mentions="list"):
        scan_arrow([1])
    files = pa.dataset.dataset(write_parquet(tmp_path, HOMES))
    with raises(InputTypeError, "data", mentions="filtered dataset"):
        scan_arrow(files.filter(pa.dataset.field("area") > 60))


def test_files_that_became_shorter(tmp_path):
    data = SCANS["csv"](tmp_path, HOMES, "rent")
    # Through a file system of pyarrow's, nothing is known of the file but what it holds.
    elsewhere = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    name = next(tmp_path.glob("*.csv")).name
    remote = scan_arrow(pa.dataset.dataset(name, format="csv", filesystem=elsewhere), "rent")
    write_csv(tmp_path, {name: values[:2] for name, values in HOMES.items()})
    with pytest.raises(DataFileError, match=r"homes\.csv'"):
        read(data)
    with raises(DataFileError, "X", mentions="2 rows where the scan found 4"):
        read(remote)


def test_missing_packages_are_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(MissingPackageError, match=re.escape("pip install 'ling[parquet]'")):
        scan_parquet(tmp_path)


def test_columns_that_would_share_a_name_are_refused():
    table = pa.table({"a": ["x=1", "z"], "a=x": ["1", "2"]})
    with raises(OptionError, "X", mentions="'a=x=1'"):
        scan_arrow(table)


@pytest.mark.parametrize("text", ["größe,y\n1,2\n", "a,y\nné,2\n"])
def test_other_encodings_than_utf8_are_named(text, tmp_path):
    (tmp_path / "t.csv").write_text(text, encoding="latin-1")
    with raises(InputTypeError, "source", file=str(tmp_path / "t.csv"), mentions="UTF-8"):
        scan_csv(tmp_path / "t.csv", target="y")


def test_signs_that_are_not_utf8_far_down_in_a_second_file(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\nx,1\n")
    (tmp_path / "b.csv").write_text("a,y\nné,1\n", encoding="latin-1")
    with raises(InputTypeError, "source", file=str(tmp_path / "b.csv"), mentions="UTF-8"):
        scan_csv(tmp_path, target="y")


def test_empty_files_and_names_that_are_there_twice(tmp_path):
    (tmp_path / "zero.csv").write_text("")
    with raises(DataFileError, "source", file=str(tmp_path / "zero.csv")):
        scan_csv(tmp_path / "zero.csv")
    (tmp_path / "twins.csv").write_text("a,a,y\n1,2,3\n")
    with raises(DataFileError, "source", file=str(tmp_path / "twins.csv"), mentions="'a'"):
        scan_csv(tmp_path / "twins.csv")


def test_a_file_where_numbers_are_text_is_named(tmp_path):
    for name, values in (("a", [1.0, 2.0]), ("b", ["1", "x"])):
        pq.write_table(pa.table({"a": values, "y": [1.0, 2.0]}), tmp_path / f"{name}.parquet")
    with raises(InputTypeError, "X", column="a", file=str(tmp_path / "b.parquet")):
        scan_parquet(tmp_path, target="y")


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
@pytest.mark.parametrize("features", [None, ["b"]])
def test_two_columns_of_a_name(kind, features, tmp_path):
    path = str(tmp_path / f"twins.{kind}")
    table = pa.Table.from_arrays([pa.array([1.0, 2.0])] * 4, ["a", "b", "a", "y"])
    write = {
        "parquet": pq.write_table, "feather": pa.feather.write_feather,
        "csv": pa.csv.write_csv,
    }[kind]  # fmt: skip
    write(table, path)
    scan = {"parquet": scan_parquet, "feather": scan_feather, "csv": scan_csv}[kind]
    with raises(DataFileError, "source", file=path, mentions="two columns named 'a'"):
        scan(path, target="y", features=features)
