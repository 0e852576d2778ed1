"""Pipelines, columns of data frames, transformed targets: ling where scikit-learn's Ridge was."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import Ridge as Theirs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler

from ling import Ridge
from tests.ecosystem.pairs import (
    classes,
    classifiers,
    regression,
    regressors,
    same,
)
from tests.versions import reads_polars

FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame}
every_frame = pytest.mark.parametrize(
    "library", ["pandas", pytest.param("polars", marks=reads_polars)]
)


def goods(library):
    """A table with text and numbers, and a price."""
    rng = np.random.default_rng(1)
    size, age = rng.uniform(1, 9, 80), rng.integers(0, 30, 80)
    colour = rng.choice(["red", "green", "blue"], 80)
    price = 3 * size - 0.2 * age + 5 * (colour == "red") + rng.standard_normal(80)
    return FRAMES[library]({"size": size, "colour": colour, "age": age}), price


def columns():
    return ColumnTransformer(
        [("scale", StandardScaler(), ["size", "age"]), ("encode", OneHotEncoder(), ["colour"])]
    )


def test_scaled_predictions_are_within_the_certificate():
    X, y = regression()
    ours = make_pipeline(StandardScaler(), Ridge(alpha=3.0)).fit(X, y)
    theirs = make_pipeline(StandardScaler(), Theirs(alpha=3.0)).fit(X, y)
    off = np.linalg.norm(ours.predict(X) - theirs.predict(X)) / np.linalg.norm(y - y.mean())
    assert off <= ours[-1].report_.certificate.bound + 1e-12
    assert ours[-1].report_.certificate.bound <= 1e-4


@regressors
@every_frame
def test_columns_of_a_frame(models, library):
    X, y = goods(library)
    ours, theirs = (make_pipeline(columns(), model).fit(X, y) for model in models)
    same(ours.predict(X), theirs.predict(X))
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y))
    assert list(ours[:-1].get_feature_names_out()) == list(theirs[:-1].get_feature_names_out())


@classifiers
@every_frame
def test_classes_from_columns_of_a_frame(models, library):
    X, y = goods(library)
    dear = np.where(y > np.median(y), "dear", "cheap")
    ours, theirs = (make_pipeline(columns(), model).fit(X, dear) for model in models)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    same(ours.decision_function(X), theirs.decision_function(X))
    assert list(ours.classes_) == ["cheap", "dear"]


@regressors
@every_frame
def test_frames_between_the_steps_keep_their_names(models, library):
    X, y = goods(library)
    encode = ColumnTransformer(
        [("encode", OneHotEncoder(sparse_output=False), ["colour"])],
        remainder="passthrough", verbose_feature_names_out=False,
    )  # fmt: skip
    ours, theirs = (
        make_pipeline(encode, StandardScaler(), model).set_output(transform=library).fit(X, y)
        for model in models
    )
    names = ["colour_blue", "colour_green", "colour_red", "size", "age"]
    assert list(ours[-1].feature_names_in_) == list(theirs[-1].feature_names_in_) == names
    same(ours.predict(X), theirs.predict(X))


@classifiers
@pytest.mark.parametrize("library", ["default", "pandas", "polars"])
def test_output_of_any_kind_comes_before_a_classifier(models, library):
    X, y = classes(n_classes=3)
    pipelines = [
        make_pipeline(StandardScaler(), SelectKBest(k=3), model).set_output(transform=library)
        for model in models
    ]
    ours, theirs = (pipeline.fit(X, y) for pipeline in pipelines)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    assert hasattr(ours[-1], "feature_names_in_") == hasattr(theirs[-1], "feature_names_in_")


def test_the_setting_for_all_transformers_is_left_alone():
    X, y = goods("pandas")
    with sklearn.config_context(transform_output="pandas"):
        numbers = make_column_selector(dtype_include="number")
        scale = ColumnTransformer([("scale", StandardScaler(), numbers)])
        model = make_pipeline(scale, Ridge()).fit(X, y)
        assert isinstance(model.predict(X), np.ndarray)
    assert list(model[-1].feature_names_in_) == ["scale__size", "scale__age"]


@regressors
def test_weights_are_routed_through_a_pipeline(models):
    X, y = regression()
    weights = np.random.default_rng(0).uniform(0, 2, len(y))
    with sklearn.config_context(enable_metadata_routing=True):
        ours, theirs = (
            make_pipeline(
                StandardScaler().set_fit_request(sample_weight=True),
                model.set_fit_request(sample_weight=True).set_score_request(sample_weight=True),
            ).fit(X, y, sample_weight=weights)
            for model in models
        )
        scores = [model.score(X, y, sample_weight=weights) for model in (ours, theirs)]
    same(ours.predict(X), theirs.predict(X))
    same(*scores)
    alone = clone(ours).fit(X, y)
    assert not np.allclose(ours.predict(X), alone.predict(X), rtol=1e-6)


@regressors
def test_weights_find_their_step_without_routing(models):
    X, y = regression()
    weights = np.random.default_rng(0).uniform(0, 2, len(y))
    ours, theirs = (
        make_pipeline(StandardScaler(), model).fit(
            X, y, **{f"{type(model).__name__.lower()}__sample_weight": weights}
        )
        for model in models
    )
    same(ours.predict(X), theirs.predict(X))


@regressors
@pytest.mark.parametrize("several", [False, True], ids=["one", "three"])
def test_transformed_targets(models, several):
    X, Y = regression(n_targets=3)
    Y = np.exp(Y / 50)
    y = Y if several else Y[:, 0]
    by_function = [
        TransformedTargetRegressor(model, func=np.log, inverse_func=np.exp).fit(X, y)
        for model in models
    ]
    by_transformer = [
        TransformedTargetRegressor(model, transformer=QuantileTransformer(n_quantiles=20)).fit(X, y)
        for model in models
    ]
    for ours, theirs in (by_function, by_transformer):
        same(ours.predict(X), theirs.predict(X))
        assert ours.predict(X).shape == y.shape
