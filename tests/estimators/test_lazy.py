"""X that is read in blocks: the same answers as in memory, within the budget."""

import tracemalloc

import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

from ling import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV, plan_fit, ridge_path
from ling.design import ArraySource, ChunkedStorage, as_design
from ling.errors import InputTypeError, NonFiniteError, ShapeError
from ling.estimators import open_data
from ling.io import scan_npy
from ling.model_selection import strategy
from ling.solvers.engines import ENGINES
from ling.solvers.memory_budget import MemoryBudget
from tests.raising import raises


class Sequential(ArraySource):
    """Rows that can only be read in order."""

    has_row_access = False

    def take(self, rows):
        raise AssertionError("rows are not to be picked")


def in_blocks(X, source=Sequential, height=32):
    """X in blocks of `height` rows, although it would fit in memory."""
    n_bytes = 4 * height * X.shape[1] * X.itemsize
    return ChunkedStorage(source(X), max_resident_bytes=n_bytes, has_fixed_blocks=True)


def data(n=400, p=30, t=1, seed=0, offset=3.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * np.linspace(3, 0.2, p) + offset
    y = X @ rng.standard_normal((p, t)) + rng.standard_normal((n, t))
    return X, y[:, 0] if t == 1 else y


def assert_same(lazily, known, tol=1e-9):
    np.testing.assert_allclose(lazily.coef_, known.coef_, rtol=tol, atol=tol)
    np.testing.assert_allclose(lazily.intercept_, known.intercept_, rtol=tol, atol=tol)


@pytest.mark.parametrize("source", [ArraySource, Sequential])
@pytest.mark.parametrize("solver", ENGINES)
@pytest.mark.parametrize("t", [1, 3])
def test_every_engine_reads_blocks(solver, source, t):
    X, y = data(t=t)
    options = {"solver": solver, "tol": 1e-9, "random_state": 0}
    assert_same(
        Ridge(0.3, **options).fit(in_blocks(X, source), y), Ridge(0.3, **options).fit(X, y), 1e-6
    )


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_weights_and_intercepts(fit_intercept, weighted):
    X, y = data()
    weights = np.random.default_rng(1).uniform(0, 2, len(y)) if weighted else None
    model = Ridge(0.3, fit_intercept=fit_intercept, tol=1e-10)
    known = Ridge(0.3, fit_intercept=fit_intercept, tol=1e-10).fit(X, y, weights)
    assert_same(model.fit(in_blocks(X), y, weights), known)


def test_more_features_than_samples():
    X, y = data(40, 200)
    for solver in ("direct", "two_stage"):
        model = Ridge(5.0, solver=solver, tol=1e-8).fit(in_blocks(X, height=7), y)
        assert_same(model, Ridge(5.0, tol=1e-8).fit(X, y), 1e-5)


def test_float32():
    X, y = data()
    X = X.astype(np.float32)
    model = Ridge(0.3).fit(in_blocks(X), y)
    assert model.coef_.dtype == np.float32
    assert_same(model, Ridge(0.3).fit(X, y), 1e-3)


@pytest.mark.parametrize(
    "cv", [None, 4, KFold(3, shuffle=True, random_state=0), TimeSeriesSplit(3),
           ShuffleSplit(3, random_state=0)],
)  # fmt: skip
@pytest.mark.parametrize("source", [ArraySource, Sequential])
def test_alpha_is_chosen_from_blocks(cv, source):
    X, y = data(t=2)
    lazily, known = (RidgeCV(cv=cv).fit(given, y) for given in (in_blocks(X, source), X))
    assert lazily.alpha_ == pytest.approx(known.alpha_)
    np.testing.assert_allclose(lazily.cv_scores_.mean_score, known.cv_scores_.mean_score, rtol=1e-8)
    assert_same(lazily, known, 1e-7)


def test_generalised_cross_validation_and_groups():
    X, y = data()
    options = {"gcv_mode": "stochastic", "random_state": 0}
    lazily, known = (RidgeCV(**options).fit(given, y) for given in (in_blocks(X), X))
    assert lazily.alpha_ == pytest.approx(known.alpha_)
    groups = np.arange(len(y)) % 7
    lazily = RidgeCV(cv=GroupKFold(3)).fit(in_blocks(X), y, groups=groups)
    known = RidgeCV(cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert lazily.alpha_ == pytest.approx(known.alpha_)


@pytest.mark.parametrize("make", [RidgeClassifier, RidgeClassifierCV])
def test_classifiers(make):
    X, y = data()
    classes = np.array(["low", "mid", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    lazily, known = make().fit(in_blocks(X), classes), make().fit(X, classes)
    assert_same(lazily, known, 1e-3)
    assert (lazily.predict(in_blocks(X)) == known.predict(X)).mean() > 0.99
    assert lazily.decision_function(in_blocks(X)).shape == (len(X), 3)


def test_the_path():
    X, y = data()
    alphas = np.logspace(-2, 3, 7)
    lazily, known = (ridge_path(given, y, alphas) for given in (in_blocks(X), X))
    np.testing.assert_allclose(lazily.coef, known.coef, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(lazily.edf, known.edf)
    np.testing.assert_allclose(lazily.predict(in_blocks(X)), known.predict(X), rtol=1e-6)


def test_predictions_come_in_blocks():
    X, y = data()
    model = Ridge(store_covariance=True).fit(X, y)
    known, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(model.predict(in_blocks(X)), known)
    np.testing.assert_allclose(model.predict(in_blocks(X), return_std=True)[1], std)
    parts = list(model.predict_blocks(in_blocks(X)))
    assert [rows.start for rows, _ in parts] == list(range(0, len(X), 32))
    np.testing.assert_allclose(np.concatenate([found for _, found in parts]), known)
    ((rows, found),) = model.predict_blocks(X)
    assert rows == slice(0, len(X))
    np.testing.assert_array_equal(found, known)


@pytest.mark.parametrize("weighted", [True, False])
def test_batches_may_be_read_too(weighted):
    X, y = data()
    weights = np.random.default_rng(1).uniform(0, 2, len(y)) if weighted else np.ones(len(y))
    model = Ridge()
    for rows in (slice(0, 150), slice(150, 400), slice(100, 200)):
        model.partial_fit(in_blocks(X[rows]), y[rows], weights[rows])
    model.partial_fit(in_blocks(X[100:200]), y[100:200], weights[100:200], remove=True)
    assert_same(model, Ridge(tol=1e-12).fit(X, y, weights), 1e-8)
    with raises(ShapeError, "X", mentions="X has 29 features, but Ridge is expecting 30 features"):
        model.partial_fit(in_blocks(X[:, 1:]), y)


def test_a_memory_map_larger_than_the_budget_is_read_in_blocks(tmp_path):
    X, y = data(4000, 300)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert open_data.open_storage(mapped, MemoryBudget(1e6)) is not None
    assert open_data.open_storage(mapped, MemoryBudget(1e9)) is None
    options = {"tol": 1e-9}
    assert_same(
        Ridge(memory_budget="8MB", **options).fit(mapped, y), Ridge(**options).fit(X, y), 1e-6
    )


def test_small_files_are_read_once(tmp_path, monkeypatch):
    X, y = data()
    np.save(tmp_path / "X.npy", X)
    reads = []
    design = scan_npy(tmp_path / "X.npy").X
    blocks = type(design.source).blocks
    monkeypatch.setattr(
        type(design.source), "blocks",
        lambda self, *rows: reads.append(rows) or blocks(self, *rows),
    )  # fmt: skip
    assert_same(RidgeCV(cv=3).fit(design, y), RidgeCV(cv=3).fit(X, y))
    assert len(reads) == 1


@pytest.mark.parametrize("solver", ["auto", "direct", "two_stage"])
def test_memory_stays_within_the_budget(tmp_path, solver):
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float64, (50_000, 200))
    for rows in range(0, len(X), 10_000):
        X[rows : rows + 10_000] = rng.standard_normal((10_000, 200))
    y = X @ rng.standard_normal(200) + rng.standard_normal(len(X))
    del X
    design = scan_npy(tmp_path / "X.npy").X
    Ridge(memory_budget="20MB", solver=solver).fit(design, y)  # compiles
    tracemalloc.start()
    model = Ridge(memory_budget="20MB", solver=solver).fit(design, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6 < design.n_bytes / 3
    assert model.report_.certificate.holds


def test_leave_one_out_stays_within_the_budget(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300_000, 6)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    y = X.sum(axis=1) + rng.standard_normal(len(X))
    design, alphas = scan_npy(tmp_path / "X.npy").X, np.logspace(-2, 4, 30)
    known = RidgeCV(alphas).fit(X.astype(np.float64), y)
    RidgeCV(alphas[:1], memory_budget="12MB").fit(design, y)  # compiles
    tracemalloc.start()
    model = RidgeCV(alphas, memory_budget="12MB").fit(design, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12e6 + y.nbytes  # all leverages would be 72 MB
    assert model.alpha_ == known.alpha_
    assert model.report_.cost.passes <= 4


@pytest.mark.parametrize("options", [{"cv": 5}, {"gcv_mode": "stochastic"}], ids=["folds", "gcv"])
def test_rows_may_be_many_when_alpha_is_chosen(tmp_path, options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400_000, 5)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    y = X.sum(axis=1) + rng.standard_normal(len(X))
    design = scan_npy(tmp_path / "X.npy").X
    model = RidgeCV(**options, random_state=0, memory_budget="12MB")
    model.fit(design, y)  # compiles
    tracemalloc.start()
    model.fit(design, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Masks of all folds would be 5 numbers a row, probes 24, the numbers of training rows 4.
    assert peak < 15e6 + 3 * y.nbytes
    assert model.report_.cost.passes <= 16


SPLITS = {
    "folds": 4,
    "shuffled": KFold(4, shuffle=True, random_state=0),
    "repeated": RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "one": [(np.arange(100, 400), np.arange(100))],
    "bootstrap": [
        (np.random.default_rng(seed).integers(0, 400, 400), np.arange(seed, 400, 3))
        for seed in range(3)
    ],
    "tested twice": [(np.arange(200, 400), np.repeat(np.arange(100), 2)) for _ in range(2)],
    "each": None,
}


# Every pair of values: weights with every scoring, of which they are a part, in one of two ways.
@pytest.mark.parametrize("cv", SPLITS.values(), ids=SPLITS)
@pytest.mark.parametrize(
    ("iterates", "scoring", "weighted"),
    [
        (False, None, True),
        (False, "neg_mean_squared_error", False),
        (False, "r2", True),
        (True, None, False),
        (True, "neg_mean_squared_error", True),
        (True, "r2", False),
    ],
)
def test_scores_are_those_of_predictions(cv, scoring, weighted, iterates, monkeypatch):
    """Samples add to scores in the pass that predicts them; in memory they are predicted first."""
    if iterates:
        monkeypatch.setattr(strategy, "fold_factorization_bytes", lambda n, p: np.inf)
    X, y = data(t=2)
    weights = np.random.default_rng(1).uniform(0, 2, len(y)) if weighted else None
    options = {"cv": cv, "scoring": scoring, "alpha_per_target": True, "random_state": 0}
    if iterates and cv is None:
        options["gcv_mode"] = "stochastic"
    found = RidgeCV(np.logspace(-1, 5, 6), tol=1e-7, **options)
    found.fit(in_blocks(X, ArraySource), y, weights)
    known = RidgeCV(np.logspace(-1, 5, 6), tol=1e-7, **options).fit(X, y, weights)
    for name in ("mean_score", "std_error", "split_scores"):
        close = {"rtol": 1e-4 if iterates else 1e-9, "atol": 1e-9}
        values = (getattr(model.cv_scores_, name) for model in (found, known))
        np.testing.assert_allclose(*values, **close)


@pytest.mark.parametrize("cv", [None, 3], ids=["each", "folds"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
def test_accuracies_are_those_of_predictions(cv, n_classes, weighted):
    X, y = data()
    labels = np.array(list("abcd"))[
        np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    ]
    weights = np.random.default_rng(1).uniform(0, 2, len(y)) if weighted else None
    known, found = (
        RidgeClassifierCV([1.0, 1e3, 1e5], cv=cv, scoring="accuracy").fit(design, labels, weights)
        for design in (X, in_blocks(X, ArraySource))
    )
    for name in ("split_scores", "std_error"):
        values = (getattr(model.cv_scores_, name) for model in (found, known))
        np.testing.assert_allclose(*values, rtol=1e-9)


def test_weights_do_not_add_to_the_error_of_an_accuracy():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    X[:, 0] += np.where(X[:, 0] > 0, 3, -3)
    model = RidgeClassifierCV([1.0, 10.0], scoring="accuracy")
    model.fit(in_blocks(X), X[:, 0] > 0, rng.uniform(0, 2, 400))
    assert (model.cv_scores_.split_scores == 1).all()
    assert (model.cv_scores_.std_error <= 1e-7).all()


class Counting(ArraySource):
    """Counts the rows that are read."""

    read = 0

    def blocks(self, rows, height):
        for block in super().blocks(rows, height):
            Counting.read += len(block)
            yield block


@pytest.mark.parametrize("name", ["folds", "shuffled"])
def test_folds_are_read_as_often_as_is_told(name):
    X, y = data(1000, 5)
    Counting.read = 0
    design = in_blocks(X, Counting)
    assert design.read_bandwidth  # measured once, which is no pass
    before = Counting.read
    model = RidgeCV(np.logspace(-3, 3, 7), cv=SPLITS[name]).fit(design, y)
    assert (Counting.read - before) / len(X) == pytest.approx(model.report_.cost.passes, abs=0.3)
    assert model.report_.cost.passes <= 5


def test_a_zero_alpha_is_solved_from_the_gram_matrix():
    X, y = data()
    model = Ridge(0.0, memory_budget="100KB").fit(in_blocks(X), y)
    np.testing.assert_allclose(model.coef_, Ridge(0.0).fit(X, y).coef_, rtol=1e-6)
    assert model.report_.status.name == "UNCERTIFIED"


def test_paths_know_their_columns():
    X, y = data()
    path = ridge_path(X, y, [1.0])
    with raises(ShapeError, "X", mentions="29 features, but RidgePath is expecting 30"):
        path.predict(X[:, 1:])
    with raises(ShapeError, "X", mentions="29 features, but RidgePath is expecting 30"):
        path.predict(in_blocks(X[:, 1:]))


def test_a_plan_is_of_what_a_fit_would_do(tmp_path):
    X, y = data()
    np.save(tmp_path / "X.npy", X)
    design = scan_npy(tmp_path / "X.npy").X
    assert not plan_fit(design, y).dimensions.is_out_of_core
    assert plan_fit(design, y, memory_budget="100KB").dimensions.is_out_of_core
    fixed = ChunkedStorage(design.source, max_resident_bytes=25e6, has_fixed_blocks=True)
    planned = plan_fit(fixed, y, memory_budget="100MB")
    assert planned.memory_budget == pytest.approx(75e6)
    assert planned.steps[0].fits


def test_integers_that_are_mapped_count_as_what_they_become(tmp_path):
    counts = np.random.default_rng(0).integers(0, 9, (20_000, 50), dtype=np.uint8)
    np.save(tmp_path / "X.npy", counts)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert open_data.open_storage(mapped, MemoryBudget(4 * counts.nbytes)) is not None
    assert open_data.open_storage(mapped, MemoryBudget(16 * counts.nbytes)) is None
    # So few are not worth reading in blocks.
    assert open_data.open_storage(mapped[:1000], MemoryBudget(1.0)) is None


def test_what_is_wrong_is_named():
    X, y = data()
    with raises(ShapeError, "y", mentions="y has 399 rows, and X has 400"):
        Ridge().fit(in_blocks(X), y[1:])
    with raises(ShapeError, "X", mentions="30 features, but Ridge is expecting 29"):
        Ridge().fit(X[:, 1:], y).predict(in_blocks(X))
    spoilt = X.copy()
    spoilt[123, 7] = np.nan
    with raises(NonFiniteError, "X", row=123, column=7):
        Ridge().fit(in_blocks(spoilt), y)
    with raises(NonFiniteError, "X", row=123, column=7):
        Ridge().fit(X, y).predict(in_blocks(spoilt))
    with raises(NonFiniteError, "X", row=123, column=7):
        list(Ridge().fit(X, y).predict_blocks(in_blocks(spoilt)))
    with raises(InputTypeError, "X", mentions="transformation of other data"):
        Ridge().fit(as_design(X).centered(), y)
    with raises(InputTypeError, "y", mentions="'word'"):
        Ridge().fit(in_blocks(X), np.full(len(X), "word"))
    with raises(ShapeError, "X"):
        Ridge().fit(in_blocks(X[:0]), y[:0])


class Unread(ArraySource):
    """Rows that must not be read."""

    def blocks(self, rows, height):
        raise AssertionError("a plan of data that will be in memory needs no bandwidth")


def test_a_plan_of_data_that_will_be_in_memory_reads_nothing():
    X, y = data()
    planned = plan_fit(ChunkedStorage(Unread(X)), y)
    assert planned.dimensions.read_bandwidth is None
    assert planned.memory.resident_bytes == X.nbytes
