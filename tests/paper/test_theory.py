"""The paper's theorems, against arithmetic by hand and against repeated draws of the noise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ling import paper
from ling.errors import InvalidInputError, OptionError, ShapeError
from ling.paper import theory
from tests import reference
from tests.paper.registry import MODELS, SHAPES, over
from tests.raising import raises

N_DRAWS = 200


def ridge_fitted(model, y, svd):
    return paper.ridge(model.X, y, model.lam).fitted


def ling_fitted(model, y, svd):
    return paper.ling(model.X, y, model.lam, len(svd.d), 40, svd=svd).fitted


def ridge_theory(model, k):
    return theory.ridge_risk(model.spectrum, model.rotated, model.noise, model.lam, len(model.y))


def ling_theory(model, k):
    return theory.ling_risk(model.spectrum, model.rotated, model.noise, model.lam, len(model.y), k)


RISKS = {"ridge": (ridge_fitted, ridge_theory), "ling": (ling_fitted, ling_theory)}


# The model's own lambda makes the risk nearly all variance, a hundred times that nearly all bias.
@pytest.mark.parametrize(
    ("shape", "penalty"), [(SHAPES["tall"], 1), (SHAPES["wide"], 100)], ids=["tall-1", "wide-100"]
)
@over("case", MODELS)
@pytest.mark.parametrize(("fitted", "predicted"), RISKS.values(), ids=RISKS)
def test_risk_over_the_noise_is_what_theory_says(fitted, predicted, case, shape, penalty, rng):
    model = case.draw(shape)
    model = replace(model, lam=penalty * model.lam)
    svd = paper.exact_svd(model.X, case.k)
    risks = [
        model.risk(fitted(model, model.mean + model.noise * rng.standard_normal(shape[0]), svd))
        for _ in range(N_DRAWS)
    ]
    standard_error = np.std(risks, ddof=1) / np.sqrt(N_DRAWS)
    assert abs(np.mean(risks) - predicted(model, case.k)) < 4 * standard_error


@over("shape", SHAPES)
@over("case", MODELS)
def test_bias_has_n_squared_where_lemma_2_prints_n(case, shape):
    model = case.draw(shape)
    n = len(model.y)
    bias = model.risk(model.X @ reference.ridge(model.X, model.mean, n * model.lam))
    predicted = theory.ridge_risk(model.spectrum, model.rotated, 0.0, model.lam, n)
    np.testing.assert_allclose(predicted, bias, rtol=1e-6)
    d, a = model.spectrum, model.rotated[: len(model.spectrum)]
    printed = np.sum(n * model.lam**2 * d**2 * a**2 / (d**2 + n * model.lam) ** 2) / n
    assert printed < 0.1 * bias


@over("shape", SHAPES)
@over("case", MODELS)
def test_ling_has_the_risk_of_ridge_for_every_k(case, shape):
    model = case.draw(shape)
    for k in range(min(shape) + 1):
        np.testing.assert_allclose(ling_theory(model, k), ridge_theory(model, k), rtol=1e-12)


@over("case", MODELS)
def test_lemma_2_as_printed_is_too_small(case):
    """E ||X_r gamma2 - fitted||^2 without noise, exactly, against both forms of the lemma."""
    model = case.draw((60, 40))
    svd, n = paper.exact_svd(model.X, case.k), 60
    lam = 100 * model.lam
    X_r = model.X - svd.U @ (svd.U.T @ model.X)
    fitted = X_r @ reference.ridge(X_r, X_r @ model.beta, n * lam)
    bias = float(np.sum((X_r @ model.beta - fitted) ** 2))
    arguments = model.spectrum, model.rotated, 0.0, lam, n, case.k
    np.testing.assert_allclose(theory.lemma2(*arguments), bias, rtol=1e-6)
    np.testing.assert_allclose(theory.lemma2_as_printed(*arguments), bias / n, rtol=1e-6)


def test_lemma_2_is_the_second_half_of_theorem_2():
    risk = theory.ling_risk(**RISK, k=1)
    first = theory.ling_risk([2.0], [1.0], 1.0, 0.1, 2, 1)
    assert theory.lemma2(**RISK, k=1) / 2 == pytest.approx(risk - first)


@over("case", MODELS)
def test_from_zero_the_smallest_singular_value_enters_the_rate(case):
    model = case.draw((60, 40))
    svd, n = paper.exact_svd(model.X, case.k), 60
    sharp = theory.ling_rate_from_zero(model.spectrum, model.lam, n, case.k)
    assert sharp <= theory.ling_rate(model.spectrum, model.lam, n, case.k)
    fit = paper.ling(model.X, model.y, model.lam, case.k, 6, svd=svd)
    best = paper.ling(model.X, model.y, model.lam, case.k, 3000, svd=svd).objective[-1]
    gap = fit.objective - best
    seen = gap[:-1] > 1e-6 * gap[0]
    rounding = 1e-12 * fit.objective[0]  # all directions left may have the same eigenvalue
    assert (gap[1:][seen] <= gap[:-1][seen] * sharp * (1 + 1e-6) + rounding).all()


directions = st.lists(st.tuples(st.floats(0, 1e3), st.floats(-1e3, 1e3)), min_size=1, max_size=6)


@given(directions, st.floats(0, 10), st.floats(0, 10), st.integers(1, 50), st.data())
def test_ling_has_the_risk_of_ridge_for_every_spectrum(pairs, noise, lam, n, data):
    d, a = zip(*pairs, strict=True)
    k = data.draw(st.integers(0, len(d)))
    wanted, risk = theory.ridge_risk(d, a, noise, lam, n), theory.ling_risk(d, a, noise, lam, n, k)
    # Subnormal numbers have few digits.
    np.testing.assert_allclose(risk, wanted, rtol=1e-12, atol=np.finfo(np.float64).tiny)


def test_risk_by_hand():
    # n lam = 1: shares 4/5 and 1/2, variance 16/25 + 1/4, squared bias (2/5)^2 + (3/2)^2.
    for k in (0, 1, 2):
        risk = theory.ling_risk([2.0, 1.0], [1.0, 3.0], noise=1.0, lam=0.5, n=2, k=k)
        assert risk == pytest.approx((0.64 + 0.25 + 0.16 + 2.25) / 2)
    assert theory.ridge_risk([2.0, 1.0], [1.0, 3.0], 1.0, 0.5, 2) == pytest.approx(1.65)


def test_risk_without_penalty_is_the_variance_of_as_many_directions_as_there_are():
    assert theory.ridge_risk([3.0, 2.0, 0.0], [1.0, 1.0, 1.0], 2.0, 0.0, 8) == pytest.approx(1.0)


def test_risk_does_not_depend_on_the_order_of_directions():
    spectrum, rotated = [1.0, 3.0, 2.0], [5.0, 6.0, 7.0]
    for k in range(4):
        ordered = theory.ling_risk([3.0, 2.0, 1.0], [6.0, 7.0, 5.0], 1.0, 0.3, 4, k)
        assert theory.ling_risk(spectrum, rotated, 1.0, 0.3, 4, k) == pytest.approx(ordered)


def test_rates_by_hand():
    assert theory.gd_rate([3.0, 1.0], lam=0.0, n=2, p=2) == pytest.approx(0.64)
    assert theory.gd_rate([1.0, 3.0], lam=1.5, n=2, p=2) == pytest.approx((8 / 16) ** 2)
    # With more columns than singular values the smallest eigenvalue is that of the null space.
    assert theory.gd_rate([3.0, 1.0], lam=1.5, n=2, p=3) == pytest.approx((9 / 15) ** 2)
    assert theory.gd_rate([3.0, 1.0], lam=0.0, n=2, p=3) == 1.0
    assert theory.ling_rate([3.0, 1.0], lam=0.5, n=2, k=0) == pytest.approx((9 / 11) ** 2)
    assert theory.ling_rate([1.0, 3.0], lam=0.5, n=2, k=1) == pytest.approx((1 / 3) ** 2)
    assert theory.ling_rate([3.0, 1.0], lam=0.5, n=2, k=2) == 0.0


RISK = {"spectrum": [2.0, 1.0], "rotated": [1.0, 1.0], "noise": 1.0, "lam": 0.1, "n": 2}
FUNCTIONS = {
    "ridge_risk": (theory.ridge_risk, RISK),
    "ling_risk": (theory.ling_risk, RISK | {"k": 1}),
    "gd_rate": (theory.gd_rate, {"spectrum": [2.0, 1.0], "lam": 0.1, "n": 2, "p": 2}),
    "ling_rate": (theory.ling_rate, {"spectrum": [2.0, 1.0], "lam": 0.1, "n": 2, "k": 1}),
    "ling_rate_from_zero": (
        theory.ling_rate_from_zero,
        {"spectrum": [2.0, 1.0], "lam": 0.1, "n": 2, "k": 1},
    ),
    "lemma2": (theory.lemma2, RISK | {"k": 1}),
}
WRONG = {
    "lam": [-1.0, np.nan, np.inf, "1", None, True],
    "noise": [-1.0, np.nan, np.inf],
    "n": [0, -1],
    "k": [-1, 3, 1.0, "1", None],
    "p": [0, -1],
    "spectrum": [[[2.0, 1.0]], 2.0, [2.0, np.nan]],
    "rotated": [[1.0], [[1.0, 1.0]], [1.0, np.nan]],
}
CASES = [
    pytest.param(function, options | {name: value}, name, id=f"{label}-{name}-{value}")
    for label, (function, options) in FUNCTIONS.items()
    for name in options
    for value in WRONG[name]
]


@pytest.mark.parametrize(("function", "options", "name"), CASES)
def test_wrong_arguments_are_named(function, options, name):
    with pytest.raises(InvalidInputError) as error:
        function(**options)
    assert error.value.argument == name
    assert error.value.remedies


def test_errors_are_of_the_documented_kinds():
    with raises(OptionError, "k"):
        theory.ling_risk(**RISK, k=3)
    with raises(ShapeError, "rotated"):
        theory.ridge_risk(**RISK | {"rotated": [1.0]})


def test_deviation_of_the_risk_is_the_one_measured(rng):
    model = paper.models.model2(3, n=40, p=10)
    lam = 50 * model.lam  # so that bias and variance both count
    X, draws = model.X, 4000
    hat = X @ np.linalg.solve(X.T @ X + 40 * lam * np.eye(10), X.T)
    fitted = hat @ (model.mean[:, None] + rng.standard_normal((40, draws)))
    risks = np.mean((fitted - model.mean[:, None]) ** 2, axis=0)
    expected = theory.risk_deviation(model.spectrum, model.rotated, 1.0, lam, 40)
    assert np.std(risks) == pytest.approx(expected, rel=4 / np.sqrt(draws))
