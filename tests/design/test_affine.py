"""Centring, scaling, weights and low-rank corrections: their accuracy, and what they refuse."""

import numpy as np
import pytest
from scipy import sparse

from ling.design import ArraySource, ChunkedStorage, DenseStorage, SparseStorage, Storage, as_design
from ling.errors import NegativeWeightError, NonFiniteError, OptionError, ShapeError
from tests.design.laws import assert_close
from tests.design.registry import DESIGNS, Parts, case_of
from tests.raising import raises

WEIGHTS = {"unweighted": lambda n: None, "weighted": lambda n: Parts.of(np.empty((n, 1))).weights}
weighted_or_not = pytest.mark.parametrize("weigh", WEIGHTS.values(), ids=WEIGHTS)


def centred_in_long_double(X, weights):
    """sqrt(w) * (X - mean), with the mean in more digits than the code under test has."""
    X = X.astype(np.longdouble)
    w = np.ones(len(X)) if weights is None else weights
    w = w.astype(np.longdouble)[:, None]
    return np.sqrt(w) * (X - (w * X).sum(axis=0) / w.sum())


def relative_error(actual, expected) -> float:
    return float(np.linalg.norm((actual - expected).astype(float)) / np.linalg.norm(expected * 1.0))


@weighted_or_not
@pytest.mark.parametrize("storage", ["dense-c", "dense-fortran", "dense-column-strided"])
def test_centring_is_accurate_when_the_mean_is_a_million_times_the_spread(storage, weigh, rng):
    X = 1e6 + rng.standard_normal((2000, 10))
    weights, V = weigh(len(X)), rng.standard_normal((10, 3))
    design = as_design(DESIGNS[storage](X)).centered(weights)
    C = centred_in_long_double(X, weights)
    assert relative_error(design.gram(), C.T @ C) < 1e-8
    assert relative_error(design.gram_matmat(V), C.T @ (C @ V)) < 1e-8
    assert relative_error(design.gram_matmat(V[:, 0]), C.T @ (C @ V[:, 0])) < 1e-8
    assert relative_error(design.matmat(V), C @ V) < 1e-8
    wide = as_design(DESIGNS[storage](X[:50])).centered(None if weights is None else weights[:50])
    C = centred_in_long_double(X[:50], None if weights is None else weights[:50])
    assert relative_error(wide.row_gram(), C @ C.T) < 1e-8


@pytest.mark.parametrize("ratio", [1e1, 1e3, 1e5])
def test_centring_sparse_data_loses_no_more_than_it_says(ratio, rng):
    """The relative error of the Gram matrix grows like (mean / spread)^2 times the rounding."""
    X = ratio + rng.standard_normal((300, 6))
    design = as_design(SparseStorage(sparse.csr_array(X))).centered()
    C = centred_in_long_double(X, None)
    assert relative_error(design.gram(), C.T @ C) < 64 * ratio**2 * np.finfo(float).eps


@weighted_or_not
@pytest.mark.parametrize("storage", DESIGNS)
def test_centred_columns_have_mean_zero(storage, weigh):
    case = case_of(storage, matrix="tall")
    n = len(case.matrix)
    weights = weigh(n)
    root = np.ones(n) if weights is None else np.sqrt(weights)
    sums = as_design(case.design).centered(weights).rmatmat(root)
    assert_close(sums, np.zeros_like(sums), case.magnitude.T @ root**2)


@pytest.mark.parametrize("storage", DESIGNS)
def test_weight_zero_leaves_a_row_out_and_weight_two_doubles_it(storage):
    case = case_of(storage, matrix="zero-columns")
    weights = np.array([1.0, 0.0, 2.0, 1.0, 0.0, 1.0, 2.0, 1.0])
    weighted = as_design(case.design).centered(weights)
    repeated = as_design(
        DenseStorage(np.repeat(case.matrix, weights.astype(int), axis=0))
    ).centered()
    magnitude = case.magnitude.T @ case.magnitude
    assert_close(weighted.gram(np.float64), repeated.gram(), magnitude)


def test_an_affine_design_over_an_affine_design_is_folded_into_one(rng):
    X = DenseStorage(rng.standard_normal((5, 3)))
    twice = as_design(as_design(X).standardized(scale=[1.0, 2.0, 3.0])).centered()
    assert twice.storage is X
    assert isinstance(twice.storage, Storage)


def test_arguments_may_be_lists_and_are_not_changed():
    X = DenseStorage(np.arange(6.0).reshape(3, 2))
    shift, scale, weights = [1.0, 2.0], [3.0, 4.0], [4.0, 0.0, 1.0]
    from_lists = as_design(X).standardized(shift, scale, weights)
    arrays = [np.array(values) for values in (shift, scale, weights)]
    from_arrays = as_design(X).standardized(*arrays)
    np.testing.assert_array_equal(from_lists.matmat(np.eye(2)), from_arrays.matmat(np.eye(2)))
    from_arrays.gram()
    assert [array.tolist() for array in arrays] == [shift, scale, weights]


SQUARE = DenseStorage(np.eye(3))
REFUSED = {
    "negative-weight": (
        lambda: as_design(SQUARE).standardized(weights=[1.0, -0.5, 1.0]),
        NegativeWeightError,
        "weights",
        {"row": 1, "mentions": "-0.5"},
    ),
    "negative-weight-centred": (
        lambda: as_design(SQUARE).centered(weights=[1.0, 1.0, -2.0]),
        NegativeWeightError,
        "weights",
        {"row": 2, "mentions": "-2.0"},
    ),
    "zero-weights": (
        lambda: as_design(SQUARE).standardized(weights=np.zeros(3)),
        OptionError,
        "weights",
        {},
    ),
    "zero-weights-centred": (
        lambda: as_design(SQUARE).centered(weights=np.zeros(3)),
        OptionError,
        "weights",
        {},
    ),
    "nan-shift": (
        lambda: as_design(SQUARE).standardized(shift=[0.0, np.nan, 0.0]),
        NonFiniteError,
        "shift",
        {"mentions": "shift[1] is nan"},
    ),
    "infinite-scale": (
        lambda: as_design(SQUARE).standardized(scale=[1.0, 1.0, np.inf]),
        NonFiniteError,
        "scale",
        {"mentions": "scale[2] is inf"},
    ),
    "nan-weight": (
        lambda: as_design(SQUARE).standardized(weights=[np.nan, 1.0, 1.0]),
        NonFiniteError,
        "weights",
        {"mentions": "weights[0] is nan"},
    ),
    "long-shift": (
        lambda: as_design(SQUARE).standardized(shift=np.zeros(4)),
        ShapeError,
        "shift",
        {"mentions": "(4,)"},
    ),
    "scalar-scale": (
        lambda: as_design(SQUARE).standardized(scale=2.0),
        ShapeError,
        "scale",
        {"mentions": "()"},
    ),
    "two-dimensional-weights": (
        lambda: as_design(SQUARE).standardized(weights=np.ones((3, 1))),
        ShapeError,
        "weights",
        {"mentions": "(3, 1)"},
    ),
    # One row would be broadcast over all of them without a word.
    "short-left": (
        lambda: as_design(SQUARE).low_rank_corrected(np.ones((1, 2)), np.ones((3, 2))),
        ShapeError,
        "left",
        {"mentions": "(1, 2)"},
    ),
    "long-right": (
        lambda: as_design(SQUARE).low_rank_corrected(np.ones((3, 2)), np.ones((4, 2))),
        ShapeError,
        "right",
        {"mentions": "(4, 2)"},
    ),
    "ranks-that-differ": (
        lambda: as_design(SQUARE).low_rank_corrected(np.ones((3, 2)), np.ones((3, 1))),
        ShapeError,
        "right",
        {"mentions": "(3, 1)"},
    ),
    "one-dimensional-left": (
        lambda: as_design(SQUARE).low_rank_corrected(np.ones(3), np.ones(3)),
        ShapeError,
        "left",
        {"mentions": "(3,)"},
    ),
    "shift-after-scale-zero": (
        lambda: as_design(SQUARE).standardized(scale=[1.0, 0.0, 1.0]).standardized(np.ones(3)),
        OptionError,
        "X",
        {"column": 1, "mentions": "by 0"},
    ),
}


@pytest.mark.parametrize(("make", "kind", "argument", "details"), REFUSED.values(), ids=REFUSED)
def test_refused(make, kind, argument, details):
    with raises(kind, argument, **details):
        make()


def test_arrays_and_lists_will_do_in_place_of_a_design(rng):
    X = rng.standard_normal((5, 3))
    centred = X - X.mean(axis=0)
    for given in (X, X.tolist(), sparse.csr_array(X)):
        design = as_design(given).centered()
        np.testing.assert_allclose(design.matmat(np.eye(3)), centred, atol=1e-12)
    corrected = as_design(X).low_rank_corrected([[1.0]] * 5, [[2.0]] * 3)
    np.testing.assert_allclose(corrected.matmat(np.eye(3)), X - 2.0)


class RowsOnly(ArraySource):
    """A source of rows, like a table in a file."""

    has_column_access = False


@pytest.mark.parametrize(
    ("source", "block_mib", "passes"), [(RowsOnly, 4, 1), (RowsOnly, 1, 4), (ArraySource, 1, 1)]
)
def test_rows_that_cannot_be_held_together_are_multiplied_in_turn(source, block_mib, passes):
    X = np.random.default_rng(0).standard_normal((200, 3000))  # 4.8 MB
    C = X - X.mean(axis=0)
    n_bytes = 4 * block_mib * 2**20  # `row_gram` holds two blocks
    design = as_design(ChunkedStorage(source(X), max_resident_bytes=n_bytes)).centered()
    assert design.storage.row_gram_passes == passes
    np.testing.assert_allclose(design.row_gram(), C @ C.T, atol=1e-9)


EXTREME_SCALES = {
    "one-size": (np.full(4, 1e-200), 1e-8),
    "tiny": (np.full(4, 1e200), 1e-8),
    "mixed": (np.array([1e-100, 1e100, 1.0, 0.0]), 1e-8),
    "single": (np.array([1e-20, 1.0, 1e15, 1.0]), 1e-4),
}


@pytest.mark.parametrize("storage", ["dense-c", "csr", "blocks"])
@pytest.mark.parametrize(("scale", "rtol"), EXTREME_SCALES.values(), ids=EXTREME_SCALES)
def test_gram_matrices_of_columns_of_any_size(storage, scale, rtol, rng):
    """Columns of equal norm after scaling, whatever they are before."""
    Z = rng.standard_normal((50, 4))
    X = Z / np.where(scale > 0, scale, 1.0)
    weights = rng.uniform(0.5, 2.0, 50)
    expected = np.where(scale > 0, Z, 0.0)
    expected = expected.T @ (weights[:, None] * expected)
    design = DESIGNS[storage](X).standardized(scale=scale, weights=weights)
    np.testing.assert_allclose(design.gram(np.float64), expected, rtol=1e-8, atol=1e-12)
    if rtol > 1e-8:
        np.testing.assert_allclose(design.gram(np.float32), expected, rtol=rtol, atol=1e-3)


def test_a_correction_that_overflows_is_refused():
    scaled = as_design(SQUARE).standardized(scale=np.full(3, 1e-250))
    with raises(OptionError, "X", column=0, mentions="1e-250"):
        scaled.standardized(shift=np.full(3, 1e100))
