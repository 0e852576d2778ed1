"""Algorithm 2 finds the top of the spectrum, the dense SVD all of it; PCR projects on it."""

import numpy as np
import pytest

from ling import paper
from ling.errors import OptionError
from tests.paper import transcriptions
from tests.paper.registry import (
    FACTORISATIONS,
    INPUT_KINDS,
    SHAPES,
    gaussian,
    over,
    relative_error,
)
from tests.raising import raises


def with_spectrum(d, shape):
    """A matrix with these singular values and random singular vectors."""
    n, p = shape
    rng = np.random.default_rng(5)
    U, V = (np.linalg.qr(rng.standard_normal((size, len(d))))[0] for size in (n, p))
    return U * d @ V.T


# For matrices with min(n, p) = 40.
SPECTRA = {
    "fast-decay": 2.0 ** -np.arange(40.0),
    "slow-decay": 1.0 / np.arange(1.0, 41.0),
    "flat": np.linspace(2.0, 1.0, 40),
    "all-equal": np.ones(40),
    "rank-7": np.linspace(3.0, 1.0, 7),
    "rank-1": np.array([5.0]),
}
FULL_RANK = {name: d for name, d in SPECTRA.items() if len(d) == 40}
DEFICIENT = {name: d for name, d in SPECTRA.items() if len(d) < 40}


@pytest.mark.parametrize("k", [1, 7, 39, 40])
@over("shape", SHAPES)
@over("d", SPECTRA)
@over("algorithm", FACTORISATIONS)
def test_factors_are_what_they_claim(algorithm, d, shape, k):
    X = with_spectrum(d, shape)
    svd = algorithm(X, None, None, k=k)
    rank = min(k, len(d))
    assert svd.U.shape == svd.Q.shape == (shape[0], rank)
    assert svd.Vt.shape == (rank, shape[1])
    assert svd.map.shape == (shape[1], rank)
    assert (np.diff(svd.d) <= 0).all()
    for orthonormal in (svd.U, svd.Q, svd.Vt.T):
        np.testing.assert_allclose(orthonormal.T @ orthonormal, np.eye(rank), atol=1e-12)
    np.testing.assert_allclose(svd.U @ (svd.U.T @ svd.Q), svd.Q, atol=1e-12)  # the same span
    np.testing.assert_allclose(svd.U.T @ X, svd.d[:, None] * svd.Vt, atol=1e-12 * d[0])
    # The map divides by singular values, down to 2^-39 of the first: rounding is divided with it.
    np.testing.assert_allclose(X @ svd.map, svd.U, atol=1e-14 * d[0] / svd.d[-1])


@over("shape", SHAPES)
@over("d", SPECTRA)
def test_exact_svd_is_the_svd(d, shape):
    X = with_spectrum(d, shape)
    svd = paper.exact_svd(X, len(d))
    np.testing.assert_allclose(svd.d, d, atol=1e-13 * d[0])
    assert relative_error(svd.U * svd.d @ svd.Vt, X) < 1e-13


@over("algorithm", FACTORISATIONS)
def test_every_kind_of_input(algorithm):
    X, _ = gaussian()
    for name, kind in INPUT_KINDS.items():
        stored = algorithm(kind.wrap(X), None, None, k=3)
        plain = algorithm(kind.dense(X), None, None, k=3)
        np.testing.assert_allclose(stored.d, plain.d, rtol=1e-10, err_msg=name)
        assert relative_error(stored.U @ (stored.U.T @ plain.U), plain.U) < 1e-8, name


@pytest.mark.parametrize("power", range(4))
@over("shape", SHAPES)
@over("d", DEFICIENT)
def test_random_svd_is_exact_where_k_reaches_the_rank(d, shape, power):
    X = with_spectrum(d, shape)
    svd = paper.random_svd(X, 20, power, random_state=0)
    np.testing.assert_allclose(svd.d, d, rtol=1e-12)
    assert relative_error(svd.U * svd.d @ svd.Vt, X) < 1e-12


@over("shape", SHAPES)
@over("d", FULL_RANK)
def test_random_svd_is_exact_where_k_is_all_there_is(d, shape):
    X = with_spectrum(d, shape)
    svd = paper.random_svd(X, 40, random_state=0)
    np.testing.assert_allclose(svd.d, d, atol=1e-13 * d[0])
    assert relative_error(svd.U * svd.d @ svd.Vt, X) < 1e-13


@pytest.mark.parametrize("power", range(3))
@over("shape", SHAPES)
def test_random_svd_is_algorithm_2(shape, power):
    # A matrix whose powers lose no digits: here the printed formula can be evaluated as it stands.
    X, _ = gaussian(*shape)
    svd = paper.random_svd(X, 6, power, random_state=11)
    U1, d, Q1 = transcriptions.algorithm2(X, 6, power, np.random.default_rng(11))
    np.testing.assert_allclose(svd.d, d, rtol=1e-9)
    np.testing.assert_allclose(svd.Q @ svd.Q.T, Q1 @ Q1.T, atol=1e-9)
    np.testing.assert_allclose(np.abs(np.sum(svd.U * U1, axis=0)), 1.0, rtol=1e-9)


@pytest.mark.parametrize("k", [1, 10, 30])
@pytest.mark.parametrize("power", [0, 1])
@over("d", SPECTRA)
def test_random_singular_values_never_exceed_the_exact_ones(d, power, k):
    # Those of Q'X are at most those of X (interlacing).
    svd = paper.random_svd(with_spectrum(d, SHAPES["tall"]), k, power, random_state=0)
    assert (svd.d <= d[: len(svd.d)] + 1e-14 * d[0]).all()


@pytest.mark.parametrize("power", range(4))
@pytest.mark.parametrize("k", [5, 12])
@pytest.mark.parametrize("name", ["fast-decay", "slow-decay", "flat"])
def test_error_is_within_the_bound_of_halko_martinsson_and_tropp(name, k, power):
    d = SPECTRA[name]
    X = with_spectrum(d, SHAPES["tall"])
    errors = [_missed(X, k, power, seed) for seed in range(30)]
    # With less than 1e-14 of the matrix missing, what is measured is rounding.
    assert np.mean(errors) < halko_bound(d, k, power) + 1e-14 * d[0]


def halko_bound(d, k, power):
    """The bound on E||X - QQ'X|| of Halko, Martinsson & Tropp (2011), corollary 10.10.

    Of the k columns drawn, j are the target and k - j >= 2 the oversampling, whatever j is best.
    """
    j = np.arange(1, k - 1)
    extra = k - j
    factor = 1 + np.sqrt(j / (extra - 1)) + np.e * np.sqrt(k) / extra * np.sqrt(len(d) - j)
    return np.min(factor ** (1 / (2 * power + 1)) * d[j])


def _missed(X, k, power, seed):
    Q = paper.random_svd(X, k, power, random_state=seed).Q
    return np.linalg.norm(X - Q @ (Q.T @ X), 2)


@pytest.mark.parametrize("name", ["fast-decay", "slow-decay", "flat"])
def test_each_power_finds_a_better_space(name):
    X = with_spectrum(SPECTRA[name], SHAPES["tall"])
    errors = [np.mean([_missed(X, 10, power, seed) for seed in range(10)]) for power in range(4)]
    assert (np.diff(errors) < 0).all()
    assert errors[-1] > SPECTRA[name][10]  # no space of 10 dimensions does better


@over("shape", SHAPES)
@over("d", DEFICIENT)
@over("algorithm", FACTORISATIONS)
def test_k_beyond_the_rank_gives_as_many_columns_as_there_are(algorithm, d, shape):
    for k in (len(d), len(d) + 1, 40):
        assert algorithm(with_spectrum(d, shape), None, None, k=k).d.shape == (len(d),)


@over("shape", SHAPES)
@over("storage", {name: INPUT_KINDS[name] for name in ("dense-c", "csr")})
@over("algorithm", FACTORISATIONS)
def test_zero_matrix_has_no_components(algorithm, storage, shape):
    svd = algorithm(storage.wrap(np.zeros(shape)), None, None, k=3)
    assert svd.U.shape == svd.Q.shape == (shape[0], 0)
    assert svd.map.shape == (shape[1], 0)
    assert svd.d.shape == (0,)


@over("shape", SHAPES)
@over("algorithm", FACTORISATIONS)
def test_k_beyond_both_dimensions_is_refused(algorithm, shape):
    with raises(OptionError, "k", mentions=">= 1 and <= 40"):
        algorithm(np.ones(shape), None, None, k=41)


GENERATORS = {
    "int": lambda: 5,
    "numpy-int": lambda: np.int64(5),
    "generator": lambda: np.random.default_rng(5),
    "random-state": lambda: np.random.RandomState(5),
}


@over("make", GENERATORS)
def test_equal_random_states_give_equal_results(make):
    X, _ = gaussian()
    first, second = (paper.random_svd(X, 3, random_state=make()).Q for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", ["generator", "random-state"])
def test_a_generator_moves_on(name):
    X, _ = gaussian()
    shared = GENERATORS[name]()
    first, second = (paper.random_svd(X, 3, random_state=shared).Q for _ in range(2))
    assert (first != second).any()


def test_no_random_state_is_a_new_one_each_time():
    X, _ = gaussian()
    first, second = (paper.random_svd(X, 3).Q for _ in range(2))
    assert (first != second).any()


@over("shape", SHAPES)
@over("d", SPECTRA)
def test_pcr_projects_on_the_space_that_random_svd_finds(d, shape):
    X = with_spectrum(d, shape)
    y = np.random.default_rng(6).standard_normal(shape[0])
    Q = paper.random_svd(X, 4, 2, random_state=3).Q
    fit = paper.pcr(X, y, 4, 2, random_state=3)
    np.testing.assert_allclose(fit.fitted, Q @ (Q.T @ y), atol=1e-12)


@over("shape", SHAPES)
def test_pcr_on_all_components_is_least_squares(shape):
    X, y = gaussian(*shape)
    fitted = paper.pcr(X, y, min(shape), random_state=0).fitted
    np.testing.assert_allclose(X.T @ (y - fitted), 0, atol=1e-10)
