"""Every number about speed in README and docs is that of a record in `benchmarks`."""

import dataclasses
import re
from pathlib import Path

import pytest

from benchmarks import choosing_report, harness, published, ridge_report

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
# These print what programs have measured when they were run, or redo the paper's measurements.
EXCEPT = {"reproduction.md", "command-line.md"}
PAGES = {
    page.name: page.read_text()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if page.name not in EXCEPT
}
NUMBER = r"(?:\d[\d.,]*|twice|two|three|four|five|six|seven|eight|nine|ten|many|several)"
CLAIM = re.compile(
    rf"{NUMBER} (?:x|times|percent|%) (?:as fast|faster|slower|as slow|quicker)"
    r"|twice as fast|price of (?:one|a) fit"
    r"|faster than scikit-learn|scikit-learn's: faster",
)
#: A measured duration or rate.
MEASURED = re.compile(r"\b\d[\d.,]* (?:s|ms|GB/s|GFLOP/s)\b|\b\d[\d.,]* ?%")


def typed(page: str) -> str:
    """What people have written: neither text made from records nor examples of code and output."""
    written = published.BLOCK.sub("", page)
    written = re.sub(r"^```.*?^```", "", written, flags=re.DOTALL | re.MULTILINE)
    return " ".join(written.split())


def test_readme_has_what_the_records_say():
    assert published.render(README) == README, "run python -m benchmarks.published"
    assert [found[1] for found in published.BLOCK.findall(README)] == [
        *("wild", "ridge", "choosing", "path", "slower")
    ]


@pytest.mark.parametrize("name", PAGES)
def test_no_page_has_claims_that_no_record_backs(name):
    assert not CLAIM.findall(typed(PAGES[name]))


@pytest.mark.parametrize("name", ["README.md", "benchmarks.md", "index.md", "start.md", "alpha.md"])
def test_measured_numbers_are_not_typed(name):
    assert not MEASURED.findall(typed(PAGES[name]))


def test_leave_one_out_names_both_modes_of_scikit_learn():
    (cell,) = (o for o in published.choosing() if o.cell == "leave-one-out")
    for pair in cell.pairings:
        assert (
            f"| {pair.peer.name} | {harness.brief(pair.peer.seconds)} | {pair.ratio:.2g} |"
            in README
        )
    assert "gcv_mode='svd'" in README


def test_the_cost_of_a_path_is_given_in_fits():
    (cell,) = (o for o in published.choosing() if o.cell == "path of 100 alphas")
    ours, one = cell.pairings[0].ling.seconds, cell.pairings[0].peer.seconds
    assert f"{ours / one:.1f} times as long as one `Ridge` fit" in README


def test_competitors_are_named_with_their_tolerance():
    for outcome in published.ridge():
        assert f"| {ridge_report.named(outcome.best)} |" in README
    assert "scikit-learn lsqr, tol=1e-05" in README


def test_the_ratio_is_to_the_fastest_competitor_that_reaches_the_error():
    for outcome in published.ridge():
        able = [peer.seconds for peer in outcome.peers if outcome.reached(peer)]
        assert outcome.ratio == min(able) / outcome.ling.seconds


def test_goals_are_not_published():
    fits, choices = published.ridge(), published.choosing()
    tables = [
        ridge_report.table(fits), ridge_report.peer_table(fits), choosing_report.table(choices),
        choosing_report.memory_table(choices),
        harness.table([harness.Outcome("cell", "a / b", 2.0, 1.0, [1.0, 1.0], [2.0, 1.0])]),
    ]  # fmt: skip
    for text in (*tables, *PAGES.values()):
        assert not re.search(r"\bwanted \||\(missed\)|\bmisses\b", text)


def test_slower_cells_are_listed():
    fits, choices = published.ridge(), published.choosing()
    text = published.slower(fits, choices)
    slow = [o for o in fits if o.ratio < 1]
    assert slow
    assert text.count("\n- ") + 1 == len(slow) + sum(
        pair.ratio < 1 for o in choices for pair in o.pairings if not pair.is_own
    )
    assert all(f"{published.label(o)}: ling takes" in text for o in slow)
    assert text in README


def test_a_slower_choice_would_be_listed_and_a_path_is_none():
    choices = published.choosing()
    assert published.slower([], choices) == published.NOTHING_SLOWER
    cell = next(o for o in choices if o.cell == "wide leave-one-out")
    pair = cell.pairings[0]
    slow = dataclasses.replace(pair.ling, turns=[2 * pair.peer.seconds])
    cell = dataclasses.replace(cell, pairings=[dataclasses.replace(pair, ling=slow)])
    assert "wide leave-one-out, 1,000 x 20,000: ling RidgeCV takes" in published.slower([], [cell])
    assert "(ratio 0.5)" in published.slower([], [cell])
