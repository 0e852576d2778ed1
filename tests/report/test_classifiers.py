"""Reports of classifiers: accuracy, confusions, classes and labels."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import accuracy_score
from sklearn.model_selection import cross_val_predict

from ling import RidgeClassifier, RidgeClassifierCV
from ling.wording import format_percent
from tests.report.pages import report


@pytest.mark.parametrize(("make", "drawn"), [(RidgeClassifier, True), (RidgeClassifierCV, False)])
def test_two_classes_with_names(make, drawn, tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    X, y = X[50:], np.where(y[50:] == 1, "versicolor", "<b>virginica")
    page = report(tmp_path, make().fit(X, y), X, y, target="kind", drawn=drawn)
    assert "one of 2 classes" in page.text
    assert "<b>virginica" in page.text
    assert "Decision values of class versicolor and of class <b>virginica, held out" in (
        page.pictures
    )
    assert 'class="confusion"' in page.source
    assert "found (recall)" in page.section("quality")


@pytest.fixture(scope="module")
def ten(folder):
    """RidgeClassifierCV of ten digits, its page, the digits, and the predictions of five folds."""
    X, y = load_digits(return_X_y=True)
    model = RidgeClassifierCV(cv=5).fit(X, y)
    expected = cross_val_predict(RidgeClassifier(alpha=model.alpha_), X, y, cv=5)
    return model, report(folder, model, X, y, target="digit", drawn=False), y, expected


class TestTenClasses:
    def test_accuracy(self, ten):
        model, page, y, expected = ten
        assert f"{100 * accuracy_score(y, expected):.1f} %" in page.text
        assert f"{format_percent(model.best_score_)} accuracy, cross-validated" in page.text

    def test_confusions(self, ten):
        _, page, y, expected = ten
        assert len(re.findall(r'<td class="right"', page.source)) == 10
        right = int(re.findall(r'<td class="right"[^>]*>(\d+)', page.source)[4])
        assert right == np.sum((y == 4) & (expected == 4))

    def test_three_classes_have_pictures(self, ten):
        _, page, _, _ = ten
        assert page.source.count('<div class="view"') == 6
        assert "worst predicted" in page.text


def test_more_classes_than_a_table_can_show(rng, tmp_path):
    X = rng.standard_normal((300, 4))
    y = rng.integers(0, 25, 300)
    page = report(tmp_path, RidgeClassifier().fit(X, y), X, y, drawn=False)
    assert "Most frequent mistakes" in page.text
    assert 'class="confusion"' not in page.source


def test_several_labels(rng, tmp_path):
    X = rng.standard_normal((60, 3))
    Y = (X @ rng.standard_normal((3, 2)) > 0).astype(int)
    page = report(tmp_path, RidgeClassifier().fit(X, Y), X, Y)
    assert "Labels, held out" in page.text
    assert "Decision values of label 1 and of without it, held out" in page.pictures
