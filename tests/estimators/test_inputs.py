"""Ridge and what users do with it: what they pass, what is refused, what they have afterwards."""

import pickle
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from scipy import sparse
from sklearn import linear_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ling
from ling import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from ling.errors import LingError
from ling.estimators.fit import SKLEARN_SOLVERS
from ling.results import Status
from ling.solvers.engines import ENGINES
from tests import reference
from tests.versions import reads_polars

SOLVERS = ["auto", *ENGINES]
every_solver = pytest.mark.parametrize("solver", SOLVERS)


@pytest.fixture
def data(rng):
    X = rng.standard_normal((60, 7)) + np.arange(7)
    return X, X @ np.arange(7.0) + rng.standard_normal(60) + 3


@pytest.fixture
def weights(rng):
    return rng.integers(0, 4, 60).astype(float)


# What comes in.

every_frame = pytest.mark.parametrize(
    "frame",
    [pd.DataFrame, pytest.param(pl.DataFrame, marks=reads_polars)],
    ids=["pandas", "polars"],
)


@every_frame
def test_a_frame_gives_its_column_names(data, frame):
    X, y = data
    names = [f"x{j}" for j in range(7)]
    table = frame(dict(zip(names, X.T, strict=True)))
    model = Ridge().fit(table, y)
    assert list(model.feature_names_in_) == names
    assert np.allclose(model.coef_, Ridge().fit(X, y).coef_, rtol=1e-12, atol=0)
    assert np.allclose(model.predict(table), X @ model.coef_ + model.intercept_)


@every_frame
def test_other_column_names_are_refused(data, frame):
    X, y = data
    model = Ridge().fit(frame({f"x{j}": X[:, j] for j in range(7)}), y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame({f"z{j}": X[:, j] for j in range(7)}))


def test_column_names_are_forgotten_by_a_fit_without_them(data):
    X, y = data
    model = Ridge().fit(pd.DataFrame(X, columns=list("abcdefg")), y).fit(X, y)
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("series", [pd.Series, pl.Series], ids=["pandas", "polars"])
def test_y_and_weights_may_be_series(data, weights, series):
    X, y = data
    model = Ridge().fit(X, series(y), sample_weight=series(weights))
    assert np.array_equal(model.coef_, Ridge().fit(X, y, sample_weight=weights).coef_)


@every_solver
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_read_only_memory_map_is_used_where_it_lies(data, tmp_path, solver, dtype):
    X, y = data
    np.save(tmp_path / "X.npy", X.astype(dtype))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = Ridge(solver=solver, random_state=0).fit(mapped, y)
    inside = Ridge(solver=solver, random_state=0).fit(X.astype(dtype), y)
    assert np.array_equal(found.coef_, inside.coef_)


@every_solver
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, bool])
def test_integers_and_booleans_are_numbers(rng, solver, dtype):
    X = rng.integers(0, 2 if dtype is bool else 9, (60, 5)).astype(dtype)
    y = X @ np.arange(5.0) + rng.standard_normal(60)
    found = Ridge(solver=solver, random_state=0).fit(X, y)
    expected = Ridge(solver=solver, random_state=0).fit(X.astype(np.float64), y)
    assert found.coef_.dtype == np.float64
    assert np.array_equal(found.coef_, expected.coef_)


@every_solver
@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_array, sparse.coo_array,
                                       sparse.csr_matrix])  # fmt: skip
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_sparse_is_the_same_as_dense(rng, weights, solver, container, fit_intercept):
    X = sparse.random_array((60, 8), density=0.4, rng=rng).toarray()
    y = rng.standard_normal(60)
    options = {"solver": solver, "tol": 1e-10, "fit_intercept": fit_intercept, "random_state": 0}
    dense = Ridge(**options).fit(X, y, sample_weight=weights)
    found = Ridge(**options).fit(container(X), y, sample_weight=weights)
    assert np.allclose(found.coef_, dense.coef_, rtol=1e-7, atol=1e-9)
    assert np.allclose(found.intercept_, dense.intercept_, atol=1e-9)
    assert np.allclose(found.predict(container(X)), dense.predict(X), atol=1e-8)


@every_solver
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_fit_changes_nothing_that_it_is_given(data, weights, solver, container):
    X, y = data
    X = container(X)
    before = [pickle.dumps(a) for a in (X, y, weights)]
    Ridge(solver=solver, copy_X=False).fit(X, y, sample_weight=weights)
    assert [pickle.dumps(a) for a in (X, y, weights)] == before


# Weights and targets.


@pytest.mark.parametrize(
    ("solver", "positive"), [*((solver, False) for solver in SOLVERS), ("auto", True)]
)
def test_a_weight_is_so_many_rows_and_none_for_0(data, weights, solver, positive):
    X, y = data
    options = {"solver": solver, "tol": 1e-10, "random_state": 0, "positive": positive}
    counts = weights.astype(int)
    weighted = Ridge(**options).fit(X, y, sample_weight=weights)
    repeated = Ridge(**options).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    assert (counts == 0).any()
    assert np.allclose(weighted.coef_, repeated.coef_, atol=1e-8)
    assert np.isclose(weighted.intercept_, repeated.intercept_, atol=1e-8)


@every_solver
def test_a_row_of_weight_0_may_hold_anything_finite(data, solver):
    X, y = (a.copy() for a in data)
    weights = np.ones(60)
    weights[[3, 50]] = 0
    expected = Ridge(solver=solver, tol=1e-9, random_state=0).fit(X[weights > 0], y[weights > 0])
    X[3], y[50] = 1e6, -1e6
    found = Ridge(solver=solver, tol=1e-9, random_state=0).fit(X, y, sample_weight=weights)
    assert np.allclose(found.coef_, expected.coef_, atol=1e-6)


@every_solver
@pytest.mark.parametrize("shape", [(), (1,), (3,)], ids=["vector", "column", "table"])
def test_shapes_are_those_of_scikit_learn(data, rng, solver, shape):
    X, _ = data
    y = rng.standard_normal((60, *shape))
    ours = Ridge(solver=solver, tol=1e-10, random_state=0).fit(X, y)
    theirs = linear_model.Ridge().fit(X, y)
    for name in ("coef_", "intercept_"):
        assert np.shape(getattr(ours, name)) == np.shape(getattr(theirs, name))
        assert np.allclose(getattr(ours, name), getattr(theirs, name), atol=1e-7)
    assert ours.predict(X).shape == theirs.predict(X).shape


@pytest.mark.parametrize("solver", SKLEARN_SOLVERS)
@pytest.mark.parametrize("estimator", [Ridge, RidgeClassifier])
@pytest.mark.parametrize("warm_start", [False, True])
def test_a_solver_of_scikit_learn_is_a_note_and_no_warning(data, estimator, solver, warm_start):
    X, y = data
    model = estimator(solver=solver, warm_start=warm_start, random_state=0)
    for _ in range(2):
        model.fit(X, y > y.mean())
        note = f"solver={solver!r} is scikit-learn's; ling uses {model.solver_} for it."
        assert note in model.report_.notes


@pytest.mark.parametrize("solver", ["auto", *SOLVERS[1:], "lsqr", "sparse_cg", "sag"])
def test_an_alpha_for_each_target_may_be_0_for_some(data, rng, solver):
    X, _ = data
    Y = rng.standard_normal((60, 3))
    alphas = [2.0, 0.0, 1e-3]
    model = Ridge(alpha=alphas, solver=solver, fit_intercept=False, tol=1e-9).fit(X, Y)
    for coef, y, alpha in zip(model.coef_, Y.T, alphas, strict=True):
        assert np.allclose(coef, reference.ridge(X, y, alpha), atol=1e-8)
    assert model.report_.status is Status.UNCERTIFIED
    bounds = model.report_.certificate.bounds
    assert np.isinf(bounds[1])
    assert (bounds[[0, 2]] < 1e-9).all()


@every_solver
@pytest.mark.parametrize("shape", [(30, 8), (8, 30)], ids=["tall", "wide"])
def test_alpha_0_is_the_solution_of_least_norm(rng, solver, shape):
    X = rng.standard_normal(shape) @ np.diag(np.arange(shape[1]) < 5)  # of rank 5
    y = rng.standard_normal(shape[0])
    model = Ridge(alpha=0, solver=solver, fit_intercept=False).fit(X, y)
    assert np.allclose(model.coef_, reference.minimum_norm(X, y), atol=1e-10)
    assert "solved by direct (alpha is 0" in str(model.report_)


# float32.


@every_solver
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_float32_stays_float32(data, solver, container):
    X, y = data
    X = container(X.astype(np.float32))
    model = Ridge(solver=solver).fit(X, y.astype(np.float32))
    assert model.coef_.dtype == model.intercept_.dtype == model.predict(X).dtype == np.float32


def prediction_error(model, X, y):
    """Of coef_ and intercept_ as they are, in units of the spread of y, in float64."""
    X, y = X.astype(np.float64), y.astype(np.float64)
    centred = X - X.mean(axis=0)
    exact = reference.ridge(centred, y - y.mean(), model.alpha)
    found = X @ model.coef_.astype(np.float64) + np.float64(model.intercept_)
    return np.linalg.norm(found - y.mean() - centred @ exact) / np.linalg.norm(y - y.mean())


@every_solver
@pytest.mark.parametrize("mean", [0.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-8])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_certificate_covers_the_rounding_to_float32(data, solver, mean, tol):
    X, y = (a.astype(np.float32) for a in data)
    y = (y + mean).astype(np.float32)
    model = Ridge(alpha=0.1, solver=solver, tol=tol).fit(X, y)
    certificate = model.report_.certificate
    assert prediction_error(model, X, y) <= certificate.bound
    assert (model.report_.status is Status.CERTIFIED) == (certificate.bound <= tol)


@every_solver
def test_a_tol_that_float32_does_not_allow_is_blamed_on_it(data, solver):
    X, y = data
    with pytest.warns(ConvergenceWarning, match=r"float32 because X is.*pass X in float64"):
        model = Ridge(solver=solver, tol=1e-10).fit(X.astype(np.float32), y)
    assert model.report_.status is Status.NOT_REACHED
    assert "float32 because X is" in str(model.report_)
    assert 1e-10 < model.report_.certificate.bound < 1e-6
    assert Ridge(solver=solver, tol=1e-10).fit(X, y).report_.status is Status.CERTIFIED


def test_an_intercept_that_float32_cannot_hold_is_in_the_certificate(rng):
    X = rng.standard_normal((100, 3)).astype(np.float32)
    y = X @ np.ones(3) + 1e7 + 1 / 3
    with pytest.warns(ConvergenceWarning, match="float32"):
        model = Ridge(tol=1e-3).fit(X, y)
    assert model.report_.certificate.bound >= prediction_error(model, X, y) > 1e-3


def test_coefficients_beyond_float32_are_refused(data):
    X, y = data
    with pytest.raises(LingError, match="range of float32; pass X in float64"):
        Ridge().fit(X.astype(np.float32), y * 1e60)


# The estimator as an object.


@pytest.mark.parametrize("round_trip", ["pickle", "joblib"])
def test_a_stored_model_predicts_the_same(data, tmp_path, round_trip):
    X, y = data
    model = Ridge(alpha=0.3).fit(X, y)
    if round_trip == "pickle":
        again = pickle.loads(pickle.dumps(model))
    else:
        joblib.dump(model, tmp_path / "model")
        again = joblib.load(tmp_path / "model")
    assert np.array_equal(again.predict(X), model.predict(X))
    assert str(again.report_) == str(model.report_)


def test_a_clone_is_unfitted_and_has_the_same_parameters(data):
    model = Ridge(alpha=0.3, solver="krylov", memory_budget="1GB").fit(*data)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(data[0])


def test_parameters_can_be_set(data):
    model = Ridge().set_params(alpha=3.0, solver="direct").fit(*data)
    assert np.array_equal(model.coef_, Ridge(alpha=3.0, solver="direct").fit(*data).coef_)
    with pytest.raises(ValueError, match="beta"):
        Ridge().set_params(beta=1)


def test_it_works_in_a_pipeline_and_a_grid_search(data):
    X, y = data
    search = GridSearchCV(
        make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 1.0, 1000.0]}, cv=3
    ).fit(X, y)
    assert search.best_params_["ridge__alpha"] < 1000
    assert search.score(X, y) > 0.9


def test_weights_are_routed_where_they_are_asked_for(data, weights):
    X, y = data
    with sklearn.config_context(enable_metadata_routing=True):
        model = Ridge().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        found = cross_validate(model, X, y, params={"sample_weight": weights}, cv=2,
                               return_estimator=True)  # fmt: skip
        first = Ridge().fit(X[30:], y[30:], sample_weight=weights[30:])
        assert np.array_equal(found["estimator"][0].coef_, first.coef_)
        with pytest.raises(ValueError, match="sample_weight"):
            cross_validate(Ridge(), X, y, params={"sample_weight": weights})


def test_it_has_a_picture_for_notebooks(data):
    assert "Ridge" in Ridge()._repr_html_()
    assert "fitted" in Ridge().fit(*data)._repr_html_()
    assert repr(Ridge(alpha=2.0)) == "Ridge(alpha=2.0)"


def test_it_transforms_nothing_so_there_is_no_output_to_set():
    assert not hasattr(Ridge(), "set_output")
    assert not hasattr(Ridge(), "transform")


@every_solver
def test_n_iter_is_for_engines_that_iterate(data, rng, solver):
    X, _ = data
    model = Ridge(solver=solver).fit(X, rng.standard_normal((60, 2)))
    if model.solver_ == "direct":
        assert model.n_iter_ is None
    else:
        assert model.n_iter_.shape == (2,)
        assert (model.n_iter_ >= 1).all()


def test_an_iteration_that_is_cut_short_says_what_it_reached(rng):
    X = rng.standard_normal((200, 60)) * np.arange(1, 61)
    y = rng.standard_normal(200)
    with pytest.warns(ConvergenceWarning, match=r"within \d\.\d\de[-+]\d\d of the exact") as caught:
        model = Ridge(solver="two_stage", max_iter=12, tol=1e-12).fit(X, y)
    assert f"{model.report_.certificate.bound:.2e}" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert (model.n_iter_ == 12).all()


# What is refused, and in which words.


def spoilt(array, at, value):
    array = np.array(array, dtype=np.result_type(array, type(value)))
    array[at] = value
    return array


def text(array):
    return np.full(np.shape(array), "blue", dtype=object)


REFUSED = {
    "X: NaN": (lambda X, y, w: (spoilt(X, (7, 2), np.nan), y, w), r"X .*row 7, column 2"),
    "X: infinity": (lambda X, y, w: (spoilt(X, (59, 0), np.inf), y, w), r"X .*row 59, column 0"),
    "X: -infinity, float32": (
        lambda X, y, w: (spoilt(X, (0, 6), -np.inf).astype(np.float32), y, w),
        r"X .*row 0, column 6",
    ),
    "X: NaN, sparse": (
        lambda X, y, w: (sparse.csr_array(spoilt(X, (7, 2), np.nan)), y, w),
        r"X .*row 7, column 2",
    ),
    "X: text": (lambda X, y, w: (text(X), y, w), "X is not numeric: .*'blue'"),
    "X: complex": (lambda X, y, w: (X * 1j, y, w), "X is complex128"),
    "X: complex, sparse": (lambda X, y, w: (sparse.csr_array(X * 1j), y, w), "X is complex128"),
    "X: a vector": (lambda X, y, w: (X[:, 0], y, w), "Expected 2D array"),
    "X: no rows": (lambda X, y, w: (X[:0], y[:0], None), "0 sample"),
    "X: no columns": (lambda X, y, w: (X[:, :0], y, w), "0 feature"),
    "y: NaN": (lambda X, y, w: (X, spoilt(y, 3, np.nan), w), r"y contains NaN: y\[3\] is nan"),
    "y: infinity": (lambda X, y, w: (X, spoilt(y, 3, np.inf), w), r"infinity.*: y\[3\] is inf"),
    "y: None": (
        lambda X, y, w: (X, spoilt(y.astype(object), 3, None), w),
        r"y contains None: y\[3\] is None",
    ),
    "y: a column with NaN": (
        lambda X, y, w: (X, np.column_stack([y, spoilt(y, 3, np.nan)]), w),
        r"y\[3, 1\] is nan",
    ),
    "y: nullable": (
        lambda X, y, w: (X, pd.Series(spoilt(y, 3, np.nan)).astype("Float64"), w),
        r"y\[3\] is nan",
    ),
    "y: text": (lambda X, y, w: (X, text(y), w), "y is not numeric: .*'blue'.*RidgeClassifier"),
    "y: digits": (lambda X, y, w: (X, np.full(len(y), "1"), w), "y is text.*RidgeClassifier"),
    "y: complex": (lambda X, y, w: (X, y * 1j, w), "y is complex128"),
    "y: sparse": (lambda X, y, w: (X, sparse.csr_array(y[:, None]), w), "y is sparse"),
    "y: too short": (
        lambda X, y, w: (X, y[:-1], w),
        r"inconsistent.*\[60, 59\].*rows of y as of X",
    ),
    "y: none": (lambda X, y, w: (X, None, w), "requires y to be passed.*pass y, a target"),
    "weights: too short": (lambda X, y, w: (X, y, w[:-1]), r"sample_weight.*\(59,\).*\(60,\)"),
    "weights: a table": (lambda X, y, w: (X, y, w[:, None]), "Sample weights must be 1D"),
    "weights: negative": (
        lambda X, y, w: (X, y, spoilt(w, 17, -0.5)),
        r"sample_weight\[17\] is -0",
    ),
    "weights: all 0": (lambda X, y, w: (X, y, 0 * w), "sample_weight is zero everywhere"),
    "weights: NaN": (lambda X, y, w: (X, y, spoilt(w, 1, np.nan)), r"sample_weight\[1\] is nan"),
    "weights: one NaN": (lambda X, y, w: (X, y, np.nan), r"sample_weight\[0\] is nan"),
    "weights: a name": (lambda X, y, w: (X, y, "size"), r"sample_weight is not.*data\.read\("),
    "weights: text": (lambda X, y, w: (X, y, text(w)), "sample_weight is not numeric: .*'blue'"),
    "weights: complex": (lambda X, y, w: (X, y, w * 1j), "sample_weight is complex128"),
    "weights: sparse": (lambda X, y, w: (X, y, sparse.csr_array(w[None])), "sample_weight is spar"),
}


@pytest.mark.parametrize(("spoil", "words"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("solver", ["auto", "two_stage"])
def test_what_is_refused_is_named(data, weights, spoil, words, solver):
    X, y, w = spoil(*data, weights + 1)
    with pytest.raises((ValueError, TypeError), match=words):
        Ridge(solver=solver).fit(X, y, sample_weight=w)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": [1.0, 2.0]}, "penalties do not correspond: 2 != 1"),
        ({"alpha": [np.nan]}, "alpha is .*nan"),
        ({"alpha": ["blue"]}, "alpha is not numeric"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"solver": "fastest"}, "solver"),
        ({"positive": True, "solver": "svd"}, "'svd' does not support positive"),
        ({"memory_budget": "much"}, "memory_budget is 'much'"),
        (
            {"positive": True, "memory_budget": 100.0},
            r"sklearn.linear_model.Ridge\(positive=True\)",
        ),
        ({"alpha": 0.0, "memory_budget": 100.0}, "alpha=0 takes .* memory_budget"),
    ],
)
def test_an_option_that_is_refused_is_named(data, options, words):
    with pytest.raises(ValueError, match=words):
        Ridge(**options).fit(*data)


def test_predict_wants_as_many_features(data):
    with pytest.raises(ValueError, match="7 features"):
        Ridge().fit(*data).predict(data[0][:, :3])


MODELS = {
    "Ridge": Ridge(),
    "RidgeCV": RidgeCV(),
    "RidgeCV, folds": RidgeCV(cv=3),
    "RidgeClassifier": RidgeClassifier(),
    "RidgeClassifierCV": RidgeClassifierCV(),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def scanned(data, target="y"):
    table = pa.table({"a": data[0][:, 0], "b": data[0][:, 1], "y": data[1]})
    return ling.scan_arrow(table, target, ["a", "b"])


@every_model
def test_the_name_of_a_file_is_no_data(model, data):
    X, y = data[0], data[1] > 0
    for path, advice in (
        ("goods.parquet", r"ling.scan_parquet\('goods.parquet', target=...\), then pass data\."),
        (Path("goods.npy"), r"ling.scan_npy\('goods.npy', y=...\)"),
        ("goods", r"scan_parquet\('goods', target=...\) \(there are scan_csv, scan_npy and"),
    ):
        with pytest.raises(LingError, match=rf"X is 'goods.*name of a file.*{advice}"):
            model.fit(path, y)
        with pytest.raises(LingError, match=advice):
            model.fit(path)
        with pytest.raises(LingError, match=advice):
            model.fit(X, y).predict(path)
    with pytest.raises(LingError, match="scan_csv"):
        ling.plan_fit("goods.csv", y)


@every_model
def test_a_missing_target_is_asked_for(model, data):
    fitted = clone(model).fit(data[0][:, :2], data[1] > 0)
    for call in (model.fit, fitted.score, make_pipeline(StandardScaler(), model).fit):
        with pytest.raises(LingError, match=r"y is None; pass y, .*scanned with target=\.\.\."):
            call(data[0][:, :2])
    for X in (scanned(data, target=None), scanned(data).X):
        for call in (model.fit, fitted.score):
            with pytest.raises(LingError, match=r"y is None; .*scanned with target=\.\.\."):
                call(X)


def test_paths_and_batches_ask_for_a_target_too(data):
    for X in (data[0], scanned(data, target=None)):
        for call in (ling.ridge_path, Ridge().partial_fit):
            with pytest.raises(LingError, match="y is None"):
                call(X)


@every_model
@every_frame
def test_a_column_of_a_frame_is_named_when_it_is_at_fault(model, data, frame):
    X, y = data[0], data[1] > 0
    names = [f"x{j}" for j in range(7)]
    good = frame(dict(zip(names, X.T, strict=True)))
    gap = frame(dict(zip(names, spoilt(X, (17, 2), np.nan).T, strict=True)))
    text = frame({**dict(zip(names, X.T, strict=True)), "x4": ["red"] * 60})
    for wrong, words in (
        (gap, r"row 17, column 2 \(x2\)"),
        (text, "column 'x4' of X is not numeric: .*'red'"),
    ):
        with pytest.raises(LingError, match=words):
            model.fit(wrong, y)
        with pytest.raises(LingError, match=words):
            model.fit(good, y).predict(wrong)


def test_where_numbers_are_not_finite_is_said_by_predict(data):
    model = Ridge().fit(*data)
    for X in (spoilt(data[0], (7, 2), np.inf), sparse.csr_array(spoilt(data[0], (7, 2), np.nan))):
        with pytest.raises(LingError, match=r"row 7, column 2\. Drop or fill"):
            model.predict(X)


def test_named_columns_change_no_bit(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    for model in MODELS.values():
        known = clone(model).fit(np.asarray(frame), y > 0)
        assert np.array_equal(clone(model).fit(frame, y > 0).coef_, known.coef_)
