"""What the suite leaves out is still there to be left out, and it runs what it should."""

import subprocess
import sys
from itertools import combinations, product
from pathlib import Path

import pytest

import ling
from tests.pairwise import every_pair
from tests.sklearn_suite import test_estimators
from tests.sklearn_suite.test_estimators import SUITE
from tests.versions import sklearn_from

THEIRS = SUITE.load()
of_this_version = sklearn_from(9, "exclusions and changes are those of scikit-learn 1.9")


@pytest.mark.processes
@of_this_version
def test_every_exclusion_names_a_test():
    collect = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly"]
    found = subprocess.run(
        [*collect, test_estimators.__file__],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = {line.split("::", 1)[1] for line in found.stdout.splitlines() if "::" in line}
    assert set(SUITE.excluded) <= names | {name.partition("[")[0] for name in names}


def test_every_exclusion_and_change_has_a_reason():
    reasons = [*SUITE.excluded.values(), *(why for _, why in SUITE.changed.values())]
    assert all(len(reason.split()) > 4 for reason in reasons)


@of_this_version
def test_what_is_changed_occurs_once_in_their_source():
    counts = {piece: SUITE.source.count(piece) for piece in SUITE.changed}
    assert counts == dict.fromkeys(SUITE.changed, 1)


@pytest.mark.parametrize(
    ("name", "parameter", "wanted"),
    [
        ("test_ridge_shapes_type", None, True),
        ("test_ridge_positive_error_test", "svd", True),
        ("test_ridgecv_int_alphas", None, True),
        ("test_class_weights", None, True),
        ("test_primal_dual_relationship", None, False),
        ("test_dense_sparse", None, False),
        ("test_dense_sparse", THEIRS._test_tolerance, True),
        ("test_dense_sparse", THEIRS._test_ridge_classifiers, True),
        ("test_ridge_array_api_compliance", THEIRS.Ridge(), True),
        ("test_class_weight_vs_sample_weight", THEIRS.RidgeClassifierCV, True),
    ],
)
def test_only_tests_that_use_our_classes_are_wanted(name, parameter, wanted):
    assert SUITE.wants(getattr(THEIRS, name), {"parameter": parameter}) is wanted


def test_theirs_is_replaced_in_the_copy_only():
    from sklearn import linear_model
    from sklearn.linear_model.tests import test_ridge as original

    for name, ours in SUITE.classes.items():
        assert getattr(THEIRS, name) is ours is getattr(ling, name)
        assert getattr(original, name) is getattr(linear_model, name) is not ours


def test_every_pair_of_values_is_kept():
    cases = list(product("ab", "cde", "fg", "hi", "jk"))
    kept = [cases[i] for i in every_pair(cases)]
    assert len(kept) < 12
    for i, j in combinations(range(5), 2):
        assert {(case[i], case[j]) for case in kept} == {(case[i], case[j]) for case in cases}
    assert every_pair([("a",), ("b",)]) == []
