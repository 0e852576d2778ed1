"""What the suites leave out is still there to be left out, and they run what they should."""

import subprocess
import sys
from pathlib import Path

import pytest

import ling
from tests.sklearn_suite import test_ridge

MODULES = [test_ridge]
every_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
RIDGE = test_ridge.SUITE.load()


@pytest.fixture(scope="module")
def collected():
    """Names of all tests that the suites run, with their parameters."""
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly",
         *(module.__file__ for module in MODULES)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {line.split("::", 1)[1] for line in found.stdout.splitlines() if "::" in line}


@every_module
def test_every_exclusion_names_a_test(module, collected):
    without_parameters = {name.partition("[")[0] for name in collected}
    assert set(module.SUITE.excluded) <= collected | without_parameters


@every_module
def test_every_exclusion_and_change_has_a_reason(module):
    reasons = [*module.SUITE.excluded.values(), *(why for _, why in module.SUITE.changed.values())]
    assert all(len(reason.split()) > 4 for reason in reasons)


@every_module
def test_what_is_changed_occurs_once_in_their_source(module):
    source = module.SUITE.source
    assert {piece: source.count(piece) for piece in module.SUITE.changed} == dict.fromkeys(
        module.SUITE.changed, 1
    )


@pytest.mark.parametrize(
    ("name", "parameters", "wanted"),
    [
        ("test_ridge_shapes_type", {}, True),
        ("test_ridge_positive_error_test", {"solver": "svd"}, True),
        ("test_ridge_cv_individual_penalties", {}, True),
        ("test_primal_dual_relationship", {}, False),
        ("test_ridgecv_int_alphas", {}, False),
        ("test_class_weights", {}, False),
        ("test_dense_sparse", {"test_func": RIDGE._test_tolerance}, True),
        ("test_dense_sparse", {"test_func": RIDGE._test_ridge_classifiers}, False),
        ("test_ridge_array_api_compliance", {"estimator": RIDGE.Ridge()}, True),
        ("test_ridge_array_api_compliance", {"estimator": RIDGE.RidgeCV()}, False),
    ],
)
def test_only_tests_that_use_our_classes_are_wanted(name, parameters, wanted):
    assert test_ridge.SUITE.wants(getattr(RIDGE, name), parameters) is wanted


def test_theirs_is_replaced_in_the_copy_only():
    from sklearn.linear_model import Ridge
    from sklearn.linear_model.tests import test_ridge as original

    assert RIDGE.Ridge is ling.Ridge
    assert original.Ridge is Ridge is not ling.Ridge
