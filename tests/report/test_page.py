"""The page itself: markup, names, what is refused, and the words for numbers."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import ling
from ling import Ridge, RidgeClassifier, RidgeCV
from ling.errors import InputTypeError, MissingPackageError, OptionError, ShapeError
from ling.report import report_file, summary
from ling.report.report_data import collect_report_data
from ling.report.report_file import render_page
from ling.report.svg import render_svg
from tests.raising import raises
from tests.report.pages import Page, report


def test_nothing_that_is_given_becomes_markup(rng, tmp_path):
    evil = ["<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "$a & 'b' $1"]
    X = pd.DataFrame(rng.standard_normal((40, 3)), columns=evil)
    y = pd.Series(X[evil[0]] + 1, name="</title><script>alert(3)</script>")
    page = report(
        tmp_path, RidgeCV().fit(X, y), X, y, title="<script>alert(4)</script>",
        source="<img src=//elsewhere>",
    )  # fmt: skip
    assert len(page.of("script")) == 1
    assert not page.of("img")
    for name in evil:
        assert name in page.text
    labels = np.where(y > 1, "</td><script>alert(5)</script>", "$x$")
    page = report(tmp_path, RidgeClassifier().fit(X, labels), X, labels, target=evil[0])
    assert len(page.of("script")) == 1


def test_names_in_any_script_are_no_reason_to_warn(rng, tmp_path):
    X = pd.DataFrame(rng.standard_normal((20, 2)), columns=["東京", "दिल्ली"])
    page = report(tmp_path, Ridge().fit(X, X["東京"]), X, X["東京"], target="大阪")
    assert "東京</text>" in page.source


def test_names_break_where_their_words_end(rng, tmp_path):
    X = pd.DataFrame(rng.standard_normal((20, 2)), columns=["days_since_2015", "a<b.c=d"])
    page = report(tmp_path, Ridge().fit(X, X["a<b.c=d"]), X, X["a<b.c=d"], drawn=False)
    assert ">days_<wbr>since_<wbr>2015<" in page.source
    assert 'title="a&lt;b.c=d">a&lt;b.<wbr>c=<wbr>d<' in page.source


def test_what_is_left_out_says_why(diabetes):
    facts = collect_report_data(Ridge().fit(*diabetes), *diabetes, None, None, None, {})
    without = replace(facts, path="It takes too long.", spectrum="Factoring takes too long.")
    page = Page(render_page(without, None, "today")).check()
    assert "Not shown. Factoring takes too long." in page.section("spectrum")
    assert "How they change with alpha: it takes too long." in page.section("coefficients")
    assert not any(alt.startswith(("Coefficients", "Eigenvalues")) for alt in page.pictures)


def test_other_warnings_of_pictures_are_heard():
    def draw(ax):
        ax.set_xlim(1, 1)

    with pytest.warns(UserWarning, match="identical"):
        render_svg("a", "alt", draw)


@pytest.mark.processes
def test_a_style_of_the_users_stays_out_of_it():
    code = (
        "import matplotlib, sys; matplotlib.rcParams['font.size'] = 30\n"
        "from ling.report.svg import render_svg\n"
        "found = render_svg('a', 'alt', lambda ax: ax.plot([1, 2]))\n"
        "assert '30px' not in found and matplotlib.rcParams['font.size'] == 30\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_page_is_written_whole_or_not_at_all(diabetes, tmp_path, monkeypatch):
    model = Ridge().fit(*diabetes)
    (tmp_path / "report.html").write_text("before")

    def fails(*_):
        raise OSError("no space left")

    monkeypatch.setattr(report_file.os, "replace", fails)
    monkeypatch.setattr(report_file, "render_page", lambda *_: "after")
    with pytest.raises(OSError, match="no space"):
        ling.write_report(tmp_path / "report.html", model, *diabetes)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").read_text() == "before"


def test_says_what_it_cannot_report_on(diabetes, tmp_path):
    X, y = diabetes
    for model, kind, argument, mentions in (
        (LinearRegression().fit(X, y), InputTypeError, "model", "LinearRegression"),
        (Ridge().fit(X[:50], y[:50]), ShapeError, "X", "50"),
        (Ridge().fit(X, np.c_[y, y]), ShapeError, "y", "1 targets"),
        (RidgeClassifier().fit(X, y > 200), OptionError, "y", "class"),
    ):
        with raises(kind, argument, mentions=mentions):
            report(tmp_path, model, X, y)
    with pytest.raises(NotFittedError, match="not fitted"):
        report(tmp_path, Ridge(), X, y)
    assert not list(tmp_path.iterdir())


def test_matplotlib_is_asked_for_kindly(diabetes, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'ling\[plot\]'"):
        report(tmp_path, Ridge().fit(*diabetes), *diabetes)


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        (0.02, "at most 2 %"), (2e-10, "at most 2 parts in 10 billion"),
        (1e-12, "at most 1 part in a trillion"),
        (5e-21, "less than a millionth of a millionth"),
    ],
)  # fmt: skip
def test_small_shares(bound, words):
    assert summary._parts_phrase(bound) == words


@pytest.mark.parametrize("bound", [1.01e-4, 0.01049, 0.3, 9.99e-7])
def test_what_is_proved_is_not_rounded_down(bound):
    assert bound <= summary.round_up(bound) <= 1.2 * bound
