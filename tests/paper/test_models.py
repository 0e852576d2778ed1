"""The simulated models have the spectra, the coefficients and the sizes that section 4.1 gives."""

from dataclasses import FrozenInstanceError
from inspect import signature

import numpy as np
import pytest

from ling.errors import InputTypeError, InvalidInputError, OptionError
from ling.paper import models
from tests.paper.registry import MODELS, SHAPES, over
from tests.raising import raises


@over("shape", SHAPES)
@over("case", MODELS)
def test_shapes(case, shape):
    n, p = shape
    model = case.make(0, n=n, p=p)
    assert model.X.shape == (n, p)
    assert model.y.shape == model.mean.shape == (n,)
    assert model.beta.shape == (p,)
    assert model.spectrum.shape == model.rotated.shape == (min(n, p),)


@over("shape", SHAPES)
@over("case", MODELS)
def test_spectrum_is_that_of_the_data(case, shape):
    model = case.draw(shape)
    d = np.linalg.svd(model.X, compute_uv=False)
    np.testing.assert_allclose(model.spectrum, d, atol=1e-12 * d[0])


@over("shape", SHAPES)
@over("case", MODELS)
def test_rotated_holds_the_coefficients_along_the_singular_vectors(case, shape):
    model = case.draw(shape)
    assert np.sum((model.spectrum * model.rotated) ** 2) == pytest.approx(model.mean @ model.mean)
    # Singular vectors have no sign, and those of Model 1's flat tail (0.1) no direction either.
    _, d, Vt = np.linalg.svd(model.X, full_matrices=False)
    single = d > 1.0
    wanted = np.abs(Vt @ model.beta)[single]
    np.testing.assert_allclose(np.abs(model.rotated)[single], wanted, atol=1e-8)


@over("shape", SHAPES)
@over("case", MODELS)
def test_y_is_its_mean_and_noise(case, shape):
    quiet, loud = (case.make(3, n=shape[0], p=shape[1], noise=noise) for noise in (0.0, 2.0))
    np.testing.assert_allclose(loud.mean, loud.X @ loud.beta, rtol=1e-12)
    np.testing.assert_array_equal(quiet.y, quiet.mean)
    np.testing.assert_array_equal(loud.mean, quiet.mean)
    louder = case.make(3, n=shape[0], p=shape[1], noise=6.0)
    np.testing.assert_allclose(louder.y - louder.mean, 3 * (loud.y - loud.mean), atol=1e-8)


def test_noise_is_the_standard_deviation():
    model = models.model2(0, n=4000, p=2, noise=3.0)
    left = model.y - model.mean
    assert abs(left.std() - 3.0) < 4 * 3.0 / np.sqrt(2 * 4000)
    assert abs(left.mean()) < 4 * 3.0 / np.sqrt(4000)


def test_risk_is_the_mean_square_off_the_mean():
    model = MODELS["model2"].draw((60, 40))
    assert model.risk(model.mean) == 0.0
    assert model.risk(model.mean + 2.0) == pytest.approx(4.0)


@over("shape", SHAPES)
def test_model_1_is_steep(shape):
    d = MODELS["model1"].draw(shape).spectrum
    np.testing.assert_allclose(d[:30], [1.3**i for i in range(40, 10, -1)])
    np.testing.assert_array_equal(d[30:], 0.1)
    tail = models.model1(0, n=shape[0], p=shape[1], tail=0.0).spectrum[30:]
    np.testing.assert_array_equal(tail, 0.0)


@over("shape", SHAPES)
def test_model_2_is_flat(shape):
    d = MODELS["model2"].draw(shape).spectrum
    root = np.sqrt(shape[0])
    assert ((root / 2 <= d) & (d <= root)).all()
    assert (np.diff(d) <= 0).all()
    assert d[-1] < 0.6 * root < 0.9 * root < d[0]  # and all of the interval is used


@over("shape", SHAPES)
def test_model_3_is_flat_but_for_15_values(shape):
    d = MODELS["model3"].draw(shape).spectrum
    root = np.sqrt(shape[0])
    assert ((10 * root / 2 <= d[:15]) & (d[:15] <= 10 * root)).all()
    assert ((root / 2 <= d[15:]) & (d[15:] <= root)).all()
    assert d[15] <= d[14] / 10  # the top ones of the sample were chosen


@over("shape", SHAPES)
def test_model_3_has_orthogonal_columns(shape):
    model = MODELS["model3"].draw(shape)
    squares = np.zeros(shape[1])
    squares[: len(model.spectrum)] = model.spectrum**2
    np.testing.assert_allclose(model.X.T @ model.X, np.diag(squares), atol=1e-9)


@pytest.mark.parametrize("name", ["model1", "model2"])
def test_models_1_and_2_are_rotated(name):
    # Spread over all columns: the largest entry of a singular vector is nowhere near 1.
    _, _, Vt = np.linalg.svd(MODELS[name].draw((60, 40)).X, full_matrices=False)
    assert np.abs(Vt[:15]).max() < 0.9


def test_model_3_has_signal_in_the_first_15_and_the_last_1000_coefficients():
    beta = models.model3(0, n=20, p=1500).beta
    assert np.count_nonzero(beta) == 15 + 1000
    assert beta[:15].all()
    assert not beta[15:500].any()
    assert beta[500:].all()


@over("case", MODELS)
def test_coefficients_are_uniform_between_minus_and_plus_two_and_a_half(case):
    beta = case.make(0, n=30, p=1500).beta
    beta = np.sort(beta[beta != 0])
    assert -2.5 <= beta[0] < -2.45
    assert 2.45 < beta[-1] <= 2.5
    # Kolmogorov & Smirnov: beyond 1.95 with probability 0.001.
    uniform = (np.arange(len(beta)) + 0.5) / len(beta)
    assert np.abs((beta + 2.5) / 5 - uniform).max() < 1.95 / np.sqrt(len(beta))


@pytest.mark.parametrize("noise", [0.5, 1.0])
@over("shape", SHAPES)
@over("case", MODELS)
def test_lam_is_that_of_the_posterior_mean(case, shape, noise):
    n, p = shape
    model = case.make(0, n=n, p=p, noise=noise)
    not_zero = min(p, 15 + 2 * p // 3) if model.name == "Model 3" else p
    mean_square = not_zero / p * 2.5**2 / 3
    assert model.lam == pytest.approx(noise**2 / (n * mean_square))
    assert model.noise == noise


@over("case", MODELS)
def test_a_seed_makes_a_model_repeatable(case):
    first, same, other = (case.make(seed, n=60, p=40) for seed in (7, 7, 8))
    for name in ("X", "beta", "y", "spectrum"):
        np.testing.assert_array_equal(getattr(first, name), getattr(same, name))
    for name in ("X", "beta", "y"):
        assert (getattr(first, name) != getattr(other, name)).any(), name


@over("case", MODELS)
def test_sizes_are_those_of_the_paper_unless_said_otherwise(case):
    defaults = {name: each.default for name, each in signature(case.make).parameters.items()}
    assert defaults["n"] == 2000
    assert defaults["p"] == 1500
    assert defaults["noise"] == 1.0
    assert defaults["random_state"] is None


@over("case", MODELS)
def test_models_are_frozen(case):
    with pytest.raises(FrozenInstanceError):
        case.draw((60, 40)).noise = 2.0


WRONG = {
    "n": [0, -1, 60.0, "60", None, True],
    "p": [0, -1, 40.0, "40", None, True],
    "noise": [-1.0, np.nan, np.inf, "1", None],
    "random_state": [-1, 1.5, "seed"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
@over("case", MODELS)
def test_wrong_arguments_are_named(case, name, value):
    options = {"random_state": 0, "n": 60, "p": 40, name: value}
    with pytest.raises(InvalidInputError) as error:
        case.make(**options)
    assert error.value.argument == name
    assert str(value) in error.value.problem
    assert error.value.remedies


@pytest.mark.parametrize("tail", [-0.1, 18.0, np.nan, "0.1", None])
def test_wrong_tail_is_named(tail):
    kind = OptionError if isinstance(tail, float) else InputTypeError
    with raises(kind, "tail", mentions=repr(tail)):
        models.model1(0, n=60, p=40, tail=tail)


@pytest.mark.parametrize(("name", "least"), [("model1", 30), ("model2", 1), ("model3", 15)])
def test_models_need_as_many_rows_and_columns_as_their_spectrum_has_parts(name, least):
    make = MODELS[name].make
    assert make(0, n=least, p=least).spectrum.shape == (least,)
    for argument in ("n", "p"):
        with raises(OptionError, argument, mentions=f">= {least}"):
            make(0, **{"n": 40, "p": 40, argument: least - 1})


def test_model_3_raises_the_first_values_drawn_if_asked():
    drawn = models.model3(0, n=60, p=40, raised="first").spectrum
    largest = models.model3(0, n=60, p=40).spectrum
    np.testing.assert_allclose(np.sort(drawn[15:])[::-1][:1] <= np.sqrt(60), [True])
    assert drawn[:15].min() < largest[:15].min()
    with raises(OptionError, "raised"):
        models.model3(0, n=60, p=40, raised="all")
