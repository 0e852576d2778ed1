"""Tables that notebooks show for results, and the short text that a console shows."""

from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

import ling
from ling.html_repr import MAX_ROWS, N_END_ROWS, html_table, html_table_of_ends

SCRIPT = "<script>alert('&')</script>"
VOID_TAGS = {"br", "hr", "img", "link", "meta"}


class Table(HTMLParser):
    """The caption, the rows and the notes of a table, and all tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.rows: list[list[str]] = []
        self.caption, self.notes = "", []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag not in VOID_TAGS
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")
        elif tag == "p":
            self.notes.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        match self.open[-1]:
            case "th" | "td":
                self.rows[-1][-1] += data
            case "p":
                self.notes[-1] += data
            case "caption":
                self.caption += data


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    return X, X @ np.arange(6.0) + rng.standard_normal(80)


@pytest.fixture(scope="module")
def targets(data):
    X, y = data
    return np.stack([y, -y, X[:, 0]], axis=1)


def cv_scores(model):
    return model.cv_scores_


RESULTS = {
    "report": lambda X, y: ling.Ridge().fit(X, y).report_,
    "report of an iteration": lambda X, y: ling.Ridge(solver="two_stage").fit(X, y).report_,
    "report without a bound": lambda X, y: ling.Ridge(alpha=0.0).fit(X, y).report_,
    "plan": lambda X, y: ling.plan_fit(X, y),
    "path": lambda X, y: ling.ridge_path(X, y),
    "scores": lambda X, y: cv_scores(ling.RidgeCV(cv=3).fit(X, y)),
    "leave-one-out": lambda X, y: cv_scores(ling.RidgeCV(store_cv_results=True).fit(X, y)),
}
every_result = pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)


@every_result
@pytest.mark.parametrize("n_targets", [1, 3])
def test_tables_are_compact_and_complete_by_themselves(make, n_targets, data, targets):
    X, y = data
    html = make(X, y if n_targets == 1 else targets)._repr_html_()
    table = Table(html)
    assert table.tags <= {
        "div", "style", "table", "caption", "thead", "tbody", "tr", "th", "td", "p"
    }  # fmt: skip
    assert table.attributes == {"class"}
    assert not any(word in html for word in ("http", "url(", "@import", "color: #"))
    assert table.caption
    assert len({len(row) for row in table.rows}) == 1
    assert len(html) < 4000


@every_result
def test_reprs_fit_on_a_line_or_two(make, data):
    text = repr(make(*data))
    assert len(text) < 160
    assert "\n" not in text
    assert "array(" not in text


def test_a_report_says_in_a_notebook_what_it_prints(data):
    report = ling.RidgeCV(cv=3).fit(*data).report_
    table = Table(report._repr_html_())
    assert table.caption == "Fit of 80 rows and 6 columns"
    assert table.notes == list(report.notes)
    assert [name for name, _ in table.rows] == ["Engine", "Cost", "Time", "Accuracy"]
    for _, value in table.rows:
        assert value in str(report)
    assert repr(report).startswith("<FitReport: 80 x 6 solved by direct in ")
    assert "s, certified (error bound " in repr(report)


def test_notes_are_escaped(data):
    report = replace(ling.Ridge().fit(*data).report_, notes=(SCRIPT,), reason=SCRIPT)
    html = report._repr_html_()
    assert "<script" not in html
    table = Table(html)
    assert table.notes == [SCRIPT]
    assert SCRIPT in table.rows[0][1]


@pytest.mark.parametrize("where", ["title", "rows", "notes", "head"])
def test_all_text_is_escaped(where):
    text = {"title": SCRIPT, "rows": [[SCRIPT] * 2], "notes": [SCRIPT], "head": [SCRIPT] * 2}
    table = {"title": "", "rows": [["a", "b"]], "notes": ["c"], "head": ["d", "e"]}
    html = html_table(**{**table, where: text[where]})
    assert "<script" not in html
    assert html.count("&lt;script&gt;alert(&#x27;&amp;&#x27;)") == (
        1 if where in ("title", "notes") else 2
    )


def test_a_plan_marks_its_first_choice(data):
    plan = ling.plan_fit(data[0])
    head, *rows = Table(plan._repr_html_()).rows
    assert head == ["engine", "predicted", "memory", "passes", ""]
    assert [row[0] for row in rows] == [estimate.engine for estimate in plan.estimates]
    assert [row[-1] for row in rows] == ["first choice"] + [""] * (len(rows) - 1)
    small = ling.plan_fit(np.zeros((1_500_000, 1)), memory_budget=10)
    (choice,) = (row[-1] for row in Table(small._repr_html_()).rows if "first" in row[-1])
    assert choice == "first choice, needs little memory, does not fit the memory budget"
    assert choice in str(small)


def test_a_path_shows_its_ends(data, targets):
    X, y = data
    path = ling.ridge_path(X, y, alphas=np.arange(1.0, 51.0))
    _, *rows = Table(path._repr_html_()).rows
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "…", "47", "48", "49", "50"]
    assert {row[-1] for row in rows} == {"certified", "…"}
    assert float(rows[-1][1]) == pytest.approx(np.linalg.norm(path.coef[-1]), rel=1e-3)
    assert float(rows[-1][2]) == pytest.approx(path.training_error[-1], rel=1e-3)
    several = ling.ridge_path(X, targets, alphas=[1.0, 2.0])
    table = Table(replace(several, tol=0.0)._repr_html_())
    assert [row[-1] for row in table.rows[1:]] == ["not certified"] * 2
    assert float(table.rows[1][2]) == pytest.approx(several.training_error[0].mean(), rel=1e-3)
    assert table.notes[-1].startswith("3 targets: ")


def test_scores_show_the_alphas_to_choose(data):
    scores = cv_scores(ling.RidgeCV(cv=3, alphas=np.geomspace(1e-9, 1e9, 100)).fit(*data))
    table = Table(scores._repr_html_())
    remarks = {row[0]: row[-1] for row in table.rows[1:] if row[-1] not in ("", "…")}
    best = scores.alphas[np.argmax(scores.mean_score)]
    assert remarks == {f"{best:.4g}": "highest score"}
    assert len(table.rows) < 20
    assert table.caption == f"Scores of 100 alphas by {scores.method}"
    half = replace(scores, certified=scores.alphas > 1)
    first = Table(half._repr_html_()).rows[1]
    assert first[-1] == "not certified"


def test_scores_of_targets_with_alphas_of_their_own(data, targets):
    model = ling.RidgeCV(cv=3, alphas=[0.1, 1e6], alpha_per_target=True)
    noise = np.random.default_rng(1).standard_normal(80)
    scores = cv_scores(model.fit(data[0], np.column_stack([targets[:, :2], noise])))
    table = Table(scores._repr_html_())
    remarks = [row[-1].split(",")[0] for row in table.rows[1:]]
    assert remarks == ["highest score (2 of 3 targets)", "highest score (1 of 3 targets)"]
    assert float(table.rows[1][1]) == pytest.approx(scores.mean_score[0].mean(), rel=1e-3)
    assert table.notes == ["Scores and standard errors are means over 3 targets."]
    assert repr(scores).startswith("CVScores(2 alphas from 0.1 to 1e+06, by ")


@pytest.mark.parametrize(
    ("n_rows", "marked", "shown"),
    [
        (MAX_ROWS, [], range(MAX_ROWS)),
        (20, [], [0, 1, 2, 3, None, 16, 17, 18, 19]),
        (20, [2, 4, 9], [0, 1, 2, 3, 4, None, 9, None, 16, 17, 18, 19]),
        (0, [], []),
    ],
)
def test_rows_that_are_left_out_are_dots(n_rows, marked, shown):
    assert N_END_ROWS == 4
    html = html_table_of_ends("", [[str(i), ""] for i in range(n_rows)], [], ["i", ""], marked)
    expected = [["…", "…"] if index is None else [str(index), ""] for index in shown]
    assert Table(html).rows[1:] == expected
