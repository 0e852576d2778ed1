"""`certify` proves how far anyone's ridge solution is from the exact one, and never lies."""

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import linear_model

import ling
from ling.errors import InputTypeError, NonFiniteError, OptionError, ShapeError
from ling.estimators.fit import plan_training
from ling.solvers.certify_coef import MINORANTS, bound_coef, cheapest_source
from ling.solvers.dimensions import ProblemDimensions
from ling.solvers.machine import DEFAULT_MACHINE
from ling.solvers.options import FitOptions
from ling.solvers.planning import plan_solve
from tests import reference
from tests.raising import raises
from tests.solvers.problems import ridge_cases
from tests.training import make_data, make_problem

# Smaller errors may be those of rounding the coefficients, which every bound has to allow for.
MEASURABLE = 1e-12


def exact_coef(exact):
    """The exact coefficients and intercept, rounded to float64."""
    coef = np.array([float(value) for value in exact.coef])
    shift = sum(mean * value for mean, value in zip(exact.x_mean, exact.coef, strict=True))
    return coef, float(exact.y_mean - shift)


def perturbed(exact, case, rng, size):
    """Coefficients and intercept off by about `size`, in the units of the predictions."""
    coef, intercept = exact_coef(exact)
    norms = np.linalg.norm(case.X - case.X.mean(axis=0), axis=0)
    with np.errstate(over="ignore"):
        steps = size * float(exact.spread) / np.where(norms > 0, norms, 1.0)
        coef = coef + rng.standard_normal(len(coef)) * steps * (rng.random(len(coef)) < 0.7)
    if not case.fit_intercept:
        return coef, 0.0
    root_n = np.sqrt(len(case.y))
    return coef, intercept + size * rng.choice([0, 1e-3, 1]) * float(exact.spread) / root_n


def bound_and_error(case, seed, size):
    rng = np.random.default_rng(seed)
    exact = reference.ExactRidge(case.X, case.y, case.alpha, case.weights, case.fit_intercept)
    coef, intercept = perturbed(exact, case, rng, size)
    if not (np.isfinite(coef).all() and np.isfinite(intercept)):
        return None
    certificate = ling.certify(
        coef, case.X, case.y, case.alpha, intercept=intercept,
        sample_weight=case.weights, fit_intercept=case.fit_intercept,
    )  # fmt: skip
    error = exact.prediction_error(coef, intercept if case.fit_intercept else None)
    return certificate.bound, error


sizes = st.floats(-16, 3).map(lambda e: 10.0**e)


@settings(max_examples=120, deadline=None)
@given(case=ridge_cases(), seed=st.integers(0, 10**6), size=sizes)
def test_the_certificate_never_lies(case, seed, size):
    bound_of_error = bound_and_error(case, seed, size)
    if bound_of_error is not None:
        bound, error = bound_of_error
        assert bound >= error * (1 - 1e-6)


def test_the_bound_is_within_ten_times_the_error_in_the_median():
    pairs = []

    @settings(max_examples=110, deadline=None, derandomize=True, database=None)
    @given(case=ridge_cases(), seed=st.integers(0, 10**6), size=sizes)
    def collect(case, seed, size):
        pairs.append(bound_and_error(case, seed, size))

    collect()
    ratios = [bound / error for bound, error in filter(None, pairs) if error > MEASURABLE]
    assert len(ratios) >= 50
    assert np.median(ratios) <= 10


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    x_offset=st.floats(0, 9),
    y_offset=st.floats(0, 12),
    alpha=st.floats(-6, 6),
    size=sizes,
    kind=st.sampled_from(["float64", "float32", "sparse", "dask"]),
    weighted=st.booleans(),
)
def test_the_certificate_covers_the_intercept(
    seed, x_offset, y_offset, alpha, size, kind, weighted
):
    """For X with large means, of all kinds, and y with a large mean."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 12)), int(rng.integers(1, 15))
    X = rng.standard_normal((n, p)) + 10**x_offset * rng.standard_normal(p)
    X[rng.random((n, p)) < 0.2] = 0.0
    X = X.astype(np.float32 if kind == "float32" else np.float64)
    y = X @ rng.standard_normal(p) + rng.standard_normal(n) + 10**y_offset
    weights = rng.gamma(0.5, size=n) if weighted else None
    exact = reference.ExactRidge(X, y, 10**alpha, weights, digits=200)
    coef, intercept = exact_coef(exact)
    spread = float(exact.spread) / np.sqrt(n)
    coef = coef + size * spread * rng.standard_normal(p)
    intercept = intercept + size * spread * rng.standard_normal()
    made = {"sparse": sparse.csr_array, "dask": lambda X: da.from_array(X, chunks=(5, p))}
    found = ling.certify(
        coef, made.get(kind, np.asarray)(X), y, 10**alpha, intercept=intercept,
        sample_weight=weights,
    )  # fmt: skip
    assert found.bound >= exact.prediction_error(coef, intercept) * (1 - 1e-6)


def medium_problem(rng, n, p, decay=1.0):
    X = rng.standard_normal((n, p)) * np.arange(1, p + 1) ** -decay
    X = X @ np.linalg.qr(rng.standard_normal((p, p)))[0] + rng.standard_normal(p)
    return X, X @ rng.standard_normal(p) + rng.standard_normal(n)


def center(X):
    return X - X.mean(axis=0)


@pytest.mark.parametrize("shape", [(900, 60), (300, 299), (80, 400)])
@pytest.mark.parametrize("made", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("source", MINORANTS)
def test_every_minorant_gives_a_valid_bound(source, made, shape, rng):
    X, y = medium_problem(rng, *shape)
    for alpha in 1e-3, 1.0, 1e3:
        exact = reference.ridge(center(X), center(y), alpha)
        for size in 1e-8, 1e-4, 1e-1:
            coef = exact + size * rng.standard_normal(len(exact))
            gap = coef - exact
            error = np.linalg.norm(center(X) @ gap) / np.linalg.norm(center(y))
            bound = bound_with(source, made(X), y, alpha, coef)
            assert error <= bound * (1 + 1e-6) + 1e-12
            if source == "gram":  # the bound is on ||X e||^2 + alpha ||e||^2
                energy = np.hypot(
                    error, np.linalg.norm(gap) * alpha**0.5 / np.linalg.norm(center(y))
                )
                assert bound <= 1.001 * energy + 1e-10


def bound_with(source, X, y, alpha, coef):
    """The bound with one kind of minorant, whatever the plan prefers."""
    options = FitOptions(precision="float64", machine=DEFAULT_MACHINE)
    problem, _ = make_problem(X, y[:, None], np.array([alpha]))
    plan = plan_training(make_data(X, y[:, None]), 1, options)
    return float(bound_coef(problem, coef[:, None], plan, options, source)[0][0])


def test_solvers_of_scikit_learn_are_told_apart(rng):
    X, y = medium_problem(rng, 400, 30)
    bounds = {}
    for solver in "cholesky", "svd", "sag":
        model = linear_model.Ridge(alpha=1e-2, solver=solver, random_state=0).fit(X, y)
        bounds[solver] = ling.certify(model.coef_, X, y, 1e-2, intercept=model.intercept_).bound
    assert max(bounds["cholesky"], bounds["svd"]) < 1e-10 < bounds["sag"]


def test_several_targets_with_an_alpha_each(rng):
    X, _ = medium_problem(rng, 60, 7)
    Y = X[:, :3] + rng.standard_normal((60, 3)) + [0, 10, 1e3]
    alphas, weights = np.array([1e-3, 1.0, 50.0]), rng.gamma(1.0, size=60)
    model = linear_model.Ridge(alpha=alphas, solver="cholesky").fit(X, Y, weights)
    coef = model.coef_ * (1 + np.array([[0.0], [1e-6], [1e-2]]))
    found = ling.certify(coef, X, Y, alphas, intercept=model.intercept_, sample_weight=weights)
    errors = [
        reference.prediction_error(
            X, Y[:, t], alphas[t], coef[t], weights, intercept=model.intercept_[t], digits=60
        )
        for t in range(3)
    ]
    assert (found.bounds >= errors).all()
    assert (found.bounds[1:] <= 3 * np.array(errors[1:])).all()
    assert found.bound == found.bounds.max()
    assert found.bounds[0] < 1e-10


def test_many_alphas_share_one_call(rng):
    X, _ = medium_problem(rng, 50, 5)
    Y = rng.standard_normal((50, 12))
    alphas = np.geomspace(1e-3, 1e3, 12)
    for data in X, X[:4]:  # more rows than columns, and fewer
        model = linear_model.Ridge(alpha=alphas, solver="svd").fit(data, Y[: len(data)])
        found = ling.certify(model.coef_, data, Y[: len(data)], alphas, intercept=model.intercept_)
        assert found.bounds.shape == (12,)
        assert found.holds


@pytest.mark.parametrize("estimator", [ling.Ridge, linear_model.Ridge])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_direct_solutions_hold(estimator, fit_intercept, rng):
    X, y = medium_problem(rng, 100, 8)
    model = estimator(alpha=2.0, fit_intercept=fit_intercept).fit(X, y)
    found = ling.certify(
        model.coef_, X, y, 2.0, intercept=model.intercept_, fit_intercept=fit_intercept, tol=1e-9
    )
    assert found.holds
    assert found.tol == 1e-9


def test_the_error_of_the_intercept_counts_exactly(rng):
    X, y = medium_problem(rng, 100, 4)
    model = linear_model.Ridge(alpha=1.0, solver="cholesky").fit(X, y)
    found = ling.certify(model.coef_, X, y, 1.0, intercept=model.intercept_ + 0.3)
    assert found.bound == pytest.approx(0.3 * 10 / np.linalg.norm(center(y)), rel=1e-6)
    without = ling.certify(model.coef_, X, y, 1.0)  # intercept=0
    shift = abs(model.intercept_) * 10 / np.linalg.norm(center(y))
    assert without.bound == pytest.approx(shift, rel=1e-6)


def test_data_on_disk(rng, tmp_path):
    X, y = medium_problem(rng, 500, 20)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    model = linear_model.Ridge(alpha=1.0, solver="cholesky").fit(X, y)
    data = ling.scan_npy(tmp_path / "X.npy", tmp_path / "y.npy")
    found = ling.certify(model.coef_, data, alpha=1.0, intercept=model.intercept_)
    assert found.bound < 1e-10
    small = ling.certify(
        model.coef_, data.X, y, 1.0, intercept=model.intercept_, memory_budget="1MB"
    )
    assert small.bound < 1e-10


def test_nothing_is_changed(rng):
    X, y = medium_problem(rng, 40, 5)
    coef, weights = rng.standard_normal(5), rng.gamma(1.0, size=40)
    arrays = [X, y, coef, weights]
    copies = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    ling.certify(coef, X, y, 1.0, intercept=0.5, sample_weight=weights)
    assert all(map(np.array_equal, arrays, copies))


def test_few_passes_over_x(rng):
    X, y = medium_problem(rng, 3000, 40)
    events = []
    with ling.progress.watch(events.append):
        ling.certify(np.zeros(40), X, y, 1.0)
    assert events[-1].passes <= 3


@pytest.mark.parametrize("alpha", [0, [0.0, 0.0], [0.0, 1.0]])
def test_no_bound_exists_for_alpha_0(alpha, rng):
    X, y = medium_problem(rng, 30, 3)
    Y = np.column_stack([y] * np.size(alpha))
    coef = np.zeros((np.size(alpha), 3))
    found = ling.certify(coef, X, Y if np.ndim(alpha) else y, alpha)
    assert np.array_equal(np.isinf(found.bounds), np.atleast_1d(alpha) == 0)
    assert not found.holds


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_constant_target_has_only_one_exact_solution(fit_intercept):
    X, y = np.eye(4, 2), np.full(4, 3.0 if fit_intercept else 0.0)
    options = {"alpha": 1.0, "fit_intercept": fit_intercept, "intercept": y[0]}
    assert ling.certify([0.0, 0.0], X, y, **options).bound == 0
    assert ling.certify([1e-9, 0.0], X, y, **options).bound == np.inf
    if fit_intercept:
        assert ling.certify([0.0, 0.0], X, y, 1.0, intercept=2.9).bound == np.inf


def test_columns_of_zeros_and_extreme_scales(rng):
    X, y = medium_problem(rng, 30, 3)
    for scale in 1e-150, 1e150:
        model = ling.Ridge(alpha=scale**2).fit(X * scale, y)
        found = ling.certify(model.coef_, X * scale, y, scale**2, intercept=model.intercept_)
        assert found.bound < 1e-10
    zero = ling.certify([5.0, 1.0], np.zeros((30, 2)), y, 1.0, intercept=y.mean())
    assert zero.bound < 1e-10  # all coefficients give the same predictions


X_SMALL, Y_SMALL = np.arange(12.0).reshape(6, 2) ** 2, np.arange(6.0)
REFUSED = {
    "too few": ([1.0], {}, ShapeError, "coef"),
    "too many": ([1.0, 2.0, 3.0], {}, ShapeError, "coef"),
    "column": ([[1.0], [2.0]], {}, ShapeError, "coef"),
    "scalar": (1.0, {}, ShapeError, "coef"),
    "three axes": ([[[1.0, 2.0]]], {}, ShapeError, "coef"),
    "empty": ([], {}, ShapeError, "coef"),
    "nan": ([np.nan, 1.0], {}, NonFiniteError, "coef"),
    "inf": ([1.0, -np.inf], {}, NonFiniteError, "coef"),
    "complex": ([1j, 1.0], {}, InputTypeError, "coef"),
    "complex array": (np.array([1j, 1.0]), {}, InputTypeError, "coef"),
    "text": (["a", "b"], {}, InputTypeError, "coef"),
    "sparse": (sparse.csr_array([[1.0, 2.0]]), {}, InputTypeError, "coef"),
    "intercepts": ([1.0, 1.0], {"intercept": [1.0, 2.0]}, ShapeError, "intercept"),
    "nan intercept": ([1.0, 1.0], {"intercept": np.nan}, NonFiniteError, "intercept"),
    "no intercept": (
        [1.0, 1.0], {"intercept": 1.0, "fit_intercept": False}, OptionError, "intercept",
    ),
    "negative alpha": ([1.0, 1.0], {"alpha": -1.0}, OptionError, "alpha"),
    "nan alpha": ([1.0, 1.0], {"alpha": np.nan}, OptionError, "alpha"),
    "alphas": ([1.0, 1.0], {"alpha": [1.0, 2.0]}, ShapeError, "alpha"),
    "tol": ([1.0, 1.0], {"tol": -1.0}, OptionError, "tol"),
    "weights": ([1.0, 1.0], {"sample_weight": np.zeros(6)}, OptionError, "sample_weight"),
}  # fmt: skip


@pytest.mark.parametrize(("coef", "options", "kind", "argument"), REFUSED.values(), ids=REFUSED)
def test_refused(coef, options, kind, argument):
    with raises(kind, argument):
        ling.certify(coef, X_SMALL, Y_SMALL, **options)


def test_refused_data():
    with raises(InputTypeError, "y"):
        ling.certify([1.0, 1.0], X_SMALL)
    with raises(ShapeError, "y"):
        ling.certify([1.0, 1.0], X_SMALL, Y_SMALL[:3])
    with raises(NonFiniteError, "X", row=2, column=1):
        ling.certify([1.0, 1.0], np.where(X_SMALL[2, 1] == X_SMALL, np.nan, X_SMALL), Y_SMALL, 1)
    with raises(ShapeError, "coef", mentions="(2, 2)"):
        ling.certify([1.0, 1.0], X_SMALL, np.column_stack([Y_SMALL, Y_SMALL]), 1.0)
    with raises(OptionError, "alpha"):
        ling.certify([1.0, 1.0], X_SMALL, Y_SMALL)


def test_coefficients_with_one_row_are_those_of_one_target():
    flat = ling.certify([0.1, 0.2], X_SMALL, Y_SMALL, 1.0)
    assert ling.certify([[0.1, 0.2]], X_SMALL, Y_SMALL, 1.0).bound == flat.bound
    assert ling.certify([0.1, 0.2], X_SMALL, Y_SMALL[:, None], 1.0).bound == flat.bound


@pytest.mark.parametrize(
    ("shape", "budget", "source"),
    [
        ((100, 5), 1e9, "gram"),
        ((1_000_000, 2_000), 1e9, "row_sample"),
        ((1_000_000, 2_000), 3e8, "low_rank"),  # too little memory for the rows
        ((60_000, 20_000), 1e12, "low_rank"),
    ],
)
def test_the_minorant_is_chosen_by_its_cost(shape, budget, source):
    n, p = shape
    dimensions = ProblemDimensions(n, p, n * p, 8, True, 1, 1)
    options = FitOptions(precision="float64", machine=DEFAULT_MACHINE, memory_budget=budget)
    assert cheapest_source(plan_solve(dimensions, options)) == source


def test_a_sample_of_rows_is_tighter_than_a_low_rank_where_alpha_is_small(rng):
    X, y = medium_problem(rng, 8_000, 200, decay=0.0)
    coef = reference.ridge(center(X), center(y), 1e-3) + 1e-4 * rng.standard_normal(200)
    gram, sample, low_rank = (bound_with(s, X, y, 1e-3, coef) for s in MINORANTS)
    assert gram <= sample <= 1.5 * (8_000 / (4 * 200 + 50)) ** 0.5 * gram
    assert sample < low_rank / 100


@pytest.mark.parametrize("is_sparse", [False, True])
def test_an_intercept_that_is_left_out_is_named(rng, is_sparse):
    X, Y = rng.standard_normal((60, 4)) + 3, rng.standard_normal((60, 2)) + 5
    model = linear_model.Ridge().fit(X, Y)
    data = sparse.csr_array(X) if is_sparse else X
    given = ling.certify(model.coef_, data, Y, 1.0, intercept=model.intercept_)
    left_out = ling.certify(model.coef_, data, Y, 1.0)
    off = ling.certify(model.coef_, data, Y, 1.0, intercept=model.intercept_ + 1)
    assert given.holds
    assert given.note == ""
    for certificate in (left_out, off):
        assert not certificate.holds
        assert certificate.note in str(certificate)
        assert "intercept" in certificate.note
    assert "0" in left_out.note
    without = ling.certify(model.coef_, data, Y, 1.0, fit_intercept=False)
    assert without.note == ""
    wrong = ling.certify(model.coef_ + 1, data, Y, 1.0, intercept=model.intercept_)
    assert wrong.note == ""  # the coefficients are off as well


def test_an_estimator_in_place_of_its_coefficients_is_refused(rng):
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    with pytest.raises(InputTypeError) as error:
        ling.certify(linear_model.Ridge().fit(X, y), X, y)
    assert error.value.argument == "coef"
    assert "model.coef_" in str(error.value)
