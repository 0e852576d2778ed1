"""`ling predict`: columns by name, blocks in, blocks out, a whole file or none."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import accuracy_score, r2_score

import ling as library
from ling.errors import (
    DataFileError,
    InputTypeError,
    MissingValueError,
    ModelFileError,
    OptionError,
    ShapeError,
    UnknownCategoryError,
    UnknownColumnError,
)
from tests.cli.conftest import BASIC, assert_refused, goods

READERS = {
    "p.parquet": pq.read_table,
    "p.csv": pa.csv.read_csv,
    "p.feather": pa.feather.read_table,
    "p.arrow": pa.feather.read_table,
}
NEW = goods(120, seed=1)
#: For a fit: as little memory as can be, so that its model predicts in the smallest blocks.
SMALL_BUDGET = ("--memory-budget", "4MB")


@pytest.fixture
def new(model):
    """New goods, columns in another order."""
    pq.write_table(NEW.select(NEW.column_names[::-1]), "new.parquet", row_group_size=50)
    return "new.parquet"


@pytest.fixture(scope="module")
def many():
    """Goods that a model with `SMALL_BUDGET` reads in several blocks, of 1 MiB or 21,824 rows."""
    return goods(50_000, seed=1)


@pytest.mark.parametrize("name", READERS)
def test_predictions_are_those_of_the_model(name, folder, many, ling):
    ling("fit", "goods.parquet", *BASIC, *SMALL_BUDGET, "-q")
    pq.write_table(many.select(many.column_names[::-1]), "new.parquet", row_group_size=7000)
    done = ling("predict", "model.ling", "new.parquet", "--out", name, "--keep", "id,colour")
    assert done.code == 0, done.err
    found = READERS[name](name)
    assert found.column_names == ["id", "colour", "prediction"]
    assert found["id"].to_pylist() == many["id"].to_pylist()
    assert found["colour"].to_pylist() == many["colour"].to_pylist()
    model = library.load("model.ling")
    expected = model.predict(many)
    np.testing.assert_allclose(found["prediction"].to_numpy(), expected, rtol=1e-12)
    assert f"R² {r2_score(many['price'].to_numpy(), expected):.4f} on the 50,000 rows" in done.out
    blocks = list(model.predict_blocks(library.scan_parquet("new.parquet", like=model).X))
    assert [rows.stop for rows, _ in blocks] == [21_824, 43_648, 50_000]


def test_all_formats_in(model, ling):
    pa.csv.write_csv(NEW, "new.csv")
    pa.feather.write_feather(NEW, "new.feather")
    expected = library.load(model).predict(NEW)
    for name in ("new.csv", "new.feather"):
        done = ling("predict", model, name, "--out", "p.npy", "--json")
        np.testing.assert_allclose(np.load("p.npy"), expected, rtol=1e-12)
        assert done.json["rows"] == 120
        assert done.json["score"]["value"] == pytest.approx(
            r2_score(NEW["price"].to_numpy(), expected)
        )


def test_classes(folder, many, ling):
    ling("fit", "goods.csv", "-t", "kind", "--drop", "id,price", "--classify", *SMALL_BUDGET, "-q")
    pq.write_table(many, "new.parquet")
    expected = library.load("model.ling").predict(many)
    done = ling("predict", "model.ling", "new.parquet", "-o", "p.csv", "--json")
    assert pa.csv.read_csv("p.csv")["prediction"].to_pylist() == list(expected)
    truth = np.array(many["kind"].to_pylist())
    assert done.json["score"]["value"] == accuracy_score(truth, expected)
    recall = {kind: (expected[truth == kind] == kind).mean() for kind in ("cheap", "dear")}
    assert done.json["score"]["recall"] == pytest.approx(recall)
    shown = ling("predict", "model.ling", "new.parquet", "-o", "p.csv").out
    worst = min(recall, key=recall.get)
    assert f"recall of each class, the worst first: {worst} {recall[worst]:.4f}," in shown
    ling("predict", "model.ling", "new.parquet", "-o", "p.npy", "-q")
    np.testing.assert_array_equal(np.load("p.npy"), expected)


def test_classes_that_are_numbers(folder, ling):
    ling("fit", "goods.parquet", "-t", "count", "--drop", "id", "--classify", "-q")
    done = ling("predict", "model.ling", "goods.parquet", "-o", "p.parquet", "--json")
    assert pq.read_table("p.parquet")["prediction"].type == pa.int64()
    assert 0 < done.json["score"]["value"] < 1


def test_arrays(folder, ling):
    X = np.random.default_rng(0).standard_normal((50, 3))
    np.save("X.npy", X)
    np.save("y.npy", X @ [1.0, 2.0, 3.0])
    ling("fit", "X.npy", "-t", "y.npy", "-q")
    assert ling("predict", "model.ling", "X.npy", "-o", "p.npy").code == 0
    np.testing.assert_array_equal(np.load("p.npy"), library.load("model.ling").predict(X))
    done = ling("predict", "model.ling", "goods.csv", "-o", "p.npy")
    assert_refused(done, InputTypeError, "data", file="goods.csv", mentions="3 columns")


def test_rows_without_a_target_do_not_count(model, ling):
    gap = pa.array([None, *NEW["price"].to_pylist()[1:]])
    pq.write_table(NEW.set_column(6, "price", gap), "gap.parquet")
    assert (
        ling("predict", model, "gap.parquet", "-o", "p.csv", "--json").json["score"]["rows"] == 119
    )
    pq.write_table(NEW.drop_columns(["price"]), "none.parquet")
    done = ling("predict", model, "none.parquet", "-o", "p.csv", "--json")
    assert done.json["score"] is None


def test_columns_that_nobody_knows(model, ling):
    pq.write_table(NEW.append_column("extra", NEW["size"]), "more.parquet")
    done = ling("predict", model, "more.parquet", "-o", "p.csv")
    assert done.code == 0
    assert "Note: ignored, as the model does not use them: extra" in done.err
    strict = ling("predict", model, "more.parquet", "-o", "strict.csv", "--strict")
    assert_refused(strict, UnknownColumnError, "data", file="more.parquet", mentions="'extra'")
    kept = ling("predict", model, "more.parquet", "-o", "p.csv", "--strict", "--keep", "extra")
    assert kept.code == 0


def other_colour(table):
    return table.set_column(2, "colour", pa.array(["pink"] * table.num_rows))


REFUSED = {
    "lacks": (lambda t: t.rename_columns({"size": "Size"}), [], UnknownColumnError, "X",
              {"mentions": "rename 'Size' to 'size'"}),
    "category": (other_colour, [], UnknownCategoryError, "X",
                 {"column": "colour", "row": 0, "change": ("unknown", "ignore"),
                  "mentions": "3 known categories ('blue', 'green', 'red'), but is 'pink'"}),
    "keep": (lambda t: t, ["--keep", "idd"], UnknownColumnError, "keep",
             {"column": "idd", "mentions": "'id'"}),
    "keep-prediction": (lambda t: t, ["--keep", "prediction"], OptionError, "keep",
                        {"column": "prediction"}),
    "ending": (lambda t: t, ["--out", "p.xlsx"], OptionError, "out", {"file": "p.xlsx"}),
    "npy-keep": (lambda t: t, ["--out", "p.npy", "--keep", "id"], OptionError, "keep",
                 {"column": None}),
    "gaps": (lambda t: t.set_column(1, "size", pa.array([None] * t.num_rows, pa.float64())), [],
             MissingValueError, "X",
             {"column": "size", "row": 0, "mentions": "fit the model again"}),
    "rows": (lambda t: t.slice(0, 0), [], ShapeError, "data", {"file": "new.parquet"}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "options", "kind", "argument", "fields"), REFUSED.values(), ids=REFUSED
)
def test_refused_in_one_line_and_nothing_written(
    change, options, kind, argument, fields, model, ling
):
    pq.write_table(change(NEW), "new.parquet")
    before = sorted(model.parent.iterdir())
    out = [] if "--out" in options else ["--out", "p.csv"]
    done = ling("predict", model, "new.parquet", *out, *options)
    assert_refused(done, kind, argument, **fields)
    assert sorted(model.parent.iterdir()) == before


def test_folders_that_are_not_there(model, ling):
    done = ling("predict", model, "goods.csv", "--out", "no/p.csv")
    assert done.code == 1
    assert "its folder does not exist" in done.err


def test_what_fails_half_way_leaves_what_was_there(folder, many, ling):
    ling("fit", "goods.parquet", *BASIC, *SMALL_BUDGET, "-q")
    colours = pa.array([*many["colour"].to_pylist()[:-1], "pink"])
    pq.write_table(many.set_column(2, "colour", colours), "late.parquet")
    (folder / "p.csv").write_text("precious")
    before = sorted(folder.iterdir())
    predict = ("predict", "model.ling", "late.parquet", "-o", "p.csv")
    assert ling(*predict).code == 1
    assert (folder / "p.csv").read_text() == "precious"
    assert sorted(folder.iterdir()) == before
    assert ling(*predict, "--unknown", "ignore").code == 0
    assert len((folder / "p.csv").read_text().splitlines()) == 50_001


def test_model_files_that_are_none(folder, ling):
    (folder / "bad.ling").write_text("not at all")
    done = ling("predict", "bad.ling", "goods.csv", "--out", "p.csv")
    assert_refused(done, ModelFileError, "path", file="bad.ling")
    done = ling("predict", "no.ling", "goods.csv", "--out", "p.csv")
    assert_refused(done, DataFileError, "path", file="no.ling")


def test_tables_need_names(model, ling):
    np.save("X.npy", np.ones((5, 6)))
    done = ling("predict", model, "X.npy", "-o", "p.npy")
    assert_refused(done, InputTypeError, "data", file="X.npy", mentions="'size', 'colour'")


def test_options(model, ling):
    done = ling("predict", model, "goods.csv", "-o", "p.csv", "--unknown", "drop")
    assert done.code == 2
    assert "--unknown" in done.err
    assert ling("predict", model, "goods.csv").code == 2


@pytest.mark.parametrize("name", ["new.parquet", "link.parquet", "model.ling"])
def test_what_is_read_is_not_overwritten(name, model, new, ling):
    (model.parent / "link.parquet").symlink_to("new.parquet")
    (model.parent / "model.parquet").symlink_to("model.ling")
    before = {path.name: path.read_bytes() for path in model.parent.iterdir()}
    out = name.replace(".ling", ".parquet")
    done = ling("predict", model, new, "--out", out)
    assert done.code == 1
    assert f"--out {out!r} is a file that is read" in done.err
    assert {path.name: path.read_bytes() for path in model.parent.iterdir()} == before


def test_a_target_that_is_text_gets_no_score(model, ling):
    texts = pa.array([f"{price:.0f} EUR" for price in NEW["price"].to_pylist()])
    pq.write_table(NEW.set_column(6, "price", texts), "text.parquet")
    done = ling("predict", model, "text.parquet", "-o", "p.csv", "--json")
    assert done.code == 0, done.err
    assert "Note: 'price' is text here; no score." in done.err
    assert done.json["score"] is None
    assert done.json["rows"] == 120


def test_what_was_filled_in_or_ignored_is_told(folder, many, ling):
    ling("fit", "goods.parquet", *BASIC, "--missing", "mean", *SMALL_BUDGET, "-q")
    n = many.num_rows
    colours = pa.array(["pink" if i % 4 == 0 else "red" for i in range(n)])
    gone = pa.array([None] * n, pa.float64())
    pq.write_table(many.set_column(2, "colour", colours).set_column(1, "size", gone), "odd.parquet")
    done = ling("predict", "model.ling", "odd.parquet", "-o", "p.csv", "--unknown", "ignore",
                "--json")  # fmt: skip
    assert (
        "the fit has not seen, treated as no category: 'colour' (12,500 of 50,000 rows)" in done.err
    )
    assert "(missing text: no category): 'size' (every row)" in done.err
    assert done.json["unknown"] == {"colour": 12_500}
    assert done.json["filled"] == {"size": 50_000}


def test_numbers_that_became_text(model, ling):
    sizes = pa.array([f"{size:.0f} cm" for size in NEW["size"].to_pylist()])
    pq.write_table(NEW.set_column(1, "size", sizes), "text.parquet")
    done = ling("predict", model, "text.parquet", "-o", "p.csv")
    assert_refused(done, InputTypeError, "X", column="size", file="text.parquet", mentions="text")


def test_what_is_copied_from_csv_is_copied_as_it_is_written(folder, ling):
    rows = [f"{n:04d},900719925474099{n % 10},{n},{2 * n + n % 3}" for n in range(40)]
    Path("ids.csv").write_text("\n".join(["id,large,x,y", *rows]))
    ling("fit", "ids.csv", "-t", "y", "--drop", "id,large", "-q")
    assert ling("predict", "model.ling", "ids.csv", "--keep", "id,large", "-o", "p.csv").code == 0
    line = Path("p.csv").read_text().splitlines()[8].replace('"', "")
    assert line.startswith("0007,9007199254740997,")


def test_files_of_a_folder_may_differ_in_what_the_model_does_not_need(folder, ling):
    x = np.arange(40.0)
    pq.write_table(pa.table({"x": x, "y": 2 * x}), "one.parquet")
    ling("fit", "one.parquet", "-t", "y", "-q")
    Path("parts").mkdir()
    pq.write_table(pa.table({"x": x, "y": pa.array(range(40))}), "parts/0.parquet")
    pq.write_table(pa.table({"x": x, "y": x}), "parts/1.parquet")
    done = ling("predict", "model.ling", "parts", "-o", "p.csv")
    assert done.code == 0, done.err
    assert len(Path("p.csv").read_text().splitlines()) == 81


def test_classes_of_another_type_are_not_compared(folder, ling):
    kinds = np.array(["1", "2"])[np.arange(60) % 2]
    pq.write_table(pa.table({"x": np.arange(60.0) % 2, "k": kinds}), "texts.parquet")
    ling("fit", "texts.parquet", "-t", "k", "--classify", "-q")
    pq.write_table(pa.table({"x": np.arange(60.0) % 2, "k": kinds.astype(int)}), "new.parquet")
    done = ling("predict", "model.ling", "new.parquet", "-o", "p.csv")
    assert "'k' is numbers here; no score" in done.out + done.err
