"""Reports of fits at the edge of what can be fitted: what is said, and what is left out."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold

from ling import Ridge, RidgeCV
from tests.report.pages import report


def normal(n, p):
    return np.random.default_rng(0).standard_normal((n, p))


def noisy(X):
    return X.sum(axis=1) + normal(len(X), 1)[:, 0]


#: By name: a model with its data, and by section what is read there ("" is the whole page). With
#: pictures, since scales and axes are what fails at the edges.
DRAWN = {
    "five rows": (Ridge(), normal(5, 2), noisy(normal(5, 2)), {}),
    "one column": (
        RidgeCV(cv=3),
        normal(30, 1),
        normal(30, 1)[:, 0] + 1,
        {"": ["from 1 column, on 30 rows"]},
    ),
    "more columns than rows": (RidgeCV(), normal(20, 90), noisy(normal(20, 90)), {}),
    "a constant target": (
        Ridge(),
        normal(30, 3),
        np.full(30, 7.1),
        {"": ["does not vary"], "notes": ["A target is constant"]},
    ),
    "constant columns": (
        Ridge(),
        np.ones((30, 2)),
        normal(30, 1)[:, 0],
        {"spectrum": ["Not shown. The columns do not vary."], "": ["No column counts."]},
    ),
    "alpha of 0": (
        Ridge(alpha=0),
        normal(30, 3),
        normal(30, 3)[:, 0],
        {
            "proof": ["Nothing is proved"],
            "notes": ["not certified: alpha is 0"],
            "coefficients": ["Standard errors need an alpha above 0."],
            "": ["not proved"],
        },
    ),
    "a very large alpha": (Ridge(alpha=1e300), normal(40, 3), noisy(normal(40, 3)), {}),
}


@pytest.mark.parametrize(("model", "X", "y", "sections"), DRAWN.values(), ids=DRAWN)
def test_drawn(model, X, y, sections, tmp_path):
    page = report(tmp_path, model.fit(X, y), X, y)
    for section, words in sections.items():
        for some in words:
            assert some in (page.section(section) if section else page.text)


def test_very_large_and_small_targets_are_no_constants(tmp_path):
    X = normal(40, 3)
    Y = noisy(X)[:, None] * [1e200, 1e-200]
    assert "does not vary" not in report(tmp_path, Ridge().fit(X, Y), X, Y).text


@pytest.mark.parametrize("X", [np.ones((1, 2)), normal(1, 3)], ids=["ones", "normal"])
def test_one_row(X, tmp_path):
    """Its standard errors are not known, and are no intervals."""
    y = np.ones(1)
    page = report(tmp_path, Ridge(store_covariance=True).fit(X, y), X, y)
    assert "Not shown. X has only one sample" in page.section("quality")
    assert "0 to 0" not in page.text


def test_coefficients_above_0(tmp_path):
    X = normal(60, 3)
    y = X @ [1.0, 2.0, -3.0] + normal(60, 4)[:, 3]
    page = report(tmp_path, Ridge(positive=True).fit(X, y), X, y, drawn=False)
    assert "kept at or above 0" in page.section("spectrum")
    coefficients = page.section("coefficients")
    assert "alpha: the coefficients are kept at or above 0, to which this does not" in coefficients
    assert "Coefficients that are kept at or above 0 have no standard errors" in coefficients


def test_no_intercept(tmp_path):
    X = normal(30, 3) + 5
    page = report(tmp_path, Ridge(fit_intercept=False).fit(X, X[:, 0]), X, X[:, 0], drawn=False)
    assert "root mean square, all others fixed" in page.text


def test_no_column_counts_where_none_helps(rng, tmp_path):
    X, y = rng.standard_normal((100, 3)), rng.standard_normal(100)
    page = report(tmp_path, Ridge(alpha=1e8).fit(X, y), X, y, drawn=False)
    assert "No column counts." in page.text
    assert "raises the prediction" not in page.text


def test_parameters_without_a_default(tmp_path):
    class Mine(Ridge):
        def __init__(self, alpha):
            super().__init__(alpha)

    X = normal(40, 3)
    page = report(tmp_path, Mine(2.0).fit(X, noisy(X)), X, noisy(X), drawn=False)
    assert "alpha=2.0" in page.text


class TestNotes:
    def test_the_end_of_the_grid(self, diabetes, tmp_path):
        model = RidgeCV(alphas=[10, 100, 1000]).fit(*diabetes)
        page = report(tmp_path, model, *diabetes, drawn=False)
        assert "The best alpha is the smallest of alphas, 10" in page.section("notes")

    def test_alphas_without_a_proof(self, rng, tmp_path):
        X = rng.standard_normal((60, 5))
        X = np.c_[X, X[:, 0] + 1e-9 * rng.standard_normal(60)]
        y = X[:, 0] + rng.standard_normal(60)
        model = RidgeCV([1e-14, 1e-13, 0.01, 1.0, 10.0, 100.0], cv=3).fit(X, y)
        assert model.alpha_ >= 1
        page = report(tmp_path, model, X, y, drawn=False)
        assert "The 2 smallest alphas were scored without a proof" in page.section("notes")

    def test_splits_that_cannot_be_made_again(self, diabetes, tmp_path):
        X, y = diabetes
        groups = np.arange(len(y)) // 10
        model = RidgeCV(cv=GroupKFold(4)).fit(X, y, groups=groups)
        page = report(tmp_path, model, X, y, drawn=False)
        assert "could not be made again: The 'groups' parameter" in page.section("notes")

    def test_rows_that_are_never_left_out(self, diabetes, tmp_path):
        splits = [(np.arange(100, 442), np.arange(100))]
        model = RidgeCV(cv=splits, scoring="r2").fit(*diabetes)
        page = report(tmp_path, model, *diabetes, drawn=False)
        assert "342 rows were in no test set" in page.section("notes")
        assert "100 of 442 rows" in page.section("quality")
