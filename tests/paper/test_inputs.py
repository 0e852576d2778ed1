"""Wrong input is refused in words that help, by every function, and right input is left alone."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from ling import paper
from ling.design import DenseStorage, as_design
from ling.errors import BadOption, LingError, NotFinite, WrongShape, WrongType
from tests.paper.registry import ALGORITHMS, STORAGES, gaussian, over, taking

N, P = 40, 12
LAM = 0.1


@dataclass(frozen=True)
class Wrong:
    """A value, the error it should raise, and what of it the message should tell."""

    value: Any
    error: type[LingError] = LingError
    tells: str = ""


def _with(array, at, value):
    changed = array.copy()
    changed[at] = value
    return changed


X, y = gaussian(N, P)
WRONG_X = {
    "nan": Wrong(_with(X, (3, 7), np.nan), NotFinite, "X[3, 7]"),
    "inf": Wrong(_with(X, (39, 0), np.inf), NotFinite, "X[39, 0]"),
    "minus-inf": Wrong(_with(X, (0, 11), -np.inf), NotFinite, "X[0, 11]"),
    "nan-float32": Wrong(_with(X, (3, 7), np.nan).astype(np.float32), NotFinite, "X[3, 7]"),
    "nan-fortran": Wrong(np.asfortranarray(_with(X, (3, 7), np.nan)), NotFinite, "X[3, 7]"),
    "nan-csr": Wrong(sparse.csr_array(_with(X, (3, 7), np.nan)), NotFinite, "X[3, 7]"),
    "inf-csc": Wrong(sparse.csc_array(_with(X, (3, 7), np.inf)), NotFinite, "X[3, 7]"),
    "nan-affine": Wrong(
        as_design(DenseStorage(_with(X, (3, 7), np.nan))).standardized(scale=np.ones(P)),
        NotFinite,
        "X[3, 7]",
    ),
    "nan-metered": Wrong(as_design(DenseStorage(_with(X, (3, 7), np.nan))), NotFinite, "X[3, 7]"),
    "nan-metered-twice": Wrong(as_design(as_design(DenseStorage(_with(X, (3, 7), np.nan))))),
    "one-dimension": Wrong(X[:, 0], WrongShape, "(40,)"),
    "three-dimensions": Wrong(X[None], WrongShape, "(1, 40, 12)"),
    "one-dimension-sparse": Wrong(sparse.coo_array(y), WrongShape, "(40,)"),
    "number": Wrong(1.0, WrongShape, "()"),
    "none": Wrong(None),
    "no-rows": Wrong(X[:0], WrongShape, "(0, 12)"),
    "no-columns": Wrong(X[:, :0], WrongShape, "(40, 0)"),
    "no-rows-sparse": Wrong(sparse.csr_array((0, P)), WrongShape, "(0, 12)"),
    "empty-list": Wrong([], WrongShape),
    "ragged": Wrong([[1.0, 2.0], [3.0]]),
    "complex": Wrong(X + 0j, WrongType, "complex"),
    "complex-sparse": Wrong(sparse.csr_array(X + 0j), WrongType, "complex"),
    "strings": Wrong(X.astype(str), WrongType, "<U32"),
    "objects": Wrong(X.astype(object), WrongType, "object"),
    "dates": Wrong(np.zeros((N, P), "M8[s]"), WrongType, "datetime64"),
    "masked": Wrong(np.ma.masked_greater(X, 1.0), WrongType, "masked"),
}
WRONG_Y = {
    "nan": Wrong(_with(y, 5, np.nan), NotFinite, "y[5]"),
    "inf": Wrong(_with(y, 39, np.inf), NotFinite, "y[39]"),
    "minus-inf": Wrong(_with(y, 0, -np.inf), NotFinite, "y[0]"),
    "two-dimensions": Wrong(y[:, None], WrongShape, "(40, 1)"),
    "row": Wrong(y[None], WrongShape, "(1, 40)"),
    "too-short": Wrong(y[1:], WrongShape, "(39,)"),
    "too-long": Wrong(np.append(y, 0.0), WrongShape, "(41,)"),
    "empty": Wrong([], WrongShape, "(0,)"),
    "number": Wrong(1.0, WrongShape, "()"),
    "none": Wrong(None),
    "ragged": Wrong([[1.0, 2.0], [3.0]]),
    "complex": Wrong(y + 0j, WrongType, "complex"),
    "strings": Wrong(y.astype(str), WrongType, "<U32"),
    "objects": Wrong(y.astype(object), WrongType, "object"),
    "masked": Wrong(np.ma.masked_greater(y, 1.0), WrongType, "masked"),
}
NOT_WHOLE = {
    "fraction": Wrong(2.5, WrongType, "2.5"),
    "float": Wrong(2.0, WrongType, "2.0"),
    "string": Wrong("2", WrongType, "'2'"),
    "bool": Wrong(True, WrongType, "True"),
    "none": Wrong(None, WrongType, "None"),
    "nan": Wrong(np.nan, WrongType, "nan"),
    "negative": Wrong(-1, BadOption, "-1"),
}
WRONG_OPTIONS = {
    "lam": {
        "negative": Wrong(-1e-9, BadOption, "-1e-09"),
        "nan": Wrong(np.nan, BadOption, "nan"),
        "inf": Wrong(np.inf, BadOption, "inf"),
        "beyond-floats": Wrong(10**400, BadOption),
        "string": Wrong("1", WrongType, "'1'"),
        "bool": Wrong(True, WrongType, "True"),
        "none": Wrong(None, WrongType, "None"),
        "array": Wrong(np.ones(2), WrongType),
        "complex": Wrong(1j, WrongType),
    },
    "k": NOT_WHOLE | {"zero": Wrong(0, BadOption, "0"), "too-many": Wrong(13, BadOption, "12")},
    "n_iter": NOT_WHOLE,
    "n_passes": NOT_WHOLE | {"zero": Wrong(0, BadOption, "0")},
    "power": NOT_WHOLE,
    "step": {
        "zero": Wrong(0.0, BadOption, "0.0"),
        "negative": Wrong(-0.1, BadOption, "-0.1"),
        "nan": Wrong(np.nan, BadOption, "nan"),
        "inf": Wrong(np.inf, BadOption, "inf"),
        "string": Wrong("0.1", BadOption, "'0.1'"),
        "bool": Wrong(True, BadOption, "True"),
    },
    "random_state": {
        "negative": Wrong(-1, BadOption, "-1"),
        "fraction": Wrong(1.5, BadOption, "1.5"),
        "string": Wrong("seed", BadOption, "'seed'"),
        "module": Wrong(np.random, BadOption),
    },
    "start": {
        "too-short": Wrong(np.zeros(11), WrongShape, "(11,)"),
        "two-dimensions": Wrong(np.zeros((12, 1)), WrongShape, "(12, 1)"),
        "number": Wrong(0.0, WrongShape, "()"),
        "nan": Wrong(_with(np.zeros(12), 4, np.nan), LingError, "finite"),
        "strings": Wrong(["a"] * 12),
        "complex": Wrong(np.full(12, 1j)),
    },
    "svd": {
        "other-rows": Wrong(paper.exact_svd(X[:30], 5), WrongShape, "(30, 5)"),
        "other-columns": Wrong(paper.exact_svd(X[:, :11], 5), WrongShape, "(5, 11)"),
        "too-many-components": Wrong(paper.exact_svd(X, 6), WrongShape, "(40, 6)"),
        "tuple": Wrong(np.linalg.svd(X, full_matrices=False)),
    },
}


def refusals(wrong, algorithms):
    """Every wrong value for every algorithm that can be given it."""
    return [
        pytest.param(algorithm, each, id=f"{name}-{kind}")
        for name, algorithm in algorithms.items()
        for kind, each in wrong.items()
    ]


def assert_refused(argument, wrong, call):
    with pytest.raises(wrong.error) as caught:
        call()
    message = str(caught.value)
    assert isinstance(caught.value, LingError)
    assert isinstance(caught.value, ValueError)
    assert re.search(rf"\b{argument}\b", message), message
    assert wrong.tells in message, message
    # What to do about it, not only what is wrong.
    assert re.search(r"\b(pass|drop|fill|encode)\b", message), message


@pytest.mark.parametrize(("algorithm", "wrong"), refusals(WRONG_X, ALGORITHMS))
def test_wrong_data(algorithm, wrong):
    assert_refused("X", wrong, lambda: algorithm(wrong.value, y, LAM))


@pytest.mark.parametrize(("algorithm", "wrong"), refusals(WRONG_Y, taking("y")))
def test_wrong_target(algorithm, wrong):
    assert_refused("y", wrong, lambda: algorithm(X, wrong.value, LAM))


@pytest.mark.parametrize(
    ("algorithm", "wrong", "option"),
    [
        pytest.param(*case.values, option, id=f"{option}-{case.id}")
        for option, values in WRONG_OPTIONS.items()
        for case in refusals(values, taking(option))
    ],
)
def test_wrong_option(algorithm, wrong, option):
    assert_refused(option, wrong, lambda: algorithm(X, y, **{"lam": LAM, option: wrong.value}))


def arrays_of(stored):
    is_sparse = sparse.issparse(stored)
    return [stored.data, stored.indices, stored.indptr] if is_sparse else [stored]


def contents(*inputs):
    """The bytes of what was handed over, and whether it can be written to."""
    arrays = [array for each in inputs for array in arrays_of(each)]
    return [(array.tobytes(), array.flags.writeable) for array in arrays]


STORED = {name: each for name, each in STORAGES.items() if not name.startswith("affine")}


@over("storage", STORED)
@over("algorithm", ALGORITHMS)
def test_inputs_are_left_as_they_were(algorithm, storage):
    stored, target = storage.wrap(X.copy()), y.copy()
    before = contents(stored, target)
    algorithm(stored, target, LAM)
    assert contents(stored, target) == before


@pytest.mark.parametrize("name", ["affine-centred", "affine-dense"])
@over("algorithm", ALGORITHMS)
def test_data_under_a_design_is_left_as_it_was(algorithm, name):
    data, target = X.copy(), y.copy()
    before = contents(data, target)
    algorithm(STORAGES[name].wrap(data), target, LAM)
    assert contents(data, target) == before


@over("storage", STORED)
@over("algorithm", ALGORITHMS)
def test_read_only_inputs_will_do(algorithm, storage):
    stored, target = storage.wrap(X.copy()), y.copy()
    writeable = algorithm(stored, target, LAM)
    for array in [*arrays_of(stored), target]:
        array.flags.writeable = False
    assert algorithm(stored, target, LAM).cost == writeable.cost


@pytest.mark.parametrize("lam", [np.float32(0.1), np.int64(2), Fraction(1, 10)], ids=repr)
@over("algorithm", taking("lam"))
def test_any_real_number_will_do_for_a_penalty(algorithm, lam):
    wanted = algorithm(X, y, float(lam)).coef
    np.testing.assert_array_equal(algorithm(X, y, lam).coef, wanted)


@pytest.mark.parametrize("option", ["k", "n_iter", "n_passes", "power"])
@pytest.mark.parametrize("kind", [np.int32, np.uint8])
def test_any_whole_number_will_do_for_a_count(option, kind):
    for algorithm in taking(option).values():
        given, plain = (algorithm(X, y, LAM, **{option: number}) for number in (kind(3), 3))
        assert given.cost == plain.cost


@pytest.mark.parametrize("size", [1e200, -1e160])
@over("algorithm", ALGORITHMS)
def test_numbers_too_large_to_square_are_refused(algorithm, size):
    large = X.copy()
    large[3, 2] = size
    with pytest.raises(NotFinite, match=r"X\[3, 2\].*rescale"):
        algorithm(large, y, 0.1)
