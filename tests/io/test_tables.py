"""Columns as numbers: categories, gaps, targets, and the same again for new data."""

import decimal
import gzip
import pickle
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import ling.io.fragments
from ling.errors import InputTypeError, MissingValueError, UnknownCategoryError
from ling.io import Encoding, Numeric, OneHot, scan_arrow, scan_csv, scan_parquet
from ling.io.column_writers import EncodingCounts
from tests.io.tables import DAY, GAPS, HOMES, SCANS, read, write_parquet
from tests.raising import raises

CITIES = ("Bergen", "Oslo", "Tromsø")
ENCODED = np.array([[50, 0, 1, 0, 1], [80, 1, 0, 0, 0], [65, 0, 1, 0, 0], [70, 0, 0, 1, 1.0]])


def test_text_becomes_a_column_for_each_category(scan):
    data = scan(HOMES, "rent")
    names = ("area", *(f"city={city}" for city in CITIES), "new")
    assert data.feature_names == names
    np.testing.assert_array_equal(read(data), ENCODED)
    np.testing.assert_array_equal(data.y, HOMES["rent"])
    assert data.y.dtype == np.int64
    assert data.y is data.y


def test_categories_do_not_depend_on_the_order_of_rows(scan):
    turned = {name: values[::-1] for name, values in HOMES.items()}
    assert scan(turned, "rent").encoding == scan(HOMES, "rent").encoding


def test_features_are_those_named_in_that_order(scan):
    data = scan(HOMES, "rent", ["new", "area"])
    assert data.feature_names == ("new", "area")
    np.testing.assert_array_equal(read(data), ENCODED[:, [4, 0]])


def test_columns_can_be_left_out(scan):
    data = scan({**HOMES, "id": list("abcd")}, "rent", drop=["id", "area"])
    assert data.feature_names == (*(f"city={city}" for city in CITIES), "new")
    np.testing.assert_array_equal(data.read("area"), HOMES["area"])
    assert scan(HOMES, "rent", drop="city").feature_names == ("area", "new")


def test_dates_that_are_left_out_do_no_harm():
    table = pa.table({"day": [DAY, DAY], "a": [1.0, 2.0]})
    assert scan_arrow(table, drop=["day"]).feature_names == ("a",)


def test_targets_keep_their_kind(scan):
    homes = {**HOMES, "area": [50.5, 80.0, 65.0, 70.0]}
    kinds = {name: scan(homes, name, ["city"]).y.dtype.kind for name in ("area", "new", "rent")}
    assert kinds == {"area": "f", "new": "b", "rent": "i"}
    assert scan(HOMES).read("rent").dtype.kind == "i"
    assert scan(homes, ["rent", "area"], ["new"]).y.dtype == np.float64


def test_whole_numbers_of_csv_are_integers_unless_a_fraction_follows(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("\n".join(["a,b"] + ["1,2"] * 300_000 + ["3,2.5"]))
    data = scan_csv(path)  # the types are those of the first megabyte
    assert data.read("a").dtype == np.int64
    assert data.read("b").dtype == np.float64


@pytest.mark.parametrize(
    ("written", "dtype"),
    [
        ([2**53 + 1, 2**53], np.int64),
        ([2**60, 1], np.int64),
        ([-(2**63), 2**63 - 1], np.int64),
        ([2**64 - 1, 7], np.uint64),
        ([2**64 - 1, -7], np.float64),
        ([2**64, 2**64 + 1], np.float64),
        ([2**60, 0.5], np.float64),
        (["1e300", 1], np.float64),
    ],
)
def test_large_whole_numbers_of_csv_are_exact(written, dtype, tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("\n".join(["a,b", *(f" {value},1" for value in written)]))
    values = scan_csv(path).read("a")
    assert values.dtype == dtype
    np.testing.assert_array_equal(values, np.array([dtype(value) for value in written]))


def test_several_targets_and_text_targets(scan):
    both = scan(HOMES, ["rent", "area"], ["new"])
    np.testing.assert_array_equal(both.y, np.column_stack([HOMES["rent"], HOMES["area"]]))
    assert scan(HOMES, ["rent"], ["new"]).y.shape == (4, 1)
    assert scan(HOMES, "city").y.tolist() == HOMES["city"]
    np.testing.assert_array_equal(scan(HOMES, "rent").read("area"), HOMES["area"])
    with raises(InputTypeError, "target"):
        _ = scan(HOMES, ["rent", "city"]).y


def test_print_says_what_was_understood(scan):
    text = str(scan(HOMES, "rent"))
    for part in ("4 rows x 5 columns of float64", "'rent'", "2: area, new", "city (3 categories)"):
        assert part in text
    assert "missing  refused" in text
    assert "filled with the column mean" in str(scan(HOMES, "rent", missing="mean"))


NUMBERS = {
    "int8": pa.array([1, 2, 3], pa.int8()),
    "uint64": pa.array([1, 2, 3], pa.uint64()),
    "large-int64": pa.array([2**60 + 1, 2, 3], pa.int64()),
    "float16": pa.array(np.array([1, 2, 3], np.float16)),
    "float32": pa.array([1, 2, 3], pa.float32()),
    "decimal": pa.array([decimal.Decimal("1.5"), decimal.Decimal("2"), decimal.Decimal("3")]),
    "bool": pa.array([True, False, True]),
}


@pytest.mark.parametrize("array", NUMBERS.values(), ids=NUMBERS)
def test_all_kinds_of_numbers(array, tmp_path):
    columns = {"a": array, "b": pa.array([0.5, 1.5, 2.5])}
    expected = np.column_stack([[float(value.as_py()) for value in array], [0.5, 1.5, 2.5]])
    for scan in (SCANS["arrow"], SCANS["parquet"]):
        np.testing.assert_array_equal(read(scan(tmp_path, columns)), expected)


TEXTS = {
    "string": pa.array(["b", "a", "b"]),
    "large-string": pa.array(["b", "a", "b"], pa.large_string()),
    "dictionary": pa.array(["b", "a", "b"]).dictionary_encode(),
    "unused": pa.DictionaryArray.from_arrays([2, 0, 2], ["a", "never", "b"]),
}


@pytest.mark.parametrize("array", TEXTS.values(), ids=TEXTS)
def test_all_kinds_of_text(array, tmp_path):
    for scan in (SCANS["arrow"], SCANS["parquet"]):
        data = scan(tmp_path, {"a": array})
        assert data.encoding.columns == (OneHot("a", ("a", "b")),)
        np.testing.assert_array_equal(read(data), [[0, 1], [1, 0], [0, 1]])


def test_categories_that_are_numbers(tmp_path):
    data = scan_arrow(pa.table({"a": pa.array([3, 10, 3]).dictionary_encode()}))
    assert data.feature_names == ("a=10", "a=3")
    np.testing.assert_array_equal(read(data), [[0, 1], [1, 0], [0, 1]])


def test_missing_values_are_refused_where_they_are(scan):
    with raises(MissingValueError, "X", column="area", row=1, change=("missing", "mean")):
        read(scan(GAPS))
    with raises(MissingValueError, "X", column="city", row=2, change=("missing", "mean")):
        scan({"city": ["a", "b", None], "x": [1, 2, 3]})


def test_nan_is_missing_too(tmp_path):
    for name in ("arrow", "parquet"):
        data = SCANS[name](tmp_path, {"a": [1.0, 2.0, 3.0, np.nan]})
        with raises(MissingValueError, "X", column="a", row=3):
            read(data, height=2)
        assert read(SCANS[name](tmp_path, {"a": [1.0, np.nan]}, missing="mean"))[1] == 1.0
    with raises(MissingValueError, "X", column="a", row=3):
        SCANS["arrow"](tmp_path, {"a": [1.0, 2, 3, np.nan]}).source.take(np.array([1, 3]))


def test_missing_values_are_filled_in(scan):
    data = scan({**GAPS, "city": ["Oslo", None, "Bergen", "Oslo"]}, missing="mean")
    mean = (50 + 65 + 70) / 3
    assert data.encoding.columns[0] == Numeric("area", mean)
    np.testing.assert_array_equal(read(data), [[50, 0, 1], [mean, 0, 0], [65, 1, 0], [70, 0, 1]])


def test_numbers_alone_are_not_looked_at_before_they_are_read(tmp_path, monkeypatch):
    def refuse(*args):
        raise AssertionError("a pass was made")

    path = write_parquet(tmp_path, {"a": [1.0, None]})
    monkeypatch.setattr(ling.io.fragments.ParquetFragment, "read_batches", refuse)
    assert scan_parquet(path).shape == (2, 1)


def test_new_data_is_encoded_like_the_old(scan):
    model = SimpleNamespace(encoding_=scan(HOMES, "rent").encoding)
    new = {"new": [False, True], "more": [1, 2], "city": ["Oslo", "Oslo"], "area": [1, 2]}
    for like in (model, scan(HOMES, "rent"), pickle.loads(pickle.dumps(model.encoding_))):
        np.testing.assert_array_equal(
            read(scan(new, like=like)), [[1, 0, 1, 0, 0], [2, 0, 1, 0, 1]]
        )


def test_new_gaps_get_the_old_mean(scan):
    old = scan(HOMES, "rent", missing="mean")
    new = {**HOMES, "area": [1.0, None, 1.0, 1.0]}
    assert read(scan(new, "rent", like=old))[1, 0] == np.mean(HOMES["area"])


def test_digits_in_a_text_column_of_new_csv_are_text(tmp_path):
    old = SCANS["csv"](tmp_path, {"zip": ["1a", "02"], "x": [1, 2]})
    np.testing.assert_array_equal(
        read(SCANS["csv"](tmp_path, {"zip": ["02", "02"], "x": [1, 2]}, like=old)),
        [[1, 0, 1], [1, 0, 2]],
    )


def test_unknown_categories(scan):
    old = scan(HOMES, "rent")
    new = {**HOMES, "city": ["Oslo", "Oslo", "Bodø", "Oslo"]}
    with raises(
        UnknownCategoryError, "X", column="city", row=2, change=("unknown", "ignore"),
        mentions="'Bodø'",
    ):  # fmt: skip
        read(scan(new, like=old))
    np.testing.assert_array_equal(read(scan(new, like=old, unknown="ignore"))[2, 1:4], 0)


def test_folders_that_name_a_category(tmp_path):
    pa.dataset.write_dataset(
        pa.table(HOMES), tmp_path, format="parquet", partitioning=["city"],
        partitioning_flavor="hive",
    )  # fmt: skip
    data = scan_parquet(tmp_path, "rent")
    cities = [name for name in data.feature_names if name.startswith("city=")]
    assert len(cities) == 3
    assert read(data).sum() == ENCODED.sum()


def test_integers_may_be_followed_by_fractions_in_csv(tmp_path):
    rows = ["a"] + ["1"] * 600_000 + ["1.5"]  # the types are those of the first megabyte
    (tmp_path / "long.csv").write_text("\n".join(rows))
    assert read(scan_csv(tmp_path / "long.csv"), 100_000)[-1] == 1.5
    (tmp_path / "long.csv").write_text("\n".join([*rows, "oops"]))
    with raises(InputTypeError, "source", file=str(tmp_path / "long.csv"), mentions="oops"):
        read(scan_csv(tmp_path / "long.csv"), 100_000)


def test_quoted_na_is_text_in_csv(tmp_path):
    (tmp_path / "a.csv").write_text('a,b\n"NA",1\nx,2\n')
    assert scan_csv(tmp_path / "a.csv").encoding.one_hot[0].categories == ("NA", "x")


DIALECTS = {
    "semicolons": "area;city;rent\n50.5;Oslo;9\n80;Bergen, west;11\n",
    "decimal-commas": "area;city;rent\n50,5;Oslo;9\n80;Bergen, west;11\n",
    "tabs": "area\tcity\trent\n50.5\tOslo\t9\n80\tBergen, west\t11\n",
    "bars": "area|city|rent\n50.5|Oslo|9\n80|Bergen, west|11\n",
    "commas": 'area,city,rent\n50.5,Oslo,9\n80,"Bergen, west",11\n',
    "byte-order-mark": '\ufeffarea,city,rent\n50.5,Oslo,9\n80,"Bergen, west",11\n',
}


@pytest.mark.parametrize("text", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress], ids=["plain", "gzip"])
def test_dialects_of_csv(text, pack, tmp_path):
    path = tmp_path / ("a.csv" if pack is not gzip.compress else "a.csv.gz")
    path.write_bytes(pack(text.encode()))
    data = scan_csv(path, "rent")
    assert data.feature_names == ("area", "city=Bergen, west", "city=Oslo")
    np.testing.assert_array_equal(read(data), [[50.5, 0, 1], [80, 1, 0]])
    assert data.y.tolist() == [9, 11]


def test_float32_only_where_all_files_are(tmp_path):
    for name, kind in (("1", pa.float32()), ("2", pa.float64())):
        table = pa.table({"a": pa.array([0.1, 0.2], kind), "y": [1.0, 2.0]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    assert scan_parquet(tmp_path, target="y").X.dtype == np.float64
    assert scan_parquet(tmp_path / "1.parquet", target="y").X.dtype == np.float32


def test_tabs_are_known_by_the_name_of_the_file(tmp_path):
    (tmp_path / "t.tsv").write_text("a, b\ty\n1.5\t2\n")
    assert scan_csv(tmp_path / "t.tsv", target="y").feature_names == ("a, b",)


def test_a_tally_counts_what_is_filled_or_ignored():
    like = Encoding((Numeric("a", 2.0), OneHot("c", ("x",))), "mean")
    table = pa.table({"a": [1.0, None, None], "c": ["x", "z", None]})
    data = scan_arrow(table, like=like, unknown="ignore")
    data.source.encoding_counts = EncodingCounts()
    np.testing.assert_array_equal(
        next(data.source.blocks(slice(None), 3)), [[1, 1], [2, 0], [2, 0]]
    )
    assert data.source.encoding_counts.filled == {"a": 2, "c": 1}
    assert data.source.encoding_counts.unknown == {"c": 1}
