"""What users do with a Ridge besides fit and predict: store it, clone it, search with it."""

import pickle

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ling import Ridge
from tests.estimators.parameters import every_solver


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
    model = Ridge(alpha=0.3, solver="two_stage", memory_budget="1GB").fit(*data)
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
