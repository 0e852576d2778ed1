"""What the tests of `ling.paper` run over: a new algorithm, storage or model is one entry here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from typing import Any

import numpy as np
import pytest
from scipy import linalg, sparse

from ling import paper
from ling.design import as_design


@dataclass(frozen=True)
class Algorithm:
    """A function of the paper, called alike: (X, y, lam) and whatever else the test is about."""

    function: Callable[..., Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def parameters(self) -> frozenset[str]:
        return frozenset(signature(self.function).parameters)

    def __call__(self, X, y, lam, **options):
        # The factorisations have no y, PCR no lam, and ridge is not random.
        common = {"y": y, "lam": lam, "random_state": 0}
        usable = {name: value for name, value in common.items() if name in self.parameters}
        return self.function(X, **{**usable, **self.options, **options})


FITS = {
    "ridge": Algorithm(paper.ridge),
    "gradient_descent": Algorithm(paper.gradient_descent, {"n_iter": 20}),
    "pcr": Algorithm(paper.pcr, {"k": 5}),
    "svrg": Algorithm(paper.svrg, {"n_passes": 3}),
    "ling": Algorithm(paper.ling, {"k": 5, "n_iter": 20}),
    "ling-simplified": Algorithm(paper.ling, {"k": 5, "n_iter": 20, "shrink": False}),
    "ling_svrg": Algorithm(paper.ling_svrg, {"k": 5, "n_passes": 3}),
}
FACTORISATIONS = {
    "random_svd": Algorithm(paper.random_svd, {"k": 5}),
    "exact_svd": Algorithm(paper.exact_svd, {"k": 5}),
}
ALGORITHMS = FITS | FACTORISATIONS


def taking(parameter, algorithms=ALGORITHMS):
    """The algorithms that have this parameter."""
    return {name: each for name, each in algorithms.items() if parameter in each.parameters}


def over(name, registry):
    """Parametrise the argument `name` of a test over the values of a registry."""
    return pytest.mark.parametrize(name, registry.values(), ids=registry.keys())


def memory_mapped(X):
    """X in a file that is gone as soon as nothing maps it any more."""
    with tempfile.TemporaryFile() as file:
        file.write(X.tobytes())
        file.flush()
        return np.memmap(file, mode="r", dtype=X.dtype, shape=X.shape)


def non_canonical(X):
    """CSR with every entry stored in two pieces, columns in descending order."""
    n, p = X.shape
    indices = np.tile(np.repeat(np.arange(p)[::-1], 2), n)
    pieces = np.stack([0.25 * X[:, ::-1], 0.75 * X[:, ::-1]], axis=2)
    return sparse.csr_array((pieces.ravel(), indices, 2 * p * np.arange(n + 1)), shape=X.shape)


def thinned(X):
    """X with two entries of three set to zero, so that every row misses most columns."""
    i, j = np.indices(X.shape)
    return np.where((i + j) % 3 == 0, X, 0.0)


def _shift(X):
    return X.mean(axis=0) + 0.5


def _scale(X):
    return 0.5 + np.arange(X.shape[1]) % 4


def _weights(X):
    """Some rows are left out."""
    return np.arange(X.shape[0]) % 4 / 2.0


def _standardised(X):
    return np.sqrt(_weights(X))[:, None] * (X - _shift(X)) * _scale(X)


def _affine(X, storage=np.asarray):
    return as_design(storage(X)).standardized(_shift(X), _scale(X), _weights(X))


@dataclass(frozen=True)
class Storage:
    """A way to hand X over, and the float64 array of the matrix that it then stands for."""

    wrap: Callable[[np.ndarray], Any]
    dense: Callable[[np.ndarray], np.ndarray] = np.asarray


#: Everything that X can be handed over as.
INPUT_KINDS = {
    "dense-c": Storage(np.ascontiguousarray),
    "dense-fortran": Storage(np.asfortranarray),
    "dense-strided": Storage(lambda X: np.repeat(X, 2, axis=0)[::2]),
    "float32": Storage(
        lambda X: X.astype(np.float32), lambda X: X.astype(np.float32).astype(float)
    ),
    "integer": Storage(lambda X: np.rint(8 * X).astype(np.int64), lambda X: np.rint(8 * X)),
    "memmap": Storage(memory_mapped),
    "csr": Storage(sparse.csr_array),
    "csr-thinned": Storage(lambda X: sparse.csr_array(thinned(X)), thinned),
    "csr-float32": Storage(
        lambda X: sparse.csr_array(X.astype(np.float32)),
        lambda X: X.astype(np.float32).astype(float),
    ),
    "csr-non-canonical": Storage(non_canonical),
    "csc": Storage(sparse.csc_array),
    "affine-centred": Storage(lambda X: as_design(X).centered(), lambda X: X - X.mean(axis=0)),
    "affine-dense": Storage(_affine, _standardised),
    "affine-csr": Storage(
        lambda X: _affine(thinned(X), sparse.csr_array), lambda X: _standardised(thinned(X))
    ),
}
# The algorithms see a `Design`, whose products do not depend on how X is stored: tests/design.
STORAGES = {name: INPUT_KINDS[name] for name in ("dense-c", "csr-thinned", "affine-dense")}
SHAPES = {"tall": (60, 40), "wide": (40, 60)}


@dataclass(frozen=True)
class ModelCase:
    """A simulated model, and how many components make the rest of it easy for stage 2."""

    make: Callable[..., paper.models.Model]
    k: int

    def draw(self, shape, **options):
        """The same small data set each time it is asked for."""
        return _draw(self.make, *shape, **options)


MODELS = {
    "model1": ModelCase(paper.models.model1, 30),
    "model2": ModelCase(paper.models.model2, 10),
    "model3": ModelCase(paper.models.model3, 15),
}


@cache
def _draw(make, n, p, **options):
    model = make(20140501, n=n, p=p, **options)
    for array in (model.X, model.y):
        array.flags.writeable = False
    return model


@cache
def gaussian(n=40, p=12, seed=1):
    """A well-conditioned X, and a y that it explains in part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    y = X @ rng.standard_normal(p) + rng.standard_normal(n)
    X.flags.writeable = y.flags.writeable = False
    return X, y


def relative_error(actual, wanted):
    """||actual - wanted|| / ||wanted||, whose squares may be out of range."""
    return linalg.norm(actual - wanted) / linalg.norm(wanted)


def short_step(X):
    """A step with which SVRG converges: a fifth of 1 / max ||x_i||^2."""
    return 0.2 / np.square(X).sum(axis=1).max()
