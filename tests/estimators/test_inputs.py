"""What users may pass to an estimator, and what it means: containers, weights, targets, alphas."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn import linear_model
from sklearn.base import clone

from ling import Ridge, RidgeClassifier, RidgeCV
from ling.estimators.fit import SKLEARN_SOLVERS
from ling.results import Status
from tests import reference
from tests.estimators.parameters import MODELS, SOLVERS, every_frame, every_solver

# Containers.


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


def test_named_columns_change_no_bit(data):
    X, y = data
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    for model in MODELS.values():
        known = clone(model).fit(np.asarray(frame), y > 0)
        assert np.array_equal(clone(model).fit(frame, y > 0).coef_, known.coef_)


# Weights, targets and alphas.


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


Y_KINDS = {
    "array": lambda y, folder: y.copy(),
    "view of another array": lambda y, folder: np.column_stack([y, y])[:, 0],
    "subclass": lambda y, folder: y.copy().view(type("Subclass", (np.ndarray,), {})),
    "memory map": lambda y, folder: np.memmap(folder / "y", np.float64, "w+", shape=y.shape),
    "float32": lambda y, folder: y.astype(np.float32),
    "integers": lambda y, folder: np.round(10 * y).astype(np.int64),
}


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("model", [Ridge(), RidgeCV(), RidgeCV(cv=3)], ids=repr)
@pytest.mark.parametrize("kind", Y_KINDS)
def test_a_fit_does_not_change_its_data(kind, model, weighted, tmp_path, rng):
    X, values = rng.standard_normal((30, 4)) + 5.0, rng.standard_normal(30) + 1e3
    y = Y_KINDS[kind](values, tmp_path)
    if kind == "memory map":
        y[:] = values
    weights = rng.uniform(1, 2, 30) if weighted else None
    before = X.tobytes(), np.asarray(y).tobytes(), None if weights is None else weights.tobytes()
    clone(model).fit(X, y, weights)
    after = X.tobytes(), np.asarray(y).tobytes(), None if weights is None else weights.tobytes()
    assert before == after
