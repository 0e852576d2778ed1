"""`ling fit`, as somebody sees it who has a file and a question."""

import datetime
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import RidgeCV as Theirs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import ling as library
from ling.cli.training_table import MANY_CATEGORIES
from ling.errors import (
    DataFileError,
    InputTypeError,
    MissingValueError,
    OptionError,
    ShapeError,
    UnknownColumnError,
)
from ling.model_file import read_model_file
from tests.cli.conftest import BASIC, WRITERS, N, assert_refused, goods

FEATURES = ["size", "colour", "count", "weight"]


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_becomes_a_model(name, folder, ling):
    done = ling("fit", name, *BASIC)
    assert done.code == 0, done.err
    assert done.err == ""
    for part in (
        "300 rows, 6 columns of numbers", "price (numbers from", "3: size, count, weight",
        "colour (3 categories)", "left out  id, kind", "the best of", "R² 0.99", "± 0.0",
        "predictions are within", "passes over 300 x 6", "Written to model.ling",
    ):  # fmt: skip
        assert part in done.out, part
    assert done.out.index("size ") < done.out.index("colour=red") < done.out.index("count ")
    frame = goods().to_pandas()
    model = library.load("model.ling")
    encode = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    theirs = make_pipeline(encode, Theirs(model.alphas_, cv=5))
    theirs.fit(frame[FEATURES], frame["price"])
    assert model.alpha_ == pytest.approx(theirs[-1].alpha_)
    table = goods().select(FEATURES)
    np.testing.assert_allclose(model.predict(table), theirs.predict(frame[FEATURES]), rtol=1e-3)


def test_folders_and_patterns(folder, ling):
    (folder / "parts").mkdir()
    for i in range(3):
        pq.write_table(goods().slice(100 * i, 100), folder / "parts" / f"part-{i}.parquet")
    for source in ("parts", "parts/part-*.parquet"):
        done = ling("fit", source, *BASIC, "--json")
        assert done.json["shape"] == [N, 6], source


def test_arrays(folder, ling):
    X = np.random.default_rng(0).standard_normal((100, 3))
    np.save("X.npy", X)
    np.save("y.npy", X @ [1.0, 2.0, 3.0])
    np.save("w.npy", np.ones(100))
    done = ling("fit", "X.npy", "--target", "y.npy", "--weights", "w.npy", "--alpha", 0.01)
    assert done.code == 0, done.err
    assert "column 2" in done.out
    assert "alpha was given" in done.out
    np.testing.assert_allclose(library.load("model.ling").coef_, [1, 2, 3], rtol=1e-2)
    assert_refused(ling("fit", "X.npy", "-t", "price"), DataFileError, "target", file="price")
    for option in ("drop", "features"):
        done = ling("fit", "X.npy", "-t", "y.npy", f"--{option}", "a")
        assert_refused(done, OptionError, option)


def test_arrays_of_targets_and_weights_that_cannot_be_used(folder, ling):
    arrays = {"X": np.ones((5, 2)), "y": np.arange(5.0), "Y": np.ones((5, 2)), "t": np.array(["a"])}
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    assert_refused(ling("fit", "X.npy", "-t", "Y.npy"), OptionError, "target", file="Y.npy")
    for name, kind in (("no.npy", DataFileError), ("t.npy", InputTypeError)):
        done = ling("fit", "X.npy", "-t", "y.npy", "--weights", name)
        assert_refused(done, kind, "weights", file=name)


def test_json_is_all_there_is_on_stdout(folder, ling):
    found = ling("fit", "goods.csv", *BASIC, "--json").json
    assert found["model"] == "RidgeCV"
    assert found["status"] == "certified"
    assert found["bound"] <= found["tol"] == 1e-4
    assert found["score"]["name"] == "R²"
    assert 0.99 < found["score"]["mean"] < 1
    strongest = found["effects"][0]
    assert strongest["column"] == "size"
    assert strongest["coefficient"] == pytest.approx(3, abs=0.1)
    assert 0 < strongest["std_error"] < 0.1
    spread = np.std(goods()["size"].to_numpy())
    assert strongest["effect"] == pytest.approx(strongest["coefficient"] * spread)
    assert found["written"] == "model.ling"
    assert found["about"]["target"] == "price"


def test_what_the_file_remembers(folder, ling):
    ling("fit", "goods.csv", *BASIC, "--weights", "weight", "--quiet")
    about = read_model_file("model.ling").about
    assert about["source"] == "goods.csv"
    assert about["weights"] == "weight"
    assert about["left_out"] == ["id", "kind"]
    assert datetime.datetime.fromisoformat(about["fitted"]).tzinfo is not None
    assert "weight" not in library.load("model.ling").encoding_.inputs


def test_quiet_says_nothing(folder, ling):
    done = ling("fit", "goods.parquet", *BASIC, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_options_reach_the_model(folder, ling):
    ling("fit", "goods.parquet", *BASIC, "--alphas", "0.1,1,10", "--cv", 3, "--tol", "1e-6",
         "--seed", 7, "--memory-budget", "1GB", "--quiet")  # fmt: skip
    model = library.load("model.ling")
    assert model.alphas == [0.1, 1.0, 10.0]
    assert (model.cv, model.tol, model.random_state) == (3, 1e-6, 7)
    assert model.memory_budget == "1GB"
    ling("fit", "goods.parquet", "-t", "price", "--features", "count,size", "--alpha", 3, "-q")
    model = library.load("model.ling")
    assert list(model.feature_names_in_) == ["count", "size"]
    assert model.alpha == 3.0
    ling("fit", "goods.parquet", *BASIC, "--shuffle", "--quiet")
    assert (
        "KFold(n_splits=5, random_state=0, shuffle=True)"
        in read_model_file("model.ling").unsaved_parameters["cv"]
    )


def test_classes(folder, ling):
    done = ling("fit", "goods.csv", "-t", "kind", "--drop", "id,price", "--classify")
    assert done.code == 0, done.err
    assert "2 classes: cheap, dear" in done.out
    assert "accuracy 0.9" in done.out
    assert list(library.load("model.ling").classes_) == ["cheap", "dear"]
    ling("fit", "goods.csv", "-t", "count", "--drop", "id", "--classify", "--quiet")
    assert library.load("model.ling").classes_.dtype.kind == "i"


def test_a_report_is_written(folder, ling, monkeypatch):
    calls = []

    def write_report(path, model, data, **options):
        calls.append((path.name, type(model).__name__, data.shape, len(data.y), options))

    monkeypatch.setitem(sys.modules, "ling.report", SimpleNamespace(write_report=write_report))
    done = ling("fit", "goods.csv", *BASIC, "--report", "report.html", "--weights", "weight")
    assert "Report: report.html" in done.out
    ((name, kind, shape, n, options),) = calls
    assert (name, kind, shape, n) == ("report.html", "RidgeCV", (N, 5), N)
    assert options["target"] == "price"
    assert options["source"] == "goods.csv"
    assert len(options["sample_weight"]) == N


def test_the_model_is_not_certified(folder, ling):
    done = ling("fit", "goods.parquet", *BASIC, "--tol", "1e-300")
    assert done.code == 3
    assert "is not reached" in done.out
    assert "Note: RidgeCV: the predictions are proved" in done.err
    assert "raise --tol" in done.err
    assert "StandardScaler" not in done.err
    assert isinstance(ling("fit", "goods.parquet", *BASIC, "--json").json["passes"], float)
    assert library.load("model.ling").predict(goods().select(FEATURES)).shape == (N,)


@pytest.mark.parametrize("alpha", [("--alpha", "0"), ("--alphas", "0")])
def test_alpha_zero_is_not_certified(alpha, folder, ling):
    done = ling("fit", "goods.parquet", *BASIC, *alpha)
    assert done.code == 3
    assert "alpha is 0, where no bound exists" in done.out


def test_rounding_to_float32_is_named(folder, ling):
    rng = np.random.default_rng(0)
    X = (1e4 + rng.standard_normal((300, 8))).astype(np.float32)
    np.save("X32.npy", X)
    np.save("y32.npy", (X.astype(float) - X.mean(dtype=float)) @ np.arange(8.0))
    done = ling("fit", "X32.npy", "--target", "y32.npy", "--alpha", 1)
    assert done.code == 3
    assert "float32 because X is" in done.err


def write_classes(values):
    rng = np.random.default_rng(0)
    rows = (f"{rng.normal()},{values[i % len(values)]}" for i in range(60))
    Path("ids.csv").write_text("\n".join(["a,id", *rows]) + "\n")


@pytest.mark.parametrize(
    "values",
    [
        [2**53 + 1, 2**53, 2**53 + 2],
        [-(2**62) - 1, 5, 2**62 + 1, 2**62],
        [2**64 - 1, 2**64 - 2, 3],
    ],
)
def test_large_integers_stay_different_classes(values, folder, ling):
    write_classes(values)
    done = ling("fit", "ids.csv", "-t", "id", "--classify", "--alpha", 1)
    assert done.code == 0, done.err
    assert library.load("model.ling").classes_.tolist() == sorted(values)
    assert ling("predict", "model.ling", "ids.csv", "--out", "p.csv").code == 0
    assert {int(line.split(",")[-1]) for line in Path("p.csv").read_text().split()[1:]} <= set(
        values
    )


def test_integers_that_no_dtype_tells_apart_are_no_classes(folder, ling):
    write_classes([2**65, 2**65 + 1])
    done = ling("fit", "ids.csv", "-t", "id", "--classify", "--alpha", 1)
    assert done.code == 1
    assert "does not tell apart" in done.err


GAPS = ["gaps.csv", "-t", "y", "--cv", "2"]
REFUSED = {
    "typo": (["goods.csv", "-t", "pirce"], UnknownColumnError, "target",
             {"column": "pirce", "mentions": "did you mean 'price'?"}),
    "typo-drop": (["goods.csv", "-t", "price", "--drop", "idd"], UnknownColumnError, "drop",
                  {"column": "idd", "mentions": "'id'"}),
    "typo-features": (["goods.csv", "-t", "price", "--features", "sise"],
                      UnknownColumnError, "features", {"column": "sise", "mentions": "'size'"}),
    "typo-weights": (["goods.csv", *BASIC, "--weights", "wieght"], UnknownColumnError, "weights",
                     {"column": "wieght", "mentions": "'weight'"}),
    "text-weights": (["goods.csv", *BASIC, "--weights", "colour"], InputTypeError, "weights",
                     {"column": "colour"}),
    "gaps-weights": ([*GAPS, "--missing", "mean", "--weights", "a"], MissingValueError, "weights",
                     {"column": "a", "row": 2}),
    "dates-weights": (["odd.parquet", "-t", "a", "--features", "y", "--missing", "mean",
                       "--skip-missing-target", "--weights", "day"], InputTypeError, "weights",
                      {"column": "day", "mentions": "date32[day]"}),
    "no-file": (["nothing.csv", "-t", "price"], DataFileError, "source", {"file": "nothing.csv"}),
    "no-match": (["no*.csv", "-t", "price"], DataFileError, "source", {"file": "no*.csv"}),
    "other-kind": (["model.xlsx", "-t", "price"], OptionError, "data", {"file": "model.xlsx"}),
    "empty-folder": (["nothing", "-t", "price"], DataFileError, "data", {"file": "nothing"}),
    "identifiers": (["goods.parquet", "-t", "price"], InputTypeError, "data",
                    {"change": ("drop", ["id"]), "mentions": "'id' (300 different texts)"}),
    "text-target": (["goods.csv", "-t", "kind", "--drop", "id"], InputTypeError, "target",
                    {"column": "kind", "change": ("classify", True)}),
    "dates-target": (["dates.parquet", "-t", "day", "--features", "y"], InputTypeError, "target",
                     {"column": "day", "mentions": "date32[day]"}),
    "many-classes": (["goods.csv", *BASIC, "--classify"], OptionError, "target",
                     {"column": "price", "mentions": "300 different values"}),
    "drops-target": (["goods.csv", "-t", "price", "--drop", "price"], OptionError, "drop",
                     {"column": "price"}),
    "budget": (["goods.csv", *BASIC, "--memory-budget", "lots"], OptionError, "memory_budget",
               {"mentions": "'lots'"}),
    "rows": (["few.csv", "-t", "y"], OptionError, "alpha",
             {"change": ("alpha", 1), "mentions": "at least 4 rows, but there are 3"}),
    "folds": (["goods.csv", *BASIC, "--cv", "200"], OptionError, "cv",
              {"change": ("cv", 150), "mentions": "at least 400 rows, but there are 300"}),
    "constant": (["constant.csv", "-t", "y"], OptionError, "target",
                 {"column": "y", "mentions": "is 1 in every row"}),
    "empty": (["empty.csv", "-t", "y"], ShapeError, "data", {"file": "empty.csv"}),
    "gaps": (GAPS, MissingValueError, "data",
             {"file": "gaps.csv", "change": ("missing", "mean"),
              "mentions": "'a' (1), 'b' (2), the first in column 'a', row 2"}),
    "target-gaps": (["gaps.csv", "-t", "a", "--missing", "mean"], MissingValueError, "data",
                    {"change": ("skip_missing_target", True), "mentions": "1 of 5 rows"}),
    "dates": (["dates.parquet", "-t", "y"], InputTypeError, "data",
              {"change": ("drop", ["day", "time"]),
               "mentions": "'day' (date32[day]), 'time' (timestamp[us])"}),
    "few-of-a-class": (["classes.csv", "-t", "y", "--classify", "--cv", "5"], OptionError, "cv",
                       {"change": ("cv", 2), "mentions": "5 rows of some class, but there are 2"}),
    "weights-target": (["goods.csv", *BASIC, "--weights", "price"], OptionError, "weights",
                       {"column": "price"}),
    "far-name": (["goods.csv", *BASIC, "--weights", "nope"], UnknownColumnError, "weights",
                 {"column": "nope", "mentions": "pass one of 'id', 'size'"}),
    "one-column": (["one.csv", "-t", "y"], ShapeError, "data", {"file": "one.csv"}),
    "drops-all": (["few.csv", "-t", "y", "--drop", "a"], ShapeError, "drop", {}),
    "infinity": (["infinite.csv", "-t", "y"], InputTypeError, "data",
                 {"change": ("drop", ["b"]), "mentions": "'b' (row 2): infinite"}),
    "nearly-numbers": (["nearly.csv", "-t", "y"], InputTypeError, "data",
                       {"change": ("drop", ["a"]), "mentions": "'a' (but for '?')"}),
    "nothing-left": (["odd.parquet", "-t", "none", "--features", "a", "--skip-missing-target"],
                     ShapeError, "target", {"column": "none"}),
    "latin-header": (["latin.csv", "-t", "y"], InputTypeError, "source", {"file": "latin.csv"}),
    "latin-text": (["latin-1.csv", "-t", "y"], InputTypeError, "source", {"file": "latin-1.csv"}),
    "nothing-in-it": (["zero.csv", "-t", "y"], DataFileError, "source", {"file": "zero.csv"}),
    "same-names": (["twins.csv", "-t", "y"], DataFileError, "source",
                   {"file": "twins.csv", "mentions": "'a'"}),
    "same-names-parquet": (["twins.parquet", "-t", "y"], DataFileError, "source",
                           {"file": "twins.parquet"}),
    "parts": (["parts", "-t", "y"], InputTypeError, "X",
              {"column": "a", "file": "parts/1.parquet"}),
    "skip-array": (["X.npy", "-t", "y.npy", "--skip-missing-target"],
                   OptionError, "skip_missing_target", {}),
}  # fmt: skip


def odd_files(folder):
    """Such as people have."""
    rows = "".join(f"{i},{i * i % 7}\n" for i in range(40))
    texts = {
        "model.xlsx": "",
        "few.csv": "a,y\n1,2\n2,3\n3,5\n",
        "constant.csv": "a,y\n1,1\n2,1\n",
        "empty.csv": "a,y\n",
        "gaps.csv": "a,b,y\n1,x,2\n2,,3\n,,4\n3,x,5\n1,z,6\n",
        "classes.csv": "a,y\n" + "".join(f"{i},c{i % 4}\n" for i in range(8)),
        "one.csv": "y\n1\n2\n3\n",
        "infinite.csv": "a,b,y\n1,2,3\n2,3,4\n3,-inf,5\n",
        "nearly.csv": "a,y\n?,1\n" + rows,
        "zero.csv": "",
        "twins.csv": "a,a,y\n1,2,3\n",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "latin.csv").write_text("größe,y\n" + rows, encoding="latin-1")
    (folder / "latin-1.csv").write_text("a,y\nné,1\n", encoding="latin-1")
    odd = {"a": [1.0, None, 3.0], "c": ["x", "y", "z"], "day": [datetime.date(2024, 2, 29)] * 3,
           "none": pa.array([None] * 3, pa.float64()), "y": [1.0, 2.0, None]}  # fmt: skip
    pq.write_table(pa.table(odd), "odd.parquet")
    twins = pa.Table.from_arrays([pa.array([1.0])] * 3, names=["a", "a", "y"])
    pq.write_table(twins, "twins.parquet")
    days = {"day": [datetime.date(2024, 2, 29)], "time": [datetime.datetime(2024, 2, 29)]}
    pq.write_table(pa.table({**days, "y": [1.0]}), "dates.parquet")
    (folder / "nothing").mkdir()
    (folder / "parts").mkdir()
    for i, values in enumerate(([1.0, 2.0], ["1", "x"])):
        pq.write_table(pa.table({"a": values, "y": [1.0, 2.0]}), folder / "parts" / f"{i}.parquet")
    np.save("X.npy", np.ones((5, 2)))
    np.save("y.npy", np.arange(5.0))


@pytest.mark.parametrize(("arguments", "kind", "argument", "fields"), REFUSED.values(), ids=REFUSED)
def test_refused_in_one_line(arguments, kind, argument, fields, folder, ling):
    odd_files(folder)
    assert_refused(ling("fit", *arguments), kind, argument, **fields)
    assert not (folder / "model.ling").exists()


#: Options, and what has to be added to them.
ALL_AT_ONCE = {
    "drop": (
        ["--drop", "c"],
        ("drop", ["c", "day", "none"]), "--drop c,day,none --missing mean --skip-missing-target",
    ),
    "features": (
        ["--features", "a,day"],
        ("features", ["a"]), "--features a --missing mean --skip-missing-target",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("options", "first", "more"), ALL_AT_ONCE.values(), ids=ALL_AT_ONCE)
def test_all_that_is_wrong_is_told_at_once(options, first, more, folder, ling):
    odd_files(folder)
    done = ling("fit", "odd.parquet", "-t", "y", *options)
    assert_refused(done, InputTypeError, "data", file="odd.parquet")
    changes = [remedy[:2] for remedy in done.error.remedies]
    assert changes == [first, ("missing", "mean"), ("skip_missing_target", True)]
    assert done.err.endswith(f"; pass {more}\n")
    done = ling("fit", "odd.parquet", "-t", "y", *options, *more.split(), "--alpha", "1")
    assert done.code == 0, done.err


def test_places_that_cannot_be_written(folder, ling):
    done = ling("fit", "goods.csv", *BASIC, "--out", "no/model.ling")
    assert done.code == 1
    assert "'no/model.ling' cannot be written: its folder does not exist" in done.err


def test_errors_of_scikit_learn_are_told(folder, ling):
    rows = "".join(f"{i},{i % 3 + 0.5}\n" for i in range(30))
    (folder / "fractions.csv").write_text("a,y\n" + rows)
    done = ling("fit", "fractions.csv", "-t", "y", "--classify")
    assert_refused(done, OptionError, "data", mentions="Unknown label type")


USAGE = {
    "no-target": (["goods.csv"], "--target"),
    "alphas": (["goods.csv", *BASIC, "--alphas", "0.1,x"], "--alphas"),
    "both": (["goods.csv", *BASIC, "--alphas", "1,2", "--alpha", "3"], "--alphas are both given"),
    "missing": (["goods.csv", *BASIC, "--missing", "zero"], "--missing"),
    "cv": (["goods.csv", *BASIC, "--cv", "1"], "--cv"),
    "no-folds": (["goods.csv", *BASIC, "--alpha", "1", "--cv", "3"], "leave out --cv"),
    "no-shuffle": (["goods.csv", *BASIC, "--alpha", "1", "--shuffle"], "leave out --shuffle"),
    "drop-features": (["goods.csv", *BASIC, "--features", "size"], "--drop are both given"),
}


@pytest.mark.parametrize(("arguments", "name"), USAGE.values(), ids=USAGE)
def test_usage(arguments, name, folder, ling):
    done = ling("fit", *arguments)
    assert done.code == 2
    assert name in done.err


def test_missing_values_are_filled_in_and_told(folder, ling):
    (folder / "gaps.csv").write_text("a,b,y\n1,x,2\n2,,3\n,,4\n3,x,5\n1,z,6\n")
    done = ling("fit", "gaps.csv", "-t", "y", "--missing", "mean", "--cv", 2)
    assert done.code == 0, done.err
    assert "a (1), b (2): filled with the column mean" in done.out


def test_naming_an_identifier_insists(folder, ling):
    done = ling("fit", "goods.parquet", "-t", "price", "--features", "size,id", "--json")
    assert done.json["shape"] == [N, 301]


def test_hints(folder, ling):
    done = ling("fit", "goods.csv", "-t", "count", "--drop", "id")
    assert done.code == 0
    assert "'count' has only 9 different values; if they are classes" in done.err
    table = goods().sort_by("price").append_column("house_id", pa.array(np.arange(N)))
    pq.write_table(table, "sorted.parquet")
    done = ling("fit", "sorted.parquet", *BASIC)
    assert "pass --shuffle" in done.err
    assert "'house_id' is used as a number" in done.err
    assert "--shuffle" not in ling("fit", "sorted.parquet", *BASIC, "--shuffle").err
    texts = [f"c{i}" for i in range(MANY_CATEGORIES + 1)]
    for n_texts, hinted in ((MANY_CATEGORIES, False), (MANY_CATEGORIES + 1, True)):
        wide = {"colour": texts[:n_texts] * 2, "price": np.arange(2.0 * n_texts)}
        pq.write_table(pa.table(wide), "wide.parquet")
        done = ling("plan", "wide.parquet", "-t", "price")
        assert ("'colour' becomes 1,001 columns" in done.err) is hinted


def test_names_are_shown_as_they_are_and_obeyed_by_nobody(folder, ling, rng):
    names = ["[bold]a[/bold]", ":smile:", "x\x1b[31m\x07", "t\x1b]0;title\x07"]
    X = rng.standard_normal((N, 3))
    columns = dict(zip(names, [*X.T, X.sum(axis=1)], strict=True))
    pq.write_table(pa.table(columns), "odd.parquet")
    for done in (ling("fit", "odd.parquet", "-t", names[3]), ling("inspect", "model.ling")):
        assert done.code == 0, done.err
        assert "[bold]a[/bold]" in done.out
        assert ":smile:" in done.out
        assert "x\\x1b[31m\\x07" in done.out
        assert not {sign for sign in done.out if ord(sign) < 32} - {"\n"}
    assert "\x1b" not in ling("fit", "odd.parquet", "-t", "x\x1b[31").err


def test_a_model_that_is_no_better_than_none_is_told(folder, ling, rng):
    noise = pa.table({"a": rng.standard_normal(N), "y": rng.standard_normal(N),
                      "k": rng.choice(["x", "y", "y"], N)})  # fmt: skip
    pq.write_table(noise, "noise.parquet")
    told = "tell little or nothing of"
    assert f"{told} 'y': its mean" in ling("fit", "noise.parquet", "-t", "y").err
    done = ling("fit", "noise.parquet", "-t", "k", "--classify")
    assert f"{told} 'k': its most frequent class" in done.err
    assert told not in ling("fit", "goods.parquet", *BASIC).err


def test_the_end_of_the_grid_is_told(folder, ling):
    done = ling("fit", "goods.parquet", *BASIC, "--alphas", "1000,2000,3000")
    assert "Note: The best alpha is the smallest of alphas, 1000: a better one may lie" in done.err
    assert "--alphas auto" in done.err
    found = ling("fit", "goods.parquet", *BASIC, "--alphas", "1000,2000,3000", "--json").json
    assert any("is the smallest of alphas" in note for note in found["notes"])
    assert not found["warnings"]
    assert "Note: The best alpha" not in ling("fit", "goods.parquet", *BASIC).err


OVERWRITES = {
    "data-by-report": (["goods.csv", *BASIC, "--report", "goods.csv"], "is a file that is read"),
    "link": (["goods.csv", *BASIC, "-o", "link.ling"], "'link.ling' is a file that is read"),
    "part": (["goods.*", *BASIC, "--report", "./goods.feather"], "is a file that is read"),
    "target": (["X.npy", "-t", "y.npy", "--report", "y.npy"], "'y.npy' is a file that is read"),
    "twice": (
        ["goods.csv", *BASIC, "-o", "same.x", "--report", "./same.x"],
        "--out and --report are both 'same.x'",
    ),
    "no-real-folder": (["goods.csv", *BASIC, "-o", "/proc/x.ling"], "'/proc/x.ling' cannot be"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "advice"), OVERWRITES.values(), ids=OVERWRITES)
def test_what_is_read_is_not_overwritten(arguments, advice, folder, ling):
    (folder / "link.ling").symlink_to("goods.csv")
    np.save("X.npy", np.ones((5, 2)))
    np.save("y.npy", np.arange(5.0))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = ling("fit", *arguments)
    assert done.code == 1
    assert advice in done.err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "instead"), [("goods.csv", "goods.ling"), ("new.parquet", "new.ling")]
)
def test_models_are_not_named_like_data(name, instead, folder, ling):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = ling("fit", "goods.csv", *BASIC, "-o", name)
    assert_refused(done, OptionError, "out", file=name, mentions=instead)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_few_rows_have_fewer_folds(folder, ling):
    (folder / "five.csv").write_text("a,y\n1,2\n2,4.5\n3,5\n4,9\n5,9.5\n")
    done = ling("fit", "five.csv", "-t", "y", "--out", "my model.ling")
    assert done.code == 0, done.err
    assert "so few rows allow 2 folds, not 5" in done.err
    assert library.load("my model.ling").cv == 2
    assert "Next: ling predict 'my model.ling' new-data" in done.out
    (folder / "classes.csv").write_text("a,y\n" + "".join(f"{i},{i // 3}\n" for i in range(9)))
    done = ling("fit", "classes.csv", "-t", "y", "--classify")
    assert "allow 3 folds" in done.err
    assert "3 classes: 0, 1, 2" in done.out
    assert "on the decision value for that class" in done.out


def test_rows_without_a_target_are_skipped(folder, ling):
    table, gap = goods(), pa.array([None if i % 3 == 0 else 2.0 * i for i in range(N)])
    pq.write_table(table.set_column(6, "price", gap), "gaps.parquet", row_group_size=70)
    done = ling("fit", "gaps.parquet", *BASIC, "--skip-missing-target", "--json")
    assert done.code == 0, done.err
    assert "100 of 300 rows have no 'price', and are left out" in done.err
    assert done.json["shape"] == [200, 6]
    left = table.set_column(6, "price", gap).filter(gap.is_valid())
    pq.write_table(left, "left.parquet")
    expected = ling("fit", "left.parquet", *BASIC, "--json").json
    assert done.json["alpha"] == expected["alpha"]
    assert done.json["effects"] == expected["effects"]


def test_columns_that_may_not_be_meant_so(folder, ling):
    rows = "".join(f"{i % 9},{'?' if i == 5 else i % 11},k,{i % 4},{i}\n" for i in range(60))
    (folder / "traps.csv").write_text("a,b,c,d,y\n" + rows)
    done = ling("fit", "traps.csv", "-t", "y", "--shuffle")
    assert "'b' is nearly all numbers, but for '?'" in done.err
    assert "'c' is the same in every row" in done.err
    assert "c (1 category)" in done.out
    assert "'a' is" not in done.err


def test_tabs(folder, ling):
    rows = "".join(f"{i}\t{i * i % 7}\t{2 * i}\n" for i in range(30))
    (folder / "tabs.tsv").write_text("a\tb, c\ty\n" + rows)
    assert ling("fit", "tabs.tsv", "-t", "y", "--json").json["shape"] == [30, 2]
    assert ling("predict", "model.ling", "tabs.tsv", "-o", "p.tsv", "--keep", "a").code == 0
    assert (folder / "p.tsv").read_text().splitlines()[0] == '"a"\t"prediction"'


def test_an_interrupt_during_the_report_tells_what_is_there(folder, ling, monkeypatch):
    def write_report(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "ling.report", SimpleNamespace(write_report=write_report))
    done = ling("fit", "goods.csv", *BASIC, "--report", "r.html")
    assert done.code == 130
    assert done.err == "Interrupted; model.ling is written, r.html is not.\n"
