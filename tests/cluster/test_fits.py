"""Estimators on a cluster: the answers of one process, however rows are cut and whoever dies."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

from ling import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV, ridge_path
from ling.design.dask import DaskStorage
from ling.errors import ClusterLostError, InputTypeError, ShapeError
from ling.solvers.engines import ENGINES
from tests.cluster.conftest import cluster
from tests.cluster.test_faults import Killer
from tests.design.bad_chunks import CHANGES, bad, numbers, refused
from tests.raising import raises

pytestmark = pytest.mark.processes

N, P = 600, 40
SOLVERS = "auto", *ENGINES


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, P)) * np.linspace(4, 0.1, P) + 2
    return X, X @ rng.standard_normal(P) + rng.standard_normal(N)


def on_workers(X, y, chunks=(170, P)):
    return da.from_array(X, chunks=chunks), da.from_array(y, chunks=chunks[0])


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_engine(client, data, solver):
    options = {"solver": solver, "tol": 1e-9, "random_state": 0}
    known = Ridge(0.5, **options).fit(*data)
    found = Ridge(0.5, **options).fit(*on_workers(*data))
    np.testing.assert_allclose(found.coef_, known.coef_, rtol=1e-6)
    np.testing.assert_allclose(found.intercept_, known.intercept_, rtol=1e-6)
    assert found.report_.certificate.holds
    assert found.report_.cost.passes == known.report_.cost.passes


def test_cuts_do_not_matter(client, data):
    X, y = data
    weights = np.random.default_rng(1).uniform(0, 2, N)
    known = Ridge(0.5, tol=1e-9).fit(X, y, weights)
    for chunks in [(N, P), (100, P), ((1, 299, 0, 300), P), (250, 13)]:
        dX, dy = on_workers(X, y, chunks)
        found = Ridge(0.5, tol=1e-9).fit(dX, dy, da.from_array(weights, chunks=77))
        np.testing.assert_allclose(found.coef_, known.coef_, rtol=1e-8)
    assert any("columns in 4 chunks" in note for note in found.report_.notes)


def test_data_frames(client, data):
    X, y = data
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(P)]).assign(y=y)
    table = dd.from_pandas(frame, npartitions=3)
    features = table.drop(columns="y")
    model = Ridge(tol=1e-9).fit(features[features["c0"] > -1], table["y"][table["c0"] > -1])
    kept = frame["c0"] > -1
    known = Ridge(tol=1e-9).fit(frame.drop(columns="y")[kept], frame["y"][kept])
    np.testing.assert_allclose(model.coef_, known.coef_)
    assert list(model.feature_names_in_) == list(known.feature_names_in_)
    np.testing.assert_allclose(model.predict(features).compute(), known.predict(frame.iloc[:, :P]))
    with raises(ShapeError, "X", column="c39", mentions="'c0'"):
        model.predict(features[list(features.columns[::-1])])


def test_data_frames_from_parquet(client, data, tmp_path):
    """Dask puts partitions together when columns are chosen, and then miscounts them."""
    X, y = data
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(P)]).assign(y=y, big=X[:, 0] > 2)
    for number in range(5):
        frame.iloc[number * 120 : (number + 1) * 120].to_parquet(tmp_path / f"{number}.parquet")
    table = dd.read_parquet(tmp_path)
    columns = ["c0", "c1", "big"]
    model = Ridge(tol=1e-9).fit(table[columns], table["y"])
    known = Ridge(tol=1e-9).fit(frame[columns], frame["y"])
    np.testing.assert_allclose(model.coef_, known.coef_)
    assert list(model.feature_names_in_) == columns
    assert model.score(table[columns], table["y"]) == pytest.approx(
        known.score(frame[columns], frame["y"])
    )
    text = table.assign(word="a")
    with pytest.raises(InputTypeError, match="'word'"):
        Ridge().fit(text[["c0", "word"]], table["y"])


@pytest.mark.parametrize("cv", [None, 3, KFold(3, shuffle=True, random_state=0)])
def test_alpha_is_chosen(client, data, cv):
    found, known = RidgeCV(cv=cv).fit(*on_workers(*data)), RidgeCV(cv=cv).fit(*data)
    assert found.alpha_ == pytest.approx(known.alpha_)
    np.testing.assert_allclose(found.coef_, known.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.cv_scores_.mean_score, known.cv_scores_.mean_score, rtol=1e-6)


@pytest.mark.parametrize("make", [RidgeClassifier, RidgeClassifierCV])
def test_classifiers_give_lazy_classes(client, data, make):
    X, y = data
    classes = np.array(["low", "mid", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    dX, dy = on_workers(X, classes)
    found, known = make().fit(dX, dy), make().fit(X, classes)
    predicted = found.predict(dX)
    assert isinstance(predicted, da.Array)
    assert predicted.chunks == dy.chunks
    assert (predicted.compute() == known.predict(X)).mean() > 0.99
    assert found.decision_function(dX).shape == (N, 3)
    assert found.score(dX, dy) == pytest.approx(known.score(X, classes), abs=0.01)


def test_predictions_are_lazy(client, data):
    X, y = data
    dX, dy = on_workers(X, y)
    model = Ridge(store_covariance=True).fit(dX, dy)
    found = model.predict(dX)
    assert isinstance(found, da.Array)
    np.testing.assert_allclose(found.compute(), model.predict(X))
    assert model.score(dX, dy) == pytest.approx(model.score(X, y))
    np.testing.assert_allclose(
        model.predict(dX, return_std=True)[1], model.predict(X, return_std=True)[1]
    )
    several = Ridge().fit(dX, da.stack([dy, 2 * dy], axis=1))
    assert several.predict(dX).shape == (N, 2)
    np.testing.assert_allclose(several.predict(dX).compute(), several.predict(X))
    path = ridge_path(dX, dy, [0.1, 10.0])
    np.testing.assert_allclose(path.coef, ridge_path(X, y, [0.1, 10.0]).coef)


def test_without_a_client(data):
    model = Ridge(tol=1e-9).fit(*on_workers(*data))
    np.testing.assert_allclose(model.coef_, Ridge(tol=1e-9).fit(*data).coef_)


class Slowly:
    """Passes that leave time to die in."""

    def __init__(self, monkeypatch, seconds=0.15):
        run = DaskStorage.run

        def slow(design, operation):
            import time

            time.sleep(seconds)
            return run(design, operation)

        monkeypatch.setattr(DaskStorage, "run", slow)


def test_workers_that_die_in_mid_fit_change_nothing(data, monkeypatch):
    options = {"solver": "two_stage", "tol": 1e-8, "random_state": 0}
    known = Ridge(0.01, **options).fit(*data)
    with cluster(2) as client:
        dX, dy = on_workers(*data, chunks=(60, P))
        Slowly(monkeypatch)
        killer = Killer(client, 2, 0.5)
        killer.start()
        found = Ridge(0.01, **options).fit(dX, dy)
        killer.join()
        assert len(killer.killed) == 2
    np.testing.assert_allclose(found.coef_, known.coef_, rtol=1e-5)
    assert found.report_.certificate.holds


def test_all_workers_lost_and_a_warm_start_elsewhere(data, monkeypatch):
    options = {"solver": "two_stage", "tol": 1e-8, "random_state": 0, "warm_start": True}
    whole = Ridge(0.01, **options).fit(*on_workers(*data)).n_iter_[0]
    model = Ridge(0.01, **options)
    with cluster(2) as client, dask.config.set({"ling.patience": 1.0}):
        dX, dy = on_workers(*data)
        run, passes = DaskStorage.run, []

        def losing(design, operation):
            passes.append(operation)
            if len(passes) == whole - 3:
                client.cluster.scale(0)
            return run(design, operation)

        monkeypatch.setattr(DaskStorage, "run", losing)
        with pytest.raises(ClusterLostError, match="no worker"):
            model.fit(dX, dy)
        monkeypatch.setattr(DaskStorage, "run", run)
    assert not hasattr(model, "coef_")
    model.fit(*data)  # in this process, or on another cluster
    assert model.n_iter_[0] < whole
    assert model.report_.certificate.holds


@pytest.mark.parametrize("persisted", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_chunks_are_of_the_declared_shape(client, name, persisted):
    X, message = bad(name)
    X = X.persist() if persisted else X
    with refused(message):
        Ridge().fit(X, numbers()[1])
    with refused(message):
        Ridge().fit(*numbers()).predict(X).compute()
