"""Wrong input is refused in words that help, and right input is left alone."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from ling import paper
from ling.design import DenseStorage, as_design
from ling.errors import (
    InputTypeError,
    InvalidInputError,
    NonFiniteError,
    OptionError,
    ShapeError,
)
from ling.paper.inputs import (
    as_generator,
    check_alpha,
    check_count,
    check_design,
    check_rank,
    check_start,
    check_target,
)
from tests.paper.registry import ALGORITHMS, INPUT_KINDS, gaussian, over, taking
from tests.raising import raises

N, P = 40, 12
LAM = 0.1


@dataclass(frozen=True)
class Wrong:
    """A value, the kind of error it should raise, what the error tells, and its place."""

    value: Any
    error: type[InvalidInputError]
    tells: str = ""
    row: int | None = None
    column: int | None = None


def _with(array, at, value):
    changed = array.copy()
    changed[at] = value
    return changed


X, y = gaussian(N, P)
DESIGN = as_design(X)
WRONG_X = {
    "nan": Wrong(_with(X, (3, 7), np.nan), NonFiniteError, row=3, column=7),
    "inf": Wrong(_with(X, (39, 0), np.inf), NonFiniteError, row=39, column=0),
    "minus-inf": Wrong(_with(X, (0, 11), -np.inf), NonFiniteError, row=0, column=11),
    "nan-float32": Wrong(
        _with(X, (3, 7), np.nan).astype(np.float32), NonFiniteError, row=3, column=7
    ),
    "nan-fortran": Wrong(
        np.asfortranarray(_with(X, (3, 7), np.nan)), NonFiniteError, row=3, column=7
    ),
    "nan-csr": Wrong(sparse.csr_array(_with(X, (3, 7), np.nan)), NonFiniteError, row=3, column=7),
    "inf-csc": Wrong(sparse.csc_array(_with(X, (3, 7), np.inf)), NonFiniteError, row=3, column=7),
    "nan-affine": Wrong(
        as_design(DenseStorage(_with(X, (3, 7), np.nan))).standardized(scale=np.ones(P)),
        NonFiniteError,
        row=3,
        column=7,
    ),
    "nan-metered": Wrong(
        as_design(DenseStorage(_with(X, (3, 7), np.nan))), NonFiniteError, row=3, column=7
    ),
    "nan-metered-twice": Wrong(
        as_design(as_design(DenseStorage(_with(X, (3, 7), np.nan)))),
        NonFiniteError,
        row=3,
        column=7,
    ),
    "one-dimension": Wrong(X[:, 0], ShapeError, "(40,)"),
    "three-dimensions": Wrong(X[None], ShapeError, "(1, 40, 12)"),
    "one-dimension-sparse": Wrong(sparse.coo_array(y), ShapeError, "(40,)"),
    "number": Wrong(1.0, ShapeError, "()"),
    "none": Wrong(None, InputTypeError),
    "no-rows": Wrong(X[:0], ShapeError, "(0, 12)"),
    "no-columns": Wrong(X[:, :0], ShapeError, "(40, 0)"),
    "no-rows-sparse": Wrong(sparse.csr_array((0, P)), ShapeError, "(0, 12)"),
    "empty-list": Wrong([], ShapeError),
    "ragged": Wrong([[1.0, 2.0], [3.0]], InputTypeError),
    "complex": Wrong(X + 0j, InputTypeError, "complex"),
    "complex-sparse": Wrong(sparse.csr_array(X + 0j), InputTypeError, "complex"),
    "strings": Wrong(X.astype(str), InputTypeError, "<U32"),
    "objects": Wrong(X.astype(object), InputTypeError, "object"),
    "dates": Wrong(np.zeros((N, P), "M8[s]"), InputTypeError, "datetime64"),
    "masked": Wrong(np.ma.masked_greater(X, 1.0), InputTypeError, "masked"),
    "too-large-to-square": Wrong(_with(X, (3, 2), 1e200), NonFiniteError, "1e+150", 3, 2),
    "too-low-to-square": Wrong(_with(X, (3, 2), -1e160), NonFiniteError, row=3, column=2),
}
WRONG_Y = {
    "nan": Wrong(_with(y, 5, np.nan), NonFiniteError, row=5),
    "inf": Wrong(_with(y, 39, np.inf), NonFiniteError, row=39),
    "minus-inf": Wrong(_with(y, 0, -np.inf), NonFiniteError, row=0),
    "two-dimensions": Wrong(y[:, None], ShapeError, "(40, 1)"),
    "row": Wrong(y[None], ShapeError, "(1, 40)"),
    "too-short": Wrong(y[1:], ShapeError, "(39,)"),
    "too-long": Wrong(np.append(y, 0.0), ShapeError, "(41,)"),
    "empty": Wrong([], ShapeError, "(0,)"),
    "number": Wrong(1.0, ShapeError, "()"),
    "none": Wrong(None, InputTypeError),
    "ragged": Wrong([[1.0, 2.0], [3.0]], InputTypeError),
    "complex": Wrong(y + 0j, InputTypeError, "complex"),
    "strings": Wrong(y.astype(str), InputTypeError, "<U32"),
    "objects": Wrong(y.astype(object), InputTypeError, "object"),
    "masked": Wrong(np.ma.masked_greater(y, 1.0), InputTypeError, "masked"),
}
NOT_WHOLE = {
    "fraction": Wrong(2.5, InputTypeError, "2.5"),
    "float": Wrong(2.0, InputTypeError, "2.0"),
    "string": Wrong("2", InputTypeError, "'2'"),
    "bool": Wrong(True, InputTypeError, "True"),
    "none": Wrong(None, InputTypeError, "None"),
    "nan": Wrong(np.nan, InputTypeError, "nan"),
    "negative": Wrong(-1, OptionError, "-1"),
}
WRONG = {
    "X": WRONG_X,
    "y": WRONG_Y,
    "lam": {
        "negative": Wrong(-1e-9, OptionError, "-1e-09"),
        "nan": Wrong(np.nan, OptionError, "nan"),
        "inf": Wrong(np.inf, OptionError, "inf"),
        "beyond-floats": Wrong(10**400, OptionError),
        "string": Wrong("1", InputTypeError, "'1'"),
        "bool": Wrong(True, InputTypeError, "True"),
        "none": Wrong(None, InputTypeError, "None"),
        "array": Wrong(np.ones(2), InputTypeError),
        "complex": Wrong(1j, InputTypeError),
    },
    "k": NOT_WHOLE | {"zero": Wrong(0, OptionError, "0"), "too-many": Wrong(13, OptionError, "12")},
    "n_iter": NOT_WHOLE,
    "n_passes": NOT_WHOLE | {"zero": Wrong(0, OptionError, "0")},
    "power": NOT_WHOLE,
    "step": {
        "zero": Wrong(0.0, OptionError, "0.0"),
        "negative": Wrong(-0.1, OptionError, "-0.1"),
        "nan": Wrong(np.nan, OptionError, "nan"),
        "inf": Wrong(np.inf, OptionError, "inf"),
        "string": Wrong("0.1", OptionError, "'0.1'"),
        "bool": Wrong(True, OptionError, "True"),
    },
    "random_state": {
        "negative": Wrong(-1, OptionError, "-1"),
        "fraction": Wrong(1.5, OptionError, "1.5"),
        "string": Wrong("seed", OptionError, "'seed'"),
        "module": Wrong(np.random, OptionError),
    },
    "start": {
        "too-short": Wrong(np.zeros(11), ShapeError, "(11,)"),
        "two-dimensions": Wrong(np.zeros((12, 1)), ShapeError, "(12, 1)"),
        "number": Wrong(0.0, ShapeError, "()"),
        "nan": Wrong(_with(np.zeros(12), 4, np.nan), NonFiniteError, "start[4]"),
        "strings": Wrong(["a"] * 12, InputTypeError),
        "complex": Wrong(np.full(12, 1j), InputTypeError),
    },
    "svd": {
        "other-rows": Wrong(paper.exact_svd(X[:30], 5), ShapeError, "(30, 5)"),
        "other-columns": Wrong(paper.exact_svd(X[:, :11], 5), ShapeError, "(5, 11)"),
        "too-many-components": Wrong(paper.exact_svd(X, 6), ShapeError, "(40, 6)"),
        "tuple": Wrong(np.linalg.svd(X, full_matrices=False), InputTypeError),
    },
    "shrink": {
        "string": Wrong("yes", InputTypeError, "'yes'"),
        "number": Wrong(1, InputTypeError, "1"),
    },
}


#: By parameter: the check that all algorithms have in common.
CHECKS = {
    "X": check_design,
    "y": lambda value: check_target(value, DESIGN),
    "lam": lambda value: check_alpha(value, N),
    "k": lambda value: check_rank(value, DESIGN),
    "n_iter": lambda value: check_count(value, "n_iter", 0),
    "n_passes": lambda value: check_count(value, "n_passes", 1),
    "power": lambda value: check_count(value, "power", 0),
    "step": lambda value: paper.svrg(X, y, LAM, 3, step=value),
    "random_state": as_generator,
    "start": lambda value: check_start(value, DESIGN),
    "svd": lambda value: paper.ling(X, y, LAM, 5, 3, svd=value),
    "shrink": lambda value: paper.ling(X, y, LAM, 5, 3, shrink=value),
}
#: By parameter: the wrong value that every algorithm is given, at the bound where there is one.
TYPICAL = {
    "X": "nan",
    "y": "too-short",
    "lam": "negative",
    "k": "too-many",
    "n_iter": "negative",
    "n_passes": "zero",
    "power": "negative",
    "step": "zero",
    "random_state": "negative",
    "start": "too-short",
    "svd": "other-rows",
    "shrink": "string",
}


def assert_refused(argument, wrong, call):
    place = {"row": wrong.row, "column": wrong.column}
    with raises(wrong.error, argument, mentions=wrong.tells, **place) as caught:
        call()
    assert caught.value.remedies


@pytest.mark.parametrize(
    ("parameter", "wrong"),
    [
        pytest.param(parameter, each, id=f"{parameter}-{kind}")
        for parameter, kinds in WRONG.items()
        for kind, each in kinds.items()
    ],
)
def test_wrong_values(parameter, wrong):
    assert_refused(parameter, wrong, lambda: CHECKS[parameter](wrong.value))


@pytest.mark.parametrize(
    ("name", "parameter"),
    [(name, parameter) for parameter in WRONG for name in taking(parameter)],
)
def test_every_algorithm_checks_every_parameter(name, parameter):
    wrong = WRONG[parameter][TYPICAL[parameter]]
    given = {"X": X, "y": y, "lam": LAM, parameter: wrong.value}
    assert_refused(parameter, wrong, lambda: ALGORITHMS[name](**given))


def arrays_of(stored):
    is_sparse = sparse.issparse(stored)
    return [stored.data, stored.indices, stored.indptr] if is_sparse else [stored]


def contents(*inputs):
    """The bytes of what was handed over, and whether it can be written to."""
    arrays = [array for each in inputs for array in arrays_of(each)]
    return [(array.tobytes(), array.flags.writeable) for array in arrays]


STORED = {name: each for name, each in INPUT_KINDS.items() if not name.startswith("affine")}


@over("algorithm", ALGORITHMS)
def test_inputs_are_left_as_they_were(algorithm):
    for name, kind in STORED.items():
        stored, target = kind.wrap(X.copy()), y.copy()
        before = contents(stored, target)
        writeable = algorithm(stored, target, LAM)
        assert contents(stored, target) == before, name
        for array in [*arrays_of(stored), target]:
            array.flags.writeable = False
        assert algorithm(stored, target, LAM).cost == writeable.cost, name


@over("algorithm", ALGORITHMS)
def test_data_under_a_design_is_left_as_it_was(algorithm):
    data, target = X.copy(), y.copy()
    before = contents(data, target)
    algorithm(INPUT_KINDS["affine-dense"].wrap(data), target, LAM)
    assert contents(data, target) == before


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
