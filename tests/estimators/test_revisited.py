"""Held-out predictions are those of fits that have not seen the sample, whatever the model."""

import numpy as np
import pandas as pd
import pytest
import sklearn.linear_model as sk
from scipy import sparse
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_predict,
)

from ling import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV, scan_npy
from ling.errors import InputTypeError, OptionError, ShapeError
from ling.estimators.out_of_sample import predict_held_out, rebuild_problem
from ling.model_selection import strategy
from tests.raising import raises

SHUFFLED = KFold(5, shuffle=True, random_state=0)


@pytest.fixture
def data(rng):
    X = rng.standard_normal((90, 6)) * [1, 2, 3, 4, 5, 6] + 10
    return X, X @ rng.standard_normal(6) + rng.standard_normal(90)


def found(model, X, y, weights=None):
    return predict_held_out(rebuild_problem(model, X, y, weights)).predictions


class TestRegressions:
    @pytest.mark.parametrize(
        ("cv", "theirs"), [(4, 4), (KFold(3), KFold(3)), (None, LeaveOneOut())]
    )
    def test_the_model_s_own_cv(self, data, cv, theirs):
        X, y = data
        model = RidgeCV(cv=cv).fit(X, y)
        expected = cross_val_predict(sk.Ridge(model.alpha_), X, y, cv=theirs)
        np.testing.assert_allclose(found(model, X, y)[:, 0], expected, rtol=1e-8)

    def test_five_folds_without_one(self, data):
        X, y = data
        expected = cross_val_predict(sk.Ridge(3.0), X, y, cv=SHUFFLED)
        np.testing.assert_allclose(found(Ridge(3.0).fit(X, y), X, y)[:, 0], expected, rtol=1e-8)

    @pytest.mark.parametrize("intercept", [True, False])
    def test_weights_and_intercept(self, data, rng, intercept):
        X, y = data
        weights = rng.uniform(0, 2, len(y))
        expected = np.empty(len(y))
        for train, test in SHUFFLED.split(X):
            fit = sk.Ridge(2.0, fit_intercept=intercept).fit(X[train], y[train], weights[train])
            expected[test] = fit.predict(X[test])
        model = Ridge(2.0, fit_intercept=intercept).fit(X, y, weights)
        np.testing.assert_allclose(found(model, X, y, weights)[:, 0], expected, rtol=1e-8)

    def test_every_target_with_its_own_alpha(self, data, rng):
        X, y = data
        Y = np.c_[y, rng.standard_normal(90), y[::-1]]
        model = RidgeCV(cv=3, alpha_per_target=True).fit(X, Y)
        assert len(set(model.alpha_)) > 1
        predictions = found(model, X, Y)
        for t in range(3):
            expected = cross_val_predict(sk.Ridge(model.alpha_[t]), X, Y[:, t], cv=3)
            np.testing.assert_allclose(predictions[:, t], expected, rtol=1e-7)

    def test_no_penalty(self, data):
        X, y = data
        expected = cross_val_predict(sk.LinearRegression(), X, y, cv=SHUFFLED)
        np.testing.assert_allclose(found(Ridge(0.0).fit(X, y), X, y)[:, 0], expected, rtol=1e-6)

    def test_coefficients_above_0(self, data):
        X, y = data
        model = Ridge(0.5, positive=True).fit(X, y)
        expected = cross_val_predict(Ridge(0.5, positive=True), X, y, cv=SHUFFLED)
        np.testing.assert_allclose(found(model, X, y)[:, 0], expected, rtol=1e-6)

    def test_more_columns_than_rows(self, rng):
        X, y = rng.standard_normal((25, 60)), rng.standard_normal(25)
        model = RidgeCV(cv=5).fit(X, y)
        expected = cross_val_predict(sk.Ridge(model.alpha_), X, y, cv=5)
        np.testing.assert_allclose(found(model, X, y)[:, 0], expected, rtol=1e-6)

    def test_sparse_and_frames(self, data):
        X, y = data
        expected = found(Ridge().fit(X, y), X, y)
        rows = sparse.csr_array(X)
        np.testing.assert_allclose(found(Ridge().fit(rows, y), rows, y), expected)
        frame = pd.DataFrame(X).rename(columns=str)
        np.testing.assert_allclose(found(Ridge().fit(frame, y), frame, y), expected)

    def test_data_that_is_read_has_folds_of_consecutive_rows(self, data, tmp_path):
        X, y = (np.tile(part.T, 700).T for part in data)
        np.save(tmp_path / "X.npy", X)
        scan = scan_npy(tmp_path / "X.npy", y=y)
        model = Ridge(memory_budget=5.5e6).fit(scan.X, y)
        again = rebuild_problem(model, scan.X, y)
        assert again.is_out_of_core
        expected = cross_val_predict(sk.Ridge(), X, y, cv=KFold(5))
        np.testing.assert_allclose(predict_held_out(again).predictions[:, 0], expected, rtol=1e-8)

    def test_a_budget_that_is_too_small_says_so(self, data, tmp_path):
        X, y = (np.tile(part.T, 40).T for part in data)
        np.save(tmp_path / "X.npy", X)
        scan = scan_npy(tmp_path / "X.npy", y=y)
        model = Ridge(memory_budget=2e5).fit(scan.X, y)
        with raises(OptionError, "memory_budget", mentions="3600 rows"):
            found(model, scan.X, y)

    def test_folds_by_shared_passes(self, data, monkeypatch):
        X, y = data
        model = RidgeCV(cv=4, tol=1e-8).fit(X, y)
        monkeypatch.setattr(strategy, "is_iteration_worthwhile", lambda *_: True)
        found = predict_held_out(rebuild_problem(model, X, y))
        expected = cross_val_predict(sk.Ridge(model.alpha_), X, y, cv=4)
        np.testing.assert_allclose(found.predictions[:, 0], expected, rtol=1e-5)
        assert found.certified


class TestSplits:
    def test_samples_in_several_test_sets_have_their_mean(self, data):
        X, y = data
        cv = ShuffleSplit(6, test_size=0.3, random_state=1)
        model = RidgeCV(cv=cv).fit(X, y)
        total, count = np.zeros(90), np.zeros(90)
        for train, test in cv.split(X):
            total[test] += sk.Ridge(model.alpha_).fit(X[train], y[train]).predict(X[test])
            count[test] += 1
        again = predict_held_out(rebuild_problem(model, X, y))
        assert count.min() == 0
        assert count.max() > 1
        np.testing.assert_array_equal(again.rows, np.flatnonzero(count))
        np.testing.assert_allclose(
            again.predictions[again.rows, 0], (total / count.clip(1))[again.rows], rtol=1e-8
        )

    def test_groups_are_not_known_any_more(self, data):
        X, y = data
        model = RidgeCV(cv=GroupKFold(3)).fit(X, y, groups=np.arange(90) % 9)
        again = predict_held_out(rebuild_problem(model, X, y))
        assert "groups" in again.notes[0]
        expected = cross_val_predict(sk.Ridge(model.alpha_), X, y, cv=SHUFFLED)
        np.testing.assert_allclose(again.predictions[:, 0], expected, rtol=1e-8)

    def test_estimated_leave_one_out_is_not_taken_for_true(self, data):
        X, y = data
        model = RidgeCV(gcv_mode="stochastic").fit(X, y)
        again = predict_held_out(rebuild_problem(model, X, y))
        assert "estimated" in again.notes[0]
        expected = cross_val_predict(sk.Ridge(model.alpha_), X, y, cv=SHUFFLED)
        np.testing.assert_allclose(again.predictions[:, 0], expected, rtol=1e-8)

    def test_two_samples_are_enough_and_one_is_not(self, rng):
        X, y = rng.standard_normal((2, 3)), np.array([1.0, 2.0])
        np.testing.assert_allclose(found(Ridge().fit(X, y), X, y)[:, 0], y[::-1])
        with raises(OptionError, "X"):
            found(Ridge().fit(X[:1], y[:1]), X[:1], y[:1])


class TestClassifiers:
    def test_folds_are_stratified(self, data):
        X, y = data
        labels = np.where(y > np.quantile(y, 0.8), "high", "low")
        model = RidgeClassifier().fit(X, labels)
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        expected = cross_val_predict(
            sk.RidgeClassifier(), X, labels, cv=folds, method="decision_function"
        )
        np.testing.assert_allclose(found(model, X, labels)[:, 0], expected, rtol=1e-8)

    def test_three_classes_and_their_weights(self, data):
        X, y = data
        labels = np.digitize(y, np.quantile(y, [0.3, 0.8]))
        model = RidgeClassifierCV(cv=4, class_weight={0: 1.0, 1: 2.0, 2: 3.0}).fit(X, labels)
        theirs = sk.RidgeClassifier(model.alpha_, class_weight=model.class_weight)
        expected = cross_val_predict(theirs, X, labels, cv=4, method="decision_function")
        np.testing.assert_allclose(found(model, X, labels), expected, rtol=1e-7)

    def test_a_class_with_one_sample(self, data):
        X, _ = data
        labels = np.zeros(90, dtype=int)
        labels[3] = 1
        assert np.isfinite(found(RidgeClassifier().fit(X, labels), X, labels)).all()


def test_what_does_not_fit_is_refused(data):
    X, y = data
    with raises(InputTypeError, "model", mentions="pass a fitted ling.Ridge"):
        rebuild_problem(sk.Ridge().fit(X, y), X, y)
    with raises(ShapeError, "X", mentions="90"):
        rebuild_problem(Ridge().fit(X, y), X[:50], y[:50])
    with raises(ShapeError, "y", mentions="2 targets"):
        rebuild_problem(Ridge().fit(X, y), X, np.c_[y, y])
    classifier = RidgeClassifier().fit(X, np.where(y > 0, "a", "b"))
    with raises(OptionError, "y", mentions="'c'"):
        rebuild_problem(classifier, X, np.where(y > 0, "a", "c"))
    with pytest.raises(ValueError, match="features"):
        rebuild_problem(Ridge().fit(X, y), X[:, :3], y)


@pytest.mark.parametrize(
    ("cv", "words"),
    [
        (4, "4-fold cross-validation"),
        (None, "exact leave-one-out"),
        (ShuffleSplit(3, random_state=0), "3 splits"),
    ],
)
def test_how_samples_were_left_out_in_words(data, cv, words):
    X, y = data
    assert predict_held_out(rebuild_problem(RidgeCV(cv=cv).fit(X, y), X, y)).how == words
