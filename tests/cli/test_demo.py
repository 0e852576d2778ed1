"""`ling demo`, small."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import ling as library
from ling.cli.demo import correlated_data
from ling.cli.demo_data import make_houses


@pytest.fixture
def shown(tmp_path, monkeypatch, ling):
    monkeypatch.chdir(tmp_path)
    return lambda *options: ling("demo", "--rows", 1000, *options)


def test_the_same_answer_as_scikit_learn(shown):
    found = shown("--json").json
    assert found["difference"] < 1e-4
    assert found["ling"]["alpha"] == pytest.approx(found["scikit-learn"]["alpha"])
    assert 0.9 < found["ling"]["score"] < 1
    assert "</html>" in Path("demo-report.html").read_text()
    assert found["report"] == "demo-report.html"


def test_ridge_cv_is_timed_beside_scikit_learn(shown):
    found = shown("--json").json["ridge_cv"]
    assert found["shape"] == [50, 10]
    ours, *others = found["results"]
    assert ours["name"] == "ling RidgeCV()"
    assert [other["name"] for other in others] == [
        "scikit-learn RidgeCV()", 'scikit-learn RidgeCV(gcv_mode="svd")',
    ]  # fmt: skip
    assert all(result["seconds"] > 0 for result in found["results"])
    assert [other["alpha"] for other in others] == pytest.approx([ours["alpha"]] * 2)
    assert 0 < ours["bound"] <= 1e-4
    assert [other["bound"] for other in others] == [None, None]


def test_it_shows_what_was_measured_of_ridge_cv(shown):
    page = shown().out
    for part in (
        "Choosing among 20 alphas by exact leave-one-out", "50 x 10", "time / ling's",
        "All choose the same alpha.", "ling's certificate: training predictions within",
    ):  # fmt: skip
        assert part in page, part
    assert page.index("All choose") < page.index("Look at demo-report.html")


def test_it_shows_the_commands(shown):
    done = shown("--out", "here")
    assert done.code == 0, done.err
    for part in (
        "$ ling fit here/houses.parquet --target price --drop house_id",
        "1,000 rows", "city (10 categories)", "$ ling predict here/model.ling",
        "100 predictions", "scikit-learn", "file to model", "Look at demo-report.html",
    ):  # fmt: skip
        assert part in done.out, part
    written = {path.name for path in Path("here").iterdir()}
    assert written == {
        "houses.parquet", "new-houses.parquet", "model.ling", "predictions.parquet",
    }  # fmt: skip
    predictions = pq.read_table("here/predictions.parquet")
    assert predictions["house_id"].to_pylist()[:2] == ["H1000", "H1001"]


def test_houses_depend_on_the_seed_alone():
    assert make_houses(50, 0).equals(make_houses(50, 0))
    assert not make_houses(50, 0).equals(make_houses(50, 1))
    assert not make_houses(50, 0).equals(make_houses(50, 0, first=50))


def test_prices_are_mostly_linear(tmp_path):
    pq.write_table(make_houses(3000, 0), tmp_path / "h.parquet")
    data = library.scan_parquet(tmp_path / "h.parquet", "price", drop=["house_id"])
    model = library.Ridge().fit(data.X, data.y)
    coef = dict(zip(model.feature_names_in_, model.coef_, strict=True))
    assert coef["area"] == pytest.approx(2.6, rel=0.05)
    assert coef["type=detached"] - coef["type=flat"] == pytest.approx(35, abs=6)


def test_made_up_data_are_correlated():
    values = np.linalg.svd(correlated_data(400, 20, 0)[0], compute_uv=False)
    assert values[0] > 3 * values[-1]
