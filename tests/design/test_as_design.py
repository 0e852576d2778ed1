"""What `as_design` accepts, what it refuses and says then, and where it finds a NaN."""

import pickle

import numpy as np
import pytest
from scipy import sparse

from ling.design import DenseStorage, SparseStorage, as_design
from ling.errors import InputTypeError, ShapeError
from tests.design.registry import DESIGNS, LARGE, designs, single
from tests.raising import raises

TWO_BY_THREE = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])


@designs(["dense-c", "csr"])
def test_a_design_is_passed_through(case):
    assert as_design(case.design) is case.design


def read_only(csr):
    """As joblib hands it to its workers."""
    for array in (csr.data, csr.indices, csr.indptr):
        array.flags.writeable = False
    return csr


ACCEPTED = {
    "lists": (TWO_BY_THREE.tolist(), DenseStorage),
    "tuples": (tuple(map(tuple, TWO_BY_THREE.tolist())), DenseStorage),
    "lists-of-ints": (TWO_BY_THREE.astype(int).tolist(), DenseStorage),
    "float16": (TWO_BY_THREE.astype(np.float16), DenseStorage),
    "long-double": (TWO_BY_THREE.astype(np.longdouble), DenseStorage),
    "sparse-read-only": (read_only(sparse.csr_array(TWO_BY_THREE)), SparseStorage),
    "sparse-int8": (sparse.csr_array(TWO_BY_THREE.astype(np.int8)), SparseStorage),
    "sparse-long-double": (sparse.csr_array(TWO_BY_THREE.astype(np.longdouble)), SparseStorage),
    **{
        f"sparse-{form}": (sparse.csr_array(TWO_BY_THREE).asformat(form), SparseStorage)
        for form in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
    },
}


@pytest.mark.parametrize(("X", "kind"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(X, kind):
    design = as_design(X)
    assert type(design.storage) is kind
    assert design.dtype == np.float64
    for identity, product in ((np.eye(3), design.matmat), (np.eye(2), design.rmatmat)):
        expected = TWO_BY_THREE if len(identity) == 3 else TWO_BY_THREE.T
        np.testing.assert_array_equal(product(identity), expected)


def test_csr_arrays_are_shared_with_the_input():
    X = sparse.csr_array(TWO_BY_THREE)
    stored = as_design(X).storage.csr
    for name in ("data", "indices", "indptr"):
        assert np.shares_memory(getattr(stored, name), getattr(X, name)), name


#: By name: X, the kind of error, and what the error names.
REFUSED = {
    "no-dimensions": (np.float64(1.0), ShapeError, "()"),
    "none": (None, InputTypeError, "object"),
    "vector": (np.ones(3), ShapeError, "(3,)"),
    "list": ([1.0, 2.0], ShapeError, "(2,)"),
    "cube": (np.ones((2, 3, 4)), ShapeError, "(2, 3, 4)"),
    "ragged": ([[1.0, 2.0], [3.0]], InputTypeError, "inhomogeneous"),
    "complex": (TWO_BY_THREE * 1j, InputTypeError, "complex"),
    "text": (np.array([["a", "b"]]), InputTypeError, "<U1"),
    "bytes": (np.array([[b"a", b"b"]]), InputTypeError, "|S1"),
    "objects": (TWO_BY_THREE.astype(object), InputTypeError, "object"),
    "missing": ([[1.0, None]], InputTypeError, "object"),
    "dates": (np.array([["2024-02-29"]], "datetime64[D]"), InputTypeError, "datetime64"),
    "durations": (np.array([[1]], "timedelta64[s]"), InputTypeError, "timedelta64"),
    "records": (np.zeros((2, 2), [("a", float)]), InputTypeError, "'a'"),
    "masked": (np.ma.masked_equal(TWO_BY_THREE, 0.0), InputTypeError, "masked"),
    "sparse-complex": (sparse.csr_array(TWO_BY_THREE * 1j), InputTypeError, "complex"),
    "sparse-vector": (sparse.csr_array(np.ones(3)), ShapeError, "(3,)"),
    "sparse-cube": (sparse.coo_array(np.ones((2, 3, 4))), ShapeError, "(2, 3, 4)"),
}


@pytest.mark.parametrize(("X", "kind", "named"), REFUSED.values(), ids=REFUSED)
def test_refused_with_advice(X, kind, named):
    with raises(kind, "X") as error:
        as_design(X)
    assert named in error.value.problem
    assert error.value.remedies


FLOATS = [name for name, stored in DESIGNS.items() if stored.values is single]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("storage", FLOATS)
def test_the_first_number_that_is_not_finite_is_found(storage, bad, rng):
    X = np.where(rng.random((400, 7)) < 0.5, 0.0, 1.0)
    X[:3] = 0.0  # rows without entries
    for row, column in ((399, 6), (257, 0), (200, 3), (0, 5)):
        X[row, column] = bad
        # Large, so that it lies in a later block.
        assert DESIGNS[storage](X, LARGE).storage.find_nonfinite() == (row, column)


@pytest.mark.parametrize("storage", DESIGNS)
def test_finite_numbers_are_not_reported(storage, rng):
    stored = DESIGNS[storage]
    X = stored.values(rng.standard_normal((6, 4)))
    assert stored(X).storage.find_nonfinite() is None
    assert stored(X[:0]).storage.find_nonfinite() is None


def test_small_integers_stored_twice_are_added_up_as_floats():
    entries = (np.array([100, 100], np.int8), ([0, 0], [0, 0]))
    for kind in (sparse.coo_array, sparse.coo_matrix):
        assert as_design(kind(entries, shape=(1, 1))).matmat(np.ones(1)) == [200.0]


@pytest.mark.parametrize("X", [np.eye(2), sparse.csr_array(np.eye(2))], ids=["dense", "csr"])
def test_operands_that_are_not_numbers_are_refused(X):
    with raises(InputTypeError, "V", mentions="<U1"):
        as_design(X).gram_matmat(np.array(["a", "b"]))


def test_a_metered_design_can_be_pickled():
    metered = as_design(np.eye(2))
    metered.matmat(np.ones(2))
    copy = pickle.loads(pickle.dumps(metered))
    copy.matmat(np.ones(2))
    assert (metered.cost.passes, copy.cost.passes) == (1.0, 2.0)
