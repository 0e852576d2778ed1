"""Tables and options that cannot be used: what is said, and what to do about it."""

import datetime
import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from ling.errors import (
    DataFileError,
    InputTypeError,
    LingError,
    MissingPackageError,
    MissingValueError,
    NonFiniteError,
    OptionError,
    ShapeError,
    UnknownColumnError,
)
from ling.io import Encoding, Numeric, OneHot, scan_arrow, scan_csv, scan_parquet
from ling.io.column_profile import MAX_CATEGORIES
from tests.io.tables import DAY, GAPS, HOMES, SCANS, read, write_csv, write_parquet

REFUSED = {
    "dates": ({"a": [DAY]}, {}, InputTypeError, "column 'a' holds dates or times (date32[day])"),
    "durations": ({"a": [datetime.timedelta(1)]}, {}, InputTypeError, "leave it out with drop="),
    "lists": ({"a": [[1.0]]}, {}, InputTypeError, "column 'a' has type list<"),
    "bytes": ({"a": [b"x"]}, {}, InputTypeError, "pass numbers or text"),
    "typo": (
        HOMES,
        {"target": "rnet"},
        UnknownColumnError,
        "target names 'rnet', which is no column; did you mean 'rent'?",
    ),
    "no-such": (
        HOMES,
        {"features": ["zzz"]},
        UnknownColumnError,
        "the columns are 'area', 'city', 'new', 'rent'.",
    ),
    "target-in-features": (
        HOMES,
        {"target": "rent", "features": ["rent"]},
        OptionError,
        "target 'rent' is among the features",
    ),
    "twice": (
        HOMES,
        {"features": ["area", "area"]},
        OptionError,
        "column 'area' is there twice",
    ),
    "none": (HOMES, {"features": []}, ShapeError, "no feature columns"),
    "missing": (
        HOMES,
        {"missing": "drop"},
        OptionError,
        "missing='drop'; pass 'error' or 'mean'",
    ),
    "unknown": (
        HOMES,
        {"unknown": "drop"},
        OptionError,
        "unknown='drop'; pass 'error' or 'ignore'",
    ),
    "like-and-features": (
        HOMES,
        {"like": Encoding(()), "features": ["area"]},
        OptionError,
        "both given",
    ),
    "drop-typo": (HOMES, {"drop": ["ctiy"]}, UnknownColumnError, "did you mean 'city'?"),
    "drop-and-features": (
        HOMES,
        {"drop": ["city"], "features": ["area"]},
        OptionError,
        "drop is given along with features",
    ),
    "like-nothing": (
        HOMES,
        {"like": object()},
        InputTypeError,
        "like is a object without an encoding",
    ),
    "like-no-means": (
        HOMES,
        {"like": Encoding((Numeric("area"),)), "missing": "mean"},
        OptionError,
        "needs the means",
    ),
    "lacking": (
        HOMES,
        {"like": Encoding((Numeric("area"), Numeric("b"), OneHot("c", ())))},
        UnknownColumnError,
        "lacks 2 of the 3 columns that `like` was fitted to: 'b', 'c'",
    ),
    "no-mean": (
        {"a": [None, None], "b": [1, 2]},
        {"missing": "mean"},
        MissingValueError,
        "column 'a' has no value in any row",
    ),
    "infinite-mean": (
        {"a": [np.inf, -np.inf]},
        {"missing": "mean"},
        NonFiniteError,
        "column 'a' holds an infinity",
    ),
}


@pytest.mark.parametrize(("columns", "options", "error", "advice"), REFUSED.values(), ids=REFUSED)
def test_refused_with_advice(columns, options, error, advice):
    assert issubclass(error, LingError)
    with pytest.raises(error, match=re.escape(advice)):
        scan_arrow(pa.table(columns), **options)


def test_types_that_changed_are_refused():
    with pytest.raises(
        InputTypeError, match="column 'area' is text here, and was numbers in the fit"
    ):
        read(scan_arrow(pa.table({"area": ["x"]}), like=Encoding((Numeric("area"),))))


def test_identifiers_are_refused():
    texts = [str(i) for i in range(MAX_CATEGORIES + 1)]
    with pytest.raises(InputTypeError, match="column 'id' holds more than 10,000 different texts"):
        scan_arrow(pa.table({"id": texts}))
    assert scan_arrow(pa.table({"id": texts[1:]})).shape == (MAX_CATEGORIES, MAX_CATEGORIES)


def test_targets_without_values(scan):
    with pytest.raises(MissingValueError, match="target 'area' has no value in row 1"):
        _ = scan(GAPS, "area").y
    with pytest.raises(OptionError, match="scanned without a target"):
        _ = scan(HOMES).y
    with pytest.raises(MissingValueError, match="column 'area' has no value in row 1"):
        scan(GAPS, features=["city"]).read("area")
    with pytest.raises(UnknownColumnError, match=r"name names 'aera'.*'area'"):
        scan(HOMES).read("aera")


def test_paths_that_lead_nowhere(tmp_path):
    for source, advice in {
        tmp_path / "no.parquet": "is not there",
        str(tmp_path / "*.parquet"): "matches no file",
        tmp_path: "is a folder without Parquet files",
        (): "source is an empty list",
    }.items():
        with pytest.raises(DataFileError, match=advice):
            scan_parquet(source)
    with pytest.raises(InputTypeError, match="source is a int; pass a path, a pattern"):
        scan_parquet(3)
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(DataFileError, match="cannot be read as Parquet"):
        scan_parquet(tmp_path / "text.parquet")


def test_other_objects_are_refused(tmp_path):
    with pytest.raises(InputTypeError, match="data is a list; pass a pyarrow Table"):
        scan_arrow([1])
    files = pa.dataset.dataset(write_parquet(tmp_path, HOMES))
    with pytest.raises(InputTypeError, match="X is a filtered dataset"):
        scan_arrow(files.filter(pa.dataset.field("area") > 60))


def test_files_that_became_shorter(tmp_path):
    data = SCANS["csv"](tmp_path, HOMES, "rent")
    # Through a file system of pyarrow's, nothing is known of the file but what it holds.
    elsewhere = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    name = next(tmp_path.glob("*.csv")).name
    remote = scan_arrow(pa.dataset.dataset(name, format="csv", filesystem=elsewhere), "rent")
    write_csv(tmp_path, {name: values[:2] for name, values in HOMES.items()})
    with pytest.raises(DataFileError, match="has another size or modification time"):
        read(data)
    with pytest.raises(DataFileError, match="now gives 2 rows, not 4"):
        read(remote)


def test_missing_packages_are_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(MissingPackageError, match=re.escape("pip install 'ling[parquet]'")):
        scan_parquet(tmp_path)


def test_columns_that_would_share_a_name_are_refused():
    table = pa.table({"a": ["x=1", "z"], "a=x": ["1", "2"]})
    with pytest.raises(OptionError, match="two columns of X would be called 'a=x=1'"):
        scan_arrow(table)


@pytest.mark.parametrize("text", ["größe,y\n1,2\n", "a,y\nné,2\n"])
def test_other_encodings_than_utf8_are_named(text, tmp_path):
    (tmp_path / "t.csv").write_text(text, encoding="latin-1")
    with pytest.raises(LingError, match=r"t.csv' is not UTF-8; convert it"):
        scan_csv(tmp_path / "t.csv", target="y")


def test_signs_that_are_not_utf8_far_down_in_a_second_file(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\nx,1\n")
    (tmp_path / "b.csv").write_text("a,y\nné,1\n", encoding="latin-1")
    with pytest.raises(LingError, match=r"b.csv' is not UTF-8"):
        scan_csv(tmp_path, target="y")


def test_empty_files_and_names_that_are_there_twice(tmp_path):
    (tmp_path / "zero.csv").write_text("")
    with pytest.raises(DataFileError, match=r"zero.csv' is empty"):
        scan_csv(tmp_path / "zero.csv")
    (tmp_path / "twins.csv").write_text("a,a,y\n1,2,3\n")
    with pytest.raises(DataFileError, match=r"twins.csv' has two columns named 'a'"):
        scan_csv(tmp_path / "twins.csv")


def test_a_file_where_numbers_are_text_is_named(tmp_path):
    for name, values in (("a", [1.0, 2.0]), ("b", ["1", "x"])):
        pq.write_table(pa.table({"a": values, "y": [1.0, 2.0]}), tmp_path / f"{name}.parquet")
    with pytest.raises(
        InputTypeError, match=r"column 'a' is text in '.*b.parquet', and was numbers in"
    ):
        scan_parquet(tmp_path, target="y")
