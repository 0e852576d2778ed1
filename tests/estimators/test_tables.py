"""Tables as X: columns become numbers once, and stay that way in the model."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge as Theirs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from ling import Ridge, RidgeClassifierCV, RidgeCV, ridge_path, scan_csv, scan_parquet, scan_zarr
from ling.errors import MissingValueError, OptionError, UnknownCategoryError, UnknownColumnError
from tests.raising import raises


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    size, colour = rng.uniform(1, 9, 300), rng.choice(["red", "green", "blue"], 300)
    price = 3 * size + 5 * (colour == "red") + rng.standard_normal(300)
    kind = np.where(price > 15, "dear", "cheap")
    return pd.DataFrame(
        {"size": size, "colour": colour, "count": rng.integers(0, 9, 300), "price": price,
         "kind": kind, "weight": rng.uniform(0.5, 2, 300)}
    )  # fmt: skip


FEATURES = ["size", "colour", "count"]


def in_parquet(frame, folder):
    pq.write_table(pa.Table.from_pandas(frame), folder / "t.parquet", row_group_size=70)
    return scan_parquet(folder / "t.parquet", target="price", features=FEATURES)


def in_csv(frame, folder):
    pyarrow.csv.write_csv(pa.Table.from_pandas(frame), folder / "t.csv")
    return scan_csv(folder / "t.csv", target="price", features=FEATURES)


SCANS = pytest.mark.parametrize("scan", [in_parquet, in_csv])


def reference(frame, target="price"):
    encode = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    return make_pipeline(encode, Theirs(0.7)).fit(frame[FEATURES], frame[target])


@SCANS
def test_a_fit_is_that_of_one_hot_columns(scan, frame, tmp_path):
    data = scan(frame, tmp_path)
    model = Ridge(0.7, tol=1e-10).fit(data.X, data.y)
    assert list(model.feature_names_in_) == [
        "size", "colour=blue", "colour=green", "colour=red", "count",
    ]  # fmt: skip
    np.testing.assert_allclose(model.predict(data.X), reference(frame).predict(frame[FEATURES]))


@SCANS
def test_new_tables_are_read_like_the_old_one(scan, frame, tmp_path):
    data = scan(frame, tmp_path)
    model = pickle.loads(pickle.dumps(Ridge(0.7).fit(data.X, data.y)))
    new = pa.Table.from_pandas(frame.iloc[:5][["count", "colour", "size"]], preserve_index=False)
    known = model.predict(data.X)[:5]
    np.testing.assert_allclose(model.predict(new), known)
    np.testing.assert_allclose(model.predict(ds.dataset(new)), known)
    other = new.set_column(1, "colour", pa.array(["red", "pink", "red", "red", "red"]))
    with raises(UnknownCategoryError, "X", row=1, column="colour", mentions="'pink'"):
        model.predict(other)
    with raises(UnknownColumnError, "X", mentions="'colour'"):
        model.predict(new.drop_columns(["colour"]))


def test_everything_takes_tables(frame, tmp_path):
    data = in_parquet(frame, tmp_path)
    table = pa.Table.from_pandas(frame[FEATURES], preserve_index=False)
    assert RidgeCV(cv=3).fit(table, data.y).alpha_ == pytest.approx(
        RidgeCV(cv=3).fit(data.X, data.y).alpha_
    )
    weights = data.read("weight")
    weighted = Ridge(tol=1e-9).fit(data.X, data.y, weights)
    known = Ridge(tol=1e-9).fit(table, pa.array(frame["price"]), pa.array(frame["weight"]))
    np.testing.assert_allclose(weighted.coef_, known.coef_)
    kinds = scan_parquet(tmp_path / "t.parquet", target="kind", features=FEATURES)
    model = RidgeClassifierCV(cv=3).fit(kinds.X, kinds.y)
    assert set(model.predict(table)) == {"dear", "cheap"}
    assert model.score(kinds.X, kinds.y) > 0.9
    assert ridge_path(table, data.y).coef.shape == (30, 5)


def test_an_array_after_a_table_forgets_its_columns(frame, tmp_path):
    data = in_parquet(frame, tmp_path)
    model = Ridge().fit(data.X, data.y)
    model.fit(np.ones((300, 2)), data.y)
    assert not hasattr(model, "encoding_")
    assert not hasattr(model, "feature_names_in_")


def test_batches_of_a_table(frame):
    table = pa.Table.from_pandas(frame[FEATURES], preserve_index=False)
    y = frame["price"].to_numpy()
    model = Ridge(0.7).partial_fit(table, y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.partial_fit(np.zeros((1, 5)), y[:1])
    assert model.predict(table.slice(0, 3)).shape == (3,)


def test_paths_match_columns_by_name(frame):
    table = pa.Table.from_pandas(frame[FEATURES], preserve_index=False)
    path = ridge_path(table, frame["price"], [1.0, 10.0])
    other = table.select(["count", "colour", "size"]).slice(0, 4)
    np.testing.assert_allclose(path.predict(other), path.predict(table)[:4])


def test_targets_in_arrow(frame):
    table = pa.Table.from_pandas(frame[FEATURES], preserve_index=False)
    targets = pa.Table.from_pandas(frame[["price", "weight"]], preserve_index=False)
    assert Ridge().fit(table, targets).coef_.shape == (2, 5)
    gap = pa.array([None if i == 17 else 1.0 for i in range(300)])
    with raises(MissingValueError, "y", row=17):
        Ridge().fit(table, gap)
    with raises(OptionError, "target", mentions="1"):
        scan_parquet("nowhere.parquet", target=1)


def test_missing_values_are_named(frame, tmp_path):
    frame.loc[17, "size"] = None
    data = in_parquet(frame, tmp_path)
    with raises(MissingValueError, "X", row=17, column="size"):
        Ridge().fit(data.X, data.y)
    filled = scan_parquet(tmp_path / "t.parquet", target="price", features=FEATURES, missing="mean")
    model = Ridge(0.7, tol=1e-10).fit(filled.X, filled.y)
    frame["size"] = frame["size"].fillna(frame["size"].mean())
    np.testing.assert_allclose(model.predict(filled.X), reference(frame).predict(frame[FEATURES]))
    with raises(UnknownColumnError, "target", column="sise", mentions="'size'"):
        scan_parquet(tmp_path / "t.parquet", target="sise")


def test_zarr(tmp_path):
    import zarr

    X = np.random.default_rng(0).standard_normal((100, 7))
    array = zarr.create_array(tmp_path / "X.zarr", data=X, chunks=(30, 7))
    y = X.sum(axis=1)
    data = scan_zarr(array, y)
    np.testing.assert_allclose(
        Ridge(tol=1e-10).fit(data.X, data.y).coef_, Ridge(tol=1e-10).fit(X, y).coef_
    )
