"""CVDisplay and PathDisplay: every number here is read back from the picture."""

from dataclasses import replace
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
import sklearn.linear_model
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text
from sklearn.metrics import make_scorer, mean_absolute_error

from ling import (
    CVDisplay,
    PathDisplay,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    ridge_path,
)
from ling.errors import InputTypeError, OptionError
from ling.report.path_display import _separate_labels
from tests.raising import raises
from tests.report.displays import drawn, legend, vertical

pytestmark = pytest.mark.usefixtures("closed_figures")


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
    @pytest.mark.filterwarnings("ignore:Data has no positive values")  # Matplotlib 3.9
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
            with raises(InputTypeError, "model", mentions="ling.RidgeCV"):
                CVDisplay.from_estimator(model.fit(*diabetes))

    def test_refuses_0_alone(self, diabetes):
        with raises(OptionError, "alphas"):
            CVDisplay.from_estimator(RidgeCV([0.0], cv=3).fit(*diabetes))


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
        with raises(OptionError, "target", mentions="from 0 to 2"):
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
        with raises(OptionError, "model", mentions="positive=True"):
            PathDisplay.from_estimator(Ridge(positive=True).fit(X, y), X, y)
        with raises(OptionError, "n_highlighted", mentions="-1"):
            PathDisplay.from_estimator(Ridge().fit(X, y), X, y, n_highlighted=-1)
        model = sklearn.linear_model.LinearRegression().fit(X, y)
        with raises(InputTypeError, "model", mentions="LinearRegression"):
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
