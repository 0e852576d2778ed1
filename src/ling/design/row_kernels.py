"""Steps that compiled loops share: they become part of the loop that calls them.

numba's cache on disk does not notice changes of this file, only of those with the loops.
"""

from __future__ import annotations

from typing import Any

from numba import njit


@njit(nogil=True, error_model="numpy", inline="always")
def add4(out: Any, i: int, c: int, s0: Any, s1: Any, s2: Any, s3: Any) -> None:
    """Add four numbers to out[i, c : c + 4]."""
    out[i, c] += s0
    out[i, c + 1] += s1
    out[i, c + 2] += s2
    out[i, c + 3] += s3


@njit(nogil=True, error_model="numpy", inline="always")
def transform_row(
    scale: Any, shift: Any, post: Any, row_output: Any, i: int, u: Any, out: Any
) -> Any:
    """Write scale[i] u - shift[i] to row_output[i]; return post[i] times that."""
    row_output[i] = scale[i] * u - shift[i]
    return out.dtype.type(post[i] * row_output[i])
