"""PredictionDisplay and DecisionDisplay: every number here is read back from the picture."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_predict

from ling import (
    DecisionDisplay,
    PredictionDisplay,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from ling.errors import InputTypeError, OptionError
from tests.raising import raises
from tests.report.displays import drawn, legend, vertical

pytestmark = pytest.mark.usefixtures("closed_figures")


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
        with raises(OptionError, "target", mentions="from 0 to 2"):
            PredictionDisplay.from_estimator(model, X, Y, target=3)

    def test_what_it_cannot_draw(self, targets):
        X, Y = targets
        with raises(InputTypeError, "model", mentions="DecisionDisplay"):
            PredictionDisplay.from_estimator(RidgeClassifier().fit(X, Y[:, 0] > 0), X, Y[:, 0] > 0)
        with raises(OptionError, "kind", mentions="'both'"):
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
        with raises(InputTypeError, "model", mentions="PredictionDisplay"):
            DecisionDisplay.from_estimator(Ridge().fit(X, Y), X, Y)
