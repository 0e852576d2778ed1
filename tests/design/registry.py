"""Everything X can be: each storage, wrapper, matrix and right-hand side is one line here.

Every law of `tests/design` runs on each of them, in the pairs of `every_design`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from ling.design import (
    ArraySource,
    ChunkedStorage,
    DenseStorage,
    Design,
    SparseStorage,
    as_design,
)
from ling.design.tuning import DEFAULT_TUNING, Tuning

# --- values: every storage holds its numbers exactly, so that float64 accuracy can be asked of all


def single(X):
    """Numbers that float32 holds too."""
    return X.astype(np.float32).astype(np.float64)


def integral(X):
    """Small whole numbers."""
    return np.rint(2.0 * X)


def natural(X):
    """Small whole numbers that are not negative."""
    return np.abs(integral(X))


def binary(X):
    """Zeros and ones."""
    return (X > 0.0).astype(np.float64)


# --- storages


@dataclass(frozen=True)
class Stored:
    """A way to hold a matrix: `store` gives what a user would pass to `as_design`."""

    store: Callable[[np.ndarray], Any]
    values: Callable[[np.ndarray], np.ndarray] = single
    dtype: type = np.float64

    def __call__(self, X: np.ndarray, tuning: Tuning = DEFAULT_TUNING) -> Design:
        return tuned_design(self.store(X), tuning)


#: Small matrices are treated as large and sparse ones: compiled kernels, several blocks, threads.
LARGE = Tuning(
    max_cached_bytes=0,
    block_bytes=2**8,
    block_entries=2**7,
    min_parallel_entries=0,
    min_blas_density=float("inf"),
)


def tuned_design(raw: Any, tuning: Tuning) -> Design:
    """`as_design(raw)`, with another tuning if the storage has one."""
    design = as_design(raw)
    if isinstance(design.storage, DenseStorage):
        return Design(DenseStorage(design.storage.array, tuning=tuning))
    if isinstance(design.storage, SparseStorage):
        return Design(SparseStorage(design.storage.csr, tuning=tuning))
    return design


def _spaced(X, rows=1, columns=1):
    """A view whose rows and columns lie `rows` and `columns` apart, with NaN in between."""
    n, p = X.shape
    room = np.full((n * abs(rows), p * abs(columns)), np.nan)
    view = room[::rows, ::columns]
    view[...] = X
    return view


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def _memory_map(X):
    with tempfile.TemporaryFile() as file:
        file.write(X.tobytes())
        file.write(bytes(8))  # an empty file cannot be mapped
        file.flush()
        # The map outlives the file, which is already without a name.
        return np.memmap(file, X.dtype, mode="r", shape=(X.size + 1,))[:-1].reshape(X.shape)


def _unaligned(X):
    return np.frombuffer(b"\0" + X.tobytes(), X.dtype, offset=1).reshape(X.shape)


def _replaced(csr, **arrays):
    """`csr` with some of its arrays replaced as they are; its constructor would tidy them."""
    for name, array in arrays.items():
        setattr(csr, name, array)
    return csr


def _long_indices(X):
    csr = sparse.csr_array(X)
    long = {name: getattr(csr, name).astype(np.int64) for name in ("indices", "indptr")}
    return _replaced(csr, **long)


def _unsorted(X):
    csr = sparse.csr_array(X[:, ::-1])
    csr = _replaced(csr, indices=(X.shape[1] - 1 - csr.indices).astype(csr.indices.dtype))
    csr.has_sorted_indices = False
    return csr


def _duplicated(X):
    """Each entry stored twice, as a quarter and three quarters of itself."""
    csr = sparse.csr_array(X)
    return sparse.csr_array(
        (
            np.column_stack([0.25 * csr.data, 0.75 * csr.data]).ravel(),
            np.repeat(csr.indices, 2),
            2 * csr.indptr,
        ),
        shape=X.shape,
    )


def _explicit_zeros(X):
    """Every entry stored, the zeros too."""
    n, p = X.shape
    indices, indptr = np.tile(np.arange(p), n), np.arange(n + 1) * p
    return sparse.csr_array((X.ravel(), indices, indptr), shape=X.shape)


def _in_blocks(X, parts=3):
    """Read in a few blocks of rows."""
    height = -(-len(X) // parts)
    return ChunkedStorage(ArraySource(X), max_resident_bytes=4 * height * X.shape[1] * 8)


DESIGNS = {
    "dense-c": Stored(np.ascontiguousarray),
    "dense-fortran": Stored(np.asfortranarray),
    "dense-row-strided": Stored(partial(_spaced, rows=2)),
    "dense-column-strided": Stored(partial(_spaced, columns=3)),
    "dense-reversed": Stored(partial(_spaced, rows=-1, columns=-1)),
    "dense-read-only": Stored(_read_only),
    "dense-memory-map": Stored(_memory_map),
    "dense-unaligned": Stored(_unaligned),
    "dense-big-endian": Stored(lambda X: X.astype(">f8")),
    "dense-float32": Stored(lambda X: X.astype(np.float32), dtype=np.float32),
    "dense-int64": Stored(lambda X: X.astype(np.int64), integral),
    "dense-uint8": Stored(lambda X: X.astype(np.uint8), natural),
    "dense-bool": Stored(lambda X: X.astype(bool), binary),
    "blocks": Stored(_in_blocks),
    "blocks-fortran": Stored(lambda X: _in_blocks(np.asfortranarray(X))),
    "blocks-float32": Stored(lambda X: _in_blocks(X.astype(np.float32), 4), dtype=np.float32),
    "blocks-int": Stored(lambda X: _in_blocks(X.astype(np.int32)), integral),
    "csr": Stored(sparse.csr_array),
    "csc": Stored(sparse.csc_array),
    "coo": Stored(sparse.coo_array),
    "csr-matrix": Stored(sparse.csr_matrix),
    "csc-matrix": Stored(sparse.csc_matrix),
    "coo-matrix": Stored(sparse.coo_matrix),
    "csr-long-indices": Stored(_long_indices),
    "csr-unsorted": Stored(_unsorted),
    "csr-duplicated": Stored(_duplicated),
    "csr-explicit-zeros": Stored(_explicit_zeros),
    "csr-float32": Stored(lambda X: sparse.csr_array(X, dtype=np.float32), dtype=np.float32),
    "csr-int": Stored(lambda X: sparse.csr_array(X, dtype=np.int32), integral),
}


# --- wrappers


@dataclass(frozen=True)
class Wrapper:
    """A design laid over another one, and the same thing done to a dense matrix."""

    wrap: Callable[[Design], Design]
    dense: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Parts:
    """What the affine wrappers are made of: the same numbers for every matrix of one shape."""

    shift: np.ndarray
    scale: np.ndarray
    weights: np.ndarray
    left: np.ndarray
    right: np.ndarray

    @classmethod
    def of(cls, X) -> Parts:
        n, p = X.shape
        rng = np.random.default_rng(7)
        weights = rng.uniform(0.5, 2.0, n)
        weights[1::3] = 0.0
        return cls(
            shift=rng.standard_normal(p),
            scale=rng.uniform(0.5, 2.0, p),
            weights=weights,
            left=rng.standard_normal((n, 2)),
            right=rng.standard_normal((p, 2)),
        )


def _standardise(design):
    parts = Parts.of(design)
    return design.standardized(parts.shift, parts.scale, parts.weights)


def _standardise_dense(X):
    parts = Parts.of(X)
    return np.sqrt(parts.weights)[:, None] * (X - parts.shift) * parts.scale


def _correct(design):
    parts = Parts.of(design)
    return design.low_rank_corrected(parts.left, parts.right)


def _correct_dense(X):
    parts = Parts.of(X)
    return X - parts.left @ parts.right.T


def _centre_dense(X):
    return X - X.sum(axis=0) / max(1, len(X))


WRAPPERS = {
    "plain": Wrapper(lambda design: design, lambda X: X),
    "centred": Wrapper(Design.centered, _centre_dense),
    "standardised": Wrapper(_standardise, _standardise_dense),
    "corrected": Wrapper(_correct, _correct_dense),
    "corrected-after-standardised": Wrapper(
        lambda design: _correct(_standardise(design)),
        lambda X: _correct_dense(_standardise_dense(X)),
    ),
    "standardised-after-corrected": Wrapper(
        lambda design: _standardise(_correct(design)),
        lambda X: _standardise_dense(_correct_dense(X)),
    ),
}
#: No weights can be given to no rows: the rest of the wrappers ask for one above zero.
WRAPPERS_OF_NO_ROWS = ("plain", "centred", "corrected")


# --- matrices


def _sparsely(rng, n, p):
    """Normal numbers, about half of them zero."""
    return rng.standard_normal((n, p)) * rng.integers(0, 2, (n, p))


def _without(rng, n, p, rows=(), columns=()):
    X = _sparsely(rng, n, p)
    X[list(rows)] = 0.0
    X[:, list(columns)] = 0.0
    return X


#: Dense storage takes at least 256 rows into a block of a Gram matrix; tall and wide have more.
MATRICES = {
    "one-row": lambda rng: rng.standard_normal((1, 7)),
    "one-column": lambda rng: rng.standard_normal((9, 1)),
    "square": lambda rng: _sparsely(rng, 11, 11),
    "tall": lambda rng: _sparsely(rng, 261, 5),
    "wide": lambda rng: _sparsely(rng, 5, 261),
    "zero-rows": lambda rng: _without(rng, 12, 7, rows=(0, 4, 5, 11)),
    "zero-columns": lambda rng: _without(rng, 8, 9, columns=(0, 3, 8)),
    "zero": lambda rng: np.zeros((6, 4)),
    "no-columns": lambda rng: np.zeros((4, 0)),
    "no-rows": lambda rng: np.zeros((0, 4)),
}


# --- right-hand sides, for a matrix with as many columns as they have rows

OPERANDS = {
    "vector": lambda rng, size: rng.standard_normal(size),
    "column": lambda rng, size: rng.standard_normal((size, 1)),
    "block": lambda rng, size: rng.standard_normal((size, 3)),
    "no-columns": lambda rng, size: np.zeros((size, 0)),
    "vector-strided": lambda rng, size: rng.standard_normal(2 * size)[::2],
    "block-fortran": lambda rng, size: rng.standard_normal((3, size)).T,
    "block-reversed": lambda rng, size: rng.standard_normal((size, 3))[::-1, ::-1],
    "vector-float32": lambda rng, size: rng.standard_normal(size, np.float32),
    "block-float32": lambda rng, size: rng.standard_normal((size, 3), np.float32),
}


# --- cases


@dataclass(frozen=True)
class Case:
    """One design, and the dense float64 matrix it stands for."""

    name: str
    design: Design
    matrix: np.ndarray
    raw: Any

    @cached_property
    def magnitude(self) -> np.ndarray:
        """At least the absolute values of all that is added up to an entry of `matrix`."""
        # The affine parts above are of order one, and their rank is at most three.
        return np.abs(self.matrix) + 8.0

    def result_dtype(self, operand) -> np.dtype:
        """The dtype that a product of the design with `operand` is promised to have."""
        return np.result_type(self.design.dtype, operand.dtype)


def build(
    storage: str,
    wrapper: str,
    X: np.ndarray,
    name: str = "",
    tuning: Tuning = DEFAULT_TUNING,
) -> Case:
    """X in a storage, under a wrapper."""
    stored, layer = DESIGNS[storage], WRAPPERS[wrapper]
    X = stored.values(X)
    raw = stored.store(X)
    return Case(name, layer.wrap(tuned_design(raw, tuning)), layer.dense(X), raw)


@cache
def case_of(
    storage: str,
    wrapper: str = "plain",
    matrix: str = "square",
    tuning: Tuning = DEFAULT_TUNING,
) -> Case:
    """`MATRICES[matrix]` in a storage, under a wrapper; made once, since no product changes it."""
    X = MATRICES[matrix](np.random.default_rng(11))
    return build(storage, wrapper, X, f"{storage}, {wrapper}, {matrix}", tuning)


#: The wrapper with all that an affine map can have: scales of rows and columns, and rank 3.
COMPOSITE = "standardised-after-corrected"


def cases_of(storage: str, wrapper: str, tuning: Tuning = DEFAULT_TUNING) -> list[Case]:
    """Every matrix in a storage, under a wrapper.

    A pass over blocks starts a thread, which takes longer than the rest. So every matrix is in
    blocks of one kind under two wrappers, and few are in other blocks and under other wrappers.
    """
    possible = [m for m in MATRICES if m != "no-rows" or wrapper in WRAPPERS_OF_NO_ROWS]
    if "blocks" in storage and (storage, wrapper) not in product(["blocks"], ["plain", COMPOSITE]):
        possible = [m for m in possible if m in ("square", "tall", "no-rows")]
    return [case_of(storage, wrapper, matrix, tuning) for matrix in possible]


def _parametrized(pairs):
    return pytest.mark.parametrize(("storage", "wrapper"), list(dict.fromkeys(pairs)))


def designs(storages=tuple(DESIGNS), wrappers=tuple(WRAPPERS)):
    """Parametrises a test, by `storage` and `wrapper`, over all pairs of some or all of them."""
    return _parametrized(product(storages, wrappers))


# A storage sees a map only as an `AffineMap`, so that maps and storages need not be combined in
# every way: every storage with no map and with one that has everything, and every map over each
# class of storages.
every_design = _parametrized(
    [*product(DESIGNS, ["plain", COMPOSITE]), *product(["dense-c", "csr", "blocks"], WRAPPERS)]
)
