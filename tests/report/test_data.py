"""Reports of every kind of data: arrays, tables, files, weights, batches."""

import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_val_predict
from typer.testing import CliRunner

from ling import Ridge, RidgeClassifier, RidgeCV, scan_npy, scan_parquet
from ling.cli.app import app
from ling.errors import ShapeError
from tests.memory import peak_memory
from tests.raising import raises
from tests.report.pages import Page, report, shown


def scanned(X, y, folder):
    names = [f"c{i}" for i in range(X.shape[1])]
    table = pa.table({**dict(zip(names, X.T, strict=True)), "y": y})
    pq.write_table(table, folder / "data.parquet", row_group_size=200)
    return (scan_parquet(folder / "data.parquet", target="y"),)


DATA = {
    "array": lambda X, y, _: (X, y),
    "float32": lambda X, y, _: (X.astype(np.float32), y),
    "frame": lambda X, y, _: (pd.DataFrame(X, columns=list("abcde")), pd.Series(y, name="y")),
    "sparse": lambda X, y, _: (sparse.csr_array(X), y),
    "scanned": scanned,
}


@pytest.mark.parametrize("kind", DATA)
def test_every_kind_gives_the_same_numbers(kind, rng, tmp_path):
    X = rng.standard_normal((400, 5))
    y = X @ np.arange(5.0) + rng.standard_normal(400)
    given = DATA[kind](X, y, tmp_path)
    page = report(tmp_path, RidgeCV(cv=4).fit(*given), *given, drawn=False)
    expected = cross_val_predict(Ridge(alpha=RidgeCV(cv=4).fit(X, y).alpha_), X, y, cv=4)
    assert f"{shown(r2_score(y, expected))} R²" in page.section("quality")
    assert "400" in page.section("fitted")
    assert "a quarter of all, " in page.section("cost")


@pytest.mark.parametrize("make", [RidgeCV, Ridge, RidgeClassifier])
def test_scanned_and_never_held_whole(make, rng, tmp_path):
    n, p = 60_000, 40
    X = rng.standard_normal((n, p))
    y = X[:, 0] + rng.standard_normal(n)
    y = y > 0 if make is RidgeClassifier else y
    np.save(tmp_path / "X.npy", X)
    data = scan_npy(tmp_path / "X.npy", y=y)
    model = make(memory_budget=10e6).fit(data)
    taken = peak_memory(lambda: report(tmp_path, model, data, drawn=False))
    assert taken < X.nbytes
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    passes = re.search(r"this report (\d+) passes over X", page.section("cost"))
    assert 3 <= int(passes.group(1)) <= 12
    assert "npy" in page.section("fitted")


def test_weights_count_and_what_else_is_known_is_told(rng, tmp_path):
    X = rng.standard_normal((60, 3))
    y = X[:, 0] + rng.standard_normal(60)
    weights = rng.uniform(0, 2, 60)
    weights[:5] = 0
    model = Ridge().fit(X, y, weights)
    about = {"left out": "id & <i>name"}
    page = report(tmp_path, model, X, y, sample_weight=weights, about=about, drawn=False)
    folds = KFold(5, shuffle=True, random_state=0)
    found = np.empty(60)
    for train, test in folds.split(X):
        found[test] = Ridge().fit(X[train], y[train], weights[train]).predict(X[test])
    assert f"{shown(r2_score(y, found, sample_weight=weights))} R²" in page.section("quality")
    assert "weights 0 to 1.9" in page.section("fitted")
    assert "left out id & <i>name" in page.section("fitted")
    about = {"weights": "column w"}
    page = report(tmp_path, model, X, y, sample_weight=weights, about=about, drawn=False)
    assert "weights column w, 0 to 1.9" in page.section("fitted")


def test_a_model_built_from_batches(rng, tmp_path):
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    model = Ridge().partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    assert "40" in report(tmp_path, model, X, y, drawn=False).section("fitted")
    with raises(ShapeError, "X", mentions="40"):
        report(tmp_path, model, X[20:], y[20:])


class TestTable:
    """Columns of text, with gaps."""

    @pytest.fixture
    def path(self, rng, tmp_path):
        many = [f"kind {i % 9}" for i in range(60)]
        x = rng.standard_normal(60)
        frame = pd.DataFrame({"town": ["Ulm", "Bern", "<b>"] * 20, "many": many, "x": x, "y": x})
        frame.loc[3, "x"] = np.nan
        pq.write_table(pa.Table.from_pandas(frame), tmp_path / "d.parquet")
        return tmp_path / "d.parquet"

    def test_what_became_of_the_columns(self, path, tmp_path):
        data = scan_parquet(path, target="y", missing="mean")
        page = report(tmp_path, Ridge().fit(data.X, data.y), data.X, data.y, drawn=False)
        fitted = page.section("fitted")
        assert "What became of the columns" in fitted
        assert "town text 3 columns of 0 and 1, one for each category: <b>, Bern, Ulm" in fitted
        assert "many text 9 columns of 0 and 1" in fitted
        assert "and 3 more; all 0 where it is missing" in fitted
        assert "x 1 column of numbers as they are; where one is missing, the mean" in fitted

    def test_the_command_line_tells_what_it_did(self, path, tmp_path):
        to = tmp_path / "report.html"
        options = ["--drop", "many", "--missing", "mean"]
        files = ["--report", str(to), "--out", str(tmp_path / "model.ling")]
        said = CliRunner().invoke(app, ["fit", str(path), "-t", "y", *options, *files])
        assert said.exit_code == 0, said.output
        fitted = Page(to.read_text(encoding="utf-8")).check().section("fitted")
        assert "left out many" in fitted
        assert "missing x (1): filled with the column mean" in fitted
