"""Array helpers shared by all designs: slicing and scaling of rows, and dtype checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ling._typing import Array
from ling.errors import InputTypeError, LingError, ShapeError
from ling.linalg import threads

FLOAT64_MAX = float(np.finfo(np.float64).max)
# Numbers that NumPy should find in its innermost loop: with 256, what surrounds the loop no longer
# shows. For fewer rows than MIN_LONG_ROWS, making the loops long takes longer than it saves.
MIN_INNER_LENGTH, MIN_LONG_ROWS = 256, 2000
# Numbers of a temporary array that stays in cache.
CACHED_ELEMENTS = 2**15


def constant_array(shape: tuple[int, ...], value: float) -> Array:
    """Return a read-only array of equal values that takes the memory of one."""
    # As `np.broadcast_to`, which takes longer than a pass over a small X.
    array: Array = np.ndarray(shape, np.float64, np.float64(value), strides=(0,) * len(shape))
    return array


def broadcast_scalar(n: int, value: float = 1.0) -> Array:
    """Return a read-only (n,) array of equal values that takes the memory of one."""
    return constant_array((n,), value)


def row_slices(n: int, height: int) -> Iterator[slice]:
    """Yield consecutive slices of at most `height` rows that cover n rows; one empty if n is 0."""
    for start in range(0, max(n, 1), height):
        yield slice(start, min(start + height, n))


def n_columns(A: Array) -> int:
    """Return the number of columns of A; 1 if it is a vector."""
    return 1 if A.ndim == 1 else A.shape[1]


def as_slice(rows: NDArray[np.intp]) -> slice | None:
    """Return the slice that equals the indices `rows`, or None if they are not consecutive."""
    first, count = (int(rows[0]), len(rows)) if len(rows) else (0, 0)
    if np.array_equal(rows, np.arange(first, first + count)):
        return slice(first, first + count)
    return None


def scale_rows(A: Array, scale: Array | None) -> Array:
    """Return diag(scale) A for A of one or two dimensions; A itself if `scale` is None."""
    if scale is None:
        return A
    scale = scale.astype(A.dtype, copy=False)
    return A * (scale if A.ndim == 1 else scale[:, None])


def weighted_magnitudes(weights: Array, W: Array) -> Array:
    """Return weights'|W|, (t,), without an array of the size of W (p, t).

    For m rows of weights, (m, p), the result is (m, t). For a stack of matrices W, (k, p, t), it is
    (k, t) or (k, m, t).
    """
    if W.ndim == 3:
        height = max(1, CACHED_ELEMENTS // max(1, W.shape[1] * W.shape[2]))
        parts = [weights @ np.abs(W[some]) for some in row_slices(len(W), height)]
        return np.concatenate(parts)
    p, t = W.shape
    if p * t <= CACHED_ELEMENTS:
        return np.asarray(weights @ np.abs(W))
    height = max(1, CACHED_ELEMENTS // max(1, t))

    def sweep(part: slice) -> Array:
        total: Array = np.zeros((*weights.shape[:-1], t))
        part_weights, part_of_W = weights[..., part], W[part]
        for rows in row_slices(len(part_of_W), height):
            total += part_weights[..., rows] @ np.abs(part_of_W[rows])
        return total

    with threads.single_threaded_blas():
        return threads.parallel_sum(sweep, threads.row_parts(W))


def subtract_row(A: Array, row: Array, out: Array) -> Array:
    """Write A - row to `out`, which may be A, and return it; `row` has one number per column.

    Several short rows are one long row: NumPy takes three times as long for rows of ten numbers.
    """
    n, k = A.shape
    height = MIN_INNER_LENGTH // k if k > 1 and n >= MIN_LONG_ROWS else 1
    if height > 1 and A.flags.c_contiguous and out.flags.c_contiguous:
        end = n - n % height
        long_rows, long_out = A[:end].reshape(-1, height * k), out[:end].reshape(-1, height * k)
        np.subtract(long_rows, np.tile(row, height), out=long_out, casting="same_kind")
        np.subtract(A[end:], row, out=out[end:], casting="same_kind")
        return out
    return np.subtract(A, row, out=out, casting="same_kind")


def as_numeric_array(values: Any, name: str) -> np.ndarray[Any, Any]:
    """Return `values` as an array of real numbers, without a copy if it is an array already.

    Error messages call it `name`.
    """
    if isinstance(values, np.ma.MaskedArray):
        raise InputTypeError(
            name, "is a masked array", f"fill or drop the masked entries and pass {name}.data"
        )
    try:
        array = np.asarray(values)
    except LingError:  # of a Dataset, which is no array
        raise
    except ValueError as error:
        raise InputTypeError(
            name, f"cannot be read as an array ({error})", "pass rows of equal length"
        ) from error
    float_dtype(array.dtype, name)
    return array


def float_dtype(dtype: np.dtype[Any], name: str = "X") -> np.dtype[Any]:
    """Float32 for float32 and float64 for every other real dtype; raises InputTypeError else."""
    if dtype.kind == "c":
        raise InputTypeError(
            name,
            "is complex",
            "pass its real part",
            "pass its real and imaginary parts as separate columns",
        )
    if dtype.kind not in "fiub":
        raise InputTypeError(
            name,
            f"has dtype {dtype}",
            f"pass numbers, such as {name}.astype(float)",
            "encode text and categories as numbers first",
        )
    return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)


def dimensions_error(shape: tuple[int, ...]) -> ShapeError:
    """The error for X of this `shape`, which does not have two dimensions."""
    return ShapeError(
        "X",
        f"has shape {shape}",
        "pass shape (n_samples, n_features), by X.reshape(-1, 1) if it is one feature or "
        "X.reshape(1, -1) if it is one sample",
    )
