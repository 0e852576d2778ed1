"""Our estimators as scikit-learn expects them to be: its own checks, parameters and defaults."""

import pytest
from sklearn import linear_model
from sklearn.utils._test_common.instance_generator import _get_expected_failed_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import ling
from ling import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from ling.solvers.engines import ENGINES
from tests.sklearn_suite.suite import list_parameters

N_ITER = "check_non_transformer_estimators_n_iter"
# What each has on top of scikit-learn's parameters.
SHARED = {"memory_budget", "checkpoint", "speeds", "verbose"}
MORE = {
    "Ridge": SHARED | {"precision", "store_covariance", "warm_start"},
    "RidgeCV": SHARED | {"selection_rule", "tol", "random_state", "store_covariance"},
    "RidgeClassifier": SHARED | {"precision", "warm_start"},
    "RidgeClassifierCV": SHARED | {"selection_rule", "tol", "random_state"},
}
every_name = pytest.mark.parametrize("name", MORE)


def expected_failures(model):
    """n_iter_ of what does not iterate is None: as with scikit-learn's own."""
    does_not = getattr(model, "solver", None) in ("auto", "direct")
    return {N_ITER: "the engine does not iterate"} if does_not else {}


# Some of the checks fit noise with a single iteration.
@list_parameters
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        Ridge(),
        # Some compare seven digits, which an iteration gives if it is asked for them.
        *(Ridge(solver=solver, tol=1e-10) for solver in ENGINES),
        Ridge(positive=True),
        Ridge(alpha=0.0),
        RidgeCV(),
        # The checks above have default alphas, of which folds would take long.
        RidgeCV((0.1, 1.0, 10.0), cv=3),
        RidgeClassifier(),
        RidgeClassifierCV(),
        RidgeClassifierCV((0.1, 1.0, 10.0), cv=3),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@every_name
def test_no_check_is_expected_to_fail_that_passes_for_scikit_learn(name):
    ours, theirs = getattr(ling, name)(), getattr(linear_model, name)()
    assert set(expected_failures(ours)) <= set(_get_expected_failed_checks(theirs))


@every_name
def test_parameters_and_defaults_are_those_of_scikit_learn_and_a_few_more(name):
    ours, theirs = getattr(ling, name)().get_params(), getattr(linear_model, name)().get_params()
    if "alphas" in theirs:  # a grid that follows from the data
        theirs["alphas"] = None
    assert {parameter: ours[parameter] for parameter in theirs} == theirs
    assert set(ours) - set(theirs) == MORE[name]
