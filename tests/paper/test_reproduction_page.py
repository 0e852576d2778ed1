"""The page about the reproduction, made of made-up results."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ling.paper import models
from ling.reproduction.errata import lemma2_numbers
from ling.reproduction.outcomes import Outcome
from ling.reproduction.paper_claims import CLAIMS
from tests.paper.worlds import LATE, NEVER, SOON, world

PAGE = Path(__file__).parents[2] / "docs" / "reproduction_page.py"
BUZZ_PCR = dict(zip(range(1, 8), (9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0), strict=True))


@pytest.fixture(scope="module")
def page():
    """The module of the docs, which is no package."""
    spec = importlib.util.spec_from_file_location("reproduction_page", PAGE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["reproduction_page"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["reproduction_page"]


@pytest.fixture(scope="module")
def reports(page):
    def report(name, readings=None, **curves):
        found = readings or {}
        return page.ExperimentReport(world(name, name, **curves), found, {0.1: 1.0, 1.0: 0.5})

    return [
        report("model1", {"tail 1": world("model1", GD=NEVER)}),
        report("model2"),
        report("model3"),
        report("gisette", SVRG=SOON, PCR=NEVER),
        report("buzz", PCR=BUZZ_PCR, GD=LATE),
        report("gisette-surrogate"),
    ]


def test_the_page_quotes_every_sentence_in_its_first_table(page, reports):
    text = page.reproduction_page(reports, {"Buzz": "no data"}, "today")
    table = text.split("## Verdicts")[1].split("## ")[0]
    for claim in CLAIMS:
        assert table.count(f"| {claim.quote} |") == 1, claim.name
    assert "Buzz\n\nNot run: no data" in text
    assert "errata" in text


@pytest.mark.parametrize("n_columns", [1000, 5000])
def test_the_first_table_says_how_much_of_gisette_was_there(page, reports, n_columns):
    def with_columns(report):
        headline = replace(report.headline, shape=(5000, n_columns))
        return replace(report, headline=headline)

    part = [with_columns(r) if r.headline.experiment.name == "gisette" else r for r in reports]
    text = page.reproduction_page(part, {}, "today").split("## Verdicts")[1].split("(model1)=")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    about = [line for line in rows if "[Gisette](#gisette)" in line]
    assert about
    is_part = n_columns < 5000
    assert all(("on 1,000 of 5,000 columns" in line) == is_part for line in about)
    assert ("Figure 7 itself" in text) == is_part
    assert any("Gisette on 1,000 of 5,000 columns" in line for line in rows) == is_part
    assert not any("columns" in line for line in rows if "(#model1)" in line)


def test_the_page_has_no_total(page, reports):
    text = page.reproduction_page(reports, {}, "today")
    assert " of 50 " not in text
    assert f" of {len(CLAIMS)} " not in text


def test_every_link_of_the_first_table_has_its_section(page, reports):
    text = page.reproduction_page(reports, {}, "today")
    for name in ("model1", "model2", "model3", "gisette", "buzz", "several-experiments"):
        assert f"](#{name})" in text
        assert f"({name})=\n## " in text


def test_points_are_folded_away_and_in_a_file(page, reports):
    text = page.experiment_section(reports[0])
    assert "<details>" in text
    assert "model1-points.csv" in text
    for stem in ("figure-1", "figure-4", "ling-svrg"):
        assert f"figures/model1-{stem}.svg" in text


def test_readings_that_reproduce_a_figure_are_named(page, reports):
    by_reading = page.outcomes_by_reading(reports[0])
    assert set(by_reading) == {
        "headline", "one standard error", "FLOPs printed", "FLOPs order", "tail 1",
    }  # fmt: skip
    assert by_reading["headline"]["f1-gd"] is Outcome.FAILS
    assert by_reading["tail 1"]["f1-gd"] is Outcome.HOLDS
    assert "f1-gd" not in page.holding_under_none(by_reading)
    assert "headline" not in page.reproducing(by_reading)
    good = {"a": {"x": Outcome.HOLDS, "y": Outcome.TIE}, "headline": {"x": Outcome.FAILS}}
    assert page.reproducing(good) == ["a"]


def test_what_a_search_found_is_labelled_so_and_told_only_if_it_is_so(page, reports, monkeypatch):
    summaries = [report.headline for report in reports]
    assert page.search_paragraph(summaries) == ""
    monkeypatch.setattr(page, "claims_of", lambda summary: [])
    assert "Found by search" in page.search_paragraph(summaries)
    assert page.search_paragraph(summaries[:2]) == ""


def test_errata_show_the_misprint_of_lemma_2(page, rng):
    model = models.model2(3, n=60, p=20)
    numbers = lemma2_numbers(model, 5, 400, rng)
    assert abs(numbers.measured - numbers.proved) < 4 * numbers.error
    assert numbers.printed < numbers.measured - 10 * numbers.error
    text = page.errata_page([numbers, replace(numbers, model="another")])
    assert f"| Model 2 | {numbers.measured:.4g}" in text
    assert "another" in text
    assert np.isfinite(numbers.error)
