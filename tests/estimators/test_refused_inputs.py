"""What estimators refuse, and what the errors are about."""

from pathlib import Path

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ling
from ling import Ridge
from ling.errors import (
    InputTypeError,
    NegativeWeightError,
    NonFiniteError,
    OptionError,
    ShapeError,
)
from tests.estimators.parameters import every_frame, every_model
from tests.raising import raises


def spoilt(array, at, value):
    array = np.array(array, dtype=np.result_type(array, type(value)))
    array[at] = value
    return array


def text(array):
    return np.full(np.shape(array), "blue", dtype=object)


#: What is passed, the class of the error, its argument, and other fields.
REFUSED = {
    "X: NaN": (
        lambda X, y, w: (spoilt(X, (7, 2), np.nan), y, w),
        NonFiniteError, "X", {"row": 7, "column": 2},
    ),
    "X: infinity": (
        lambda X, y, w: (spoilt(X, (59, 0), np.inf), y, w),
        NonFiniteError, "X", {"row": 59, "column": 0},
    ),
    "X: -infinity, float32": (
        lambda X, y, w: (spoilt(X, (0, 6), -np.inf).astype(np.float32), y, w),
        NonFiniteError, "X", {"row": 0, "column": 6},
    ),
    "X: NaN, sparse": (
        lambda X, y, w: (sparse.csr_array(spoilt(X, (7, 2), np.nan)), y, w),
        NonFiniteError, "X", {"row": 7, "column": 2},
    ),
    "X: text": (lambda X, y, w: (text(X), y, w), InputTypeError, "X", {"mentions": "'blue'"}),
    "X: complex": (
        lambda X, y, w: (X * 1j, y, w),
        InputTypeError, "X", {"mentions": "Complex data not supported: X is complex128"},
    ),
    "X: complex, sparse": (
        lambda X, y, w: (sparse.csr_array(X * 1j), y, w),
        InputTypeError, "X", {"mentions": "complex128"},
    ),
    "y: NaN": (
        lambda X, y, w: (X, spoilt(y, 3, np.nan), w),
        NonFiniteError, "y", {"row": 3, "column": None, "mentions": "nan"},
    ),
    "y: infinity": (
        lambda X, y, w: (X, spoilt(y, 3, np.inf), w),
        NonFiniteError, "y", {"row": 3, "mentions": "inf"},
    ),
    "y: None": (
        lambda X, y, w: (X, spoilt(y.astype(object), 3, None), w),
        NonFiniteError, "y", {"row": 3, "mentions": "None"},
    ),
    "y: a column with NaN": (
        lambda X, y, w: (X, np.column_stack([y, spoilt(y, 3, np.nan)]), w),
        NonFiniteError, "y", {"row": 3, "column": 1},
    ),
    "y: a named column with NaN": (
        lambda X, y, w: (X, pd.DataFrame({"a": y, "b": spoilt(y, 3, np.nan)}), w),
        NonFiniteError, "y", {"row": 3, "column": "b", "mentions": "column 'b' of y is nan"},
    ),
    "y: nullable": (
        lambda X, y, w: (X, pd.Series(spoilt(y, 3, np.nan)).astype("Float64"), w),
        NonFiniteError, "y", {"row": 3},
    ),
    "y: text": (lambda X, y, w: (X, text(y), w), InputTypeError, "y", {"mentions": "'blue'"}),
    "y: a named column of text": (
        lambda X, y, w: (X, pd.DataFrame({"a": y, "b": text(y)}), w),
        InputTypeError, "y", {"column": "b", "mentions": "'blue'"},
    ),
    "y: digits": (
        lambda X, y, w: (X, np.full(len(y), "1"), w),
        InputTypeError, "y", {"mentions": "RidgeClassifier"},
    ),
    "y: complex": (
        lambda X, y, w: (X, y * 1j, w),
        InputTypeError, "y", {"mentions": "complex128"},
    ),
    "y: sparse": (
        lambda X, y, w: (X, sparse.csr_array(y[:, None]), w),
        InputTypeError, "y", {"mentions": "y.toarray()"},
    ),
    "y: too short": (
        lambda X, y, w: (X, y[:-1], w),
        ShapeError, "y", {"mentions": "y has 59 rows, and X has 60"},
    ),
    "y: none": (
        lambda X, y, w: (X, None, w),
        InputTypeError, "y", {"mentions": "requires y to be passed, but the target y is None"},
    ),
    "weights: too short": (
        lambda X, y, w: (X, y, w[:-1]),
        ShapeError, "sample_weight", {"mentions": "(59,), expected (60,)"},
    ),
    "weights: a table": (
        lambda X, y, w: (X, y, w[:, None]),
        ShapeError, "sample_weight", {"mentions": "Sample weights must be 1D array or scalar"},
    ),
    "weights: negative": (
        lambda X, y, w: (X, y, spoilt(w, 17, -0.5)),
        NegativeWeightError, "sample_weight", {"row": 17, "mentions": "-0.5"},
    ),
    "weights: all 0": (
        lambda X, y, w: (X, y, 0 * w),
        OptionError, "sample_weight", {"mentions": "zero"},
    ),
    "weights: NaN": (
        lambda X, y, w: (X, y, spoilt(w, 1, np.nan)),
        NonFiniteError, "sample_weight", {"row": 1, "mentions": "nan"},
    ),
    "weights: one NaN": (
        lambda X, y, w: (X, y, np.nan),
        NonFiniteError, "sample_weight", {"row": None, "mentions": "nan"},
    ),
    "weights: a name": (
        lambda X, y, w: (X, y, "size"),
        InputTypeError, "sample_weight", {"mentions": "data.read("},
    ),
    "weights: text": (
        lambda X, y, w: (X, y, text(w)),
        InputTypeError, "sample_weight", {"mentions": "'blue'"},
    ),
    "weights: complex": (
        lambda X, y, w: (X, y, w * 1j),
        InputTypeError, "sample_weight", {"mentions": "complex128"},
    ),
    "weights: sparse": (
        lambda X, y, w: (X, y, sparse.csr_array(w[None])),
        InputTypeError, "sample_weight", {"mentions": "sample_weight.toarray()"},
    ),
}  # fmt: skip

#: Sample weights (n,), spoilt, the class of the error, and fields of it.
REFUSED_WEIGHTS = {
    "NaN": (lambda w: spoilt(w, 1, np.nan), NonFiniteError, {"row": 1, "mentions": "nan"}),
    "infinity": (lambda w: spoilt(w, 1, np.inf), NonFiniteError, {"row": 1, "mentions": "inf"}),
    "all NaN": (lambda w: np.nan * w, NonFiniteError, {"row": 0}),
    "None": (lambda w: spoilt(w.astype(object), 3, None), NonFiniteError, {"row": 3}),
    "nullable": (
        lambda w: pd.Series(spoilt(w, 3, np.nan)).astype("Float64"), NonFiniteError, {"row": 3},
    ),
    "dask": (lambda w: dask.array.from_array(spoilt(w, 1, np.nan)), NonFiniteError, {"row": 1}),
    "pyarrow": (lambda w: pa.array(spoilt(w, 1, np.nan)), NonFiniteError, {"row": 1}),
    "one infinity": (lambda w: np.inf, NonFiniteError, {"row": None, "mentions": "inf"}),
    "no dimension": (lambda w: np.array(np.nan), NonFiniteError, {"row": None}),
    "overflow": (lambda w: np.full(len(w), 1e308), NonFiniteError, {"mentions": "sum"}),
    "underflow": (lambda w: np.full(len(w), 1e-320), NonFiniteError, {"mentions": "sum"}),
    "negative": (lambda w: spoilt(w, 2, -1.0), NegativeWeightError, {"row": 2}),
    "two dimensions": (lambda w: w[:, None], ShapeError, {"mentions": "(60, 1)"}),
    "two columns": (lambda w: np.column_stack([w, w]), ShapeError, {"mentions": "(60, 2)"}),
    "three dimensions": (lambda w: w[:, None, None], ShapeError, {"mentions": "(60, 1, 1)"}),
    "a row": (lambda w: w[None], ShapeError, {"mentions": "(1, 60)"}),
    "a frame": (lambda w: pd.DataFrame({"w": w}), ShapeError, {"mentions": "(60, 1)"}),
    "too long": (lambda w: np.append(w, 1.0), ShapeError, {"mentions": "(61,)"}),
    "empty": (lambda w: [], ShapeError, {"mentions": "(0,)"}),
    "ragged": (lambda w: [[1.0], [1.0, 2.0]], InputTypeError, {}),
    "dates": (
        lambda w: np.full(len(w), "2024-01-01", "datetime64[D]"),
        InputTypeError, {"mentions": "datetime64"},
    ),
    "sparse": (lambda w: sparse.csr_array(w[None]), InputTypeError, {"mentions": "toarray()"}),
}  # fmt: skip
#: Every kind of X.
KINDS = {
    "dense": lambda X, folder: X,
    "float32": lambda X, folder: X.astype(np.float32),
    "sparse": lambda X, folder: sparse.csr_array(X),
    "dask": lambda X, folder: dask.array.from_array(X, chunks=(20, -1)),
    "file": lambda X, folder: np.save(folder / "X.npy", X) or ling.scan_npy(folder / "X.npy"),
    "frame": lambda X, folder: pd.DataFrame(X, columns=list("abcdefg")),
    "table": lambda X, folder: pa.table(dict(zip("abcdefg", X.T, strict=True))),
}
#: Every function that takes sample weights: called with X, y, classes and weights.
WEIGHTED_CALLS = {
    "path": lambda X, y, c, w: ling.ridge_path(X, y, sample_weight=w),
    "partial_fit": lambda X, y, c, w: Ridge().partial_fit(X, y, sample_weight=w),
    "second batch": lambda X, y, c, w: Ridge().partial_fit(X, y).partial_fit(X, y, sample_weight=w),
    "score": lambda X, y, c, w: Ridge().fit(X, y).score(X, y, sample_weight=w),
    "accuracy": lambda X, y, c, w: ling.RidgeClassifier().fit(X, c).score(X, c, sample_weight=w),
    "class weights": lambda X, y, c, w: ling.RidgeClassifier(class_weight="balanced").fit(X, c, w),
    "report": lambda X, y, c, w: ling.write_report(
        "never.html", Ridge().fit(X, y), X, y, sample_weight=w
    ),
    "path display": lambda X, y, c, w: ling.PathDisplay.from_estimator(
        Ridge().fit(X, y), X, y, sample_weight=w
    ),
    "spectrum display": lambda X, y, c, w: ling.SpectrumDisplay.from_estimator(
        Ridge().fit(X, y), X, sample_weight=w
    ),
    "prediction display": lambda X, y, c, w: ling.PredictionDisplay.from_estimator(
        Ridge().fit(X, y), X, y, sample_weight=w
    ),
}

#: What scikit-learn refuses, in its own words.
REFUSED_BY_SKLEARN = {
    "X: a vector": (lambda X, y: (X[:, 0], y), "Expected 2D array"),
    "X: no rows": (lambda X, y: (X[:0], y[:0]), "0 sample"),
    "X: no columns": (lambda X, y: (X[:, :0], y), "0 feature"),
}


@pytest.mark.parametrize(("spoil", "kind", "argument", "fields"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("solver", ["auto", "two_stage"])
def test_what_is_refused_is_named(data, weights, spoil, kind, argument, fields, solver):
    X, y, w = spoil(*data, weights + 1)
    with raises(kind, argument, **fields):
        Ridge(solver=solver).fit(X, y, sample_weight=w)


every_refused_weight = pytest.mark.parametrize(
    ("spoil", "kind", "fields"), REFUSED_WEIGHTS.values(), ids=REFUSED_WEIGHTS
)


@every_refused_weight
@every_model
def test_every_model_refuses_weights(data, weights, model, spoil, kind, fields):
    with raises(kind, "sample_weight", **fields):
        model.fit(data[0], data[1] > 0, sample_weight=spoil(weights + 1))


@every_refused_weight
@pytest.mark.parametrize("container", KINDS.values(), ids=KINDS)
def test_weights_are_refused_for_every_kind_of_data(
    data, weights, container, spoil, kind, fields, tmp_path
):
    X, w = container(data[0], tmp_path), spoil(weights + 1)
    with raises(kind, "sample_weight", **fields):
        Ridge().fit(X, data[1], sample_weight=w)
    with raises(kind, "sample_weight", **fields):
        Ridge().fit(X, data[1]).score(X, data[1], sample_weight=w)


@every_refused_weight
@pytest.mark.parametrize("call", WEIGHTED_CALLS.values(), ids=WEIGHTED_CALLS)
def test_every_function_refuses_weights(
    data, weights, call, spoil, kind, fields, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # for a report that is written nevertheless
    with raises(kind, "sample_weight", **fields):
        call(*data, data[1] > 0, spoil(weights + 1))


@pytest.mark.parametrize(("spoil", "words"), REFUSED_BY_SKLEARN.values(), ids=REFUSED_BY_SKLEARN)
@pytest.mark.parametrize("solver", ["auto", "two_stage"])
def test_what_scikit_learn_refuses(data, spoil, words, solver):
    with pytest.raises(ValueError, match=words):
        Ridge(solver=solver).fit(*spoil(*data))


@pytest.mark.parametrize(
    ("options", "kind", "argument", "fields"),
    [
        ({"alpha": [1.0, 2.0]}, ShapeError, "alpha",
         {"mentions": "Number of targets and number of penalties do not correspond: 2 != 1"}),
        ({"alpha": [np.nan]}, OptionError, "alpha", {"mentions": "nan"}),
        ({"alpha": ["blue"]}, InputTypeError, "alpha", {"mentions": "'blue'"}),
        ({"positive": True, "solver": "svd"}, OptionError, "solver",
         {"change": ("positive", False), "mentions": "does not support positive"}),
        ({"memory_budget": "much"}, OptionError, "memory_budget", {"mentions": "'much'"}),
        ({"positive": True, "memory_budget": 100.0}, OptionError, "positive", {}),
        ({"alpha": 0.0, "memory_budget": 100.0}, OptionError, "alpha", {}),
    ],
)  # fmt: skip
def test_an_option_that_is_refused_is_named(data, options, kind, argument, fields):
    with raises(kind, argument, **fields):
        Ridge(**options).fit(*data)


@pytest.mark.parametrize(
    "options", [{"alpha": -1.0}, {"tol": -1.0}, {"max_iter": 0}, {"solver": "fastest"}]
)
def test_scikit_learn_checks_the_range_of_options(data, options):
    with pytest.raises(ValueError, match=f"The '{next(iter(options))}' parameter of Ridge must be"):
        Ridge(**options).fit(*data)


def test_predict_wants_as_many_features(data):
    with pytest.raises(ValueError, match="X has 3 features, but Ridge is expecting 7 features"):
        Ridge().fit(*data).predict(data[0][:, :3])


def scanned(data, target="y"):
    table = pa.table({"a": data[0][:, 0], "b": data[0][:, 1], "y": data[1]})
    return ling.scan_arrow(table, target, ["a", "b"])


@every_model
def test_the_name_of_a_file_is_no_data(model, data):
    X, y = data[0], data[1] > 0
    for path, advice in (
        ("goods.parquet", "ling.scan_parquet('goods.parquet', target=...)"),
        (Path("goods.npy"), "ling.scan_npy('goods.npy', y=...)"),
        ("goods", "ling.scan_parquet('goods', target=...) (there are scan_csv, scan_npy and"),
    ):
        refused = {"file": str(path), "mentions": advice}
        with raises(InputTypeError, "X", **refused):
            model.fit(path, y)
        with raises(InputTypeError, "X", **refused):
            model.fit(path)
        with raises(InputTypeError, "X", **refused):
            model.fit(X, y).predict(path)
    with raises(InputTypeError, "X", file="goods.csv", mentions="ling.scan_csv("):
        ling.plan_fit("goods.csv", y)


@every_model
def test_a_missing_target_is_asked_for(model, data):
    fitted = clone(model).fit(data[0][:, :2], data[1] > 0)
    for call in (model.fit, fitted.score, make_pipeline(StandardScaler(), model).fit):
        with raises(InputTypeError, "y", mentions="the target y is None"):
            call(data[0][:, :2])
    for X in (scanned(data, target=None), scanned(data).X):
        for call in (model.fit, fitted.score):
            with raises(InputTypeError, "y", mentions="the target y is None"):
                call(X)


def test_paths_and_batches_ask_for_a_target_too(data):
    for X in (data[0], scanned(data, target=None)):
        for call in (ling.ridge_path, Ridge().partial_fit):
            with raises(InputTypeError, "y", mentions="the target y is None"):
                call(X)


@every_model
@every_frame
def test_a_column_of_a_frame_is_named_when_it_is_at_fault(model, data, frame):
    X, y = data[0], data[1] > 0
    names = [f"x{j}" for j in range(7)]
    good = frame(dict(zip(names, X.T, strict=True)))
    gap = frame(dict(zip(names, spoilt(X, (17, 2), np.nan).T, strict=True)))
    text = frame({**dict(zip(names, X.T, strict=True)), "x4": ["red"] * 60})
    for wrong, kind, fields in (
        (gap, NonFiniteError, {"row": 17, "column": "x2"}),
        (text, InputTypeError, {"column": "x4", "mentions": "'red'"}),
    ):
        with raises(kind, "X", **fields):
            model.fit(wrong, y)
        with raises(kind, "X", **fields):
            model.fit(good, y).predict(wrong)


def test_where_numbers_are_not_finite_is_said_by_predict(data):
    model = Ridge().fit(*data)
    for X in (spoilt(data[0], (7, 2), np.inf), sparse.csr_array(spoilt(data[0], (7, 2), np.nan))):
        with raises(NonFiniteError, "X", row=7, column=2):
            model.predict(X)


def twins(X):
    """The data frame of X with its first column twice."""
    return pd.DataFrame(np.column_stack([X, X[:, :1]]), columns=[*"abcdefg", "a"])


@every_model
def test_two_columns_of_a_name(model, data):
    X, y = data[0], data[1] > 0
    frame = twins(X)
    for table in (frame, pa.Table.from_arrays([*map(pa.array, frame.values.T)], list(frame))):
        with raises(OptionError, "X", column="a", mentions="twice"):
            clone(model).fit(table, y)
    fitted = clone(model).fit(pd.DataFrame(X, columns=list("abcdefg")), y)
    for call in (fitted.predict, lambda table: fitted.score(table, y)):
        with raises(OptionError, "X", column="a", mentions="twice"):
            call(frame)


def test_two_columns_of_a_name_elsewhere(data):
    X, y = data
    for call in (ling.ridge_path, Ridge().partial_fit, ling.plan_fit):
        with raises(OptionError, "X", column="a"):
            call(twins(X), y)
    with raises(OptionError, "X", column="a"):
        Ridge().fit(dask.dataframe.from_pandas(twins(X), npartitions=2), y)
    with raises(OptionError, "y", column="t"):
        Ridge().fit(X, pd.DataFrame(np.column_stack([y, y]), columns=["t", "t"]))
    with raises(OptionError, "X", column=0):
        Ridge().fit(pd.DataFrame(X[:, :2], columns=[0, 0]), y)
    with raises(OptionError, "data", column="a"):
        ling.scan_arrow(twins(X))
    table = pa.table({"a": X[:, 0], "text": ["u", "v"] * 30, "y": y})
    model = Ridge().fit(ling.scan_arrow(table, target="y"))
    with raises(OptionError, "X", column="a"):
        model.predict(pd.concat([table.to_pandas(), table.to_pandas()[["a"]]], axis=1))


@pytest.mark.parametrize("order", ["C", "F"])
def test_products_that_overflow_are_refused_without_a_warning(order, rng):
    X = rng.standard_normal((40, 3))
    X[5, 1] = 1e300
    with raises(NonFiniteError, "X", row=5, column=1):
        Ridge().fit(np.asarray(X, order=order), X[:, 0] * 1e10)
