"""`ling compare`, as a user sees it."""

import json

import pytest
from typer.testing import CliRunner

import ling
from ling.cli.app import app


@pytest.fixture(scope="module")
def small() -> list[dict]:
    shown = CliRunner().invoke(
        app, ["compare", "--json", "--rows", "300", "--columns", "200", "--seed", "3"]
    )
    assert shown.exit_code == 0, shown.output
    return json.loads(shown.stdout)


def test_every_algorithm_has_a_row(small):
    assert [row["algorithm"] for row in small] == [
        "ridge", "PCR", "GD", "GD", "SVRG", "LING", "LING",
    ]  # fmt: skip


def test_only_ridge_is_at_distance_zero(small):
    assert small[0]["distance"] == 0
    assert all(row["distance"] > 0 for row in small[1:])


def test_the_table_tells_the_papers_story(small):
    by_name = {(row["algorithm"], row["parameters"]): row for row in small}
    ridge, pcr = by_name["ridge", "exact"], by_name["PCR", "k=100"]
    few, more = by_name["LING", "k=20, 4 steps"], by_name["LING", "k=20, 10 steps"]
    assert more["distance"] < few["distance"] < pcr["distance"]
    assert pcr["risk"] > 10 * ridge["risk"]
    assert more["passes"] == 3 + 2 * 10


def test_the_table_fits_eighty_columns_and_is_plain_when_piped():
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(
        app, ["compare", "--rows", "300", "--columns", "200"]
    )
    assert shown.exit_code == 0, shown.output
    assert "\x1b" not in shown.stdout
    assert "…" not in shown.stdout
    assert "from ridge" in shown.stdout


@pytest.mark.parametrize("option", [["--rows", "3"], ["--columns", "x"], ["--seed", "-1"]])
def test_bad_options_are_refused_by_name(option):
    shown = CliRunner().invoke(app, ["compare", *option])
    assert shown.exit_code == 2
    assert option[0] in shown.output


def test_version():
    shown = CliRunner().invoke(app, ["--version"])
    assert shown.stdout.strip() == f"ling {ling.__version__}"
