"""A Dataset in place of X and y: every function gives what it gives for arrays in memory."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import zarr
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ling
from ling import (
    DecisionDisplay,
    PathDisplay,
    PredictionDisplay,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
    SpectrumDisplay,
    plan_fit,
    ridge_path,
    scan_arrow,
    scan_csv,
    scan_feather,
    scan_npy,
    scan_parquet,
    scan_zarr,
)
from ling.errors import (
    InputTypeError,
    MissingValueError,
    NonFiniteError,
    OptionError,
    UnknownCategoryError,
    UnknownColumnError,
)
from ling.estimators.out_of_sample import predict_held_out, rebuild_problem
from ling.report.report_data import collect_report_data
from tests.raising import raises
from tests.versions import reads_polars

N, P = 60, 4
FEATURES = [f"x{j}" for j in range(P)]
ALPHAS = [0.1, 1.0, 10.0]


def arrays():
    """X, a numeric target, classes and sample weights; quarters, which CSV files hold exactly."""
    rng = np.random.default_rng(0)
    X = rng.integers(-20, 20, (N, P)) / 4
    y = X @ np.arange(1.0, P + 1) + rng.integers(-8, 8, N) / 4
    return X, y, np.digitize(y, [-5.0, 5.0]), rng.integers(1, 5, N) / 2


X, Y, CLASSES, WEIGHTS = arrays()


def table():
    columns = dict(zip(FEATURES, X.T, strict=True))
    return pa.table({**columns, "y": Y, "class": CLASSES, "weight": WEIGHTS})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The table, or X, in files of every kind."""
    folder = tmp_path_factory.mktemp("data")
    pq.write_table(table(), folder / "t.parquet", row_group_size=7)
    pyarrow.csv.write_csv(table(), folder / "t.csv")
    pyarrow.feather.write_feather(table(), folder / "t.feather", chunksize=7)
    np.save(folder / "X.npy", X)
    zarr.create_array(folder / "X.zarr", data=X, chunks=(7, P))
    return folder


@pytest.fixture(autouse=True)
def undrawn(monkeypatch):
    """Displays compute what they would draw, and draw nothing."""
    for display in (PathDisplay, SpectrumDisplay, PredictionDisplay, DecisionDisplay):
        monkeypatch.setattr(display, "plot", lambda self, **options: self)


def target_array(target):
    return None if target is None else np.asarray(table()[target])


SCANS = {
    "parquet": lambda folder, target: scan_parquet(folder / "t.parquet", target, FEATURES),
    "csv": lambda folder, target: scan_csv(folder / "t.csv", target, FEATURES),
    "feather": lambda folder, target: scan_feather(folder / "t.feather", target, FEATURES),
    "arrow": lambda folder, target: scan_arrow(table(), target, FEATURES),
    "npy": lambda folder, target: scan_npy(folder / "X.npy", target_array(target)),
    "zarr": lambda folder, target: scan_zarr(folder / "X.zarr", target_array(target)),
}
every_scan = pytest.mark.parametrize("scan", SCANS.values(), ids=SCANS)
TABLES = {name: scan for name, scan in SCANS.items() if name not in ("npy", "zarr")}
every_table = pytest.mark.parametrize("scan", TABLES.values(), ids=TABLES)

#: Functions of (X, y), or of a Dataset alone. `data[0]` is X, or the Dataset.
REGRESSION = {
    "fit": lambda *data: Ridge().fit(*data).coef_,
    "fit, weights": lambda *data: Ridge().fit(*data, sample_weight=WEIGHTS).coef_,
    "predict": lambda *data: Ridge().fit(*data).predict(data[0]),
    "predict, std": lambda *data: (
        Ridge(store_covariance=True).fit(*data).predict(data[0], return_std=True)
    ),
    "predict_blocks": lambda *data: next(Ridge().fit(*data).predict_blocks(data[0]))[1],
    "score": lambda *data: Ridge().fit(*data).score(*data),
    "score, weights": lambda *data: Ridge().fit(*data).score(*data, sample_weight=WEIGHTS),
    "partial_fit": lambda *data: Ridge().partial_fit(*data).partial_fit(*data).coef_,
    "partial_fit, remove": lambda *data: (
        Ridge().partial_fit(*data).partial_fit(*data).partial_fit(*data, remove=True).coef_
    ),
    "leave-one-out": lambda *data: RidgeCV().fit(*data).cv_scores_.split_scores,
    "folds": lambda *data: RidgeCV(cv=3).fit(*data).cv_scores_.split_scores,
    "pipeline": lambda *data: make_pipeline(Ridge()).fit(*data).predict(data[0]),
    "pipeline, score": lambda *data: make_pipeline(Ridge()).fit(*data).score(*data),
    "path": lambda *data: ridge_path(*data, alphas=ALPHAS).coef,
    "path, predict": lambda *data: ridge_path(*data, alphas=ALPHAS).predict(data[0]),
    "plan_fit": lambda *data: plan_fit(*data).dimensions.n_targets,
    "held out": lambda *data: (
        predict_held_out(rebuild_problem(Ridge().fit(*data), *data)).predictions
    ),
    "PathDisplay": lambda *data: PathDisplay.from_estimator(Ridge().fit(*data), *data).coef,
    "SpectrumDisplay": lambda *data: (
        SpectrumDisplay.from_estimator(Ridge().fit(*data), data[0]).eigenvalues
    ),
    "PredictionDisplay": lambda *data: (
        PredictionDisplay.from_estimator(RidgeCV(cv=3).fit(*data), *data).predicted
    ),
}
CLASSIFICATION = {
    "fit": lambda *data: RidgeClassifier().fit(*data).coef_,
    "predict": lambda *data: RidgeClassifier().fit(*data).predict(data[0]),
    "decision_function": lambda *data: RidgeClassifier().fit(*data).decision_function(data[0]),
    "score": lambda *data: RidgeClassifier().fit(*data).score(*data),
    "folds": lambda *data: RidgeClassifierCV(cv=3).fit(*data).cv_scores_.split_scores,
    "PathDisplay": lambda *data: (
        PathDisplay.from_estimator(RidgeClassifier(class_weight="balanced").fit(*data), *data).coef
    ),
    "DecisionDisplay": lambda *data: (
        DecisionDisplay.from_estimator(RidgeClassifier().fit(*data), *data).values
    ),
}


def assert_same_for_datasets(call, scan, folder, target):
    y = target_array(target)
    data, without_target = scan(folder, target), scan(folder, None)
    in_parts = call(data.X, data.y)
    if data.encoding is None:
        np.testing.assert_array_equal(in_parts, call(X, y))
    else:  # blocks of tables are in Fortran order, so that sums are rounded differently
        np.testing.assert_allclose(in_parts, call(X, y), rtol=1e-12, atol=1e-12)
    for result in (call(data), call(without_target, y)):
        np.testing.assert_array_equal(result, in_parts)


def with_few_scans(calls, names):
    """All calls of a table and of an array, and some of the other scans."""
    return pytest.mark.parametrize(
        ("call", "scan"),
        [
            pytest.param(call, scan, id=f"{name}-{scan_name}")
            for name, call in calls.items()
            for scan_name, scan in SCANS.items()
            if scan_name in ("parquet", "npy") or name in names
        ],
    )


@with_few_scans(REGRESSION, ["fit, weights", "predict", "folds", "score", "PredictionDisplay"])
def test_regression(call, scan, folder):
    assert_same_for_datasets(call, scan, folder, "y")


@with_few_scans(CLASSIFICATION, ["predict", "DecisionDisplay"])
def test_classification(call, scan, folder):
    assert_same_for_datasets(call, scan, folder, "class")


@every_scan
def test_features_are_read_into_memory(scan, folder):
    np.testing.assert_array_equal(scan(folder, "y").to_numpy(), X)


@every_table
def test_several_targets(scan, folder):
    data = scan(folder, ["y", "weight"])
    both = np.column_stack([Y, WEIGHTS])
    assert plan_fit(data).dimensions.n_targets == 2
    np.testing.assert_array_equal(Ridge().fit(data).coef_, Ridge().fit(X, both).coef_)


@every_table
def test_weights_from_the_table(scan, folder):
    data = scan(folder, "y")
    weighted = Ridge().fit(data, sample_weight=data.read("weight"))
    np.testing.assert_array_equal(weighted.coef_, Ridge().fit(X, Y, WEIGHTS).coef_)


@every_scan
def test_reports(scan, folder):
    data = scan(folder, "y")
    of_dataset, of_arrays = (
        collect_report_data(RidgeCV(cv=3).fit(*given), *given, None, None, None, {})
        for given in ((data, None), (X, Y))
    )
    np.testing.assert_allclose(
        of_dataset.held_out.predictions, of_arrays.held_out.predictions, rtol=1e-12, atol=1e-12
    )
    assert of_dataset.source == data.source.description


@every_table
@pytest.mark.parametrize(
    ("make", "target", "name", "names"),
    [
        (Ridge, "weight", "weight", ("weight",)),
        (Ridge, ["y", "weight"], "the targets", ("y", "weight")),
        (Ridge, ["weight"], "weight", ("weight",)),
        (RidgeClassifier, "class", "class", ("0", "1", "2")),
    ],
)
def test_reports_name_the_target(make, target, name, names, scan, folder):
    data = scan(folder, target)
    found = collect_report_data(make().fit(data), data, None, None, None, None, {})
    assert (found.target_name, found.target_names) == (name, names)


class TestTarget:
    CALLS = {  # noqa: RUF012
        "fit": lambda data, y: Ridge().fit(data, y),
        "RidgeCV": lambda data, y: RidgeCV().fit(data, y),
        "RidgeClassifier": lambda data, y: RidgeClassifier().fit(data, y > 0),
        "partial_fit": lambda data, y: Ridge().partial_fit(data, y),
        "score": lambda data, y: Ridge().fit(data).score(data, y),
        "ridge_path": lambda data, y: ridge_path(data, y),
        "plan_fit": lambda data, y: plan_fit(data, y),
        "report": lambda data, y: collect_report_data(
            Ridge().fit(data), data, y, None, None, None, {}
        ),
        "PathDisplay": lambda data, y: PathDisplay.from_estimator(Ridge().fit(data), data, y),
        "PredictionDisplay": lambda data, y: PredictionDisplay.from_estimator(
            Ridge().fit(data), data, y
        ),
    }

    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
    def test_there_is_only_one(self, call, folder):
        data = SCANS["parquet"](folder, "y")
        with raises(OptionError, "y", mentions="data.X and y"):
            call(data, Y)

    def test_another_one_goes_with_x(self, folder):
        data = SCANS["parquet"](folder, "y")
        np.testing.assert_array_equal(
            Ridge().fit(data.X, WEIGHTS).coef_, Ridge().fit(X, WEIGHTS).coef_
        )

    @every_scan
    def test_of_a_scan_without(self, scan, folder):
        data = scan(folder, None)
        assert not data.has_target
        with raises(OptionError, "target"):
            _ = data.y
        with raises(InputTypeError, "y", mentions="scanned with target=..."):
            Ridge().fit(data)
        assert plan_fit(data).dimensions.n_targets == 1
        known = Ridge().fit(X, Y)
        np.testing.assert_allclose(Ridge().fit(data, Y).predict(data), known.predict(X))

    def test_text_is_for_a_classifier(self):
        names = np.where(Y > 0, "high", "low")
        data = scan_arrow(pa.table({"x": X[:, 0], "name": names}), "name")
        with raises(InputTypeError, "y", mentions="RidgeClassifier"):
            Ridge().fit(data)
        assert set(RidgeClassifier().fit(data).predict(data)) == {"high", "low"}

    def test_a_mapped_one_is_copied(self, tmp_path):
        np.save(tmp_path / "y.npy", CLASSES)
        np.save(tmp_path / "X.npy", X)
        mapped = np.load(tmp_path / "y.npy", mmap_mode="r+")
        y = scan_npy(tmp_path / "X.npy", mapped).y
        mapped[:] = 0
        np.testing.assert_array_equal(y, CLASSES)


@pytest.mark.parametrize("part", [lambda data: data, lambda data: data.X], ids=["data", "data.X"])
@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        lambda data: np.array(data, dtype=np.float32),
        lambda data: cross_val_score(Ridge(), data, Y),
        lambda data: GridSearchCV(Ridge(), {"alpha": ALPHAS}).fit(data, Y),
        lambda data: train_test_split(data, Y),
        lambda data: make_pipeline(StandardScaler(), Ridge()).fit(data, Y),
        lambda data: ling.paper.ridge(X, data, 0.1),
        lambda data: Ridge().fit(X, data),
    ],
    ids=["asarray", "array", "cross_val_score", "search", "split", "pipeline", "paper", "y"],
)
def test_what_is_read_in_blocks_is_no_array(part, convert, folder):
    with raises(InputTypeError, "X", mentions="data.to_numpy()"):
        convert(part(SCANS["npy"](folder, None)))


def test_designs_take_x_of_a_dataset(folder):
    data = SCANS["npy"](folder, "y")
    for call in (ling.design.as_design, lambda X: ling.paper.ridge(X, Y, 0.1)):
        with raises(InputTypeError, "X", mentions="data.X"):
            call(data)
        call(data.X)


FRAMES = pytest.mark.parametrize(
    "frame",
    [
        pytest.param(pd.DataFrame, id="pandas"),
        pytest.param(pl.DataFrame, id="polars", marks=reads_polars),
    ],
)


@FRAMES
class TestDataFrames:
    """Data frames are encoded as the table that a model was fitted to."""

    COLUMNS = {  # noqa: RUF012
        "size": X[:, 0], "colour": np.array(["red", "blue", "green"])[CLASSES], "price": Y,
    }  # fmt: skip

    def fitted(self, **options):
        data = scan_arrow(pa.table(self.COLUMNS), "price", **options)
        return Ridge().fit(data), data

    def test_columns_are_matched_by_name(self, frame):
        model, data = self.fitted()
        known = model.predict(data)
        names = ["price", "colour", "size"]
        new = frame({name: self.COLUMNS[name] for name in names})
        np.testing.assert_array_equal(model.predict(new), known)
        np.testing.assert_array_equal(next(model.predict_blocks(new))[1], known)
        assert model.score(new, Y) == model.score(data)
        path = ridge_path(data, alphas=ALPHAS)
        np.testing.assert_array_equal(path.predict(new), path.predict(data))
        batches = Ridge().partial_fit(data).partial_fit(new, Y)
        known = Ridge().partial_fit(data).partial_fit(data)
        np.testing.assert_array_equal(batches.coef_, known.coef_)

    def test_columns_that_are_missing_are_named(self, frame):
        model, _ = self.fitted()
        for names in (["size"], ["price"]):
            with raises(UnknownColumnError, "X", mentions="'colour'"):
                model.predict(frame({name: self.COLUMNS[name] for name in names}))

    def test_unknown_categories_are_named(self, frame):
        model, _ = self.fitted()
        new = frame({"size": [1.0], "colour": ["pink"]})
        with raises(
            UnknownCategoryError, "X", row=0, column="colour", change=("unknown", "ignore"),
            mentions="scan_arrow, with like=model",
        ):  # fmt: skip
            model.predict(new)
        assert np.isfinite(model.predict(scan_arrow(new, like=model, unknown="ignore"))).all()

    def test_columns_may_be_encoded_already(self, frame):
        model, data = self.fitted()
        encoded = frame(dict(zip(data.feature_names, data.to_numpy().T, strict=True)))
        np.testing.assert_allclose(model.predict(encoded), model.predict(data))

    @pytest.mark.parametrize("features", [["size", "colour"], ["size"]])
    def test_missing_values_are_filled_as_in_the_fit(self, frame, features):
        model, _ = self.fitted(features=features, missing="mean")
        filled = frame({"size": [X[:, 0].mean(), 1.0], "colour": ["red", "blue"]})
        gap = frame({"size": [None, 1.0], "colour": ["red", "blue"]})
        gap, filled = gap[features], filled[features]
        np.testing.assert_allclose(model.predict(gap), model.predict(filled))
        model, _ = self.fitted(features=features)
        # Columns of numbers alone need no encoding: scikit-learn reads a missing one as NaN.
        kind = MissingValueError if "colour" in features else NonFiniteError
        with raises(kind, "X", row=0, column="size"):
            model.predict(gap)

    def test_they_can_be_scanned(self, frame):
        scanned = scan_arrow(frame(self.COLUMNS), "price")
        known = scan_arrow(pa.table(self.COLUMNS), "price")
        assert scanned.feature_names == known.feature_names
        np.testing.assert_array_equal(Ridge().fit(scanned).coef_, Ridge().fit(known).coef_)
