"""LingRegressor and LingClassifier: the paper's algorithm, with a certificate that never lies."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ling
from ling import LingClassifier, LingRegressor, Ridge, RidgeClassifier, paper
from ling.errors import InputTypeError, OptionError
from ling.results import Status
from tests import reference
from tests.raising import raises
from tests.sklearn_suite.suite import list_parameters

EXACT = 1e-12
every_stage = pytest.mark.parametrize("second_stage", ["gradient_descent", "svrg"])
every_shrinkage = pytest.mark.parametrize("shrink", [True, False])


@pytest.fixture
def strong(rng):
    """X (300, 40) with four strong directions, and y with a mean of 100."""
    scale = np.append(np.full(4, 20.0), np.ones(36))
    X = rng.standard_normal((300, 40)) * scale + np.arange(40)
    return X, X @ rng.standard_normal(40) + rng.standard_normal(300) + 100.0


@pytest.fixture
def larger(rng):
    """X (600, 80) with four strong directions: too large to take all components."""
    X = rng.standard_normal((600, 80)) * np.append(np.full(4, 20.0), np.ones(76))
    return X, X @ rng.standard_normal(80) + rng.standard_normal(600) + 100.0


def distance(X, y, ours, theirs):
    """||X (w - w*)|| of two models relative to ||y - mean(y)||."""
    return np.linalg.norm(ours.predict(X) - theirs.predict(X)) / np.linalg.norm(y - y.mean(axis=0))


@list_parameters
@parametrize_with_checks(
    [
        LingRegressor(),
        LingRegressor(n_components=1, shrink=False),
        LingRegressor(n_components=1, n_iter=3),
        LingClassifier(),
    ]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- the paper's algorithm


@every_shrinkage
def test_coefficients_are_those_of_the_paper(strong, shrink):
    X, y = strong
    centred, target = X - X.mean(axis=0), y - y.mean()
    model = LingRegressor(3.0, n_components=5, n_iter=7, shrink=shrink, random_state=1)
    as_printed = paper.ling(centred, target, 3.0 / len(y), 5, 7, shrink=shrink, random_state=1)
    np.testing.assert_allclose(model.fit(X, y).coef_, as_printed.coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, y.mean() - X.mean(axis=0) @ as_printed.coef)


def test_cost_of_the_stages_is_that_of_the_paper(strong):
    X, y = strong
    X, y = X - X.mean(axis=0), y - y.mean()
    model = LingRegressor(3.0, n_components=5, n_iter=7, fit_intercept=False).fit(X, y)
    as_printed = paper.ling(X, y, 3.0 / len(y), 5, 7, random_state=0)
    assert model.cost_ == as_printed.cost
    assert model.report_.cost.passes > model.cost_.passes


def test_svrg_is_that_of_the_paper(strong):
    X, y = strong
    X, y = X - X.mean(axis=0), y - y.mean()
    options = {"n_components": 5, "n_iter": 4, "second_stage": "svrg", "fit_intercept": False}
    model = LingRegressor(3.0, random_state=1, **options).fit(X, y)
    as_printed = paper.ling_svrg(X, y, 3.0 / len(y), 5, 4, random_state=1)
    np.testing.assert_allclose(model.coef_, as_printed.coef, rtol=1e-9, atol=1e-12)


def test_the_limit_with_exact_components_is_ridge(strong):
    X, y = strong
    model = LingRegressor(3.0, n_components=40, n_iter=0).fit(X, y)
    assert distance(X, y, model, Ridge(3.0, tol=EXACT).fit(X, y)) < 1e-12


# --- the certificate


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, p, t = draw(st.integers(2, 40)), draw(st.integers(1, 30)), draw(st.integers(1, 3))
    spread = 10.0 ** rng.uniform(-draw(st.integers(0, 4)), 0, p)
    X = rng.standard_normal((n, p)) * spread + draw(st.sampled_from([0.0, 1.0, 1e3]))
    return X, rng.standard_normal((n, t)), 10.0 ** draw(st.integers(-6, 3))


@settings(max_examples=60)
@given(problems(), st.booleans(), st.integers(0, 2), st.integers(0, 10))
def test_the_certificate_never_lies(problem, shrink, power, n_iter):
    X, Y, alpha = problem
    k = 1 + n_iter % min(X.shape)
    model = LingRegressor(alpha, n_components=k, n_iter=n_iter, power=power, shrink=shrink)
    model.fit(X, Y)
    centred, targets = X - X.mean(axis=0), Y - Y.mean(axis=0)
    exact = np.stack([reference.ridge(centred, y, alpha) for y in targets.T], axis=1)
    errors = np.linalg.norm(centred @ (model.coef_.reshape(-1, X.shape[1]).T - exact), axis=0)
    bounds = model.report_.certificate.bounds * np.linalg.norm(targets, axis=0)
    assert (bounds >= errors * (1 - 1e-6) - 1e-9).all()


@every_stage
@every_shrinkage
def test_auto_reaches_tol(larger, second_stage, shrink):
    X, y = larger
    model = LingRegressor(30.0, second_stage=second_stage, shrink=shrink).fit(X, y)
    assert model.report_.certificate.bound <= 1e-2
    assert distance(X, y, model, Ridge(30.0, tol=EXACT).fit(X, y)) <= 1e-2
    assert 1 <= model.n_components_ < 80
    assert (model.n_iter_ > 0).all()


def test_a_smaller_tol_takes_more_iterations(strong):
    X, y = strong
    n_iter = [LingRegressor(30.0, tol=tol, n_components=6).fit(X, y).n_iter_ for tol in (0.1, 1e-2)]
    assert n_iter[0] < n_iter[1]


def test_strong_directions_become_components(rng):
    X = rng.standard_normal((400, 100)) * np.append(np.full(4, 100.0), np.ones(96))
    model = LingRegressor(10.0).fit(X, X @ rng.standard_normal(100))
    assert 4 <= model.n_components_ <= 10


def test_a_flat_spectrum_needs_no_components(rng):
    X = rng.standard_normal((2000, 50))
    assert LingRegressor(10.0).fit(X, X.sum(axis=1)).n_components_ == 1


def strong_directions(spread, rng):
    """A problem (600, 400) like Model 3, with 12 strong directions of eigenvalues 1 to `spread`."""
    d = np.append(20 * np.sqrt(np.linspace(spread, 1, 12)), np.linspace(1.0, 0.5, 388))
    Q, _ = np.linalg.qr(rng.standard_normal((600, 400)))
    V, _ = np.linalg.qr(rng.standard_normal((400, 400)))
    X = Q * d @ V.T
    return X, X @ rng.standard_normal(400) + 0.05 * rng.standard_normal(600)


@pytest.mark.parametrize("seed", range(3))
def test_equal_strong_directions_need_few_components(seed):
    """The sample of rows cannot tell, so it is measured whether they are equal."""
    rng = np.random.default_rng(seed)
    models = [
        LingRegressor(1e-3, tol=0.1, fit_intercept=False).fit(*strong_directions(spread, rng))
        for spread in (1.0, 3.0)
    ]
    equal, different = (model.n_components_ for model in models)
    assert equal <= 6
    assert different >= 12
    assert all(model.report_.certificate.bound <= 0.1 for model in models)


@pytest.mark.parametrize("seed", range(6))
def test_a_limit_above_tol_is_a_warning_with_advice_that_helps(seed):
    # The columns of Algorithm 2 are mixtures of many directions of a power-law spectrum.
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((600, 150)) * np.arange(1, 151) ** -0.5
    y = X @ rng.standard_normal(150)
    limit = LingRegressor(20.0, n_components=8, n_iter=1000).fit(X, y).report_.certificate.bound
    model = LingRegressor(20.0, n_components=8, tol=limit / 3)
    with pytest.warns(ConvergenceWarning, match="approximate components") as caught:
        model.fit(X, y)
    assert "power=2" in str(caught[0].message)
    assert "n_components" not in str(caught[0].message)
    assert model.n_iter_[0] < 1000
    assert "not certified" in model.report_.status.value
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        advised = LingRegressor(20.0, n_components=8, tol=limit / 3, power=2).fit(X, y)
    assert advised.report_.certificate.bound < 0.9 * model.report_.certificate.bound
    exact = Ridge(20.0, tol=limit / 3).fit(X, y)
    assert exact.report_.certificate.bound <= limit / 3


def test_far_above_tol_another_power_is_not_advised(rng):
    X = rng.standard_normal((600, 150)) * np.arange(1, 151) ** -0.5
    y = X @ rng.standard_normal(150)
    with pytest.warns(ConvergenceWarning, match="use Ridge, which has no such limit, or raise tol"):
        LingRegressor(20.0, n_components=8, tol=1e-6).fit(X, y)


def test_a_classifier_is_advised_to_use_a_classifier(rng):
    X = rng.standard_normal((600, 150)) * np.arange(1, 151) ** -0.5
    with pytest.warns(ConvergenceWarning, match="use RidgeClassifier,"):
        LingClassifier(20.0, n_components=8, tol=1e-6).fit(X, X[:, 0] > 0)


def test_stage_2_stops_near_its_limit(rng):
    X = rng.standard_normal((600, 150)) * np.arange(1, 151) ** -0.5
    y = X @ rng.standard_normal(150)
    options = {"n_components": 8, "tol": 1e-5}
    with pytest.warns(ConvergenceWarning):
        stopped = LingRegressor(20.0, **options).fit(X, y)
    limit = LingRegressor(20.0, n_iter=1000, **options).fit(X, y)
    bounds = [model.report_.certificate.bound for model in (stopped, limit)]
    assert bounds[0] <= 1.25 * bounds[1]


@pytest.mark.parametrize("ratio", [0.92, 0.97])
def test_a_limit_just_below_tol_is_enough(rng, ratio):
    """Stage 2 would stop at 0.9 tol, and its limit is between that and tol."""
    X = rng.standard_normal((600, 150)) * np.arange(1, 151) ** -0.5
    y = X @ rng.standard_normal(150)
    limit = LingRegressor(20.0, n_components=8, n_iter=1000).fit(X, y).report_.certificate.bound
    model = LingRegressor(20.0, n_components=8, tol=limit / ratio).fit(X, y)
    assert model.report_.certificate.bound <= model.tol
    assert model.n_iter_[0] < 200


def test_every_target_reaches_tol_that_does_so_alone(rng):
    X = rng.standard_normal((300, 60)) * np.arange(1, 61) ** -0.7
    Y = np.stack([X @ rng.standard_normal(60), X[:, 0], rng.standard_normal(300)], axis=1)
    options = {"n_components": 6, "tol": 3e-2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        together = LingRegressor(0.1, **options).fit(X, Y).report_.certificate
        alone = [LingRegressor(0.1, **options).fit(X, y).report_.certificate for y in Y.T]
    for bound, certificate in zip(together.bounds, alone, strict=True):
        assert bound <= together.tol or not certificate.holds


def test_rounding_to_float32_is_named_as_the_cause(strong):
    X, y = strong
    model = LingRegressor(3.0, n_components=40, tol=1e-9).fit(X.astype(np.float32), y)
    assert model.report_.status is Status.ROUNDED
    assert any("float32" in note for note in model.report_.notes)


def test_fewer_directions_than_components(rng):
    X = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 10))
    assert LingRegressor(n_components=8, n_iter=2).fit(X, X.sum(axis=1)).n_components_ == 3


def test_a_few_columns_need_neither_a_sample_nor_iterations(rng):
    X = rng.standard_normal((500, 3))
    model = LingRegressor(10.0).fit(X, X.sum(axis=1))
    assert model.n_components_ == 3
    assert model.report_.certificate.bound < 1e-9


def test_cost_includes_the_choice_of_the_step(strong):
    X, y = strong
    options = {"n_components": 5, "n_iter": 4, "fit_intercept": False, "random_state": 1}
    model = LingRegressor(3.0, second_stage="svrg", **options).fit(X, y)
    as_printed = paper.ling_svrg(X, y, 3.0 / len(y), 5, 4, random_state=1)
    assert model.cost_.flops == pytest.approx(
        as_printed.cost.flops + as_printed.tuning_cost.flops, rel=0.05
    )


def test_a_given_number_of_iterations_does_not_warn(strong):
    X, y = strong
    model = LingRegressor(1e-3, n_components=1, n_iter=1).fit(X, y)
    assert model.report_.certificate.bound > 1e-2


# --- scikit-learn's contract


@every_stage
def test_several_targets_are_fitted_as_one_by_one(strong, second_stage):
    X, y = strong
    Y = np.stack([y, 2 * y - 5, X[:, 0] ** 2], axis=1)
    options = {"n_components": 5, "n_iter": 6, "second_stage": second_stage}
    together = LingRegressor([1.0, 1.0, 5.0], **options).fit(X, Y)
    assert together.coef_.shape == (3, 40)
    assert together.n_iter_.tolist() == [6, 6, 6]
    if second_stage == "gradient_descent":  # SVRG goes on drawing rows
        for t, alpha in enumerate([1.0, 1.0, 5.0]):
            alone = LingRegressor(alpha, **options).fit(X, Y[:, t])
            np.testing.assert_allclose(together.coef_[t], alone.coef_, rtol=1e-9)


@every_stage
def test_sparse_equals_dense(rng, second_stage):
    X = sparse.random_array((200, 30), density=0.2, rng=rng, format="csr")
    y = X @ np.ones(30) + rng.standard_normal(200)
    options = {"n_components": 3, "n_iter": 5, "second_stage": second_stage}
    dense = LingRegressor(**options).fit(X.toarray(), y)
    np.testing.assert_allclose(LingRegressor(**options).fit(X, y).coef_, dense.coef_, rtol=1e-8)


@every_stage
def test_integer_weights_repeat_rows(rng, second_stage):
    X = rng.standard_normal((80, 6)) * np.append([9.0, 9.0], np.ones(4))
    y, weights = X.sum(axis=1) + rng.standard_normal(80), rng.integers(0, 4, 80)
    options = {"n_components": 6, "n_iter": 0 if second_stage == "gradient_descent" else 8}
    model = LingRegressor(2.0, second_stage=second_stage, **options).fit(X, y, weights)
    repeated = Ridge(2.0, tol=EXACT).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(model.coef_, repeated.coef_, rtol=1e-8)


def test_pipelines_and_searches(strong):
    X, y = strong
    pipeline = make_pipeline(StandardScaler(), LingRegressor())
    grid = {"lingregressor__alpha": [1.0, 1e5], "lingregressor__n_components": [2, 6]}
    assert GridSearchCV(pipeline, grid, cv=3).fit(X, y).best_params_["lingregressor__alpha"] == 1.0


def test_digits():
    X, y = load_digits(return_X_y=True)
    model = LingClassifier(10.0).fit(X, y)
    theirs = RidgeClassifier(10.0).fit(X, y)
    assert (model.predict(X) == theirs.predict(X)).mean() > 0.99
    assert model.report_.certificate.bound <= 1e-2


def test_files(strong, tmp_path):
    X, y = strong
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    data = ling.scan_npy(tmp_path / "X.npy", y=tmp_path / "y.npy")
    in_memory = LingRegressor(30.0).fit(X, y)
    np.testing.assert_allclose(LingRegressor(30.0).fit(data).coef_, in_memory.coef_, rtol=1e-8)


@pytest.mark.parametrize("kind", [LingRegressor, LingClassifier])
def test_saved_and_exported(strong, tmp_path, kind):
    X, y = strong
    y = y > 100 if kind is LingClassifier else y
    model = kind(30.0).fit(X, y)
    ling.save(model, tmp_path / "model.ling")
    again = ling.load(tmp_path / "model.ling")
    assert (again.predict(X) == model.predict(X)).all()
    assert again.cost_ == model.cost_
    assert (model.to_sklearn().predict(X) == model.predict(X)).all()


# --- refusals


def test_too_many_components(strong):
    with raises(OptionError, "n_components", change=("n_components", "auto")):
        LingRegressor(n_components=41).fit(*strong)


@pytest.mark.parametrize("options", [{"n_iter": 3}, {"n_components": 2}])
def test_auto_needs_a_bound(strong, options):
    argument = "n_components" if "n_iter" in options else "n_iter"
    with raises(OptionError, argument):
        LingRegressor(0.0, **options).fit(*strong)


def test_svrg_needs_three_rows(strong):
    X, y = strong
    with raises(OptionError, "second_stage", change=("second_stage", "gradient_descent")):
        LingRegressor(second_stage="svrg", n_components=1).fit(X[:2], y[:2])


def test_svrg_without_iterations_is_stage_1(strong):
    options = {"n_components": 5, "n_iter": 0}
    models = [LingRegressor(second_stage=s, **options) for s in ("svrg", "gradient_descent")]
    coefs = [model.fit(*strong).coef_ for model in models]
    np.testing.assert_array_equal(*coefs)


def test_reports_refuse_the_classifier(strong, tmp_path):
    X, y = strong
    model = LingClassifier(n_iter=2).fit(X, y > 100)
    with raises(InputTypeError, "model"):
        ling.write_report(tmp_path / "never.html", model, X, y > 100)


def test_alpha_0_is_least_squares_without_a_certificate(strong):
    X, y = strong
    model = LingRegressor(0.0, n_components=40, n_iter=0).fit(X, y)
    assert distance(X, y, model, Ridge(0.0).fit(X, y)) < 1e-9
    assert "alpha is 0" in model.report_.status.value
