"""What every fit promises: X coef is what was fitted, whatever X is stored in."""

from contextlib import suppress
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from scipy import sparse

from ling.errors import LingError, ShapeError
from tests.paper.registry import (
    ALGORITHMS,
    FITS,
    INPUT_KINDS,
    MODELS,
    SHAPES,
    STORAGES,
    gaussian,
    over,
    relative_error,
    taking,
)
from tests.raising import raises


@over("shape", SHAPES)
@over("storage", STORAGES)
@over("algorithm", FITS)
def test_coef_gives_the_fitted_values(algorithm, storage, shape):
    model = MODELS["model1"].draw(shape)
    fit = algorithm(storage.wrap(model.X), model.y, model.lam)
    assert relative_error(storage.dense(model.X) @ fit.coef, fit.fitted) < 1e-8


@over("shape", SHAPES)
@over("storage", STORAGES)
@pytest.mark.parametrize("power", range(4))
@over("algorithm", taking("power", FITS))
def test_coef_gives_the_fitted_values_at_every_power(algorithm, power, storage, shape):
    # (X'X)^3 takes Model 1's 1.3^40 : 0.1 to 1e33 : 1; only the factored form survives that.
    model = MODELS["model1"].draw(shape)
    fit = algorithm(storage.wrap(model.X), model.y, model.lam, power=power, k=min(shape))
    assert relative_error(storage.dense(model.X) @ fit.coef, fit.fitted) < 1e-8


@over("algorithm", FITS)
def test_the_kind_of_input_does_not_change_the_fit(algorithm):
    """SVRG reads rows from the storage itself."""
    X, y = gaussian()
    for name, kind in INPUT_KINDS.items():
        stored, plain = algorithm(kind.wrap(X), y, 0.1), algorithm(kind.dense(X), y, 0.1)
        assert relative_error(stored.coef, plain.coef) < 1e-9, name
        assert relative_error(stored.fitted, plain.fitted) < 1e-9, name


@pytest.mark.parametrize("dtype", [np.int8, np.float32, ">f8", bool, list])
@over("algorithm", FITS)
def test_any_real_y_will_do(algorithm, dtype):
    X, y = gaussian()
    signs = (y > 0).astype(np.float64)
    given = signs.tolist() if dtype is list else signs.astype(dtype)
    np.testing.assert_array_equal(algorithm(X, given, 0.1).coef, algorithm(X, signs, 0.1).coef)


# Powers of two, so that a change of units changes no digit. The last two of each kind are far
# enough out for the squares of the data, or of their squares, to leave the range of the type.
UNITS = [
    *[(np.float64, exponent) for exponent in (-100, 100, -400, 400)],
    *[(np.float32, exponent) for exponent in (-20, 20, -70, 70)],
]


@pytest.mark.parametrize(("dtype", "exponent"), UNITS)
@over("algorithm", FITS)
def test_units_of_the_data_do_not_change_least_squares(algorithm, dtype, exponent):
    X, y = gaussian()
    X = X.astype(dtype)
    rescaled = algorithm(X * dtype(2.0**exponent), y, 0.0)
    assert relative_error(rescaled.fitted, algorithm(X, y, 0.0).fitted) < 1e-9


@pytest.mark.parametrize("exponent", [-100, 100])
@over("algorithm", FITS)
def test_fit_is_linear_in_y(algorithm, exponent):
    X, y = gaussian()
    rescaled = algorithm(X, 2.0**exponent * y, 0.1)
    assert relative_error(rescaled.coef, 2.0**exponent * algorithm(X, y, 0.1).coef) < 1e-9


@over("algorithm", FITS)
def test_nothing_to_explain_gives_zero(algorithm):
    X, y = gaussian()
    fit = algorithm(X, np.zeros_like(y), 0.1)
    assert not fit.coef.any()
    assert not fit.fitted.any()


@pytest.mark.parametrize("lam", [0.0, 0.1])
@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@over("algorithm", FITS)
def test_nothing_to_explain_it_with_gives_zero(algorithm, wrap, lam):
    X, y = gaussian()
    fit = algorithm(wrap(np.zeros_like(X)), y, lam)
    assert not fit.coef.any()
    assert not fit.fitted.any()


# n lam is beyond the largest number for the second: 0 would be right, and so would an error.
@pytest.mark.parametrize("lam", [1e300, 1e308])
@over("algorithm", taking("lam"))
def test_no_penalty_makes_the_fit_infinite(algorithm, lam):
    with suppress(LingError):
        fit = algorithm(*gaussian(), lam)
        assert np.isfinite(fit.coef).all()
        assert np.isfinite(fit.fitted).all()


@over("shape", SHAPES)
@over("algorithm", FITS)
def test_shapes_and_dtypes(algorithm, shape):
    X, y = gaussian(*shape)
    fit = algorithm(X.astype(np.float32), y.astype(np.float32), 0.1)
    assert fit.fitted.shape == (shape[0],)
    assert fit.coef.shape == (shape[1],)
    assert fit.fitted.dtype == fit.coef.dtype == np.float64


@over("algorithm", ALGORITHMS)
def test_results_cannot_be_changed(algorithm):
    result = algorithm(*gaussian(), 0.1)
    for each in fields(result):
        value = getattr(result, each.name)
        with pytest.raises(FrozenInstanceError):
            setattr(result, each.name, value)
        if isinstance(value, np.ndarray):
            assert not value.flags.writeable, each.name


@over("algorithm", FITS)
def test_predict_applies_the_coefficients_to_new_rows_of_any_kind(algorithm, rng):
    X, y = gaussian()
    X_new = rng.standard_normal((7, X.shape[1]))
    fit = algorithm(X, y, 0.1)
    for name, kind in INPUT_KINDS.items():
        predicted, wanted = fit.predict(kind.wrap(X_new)), kind.dense(X_new) @ fit.coef
        np.testing.assert_allclose(predicted, wanted, rtol=1e-10, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("columns", [0, 11, 13])
@over("algorithm", FITS)
def test_predict_wants_the_same_columns(algorithm, columns):
    fit = algorithm(*gaussian(p=12), 0.1)
    with raises(ShapeError, "X", mentions=f"has {columns} columns"):
        fit.predict(np.ones((3, columns)))


@over("algorithm", FITS)
def test_predict_wants_rows(algorithm):
    X, y = gaussian()
    with raises(ShapeError, "X", mentions="(12,)"):
        algorithm(X, y, 0.1).predict(X[0])


@over("algorithm", taking("random_state", FITS))
def test_a_seed_makes_a_fit_repeatable(algorithm):
    X, y = gaussian()
    fits = [algorithm(X, y, 0.1, random_state=seed).coef for seed in (3, 3, 4)]
    np.testing.assert_array_equal(fits[0], fits[1])
    assert (fits[0] != fits[2]).any()
