"""Dask arrays of all sorts, each with the dense matrix that it stands for."""

import dask.array as da
import numpy as np

N, P = 97, 5


def matrix(seed=3):
    return np.random.default_rng(seed).standard_normal((N, P))


def _unknown(X, heights):
    """Sizes that dask does not know: rows were chosen by their values."""
    more = np.vstack([X, np.full((20, P), 9.0)])
    array = da.from_array(more, chunks=((*heights, 20), P))
    return array[array[:, 0] < 9.0]


def _integers(X):
    return np.rint(3 * X)


#: By name: what becomes of a matrix, and the dask array for it.
ARRAYS = {
    "even": (None, lambda X: da.from_array(X, chunks=(10, P))),
    "uneven": (None, lambda X: da.from_array(X, chunks=((1, 60, 7, 29), P))),
    "with empty chunks": (None, lambda X: da.from_array(X, chunks=((0, 40, 0, 57, 0), P))),
    "one chunk": (None, lambda X: da.from_array(X, chunks=-1)),
    "many": (None, lambda X: da.from_array(X, chunks=(3, P))),
    "unknown sizes": (None, lambda X: _unknown(X, (30, 40, 27))),
    "columns apart": (None, lambda X: da.from_array(X, chunks=(25, 2))),
    "unknown, columns apart": (None, lambda X: _unknown(X, (50, 47)).rechunk({1: 3})),
    "columns first": (None, lambda X: da.from_array(np.asfortranarray(X), chunks=(33, P))),
    "float32": (
        lambda X: X.astype(np.float32).astype(float),
        lambda X: da.from_array(X.astype(np.float32), chunks=(30, P)),
    ),
    "int": (_integers, lambda X: da.from_array(X.astype(np.int32), chunks=(30, P))),
    "bool": (
        lambda X: (X > 0).astype(float),
        lambda X: da.from_array(X > 0, chunks=(30, P)),
    ),
}


def pair(name):
    """The dask array, and the matrix in float64."""
    change, make = ARRAYS[name]
    X = matrix() if change is None else change(matrix())
    return make(X), X
