"""Copies of X in 16-bit integers: as near as they say, and products with them."""

import numpy as np
import pytest

from ling.design import AffineDesign

SIZES = [(1, 1), (31, 3), (32, 5), (100, 7), (70, 4100)]


def shortened(design, units=None):
    p = design.shape[1]
    return design.storage.shortened(design.affine, np.ones(p) if units is None else units)


def numbers(copy, n):
    """What the copy stands for."""
    steps = np.repeat(copy.steps.astype(float), len(copy.short) // len(copy.steps), axis=0)
    return (copy.short * steps * copy.units)[:n]


def centred(rng, n, p, weighted=False, units=1.0):
    X = (1e3 + rng.standard_t(2, (n, p))) * units
    return AffineDesign.centred(X, rng.uniform(0, 2, n) if weighted else None)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "p"), SIZES)
def test_the_copy_is_of_the_centred_matrix_and_knows_its_error(n, p, weighted, treat_as_large, rng):
    treat_as_large(2)
    design = centred(rng, n, p, weighted)
    exact = design.take(np.arange(n))
    copy = shortened(design)
    error = np.linalg.norm(numbers(copy, n) - exact)
    assert error <= np.sqrt(copy.error) + 1e-12 * np.sqrt(n * p)  # the means are about 1000
    assert copy.error <= 1e-7 * np.linalg.norm(exact) ** 2 + 1e-12


@pytest.mark.parametrize(("n", "p"), SIZES)
def test_products_are_those_of_the_copy(n, p, treat_as_large, rng):
    treat_as_large(2)
    copy = shortened(centred(rng, n, p))
    Z = numbers(copy, n)
    V = rng.standard_normal((p, 2))
    found = copy.gram_matmat(V)
    size = np.linalg.norm(Z, 2) ** 2 * np.linalg.norm(V, axis=0)
    assert (np.linalg.norm(found - Z.T @ (Z @ V), axis=0) <= 1e-5 * size + 1e-12).all()
    assert np.array_equal(copy.gram_matmat(V[:, 0]), found[:, 0])


def test_units_of_columns_do_not_matter(treat_as_large, rng):
    treat_as_large(2)
    units = 10.0 ** rng.uniform(-20, 20, 6)
    design = centred(rng, 80, 6, units=units)
    exact = design.take(np.arange(80))
    copy = shortened(design, units)
    assert np.abs((numbers(copy, 80) - exact) / units).max() <= 1e-3
    v = rng.standard_normal(6) / units
    found = copy.gram_matmat(v) / units
    assert np.allclose(found, exact.T @ (exact @ v) / units, rtol=1e-3)


def test_a_number_far_out_costs_only_its_neighbours_precision(treat_as_large, rng):
    treat_as_large(2)
    X = rng.standard_normal((320, 4))
    X[5, 2] = 1e6
    design = AffineDesign.standardised(X)
    error = np.abs(numbers(shortened(design), 320) - X)
    assert error[32:].max() < 1e-4
    assert error[:32, 2].max() > 1e-2


def test_columns_of_zeros_stay_zero(treat_as_large):
    treat_as_large(2)
    copy = shortened(AffineDesign.standardised(np.zeros((40, 3))))
    assert copy.error == 0
    assert not copy.gram_matmat(np.ones(3)).any()
    assert not copy.gram_matmat(np.zeros(3)).any()


@pytest.mark.parametrize("kind", ["float32", "read-only", "memory map", "rows of weight 0"])
def test_whatever_x_is(kind, treat_as_large, rng, tmp_path):
    treat_as_large(2)
    X = rng.standard_normal((70, 5))
    weights = np.where(rng.random(70) < 0.5, 0.0, 2.0) if "0" in kind else None
    if kind == "float32":
        X = X.astype(np.float32)
    if kind == "read-only":
        X.flags.writeable = False
    if kind == "memory map":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    design = AffineDesign.centred(X, weights)
    copy = shortened(design)
    exact = design.take(np.arange(70))
    assert np.linalg.norm(numbers(copy, 70) - exact) ** 2 <= copy.error + 1e-20
    assert np.allclose(copy.gram_matmat(np.ones(5)), exact.T @ exact.sum(axis=1), atol=1e-2)


def test_there_is_no_copy_where_loops_would_not_read_it(rng, treat_as_large):
    small = AffineDesign.centred(rng.standard_normal((5, 3)))
    assert not small.storage.shortens(small.affine)
    treat_as_large(1)
    assert small.storage.shortens(small.affine)
    turned = AffineDesign.centred(np.asfortranarray(rng.standard_normal((5, 3))))
    assert not turned.storage.shortens(turned.affine)
