"""`ling verify`: what a solution is worth, in a sentence and an exit code."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn import linear_model

import ling as library
from ling.errors import (
    DataFileError,
    InputTypeError,
    MissingValueError,
    ModelFileError,
    OptionError,
    ShapeError,
    UnknownColumnError,
)
from tests.cli.conftest import BASIC, N, assert_refused, goods

CSV = ("verify", "coef.csv", "goods.parquet", "--alpha", "2", "--target", "price")


def write_coef(coef, intercept=None, header=True, path="coef.csv"):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if path.endswith(".tsv") else ",")
        writer.writerows([["name", "coefficient"]] if header else [])
        writer.writerows([name, repr(float(value))] for name, value in coef.items())
        writer.writerows([] if intercept is None else [["intercept", repr(float(intercept))]])


@pytest.fixture
def solution(folder):
    """Coefficients of scikit-learn by name, and its intercept."""
    data = library.scan_parquet("goods.parquet", target="price", features=["size", "colour"])
    model = linear_model.Ridge(alpha=2.0, solver="cholesky").fit(data.to_numpy(), data.y)
    return dict(zip(data.feature_names, model.coef_, strict=True)), model.intercept_


@pytest.mark.parametrize("name", ["goods.parquet", "goods.csv", "goods.feather"])
def test_a_model_of_ling_is_proved(name, model, ling):
    done = ling("verify", model, name)
    assert done.code == 0, done.err
    alpha = library.load(model).alpha_
    assert "predictions are within" in done.out
    assert f"alpha {alpha:.6g}, with an intercept, on the 300 rows and 6 columns" in done.out


def test_json(model, ling):
    found = ling("verify", model, "goods.parquet", "--json", "--tol", "1e-3").json
    assert found["proved"] is True
    assert found["bound"] <= 1e-10
    assert found["bounds"] == [found["bound"]]
    assert found["tol"] == 1e-3
    assert found["shape"] == [N, 6]
    assert found["alpha"] == library.load(model).alpha_
    assert found["warnings"] == []


def test_other_data_prove_nothing_and_say_so(model, ling):
    pq.write_table(goods(120, seed=1), "new.parquet")
    done = ling("verify", model, "new.parquet")
    assert done.code == 3
    assert "fitted to 300 rows, and the data have 120" in done.err
    assert "tol, 0.0001, is not reached" in done.out
    assert ling("verify", model, "new.parquet", "--quiet").out == ""


@pytest.mark.parametrize("options", [("--weights", "weight"), ("--classify",), ("--alpha", "3")])
def test_models_of_all_kinds(options, folder, ling):
    target = "kind" if options == ("--classify",) else "price"
    drop = "id,price" if target == "kind" else "id,kind"
    done = ling("fit", "goods.csv", "--target", target, "--drop", drop, *options, "-q")
    assert done.code == 0, done.err
    done = ling("verify", "model.ling", "goods.csv", "--json")
    assert done.code == 0, done.err
    assert done.json["bound"] <= 1e-8
    assert done.json["warnings"] == []


def test_rows_without_a_target_are_left_out_as_in_the_fit(folder, ling):
    table = goods()
    price = pa.array([None, None, *table["price"].to_pylist()[2:]])
    pq.write_table(table.set_column(6, "price", price), "gaps.parquet")
    ling("fit", "gaps.parquet", *BASIC, "--skip-missing-target", "-q")
    done = ling("verify", "model.ling", "gaps.parquet", "--json")
    assert done.code == 0, done.err
    assert done.json["shape"] == [N - 2, 6]
    ling("fit", "goods.parquet", *BASIC, "-q")
    done = ling("verify", "model.ling", "gaps.parquet")
    assert_refused(done, MissingValueError, "target", change=("skip_missing_target", True))
    assert ling("verify", "model.ling", "gaps.parquet", "--skip-missing-target").code in (0, 3)


def test_arrays(folder, ling, rng):
    X = rng.standard_normal((100, 3))
    np.save("X.npy", X)
    np.save("y.npy", X @ [1.0, 2.0, 3.0] + rng.standard_normal(100))
    np.save("w.npy", rng.gamma(1.0, size=100))
    np.save("ones.npy", np.ones(100))
    ling("fit", "X.npy", "-t", "y.npy", "--weights", "w.npy", "--alpha", 0.01, "-q")
    assert ling("verify", "model.ling", "X.npy").code == 0
    unweighted = ling("verify", "model.ling", "X.npy", "--weights", "ones.npy")
    assert unweighted.code == 3
    assert "these are not the data of the fit" in unweighted.err
    model = library.load("model.ling")
    write_coef(dict(zip("abc", model.coef_, strict=True)), model.intercept_)
    options = ("--alpha", 0.01, "-t", "y.npy")
    assert ling("verify", "coef.csv", "X.npy", *options, "--weights", "w.npy").code == 0
    assert ling("verify", "coef.csv", "X.npy", *options).code == 3  # other weights
    assert_refused(ling("verify", "model.ling", "goods.csv"), InputTypeError, "data")


def test_models_made_in_python_need_a_target(folder, ling):
    data = library.scan_parquet("goods.parquet", target="price", drop=["id", "kind"])
    library.save(library.Ridge().fit(data), "python.ling")
    done = ling("verify", "python.ling", "goods.parquet")
    assert_refused(done, OptionError, "target")
    assert ling("verify", "python.ling", "goods.parquet", "--target", "price").code == 0
    done = ling("verify", "python.ling", "goods.parquet", "--target", "cost")
    assert_refused(done, UnknownColumnError, "target", column="cost")


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("path", ["coef.csv", "coef.tsv"])
def test_coefficients_of_another_solver(header, path, solution, ling):
    write_coef(*solution, header, path)
    done = ling("verify", path, *CSV[2:])
    assert done.code == 0, done.err
    assert "alpha 2, with an intercept, on the 300 rows and 4 columns" in done.out


def test_coefficients_that_are_off(solution, ling):
    coef, intercept = solution
    write_coef({**coef, "size": coef["size"] + 1e-2}, intercept)
    done = ling(*CSV, "--json")
    assert done.code == 3
    data = library.scan_parquet("goods.parquet", target="price", features=["size"])
    size, price = data.to_numpy()[:, 0], data.y
    expected = 1e-2 * np.linalg.norm(size) / np.linalg.norm(price - price.mean())
    assert 0.5 * expected < done.json["bound"] < 2 * expected
    assert ling(*CSV, "--tol", "0.1").code == 0
    assert ling(*CSV[:4], "0", *CSV[5:]).code == 3  # alpha = 0


def test_columns_without_a_coefficient_are_named(solution, ling):
    coef, intercept = solution
    write_coef({name: value for name, value in coef.items() if name != "size"}, intercept)
    done = ling(*CSV, "--weights", "weight", "--json")
    note = done.json["warnings"][0]
    assert "'size'" in note
    assert "'price'" not in note  # the target
    assert "'weight'" not in note
    assert "'size'" in done.err
    assert done.json["shape"] == [N, 3]


def test_an_intercept_that_is_off_is_named(solution, ling):
    write_coef(solution[0], 0.0)
    done = ling(*CSV, "--json")
    assert done.code == 3
    assert any("intercept" in note for note in done.json["warnings"])


def test_without_an_intercept(solution, ling):
    write_coef(solution[0])
    done = ling(*CSV)
    assert done.code == 3
    assert "no intercept" in done.err
    assert "without an intercept" in done.out


BAD_FILES = {
    "area,1,2\n": (DataFileError, {"line": 1}),
    "name,coefficient\nsize,1\nsize,2\n": (DataFileError, {"line": 3}),
    "size,1\ncount,many\n": (DataFileError, {"line": 2}),
    "size,1\ncount,nan\n": (DataFileError, {"line": 2}),
    "intercept,1\n": (DataFileError, {}),
    "": (DataFileError, {}),
    "size,1\nlength,2\n": (UnknownColumnError, {"column": "length"}),
    "colour=red,1\n": (ShapeError, {"mentions": "colour=blue"}),
    "colour=red,1\ncolour=blue,1\ncolour=green,1\ncolour=pink,1\n": (
        ShapeError, {"mentions": "colour=pink"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", BAD_FILES)
def test_files_of_coefficients_that_cannot_be_used(text, folder, ling):
    (folder / "coef.csv").write_text(text)
    kind, fields = BAD_FILES[text]
    assert_refused(ling(*CSV), kind, "solution", **fields)


def test_refused(solution, model, ling):
    write_coef(*solution)
    assert_refused(ling(*CSV[:3], "--alpha", "1"), OptionError, "target")
    assert_refused(ling(*CSV[:3], "--target", "price"), OptionError, "alpha")
    done = ling("verify", model, "goods.parquet", "--alpha", "1")
    assert_refused(done, OptionError, "alpha")
    assert_refused(ling("verify", "no.csv", *CSV[2:]), DataFileError, "solution", file="no.csv")
    assert_refused(ling("verify", "no.ling", "goods.csv"), DataFileError, "path", file="no.ling")
    assert_refused(ling("verify", model, "no.csv"), DataFileError, "source")
    data = library.scan_parquet("goods.parquet", target="price", features=["size"])
    library.save(library.Ridge(positive=True).fit(data), "positive.ling")
    done = ling("verify", "positive.ling", "goods.parquet", "--target", "price")
    assert_refused(done, ModelFileError, "path")
