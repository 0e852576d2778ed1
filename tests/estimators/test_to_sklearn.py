"""`to_sklearn`: scikit-learn's own estimators that predict what ling's predict."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn import linear_model
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

import ling
from ling.estimators.fit import SKLEARN_SOLVERS, SOLVERS
from tests.ecosystem.pairs import ALPHAS, TIGHT, classes, regression

NAMES = ["Ridge", "RidgeCV", "RidgeClassifier", "RidgeClassifierCV"]
every_name = pytest.mark.parametrize("name", NAMES)
with_and_without = pytest.mark.parametrize("fit_intercept", [True, False])


def is_classifier(name):
    return "Classifier" in name


def multilabel():
    X, _ = classes()
    return X, (X[:, :3] > 3).astype(int)


REGRESSION = {
    "one target": regression,
    "one column": lambda: regression(n_targets=1),
    "three targets": lambda: regression(n_targets=3),
    "more features than samples": lambda: regression(n=20, p=40),
}
CLASSIFICATION = {
    "two classes": lambda: classes(names=["no", "yes"]),
    "three classes": lambda: classes(n_classes=3, names=["low", "middle", "high"]),
    "true and false": lambda: classes(names=[False, True]),
    "multilabel": multilabel,
}
EVERY_FIT = [
    pytest.param(name, data, id=f"{name}-{title}")
    for name in NAMES
    for title, data in (CLASSIFICATION if is_classifier(name) else REGRESSION).items()
]
every_fit = pytest.mark.parametrize(("name", "data"), EVERY_FIT)


def small(name):
    """Data that all models of that name can be fitted to."""
    return classes() if is_classifier(name) else regression()


def methods(model):
    names = ("predict", "decision_function")
    return [getattr(model, name) for name in names if hasattr(model, name)]


def layouts(X):
    """X and other arrays with as many columns, whose product with coefficients BLAS computes."""
    padded = np.zeros((len(X), X.shape[1] + 3))
    padded[:, : X.shape[1]] = X
    return {
        "C order": X,
        "Fortran order": np.asfortranarray(X),
        "one row": X[:1],
        "part of a larger array": padded[::2, : X.shape[1]],
        "integers": X.astype(int),
        "float16": X.astype(np.float16),
        "list": X.tolist(),
    }


@every_fit
@with_and_without
def test_predictions_are_equal_to_the_last_bit(name, data, fit_intercept):
    X, y = data()
    ours = getattr(ling, name)(fit_intercept=fit_intercept).fit(X, y)
    theirs = ours.to_sklearn()
    assert type(theirs) is getattr(linear_model, name)
    for layout, array in layouts(X).items():
        for our_method, their_method in zip(methods(ours), methods(theirs), strict=True):
            expected, found = our_method(array), their_method(array)
            assert found.dtype == expected.dtype, layout
            np.testing.assert_array_equal(found, expected, err_msg=layout)
    assert theirs.score(X, y) == ours.score(X, y)


@every_fit
@with_and_without
def test_predictions_in_float32_differ_by_its_rounding(name, data, fit_intercept):
    X, y = data()
    X = X.astype(np.float32)
    ours = getattr(ling, name)(fit_intercept=fit_intercept).fit(X, y)
    theirs = ours.to_sklearn()
    assert theirs.coef_.dtype == np.float32
    for our_method, their_method in zip(methods(ours), methods(theirs), strict=True):
        expected, found = our_method(X), their_method(X)
        assert found.dtype == expected.dtype
        if found.dtype.kind == "f":
            scale = np.abs(X).max() * np.abs(ours.coef_).max() * X.shape[1]
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * scale)
        else:
            np.testing.assert_array_equal(found, expected)
    assert theirs.score(X, y) == pytest.approx(ours.score(X, y), abs=1e-5)
    np.testing.assert_array_equal(
        theirs.predict(X.astype(np.float64)), ours.predict(X.astype(np.float64))
    )


@every_fit
@pytest.mark.parametrize(
    ("fit_intercept", "layout"), [(True, sparse.csr_array), (False, sparse.csc_matrix)]
)
def test_sparse_matrices(name, data, fit_intercept, layout):
    X, y = data()
    X = layout(np.maximum(X - X.mean(), 0.0))
    ours = getattr(ling, name)(fit_intercept=fit_intercept).fit(X, y)
    theirs = ours.to_sklearn()
    for our_method, their_method in zip(methods(ours), methods(theirs), strict=True):
        expected, found = our_method(X), their_method(X)
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        else:
            np.testing.assert_array_equal(found, expected)


# A grid that all of these data have their best alpha inside of.
OPTIONS = {
    "Ridge": {"alpha": 3.0},
    "RidgeCV": {"alphas": ALPHAS, "store_cv_results": True},
    "RidgeCV, 3 folds": {"alphas": ALPHAS, "cv": 3},
    "RidgeCV, alpha per target": {"alphas": ALPHAS, "alpha_per_target": True},
    "RidgeClassifier": {"alpha": 3.0, "class_weight": "balanced"},
    "RidgeClassifierCV": {"alphas": ALPHAS, "store_cv_results": True},
    "RidgeClassifierCV, 3 folds": {"alphas": ALPHAS, "cv": 3},
}
EVERY_COMPARISON = [
    pytest.param(title.split(",")[0], options, data, id=f"{title}-{data_title}")
    for title, options in OPTIONS.items()
    for data_title, data in (CLASSIFICATION if is_classifier(title) else REGRESSION).items()
    if not ("alpha per target" in title and data_title != "three targets")
]


def fitted_attributes(model):
    names = (name for name in vars(model) if name.endswith("_"))
    # scikit-learn before 1.8 has a property `classes_`.
    return {*names, *(name for name in ("classes_", "_label_binarizer") if hasattr(model, name))}


@pytest.mark.parametrize(("name", "options", "data"), EVERY_COMPARISON)
@with_and_without
def test_every_attribute_of_scikit_learns_fit_is_there(name, options, data, fit_intercept):
    X, y = data()
    X = pd.DataFrame(X, columns=[f"column {i}" for i in range(X.shape[1])])
    ours = getattr(ling, name)(tol=TIGHT, fit_intercept=fit_intercept, **options)
    converted = ours.fit(X, y).to_sklearn()
    own = clone(converted).fit(X, y)
    names = fitted_attributes(own)
    assert names == fitted_attributes(converted)
    assert {"coef_", "feature_names_in_"} <= names
    for attribute in names:
        found, expected = getattr(converted, attribute), getattr(own, attribute)
        if attribute == "_label_binarizer":
            assert found.get_params() == expected.get_params()
            assert found.y_type_ == expected.y_type_
            np.testing.assert_array_equal(found.classes_, expected.classes_)
        elif attribute == "solver_":
            assert found == "direct"
        elif np.asarray(expected).dtype.kind == "f":
            assert np.shape(found) == np.shape(expected), attribute
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8, err_msg=attribute)
        else:
            np.testing.assert_array_equal(found, expected, err_msg=attribute)


@every_name
def test_a_model_that_is_not_fitted_is_refused(name):
    with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted"):
        getattr(ling, name)().to_sklearn()


@every_name
def test_the_result_is_independent_of_the_model(name):
    X, y = small(name)
    ours = getattr(ling, name)().fit(X, y)
    expected = ours.predict(X)
    theirs = ours.to_sklearn()
    theirs.coef_ *= -1
    theirs.intercept_ *= 0
    np.testing.assert_array_equal(ours.predict(X), expected)


def splits(X):
    yield from KFold(3).split(X)


# Parameters, and what scikit-learn is given instead of those that it does not accept.
PARAMETERS = {
    "Ridge": [
        *(({"solver": name}, {"solver": "auto"}) for name in SOLVERS),
        *(
            ({"solver": name}, {"solver": name, "positive": False})
            for name in SKLEARN_SOLVERS
            if name != "lbfgs"
        ),
        ({"solver": "lbfgs"}, {"solver": "auto"}),
        ({"solver": "lbfgs", "positive": True}, {"solver": "lbfgs", "positive": True}),
        (
            {"alpha": [2.0], "max_iter": 500, "tol": 1e-6, "random_state": 3, "copy_X": False},
            {"alpha": [2.0], "max_iter": 500, "tol": 1e-6, "random_state": 3, "copy_X": False},
        ),
        ({"memory_budget": "1GB", "precision": "float64", "warm_start": True}, {}),
    ],
    "RidgeCV": [
        ({"alphas": (1.0,)}, {"alphas": [1.0]}),
        ({"alphas": 1.0, "cv": 3}, {"alphas": [1.0], "cv": 3}),
        ({"alphas": [1, 10], "scoring": "r2"}, {"alphas": [1, 10], "scoring": "r2"}),
        ({"alphas": (1.0, 10.0), "gcv_mode": "stochastic"}, {"gcv_mode": None}),
        ({"alphas": (1.0, 10.0), "gcv_mode": "svd"}, {"gcv_mode": "svd"}),
        ({"alphas": (1.0, 10.0), "cv": KFold(4)}, {"alphas": [1.0, 10.0]}),
        ({"alphas": (1.0, 10.0), "cv": splits(np.zeros(90))}, {"cv": None}),
        (
            {"alphas": (1.0, 10.0), "cv": 3, "alpha_per_target": True},
            {"cv": None, "alpha_per_target": True},
        ),
        (
            {"alphas": (1.0, 10.0), "selection_rule": "one_standard_error"},
            {"store_cv_results": False},
        ),
    ],
    "RidgeClassifier": [
        ({"solver": "two_stage"}, {"solver": "auto"}),
        ({"class_weight": {0: 2.0}}, {"class_weight": {0: 2.0}}),
    ],
    "RidgeClassifierCV": [
        ({"alphas": (1.0,)}, {"alphas": [1.0]}),
        ({"alphas": (1.0, 10.0), "scoring": "accuracy"}, {"scoring": "accuracy"}),
        ({"alphas": (1.0, 10.0), "cv": 3}, {"cv": 3}),
    ],
}


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        pytest.param(name, *pair, id=f"{name}-{number}")
        for name, pairs in PARAMETERS.items()
        for number, pair in enumerate(pairs)
    ],
)
def test_parameters_are_those_that_scikit_learn_accepts(name, options, expected):
    X, y = small(name)
    ours = getattr(ling, name)(**options).fit(X, y)
    theirs = ours.to_sklearn()
    for parameter, value in expected.items():
        np.testing.assert_array_equal(getattr(theirs, parameter), value)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(theirs)).coef_, ours.coef_)
    for refit in (clone(theirs).set_params(fit_intercept=True), theirs):
        np.testing.assert_allclose(refit.fit(X, y).coef_, ours.coef_, rtol=0.1, atol=0.02)


@pytest.mark.parametrize("n_targets", [1, 3])
def test_the_default_grid_becomes_one_around_the_chosen_alpha(n_targets):
    X, y = regression(n_targets=n_targets)
    ours = ling.RidgeCV(alpha_per_target=True, tol=TIGHT).fit(X, y)
    theirs = ours.to_sklearn()
    chosen = np.unique(ours.alpha_)
    assert set(chosen) <= set(theirs.alphas)
    assert len(theirs.alphas) == 3 * len(chosen)
    np.testing.assert_allclose(theirs.alphas.min(), chosen.min() / 10)
    np.testing.assert_allclose(theirs.alphas.max(), chosen.max() * 10)
    if n_targets == 1:
        np.testing.assert_allclose(theirs.fit(X, y).coef_, ours.coef_)


WITHOUT_LING = """
import pickle, sys
sys.modules["ling"] = None
import numpy as np
from sklearn.base import clone

for model, X, y, predicted in pickle.load(open(sys.argv[1], "rb")):
    np.testing.assert_array_equal(model.predict(X), predicted)
    clone(model).set_params(fit_intercept=False).fit(X, y).predict(X)
assert not [name for name in sys.modules if name.startswith("ling.")]
print("done")
"""


@pytest.mark.processes
def test_pickles_are_loaded_where_ling_is_not_installed(tmp_path):
    fits = []
    for name, data in (parameters.values for parameters in EVERY_FIT):
        X, y = data()
        model = getattr(ling, name)().fit(X, y)
        fits.append((model.to_sklearn(), X, y, model.predict(X)))
    path = tmp_path / "models.pickle"
    path.write_bytes(pickle.dumps(fits))
    command = [sys.executable, "-W", "error", "-c", WITHOUT_LING, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "done", done.stderr


def test_models_that_were_loaded_updated_or_subclassed(tmp_path):
    class Special(ling.Ridge):
        pass

    X, y = regression()
    batches = ling.Ridge()
    for rows in (slice(0, 50), slice(50, None)):
        batches.partial_fit(X[rows], y[rows])
    X_classes, labels = classes(n_classes=3, names=["low", "middle", "high"])
    classifier = ling.RidgeClassifierCV().fit(X_classes, labels)
    ling.save(classifier, tmp_path / "model.ling")
    for model, data in (
        (Special().fit(X, y), X),
        (batches, X),
        (ling.load(tmp_path / "model.ling"), X_classes),
    ):
        theirs = model.to_sklearn()
        check_is_fitted(theirs)
        assert type(theirs).__module__.startswith("sklearn.")
        np.testing.assert_array_equal(theirs.predict(data), model.predict(data))


def test_a_table_with_text_gives_a_model_of_its_encoded_columns():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"size": rng.uniform(1, 9, 200), "colour": rng.choice(["red", "blue", "green"], 200)}
    )
    y = 3 * table["size"] + 5 * (table["colour"] == "red") + rng.standard_normal(200)
    data = ling.scan_arrow(pa.Table.from_pandas(table.assign(y=y)), "y")
    model = ling.Ridge().fit(data.X, data.y)
    theirs = model.to_sklearn()
    assert list(theirs.feature_names_in_) == ["size", "colour=blue", "colour=green", "colour=red"]
    encoded = pd.get_dummies(table, prefix_sep="=")[theirs.feature_names_in_]
    np.testing.assert_allclose(theirs.predict(encoded), model.predict(data.X), rtol=1e-12)
    with pytest.raises(ValueError, match="feature names should match"):
        theirs.predict(table)
