"""The report of a fit says what the fit found, for every estimator and every kind of data."""

import pickle
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes, load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GroupKFold, KFold, cross_val_predict
from typer.testing import CliRunner

import ling
from ling import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV, scan_npy, scan_parquet
from ling.cli.app import app
from ling.errors import (
    InputTypeError,
    MissingPackageError,
    OptionError,
    ShapeError,
)
from ling.report import path_and_spectrum, report_file, summary
from ling.report.svg import render_svg
from ling.report.wording import MINUS_SIGN, format_number, format_percent
from tests.memory import peak_memory
from tests.report.pages import Page, report


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True, as_frame=True)


def shown(value: float) -> str:
    return f"{value:.3g}".replace("-", MINUS_SIGN)


class TestEstimators:
    def test_a_regression_with_cross_validation(self, diabetes, tmp_path):
        X, y = diabetes
        model = RidgeCV(cv=5).fit(X, y)
        page = report(tmp_path, model, X, y, title="Progression", source="442 patients")
        expected = cross_val_predict(Ridge(alpha=model.alpha_), X, y, cv=5)
        assert f"{shown(r2_score(y, expected))} R²" in page.section("quality")
        assert [alt.split(" ")[0] for alt in page.pictures] == [
            "Actual", "Actual", "Coefficients", "Cross-validated", "Eigenvalues"
        ]  # fmt: skip
        assert "Progression" in page.text
        assert "442 patients" in page.section("fitted")
        assert "cv=5" in page.section("fitted")
        assert ling.__version__ in page.section("fitted")
        assert "It is proved that" in page.section("proof")
        assert "What does this mean?" in page.section("proof")
        assert "s5 (raises the prediction)" in page.text
        assert "alpha was chosen from" in page.section("notes").replace("Alpha", "alpha")
        for name in X.columns:
            assert name in page.section("coefficients")

    def test_a_regression_without(self, diabetes, tmp_path):
        X, y = diabetes
        page = report(tmp_path, Ridge(alpha=0.1).fit(X, y), X, y, target="progress")
        folds = KFold(5, shuffle=True, random_state=0)
        expected = cross_val_predict(Ridge(alpha=0.1), X, y, cv=folds)
        assert f"{shown(r2_score(y, expected))} R²" in page.section("quality")
        assert not any("Cross-validated" in alt for alt in page.pictures)
        assert 'id="alpha"' not in page.source
        assert "Its penalty alpha was set to 0.1." in page.text
        assert "predict progress from 10 columns, on 442 rows" in page.text

    def test_coefficients_compare_and_have_intervals(self, diabetes, tmp_path, undrawn):
        X, y = diabetes
        X = X * 10.0 ** np.arange(10)  # units should not matter to the order
        model = Ridge(alpha=1e-3, store_covariance=True).fit(X, y)
        page = report(tmp_path, model, X, y)
        scaled = model.coef_ * X.std(ddof=0).to_numpy()
        rows = re.findall(r'<th scope="row" class="name" title="(\w+)">', page.source)[:10]
        order = np.argsort(-np.abs(scaled))
        assert rows == list(X.columns[order])
        first = order[0]
        half = 1.96 * model.coef_std_errors()[first] * X.std(ddof=0).iloc[first]
        low, high = sorted([scaled[first] - half, scaled[first] + half])
        assert f"{shown(low)} to {shown(high)}" in page.text

    @pytest.mark.parametrize("make", [RidgeClassifier, RidgeClassifierCV])
    def test_two_classes_with_names(self, make, tmp_path):
        X, y = load_iris(return_X_y=True, as_frame=True)
        X, y = X[50:], np.where(y[50:] == 1, "versicolor", "<b>virginica")
        page = report(tmp_path, make().fit(X, y), X, y, target="kind")
        assert "one of 2 classes" in page.text
        assert "<b>virginica" in page.text
        assert "Decision values of class versicolor and of class <b>virginica, held out" in (
            page.pictures
        )
        assert 'class="confusion"' in page.source
        assert "found (recall)" in page.section("quality")

    def test_ten_classes(self, tmp_path):
        X, y = load_digits(return_X_y=True)
        model = RidgeClassifierCV(cv=5).fit(X, y)
        page = report(tmp_path, model, X, y, target="digit")
        expected = cross_val_predict(RidgeClassifier(alpha=model.alpha_), X, y, cv=5)
        assert f"{100 * accuracy_score(y, expected):.1f} %" in page.text
        assert len(re.findall(r'<td class="right"', page.source)) == 10
        right = int(re.findall(r'<td class="right"[^>]*>(\d+)', page.source)[4])
        assert right == np.sum((y == 4) & (expected == 4))
        assert page.source.count('<div class="view"') == 6
        assert "worst predicted" in page.text

    def test_more_classes_than_a_table_can_show(self, rng, tmp_path, undrawn):
        X = rng.standard_normal((300, 4))
        y = rng.integers(0, 25, 300)
        page = report(tmp_path, RidgeClassifier().fit(X, y), X, y)
        assert "Most frequent mistakes" in page.text
        assert 'class="confusion"' not in page.source

    def test_several_labels(self, rng, tmp_path):
        X = rng.standard_normal((60, 3))
        Y = (X @ rng.standard_normal((3, 2)) > 0).astype(int)
        page = report(tmp_path, RidgeClassifier().fit(X, Y), X, Y)
        assert "Labels, held out" in page.text
        assert "Decision values of label 1 and of without it, held out" in page.pictures

    @pytest.mark.parametrize("own", [False, True])
    def test_several_targets(self, rng, tmp_path, own):
        X = rng.standard_normal((80, 5))
        Y = X @ rng.standard_normal((5, 7)) + rng.standard_normal((80, 7)) * np.arange(1, 8)
        frame = pd.DataFrame(Y, columns=[f"gene {i}" for i in range(7)])
        model = RidgeCV(cv=4, alpha_per_target=own).fit(X, frame)
        page = report(tmp_path, model, X, frame)
        alphas = np.broadcast_to(model.alpha_, 7)
        found = [cross_val_predict(Ridge(alpha=alphas[t]), X, Y[:, t], cv=4) for t in range(7)]
        r2 = [r2_score(Y[:, t], found[t]) for t in range(7)]
        quality = page.section("quality")
        for t in range(7):
            assert f"gene {t} {shown(r2[t])}" in quality
        assert f"Target gene {np.argmin(r2)} (worst predicted)" in quality.replace("  ", " ")
        assert f"Target gene {np.argmax(r2)} (best predicted)" in quality.replace("  ", " ")
        assert page.source.count('<div class="view"') == 6
        assert ("Each target has a penalty of its own" in page.text) == own

    def test_an_alpha_given_for_each_target(self, rng, tmp_path, undrawn):
        X, Y = rng.standard_normal((30, 3)), rng.standard_normal((30, 2))
        page = report(tmp_path, Ridge(alpha=[1.0, 2.0]).fit(X, Y), X, Y, target=["a", "b"])
        assert "1.5 median alpha" in page.text
        with pytest.raises(ShapeError, match="target has 3 names"):
            report(tmp_path, Ridge().fit(X, Y), X, Y, target=["a", "b", "c"])


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


@pytest.mark.usefixtures("undrawn")
class TestData:
    @pytest.mark.parametrize("kind", DATA)
    def test_every_kind_gives_the_same_numbers(self, kind, rng, tmp_path):
        X = rng.standard_normal((400, 5))
        y = X @ np.arange(5.0) + rng.standard_normal(400)
        given = DATA[kind](X, y, tmp_path)
        page = report(tmp_path, RidgeCV(cv=4).fit(*given), *given)
        expected = cross_val_predict(Ridge(alpha=RidgeCV(cv=4).fit(X, y).alpha_), X, y, cv=4)
        assert f"{shown(r2_score(y, expected))} R²" in page.section("quality")
        assert "400" in page.section("fitted")

    @pytest.mark.parametrize("make", [RidgeCV, Ridge, RidgeClassifier])
    def test_scanned_and_never_held_whole(self, make, rng, tmp_path):
        n, p = 60_000, 40
        X = rng.standard_normal((n, p))
        y = X[:, 0] + rng.standard_normal(n)
        y = y > 0 if make is RidgeClassifier else y
        np.save(tmp_path / "X.npy", X)
        data = scan_npy(tmp_path / "X.npy", y=y)
        model = make(memory_budget=10e6).fit(data)
        taken = peak_memory(lambda: report(tmp_path, model, data))
        assert taken < X.nbytes
        page = Page(tmp_path / "report.html")
        passes = re.search(r"this report (\d+) passes over X", page.section("cost"))
        assert 3 <= int(passes.group(1)) <= 12
        assert "npy" in page.section("fitted")

    def test_weights_count(self, rng, tmp_path):
        X = rng.standard_normal((60, 3))
        y = X[:, 0] + rng.standard_normal(60)
        weights = rng.uniform(0, 2, 60)
        weights[:5] = 0
        model = Ridge().fit(X, y, weights)
        page = report(tmp_path, model, X, y, sample_weight=weights)
        folds = KFold(5, shuffle=True, random_state=0)
        found = np.empty(60)
        for train, test in folds.split(X):
            found[test] = Ridge().fit(X[train], y[train], weights[train]).predict(X[test])
        assert f"{shown(r2_score(y, found, sample_weight=weights))} R²" in page.section("quality")
        assert "weights 0 to 1.9" in page.section("fitted")

    def test_a_model_built_from_batches(self, rng, tmp_path):
        X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
        model = Ridge().partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
        assert "40" in report(tmp_path, model, X, y).section("fitted")
        with pytest.raises(ShapeError, match="fitted to 40"):
            report(tmp_path, model, X[20:], y[20:])


class TestEdges:
    @pytest.mark.parametrize("make", [Ridge, RidgeCV])
    def test_five_rows(self, make, rng, tmp_path):
        X = rng.standard_normal((5, 2))
        report(tmp_path, make().fit(X, X[:, 0]), X, X[:, 0])

    def test_one_row(self, tmp_path):
        X, y = np.ones((1, 2)), np.ones(1)
        page = report(tmp_path, Ridge().fit(X, y), X, y)
        assert "Not shown. There is one sample" in page.section("quality")

    def test_more_columns_than_rows(self, rng, tmp_path):
        X = rng.standard_normal((20, 90))
        report(tmp_path, RidgeCV().fit(X, X[:, 0]), X, X[:, 0])

    def test_one_column(self, rng, tmp_path):
        X = rng.standard_normal((30, 1))
        page = report(tmp_path, RidgeCV(cv=3).fit(X, X[:, 0] + 1), X, X[:, 0] + 1)
        assert "from 1 column, on 30 rows" in page.text

    def test_a_constant_target(self, rng, tmp_path):
        X = rng.standard_normal((30, 3))
        page = report(tmp_path, Ridge().fit(X, np.full(30, 7.1)), X, np.full(30, 7.1))
        assert "does not vary" in page.text
        assert "A target is constant" in page.section("notes")

    def test_columns_that_do_not_vary(self, rng, tmp_path):
        X, y = np.ones((30, 2)), rng.standard_normal(30)
        page = report(tmp_path, Ridge().fit(X, y), X, y)
        assert "Not shown. The columns do not vary." in page.section("spectrum")
        assert "No column counts." in page.text

    def test_coefficients_above_0(self, rng, tmp_path, undrawn):
        X = rng.standard_normal((60, 3))
        y = X @ [1.0, 2.0, -3.0] + rng.standard_normal(60)
        page = report(tmp_path, Ridge(positive=True).fit(X, y), X, y)
        assert "kept at or above 0" in page.section("spectrum")
        assert "kept at or above 0" in page.section("coefficients")

    def test_no_penalty_is_not_certified(self, rng, tmp_path):
        X = rng.standard_normal((30, 3))
        page = report(tmp_path, Ridge(alpha=0).fit(X, X[:, 0]), X, X[:, 0])
        assert "Nothing is proved" in page.section("proof")
        assert "not certified: alpha is 0" in page.section("notes")
        assert "not proved" in page.text

    def test_no_intercept(self, rng, tmp_path, undrawn):
        X = rng.standard_normal((30, 3)) + 5
        model = Ridge(fit_intercept=False).fit(X, X[:, 0])
        page = report(tmp_path, model, X, X[:, 0])
        assert "root mean square, all others fixed" in page.text


@pytest.mark.usefixtures("undrawn")
class TestScores:
    def test_the_headline_is_the_score_that_alpha_was_chosen_by(self, rng, tmp_path):
        X = rng.standard_normal((60, 2))
        y = X[:, 0] + np.repeat([0.0, 30, 60], 20)  # folds differ from each other
        model = RidgeCV(cv=3).fit(X, y)
        page = report(tmp_path, model, X, y)
        pooled = r2_score(y, cross_val_predict(Ridge(alpha=model.alpha_), X, y, cv=3))
        assert abs(pooled - model.best_score_) > 1
        mean = format_number(model.best_score_)
        assert f"cross-validated R² is {mean}, the mean over 3 folds" in page.text
        assert f"{mean} R², cross-validated mean over 3 folds" in page.text
        assert f"{format_number(pooled)} R², over all rows together" in page.section("quality")
        assert "On rows it had not seen, all taken together, it does no better" in page.text

    def test_single_rows_have_one_score(self, diabetes, tmp_path):
        X, y = diabetes
        page = report(tmp_path, RidgeCV().fit(X, y), X, y)
        assert "R², held out exact leave-one-out" in page.text
        assert "cross-validated R²" not in page.text

    def test_classes_have_their_accuracy(self, tmp_path):
        X, y = load_iris(return_X_y=True)
        model = RidgeClassifierCV(cv=5).fit(X, y)
        page = report(tmp_path, model, X, y)
        assert f"{format_percent(model.best_score_)} accuracy, cross-validated" in page.text

    def test_each_target_with_its_own_alpha(self, rng, tmp_path):
        X = rng.standard_normal((40, 3))
        Y = X + rng.standard_normal((40, 3)) * [1, 2, 3]
        model = RidgeCV(cv=4, alpha_per_target=True).fit(X, Y)
        page = report(tmp_path, model, X, Y)
        middle = format_number(np.median(model.best_score_))
        assert f"{middle} median R², cross-validated" in page.text


@pytest.mark.usefixtures("undrawn")
class TestColumns:
    @pytest.fixture
    def data(self, rng, tmp_path):
        many = [f"kind {i % 9}" for i in range(60)]
        x = rng.standard_normal(60)
        frame = pd.DataFrame({"town": ["Ulm", "Bern", "<b>"] * 20, "many": many, "x": x, "y": x})
        frame.loc[3, "x"] = np.nan
        pq.write_table(pa.Table.from_pandas(frame), tmp_path / "d.parquet")
        return tmp_path / "d.parquet"

    def test_what_became_of_them(self, data, tmp_path):
        found = scan_parquet(data, target="y", missing="mean")
        page = report(tmp_path, Ridge().fit(found.X, found.y), found.X, found.y)
        fitted = page.section("fitted")
        assert "What became of the columns" in fitted
        assert "town text 3 columns of 0 and 1, one for each category: <b>, Bern, Ulm" in fitted
        assert "many text 9 columns of 0 and 1" in fitted
        assert "and 3 more; all 0 where it is missing" in fitted
        assert "x 1 column of numbers as they are; where one is missing, the mean" in fitted

    def test_nothing_is_said_of_numbers(self, diabetes, tmp_path):
        X, y = diabetes
        page = report(tmp_path, Ridge().fit(X, y), X, y)
        assert "What became of the columns" not in page.text

    def test_what_else_is_known(self, diabetes, tmp_path):
        X, y = diabetes
        about = {"left out": "id & <i>name", "weights": "column w"}
        weights = np.linspace(1, 2, len(y))
        model = Ridge().fit(X, y, weights)
        page = report(tmp_path, model, X, y, sample_weight=weights, about=about)
        assert "left out id & <i>name" in page.section("fitted")
        assert "weights column w, 1 to 2" in page.section("fitted")

    def test_the_command_line_tells_what_it_did(self, data, tmp_path):
        to = tmp_path / "report.html"
        options = ["--drop", "many", "--missing", "mean"]
        files = ["--report", str(to), "--out", str(tmp_path / "model.ling")]
        said = CliRunner().invoke(app, ["fit", str(data), "-t", "y", *options, *files])
        assert said.exit_code == 0, said.output
        fitted = Page(to).check().section("fitted")
        assert "left out many" in fitted
        assert "missing x (1): the mean instead" in fitted

    def test_names_break_where_their_words_end(self, rng, tmp_path):
        X = pd.DataFrame(rng.standard_normal((20, 2)), columns=["days_since_2015", "a<b.c=d"])
        page = report(tmp_path, Ridge().fit(X, X["a<b.c=d"]), X, X["a<b.c=d"])
        assert ">days_<wbr>since_<wbr>2015<" in page.source
        assert 'title="a&lt;b.c=d">a&lt;b.<wbr>c=<wbr>d<' in page.source


@pytest.mark.usefixtures("undrawn")
class TestWords:
    def test_no_column_counts_where_none_helps(self, rng, tmp_path):
        X, y = rng.standard_normal((100, 3)), rng.standard_normal(100)
        page = report(tmp_path, Ridge(alpha=1e8).fit(X, y), X, y)
        assert "No column counts." in page.text
        assert "raises the prediction" not in page.text

    @pytest.mark.parametrize(
        ("bound", "words"),
        [
            (0.02, "at most 2 %"), (2e-10, "at most 2 parts in 10 billion"),
            (1e-12, "at most 1 part in a trillion"),
            (5e-21, "less than a millionth of a millionth"),
        ],
    )  # fmt: skip
    def test_small_shares(self, bound, words):
        assert summary._parts_phrase(bound) == words

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({}, "Standard errors were not stored; fit Ridge(store_covariance=True)."),
            ({"alpha": 0.0}, "Standard errors need an alpha above 0."),
            ({"positive": True}, "kept at or above 0 have no standard errors"),
        ],
    )
    def test_why_there_are_no_intervals(self, diabetes, tmp_path, options, words):
        X, y = diabetes
        page = report(tmp_path, Ridge(**options).fit(X, y), X, y)
        assert words in page.section("coefficients")

    def test_the_memory_that_was_allowed(self, diabetes, rng, tmp_path):
        X, y = diabetes
        model = RidgeCV(cv=5).fit(X, y)
        cost = report(tmp_path, model, X, y).section("cost")
        assert "a quarter of all, " in cost
        assert "engine direct passes" in cost
        given = scanned(rng.standard_normal((40, 2)), rng.standard_normal(40), tmp_path)
        cost = report(tmp_path, Ridge().fit(*given), *given).section("cost")
        assert "a quarter of all, " in cost


@pytest.mark.usefixtures("undrawn")
class TestNotes:
    def test_the_end_of_the_grid(self, diabetes, tmp_path):
        X, y = diabetes
        model = RidgeCV(alphas=[10, 100, 1000]).fit(X, y)
        page = report(tmp_path, model, X, y)
        assert "The best alpha is the smallest of alphas, 10" in page.section("notes")

    def test_alphas_without_a_proof(self, rng, tmp_path):
        X = rng.standard_normal((60, 5))
        X = np.c_[X, X[:, 0] + 1e-9 * rng.standard_normal(60)]
        y = X[:, 0] + rng.standard_normal(60)
        model = RidgeCV([1e-14, 1e-13, 0.01, 1.0, 10.0, 100.0], cv=3).fit(X, y)
        assert model.alpha_ >= 1
        page = report(tmp_path, model, X, y)
        assert "The 2 smallest alphas were scored without a proof" in page.section("notes")

    def test_splits_that_cannot_be_made_again(self, diabetes, tmp_path):
        X, y = diabetes
        groups = np.arange(len(y)) // 10
        model = RidgeCV(cv=GroupKFold(4)).fit(X, y, groups=groups)
        page = report(tmp_path, model, X, y)
        assert "could not be made again: The 'groups' parameter" in page.section("notes")

    def test_rows_that_are_never_left_out(self, diabetes, tmp_path):
        X, y = diabetes
        splits = [(np.arange(100, 442), np.arange(100))]
        page = report(tmp_path, RidgeCV(cv=splits, scoring="r2").fit(X, y), X, y)
        assert "342 rows were in no test set" in page.section("notes")
        assert "100 of 442 rows" in page.section("quality")

    def test_what_is_too_large_is_not_shown_and_says_why(self, diabetes, tmp_path, monkeypatch):
        monkeypatch.setattr(path_and_spectrum, "MAX_EXACT_SIZE", 5)
        X, y = diabetes
        page = report(tmp_path, Ridge().fit(X, y), X, y)
        assert "Not shown. Factoring a matrix of 10 x 10 numbers" in page.section("spectrum")
        assert any("Coefficients" in alt for alt in page.pictures)


class TestPage:
    def test_nothing_that_is_given_becomes_markup(self, rng, tmp_path):
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

    def test_names_in_any_script_are_no_reason_to_warn(self, rng, tmp_path):
        X = pd.DataFrame(rng.standard_normal((20, 2)), columns=["東京", "दिल्ली"])
        page = report(tmp_path, Ridge().fit(X, X["東京"]), X, X["東京"], target="大阪")
        assert "東京</text>" in page.source

    def test_other_warnings_of_pictures_are_heard(self):
        def draw(ax):
            ax.set_xlim(1, 1)

        with pytest.warns(UserWarning, match="identical"):
            render_svg("a", "alt", draw)

    def test_is_the_same_but_for_the_time(self, diabetes, tmp_path):
        X, y = diabetes
        model = RidgeCV().fit(X, y)
        pages = [report(tmp_path, model, X, y).source for _ in range(2)]
        without = [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d [+-]\d{4}", "", page) for page in pages]
        assert without[0] == without[1] != pages[0]

    def test_leaves_the_model_alone(self, diabetes, tmp_path, undrawn):
        X, y = diabetes
        model = RidgeCV(cv=3).fit(X, y)
        before = {
            name: pickle.dumps(kept)
            for name, kept in vars(model).items()
            if name != "_uncertainty_state"
        }
        report(tmp_path, model, X, y)
        assert {name: pickle.dumps(vars(model)[name]) for name in before} == before
        assert vars(model).keys() == {*before, "_uncertainty_state"}

    def test_a_page_is_written_whole_or_not_at_all(self, diabetes, tmp_path, monkeypatch):
        X, y = diabetes
        model = Ridge().fit(X, y)
        (tmp_path / "report.html").write_text("before")

        def fails(*_):
            raise OSError("no space left")

        monkeypatch.setattr(report_file.os, "replace", fails)
        monkeypatch.setattr(report_file, "render_page", lambda *_: "after")
        with pytest.raises(OSError, match="no space"):
            ling.write_report(tmp_path / "report.html", model, X, y)
        assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
        assert (tmp_path / "report.html").read_text() == "before"

    def test_says_what_it_cannot_report_on(self, diabetes, tmp_path):
        X, y = diabetes
        for model, error, words in (
            (LinearRegression().fit(X, y), InputTypeError, "model is a LinearRegression"),
            (Ridge(), NotFittedError, "not fitted"),
            (Ridge().fit(X[:50], y[:50]), ShapeError, "fitted to 50"),
            (Ridge().fit(X, np.c_[y, y]), ShapeError, "y has 1 targets"),
            (RidgeClassifier().fit(X, y > 200), OptionError, "y has the class"),
        ):
            with pytest.raises(error, match=words):
                report(tmp_path, model, X, y)
        assert not list(tmp_path.iterdir())

    def test_matplotlib_is_asked_for_kindly(self, diabetes, tmp_path, monkeypatch):
        X, y = diabetes
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(MissingPackageError, match=r"pip install 'ling\[plot\]'"):
            report(tmp_path, Ridge().fit(X, y), X, y)

    def test_a_style_of_the_users_stays_out_of_it(self, diabetes, tmp_path):
        code = (
            "import matplotlib, sys; matplotlib.rcParams['font.size'] = 30\n"
            "from ling.report.svg import render_svg\n"
            "found = render_svg('a', 'alt', lambda ax: ax.plot([1, 2]))\n"
            "assert '30px' not in found and matplotlib.rcParams['font.size'] == 30\n"
            "assert 'matplotlib.pyplot' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_very_large_and_small_targets_are_no_constants(size, tmp_path):
    X, y = made()
    page = report(tmp_path, Ridge().fit(X, size * y), X, size * y)
    assert "does not vary" not in page.text


def test_a_very_large_alpha_is_drawn_as_far_as_it_can_be(tmp_path):
    X, y = made()
    report(tmp_path, Ridge(alpha=1e300).fit(X, y), X, y)


def test_a_standard_error_that_is_not_known_is_no_interval(tmp_path):
    X, y = made()
    page = report(tmp_path, Ridge().fit(X[:1], y[:1]), X[:1], y[:1])
    assert "0 to 0" not in page.text


def test_a_splitter_of_the_model_stays_as_it_was(tmp_path):
    X, y = made()
    state = np.random.RandomState(0)
    model = RidgeCV(cv=KFold(4, shuffle=True, random_state=state)).fit(X, y)
    before = state.get_state()[1].tolist()
    page = report(tmp_path, model, X, y)
    assert state.get_state()[1].tolist() == before
    assert "The model's cv is random" in page.section("notes")


def test_parameters_without_a_default(tmp_path):
    class Mine(Ridge):
        def __init__(self, alpha):
            super().__init__(alpha)

    X, y = made()
    assert "alpha=2.0" in report(tmp_path, Mine(2.0).fit(X, y), X, y).text


@pytest.mark.parametrize("bound", [1.01e-4, 0.01049, 0.3, 9.99e-7])
def test_what_is_proved_is_not_rounded_down(bound):
    assert bound <= summary.round_up(bound) <= 1.2 * bound


def made():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    return X, X @ [1.0, 2.0, 3.0] + rng.standard_normal(40)
