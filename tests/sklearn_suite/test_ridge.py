"""scikit-learn's tests of its Ridge, on ours."""

import pytest

import ling
from tests.sklearn_suite.suite import Suite

SUITE = Suite(
    module="sklearn.linear_model.tests.test_ridge",
    classes={"Ridge": ling.Ridge},
    excluded={},
    changed={},
)
globals().update(SUITE.tests())
