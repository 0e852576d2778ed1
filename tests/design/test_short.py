"""Copies of X in 16-bit integers: as near as they say, and products with them."""

import numpy as np
import pytest

from ling.design import DenseStorage, as_design
from tests.design.registry import LARGE

SIZES = [(1, 1), (31, 3), (32, 5), (100, 7), (70, 4100)]


def quantize(design, column_scales=None):
    p = design.shape[1]
    return design.storage.quantize(
        design.affine, np.ones(p) if column_scales is None else column_scales
    )


def numbers(copy, n):
    """What the copy stands for."""
    scales = np.repeat(copy.scales.astype(float), len(copy.codes) // len(copy.scales), axis=0)
    return (copy.codes * scales * copy.column_scales)[:n]


def large(X):
    """The design of an array that is treated as a large one."""
    return as_design(DenseStorage(X, tuning=LARGE))


def centred(rng, n, p, weighted=False, column_scales=1.0):
    X = (1e3 + rng.standard_t(2, (n, p))) * column_scales
    return large(X).centered(rng.uniform(0, 2, n) if weighted else None)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "p"), SIZES)
def test_the_copy_is_of_the_centred_matrix_and_knows_its_error(n, p, weighted, limit_threads, rng):
    limit_threads(2)
    design = centred(rng, n, p, weighted)
    exact = design.take(np.arange(n))
    copy = quantize(design)
    error = np.linalg.norm(numbers(copy, n) - exact)
    assert error <= np.sqrt(copy.squared_error_bound) + 1e-12 * np.sqrt(
        n * p
    )  # the means are about 1000
    assert copy.squared_error_bound <= 1e-7 * np.linalg.norm(exact) ** 2 + 1e-12


@pytest.mark.parametrize(("n", "p"), SIZES)
def test_products_are_those_of_the_copy(n, p, limit_threads, rng):
    limit_threads(2)
    copy = quantize(centred(rng, n, p))
    Z = numbers(copy, n)
    V = rng.standard_normal((p, 2))
    found = copy.gram_matmat(V)
    size = np.linalg.norm(Z, 2) ** 2 * np.linalg.norm(V, axis=0)
    assert (np.linalg.norm(found - Z.T @ (Z @ V), axis=0) <= 1e-5 * size + 1e-12).all()
    assert np.array_equal(copy.gram_matmat(V[:, 0]), found[:, 0])


def test_units_of_columns_do_not_matter(limit_threads, rng):
    limit_threads(2)
    column_scales = 10.0 ** rng.uniform(-20, 20, 6)
    design = centred(rng, 80, 6, column_scales=column_scales)
    exact = design.take(np.arange(80))
    copy = quantize(design, column_scales)
    assert np.abs((numbers(copy, 80) - exact) / column_scales).max() <= 1e-3
    v = rng.standard_normal(6) / column_scales
    found = copy.gram_matmat(v) / column_scales
    assert np.allclose(found, exact.T @ (exact @ v) / column_scales, rtol=1e-3)


def test_a_number_far_out_costs_only_its_neighbours_precision(limit_threads, rng):
    limit_threads(2)
    X = rng.standard_normal((320, 4))
    X[5, 2] = 1e6
    design = large(X).standardized()
    error = np.abs(numbers(quantize(design), 320) - X)
    assert error[32:].max() < 1e-4
    assert error[:32, 2].max() > 1e-2


def test_columns_of_zeros_stay_zero(limit_threads):
    limit_threads(2)
    copy = quantize(large(np.zeros((40, 3))).standardized())
    assert copy.squared_error_bound == 0
    assert not copy.gram_matmat(np.ones(3)).any()
    assert not copy.gram_matmat(np.zeros(3)).any()


@pytest.mark.parametrize("kind", ["float32", "read-only", "memory map", "rows of weight 0"])
def test_whatever_x_is(kind, limit_threads, rng, tmp_path):
    limit_threads(2)
    X = rng.standard_normal((70, 5))
    weights = np.where(rng.random(70) < 0.5, 0.0, 2.0) if "0" in kind else None
    if kind == "float32":
        X = X.astype(np.float32)
    if kind == "read-only":
        X.flags.writeable = False
    if kind == "memory map":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    design = large(X).centered(weights)
    copy = quantize(design)
    exact = design.take(np.arange(70))
    assert np.linalg.norm(numbers(copy, 70) - exact) ** 2 <= copy.squared_error_bound + 1e-20
    assert np.allclose(copy.gram_matmat(np.ones(5)), exact.T @ exact.sum(axis=1), atol=1e-2)


def test_there_is_no_copy_where_loops_would_not_read_it(rng):
    X = rng.standard_normal((5, 3))
    for design, possible in (
        (large(X), True),
        (as_design(X), False),
        (large(np.asfortranarray(X)), False),
    ):
        centred = design.centered()
        assert centred.storage.can_quantize(centred.affine) is possible
