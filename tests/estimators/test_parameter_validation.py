"""Parameters and arrays that need no conversion are accepted quickly, and as scikit-learn does."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils._param_validation import InvalidParameterError

from ling import Ridge, RidgeClassifier, RidgeCV
from ling.estimators import parameter_validation
from ling.estimators.validation import _is_valid_as_is

X, Y = np.eye(6), np.arange(6.0)


@pytest.fixture(autouse=True)
def nothing_is_validated_yet(monkeypatch):
    monkeypatch.setattr(parameter_validation, "_valid_parameters", set())


def test_equal_parameters_are_validated_once(monkeypatch):
    calls = []

    def validate(constraints, parameters, caller):
        calls.append((caller, parameters["alpha"]))

    monkeypatch.setattr(parameter_validation, "validate_parameters", validate)
    for alpha in (0.123, 0.123, 0.124):
        Ridge(alpha).fit(X, Y)
    Ridge(0.123).fit(X, Y)
    RidgeClassifier(0.123).fit(X, Y > 2)
    assert calls == [("Ridge", 0.123), ("Ridge", 0.124), ("RidgeClassifier", 0.123)]


def test_what_can_change_is_validated_each_time(monkeypatch):
    calls = []
    monkeypatch.setattr(
        parameter_validation, "validate_parameters", lambda *arguments: calls.append(arguments)
    )
    for _ in range(2):
        RidgeCV([1.0, 2.0]).fit(X, Y)
    assert len(calls) == 2


def test_arrays_are_validated_once_for_their_dimensions(monkeypatch):
    calls = []
    monkeypatch.setattr(
        parameter_validation, "validate_parameters", lambda *arguments: calls.append(arguments)
    )
    for alphas in ([1.0, 2.0], [3.0], 4.0):
        RidgeCV(np.array(alphas), tol=0.00123).fit(X, Y)
    assert len(calls) == 2


def test_invalid_parameters_are_refused_each_time():
    Ridge(fit_intercept=True).fit(X, Y)
    for _ in range(2):
        with pytest.raises(InvalidParameterError, match="fit_intercept"):
            Ridge(fit_intercept=1).fit(X, Y)  # equals True, and is no truth value


@pytest.mark.parametrize(
    "pair",
    [
        (X.tolist(), Y),
        (X.astype(int), Y),
        (X.astype(np.float16), Y),
        (X, Y.astype(int)),
        (X, Y.tolist()),
        (X[:, 0], Y),
        (X, Y[:5]),
        (X[:0], Y[:0]),
        (X[:, :0], Y),
        (X, np.where(Y > 3, np.nan, Y)),
        (pd.DataFrame(X), Y),
        (np.ma.array(X), Y),
    ],
    ids=str,
)
def test_arrays_that_need_a_check_or_a_copy_get_it(pair):
    assert not _is_valid_as_is(*pair)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("y", [Y, Y[:, None], np.c_[Y, Y]], ids=["1d", "column", "2d"])
def test_arrays_of_floats_are_used_as_they_are(dtype, y):
    assert _is_valid_as_is(X.astype(dtype), y.astype(dtype))


def test_an_array_after_a_data_frame_leaves_no_names():
    model = Ridge().fit(pd.DataFrame(X, columns=list("abcdef")), Y)
    assert list(model.feature_names_in_) == list("abcdef")
    model.fit(X[:, :4], Y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 4
