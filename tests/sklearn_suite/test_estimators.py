"""scikit-learn's tests of its Ridge, RidgeCV, RidgeClassifier and RidgeClassifierCV, on ours."""

from itertools import product

import pytest

import ling
from tests.sklearn_suite.suite import Suite

pytestmark = [
    # Their tests ask for accuracies that nothing can prove, such as 1e-15, or use alpha = 1e-16 in
    # float32, and do not look at warnings. Some of their splits have one test sample, of which R^2
    # is undefined, in both libraries.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning"),
    pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite"),
    # One of them has a class with fewer samples than there are folds.
    pytest.mark.filterwarnings("ignore:The least populated class in y has only"),
]

EXCLUDED = {
    "test_ridge_fit_intercept_sparse_error": (
        "asserts that saga, svd and cholesky refuse sparse data with an intercept: ling fits it"
    ),
    "test_lbfgs_solver_error": (
        "asserts that lbfgs does not converge in one iteration: ling's active set has no such limit"
    ),
    **{
        f"test_regularization_limits_ridge[{X}-wide-{intercept}-{solver}-zero_alpha]": (
            "asserts ten digits of the coefficients at alpha = 1e-16. Known limit of two_stage: "
            "with more features than samples, rounding divided by alpha stays in the part of the "
            "coefficients that X maps to 0; the predictions, which tol is about, are right, and a "
            "ConvergenceWarning says that tol=1e-12 is not proved. direct passes"
        )
        for X, intercept, solver in product(
            ("asarray", "csr_matrix", "csr_array"), (True, False), ("lsqr", "sparse_cg")
        )
    },
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
    "assert model.solver_ == solver": (
        "assert model.solver_ in ('direct', 'two_stage')",
        "solver_ is the engine that solved it, under its own name",
    ),
    'for solver in ("sag", "saga", "lsqr"):': (
        'for solver in ("lsqr",):',
        "sag and saga are done by what the plan says, which need not iterate",
    ),
    'for solver in ("sparse_cg", "svd", "cholesky"):': (
        'for solver in ("svd", "cholesky"):',
        "sparse_cg is done by two_stage, which counts its iterations",
    ),
    "with pytest.warns(UserWarning, match='\"sag\" solver requires.*'):": (
        "if True:",
        "an intercept and sparse data are no trouble for what does the work of sag",
    ),
}

SUITE = Suite(
    module="sklearn.linear_model.tests.test_ridge",
    classes={
        "Ridge": ling.Ridge,
        "RidgeCV": ling.RidgeCV,
        "RidgeClassifier": ling.RidgeClassifier,
        "RidgeClassifierCV": ling.RidgeClassifierCV,
    },
    excluded=EXCLUDED,
    changed=CHANGED,
)
globals().update(SUITE.tests())
