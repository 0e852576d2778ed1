"""Fitted models as plain data: pickles, copies and readers that trust nothing but plain types."""

import copy
import pickle
from dataclasses import dataclass
from types import GenericAlias, SimpleNamespace
from typing import Any, TypeVar

import joblib
import numpy as np
import pytest
from sklearn import linear_model

import ling
from ling.plain_state import CLASS_KEY, FIELDS_KEY, _has_type, from_plain, to_plain
from ling.results import Certificate, Cost, Status

Scalar = TypeVar("Scalar", bound=np.generic)
RNG = np.random.default_rng(0)
X = RNG.standard_normal((120, 6))
Y = X @ RNG.standard_normal((6, 2)) + RNG.standard_normal((120, 2))
KINDS = np.array(["red", "green", "blue"])[np.arange(120) % 3]

MODELS = {
    "ridge": lambda: ling.Ridge().fit(X, Y[:, 0]),
    "ridge-covariance": lambda: ling.Ridge(store_covariance=True).fit(X, Y),
    "ridge-draws": lambda: ling.Ridge(store_covariance=True, memory_budget=200).fit(X, Y[:, 0]),
    "ridge-partial": lambda: ling.Ridge().partial_fit(X, Y),
    "cv": lambda: ling.RidgeCV().fit(X, Y[:, 0]),
    "cv-folds": lambda: ling.RidgeCV([0.1, 1.0], cv=3, alpha_per_target=True).fit(X, Y),
    "classifier": lambda: ling.RidgeClassifier().fit(X, KINDS),
    "classifier-cv": lambda: ling.RidgeClassifierCV().fit(X, Y[:, 0] > 0),
    "ling": lambda: ling.LingRegressor(n_iter=4).fit(X, Y),
    "ling-classifier": lambda: ling.LingClassifier(n_iter=4).fit(X, KINDS),
    "classifier-labels": lambda: ling.RidgeClassifier().fit(X, (Y > 0).astype(int)),
}
COPIES = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


def types_in(value):
    """All types that `value` consists of; of object arrays, those of their elements too."""
    yield type(value)
    if isinstance(value, dict):
        for pair in value.items():
            yield from types_in(pair)
    elif isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype == "O"):
        for item in value:
            yield from types_in(item)


@every_model
def test_the_state_is_plain_data(make):
    state = make().__getstate__()
    allowed = (type(None), bool, int, float, str, tuple, list, dict, np.ndarray, np.number)
    assert [kind for kind in types_in(state) if not issubclass(kind, allowed)] == []


@every_model
@pytest.mark.parametrize("make_copy", COPIES.values(), ids=COPIES)
def test_a_copy_is_the_same_model(make, make_copy):
    model = make()
    again = make_copy(model)
    np.testing.assert_array_equal(again.predict(X), model.predict(X), strict=True)
    assert str(again.report_) == str(model.report_)
    assert again.report_.status is model.report_.status
    assert vars(again).keys() == vars(model).keys()
    if getattr(model, "store_covariance", False):
        np.testing.assert_array_equal(again.coef_std_errors(), model.coef_std_errors())


def test_joblib_keeps_a_model(tmp_path):
    model = ling.RidgeCV().fit(X, Y)
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("p", [5, 50, 900])
@pytest.mark.parametrize("name", ["Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV"])
def test_pickles_are_at_most_four_times_as_large_as_those_of_scikit_learn(name, p):
    """But for the scores of the default grid of RidgeCV, which scikit-learn does not keep."""
    rng = np.random.default_rng(p)
    features = rng.standard_normal((1000, p))
    y = features[:, 0] + rng.standard_normal(1000)
    y = y > 0 if "Classifier" in name else y
    ours, theirs = (getattr(package, name)().fit(features, y) for package in (ling, linear_model))
    size_of_scores = 0
    if name == "RidgeCV":
        scores = ours.cv_scores_
        size_of_scores = len(
            pickle.dumps((scores.alphas, scores.mean_score, scores.std_error, scores.score_error))
        )
    assert len(pickle.dumps(ours)) <= 4 * len(pickle.dumps(theirs)) + size_of_scores


def test_short_arrays_are_floats_and_come_back_as_arrays():
    bounds = np.array([1e-5, np.inf, np.nan])
    plain = to_plain(Certificate(bounds, 1e-4))
    assert all(type(part) is not np.ndarray for part in plain[FIELDS_KEY])
    np.testing.assert_array_equal(from_plain(plain).bounds, bounds, strict=True)


@pytest.mark.parametrize("weights", [{"floats": 2.0}, {"ling floats": 2.0}, {"ling floats": ()}])
def test_a_dict_of_the_user_comes_back_as_it_is(weights):
    model = ling.RidgeClassifier(class_weight=weights)
    assert pickle.loads(pickle.dumps(model)).class_weight == weights


@pytest.mark.parametrize("numbers", [None, [1.0], (1.0, "2"), ((1.0,),), (1.0,) * 5])
def test_damaged_short_arrays_are_refused(numbers):
    plain = to_plain(Certificate(np.array([1e-5]), 1e-4))
    plain[FIELDS_KEY] = ({"ling floats": numbers}, *plain[FIELDS_KEY][1:])
    with pytest.raises(ValueError, match="floats"):
        from_plain(plain)


def test_only_registered_classes_are_converted():
    @dataclass(frozen=True)
    class Cost:  # the name of a registered class
        flops: float = 0.0

    mine = Cost()
    assert to_plain(mine) is mine
    assert to_plain([mine]) == [mine]


def test_there_and_back():
    value = (Status.CERTIFIED, Certificate(np.array([1e-5]), 1e-4), 3, {"a": 1})
    status, certificate, *rest = from_plain(to_plain(value))
    assert status is Status.CERTIFIED
    assert (certificate.bound, certificate.tol, *rest) == (1e-5, 1e-4, 3, {"a": 1})


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({CLASS_KEY: "os.system", FIELDS_KEY: ("true",)}, "not a class that fitted models"),
        ({CLASS_KEY: "Cost", FIELDS_KEY: (1.0,)}, "Cost has other fields"),
        ({CLASS_KEY: "Cost", FIELDS_KEY: (1.0, 1.0, 1.0)}, "Cost has other fields"),
    ],
)
def test_other_data_are_refused(plain, message):
    with pytest.raises(ValueError, match=message):
        from_plain((plain,))


def test_a_status_that_does_not_exist_is_refused():
    with pytest.raises(KeyError):
        from_plain({CLASS_KEY: "Status", FIELDS_KEY: "GUESSED"})


def test_costs_add():
    assert from_plain(to_plain(Cost(1.0, 2.0))) + Cost(1.0, 1.0) == Cost(2.0, 3.0)


def test_types_that_a_type_statement_defines():
    """As NumPy defines NDArray from Python 3.12 on."""
    alias = SimpleNamespace(__value__=np.ndarray[Any, np.dtype[Scalar]])
    for hint in (GenericAlias(alias, (np.float64,)), SimpleNamespace(__value__=np.ndarray)):
        assert _has_type(np.zeros(1), hint)
        assert not _has_type("a", hint)
    assert not _has_type(np.array(["a"]), GenericAlias(alias, (np.float64,)))
    assert _has_type(np.array(["a"]), GenericAlias(alias, (Any,)))


def test_arrays_of_text_and_huge_integers_are_no_numbers():
    plain = to_plain(Certificate(np.ones(2), 1e-4))
    bounds, tol, *others = plain[FIELDS_KEY]
    assert from_plain(plain).bound == 1
    for wrong in (np.array(["a"]), np.array([None])):
        with pytest.raises(ValueError, match="bounds of Certificate"):
            from_plain({**plain, FIELDS_KEY: (wrong, tol, *others)})
    with pytest.raises(ValueError, match="tol of Certificate"):
        from_plain({**plain, FIELDS_KEY: (bounds, 10**30, *others)})
    assert from_plain({**plain, FIELDS_KEY: (bounds, np.inf, *others)}).tol == np.inf
