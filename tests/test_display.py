"""Displays draw what the models found: every number here is read back from the picture."""

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sklearn.linear_model
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ling import (
    CVDisplay,
    DecisionDisplay,
    LingError,
    PathDisplay,
    PredictionDisplay,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    SpectrumDisplay,
    ridge_path,
)
from ling.report import spectrum_display
from ling.report.path_display import _separate_labels


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def diabetes():
    return load_diabetes(return_X_y=True, as_frame=True)


@pytest.fixture
def targets(rng):
    X = rng.standard_normal((80, 6))
    Y = X @ rng.standard_normal((6, 3)) + rng.standard_normal((80, 3)) * [1, 5, 20]
    return X, Y


def legend(shown) -> list[str]:
    return [text.get_text() for text in shown.ax_.get_legend().get_texts()]


def vertical(shown) -> list[float]:
    lines = [np.asarray(line.get_xdata(), dtype=float) for line in shown.ax_.lines]
    return [x[0] for x in lines if len(x) == 2 and x[0] == x[1]]


def drawn(shown) -> None:
    """Laid out and drawn, which warns of what does not fit."""
    shown.figure_.canvas.draw()


class TestCV:
    @pytest.mark.parametrize("cv", [None, 5])
    def test_draws_the_scores_with_their_errors(self, diabetes, cv):
        model = RidgeCV(cv=cv).fit(*diabetes)
        shown = CVDisplay.from_estimator(model)
        drawn(shown)
        found = model.cv_scores_
        np.testing.assert_array_equal(shown.line_.get_xdata(), found.alphas)
        np.testing.assert_array_equal(shown.line_.get_ydata(), found.mean_score)
        box = shown.band_.get_datalim(shown.ax_.transData)
        assert box.y0 == pytest.approx((found.mean_score - found.std_error).min())
        assert box.y1 == pytest.approx((found.mean_score + found.std_error).max())
        assert shown.ax_.get_xscale() == "log"
        assert shown.ax_.get_legend().get_title().get_text() == found.method

    def test_draws_both_alphas(self, diabetes):
        model = RidgeCV().fit(*diabetes)
        shown = CVDisplay.from_estimator(model)
        assert vertical(shown) == [model.alpha_, model.alpha_1se_]
        assert f"chosen alpha = {model.alpha_:.3g}" in legend(shown)
        assert f"largest within one standard error = {model.alpha_1se_:.3g}" in legend(shown)

    def test_one_line_where_both_alphas_are_the_same(self, diabetes):
        model = RidgeCV(selection_rule="one_standard_error").fit(*diabetes)
        shown = CVDisplay.from_estimator(model)
        assert vertical(shown) == [model.alpha_1se_]
        assert "the largest\nwithin one standard error" in legend(shown)[-1]

    def test_alphas_in_any_order_and_without_0(self, diabetes):
        alphas = np.array([1.0, 0.0, 0.01, 0.1])
        model = RidgeCV(alphas, cv=3).fit(*diabetes)
        shown = CVDisplay.from_estimator(model)
        np.testing.assert_array_equal(shown.line_.get_xdata(), [0.01, 0.1, 1.0])
        np.testing.assert_array_equal(
            shown.line_.get_ydata(), model.cv_scores_.mean_score[[2, 3, 0]]
        )
        assert "0 is not on this axis" in shown.ax_.get_xlabel()

    def test_says_that_0_was_chosen(self, diabetes):
        shown = CVDisplay(
            alphas=np.array([0.0, 1.0]), mean=np.array([2.0, 1.0]), std_error=np.zeros(2),
            certified=np.ones(2), alpha=0.0, alpha_1se=1.0,
        ).plot()  # fmt: skip
        assert "chosen alpha = 0" in legend(shown)
        assert vertical(shown) == [1.0]

    def test_what_is_not_certified_is_faint(self, diabetes):
        model = RidgeCV(cv=3).fit(*diabetes)
        certified = model.alphas_ > 1e-3
        model.cv_scores_ = replace(model.cv_scores_, certified=certified)
        shown = CVDisplay.from_estimator(model)
        assert shown.line_.get_alpha() < 1
        np.testing.assert_array_equal(shown.line_.get_ydata(), model.cv_scores_.mean_score)
        full = shown.certified_line_.get_ydata()
        np.testing.assert_array_equal(np.isfinite(full), certified)
        assert {"score", "score, not certified"} < set(legend(shown))

    def test_nothing_certified_is_all_faint(self, diabetes):
        model = RidgeCV(cv=3).fit(*diabetes)
        none = np.zeros(len(model.alphas_), dtype=bool)
        model.cv_scores_ = replace(model.cv_scores_, certified=none)
        shown = CVDisplay.from_estimator(model)
        assert shown.certified_line_ is None
        assert "score" not in legend(shown)

    def test_an_alpha_for_each_target(self, targets):
        model = RidgeCV(alpha_per_target=True, cv=5).fit(*targets)
        shown = CVDisplay.from_estimator(model)
        drawn(shown)
        mean = model.cv_scores_.mean_score
        np.testing.assert_array_equal([x.get_ydata() for x in shown.target_lines_], mean.T)
        np.testing.assert_array_equal(shown.line_.get_ydata(), np.median(mean, axis=1))
        bars = shown.ax_.collections[-1].get_segments()
        np.testing.assert_array_equal([bar[0, 0] for bar in bars], np.unique(model.alpha_))

    @pytest.mark.parametrize(
        ("alphas", "words"),
        [
            ([100.0, 1e3, 1e4], "\N{LEFTWARDS ARROW} best at the edge of the grid"),
            ([1e-9, 1e-8, 1e-7], "best at the edge of the grid \N{RIGHTWARDS ARROW}"),
            ([1e-3, 5.0, 1e4], None),
            (None, None),
        ],
    )
    def test_an_end_of_the_grid_that_is_the_best(self, rng, alphas, words):
        X = rng.standard_normal((60, 5))
        y = X[:, 0] + rng.standard_normal(60)
        shown = CVDisplay.from_estimator(RidgeCV(alphas).fit(X, y))
        drawn(shown)
        assert [text.get_text() for text in shown.edge_texts_] == ([words] if words else [])
        box = shown.ax_.get_window_extent()
        for text in shown.edge_texts_:
            extent = text.get_window_extent()
            assert box.x0 <= extent.x0 < extent.x1 <= box.x1
            assert box.y0 <= extent.y0 < extent.y1 <= box.y1

    def test_both_ends_for_targets(self, rng):
        X = rng.standard_normal((60, 5))
        Y = np.c_[X @ np.ones(5), rng.standard_normal(60)]
        shown = CVDisplay.from_estimator(RidgeCV([1, 3, 9], alpha_per_target=True).fit(X, Y))
        assert [text.xy[0] for text in shown.edge_texts_] == [1, 9]

    @pytest.mark.filterwarnings("ignore:R.2 score is not well-defined")
    @pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite")
    @pytest.mark.parametrize("each", [False, True])
    def test_no_finite_score(self, targets, each):
        X, Y = targets
        model = RidgeCV([1.0, 10.0, 100.0], cv=len(X), alpha_per_target=each).fit(X, Y)
        shown = CVDisplay.from_estimator(model)
        drawn(shown)
        assert not shown.edge_texts_
        assert "no score is finite" in shown.ax_.get_legend().get_title().get_text()

    def test_of_many_targets_some_are_drawn(self, rng):
        X, Y = rng.standard_normal((30, 3)), rng.standard_normal((30, 120))
        shown = CVDisplay.from_estimator(RidgeCV(alpha_per_target=True).fit(X, Y))
        assert len(shown.target_lines_) == 50
        assert "50 of 120 targets" in legend(shown)

    def test_very_low_scores_leave_the_picture_and_this_is_said(self, rng):
        X = rng.standard_normal((60, 48))
        model = RidgeCV(cv=5).fit(X, X[:, 0] + rng.standard_normal(60))
        shown = CVDisplay.from_estimator(model)
        low, high = shown.ax_.get_ylim()
        mean = model.cv_scores_.mean_score
        assert mean.min() < low < mean[-1] < mean.max() < high
        assert "low scores are off the chart" in shown.ax_.get_legend().get_title().get_text()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({}, "mean squared error, negated"),
            ({"cv": 3}, "R²"),
            ({"scoring": "r2"}, "R²"),
            ({"scoring": "neg_mean_absolute_error"}, "mean absolute error, negated"),
            (
                {"scoring": make_scorer(mean_absolute_error, greater_is_better=False)},
                "mean absolute error, negated",
            ),
            ({"scoring": lambda model, X, y: 0.0, "cv": 3}, "<lambda>"),
        ],
    )
    def test_says_what_the_score_is(self, diabetes, options, words):
        shown = CVDisplay.from_estimator(RidgeCV(**options).fit(*diabetes))
        assert shown.ax_.get_ylabel() == words

    def test_a_classifier(self, diabetes):
        X, y = diabetes
        model = RidgeClassifierCV(cv=3).fit(X, y > 150)
        shown = CVDisplay.from_estimator(model)
        assert shown.ax_.get_ylabel() == "accuracy"
        np.testing.assert_array_equal(shown.line_.get_ydata(), model.cv_scores_.mean_score)

    def test_refuses_models_without_scores(self, diabetes):
        for model in (Ridge(), sklearn.linear_model.RidgeCV()):
            with pytest.raises(LingError, match=r"pass a fitted ling\.RidgeCV"):
                CVDisplay.from_estimator(model.fit(*diabetes))

    def test_refuses_0_alone(self, diabetes):
        with pytest.raises(LingError, match="nothing above 0"):
            CVDisplay.from_estimator(RidgeCV([0.0], cv=3).fit(*diabetes))


class TestPredictions:
    def test_draws_what_fits_that_have_not_seen_it_predict(self, diabetes):
        X, y = diabetes
        model = RidgeCV(cv=5).fit(X, y)
        shown = PredictionDisplay.from_estimator(model, X, y, name="progress")
        drawn(shown)
        expected = cross_val_predict(Ridge(alpha=model.alpha_), X, y, cv=5)
        x, height = shown.points_.get_offsets().T
        np.testing.assert_allclose(x, expected)
        np.testing.assert_allclose(height, y, rtol=1e-14)
        assert shown.ax_.get_xlabel() == "predicted progress"
        assert shown.ax_.get_legend().get_title().get_text() == "held out: 5-fold cross-validation"
        assert "442 samples" in legend(shown)

    def test_residuals_their_means_and_their_distribution(self, diabetes):
        X, y = diabetes
        model = Ridge(alpha=0.1).fit(X, y)
        shown = PredictionDisplay.from_estimator(model, X, y, kind="residual_vs_predicted")
        drawn(shown)
        residuals = shown.actual - shown.predicted
        np.testing.assert_allclose(shown.points_.get_offsets()[:, 1], residuals)
        tenths = np.array_split(np.argsort(shown.predicted), 10)
        np.testing.assert_allclose(
            shown.means_.get_ydata(), [residuals[some].mean() for some in tenths]
        )
        assert sum(bar.get_width() for bar in shown.bars_ax_.patches) == len(y)

    def test_of_many_samples_some_are_drawn_and_the_worst(self, rng):
        predicted = rng.standard_normal(5000)
        actual = predicted + rng.standard_normal(5000)
        actual[7] = 50
        shown = PredictionDisplay(actual=actual, predicted=predicted).plot()
        assert len(shown.points_.get_offsets()) == 2000
        assert len(np.unique(shown.points_.get_offsets(), axis=0)) == 2000
        assert shown.points_.get_offsets()[:, 1].max() == 50
        assert "2,000 of 5,000 samples, the 20 worst too" in legend(shown)

    def test_few_samples_have_no_means(self):
        shown = PredictionDisplay(actual=np.ones(5), predicted=np.ones(5))
        assert shown.plot(kind="residual_vs_predicted").means_ is None
        drawn(shown)

    def test_a_target(self, targets):
        X, Y = targets
        model = Ridge().fit(X, Y)
        shown = PredictionDisplay.from_estimator(model, X, Y, target=2)
        np.testing.assert_allclose(shown.actual, Y[:, 2])
        with pytest.raises(LingError, match="target is 3; pass one of 0 to 2"):
            PredictionDisplay.from_estimator(model, X, Y, target=3)

    def test_what_it_cannot_draw(self, targets):
        X, Y = targets
        with pytest.raises(LingError, match="use DecisionDisplay"):
            PredictionDisplay.from_estimator(RidgeClassifier().fit(X, Y[:, 0] > 0), X, Y[:, 0] > 0)
        with pytest.raises(LingError, match="kind is 'both'"):
            PredictionDisplay(actual=Y[:, 0], predicted=Y[:, 0]).plot(kind="both")


class TestDecisions:
    def test_shares_of_both_classes(self, targets):
        X, Y = targets
        labels = np.where(Y[:, 0] > 0, "$up$ and $", "down")
        model = RidgeClassifier().fit(X, labels)
        shown = DecisionDisplay.from_estimator(model, X, labels)
        drawn(shown)
        assert shown.name == "class down"
        assert [sum(shares) for shares in shown.counts_] == pytest.approx([100, 100])
        assert legend(shown)[1] == f"class $up$ and $ ({np.sum(labels != 'down')})"
        np.testing.assert_array_equal(shown.belongs, labels == "down")
        assert vertical(shown) == [0]

    def test_one_of_three_classes_has_no_threshold(self, targets):
        X, Y = targets
        labels = np.digitize(Y[:, 0], [-1, 1])
        model = RidgeClassifierCV(cv=4).fit(X, labels)
        shown = DecisionDisplay.from_estimator(model, X, labels, target=1)
        theirs = cross_val_predict(
            RidgeClassifier(alpha=model.alpha_), X, labels, cv=4, method="decision_function"
        )
        np.testing.assert_allclose(shown.values, theirs[:, 1])
        assert not vertical(shown)

    def test_regressions_are_refused(self, targets):
        X, Y = targets
        with pytest.raises(LingError, match="use PredictionDisplay"):
            DecisionDisplay.from_estimator(Ridge().fit(X, Y), X, Y)


@pytest.mark.parametrize("width", [4.8, 6.4])
def test_legends_stay_in_the_picture(diabetes, width):
    X, y = diabetes
    X = X.rename(columns={"s5": "a name that is so long that it has to be cut"})
    for draw in (
        lambda ax: CVDisplay.from_estimator(RidgeCV().fit(X, y), ax=ax),
        lambda ax: PathDisplay.from_estimator(Ridge().fit(X, y), X, y, n_highlighted=4, ax=ax),
    ):
        figure, ax = plt.subplots(figsize=(width, 3.5))
        draw(ax)
        figure.canvas.draw()
        assert ax.get_legend().get_window_extent().x1 <= figure.bbox.x1 + 1


class TestPath:
    def test_draws_the_path_and_the_model_lies_on_it(self, diabetes):
        X, y = diabetes
        model = RidgeCV().fit(X, y)
        shown = PathDisplay.from_estimator(model, X, y, n_highlighted=4)
        drawn(shown)
        path = ridge_path(X, y, shown.alphas)
        assert len(shown.lines_) == 4
        for line, feature in zip(shown.lines_, shown.highlighted_, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), path.alphas)
            np.testing.assert_allclose(line.get_ydata(), path.coef[:, feature])
        at = np.flatnonzero(shown.alphas == model.alpha_)
        np.testing.assert_allclose(shown.coef[at[0]], model.coef_, rtol=1e-6)
        assert vertical(shown) == [model.alpha_]
        tried = model.alphas_
        assert (shown.alphas.min(), shown.alphas.max()) == (tried.min(), tried.max())

    def test_names_the_largest_and_the_rest_is_grey(self, diabetes):
        X, y = diabetes
        model = RidgeCV().fit(X, y)
        shown = PathDisplay.from_estimator(model, X, y, n_highlighted=4)
        largest = set(X.columns[np.argsort(-np.abs(model.coef_))[:4]])
        assert {text.get_text() for text in shown.texts_} == largest
        assert len(shown.others_.get_segments()) == 6
        assert not shown.others_.get_rasterized()
        assert any("6 other coefficients" in text for text in legend(shown))

    def test_features_without_names_are_numbered(self, diabetes):
        X, y = (part.to_numpy() for part in diabetes)
        shown = PathDisplay.from_estimator(Ridge(alpha=0.1).fit(X, y), X, y)
        assert {text.get_text() for text in shown.texts_} == {f"x{i}" for i in range(10)}
        assert shown.others_ is None
        assert vertical(shown) == [0.1]

    def test_long_names_are_shortened_and_dollars_are_no_formulas(self, diabetes):
        X, y = diabetes
        X = X.rename(columns={"bmi": f"{'long' * 20} $_^$ bmi", "s5": "$5_^"})
        shown = PathDisplay.from_estimator(RidgeCV().fit(X, y), X, y)
        drawn(shown)
        texts = {text.get_text() for text in shown.texts_}
        assert "$5_^" in texts
        assert any(text.endswith("bmi") and len(text) <= 24 for text in texts)

    @pytest.mark.parametrize("size", [(6.4, 4.8), (4.0, 3.0)])
    def test_names_do_not_overlap(self, rng, size):
        X = rng.standard_normal((50, 40))
        y = X[:, :20].sum(axis=1) + rng.standard_normal(50)
        shown = PathDisplay.from_estimator(Ridge().fit(X, y), X, y)
        shown.figure_.set_size_inches(size)
        drawn(shown)
        # Without the strokes that lead to them.
        spans = sorted(Text.get_window_extent(text).intervaly.tolist() for text in shown.texts_)
        assert all(below <= above for (_, below), (above, _) in pairwise(spans))

    def test_many_others_are_rasterised(self, rng):
        X = rng.standard_normal((20, 600))
        shown = PathDisplay.from_estimator(Ridge().fit(X, X[:, 0]), X, X[:, 0])
        assert shown.others_.get_rasterized()

    def test_degrees_of_freedom_are_on_top(self, diabetes):
        X, y = diabetes
        path = ridge_path(X, y)
        shown = PathDisplay.from_path(path, feature_names=list(X))
        (top,) = shown.ax_.child_axes
        at = np.searchsorted(path.alphas, top.get_xticks())
        labels = [label.get_text() for label in top.get_xticklabels()]
        assert labels == [f"{edf:.3g}" for edf in path.edf[at]]
        assert top.get_xlabel() == "effective degrees of freedom"

    def test_alphas_can_be_given(self, diabetes):
        X, y = diabetes
        shown = PathDisplay.from_estimator(Ridge().fit(X, y), X, y, alphas=[10.0, 0.1, 1.0])
        np.testing.assert_array_equal(shown.lines_[0].get_xdata(), [0.1, 1.0, 10.0])

    def test_one_of_several_targets(self, targets):
        X, Y = targets
        model = RidgeCV(alpha_per_target=True).fit(X, Y)
        shown = PathDisplay.from_estimator(model, X, Y, target=2)
        at = np.flatnonzero(shown.alphas == model.alpha_[2])
        np.testing.assert_allclose(shown.coef[at[0]], model.coef_[2], rtol=1e-6)
        assert shown.ax_.get_ylabel() == "coefficient for y[:, 2]"
        with pytest.raises(LingError, match="target is 3; pass one of 0 to 2"):
            PathDisplay.from_estimator(model, X, Y, target=3)

    def test_sample_weights(self, diabetes, rng):
        X, y = diabetes
        weights = rng.uniform(0.1, 3, len(y))
        model = Ridge(alpha=0.3, fit_intercept=False).fit(X, y, weights)
        shown = PathDisplay.from_estimator(model, X, y, sample_weight=weights)
        at = np.flatnonzero(shown.alphas == 0.3)
        np.testing.assert_allclose(shown.coef[at[0]], model.coef_, rtol=1e-6)

    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_a_classifier(self, diabetes, n_classes):
        X, y = diabetes
        y = np.array(["low", "middle", "top"])[
            np.digitize(y, [100, 1e9 if n_classes == 2 else 200])
        ]
        model = RidgeClassifier(alpha=0.5, class_weight="balanced").fit(X, y)
        shown = PathDisplay.from_estimator(model, X, y, target=n_classes - 2)
        at = np.flatnonzero(shown.alphas == 0.5)
        coef = np.atleast_2d(model.coef_)[n_classes - 2]
        np.testing.assert_allclose(shown.coef[at[0]], coef, rtol=1e-6)
        assert shown.ax_.get_ylabel() == "coefficient for class middle"

    def test_several_labels(self, diabetes):
        X, y = diabetes
        labels = np.stack([y > 100, y > 200, X["bmi"] > 0], axis=1).astype(int)
        model = RidgeClassifier(alpha=0.5).fit(X, labels)
        shown = PathDisplay.from_estimator(model, X, labels, target=1)
        at = np.flatnonzero(shown.alphas == 0.5)
        np.testing.assert_allclose(shown.coef[at[0]], model.coef_[1], rtol=1e-6)

    def test_others_that_blow_up_leave_the_picture_and_this_is_said(self, rng):
        X = rng.standard_normal((60, 4))
        X = np.hstack([X, X[:, :2] + 1e-4 * rng.standard_normal((60, 2))])
        y = X[:, 2] * 3 + X[:, 3] * 3 + 0.1 * rng.standard_normal(60)
        shown = PathDisplay.from_estimator(Ridge().fit(X, y), X, y, n_highlighted=2)
        assert set(shown.highlighted_) == {2, 3}
        assert np.abs(shown.coef).max() > shown.ax_.get_ylim()[1]
        assert any("off the chart" in text for text in legend(shown))

    def test_refusals(self, diabetes):
        X, y = diabetes
        with pytest.raises(LingError, match="positive=True"):
            PathDisplay.from_estimator(Ridge(positive=True).fit(X, y), X, y)
        with pytest.raises(LingError, match="n_highlighted is -1"):
            PathDisplay.from_estimator(Ridge().fit(X, y), X, y, n_highlighted=-1)
        model = sklearn.linear_model.LinearRegression().fit(X, y)
        with pytest.raises(LingError, match="which has no alpha; pass a fitted Ridge"):
            PathDisplay.from_estimator(model, X, y)

    @pytest.mark.parametrize("p", [40, 4000, 400_000])
    def test_degrees_of_freedom_are_plain_numbers_that_do_not_touch(self, p):
        from matplotlib.figure import Figure

        alphas = np.geomspace(1e-3, 1e6, 60)
        figure = Figure(figsize=(4.8, 3.5), layout="constrained")
        shown = PathDisplay(
            alphas=alphas, coef=np.outer(1 / (1 + alphas), [1.0, 2.0]), edf=p * 10 / (10 + alphas),
            feature_names=["a_rather_long_name_of_one", "b"],
        )  # fmt: skip
        shown.plot(figure.subplots())
        figure.draw_without_rendering()
        top = shown.ax_.child_axes[0]
        labels = top.get_xticklabels()
        assert labels[0].get_text() == f"{shown.edf[0]:,.0f}"
        assert not any("e+" in label.get_text() for label in labels)
        boxes = [label.get_window_extent() for label in labels]
        assert len(boxes) >= 3
        assert all(a.x1 + 2 < b.x0 for a, b in pairwise(boxes))


class TestSpectrum:
    @pytest.mark.parametrize("fit_intercept", [True, False])
    @pytest.mark.parametrize("shape", [(40, 8), (8, 40)])
    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    def test_draws_the_eigenvalues(self, rng, shape, fit_intercept, make):
        X = rng.standard_normal(shape) + 3
        model = Ridge(alpha=2.0, fit_intercept=fit_intercept).fit(make(X), X[:, 0])
        shown = SpectrumDisplay.from_estimator(model, make(X))
        drawn(shown)
        s = np.linalg.svd(X - X.mean(axis=0) if fit_intercept else X, compute_uv=False)
        d = s[s > 1e-9] ** 2
        points = shown.points_.get_offsets()
        np.testing.assert_array_equal(points[:, 0], np.arange(1, len(d) + 1))
        np.testing.assert_allclose(points[:, 1], d, rtol=1e-8)
        np.testing.assert_allclose(shown.points_.get_array(), d / (d + 2))
        assert shown.edf == pytest.approx(((d / (d + 2)).sum(),) * 2)
        assert shown.line_.get_ydata()[0] == 2.0

    def test_says_what_it_is(self, rng):
        X = rng.standard_normal((20, 30))
        model = Ridge(alpha=3.0, store_covariance=True).fit(X, X[:, 0])
        shown = SpectrumDisplay.from_estimator(model, X)
        title = shown.ax_.get_title(loc="left").splitlines()
        assert title == [
            f"effective degrees of freedom: {model.edf_:.3g} of 30",
            "11 eigenvalues are 0",
        ]
        assert "alpha = 3" in [text.get_text() for text in shown.ax_.texts]

    def test_the_right_axis_says_what_is_kept(self, diabetes):
        X, y = diabetes
        shown = SpectrumDisplay.from_estimator(Ridge(alpha=0.5).fit(X, y), X)
        (right,) = shown.ax_.child_axes
        kept = [float(label.get_text()[:-1]) / 100 for label in right.get_yticklabels()]
        at = np.asarray(right.get_yticks())
        np.testing.assert_allclose(at / (at + 0.5), kept)
        assert 0.5 in kept

    def test_weights_and_units(self, rng):
        X = rng.standard_normal((30, 4)) * 1e-40
        weights = rng.uniform(0.1, 3, 30)
        model = Ridge(alpha=1e-80).fit(X, X[:, 0], weights)
        shown = SpectrumDisplay.from_estimator(model, X, sample_weight=weights)
        centred = (X - weights @ X / weights.sum()) * np.sqrt(weights)[:, None] * 1e40
        d = np.linalg.svd(centred, compute_uv=False) ** 2
        np.testing.assert_allclose(shown.eigenvalues * 1e80, d, rtol=1e-8)
        assert shown.edf[0] == pytest.approx((d / (d + 1)).sum())

    def test_some_of_many(self, rng):
        X = rng.standard_normal((40, 8))
        shown = SpectrumDisplay.from_estimator(Ridge().fit(X, X[:, 0]), X, n_values=3)
        assert len(shown.points_.get_offsets()) == 3
        assert shown.edf[0] > 3
        assert "the 3 largest of 8" in shown.ax_.get_title(loc="left")

    @pytest.mark.parametrize("shape", [(90, 60), (60, 90)])
    @pytest.mark.parametrize("alpha", [1e-3, 10.0, 1e4])
    def test_large_data_is_bounded(self, rng, monkeypatch, shape, alpha):
        X = rng.standard_normal(shape) * np.arange(1, shape[1] + 1) ** -0.5
        model = Ridge(alpha=alpha).fit(X, X[:, 0])
        exact = SpectrumDisplay.from_estimator(model, X)
        monkeypatch.setattr(spectrum_display, "MAX_EXACT_SIZE", 50)
        shown = SpectrumDisplay.from_estimator(model, X, n_values=20)
        np.testing.assert_allclose(shown.eigenvalues, exact.eigenvalues[:20], rtol=1e-8)
        assert shown.edf[0] <= exact.edf[0] <= shown.edf[1]
        assert "from the 20 largest eigenvalues" in shown.ax_.get_title(loc="left")

    def test_an_alpha_for_each_target(self, targets):
        X, Y = targets
        model = RidgeCV(alpha_per_target=True).fit(X, Y)
        shown = SpectrumDisplay.from_estimator(model, X)
        assert shown.line_.get_ydata()[0] == np.median(model.alpha_)
        assert "at the median alpha" in shown.ax_.get_title(loc="left")

    def test_nothing_to_show(self):
        X = np.ones((9, 3))
        shown = SpectrumDisplay.from_estimator(Ridge().fit(X, np.arange(9.0)), X)
        drawn(shown)
        assert shown.edf == (0, 0)

    def test_no_penalty_has_no_line(self, diabetes):
        X, y = diabetes
        shown = SpectrumDisplay.from_estimator(Ridge(alpha=0.0).fit(X, y), X)
        drawn(shown)
        assert shown.line_ is None
        assert shown.edf[0] == pytest.approx(10)

    def test_refusals(self, diabetes):
        X, y = diabetes
        with pytest.raises(LingError, match="n_values is 0"):
            SpectrumDisplay.from_estimator(Ridge().fit(X, y), X, n_values=0)
        with pytest.raises(ValueError, match="expecting 10 features"):
            SpectrumDisplay.from_estimator(Ridge().fit(X.to_numpy(), y), np.ones((4, 3)))


ALL = {
    "cv": lambda model, X, y, ax=None: CVDisplay.from_estimator(model, ax=ax),
    "path": lambda model, X, y, ax=None: PathDisplay.from_estimator(model, X, y, ax=ax),
    "spectrum": lambda model, X, y, ax=None: SpectrumDisplay.from_estimator(model, X, ax=ax),
}


@pytest.mark.parametrize("show", ALL.values(), ids=ALL)
class TestAll:
    def test_a_given_ax_is_used(self, diabetes, show):
        figure, (left, right) = plt.subplots(1, 2)
        shown = show(RidgeCV().fit(*diabetes), *diabetes, ax=right)
        drawn(shown)
        assert shown.ax_ is right
        assert shown.figure_ is figure
        assert not left.lines
        assert plt.get_fignums() == [figure.number]

    def test_nothing_is_cut_off(self, diabetes, show):
        _, ax = plt.subplots()
        shown = show(RidgeCV().fit(*diabetes), *diabetes, ax=ax)
        drawn(shown)
        box = ax.get_tightbbox()
        width, height = shown.figure_.canvas.get_width_height()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width + 1
        assert box.y1 <= height + 1

    def test_a_layout_of_the_users_own_is_kept(self, diabetes, show):
        figure, ax = plt.subplots(layout="compressed")
        engine = figure.get_layout_engine()
        show(RidgeCV().fit(*diabetes), *diabetes, ax=ax)
        assert figure.get_layout_engine() is engine

    def test_plot_can_be_called_again(self, diabetes, show):
        shown = show(RidgeCV().fit(*diabetes), *diabetes)
        first = shown.ax_
        assert shown.plot() is shown
        assert shown.ax_ is not first
        assert len(shown.ax_.lines) == len(first.lines)

    def test_a_model_that_is_not_fitted(self, diabetes, show):
        with pytest.raises(NotFittedError):
            show(RidgeCV(), *diabetes)

    def test_says_how_to_install_matplotlib(self, diabetes, show, monkeypatch):
        model = RidgeCV().fit(*diabetes)
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        with pytest.raises(ImportError, match=r"Display.plot needs matplotlib.*ling\[plot\]"):
            show(model, *diabetes)


def test_matplotlib_is_loaded_by_plot_alone():
    code = "from ling import CVDisplay; import sys; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@given(
    wanted=st.lists(st.floats(0, 100), min_size=1, max_size=12).map(sorted), gap=st.floats(0.1, 8)
)
def test_labels_are_moved_apart(wanted, gap):
    found = _separate_labels(np.array(wanted), gap, 0.0, 100.0)
    assert (np.diff(found) >= gap - 1e-9).all()
    assert found.min() >= -1e-9
    assert found.max() <= 100 + 1e-9
    if (np.diff(wanted) >= gap).all():
        np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.parametrize(
    "draw",
    [
        lambda model, X, y: CVDisplay.from_estimator(model),
        lambda model, X, y: PathDisplay.from_estimator(model, X, y),
        lambda model, X, y: SpectrumDisplay.from_estimator(model, X),
    ],
)
def test_models_inside_of_others_are_pointed_at(diabetes, draw):
    X, y = diabetes
    pipeline = make_pipeline(StandardScaler(), RidgeCV()).fit(X, y)
    with pytest.raises(LingError, match=r"is a Pipeline.*the last step.*pipeline\[-1\]"):
        draw(pipeline, X, y)
    draw(pipeline[-1], pipeline[:-1].transform(X), y)
    search = GridSearchCV(RidgeCV(), {"fit_intercept": [True, False]}, cv=2).fit(X, y)
    with pytest.raises(LingError, match=r"is a GridSearchCV.*best_estimator_"):
        draw(search, X, y)
    draw(search.best_estimator_, X, y)
