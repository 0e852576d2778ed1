"""`ling inspect` and `ling plan`."""

import pytest

import ling as library
from tests.cli.conftest import BASIC, N


def test_inspect_tells_all(model, ling):
    done = ling("inspect", model)
    assert done.code == 0, done.err
    for part in (
        "RidgeCV, saved by ling", "goods.parquet: 300 rows", "colour (3 categories)",
        "size, colour, count, weight", "cv=5, random_state=0", "the best of", "R² 0.99",
        "predictions are within", "strongest columns", "size", "std error",
    ):  # fmt: skip
        assert part in done.out, part


def test_inspect_in_json(model, ling):
    found = ling("inspect", model, "--json").json
    assert found["columns"] == ["size", "colour", "count", "weight"]
    assert found["parameters"]["cv"] == 5
    assert found["about"]["target"] == "price"
    assert found["alpha"] == library.load(model).alpha_
    assert found["ling"] == library.__version__


def test_inspect_classes_and_models_made_in_python(folder, ling, rng):
    X = rng.standard_normal((60, 2))
    model = library.RidgeClassifier().fit(X, rng.integers(0, 3, 60))
    library.save(model, "three.ling")
    done = ling("inspect", "three.ling")
    assert done.code == 0, done.err
    assert "classes" in done.out
    assert "column 1" in done.out
    assert "1.0, as given" in done.out
    assert ling("inspect", "goods.csv").code == 1


def test_inspect_says_what_a_file_could_not_hold(folder, ling):
    ling("fit", "goods.parquet", *BASIC, "--shuffle", "-q")
    assert "cv was KFold(n_splits=5" in ling("inspect", "model.ling").out


def test_plan_does_no_fit(folder, ling, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a fit was begun")

    monkeypatch.setattr("ling.estimators.fit.solve", refuse)
    done = ling("plan", "goods.parquet", *BASIC, "--memory-budget", "1GB")
    assert done.code == 0, done.err
    for part in (
        "300 rows, 6 columns",
        "1 GB for its own work",
        "direct",
        "two_stage",
        "first choice",
    ):
        assert part in done.out
    found = ling("plan", "goods.csv", *BASIC, "--json").json
    assert (found["rows"], found["columns"]) == (N, 6)
    assert found["choosing"]["passes"] > 1
    assert "choosing alpha, and the fit  less than a second" in done.out
    assert "starting up, a second or so, is not in them" in done.out
    assert found["first"] in {engine["engine"] for engine in found["engines"]}


@pytest.mark.parametrize("command", ["plan", "fit"])
def test_both_understand_the_same(command, folder, ling):
    assert "--drop id" in ling(command, "goods.parquet", "-t", "price").err
