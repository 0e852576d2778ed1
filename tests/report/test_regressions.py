"""Reports of regressions: scores, coefficients, the choice of alpha, targets."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold, cross_val_predict

import ling
from ling import LingRegressor, Ridge, RidgeCV
from ling.errors import ShapeError
from ling.estimators.out_of_sample import predict_held_out, rebuild_problem
from ling.wording import format_number
from tests.raising import raises
from tests.report.pages import report, shown


@pytest.fixture(scope="module")
def by_folds(diabetes, folder):
    """RidgeCV with five folds, and its page."""
    model = RidgeCV(cv=5).fit(*diabetes)
    return model, report(folder, model, *diabetes, title="Progression", source="442 patients")


class TestChosenByFolds:
    def test_scores(self, by_folds, diabetes):
        model, page = by_folds
        expected = cross_val_predict(Ridge(alpha=model.alpha_), *diabetes, cv=5)
        assert f"{shown(r2_score(diabetes[1], expected))} R²" in page.section("quality")

    def test_pictures(self, by_folds):
        _, page = by_folds
        assert [alt.split(" ")[0] for alt in page.pictures] == [
            "Actual", "Actual", "Coefficients", "Cross-validated", "Eigenvalues"
        ]  # fmt: skip

    def test_what_was_fitted(self, by_folds):
        _, page = by_folds
        assert "Progression" in page.text
        for words in ("442 patients", "cv=5", ling.__version__):
            assert words in page.section("fitted")
        assert "What became of the columns" not in page.text  # all are numbers

    def test_what_is_proved(self, by_folds):
        _, page = by_folds
        assert "It is proved that" in page.section("proof")
        assert "What does this mean?" in page.section("proof")

    def test_coefficients(self, by_folds, diabetes):
        _, page = by_folds
        assert "s5 (raises the prediction)" in page.text
        for name in diabetes[0].columns:
            assert name in page.section("coefficients")

    def test_notes_and_cost(self, by_folds):
        _, page = by_folds
        assert "alpha was chosen from" in page.section("notes").replace("Alpha", "alpha")
        assert "a quarter of all, " in page.section("cost")
        assert "engine direct passes" in page.section("cost")


def test_single_rows_have_one_score_and_pages_differ_in_their_time_alone(diabetes, tmp_path):
    model = RidgeCV().fit(*diabetes)
    pages = [report(tmp_path, model, *diabetes) for _ in range(2)]
    assert "R², held out exact leave-one-out" in pages[0].text
    assert "cross-validated R²" not in pages[0].text
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d [+-]\d{4}"
    without = [re.sub(time, "", page.source) for page in pages]
    assert without[0] == without[1] != pages[0].source


@pytest.fixture(scope="module")
def given_alpha(diabetes, folder):
    """The page of a Ridge, which has no scores of its own."""
    return report(folder, Ridge(alpha=0.1).fit(*diabetes), *diabetes, target="progress")


class TestGivenAlpha:
    def test_scores_are_those_of_five_folds(self, given_alpha, diabetes):
        folds = KFold(5, shuffle=True, random_state=0)
        expected = cross_val_predict(Ridge(alpha=0.1), *diabetes, cv=folds)
        assert f"{shown(r2_score(diabetes[1], expected))} R²" in given_alpha.section("quality")

    def test_nothing_was_chosen(self, given_alpha):
        assert not any("Cross-validated" in alt for alt in given_alpha.pictures)
        assert 'id="alpha"' not in given_alpha.source
        assert "Its penalty alpha was set to 0.1." in given_alpha.text

    def test_names(self, given_alpha):
        assert "predict progress from 10 columns, on 442 rows" in given_alpha.text

    def test_why_there_are_no_intervals(self, given_alpha):
        words = "Standard errors were not stored; fit Ridge(store_covariance=True)."
        assert words in given_alpha.section("coefficients")


@pytest.fixture(scope="module")
def ling_stopped_early(diabetes, folder):
    """LING whose predictions are not yet those of ridge regression, and its page."""
    model = LingRegressor(0.1, n_components=2, n_iter=0, random_state=0).fit(*diabetes)
    return model, report(folder, model, *diabetes)


class TestLing:
    def test_rows_are_held_out_by_fits_of_ling(self, ling_stopped_early, diabetes):
        model, page = ling_stopped_early
        folds = KFold(5, shuffle=True, random_state=0)
        expected, of_ridge = (
            r2_score(diabetes[1], cross_val_predict(estimator, *diabetes, cv=folds))
            for estimator in (model, Ridge(0.1))
        )
        assert shown(expected) != shown(of_ridge)
        assert f"{shown(expected)} R²" in page.section("quality")

    def test_the_page_says_what_ling_does_not_have(self, ling_stopped_early):
        _, page = ling_stopped_early
        words = page.section("coefficients")
        assert "LingRegressor has no standard errors" in words
        assert "that of exact ridge regression" in words
        assert "components 2" in page.section("cost")

    def test_several_targets_with_weights(self, diabetes):
        X, y = diabetes
        Y, weights = np.c_[y, -2 * y], np.arange(1.0, len(y) + 1)
        model = LingRegressor([0.1, 1.0], n_components=3, n_iter=1).fit(X, Y, weights)
        found = predict_held_out(rebuild_problem(model, X, Y, weights)).predictions
        train, test = next(KFold(5, shuffle=True, random_state=0).split(X))
        fold = clone(model).fit(X.iloc[train], Y[train], weights[train])
        np.testing.assert_allclose(found[test], fold.predict(X.iloc[test]), rtol=1e-9)


def test_coefficients_compare_and_have_intervals(diabetes, tmp_path):
    X, y = diabetes
    X = X * 10.0 ** np.arange(10)  # units should not matter to the order
    model = Ridge(alpha=1e-3, store_covariance=True).fit(X, y)
    page = report(tmp_path, model, X, y, drawn=False)
    scaled = model.coef_ * X.std(ddof=0).to_numpy()
    rows = re.findall(r'<th scope="row" class="name" title="(\w+)">', page.source)[:10]
    order = np.argsort(-np.abs(scaled))
    assert rows == list(X.columns[order])
    first = order[0]
    half = 1.96 * model.coef_std_errors()[first] * X.std(ddof=0).iloc[first]
    low, high = sorted([scaled[first] - half, scaled[first] + half])
    assert f"{shown(low)} to {shown(high)}" in page.text


def test_the_headline_is_the_score_that_alpha_was_chosen_by(rng, tmp_path):
    X = rng.standard_normal((60, 2))
    y = X[:, 0] + np.repeat([0.0, 30, 60], 20)  # folds differ from each other
    model = RidgeCV(cv=3).fit(X, y)
    page = report(tmp_path, model, X, y, drawn=False)
    pooled = r2_score(y, cross_val_predict(Ridge(alpha=model.alpha_), X, y, cv=3))
    assert abs(pooled - model.best_score_) > 1
    mean = format_number(model.best_score_)
    assert f"cross-validated R² is {mean}, the mean over 3 folds" in page.text
    assert f"{mean} R², cross-validated mean over 3 folds" in page.text
    assert f"{format_number(pooled)} R², over all rows together" in page.section("quality")
    assert "On rows it had not seen, all taken together, it does no better" in page.text


@pytest.mark.parametrize("own", [False, True])
def test_several_targets(rng, tmp_path, own):
    X = rng.standard_normal((80, 5))
    Y = X @ rng.standard_normal((5, 7)) + rng.standard_normal((80, 7)) * np.arange(1, 8)
    frame = pd.DataFrame(Y, columns=[f"gene {i}" for i in range(7)])
    model = RidgeCV(cv=4, alpha_per_target=own).fit(X, frame)
    page = report(tmp_path, model, X, frame, drawn=False)
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
    if own:
        middle = format_number(np.median(model.best_score_))
        assert f"{middle} median R², cross-validated" in page.text


def test_an_alpha_given_for_each_target(rng, tmp_path):
    X, Y = rng.standard_normal((30, 3)), rng.standard_normal((30, 2))
    model = Ridge(alpha=[1.0, 2.0]).fit(X, Y)
    page = report(tmp_path, model, X, Y, target=["a", "b"], drawn=False)
    assert "1.5 median alpha" in page.text
    with raises(ShapeError, "target", mentions="3 names"):
        report(tmp_path, Ridge().fit(X, Y), X, Y, target=["a", "b", "c"])


def test_the_model_is_left_alone(diabetes, tmp_path):
    model = RidgeCV(cv=3).fit(*diabetes)
    before = {
        name: pickle.dumps(kept)
        for name, kept in vars(model).items()
        if name != "_uncertainty_state"
    }
    report(tmp_path, model, *diabetes, drawn=False)
    assert {name: pickle.dumps(vars(model)[name]) for name in before} == before
    assert vars(model).keys() == {*before, "_uncertainty_state"}


def test_a_splitter_of_the_model_stays_as_it_was(diabetes, tmp_path):
    state = np.random.RandomState(0)
    model = RidgeCV(cv=KFold(4, shuffle=True, random_state=state)).fit(*diabetes)
    before = state.get_state()[1].tolist()
    page = report(tmp_path, model, *diabetes, drawn=False)
    assert state.get_state()[1].tolist() == before
    assert "The model's cv is random" in page.section("notes")
