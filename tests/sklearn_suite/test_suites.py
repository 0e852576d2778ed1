"""What the suites leave out is still there to be left out, and they run what they should."""

import subprocess
import sys
from pathlib import Path

import pytest

import ling
from tests.sklearn_suite import test_classifiers, test_ridge, test_ridge_cv

MODULES = [test_ridge, test_ridge_cv, test_classifiers]
LOADED = [module.SUITE.load() for module in MODULES]
every_module = pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)


@pytest.fixture(scope="module")
def collected():
    """Names of all tests that each suite runs, with their parameters."""
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly",
         *(module.__file__ for module in MODULES)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = [line.split("::", 1) for line in found.stdout.splitlines() if "::" in line]
    return {
        module: {name for file, name in names if Path(file).name == Path(module.__file__).name}
        for module in MODULES
    }


@every_module
def test_every_exclusion_names_a_test(module, collected):
    names = collected[module]
    assert set(module.SUITE.excluded) <= names | {name.partition("[")[0] for name in names}


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


def nothing(theirs):
    return None


@pytest.mark.parametrize(
    ("name", "parameter", "wanted"),
    [
        ("test_ridge_shapes_type", nothing, {test_ridge}),
        ("test_ridge_positive_error_test", lambda theirs: "svd", {test_ridge}),
        ("test_ridge_cv_individual_penalties", nothing, {test_ridge, test_ridge_cv}),
        ("test_primal_dual_relationship", nothing, set()),
        ("test_ridgecv_int_alphas", nothing, {test_ridge_cv}),
        ("test_class_weights", nothing, {test_classifiers}),
        ("test_dense_sparse", lambda theirs: theirs._test_tolerance, {test_ridge}),
        ("test_dense_sparse", lambda theirs: theirs._test_ridge_cv, {test_ridge_cv}),
        ("test_dense_sparse", lambda theirs: theirs._test_ridge_classifiers, {test_classifiers}),
        ("test_ridge_array_api_compliance", lambda theirs: theirs.Ridge(), {test_ridge}),
        ("test_ridge_array_api_compliance", lambda theirs: theirs.RidgeCV(), {test_ridge_cv}),
        (
            "test_class_weight_vs_sample_weight",
            lambda theirs: theirs.RidgeClassifierCV,
            {test_classifiers},
        ),
    ],
)
def test_only_tests_that_use_our_classes_are_wanted(name, parameter, wanted):
    found = {
        module
        for module, theirs in zip(MODULES, LOADED, strict=True)
        if module.SUITE.wants(getattr(theirs, name), {"parameter": parameter(theirs)})
    }
    assert found == wanted


def test_theirs_is_replaced_in_the_copy_only():
    from sklearn import linear_model
    from sklearn.linear_model.tests import test_ridge as original

    for module, theirs in zip(MODULES, LOADED, strict=True):
        for name, ours in module.SUITE.classes.items():
            assert getattr(theirs, name) is ours is getattr(ling, name)
            assert getattr(original, name) is getattr(linear_model, name) is not ours
