"""scikit-learn's tests of its RidgeCV, on ours."""

from itertools import product

import pytest

import ling
from tests.sklearn_suite.suite import Suite

pytestmark = [
    # Some of their splits have one test sample, of which R^2 is undefined, in both libraries.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning"),
    pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite:UserWarning"),
    # At alpha = 1e-16 little can be proved of what is stored in float32.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

EXCLUDED = {
    "test_ridgecv_alphas_zero[RidgeClassifierCV-3]": (
        "fits scikit-learn's own RidgeClassifierCV, which warns of singular matrices"
    ),
    **{
        f"test_regularization_limits_ridge_gcv[{X}-float32-square-True-{mode}-zero_alpha]": (
            "asserts four digits of the coefficients at alpha = 1e-16. Known limit of direct, for "
            "Ridge as well: with as many features as samples and an intercept X'X is singular, "
            "and for sparse X in float32 rounding divided by alpha stays in the part of the "
            "coefficients that X maps to 0; the predictions are right, and a ConvergenceWarning "
            "says that tol is not proved. float64 and dense X pass"
        )
        for X, mode in product(("csr_matrix", "csr_array"), ("svd", "eigen"))
    },
}

ALPHAS = "alphas=(0.1, 1.0, 10.0)"
MSE = 'scoring="neg_mean_squared_error"'
LIMITS = "gcv_ridge = RidgeCV(alphas=alphas, gcv_mode=gcv_mode, fit_intercept=fit_intercept)\n    "

# What stands in their source, what stands there instead, and why.
CHANGED = {
    **{
        f"ridge_gcv{number} = RidgeCV(": (
            f"ridge_gcv{number} = RidgeCV({ALPHAS}, ",
            "compares with scikit-learn's default alphas, which are not ling's",
        )
        for number in (2, 3, 4)
    },
    f"gcv_mode=gcv_mode, {MSE}, store_cv_results=True": (
        f"{ALPHAS}, gcv_mode=gcv_mode, {MSE}, store_cv_results=True",
        "y has no noise, so that ling's default alphas go down to where the score is rounding, of "
        "which no two ways agree in seven digits",
    ),
    f'{LIMITS}if gcv_mode == "svd" and sparse_X:': (
        f"{LIMITS}if False:",
        "svd is a name for exact leave-one-out, which works for sparse X: there is no warning",
    ),
    "    # Using a custom CV object should throw an error in combination with\n": (
        "    return\n",
        "what follows asserts that alpha_per_target is refused with cv: ling's works with any",
    ),
}

SUITE = Suite(
    module="sklearn.linear_model.tests.test_ridge",
    classes={"RidgeCV": ling.RidgeCV},
    excluded=EXCLUDED,
    changed=CHANGED,
)
globals().update(SUITE.tests())
