"""Arrays of other libraries (PyTorch, JAX, CuPy): read as NumPy arrays, or refused with advice."""

import os
import subprocess
import sys

import numpy as np
import pytest

from ling import Ridge, RidgeClassifierCV, RidgeCV
from ling.errors import InputTypeError
from tests.raising import raises

# scikit-learn reads SCIPY_ARRAY_API when it is imported, so this runs in a process of its own.
DISPATCHING = """
import array_api_strict as xp
import numpy as np
import sklearn
import ling

rng = np.random.default_rng(0)
X, weights = rng.standard_normal((40, 3)), rng.uniform(1, 2, 40)
y = X.sum(axis=1)
with sklearn.config_context(array_api_dispatch=True):
    for model, y in (
        (ling.Ridge(), y),
        (ling.RidgeCV(cv=3), y),
        (ling.RidgeClassifier(), (y > 0).astype(int)),
    ):
        wanted = model.fit(X, y, weights).predict(X)
        model.fit(xp.asarray(X), xp.asarray(y), xp.asarray(weights))
        predicted = model.predict(xp.asarray(X))
        assert type(predicted) is type(model.coef_) is np.ndarray
        assert (predicted == wanted).all()
        assert model.score(xp.asarray(X), xp.asarray(y)) == model.score(X, y)
"""


class Tensor:
    """An array on a device that NumPy cannot read, unless `values` are given."""

    shape = 20, 2

    def __init__(self, values=None):
        self.values = values

    def __dlpack__(self):
        raise BufferError("not on this device")

    def __array__(self, dtype=None, copy=None):
        if self.values is None:
            raise TypeError("cannot convert a cuda:0 tensor")
        return np.array(self.values, dtype=dtype)


@pytest.mark.processes
def test_arrays_of_the_array_api_standard_are_read():
    pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")
    process = subprocess.run(
        [sys.executable, "-c", DISPATCHING], env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("model", [Ridge(), RidgeCV(), RidgeClassifierCV()])
def test_arrays_that_numpy_can_read_are_read(model, rng):
    X, y = rng.standard_normal((20, 2)), np.arange(20) % 2
    model.fit(Tensor(X), Tensor(y))
    np.testing.assert_array_equal(model.predict(Tensor(X)), model.predict(X))


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_arrays_that_numpy_cannot_read_are_refused(name, rng):
    arguments = {"X": np.ones((20, 2)), "y": np.ones(20), "sample_weight": np.ones(20)}
    with raises(InputTypeError, name, mentions="Tensor that NumPy cannot read") as info:
        Ridge().fit(**{**arguments, name: Tensor()})
    assert "cuda:0" in str(info.value)
    assert f"{name}.detach()" in str(info.value)
    with raises(InputTypeError, "X", mentions="Tensor"):
        Ridge().fit(**arguments).predict(Tensor())
