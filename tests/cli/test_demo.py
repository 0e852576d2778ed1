"""`ling demo`, small."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import ling as library
from ling.cli.app import app
from ling.cli.demo import correlated_data
from ling.cli.demo_data import make_houses
from ling.report import held_out, sections


def run_demo(folder, *options):
    """The demonstration, small, in a folder; its report is without pictures, which take long."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for module in (held_out, sections):
            patch.setattr(module, "render_svg", lambda name, alt, draw: "<svg></svg>")
        shown = CliRunner(env={"COLUMNS": "100"}).invoke(app, ["demo", "--rows", "1000", *options])
    assert shown.exit_code == 0, shown.stderr
    return shown.stdout


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """The folder of a demonstration, and what it prints."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, run_demo(folder, "--out", "here")


@pytest.fixture(scope="module")
def as_json(tmp_path_factory):
    """The folder of another one, and what it prints as JSON."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, json.loads(run_demo(folder, "--json"))


def test_the_same_answer_as_scikit_learn(as_json):
    folder, found = as_json
    assert found["difference"] < 1e-4
    assert found["ling"]["alpha"] == pytest.approx(found["scikit-learn"]["alpha"])
    assert 0.9 < found["ling"]["score"] < 1
    assert "</html>" in (folder / "demo-report.html").read_text()
    assert found["report"] == "demo-report.html"


def test_ridge_cv_is_timed_beside_scikit_learn(as_json):
    found = as_json[1]["ridge_cv"]
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


def test_it_shows_what_was_measured_of_ridge_cv(printed):
    _, page = printed
    for part in (
        "Choosing among 20 alphas by exact leave-one-out", "50 x 10", "time / ling's",
        "All choose the same alpha.", "ling's certificate: training predictions within",
    ):  # fmt: skip
        assert part in page, part
    assert page.index("All choose") < page.index("Look at demo-report.html")


def test_it_shows_the_commands(printed):
    folder, page = printed
    for part in (
        "$ ling fit here/houses.parquet --target price --drop house_id",
        "1,000 rows", "city (10 categories)", "$ ling predict here/model.ling",
        "100 predictions", "scikit-learn", "file to model", "Look at demo-report.html",
    ):  # fmt: skip
        assert part in page, part
    written = {path.name for path in (folder / "here").iterdir()}
    assert written == {
        "houses.parquet", "new-houses.parquet", "model.ling", "predictions.parquet",
    }  # fmt: skip
    predictions = pq.read_table(folder / "here/predictions.parquet")
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
