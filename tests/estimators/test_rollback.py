"""An exception at any place of a fit leaves the estimator as it was."""

import copy
import pickle
import sys
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import ling
from ling import (
    LingClassifier,
    LingRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)

# Places of a fit at which it is interrupted, besides the last ones.
N_PLACES = 12
FITS = {
    "Ridge": (Ridge(store_covariance=True), "fit"),
    "two_stage, warm start": (Ridge(solver="two_stage", warm_start=True), "fit"),
    "two_stage": (Ridge(solver="two_stage"), "fit"),
    "positive": (Ridge(positive=True), "fit"),
    "partial_fit": (Ridge(), "partial_fit"),
    "RidgeCV": (RidgeCV(), "fit"),
    "RidgeCV, folds": (RidgeCV(cv=3), "fit"),
    "RidgeClassifier": (RidgeClassifier(), "fit"),
    "RidgeClassifierCV": (RidgeClassifierCV(), "fit"),
    "LingRegressor": (LingRegressor(), "fit"),
    "LingClassifier": (LingClassifier(), "fit"),
}
every_fit = pytest.mark.parametrize(("model", "method"), FITS.values(), ids=FITS)
every_exception = pytest.mark.parametrize("exception", [MemoryError, KeyboardInterrupt])


@contextmanager
def raise_at(call, exception):
    """Raise at the call of ling's functions with this number; yields the calls so far."""
    folder, calls = ling.__path__[0], []

    def trace(frame, event, argument):
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            calls.append(frame.f_code.co_name)
            if len(calls) == call:
                sys.settrace(None)
                raise exception

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield calls
    finally:
        sys.settrace(before)


def fit_interrupted(model, method, X, y, call, exception=MemoryError):
    """Calls of ling's functions by a fit, and whether it raised and left its model as it was."""
    before, content = dict(vars(model)), pickle.dumps(vars(model))
    raised = False
    with raise_at(call, exception) as calls:
        try:
            getattr(model, method)(X, y)
        except exception:
            raised = True
    after = vars(model)
    same = after.keys() == before.keys() and all(after[name] is before[name] for name in before)
    return calls, raised, same and pickle.dumps(after) == content


@every_fit
@every_exception
@pytest.mark.parametrize("is_fitted", [False, True], ids=["first fit", "second fit"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_leaves_the_estimator_as_it_was(model, method, exception, is_fitted, rng):
    X, other = rng.standard_normal((2, 90, 5))
    y = (X.sum(axis=1) + rng.standard_normal(90) > 0).astype(int)
    model = copy.deepcopy(model)
    if is_fitted:
        getattr(model, method)(other, y)
    calls, _, _ = fit_interrupted(copy.deepcopy(model), method, X, y, -1)
    n_interrupted = 0
    for call in {
        *np.linspace(1, len(calls), N_PLACES).astype(int),
        *range(len(calls) - 5, len(calls) + 1),
    }:
        _, raised, is_same = fit_interrupted(
            copy.deepcopy(model), method, X, y, int(call), exception
        )
        n_interrupted += raised
        assert is_same or not raised, f"call {call} of {len(calls)}: {calls[call - 1]}"
    assert n_interrupted > N_PLACES // 2


def test_a_warning_that_is_an_error(rng):
    X = rng.standard_normal((200, 40))
    model = Ridge(solver="two_stage").fit(X, X[:, 0])
    before = dict(vars(model))
    model.set_params(max_iter=1, tol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning):
            model.fit(X, X @ np.arange(40.0) + rng.standard_normal(200))
    assert vars(model) == before | {"max_iter": 1, "tol": 1e-12}
