"""`ling reproduce`: what it writes, that it can be interrupted, and that a browser shows it."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ling import paper
from ling.cli.app import app
from ling.cli.reproduce import parse_choices
from ling.errors import DataFileError, ShapeError
from ling.paper.models import model1
from ling.reproduction import repeats, runner
from ling.reproduction.datasets import Dataset
from ling.reproduction.experiments import EXPERIMENTS, ParameterGrid
from ling.reproduction.figures import captions, cost_figure, draw_figures, ling_svrg_figure
from ling.reproduction.flop_conventions import FLOP_CONVENTIONS, count_flops
from ling.reproduction.interpreted_svrg import interpreted_svrg, seconds_per_pass
from ling.reproduction.pages import render_page
from ling.reproduction.problems import Choices, ExperimentProblem
from ling.reproduction.runner import ReproductionSettings, run_experiment
from ling.reproduction.summary import summarize_repeats
from tests.raising import raises

pytestmark = pytest.mark.processes


def tiny(name: str = "model1"):
    """A real experiment, with a grid and data that take a moment."""
    grid = ParameterGrid(k1=(2, 5), n1=(1, 3), k2=(4,), n2=(1, 2), n_svrg=(1, 2))
    return replace(EXPERIMENTS[name], grid=grid, make_problem=partial(small_model))


def small_model(data, rng, choices, quick):
    model = model1(rng, n=50, p=35, noise=choices.noise)
    return ExperimentProblem(
        "Model 1, 50 x 35", model.X, model.y, model.lam * choices.lam_factor,
        lambda fit: model.risk(fit.fitted), float((model.mean**2).mean()), model,
    )  # fmt: skip


def rows(out: Path) -> list[dict]:
    with (out / "model1" / "points.csv").open() as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One finished run of the tiny experiment."""
    run = ReproductionSettings(tmp_path_factory.mktemp("whole"), repeats=3, quick=True)
    return run, run_experiment(tiny(), None, run)


def test_grids_and_repeats_are_the_papers():
    """Table 1 and section 4.2, typed off the paper: repeats, k1, n1, k2, n2, passes of SVRG."""
    gisette = (
        6, "10 20 40 80 150 300 400", "2 5 10 15 20 30 50 100 150", "5 15",
        "1 2 4 8 10 15 20 30 50", "1 2 3 5 10 20 40 80",
    )  # fmt: skip
    wanted = {
        "model1": (
            20, "21 22 23 26 30 50 100", "10 20 30 50 80 100 150 200", "20", "1 2 3 5 8 13 20",
            "30 50 80 120 150",
        ),
        "model2": (
            20, "20 30 50 100 150 400", "2 4 6 8 10 15 20 30", "20", "2 4 6 8 10 15 20 30",
            "5 10 20 30 50",
        ),
        "model3": (
            20, "20 30 50 100 150 400", "6 10 15 20 30 50 80 120 180 250", "20",
            "2 4 6 8 10 15 30", "5 10 15 25 40 60 90",
        ),
        "gisette": gisette,
        "gisette-surrogate": gisette,
        "buzz": (
            5, "10 20 30 50 100 150", "1 2 4 6 8 10 15 20 30 40 60 100", "5 15",
            "0 1 2 4 6 8 10 15 20 25", "1 2 3 5 10 15 20 40 80",
        ),
    }  # fmt: skip
    for name, (n_repeats, *lists) in wanted.items():
        found = [" ".join(map(str, values)) for values in asdict(EXPERIMENTS[name].grid).values()]
        assert (EXPERIMENTS[name].repeats, found) == (n_repeats, lists), name


@pytest.mark.parametrize("quick", [False, True])
def test_buzz_is_split_without_overlap_however_few_rows_there_are(quick, rng):
    data = Dataset("a few rows", rng.random((40, 77)), np.arange(40.0), Path("x"))
    problem = EXPERIMENTS["buzz"].make_problem(data, rng, Choices(), quick)
    assert problem.X.shape == (30 if not quick else 26, 3080)
    fit = paper.ridge(problem.X, problem.y, problem.lam)
    assert np.isfinite(problem.evaluate(fit))


def test_every_file_is_there_and_says_which_data_it_shows(done):
    run, outcome = done
    folder = run.out / "model1"
    stems = ("figure-1", "figure-4", "ling-svrg")
    names = {f"{stem}.{kind}" for stem in stems for kind in ("svg", "pdf")}
    assert names | {"points.csv", "claims.json"} <= {path.name for path in folder.iterdir()}
    assert not list(run.out.rglob("*.part*"))
    assert {row["data"] for row in rows(run.out)} == {"Model 1, 50 x 35"}
    assert set(rows(run.out)[0]) == {
        "data", "algorithm", "parameter", "repeat", "flops", "passes", "risk",
    }  # fmt: skip
    claims = json.loads((folder / "claims.json").read_text())
    assert [claim["quote"] for claim in claims] == [v.quote for v in outcome.verdicts]


def test_every_algorithm_and_parameter_is_in_the_points(done):
    grid = tiny().grid
    wanted = {("RR", "0")} | {("PCR", str(k)) for k in grid.k1} | {("GD", str(n)) for n in grid.n1}
    wanted |= {(name, str(n)) for name in ("SVRG", "LING+SVRG k=4") for n in grid.n_svrg}
    wanted |= {("LING k=4", str(n)) for n in grid.n2}
    found = [(row["algorithm"], row["parameter"]) for row in rows(done[0].out)]
    assert set(found) == wanted
    assert len(found) == 3 * len(wanted) == 3 * (repeats.n_progress_steps(tiny()) - 2)


@pytest.mark.parametrize("draw", [cost_figure, ling_svrg_figure])
def test_a_diverging_curve_does_not_spoil_a_panel(done, draw):
    summary = done[1].summary
    wild = replace(summary.curves["SVRG"], values=summary.curves["SVRG"].values * 1e12)
    curves = {**summary.curves, "SVRG": wild}
    for axes in draw(replace(summary, curves=curves), quick=False).axes:
        assert axes.get_ylim()[1] <= 5 * summary.null
        assert any("not shown: SVRG" in text.get_text() for text in axes.texts)
    for axes in draw(summary, quick=False).axes:
        assert not axes.texts


def test_ling_svrg_has_a_figure_of_its_own(done):
    def names(figure):
        return {line.get_label() for line in figure.axes[0].lines}

    summary = done[1].summary
    assert "LING+SVRG k=4" not in names(cost_figure(summary, quick=False))
    assert {"SVRG", "LING+SVRG k=4"} <= names(ling_svrg_figure(summary, quick=False))


def test_the_linear_axis_starts_at_zero_beside_a_logarithmic_one(done):
    linear, logarithmic = cost_figure(done[1].summary, quick=False).axes
    assert linear.get_yscale() == "linear"
    assert linear.get_ylim()[0] == 0.0
    assert linear.get_ylim()[1] == pytest.approx(done[1].summary.axis_top, rel=0.05)
    assert logarithmic.get_yscale() == "log"


def test_every_figure_has_a_caption_and_says_if_it_is_quick(done):
    summary = done[1].summary
    assert set(captions(summary)) == set(draw_figures(summary, quick=False))
    for quick in (True, False):
        for figure in draw_figures(summary, quick).values():
            assert ("quick run" in figure.get_suptitle()) is quick


@pytest.mark.parametrize("convention", ["printed", "order"])
def test_flop_conventions_change_the_cost_and_nothing_else(done, convention):
    summary = done[1].summary
    other = summary.with_flops(convention)
    assert summary.with_flops("measured") is summary
    for name, curve in other.curves.items():
        assert (curve.flops > 0).all()
        assert (curve.values == summary.curves[name].values).all()


def test_flops_by_order_charge_a_component_like_an_iteration():
    shape, n_p = (20, 10), 200
    for name, parameter, units in [
        ("GD", 7, 7), ("PCR", 7, 7), ("SVRG", 7, 7), ("LING k=5", 7, 12), ("LING+SVRG k=5", 7, 12),
        ("RR", 0, 10),
    ]:  # fmt: skip
        assert count_flops("order", name, parameter, shape) == units * n_p


def test_printed_flops_charge_four_products_an_iteration():
    shape, product = (200, 100), 2 * 200 * 100
    for name in ("GD", "LING k=5"):
        more = count_flops("printed", name, 8, shape) - count_flops("printed", name, 7, shape)
        assert more == 4 * product
    # Algorithm 2: three products with X, and X_r = X - Q1 (Q1'X) two more of k columns each.
    assert count_flops("printed", "LING k=5", 0, shape) > 5 * 5 * product
    assert FLOP_CONVENTIONS == ("measured", "printed", "order")


def test_interpreted_svrg_is_the_compiled_one(rng):
    X, y = rng.standard_normal((30, 8)), rng.standard_normal(30)
    fit = paper.svrg(X, y, 0.1, 5, step=0.01, random_state=3)
    coef = interpreted_svrg(X, y, 0.1, 5, 0.01, np.random.default_rng(3))
    np.testing.assert_allclose(coef, fit.coef, rtol=1e-9)
    assert seconds_per_pass(X, y, 0.1, 0.01, rng) > 0


def test_readings_change_the_models():
    def problem(name, **choices):
        rng = np.random.default_rng(0)
        return EXPERIMENTS[name].make_problem(None, rng, Choices(**choices), True)

    loud = problem("model2", noise_ratio=0.1)
    assert loud.model.noise == pytest.approx(0.1 * np.sqrt(loud.null))
    assert np.std(loud.y - loud.model.mean) == pytest.approx(loud.model.noise, rel=0.1)
    usual, drawn = problem("model3"), problem("model3", first_drawn=True)
    assert usual.model.spectrum[:15].min() > drawn.model.spectrum[:15].min()
    assert (np.diff(drawn.model.spectrum[15:]) > 0).any()


@pytest.fixture
def no_figures(monkeypatch):
    """Figures take most of the time of a tiny run."""
    monkeypatch.setattr(runner, "_write_figures", lambda *_: None)


@pytest.mark.usefixtures("no_figures")
def test_a_second_start_runs_only_what_is_missing(done, tmp_path):
    steps = []
    first = ReproductionSettings(tmp_path, repeats=1, quick=True)
    run_experiment(tiny(), None, first)
    again = replace(first, repeats=3)
    assert runner.count_finished(tiny(), None, again) == 1
    run_experiment(tiny(), None, again, lambda: steps.append(1))
    assert len(steps) == 2 * repeats.n_progress_steps(tiny())
    assert rows(tmp_path) == rows(done[0].out), "the same numbers as in one go"


@pytest.mark.usefixtures("no_figures")
def test_killed_at_any_moment_it_continues_with_the_same_numbers(done, tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from tests.paper.test_reproduction import ReproductionSettings, run_experiment, tiny\n"
        "left = [int(sys.argv[2])]\n"
        "def advance():\n"
        "    left[0] -= 1\n"
        "    if not left[0]: os.kill(os.getpid(), signal.SIGKILL)\n"
        "settings = ReproductionSettings(Path(sys.argv[1]), repeats=3, quick=True)\n"
        "run_experiment(tiny(), None, settings, advance)\n"
    )
    here = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{here / 'src'}"}
    killed = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(repeats.n_progress_steps(tiny()) + 4)],
        cwd=here, env=environment, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    run = ReproductionSettings(tmp_path, repeats=3, quick=True)
    assert runner.count_finished(tiny(), None, run) == 1
    run_experiment(tiny(), None, run)
    assert rows(tmp_path) == rows(done[0].out)


@pytest.mark.parametrize("change", [{"seed": 1}, {"choices": Choices(noise=2.0)}, {"quick": False}])
def test_repeats_of_another_run_are_not_taken_for_this_one(done, change):
    assert runner.count_finished(tiny(), None, done[0]) == 3
    assert runner.count_finished(tiny(), None, replace(done[0], **change)) == 0


@pytest.mark.usefixtures("no_figures")
def test_a_damaged_repeat_is_made_again(done, tmp_path):
    run = ReproductionSettings(tmp_path, repeats=3, quick=True)
    shutil.copytree(done[0].out, tmp_path, dirs_exist_ok=True)
    (file,) = tmp_path.glob("model1/repeats/*/001.json")
    file.write_text("{")
    assert runner.count_finished(tiny(), None, run) == 2
    run_experiment(tiny(), None, run)
    assert rows(tmp_path) == rows(done[0].out)


def test_repeats_of_other_data_are_not_mixed_in(done):
    data = Dataset("Gisette, first 1000 columns", np.ones((2, 2)), np.ones(2), Path("x"))
    assert runner.count_finished(tiny(), data, done[0]) == 0
    other = replace(done[1].summary, data="else")
    kept = [json.loads(f.read_text()) for f in done[0].out.glob("model1/repeats/*/*.json")]
    points = [[repeats.Point(**p) for p in k["points"]] for k in kept]
    mixed = [
        repeats.Repeat(name, (50, 35), 0.1, 1.0, p)
        for name, p in zip(("a", "b"), points, strict=False)
    ]
    with raises(ShapeError, "repeats"):
        summarize_repeats(other.experiment, mixed)


def test_choices_change_the_problem():
    base = repeats.run_repeat(tiny(), None, 0, 0, Choices(), quick=True)
    other = repeats.run_repeat(tiny(), None, 0, 0, Choices(lam_factor=10.0), quick=True)
    assert other.lam == pytest.approx(10 * base.lam)
    assert other.points[0].value != base.points[0].value


@pytest.mark.parametrize(
    ("pairs", "choices"),
    [
        ([], Choices()),
        (["noise=2", "log=false"], Choices(noise=2, log=False)),
        (["noise_ratio=0.1", "first_drawn=true"], Choices(noise_ratio=0.1, first_drawn=True)),
        (["step=0.5", "tail=1"], Choices(step=0.5, tail=1)),
        (["step=null"], Choices()),
    ],
)
def test_choices_are_read_from_the_command_line(pairs, choices):
    assert asdict(parse_choices(pairs)) == asdict(choices)


@pytest.mark.parametrize(
    "pair", ["nois=2", "noise=loud", "log=2", "tail=true", "noise", "noise=-1"]
)
def test_bad_choices_are_refused_by_name(pair):
    shown = CliRunner().invoke(app, ["reproduce", "model1", "--choice", pair])
    assert shown.exit_code == 2
    assert "--choice" in shown.output


def test_an_unknown_experiment_is_refused():
    shown = CliRunner().invoke(app, ["reproduce", "model9"])
    assert shown.exit_code == 2
    assert "model9" in shown.output


def test_an_unknown_way_to_count_flops_is_refused():
    shown = CliRunner().invoke(app, ["reproduce", "model1", "--flops", "mine"])
    assert shown.exit_code == 2
    assert "measured" in shown.output


def test_the_command_runs_and_says_where_to_look(tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "model1", tiny())
    options = ["--quick", "--repeats", "2", "--flops", "order", "--out", str(tmp_path)]
    shown = CliRunner().invoke(app, ["reproduce", "model1", *options])
    assert shown.exit_code == 0, shown.output
    assert str(tmp_path / "index.html") in shown.stdout
    assert (tmp_path / "index.html").is_file()


def test_data_that_are_not_there_are_left_out_with_a_reason(tmp_path, monkeypatch):
    def nowhere(progress):
        raise DataFileError("variant", "has no data here")

    monkeypatch.setitem(EXPERIMENTS, "buzz", replace(EXPERIMENTS["buzz"], load=nowhere))
    shown = CliRunner().invoke(app, ["reproduce", "buzz", "--out", str(tmp_path)])
    assert shown.exit_code == 1
    assert "buzz is left out" in shown.output
    assert "no data here" in shown.output


# The page in a browser -------------------------------------------------------------------------

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
PROBE = """<!doctype html><meta charset=utf-8><link rel=icon href="data:,">
<iframe style="width:{width}px;height:2000px;border:0" src="{page}"></iframe><script>
window.onload = () => {{
  const page = document.querySelector("iframe").contentDocument;
  const images = [...page.images].map(i => i.complete && i.naturalWidth > 0);
  document.title = JSON.stringify({{images, wide: page.documentElement.scrollWidth}});
}};</script>"""


def probe(page: Path, width: int, scratch: Path) -> tuple[dict, str]:
    """What a browser of this width makes of the page, and what it said on the console."""
    frame = page.with_name(f"probe-{width}.html")
    frame.write_text(PROBE.format(width=width, page=page.name))
    shown = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--allow-file-access-from-files", "--enable-logging=stderr",
            f"--user-data-dir={scratch}", "--virtual-time-budget=10000", "--dump-dom",
            frame.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    title = re.search(r"<title>(.*?)</title>", shown.stdout)
    assert title, shown.stdout[:2000]
    said = [line for line in shown.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(title.group(1).replace("&quot;", '"')), "\n".join(said)


@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine (.ci/run installs it)")
@pytest.mark.parametrize("width", [380, 1280])
def test_a_browser_shows_the_page(done, tmp_path, width):
    run, outcome = done
    page = tmp_path / "index.html"
    page.write_text(render_page([outcome], {"buzz": "no data"}, run))
    seen, console = probe(page, width, tmp_path / "profile")
    assert seen["images"] == [True, True, True]
    assert seen["wide"] <= width
    assert not console


def test_the_page_needs_no_network_and_holds_every_claim(done):
    run, outcome = done
    text = render_page([outcome], {"buzz": "no data"}, run)
    assert not re.search(r"""(src|href)=["']?(https?:|//)""", text)
    assert text.count("<tr>") >= len(outcome.verdicts)
    for word in ("Quick run", "Model 1, 50 x 35", "buzz was not run"):
        assert word in text
