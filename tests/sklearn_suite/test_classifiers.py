"""scikit-learn's tests of its RidgeClassifier and RidgeClassifierCV, on ours."""

import pytest

import ling
from tests.sklearn_suite.suite import Suite

pytestmark = [
    # Their tests try few alphas, and the best is often the first or the last of them.
    pytest.mark.filterwarnings("ignore::ling.errors.EdgeOfGrid"),
    # One of them has a class with fewer samples than there are folds.
    pytest.mark.filterwarnings("ignore:The least populated class in y has only"),
]

EXCLUDED = {
    "test_ridge_gcv_cv_results_not_stored[ridge1-make_classification]": (
        "asserts that there is no cv_results_ unless samples are stored: ling's is always there, "
        "with a score for every alpha"
    ),
}

SUITE = Suite(
    module="sklearn.linear_model.tests.test_ridge",
    classes={
        "RidgeClassifier": ling.RidgeClassifier,
        "RidgeClassifierCV": ling.RidgeClassifierCV,
    },
    excluded=EXCLUDED,
)
globals().update(SUITE.tests())
