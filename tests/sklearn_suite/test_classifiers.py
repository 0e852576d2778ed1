"""scikit-learn's tests of its RidgeClassifier and RidgeClassifierCV, on ours."""

import pytest

import ling
from tests.sklearn_suite.suite import Suite

pytestmark = [
    # One of them has a class with fewer samples than there are folds.
    pytest.mark.filterwarnings("ignore:The least populated class in y has only"),
]

SUITE = Suite(
    module="sklearn.linear_model.tests.test_ridge",
    classes={
        "RidgeClassifier": ling.RidgeClassifier,
        "RidgeClassifierCV": ling.RidgeClassifierCV,
    },
)
globals().update(SUITE.tests())
